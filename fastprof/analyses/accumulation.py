"""Accumulation of hosts: the state that analyses keep of each host, its chosen steps, and how host states are merged.

hosts   0 … 31 ──► a group ──┐
hosts  32 … 63 ──► a group ──┼──► 32 groups ──► a group of groups
hosts  64 … 95 ──► a group ──┘
hosts  96 … 127    the last ones, at most 32, stay as they are

A group is merged when a host comes after it, so up to 32 hosts stay unmerged. Groups are the same wherever hosts are
read: sums of floats, which depend on the order, are equal too.

A single host finds the groups of chosen steps itself. With several hosts, this takes the steps of all.
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
    """State of a host, or of several adjacent hosts.

    ``host``, ``path``: those of the first host. ``level``: how often hosts were merged, 32 at a time. ``kept``,
    ``of_form``: host states by analysis and by keeper, in host order; a merged value stands for several hosts.
    ``errors``: errors of analyses without a value. ``of_no_step``, ``of_steps``: counts of events outside and inside
    the chosen steps. ``repeated``: a remark if several chosen steps share a number. ``unnamed``: why no step has the
    wanted name. ``records``: record checks by host. ``selects_nothing``: conditions on events are met by none.
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
    selects_nothing: bool = False


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Facts about a session for every report. ``sources``: source formats of its captures, None for an XSpace;
    ``events``: event count."""

    sources: frozenset[str | None]
    events: int


def keep_host(
    tables: TableSet, number: int, plan: HostPlan, choice: Choice | None = None, without: Collection[str] = ()
) -> HostStates:
    """Return the state of host ``number``. ``choice``: groups of its chosen steps; ``without``: analyses to skip."""
    host = load_host(tables, number, plan.needs)
    capture = tables.session.captures[number]
    state = HostStates(capture.host, capture.path)
    state.selects_nothing = tables.selection.filters_events and not len(host.raw)
    if is_step_name(plan.source) and (made := host.source_of_steps(plan.source)).source == NOTHING:
        state.unnamed = made.why
    if plan.steps is not None and choice is not None:
        state.of_no_step = int(np.count_nonzero(host.groups.group_id < 0))
        host = host.of_steps(choice, plan.steps if "steps" in plan.analyses else None, plan.source)
        state.of_steps, state.repeated = len(host.groups.group_id), host.repeated
    if any(is_of_devices(plan.analyses[name]) for name in plan.names):
        with add_host_to_errors(state.host, state.path):
            state.records = [check_records(host.entire.raw)]
    for name, analysis in plan.analyses.items():
        if name in without:
            continue
        requested = plan.keepers or name in plan.names
        of_host: Any = analysis.of_host if requested else getattr(analysis, "of_host_for_others", analysis.of_host)
        try:
            with add_host_to_errors(state.host, state.path):
                state.kept[name] = [of_host(host, plan.params[name])]
        except CaptureError as error:
            state.errors[name] = error
    for name, keeper in plan.keepers.items():
        with add_host_to_errors(state.host, state.path):
            state.of_form[name] = [keeper.of_host(host, plan.given)]
    host.drop()
    return state


def is_of_devices(analysis: Analysis) -> bool:
    """Return whether missing or wrong device records change the answers of the analysis."""
    return not any(getattr(analysis, mark, False) for mark in ("OF_PROGRAMS", "OF_HOSTS"))


def load_host(tables: TableSet, number: int, needs: Needs) -> Host:
    """Read a host with the needed planes and stats."""
    capture = tables.session.captures[number]
    with add_host_to_errors(capture.host, capture.path):
        ids = [name for name in record_checks.RECORD_STATS if capture.declares(name).any()]
        stats = tuple(dict.fromkeys((*needs.stats_of(capture.plane_keys), *ids)))
        events = read_host(tables, number, needs.planes_of(capture.plane_keys), stats, needs.metadata_stats)
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
    """Add the host, if given, to errors about 64-bit overflow and about memory.

    Damaged numbers of a capture may overflow in any computation.
    """
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
    """Packed value. ``unpack`` makes the value at each call."""

    __slots__ = ("unpack",)

    def __init__(self, unpack: Callable[[], T]) -> None:
        self.unpack = unpack


def _return_value(value: Any) -> Any:
    return value


class LazyHostValues(Sequence[T]):
    """Host values in host order; a packed value is unpacked at each access. ``part`` selects what is wanted of it."""

    def __init__(self, values: Sequence[Any], part: Callable[[Any], T] = _return_value) -> None:
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
        """Select the values at ``places``."""
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


class Hosts(Protocol):
    """Hosts of a session, wherever they are read; see ``SessionHosts``."""

    @property
    def log(self) -> ImportLog: ...

    @property
    def alone(self) -> bool: ...

    def steps(self, source: str) -> list[HostSteps]: ...

    def kept(
        self, plan: HostPlan, choices: Sequence[Choice] | None, without: Collection[str]
    ) -> Iterable[HostStates]: ...

    def facts(self) -> SessionFacts: ...


def choose_steps(hosts: Hosts, steps: Steps, source: str) -> list[Choice]:
    """Return the wanted groups of each host; a single host chooses them itself from ``steps``."""
    return [steps] if hosts.alone else [*find_step_groups(hosts.steps(source), steps)]


def read_host_steps(tables: TableSet, hosts: Sequence[int], source: str = AUTO) -> list[HostSteps]:
    """Return the steps of hosts from all their events, whatever else is selected."""
    needs = importlib.import_module("fastprof.analyses.steps").READS
    every = TableSet(tables.session, Selection(tables.selection.hosts))
    steps = []
    for number in hosts:
        events = read_host(every, number, needs.planes, needs.stats, needs.metadata_stats)
        host = Host(drop_impossible_events(events, entire=True), tables.session.workers)
        steps.append(host.steps_from(source))
    return steps


def explain_missing_steps(hosts: Sequence[HostSteps], steps: Steps) -> str:
    """Return the sentence that lists the available steps if hosts have none of the requested ones."""
    from fastprof.derive.steps.step_alignment import pair_steps

    database = pair_steps(hosts)
    return step_source.describe_missing_steps(steps, database.number, database.label)


def find_step_groups(hosts: Sequence[HostSteps], steps: Steps) -> list[Int64s]:
    """Return, per host, the groups of these steps.

    Steps that some hosts lack are chosen by their number on the host, unless hosts number steps differently.
    """
    from fastprof.derive.steps.step_alignment import pair_steps

    database = pair_steps(hosts)
    common = database.group[are_chosen(database.number, database.label, steps)]
    chosen = []
    for place, host in enumerate(hosts):
        groups, own = common[:, place], host.database
        if not database.differs:
            alone = are_chosen(own.number, own.label, steps) & ~np.isin(own.step, database.group[:, place])
            groups = np.concatenate([groups, own.step[alone]])
        chosen.append(groups[groups >= 0])
    return chosen


def read_step_times(tables: TableSet, steps: Steps) -> dict[str, tuple[int, int]]:
    """Return the start of the first and the end of the last step of each selected host, in ps.

    A step on several cores or devices starts with the first of these and ends with the last. The selection of events
    does not change the steps of a host. UsageError: no host has any of the steps.
    """
    hosts = list_selected(tables)
    names = [tables.session.hosts[number] for number in hosts]
    return find_step_times(names, read_host_steps(tables, hosts), steps)


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
        raise UsageError(explain_missing_steps(every, steps))
    return times


GROUP: Final = 32


class HostMerger:
    """Merger of host states. ``together`` merges the states of 32 hosts, or of 32 groups of hosts."""

    def __init__(self, together: Callable[[Sequence[HostStates]], HostStates]) -> None:
        self._together = together
        self._levels: list[list[HostStates]] = []

    def add(self, state: HostStates) -> None:
        """Add the state of the next host, in session order."""
        while len(self._levels) <= state.level:
            self._levels.append([])
        level = self._levels[state.level]
        if len(level) == GROUP:
            self._levels[state.level] = []
            self.add(self._together(level))
        self._levels[state.level].append(state)

    def parts(self) -> Iterator[HostStates]:
        """Yield all states in session order, and forget each when the next one is taken."""
        for level in reversed(self._levels):
            level.reverse()
            while level:
                yield level.pop()


def count_groups(hosts: int) -> Iterator[int]:
    """Yield the number of groups of 32 at each level above single hosts."""
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
    """Merge the states of adjacent hosts. ``without``: analyses to drop."""
    merged = join_states(parts)
    merged.level = parts[0].level + 1
    shared: dict[Any, Any] = {}
    for name, values in [*merged.kept.items()]:
        if name in without or name in merged.errors:
            del merged.kept[name]
        elif is_merged(plan, name):
            merge: Any = plan.analyses[name].merge  # type: ignore[attr-defined]
            try:
                with add_host_to_errors(None, None):
                    merged.kept[name] = [merge(values, plan.params[name], shared)]
            except CaptureError as error:
                merged.errors[name] = error
                del merged.kept[name]
    return merged


def join_states(parts: Iterable[HostStates]) -> HostStates:
    """Concatenate the values of all states, in order."""
    joined = HostStates("", "", 0)
    for part in parts:
        if not joined.hosts:
            joined.host, joined.path, joined.unnamed = part.host, part.path, part.unnamed
            joined.selects_nothing = True
        joined.hosts, joined.of_no_step = joined.hosts + part.hosts, joined.of_no_step + part.of_no_step
        joined.of_steps, joined.repeated = joined.of_steps + part.of_steps, joined.repeated or part.repeated
        joined.unnamed = joined.unnamed and part.unnamed
        joined.selects_nothing &= part.selects_nothing
        joined.records += part.records
        for into, values in ((joined.kept, part.kept), (joined.of_form, part.of_form)):
            for name in values:
                into.setdefault(name, []).extend(values[name])
        joined.errors |= {name: error for name, error in part.errors.items() if name not in joined.errors}
    return joined


class SessionHosts:
    """Selected hosts of a session, read in this process."""

    def __init__(self, tables: TableSet) -> None:
        self.tables = tables
        self.log: ImportLog = tables.session.log
        self.numbers = list_selected(tables)

    @property
    def alone(self) -> bool:
        """Return whether at most one host is selected."""
        return len(self.numbers) < 2

    def steps(self, source: str) -> list[HostSteps]:
        return read_host_steps(self.tables, self.numbers, source)

    def kept(self, plan: HostPlan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[HostStates]:
        """Yield the state of each host. ``choices``: groups of the chosen steps by host. ``without``: analyses to skip
        from the next host on; it grows while hosts are read."""
        workers = self.tables.session.workers
        for done, number in enumerate(self.numbers):
            state = keep_host(self.tables, number, plan, None if choices is None else choices[done], without)
            if len(self.numbers) > 1:
                workers.report(HOSTS_READ, done + 1, len(self.numbers))
            yield state

    def facts(self) -> SessionFacts:
        return get_session_facts(self.tables.session, self.numbers)


def list_selected(tables: TableSet) -> list[int]:
    """Return the numbers of the selected hosts."""
    wanted = tables.selection.hosts
    return [i for i, host in enumerate(tables.session.hosts) if wanted is None or host in wanted]
