"""What analyses keep of a host, while its events are there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from fastprof._native import records
from fastprof.decode.selection import Steps
from fastprof.derive.host import Choice, Host
from fastprof.derive.ops import impossible_events
from fastprof.derive.ops.record_checks import HostRecords, records_of
from fastprof.derive.steps.step_source import NOTHING, is_name
from fastprof.errors import CaptureError, MemoryLimitError
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_reader import read_host

if TYPE_CHECKING:
    from fastprof.analyses.contract import Analysis, Keeper
    from fastprof.tables.needs import Needs
    from fastprof.tables.open_session import OpenSession
    from fastprof.tables.table_set import TableSet


@dataclass(frozen=True, slots=True)
class Plan:
    """What is computed of each host. ``names``: the requested analyses; ``analyses``: these and their prerequisites;
    ``params``: those of each; ``given``: the parameters as they were given; ``needs``: of all together; ``source``:
    what steps are made from."""

    names: tuple[str, ...]
    analyses: Mapping[str, Analysis]
    params: Mapping[str, Any]
    given: Mapping[str, Any]
    steps: Steps | None
    keepers: Mapping[str, Keeper]
    needs: Needs
    source: str


@dataclass(slots=True)
class KeptOfHosts:
    """What is kept of a host, or of several that follow each other. ``host``, ``path``: of the first one. ``level``:
    how often hosts were merged, 32 at a time. ``kept``, ``of_form``: by name of the analysis, and of the keeper, in the
    order of the hosts; of an analysis that merges, a value may stand for several. ``errors``: why an analysis has none.
    ``of_no_step``: events that belong to no step, if steps are chosen; ``of_steps``: those of the chosen ones;
    ``repeated``: that several of these have one number, if they do; ``unnamed``: why none has steps of the wanted name;
    ``records``: checks of each host's records.
    """

    host: str
    path: str
    hosts: int = 1
    level: int = 0
    kept: dict[str, list[Any]] = field(default_factory=dict)
    of_form: dict[str, list[Any]] = field(default_factory=dict)
    errors: dict[str, CaptureError] = field(default_factory=dict)
    of_no_step: int = 0
    of_steps: int = 0
    repeated: str | None = None
    unnamed: str | None = None
    records: list[HostRecords] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Facts:
    """What hosts are, for the reports of all. ``sources``: the formats that their captures were made from, None: an
    XSpace; ``events``: how many there are."""

    sources: frozenset[str | None]
    events: int


def keep(
    tables: TableSet, number: int, plan: Plan, choice: Choice | None = None, without: Collection[str] = ()
) -> KeptOfHosts:
    """What is kept of a host of the tables. ``choice``: which of its groups are the chosen steps; ``without``: analyses
    that keep nothing."""
    host = read(tables, number, plan.needs)
    capture = tables.session.captures[number]
    found = KeptOfHosts(capture.host, capture.path)
    if is_name(plan.source) and (made := host.source_of_steps(plan.source)).source == NOTHING:
        found.unnamed = made.why
    if plan.steps is not None and choice is not None:
        found.of_no_step = int(np.count_nonzero(host.groups.group_id < 0))
        host = host.of_steps(choice, plan.steps if "steps" in plan.analyses else None, plan.source)
        found.of_steps, found.repeated = len(host.groups.group_id), host.repeated
    if any(rests_on_devices(plan.analyses[name]) for name in plan.names):
        with faults_named(found.host, found.path):
            found.records = [records_of(host.entire.raw)]
    for name in [name for name in plan.analyses if name not in without]:
        of_host = _of_host(plan, name)
        try:
            with faults_named(found.host, found.path):
                found.kept[name] = [of_host(host, plan.params[name])]
        except CaptureError as error:
            found.errors[name] = error
    for name, keeper in plan.keepers.items():
        with faults_named(found.host, found.path):
            found.of_form[name] = [keeper.of_host(host, plan.given)]
    host.drop()
    return found


def rests_on_devices(analysis: Analysis) -> bool:
    """Return whether answers of the analysis change if records of devices are missing or wrong."""
    return not any(getattr(analysis, mark, False) for mark in ("OF_PROGRAMS", "OF_HOSTS"))


def _of_host(plan: Plan, name: str) -> Any:
    """What keeps something of each host for an analysis."""
    analysis = plan.analyses[name]
    if plan.keepers or name in plan.names:
        return analysis.of_host
    return getattr(analysis, "of_host_for_others", analysis.of_host)


def read(tables: TableSet, number: int, needs: Needs) -> Host:
    """A host with what is needed."""
    capture = tables.session.captures[number]
    with faults_named(capture.host, capture.path):
        ids = [name for name in impossible_events.STATS if capture.declares(name).any()]
        stats = tuple(dict.fromkeys((*needs.stats_of(capture.plane_keys), *ids)))
        events = read_host(tables, number, needs.planes, stats, needs.metadata_stats)
        events = impossible_events.without_impossible(events, entire=not tables.selection.filters_events)
        many = tables.selection.hosts_of(tables.session.files)
        return Host(events, tables.session.workers, session_hosts=many)


def facts(session: OpenSession, numbers: Collection[int]) -> Facts:
    """Of these hosts the formats, of the session the events."""
    session.index.ensure(records.HOP)
    return Facts(sources(session, numbers), int(session.index.lines["event_count"].sum()))


def sources(session: OpenSession, numbers: Collection[int]) -> frozenset[str | None]:
    """The formats that captures were made from; None: an XSpace."""
    return frozenset(session.index.captures[number].environment.transcribed_from for number in numbers)


@contextmanager
def faults_named(host: str | None, path: str | None) -> Iterator[None]:
    """Adds the host, if it is one, to errors about numbers beyond 64 bits and about memory. Damaged numbers of a
    capture may overflow in any computation."""
    of = "" if host is None else f" (host {host})"
    try:
        yield
    except CaptureError as error:
        if host is None or error.path is not None:
            raise
        named = f"host {host}" in error.message
        raise type(error)(error.message + ("" if named else of), path=path) from error
    except OverflowError as error:
        raise CaptureError(f"times or sizes are more than 64 bits can count{of}", path=path) from error
    except MemoryError as error:
        if isinstance(error, MemoryLimitError):
            raise
        raise MemoryLimitError(f"out of memory in the analysis{of}", path=path) from error
