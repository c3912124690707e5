"""Accumulation of hosts: what analyses keep of each host, which of its steps are chosen, and how hosts are merged.

hosts   0 … 31 ──► a group ──┐
hosts  32 … 63 ──► a group ──┼──► 32 groups ──► a group of groups
hosts  64 … 95 ──► a group ──┘
hosts  96 … 127    the last ones, at most 32, stay as they are

A group is merged when a host comes after it, so up to 32 hosts are as they were kept. Wherever hosts are read, groups
are the same: sums of floats, which depend on the order, are equal too.

A single host finds the groups of chosen steps itself. Of several hosts, the steps of all are needed for that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, overload

import numpy as np

from fastprof._native import records
from fastprof.decode.selection import Selection
from fastprof.decode.workers import HOSTS_READ
from fastprof.derive.host import Choice, Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.record_checks import HostRecords, check_records, drop_impossible_events
from fastprof.derive.steps import step_source
from fastprof.derive.steps.step_source import AUTO, NOTHING, are_chosen, is_step_name
from fastprof.errors import CaptureError, MemoryLimitError, UsageError
from fastprof.schema.columns import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet
from fastprof.wording.amounts import Steps

if TYPE_CHECKING:
    from fastprof.analyses.contract import Analysis, Keeper
    from fastprof.decode.import_log import ImportLog
    from fastprof.derive.steps.host_steps import HostSteps
    from fastprof.tables.needs import Needs
    from fastprof.tables.table_set import OpenSession


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Plan for each host. ``names``: the requested analyses; ``analyses``: these and their prerequisites; ``params``:
    the parameters of each; ``given``: the parameters as given; ``needs``: the union of their needs; ``source``: the
    step source."""

    names: tuple[str, ...]
    analyses: Mapping[str, Analysis]
    params: Mapping[str, Any]
    given: Mapping[str, Any]
    steps: Steps | None
    keepers: Mapping[str, Keeper]
    needs: Needs
    source: str


@dataclass(slots=True)
class HostStates:
    """State of a host, or of several adjacent hosts. ``host``, ``path``: of the first one. ``level``:
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
class SessionFacts:
    """Facts about a session for every report. ``sources``: the source formats of its captures, None for an XSpace;
    ``events``: the event count."""

    sources: frozenset[str | None]
    events: int


def keep_host(
    tables: TableSet, number: int, plan: HostPlan, choice: Choice | None = None, without: Collection[str] = ()
) -> HostStates:
    """Read the state of host ``number``. ``choice``: its groups that are the chosen steps; ``without``: analyses that
    keep nothing."""
    host = load_host(tables, number, plan.needs)
    capture = tables.session.captures[number]
    found = HostStates(capture.host, capture.path)
    if is_step_name(plan.source) and (made := host.source_of_steps(plan.source)).source == NOTHING:
        found.unnamed = made.why
    if plan.steps is not None and choice is not None:
        found.of_no_step = int(np.count_nonzero(host.groups.group_id < 0))
        host = host.of_steps(choice, plan.steps if "steps" in plan.analyses else None, plan.source)
        found.of_steps, found.repeated = len(host.groups.group_id), host.repeated
    if any(is_of_devices(plan.analyses[name]) for name in plan.names):
        with add_host_to_errors(found.host, found.path):
            found.records = [check_records(host.entire.raw)]
    for name in [name for name in plan.analyses if name not in without]:
        of_host = _get_host_function(plan, name)
        try:
            with add_host_to_errors(found.host, found.path):
                found.kept[name] = [of_host(host, plan.params[name])]
        except CaptureError as error:
            found.errors[name] = error
    for name, keeper in plan.keepers.items():
        with add_host_to_errors(found.host, found.path):
            found.of_form[name] = [keeper.of_host(host, plan.given)]
    host.drop()
    return found


def is_of_devices(analysis: Analysis) -> bool:
    """Return whether missing or wrong device records change the answers of the analysis."""
    return not any(getattr(analysis, mark, False) for mark in ("OF_PROGRAMS", "OF_HOSTS"))


def _get_host_function(plan: HostPlan, name: str) -> Any:
    """Return the function that reads a host for an analysis."""
    analysis = plan.analyses[name]
    if plan.keepers or name in plan.names:
        return analysis.of_host
    return getattr(analysis, "of_host_for_others", analysis.of_host)


def load_host(tables: TableSet, number: int, needs: Needs) -> Host:
    """Read a host with the needed planes and stats."""
    capture = tables.session.captures[number]
    with add_host_to_errors(capture.host, capture.path):
        ids = [name for name in record_checks.RECORD_STATS if capture.declares(name).any()]
        stats = tuple(dict.fromkeys((*needs.stats_of(capture.plane_keys), *ids)))
        events = read_host(tables, number, needs.planes, stats, needs.metadata_stats)
        events = record_checks.drop_impossible_events(events, entire=not tables.selection.filters_events)
        many = tables.selection.hosts_of(tables.session.files)
        return Host(events, tables.session.workers, session_hosts=many)


def get_session_facts(session: OpenSession, numbers: Collection[int]) -> SessionFacts:
    """Return the formats of these hosts and the event count of the session."""
    session.index.ensure(records.HOP)
    return SessionFacts(list_formats(session, numbers), int(session.index.lines["event_count"].sum()))


def list_formats(session: OpenSession, numbers: Collection[int]) -> frozenset[str | None]:
    """Return the source formats of captures; None is an XSpace."""
    return frozenset(session.index.captures[number].environment.transcribed_from for number in numbers)


@contextmanager
def add_host_to_errors(host: str | None, path: str | None) -> Iterator[None]:
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


T = TypeVar("T")


class PackedValue(Generic[T]):
    """A value that is packed. ``unpack``: makes it, each time that it is called."""

    __slots__ = ("unpack",)

    def __init__(self, unpack: Callable[[], T]) -> None:
        self.unpack = unpack


def _return_value(value: Any) -> Any:
    return value


class LazyHostValues(Sequence[T]):
    """Values of hosts, in their order; those that are packed are unpacked each time that they are looked at."""

    def __init__(self, values: Sequence[Any], part: Callable[[Any], T] = _return_value) -> None:
        """``part``: what is wanted of each."""
        self._values, self._part = values, part

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> LazyHostValues[T]: ...
    def __getitem__(self, at: int | slice) -> T | LazyHostValues[T]:
        if isinstance(at, slice):
            return LazyHostValues(self._values[at], self._part)
        value = self._values[at]
        return self._part(value.unpack() if isinstance(value, PackedValue) else value)

    def only(self, places: Sequence[int]) -> LazyHostValues[T]:
        """Some of them."""
        values = self._values
        return LazyHostValues(
            values.only(places) if isinstance(values, LazyHostValues) else [values[at] for at in places], self._part
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all values, unpacked."""
        values = [value.unpack() if isinstance(value, PackedValue) else value for value in self._values]
        return type(self), (values, self._part)

    def __iter__(self) -> Iterator[T]:
        return (self[at] for at in range(len(self)))


class HostsWithSteps(Protocol):
    """Whose steps are chosen. ``alone``: whether there is one host, or none."""

    @property
    def alone(self) -> bool: ...

    def steps(self, source: str) -> list[HostSteps]: ...


def choose_steps(hosts: HostsWithSteps, steps: Steps, source: str) -> list[Choice]:
    """Return the wanted groups of each host; a single host chooses them itself from ``steps``."""
    return [steps] if hosts.alone else [*find_step_groups(hosts.steps(source), steps)]


def read_host_steps(tables: TableSet, hosts: Sequence[int], source: str = AUTO) -> list[HostSteps]:
    """The steps of hosts with all their events, whatever else is selected."""
    needs = importlib.import_module("fastprof.analyses.steps").READS
    every = TableSet(tables.session, Selection(tables.selection.hosts))
    found = []
    for number in hosts:
        events = read_host(every, number, needs.planes, needs.stats, needs.metadata_stats)
        host = Host(drop_impossible_events(events, entire=True), tables.session.workers)
        found.append(host.steps_from(source))
    return found


def explain_missing_steps(hosts: HostsWithSteps, steps: Steps, source: str) -> str:
    """Return the sentence that lists the available steps if hosts have none of the requested ones."""
    return _explain_missing(hosts.steps(source), steps)


def _explain_missing(hosts: Sequence[HostSteps], steps: Steps) -> str:
    from fastprof.derive.steps.step_alignment import pair_steps

    database = pair_steps(hosts)
    return step_source.describe_missing_steps(steps, database.number, database.label)


def find_step_groups(hosts: Sequence[HostSteps], steps: Steps) -> list[Int64s]:
    """Return the groups of each host that are these steps. Steps that some hosts lack are chosen by their number on
    the host, unless hosts number steps differently."""
    from fastprof.derive.steps.step_alignment import pair_steps

    database = pair_steps(hosts)
    common = database.group[are_chosen(database.number, database.label, steps)]
    found = []
    for place, host in enumerate(hosts):
        groups, own = common[:, place], host.database
        if not database.differs:
            alone = are_chosen(own.number, own.label, steps) & ~np.isin(own.step, database.group[:, place])
            groups = np.concatenate([groups, own.step[alone]])
        found.append(groups[groups >= 0])
    return found


def read_step_times(tables: TableSet, steps: Steps) -> dict[str, tuple[int, int]]:
    """Return the start of the first and the end of the last step of each selected host, in ps.

    A step on several cores or devices starts with the first of these and ends with the last. The selection of events
    does not change the steps of a host. UsageError: no host has any of the steps.
    """
    names, wanted_hosts = tables.session.hosts, tables.selection.hosts
    hosts = [number for number, name in enumerate(names) if wanted_hosts is None or name in wanted_hosts]
    return find_step_times([names[number] for number in hosts], read_host_steps(tables, hosts), steps)


def find_step_times(names: Sequence[str], every: Sequence[HostSteps], steps: Steps) -> dict[str, tuple[int, int]]:
    """Return begin and end of the chosen steps by host name. UsageError: no host has any of the steps."""
    from fastprof.schema.columns import add_durations  # with NumPy, late

    groups = find_step_groups(every, steps)
    times: dict[str, tuple[int, int]] = {}
    for place, name in enumerate(names):
        database = every[place].database
        wanted = database.present & np.isin(database.step, groups[place])[:, np.newaxis]
        if wanted.any():
            begins = database.begin_ps[wanted]
            times[name] = int(begins.min()), int(add_durations(begins, database.duration_ps[wanted]).max())
    if every and not times:
        raise UsageError(_explain_missing(every, steps))
    return times


GROUP: Final = 32


class HostMerger:
    """``together``: makes one of what is kept of 32 hosts, or of 32 groups of hosts."""

    def __init__(self, together: Callable[[Sequence[HostStates]], HostStates]) -> None:
        self._together = together
        self._levels: list[list[HostStates]] = []

    def add(self, one: HostStates) -> None:
        """Hosts come in the order of the session."""
        while len(self._levels) <= one.level:
            self._levels.append([])
        level = self._levels[one.level]
        if len(level) == GROUP:
            self._levels[one.level] = []
            self.add(self._together(level))
        self._levels[one.level].append(one)

    def parts(self) -> Iterator[HostStates]:
        """All, in the order of the session, each forgotten when the next one is taken."""
        for level in reversed(self._levels):
            level.reverse()
            while level:
                yield level.pop()


def count_groups(hosts: int) -> Iterator[int]:
    """How many groups of 32 there are at each level above single hosts."""
    while hosts > GROUP:
        hosts = (hosts - 1) // GROUP
        yield hosts


def is_merged(plan: HostPlan, name: str) -> bool:
    """Return whether an analysis merges hosts. XProf pages show each host, so nothing merges for them."""
    return not plan.keepers and hasattr(plan.analyses[name], "merge")


def is_lazy(plan: HostPlan, name: str) -> bool:
    """Return whether an analysis reads host states one by one. XProf pages take all at once."""
    return not plan.keepers and getattr(plan.analyses[name], "ONE_BY_ONE", False)


def merge_states(parts: Sequence[HostStates], plan: HostPlan, without: Collection[str] = ()) -> HostStates:
    """One of what is kept of hosts that follow each other. ``without``: analyses that keep nothing."""
    found = join_states(parts)
    found.level = parts[0].level + 1
    shared: dict[Any, Any] = {}
    for name, values in [*found.kept.items()]:
        if name in without or name in found.errors:
            del found.kept[name]
        elif is_merged(plan, name):
            merge: Any = plan.analyses[name].merge  # type: ignore[attr-defined]
            try:
                with add_host_to_errors(None, None):
                    found.kept[name] = [merge(values, plan.params[name], shared)]
            except CaptureError as error:
                found.errors[name] = error
                del found.kept[name]
    return found


def join_states(parts: Iterable[HostStates]) -> HostStates:
    """All values in one, in their order."""
    found = HostStates("", "", 0)
    for part in parts:
        if not found.hosts:
            found.host, found.path, found.unnamed = part.host, part.path, part.unnamed
        found.hosts, found.of_no_step = found.hosts + part.hosts, found.of_no_step + part.of_no_step
        found.of_steps, found.repeated = found.of_steps + part.of_steps, found.repeated or part.repeated
        found.unnamed = found.unnamed and part.unnamed
        found.records += part.records
        for into, values in ((found.kept, part.kept), (found.of_form, part.of_form)):
            for name in values:
                into.setdefault(name, []).extend(values[name])
        found.errors |= {name: error for name, error in part.errors.items() if name not in found.errors}
    return found


class SessionHosts:
    """The selected hosts of a run."""

    def __init__(self, tables: TableSet) -> None:
        self.tables = tables
        self.log: ImportLog = tables.session.log
        self.numbers = list_selected(tables)

    @property
    def alone(self) -> bool:
        """Whether there is one, or none."""
        return len(self.numbers) < 2

    def steps(self, source: str) -> list[HostSteps]:
        return read_host_steps(self.tables, self.numbers, source)

    def kept(self, plan: HostPlan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[HostStates]:
        """What is kept of each host. ``choices``: of each host the groups that are the chosen steps. ``without``: grows
        while hosts are read: analyses that keep nothing of the next ones."""
        workers = self.tables.session.workers
        for done, number in enumerate(self.numbers):
            found = keep_host(self.tables, number, plan, None if choices is None else choices[done], without)
            if len(self.numbers) > 1:
                workers.report(HOSTS_READ, done + 1, len(self.numbers))
            yield found

    def facts(self) -> SessionFacts:
        return get_session_facts(self.tables.session, self.numbers)


def list_selected(tables: TableSet) -> list[int]:
    """The numbers of the selected hosts."""
    wanted = tables.selection.hosts
    return [i for i, host in enumerate(tables.session.hosts) if wanted is None or host in wanted]
