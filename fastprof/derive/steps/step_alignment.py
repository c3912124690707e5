"""Alignment of steps over several hosts: which step of one host is which step of another.

If every host records a distinct name for each step, steps of the same name are the same. Otherwise they are aligned by
when they ran: the host whose steps span the least time is the chief, and every other sequence of steps is shifted
against its own by the number of steps at which pairs of steps overlap most. The steps of the session are those that all
hosts then have in common.

Their times on the cores of many hosts are spilled to a temporary file. All cores of some steps are in memory at a time:

    hosts join one after the other          blocks of hosts are cut       a range of steps is read from all blocks
    and make a block [steps, cores]         into pieces by step
    ┌ h0 h1 h2 ┐  ┌ h3 h4 h5 ┐              [0 to m) [m to 2m) ...        [0 to m) of h0 h1 h2 h3 h4 h5
    │          │  │          │      ─►      [0 to m) [m to 2m) ...   ─►   [m to 2m) of h0 h1 h2 h3 h4 h5
    └          ┘  └          ┘                                            ...
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.host_steps import HostSteps
from fastprof.derive.steps.step_database import (
    BY_CORE,
    CORES_PER_HOST,
    IDLE,
    Collectives,
    Cores,
    StepDatabase,
    check_database_size,
    count_steps_per_batch,
    look_up_sorted,
    make_blank_database,
    make_empty_database,
    make_zero_times,
)
from fastprof.derive.steps.step_source import AUTO, CERTAINTY, MARKERS, SOURCES
from fastprof.schema.columns import ArrayRows, Bools, Int64s, add_durations, number_values
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_spill import Stored
from fastprof.wording.quantities import list_few


@dataclass(frozen=True, slots=True)
class StepExtents(ArrayRows):
    """Extents of the steps of a host, over all of its cores; steps without cores last no time."""

    begin_ps: Int64s
    end_ps: Int64s

    def length_ps(self) -> int:
        """Return the time from the begin of the first to the end of the last."""
        some = self.end_ps > self.begin_ps
        return int(self.end_ps[some].max() - self.begin_ps[some].min()) if some.any() else 0


def bound_steps(present: Bools, begin_ps: Int64s, duration_ps: Int64s) -> StepExtents:
    """Bound steps, given as [steps, cores]."""
    if not present.shape[1]:
        return StepExtents(*np.zeros((2, len(present)), np.int64))
    begin, end = bound_steps_by_host(present, begin_ps, duration_ps, np.zeros(1, np.intp))
    return StepExtents(begin[:, 0], end[:, 0])


def bound_steps_by_host(
    present: Bools, begin_ps: Int64s, duration_ps: Int64s, first: npt.NDArray[np.intp]
) -> tuple[Int64s, Int64s]:
    """Return begin and end [steps, hosts] of [steps, cores]. ``first``: the first core of each host."""
    begin = np.minimum.reduceat(np.where(present, begin_ps, np.iinfo(np.int64).max), first, axis=1)
    ends = np.where(present, add_durations(begin_ps, duration_ps), np.iinfo(np.int64).min)
    some = np.logical_or.reduceat(present, first, axis=1)
    return np.where(some, begin, 0), np.where(some, np.maximum.reduceat(ends, first, axis=1), 0)


@dataclass(frozen=True, slots=True)
class StepOutline:
    """``steps``: of a host, whose database has no times on cores."""

    steps: HostSteps
    spans: StepExtents


def outline_steps(hosts: Iterable[HostSteps]) -> Iterator[StepOutline]:
    """Yield the outline of each host. What it has in common with the host before is in memory once."""
    before: StepDatabase | None = None
    for host in hosts:
        own = host.database
        rest = own.without_times()
        if before is not None:
            cores = replace(rest.cores, **_find_equal_values(rest.cores, before.cores, _OF_CORES))
            rest = replace(rest, cores=cores, **_find_equal_values(rest, before, _OF_STEPS))
        before = rest
        yield StepOutline(
            replace(host, database=before, marked=None),
            bound_steps(own.present, own.extent_begin_ps, own.extent_ps),
        )


_OF_STEPS: Final = ("step", "number", "name", "label", "numbered", "complete", "has_period", "group", "categories")
_OF_CORES: Final = ("id", "local_id", "host_number", "host", "name", "sparse", "has_details", "device", "shows_input")


def _find_equal_values(current: Any, before: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of ``before`` that are equal to those of ``current``."""
    equal = {}
    for name in names:
        new, old = getattr(current, name), getattr(before, name)
        if np.array_equal(new, old) if isinstance(new, np.ndarray) else new == old:
            equal[name] = old
    return equal


_Arrays: TypeAlias = dict[str, Any]
_MOST_BYTES: Final = 256 << 30
"""What the steps of a session may take in all, before they are compressed."""


@dataclass(frozen=True, slots=True)
class SpilledTimesFile:
    """``blocks``: the cores of hosts and what they have, for every ``many`` steps; ``rows``: which of all steps are
    chosen, ascending."""

    many: int
    blocks: Sequence[tuple[slice, Sequence[Stored[_Arrays]]]]
    rows: Int64s

    def chosen(self, steps: Bools) -> SpilledTimesFile:
        return replace(self, rows=self.rows[steps])

    def stretches(self, steps: StepDatabase) -> Iterator[StepDatabase]:
        """Yield batches of steps with their times. ``steps``: the chosen steps, without times."""
        numbers = self.rows // self.many
        for number in np.unique(numbers).tolist() or [0]:
            own = numbers == number
            some = replace(steps, aside=None).chosen(own)
            yield replace(some, **self._read(steps, number, self.rows[own] - number * self.many))

    def _read(self, steps: StepDatabase, number: int, rows: Int64s) -> _Arrays:
        times = make_zero_times(steps.hardware, len(rows), len(steps.cores), len(steps.categories))
        for cores, pieces in self.blocks:
            for name, values in pieces[number].value().items() if len(rows) else ():
                times[name][:, cores] = values[rows]
        return times


def attach_times(
    steps: StepDatabase, databases: Iterable[StepDatabase], rows: Sequence[Int64s], *, in_memory: bool = False
) -> StepDatabase:
    """Attach times to ``steps`` that hosts have in common: in a temporary file if they are many, unless they have to be
    ``in_memory``. ``databases``: of each host that takes part, ``rows``: rows of the steps in each. Raises
    MemoryLimitError, and UnreadableError if the disk has no room for them."""
    count, cores, categories = len(steps), len(steps.cores), len(steps.categories)
    many = count if in_memory else count_steps_per_batch(cores)
    check_database_size(min(count, many), cores, categories, steps.hardware)
    check_database_size(count, cores, categories, steps.hardware, _MOST_BYTES)
    if count <= many:
        ((_, times),) = _join_blocks(steps, databases, rows, cores)
        return replace(steps, **times)
    pieces = [slice(first, first + many) for first in range(0, count, many)]
    blocks = [
        (own, [Stored({name: times[name][piece] for name in times if times[name][piece].any()}) for piece in pieces])
        for own, times in _join_blocks(steps, databases, rows, count_steps_per_batch(count))
    ]
    return replace(steps, aside=SpilledTimesFile(many, blocks, np.arange(count)))


def _join_blocks(
    steps: StepDatabase, databases: Iterable[StepDatabase], rows: Sequence[Int64s], most: int
) -> Iterator[tuple[slice, _Arrays]]:
    """Yield blocks of about ``most`` cores: which cores they are, and their times."""
    first = used = width = 0
    times = make_zero_times(steps.hardware, len(steps), 0, len(steps.categories))
    for database, row in zip(databases, rows, strict=True):
        own = len(database.cores)
        if used + own > width:
            if used:
                yield slice(first, first + used), {name: times[name][:, :used] for name in times}
            first, used = first + used, 0
            width = min(max(most, own), len(steps.cores) - first)
            times = make_zero_times(steps.hardware, len(steps), width, len(steps.categories))
        cores = slice(used, used + own)
        for name in BY_CORE:
            values = getattr(database, name)
            if name == "category_ps":
                places = [steps.categories.index(category) for category in database.categories]
                times[name][:, cores, places] = values[row]
            elif values.size and values.any() and (name != "type_ps" or not steps.is_tpu):  # zeros stay unwritten:
                times[name][:, cores] = values[row]  # memory that is not written takes none
        used += own
    yield slice(first, first + used), {name: times[name][:, :used] for name in times}


_HARDWARE = ("CPU_ONLY", "GPU", "TPU")


@dataclass(frozen=True, slots=True)
class SessionSteps:
    """The steps of a session, and those of each of its hosts by themselves, which are read when they are looked at."""

    hosts: Sequence[HostSteps]
    database: StepDatabase


def combine_hosts(hosts: Sequence[HostSteps], known: Sequence[StepOutline] | None = None) -> StepDatabase:
    """Return the step database of a session: of one host as it is, of several what they have in common. ``known``: the
    outlines of the hosts, or None if they are made here. Times are taken out of one host after the other."""
    if len(hosts) < 2:
        return hosts[0].database if hosts else make_empty_database("CPU_ONLY", [])
    every, workers, rows = _pair_steps(list(outline_steps(hosts)) if known is None else known)
    return attach_times(every, (hosts[place].database for place in workers), rows)


def pair_steps(hosts: Sequence[HostSteps]) -> StepDatabase:
    """Return the steps of a session without times."""
    return combine_hosts(hosts) if len(hosts) < 2 else _pair_steps(list(outline_steps(hosts)))[0]


def _pair_steps(known: Sequence[StepOutline]) -> tuple[StepDatabase, list[int], list[Int64s]]:
    """Return the steps without times, the places of the hosts that take part, and the rows of the steps on each of
    these."""
    alike = list_workers([outline.steps for outline in known])
    workers = [place for place in alike if len(known[place].steps.database)] or alike
    rows = match_step_names([known[place].steps.database for place in workers])
    if rows is None:
        every, rows = _align_by_time(known, workers)
    else:
        every = replace(_join_hosts(known, workers, rows), shifts_by_time=_find_time_shifts(known, rows, workers))
    without = tuple(known[place].steps.host for place in sorted({*alike} - {*workers}))
    differs = any(
        (known[place].steps.database.number[row] != every.number).any()
        for place, row in zip(workers, rows, strict=True)
    )
    return replace(every, step=every.group[:, workers[0]], without=without, differs=differs), workers, rows


def list_workers(hosts: Sequence[HostSteps]) -> list[int]:
    """Return the places of the hosts that take part in steps: where some have devices, the others only coordinate."""
    accelerated = any(host.accelerated for host in hosts)
    return [place for place, host in enumerate(hosts) if host.accelerated or not accelerated]


def align_by_time(hosts: Sequence[HostSteps], databases: Sequence[StepDatabase]) -> StepDatabase:
    """Return the steps, numbered from 0, that these databases, one for each host that takes part, have in common by
    when they ran. In memory."""
    workers = list_workers(hosts)
    own = dict(zip(workers, databases, strict=True))
    known = outline_steps(replace(host, database=own.get(place, host.database)) for place, host in enumerate(hosts))
    every, rows = _align_by_time(list(known), workers)
    return attach_times(every, databases, rows, in_memory=True)


def _align_by_time(known: Sequence[StepOutline], workers: list[int]) -> tuple[StepDatabase, list[Int64s]]:
    """Return the steps without their times, and their rows on each host that takes part."""
    shifts, begin, end = _align_to_chief([known[place].spans for place in workers])
    rows = [np.arange(max(0, end - begin)) + begin - k for k in shifts]
    every = _join_hosts(known, workers, rows)
    return replace(every, shifts=dict(zip(workers, shifts, strict=True)), empty_intersect=begin > end), rows


def match_step_names(databases: Sequence[StepDatabase]) -> list[Int64s] | None:
    """Return for each host the rows of the steps whose names all hosts have, in the order of the first host. None if
    steps cannot be paired by name, because a name is not recorded, occurs twice, or none is common to all."""
    places: list[dict[str, int]] = []
    for database in databases:
        place = {name: row for row, name in enumerate(database.label)}
        if not len(place) or len(place) < len(database) or not database.numbered.all():
            return None
        places.append(place)
    common = [name for name in places[0] if all(name in place for place in places)]
    return [np.array([place[name] for name in common], np.int64) for place in places] if common else None


def find_session_steps(database: StepDatabase, place: int, groups: Int64s) -> Int64s:
    """Return the session keys (``database.step``) of steps that are these groups on the host in ``place``, or -1 if the
    session has no such step."""
    known = database.group[:, place] if len(database.hosts) > 1 else database.step
    return look_up_sorted(known, database.step, groups)


def find_shift(host: StepExtents, chief: StepExtents) -> int:
    """Return by how many steps the chief is ahead of the host: step i of the host is step i + shift of the chief."""
    overlap = (
        _measure_ordered_overlaps(host, chief)
        if _is_in_order(host) and _is_in_order(chief)
        else _measure_overlaps(host, chief)
    )
    most = max(overlap.values(), default=0)
    return next((k for k in (*range(len(chief)), *range(-1, -len(host), -1)) if overlap.get(k, 0) == most), 0)


def _is_in_order(spans: StepExtents) -> bool:
    """Return whether each step lasts for a while and ends before the next one begins, in times that can be added up."""
    begin, end = spans.begin_ps, spans.end_ps
    fits = not len(spans) or (int(begin[0]) > -_FAR and int(end[-1]) < _FAR)
    return fits and bool((end > begin).all() and (begin[1:] >= end[:-1]).all())


_FAR: Final = 1 << 61


def _measure_ordered_overlaps(host: StepExtents, chief: StepExtents) -> dict[int, int]:
    """Return what ``_measure_overlaps`` returns, for sequences in order."""
    first = np.searchsorted(chief.end_ps, host.begin_ps, side="right")
    many = np.maximum(np.searchsorted(chief.begin_ps, host.end_ps) - first, 0)
    i = np.repeat(np.arange(len(host)), many)
    j = np.arange(len(i)) + np.repeat(first - (np.cumsum(many) - many), many)
    time = np.minimum(host.end_ps[i], chief.end_ps[j]) - np.maximum(host.begin_ps[i], chief.begin_ps[j])
    shifts, place = number_values(j - i)
    sums = np.zeros(len(shifts), np.int64)
    np.add.at(sums, place.reshape(-1), time)
    return dict(zip(shifts.tolist(), sums.tolist(), strict=True))


def _measure_overlaps(host: StepExtents, chief: StepExtents) -> dict[int, int]:
    """Return the time in which steps overlap that each shift pairs, by walking along both sequences."""
    overlap: dict[int, int] = defaultdict(int)
    begins, ends = (host.begin_ps.tolist(), chief.begin_ps.tolist()), (host.end_ps.tolist(), chief.end_ps.tolist())
    of_host, of_chief = len(host), len(chief)
    i = j = 0
    while i < of_host and j < of_chief:
        if ends[0][i] <= begins[0][i]:
            i += 1
            continue
        if ends[1][j] <= begins[1][j]:
            j += 1
            continue
        overlap[j - i] += max(0, min(ends[0][i], ends[1][j]) - max(begins[0][i], begins[1][j]))
        host_is_first, chief_is_first = ends[0][i] <= ends[1][j], ends[1][j] <= ends[0][i]
        i, j = i + host_is_first, j + chief_is_first
    return overlap


def _align_to_chief(spans: Sequence[StepExtents]) -> tuple[list[int], int, int]:
    """Return by how many steps each host is shifted against the chief, and the chief's first step that all have, and
    the one after the last."""
    chief = min(range(len(spans)), key=lambda place: spans[place].length_ps())
    shifts = [0 if place == chief else find_shift(span, spans[chief]) for place, span in enumerate(spans)]
    begin = max(max(0, k) for k in shifts)
    end = min(
        max(0, k) + min(len(span) - max(0, -k), len(spans[chief]) - max(0, k))
        for k, span in zip(shifts, spans, strict=True)
    )
    return shifts, begin, end


def _find_time_shifts(
    known: Sequence[StepOutline], rows: Sequence[Int64s], workers: Sequence[int]
) -> dict[int, int] | None:
    """Return per host the shift that pairing by time would apply, or None if the pairs would be the same. ``rows``: the
    pairs by name."""
    shifts, begin, end = _align_to_chief([known[place].spans for place in workers])
    paired = {row[0]: row for row in zip(*(part.tolist() for part in rows), strict=True)}
    for number in range(begin, end):
        other = tuple(number - k for k in shifts)
        own = paired.get(other[0], other)
        if own != other:
            steps = [known[place].steps.database.step for place in workers]
            groups = [(step[a], step[b]) for step, a, b in zip(steps, own, other, strict=True)]
            return {place: int(a - b) for place, (a, b) in zip(workers, groups, strict=True)}
    return None


def _join_hosts(known: Sequence[StepOutline], workers: list[int], rows: list[Int64s]) -> StepDatabase:
    """Join row ``rows[h][i]`` of each host that takes part to step i, without times."""
    n = len(rows[0])
    numbers, databases = [known[place].steps.number for place in workers], [known[p].steps.database for p in workers]
    hardware = max((database.hardware for database in databases), key=_HARDWARE.index)
    names = dict.fromkeys(name for database in databases for name in database.categories)
    categories = [IDLE, *(name for name in names if name != IDLE)] if names else []
    group = np.full((n, len(known)), -1, np.int64)
    for place, database, row in zip(workers, databases, rows, strict=True):
        group[:, place] = database.step[row]
    first, first_rows = databases[0], rows[0].tolist()
    complete, has_period = np.ones((2, n), np.bool_)
    collectives = []
    for database, number, row in zip(databases, numbers, rows, strict=True):
        complete &= database.complete[row]
        has_period &= database.has_period[row]
        joined = np.full(len(database) + 1, -1, np.int64)  # the joined step of each of its steps
        joined[row] = np.arange(len(row))
        every = database.collectives
        every = every[joined[every.step] >= 0]
        collectives.append(replace(every, step=joined[every.step], core_id=every.core_id + number * CORES_PER_HOST))
    labels = [first.label[row] for row in first_rows]
    cores = _join_cores(databases, numbers, workers)
    blank = make_blank_database(hardware, "", cores, np.arange(n), labels, categories, has_times=False)
    return replace(
        blank,
        hosts=[outline.steps.host for outline in known],
        name=[first.name[row] for row in first_rows],
        number=first.number[rows[0]],
        numbered=first.numbered[rows[0]],
        complete=complete,
        has_period=has_period,
        is_bound=any(database.is_bound for database in databases),
        group=group,
        collectives=Collectives.joined(collectives),
        compute_16bit_ps=sum(database.compute_16bit_ps for database in databases),
        compute_32bit_ps=sum(database.compute_32bit_ps for database in databases),
    )


def _join_cores(databases: Sequence[StepDatabase], numbers: list[int], workers: list[int]) -> Cores:
    return Cores(
        np.concatenate([db.cores.id + number * CORES_PER_HOST for db, number in zip(databases, numbers, strict=True)]),
        np.concatenate([database.cores.local_id for database in databases]),
        np.concatenate([np.full(len(db.cores), place, np.int32) for db, place in zip(databases, workers, strict=True)]),
        [host for database in databases for host in database.cores.host],
        [name for database in databases for name in database.cores.name],
        np.concatenate([database.cores.sparse for database in databases]),
        np.concatenate([database.cores.has_details for database in databases]),
        [device for database in databases for device in database.cores.device],
        np.concatenate([database.cores.shows_input for database in databases]),
    )


def explain_missing_steps(hosts: Sequence[HostSteps], database: StepDatabase, steps_from: str) -> str | None:
    """Explain why a session has no steps, and what could be done about it, or return None if it has steps.
    ``steps_from``: as requested."""
    if len(database):
        return None
    if not hosts:
        return "no capture"
    why = _explain_missing(hosts, steps_from)
    executions = sum(host.module_executions for host in hosts)
    if steps_from != MARKERS or not executions:
        return why
    count = "1 module execution" if executions == 1 else f"{executions:,} module executions"
    return f"{why}; {count} could serve as {'a step' if executions == 1 else 'steps'}: --steps-from modules"


def _explain_missing(hosts: Sequence[HostSteps], steps_from: str) -> str:
    missed = [host.missed for host in hosts if host.missed is not None]
    if missed and not any(len(host.database) for host in hosts):
        return missed[0]
    if any(len(hosts[place].database) for place in list_workers(hosts)):
        return "the hosts have steps, but none in common"
    without = [host.host for host in hosts if not len(host.database)]
    if len(without) < len(hosts):
        return f"not every host has steps: none on {without[0]}{' and others' if len(without) > 1 else ''}"
    if steps_from not in (AUTO, MARKERS):
        return hosts[0].why
    unfit = sum(host.unfit for host in hosts)
    if unfit:
        marked = "1 step marker" if unfit == 1 else f"{unfit:,} step markers"
        return f"{marked} in this capture, but no compute belongs to {'it' if unfit == 1 else 'them'}"
    if any(host.vetoed for host in hosts):
        return "no steps can be distinguished: the capture has loops whose events do not record their iterations"
    devices = any(host.groups for host in hosts) and any(host.accelerated for host in hosts)
    why = "no step markers on the devices of this capture" if devices else "no step markers in this capture"
    return why if steps_from == MARKERS else f"{why}, and no repetition can replace them"


def list_sources(kept: Sequence[HostSteps]) -> list[str]:
    """Return what the steps of hosts are made from, without repetition."""
    return list(dict.fromkeys(host.source for host in kept if len(host.database)))


def describe_inference(sources: Sequence[str]) -> str | tuple[None, str]:
    """Return in words what steps of these sources are inferred from and how certain that is, or None and why not."""
    inferred = [source for source in sources if CERTAINTY[source] != "certain"]
    if not inferred:
        return None, "the program or its framework marks steps" if sources else "there are no steps"
    return "; ".join(f"inferred from {SOURCES[source]}: {CERTAINTY[source]}" for source in inferred)


def describe_sources(kept: Sequence[HostSteps]) -> Iterator[str]:
    """Yield how steps are inferred and how certain that is; nothing for plain markers."""
    of_hosts = {host.why: host for host in kept if len(host.database) and host.source != MARKERS}
    for why, host in of_hosts.items():
        where = f" on {host.host}" if len(kept) > 1 else ""
        is_certain = CERTAINTY[host.source] == "certain"
        made = SOURCES[host.source] if is_certain else f"inferred ({CERTAINTY[host.source]})"
        yield f"Steps{where} are {made}: {why}."


def describe_incomplete(database: StepDatabase) -> Iterator[str]:
    """Name the steps that the recording may have cut off, if the others are complete."""
    cut = database.number[~database.complete].tolist()
    if cut and database.complete.any():
        steps, them = ("Step", "it") if len(cut) == 1 else ("Steps", "them")
        yield f"{steps} {list_few(map(str, cut))} may be cut off by the recording: averages leave {them} out."


def describe_kinds(kept: Sequence[HostSteps]) -> Iterator[str]:
    """Return which of several kinds of markers make the steps."""
    for kinds in dict.fromkeys(host.kinds for host in kept if host.kinds):
        hosts = [host.host for host in kept if host.kinds == kinds]
        yield f"{list_few(hosts)}: {kinds}."


def describe_pairing(database: StepDatabase) -> list[str]:
    """Return which hosts have no steps, and how those of the others were paired where names, times and numbers
    disagree."""
    if not len(database) or len(database.hosts) == 1:
        return []
    sentences = []
    if database.without:
        have, are = ("has", "is") if len(database.without) == 1 else ("have", "are")
        sentences.append(f"{list_few(database.without)} {have} no steps and {are} left out of step comparisons.")
    if database.shifts is not None:
        sentences.append(
            "Steps of hosts cannot be paired by name: they are aligned by time, with "
            f"{_describe_shifts(database, database.shifts)}."
        )
    elif database.shifts_by_time is not None:
        sentences.append(
            "Steps of hosts are paired by name. XProf pairs them by time, with "
            f"{_describe_shifts(database, database.shifts_by_time)}."
        )
    if database.differs:
        first = next(place for place, group in enumerate(database.group[0].tolist()) if group >= 0)
        sentences.append(f"Hosts number their steps differently: numbers here are those of {database.hosts[first]}.")
    return sentences


def _describe_shifts(database: StepDatabase, shifts: dict[int, int]) -> str:
    """Describe shifts against the first of the hosts that have steps."""
    first = next(iter(shifts.values()), 0)
    moved = [f"{database.hosts[place]} shifted by {by - first}" for place, by in shifts.items() if by != first]
    return list_few(moved) or "none shifted"
