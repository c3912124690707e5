"""Steps of several hosts: which step of one is which step of another.

Where every host records a name of its own for each step, steps of the same name are the same. Otherwise they are
aligned by when they ran: the host whose steps span the least time is the chief, and every other sequence of steps
is shifted against its own by the number of steps at which pairs of steps overlap most. The steps of the session are
those that all hosts then have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.steps.database import (
    CORES_PER_HOST,
    IDLE,
    Collectives,
    Cores,
    StepDatabase,
    blank_database,
    empty_database,
    sorted_lookup,
)
from fastprof.derive.steps.of_host import HostSteps
from fastprof.derive.steps.outlines import Outline, Spans, outlines
from fastprof.derive.steps.step_source import AUTO, CERTAINTY, MARKERS, SOURCES
from fastprof.derive.steps.times_aside import with_times
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import few

_HARDWARE = ("CPU_ONLY", "GPU", "TPU")


@dataclass(frozen=True, slots=True)
class SessionSteps:
    """The steps of a session, and those of each of its hosts by themselves, which are read when they are looked at."""

    hosts: Sequence[HostSteps]
    database: StepDatabase


def combined(hosts: Sequence[HostSteps], known: Sequence[Outline] | None = None) -> StepDatabase:
    """The step database of a session: of one host as it is, of several what they have in common. ``known``: the
    outlines of the hosts; None: they are made here. Times are taken out of one host after the other."""
    if len(hosts) < 2:
        return hosts[0].database if hosts else empty_database("CPU_ONLY", [])
    every, workers, rows = _paired(list(outlines(hosts)) if known is None else known)
    return with_times(every, (hosts[place].database for place in workers), rows)


def paired(hosts: Sequence[HostSteps]) -> StepDatabase:
    """The same without times."""
    return combined(hosts) if len(hosts) < 2 else _paired(list(outlines(hosts)))[0]


def _paired(known: Sequence[Outline]) -> tuple[StepDatabase, list[int], list[Int64s]]:
    """The steps without times, the places of the hosts that take part, and the rows of the steps on each of these."""
    alike = workers_of([one.steps for one in known])
    workers = [place for place in alike if len(known[place].steps.database)] or alike
    rows = rows_of_names([known[place].steps.database for place in workers])
    if rows is None:
        every, rows = _by_time(known, workers)
    else:
        every = replace(_joined(known, workers, rows), shifts_by_time=_shifts_by_time(known, rows, workers))
    without = tuple(known[place].steps.host for place in sorted({*alike} - {*workers}))
    differs = any(
        (known[place].steps.database.number[row] != every.number).any()
        for place, row in zip(workers, rows, strict=True)
    )
    return replace(every, step=every.group[:, workers[0]], without=without, differs=differs), workers, rows


def workers_of(hosts: Sequence[HostSteps]) -> list[int]:
    """The places of the hosts that take part in steps: where some have devices, the others only coordinate."""
    accelerated = any(host.accelerated for host in hosts)
    return [place for place, host in enumerate(hosts) if host.accelerated or not accelerated]


def aligned_by_time(hosts: Sequence[HostSteps], databases: Sequence[StepDatabase]) -> StepDatabase:
    """The steps, numbered from 0, that these databases, one for each host that takes part, have in common by when they
    ran. In memory."""
    workers = workers_of(hosts)
    own = dict(zip(workers, databases, strict=True))
    known = outlines(replace(host, database=own.get(place, host.database)) for place, host in enumerate(hosts))
    every, rows = _by_time(list(known), workers)
    return with_times(every, databases, rows, in_memory=True)


def _by_time(known: Sequence[Outline], workers: list[int]) -> tuple[StepDatabase, list[Int64s]]:
    """The steps without their times, and their rows on each host that takes part."""
    shifts, begin, end = _overlap([known[place].spans for place in workers])
    rows = [np.arange(max(0, end - begin)) + begin - k for k in shifts]
    every = _joined(known, workers, rows)
    return replace(every, shifts=dict(zip(workers, shifts, strict=True)), empty_intersect=begin > end), rows


def rows_of_names(databases: Sequence[StepDatabase]) -> list[Int64s] | None:
    """For each host the rows of the steps whose names all hosts have, in the order of the first host. None: steps
    cannot be paired by name, because a name is not recorded, occurs twice, or none is common to all."""
    places: list[dict[str, int]] = []
    for database in databases:
        place = {name: row for row, name in enumerate(database.label)}
        if not len(place) or len(place) < len(database) or not database.numbered.all():
            return None
        places.append(place)
    common = [name for name in places[0] if all(name in place for place in places)]
    return [np.array([place[name] for name in common], np.int64) for place in places] if common else None


def session_steps(database: StepDatabase, place: int, groups: Int64s) -> Int64s:
    """Return the session keys (``database.step``) of steps that are these groups on the host in ``place``, or -1 if the
    session has no such step."""
    known = database.group[:, place] if len(database.hosts) > 1 else database.step
    return sorted_lookup(known, database.step, groups)


def shift(host: Spans, chief: Spans) -> int:
    """By how many steps the chief is ahead of the host: step i of the host is step i + shift of the chief."""
    overlap = _overlaps_in_order(host, chief) if _in_order(host) and _in_order(chief) else _overlaps(host, chief)
    most = max(overlap.values(), default=0)
    return next((k for k in (*range(len(chief)), *range(-1, -len(host), -1)) if overlap.get(k, 0) == most), 0)


def _in_order(spans: Spans) -> bool:
    """Whether each step lasts for a while and ends before the next one begins, in times that can be added up."""
    begin, end = spans.begin_ps, spans.end_ps
    fits = not len(spans) or (int(begin[0]) > -_FAR and int(end[-1]) < _FAR)
    return fits and bool((end > begin).all() and (begin[1:] >= end[:-1]).all())


_FAR: Final = 1 << 61


def _overlaps_in_order(host: Spans, chief: Spans) -> dict[int, int]:
    """The same as ``_overlaps``, of sequences in order."""
    first = np.searchsorted(chief.end_ps, host.begin_ps, side="right")
    many = np.maximum(np.searchsorted(chief.begin_ps, host.end_ps) - first, 0)
    i = np.repeat(np.arange(len(host)), many)
    j = np.arange(len(i)) + np.repeat(first - (np.cumsum(many) - many), many)
    time = np.minimum(host.end_ps[i], chief.end_ps[j]) - np.maximum(host.begin_ps[i], chief.begin_ps[j])
    shifts, place = np.unique(j - i, return_inverse=True)
    sums = np.zeros(len(shifts), np.int64)
    np.add.at(sums, place.reshape(-1), time)
    return dict(zip(shifts.tolist(), sums.tolist(), strict=True))


def _overlaps(host: Spans, chief: Spans) -> dict[int, int]:
    """By shift, the time in which steps that it pairs overlap; found by walking along both sequences."""
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


def _overlap(spans: Sequence[Spans]) -> tuple[list[int], int, int]:
    """By how many steps each host is shifted against the chief, and the chief's first step that all have, and the one
    after the last."""
    chief = min(range(len(spans)), key=lambda place: spans[place].length_ps())
    shifts = [0 if place == chief else shift(span, spans[chief]) for place, span in enumerate(spans)]
    begin = max(max(0, k) for k in shifts)
    end = min(
        max(0, k) + min(len(span) - max(0, -k), len(spans[chief]) - max(0, k))
        for k, span in zip(shifts, spans, strict=True)
    )
    return shifts, begin, end


def _shifts_by_time(known: Sequence[Outline], rows: Sequence[Int64s], workers: Sequence[int]) -> dict[int, int] | None:
    """By number of host, by how many groups its step would be another if steps were paired by when they ran; None: the
    pairs would be the same. ``rows``: the pairs by name."""
    shifts, begin, end = _overlap([known[place].spans for place in workers])
    paired = {row[0]: row for row in zip(*(part.tolist() for part in rows), strict=True)}
    for number in range(begin, end):
        other = tuple(number - k for k in shifts)
        own = paired.get(other[0], other)
        if own != other:
            steps = [known[place].steps.database.step for place in workers]
            groups = [(step[a], step[b]) for step, a, b in zip(steps, own, other, strict=True)]
            return {place: int(a - b) for place, (a, b) in zip(workers, groups, strict=True)}
    return None


def _joined(known: Sequence[Outline], workers: list[int], rows: list[Int64s]) -> StepDatabase:
    """Row ``rows[h][i]`` of each host that takes part as step i, without times."""
    n = len(rows[0])
    numbers, databases = [known[place].steps.number for place in workers], [known[p].steps.database for p in workers]
    hardware = max((database.hardware for database in databases), key=_HARDWARE.index)
    categories = _categories(databases)
    group = np.full((n, len(known)), -1, np.int64)
    for place, database, row in zip(workers, databases, rows, strict=True):
        group[:, place] = database.step[row]
    first, first_rows = databases[0], rows[0].tolist()
    complete, has_period = np.ones((2, n), np.bool_)
    for database, row in zip(databases, rows, strict=True):
        complete &= database.complete[row]
        has_period &= database.has_period[row]
    labels = [first.label[row] for row in first_rows]
    cores = _cores(databases, numbers, workers)
    blank = blank_database(hardware, "", cores, np.arange(n), labels, categories, has_times=False)
    return replace(
        blank,
        hosts=[one.steps.host for one in known],
        name=[first.name[row] for row in first_rows],
        number=first.number[rows[0]],
        numbered=first.numbered[rows[0]],
        complete=complete,
        has_period=has_period,
        is_bound=any(database.is_bound for database in databases),
        group=group,
        collectives=_collectives(databases, numbers, rows),
        compute_16bit_ps=sum(database.compute_16bit_ps for database in databases),
        compute_32bit_ps=sum(database.compute_32bit_ps for database in databases),
    )


def _categories(databases: Sequence[StepDatabase]) -> list[str]:
    names = dict.fromkeys(name for database in databases for name in database.categories)
    return [IDLE, *(name for name in names if name != IDLE)] if names else []


def _cores(databases: Sequence[StepDatabase], numbers: list[int], workers: list[int]) -> Cores:
    return Cores(
        np.concatenate([db.cores.id + number * CORES_PER_HOST for db, number in zip(databases, numbers, strict=True)]),
        np.concatenate([database.cores.local_id for database in databases]),
        np.concatenate([np.full(len(db.cores), place, np.int32) for db, place in zip(databases, workers, strict=True)]),
        [host for database in databases for host in database.cores.host],
        [name for database in databases for name in database.cores.name],
        np.concatenate([database.cores.sparse for database in databases]),
        np.concatenate([database.cores.has_details for database in databases]),
        [device for database in databases for device in database.cores.device],
    )


def _collectives(databases: Sequence[StepDatabase], numbers: list[int], rows: list[Int64s]) -> Collectives:
    parts = []
    for database, number, row in zip(databases, numbers, rows, strict=True):
        place = np.full(len(database) + 1, -1, np.int64)
        place[row] = np.arange(len(row))
        every = database.collectives
        every = every[place[every.step] >= 0]
        parts.append(replace(every, step=place[every.step], core_id=every.core_id + number * CORES_PER_HOST))
    return Collectives.joined(parts)


def why_no_steps(hosts: Sequence[HostSteps], database: StepDatabase, steps_from: str) -> str | None:
    """Why a session has no steps, and what could be done about it; None: it has steps. ``steps_from``: as requested."""
    if len(database):
        return None
    if not hosts:
        return "no capture"
    why = _why(hosts, steps_from)
    executions = sum(host.module_executions for host in hosts)
    if steps_from != MARKERS or not executions:
        return why
    count = "1 module execution" if executions == 1 else f"{executions:,} module executions"
    return f"{why}; {count} could serve as {'a step' if executions == 1 else 'steps'}: --steps-from modules"


def _why(hosts: Sequence[HostSteps], steps_from: str) -> str:
    missed = [host.missed for host in hosts if host.missed is not None]
    if missed and not any(len(host.database) for host in hosts):
        return missed[0]
    if any(len(hosts[place].database) for place in workers_of(hosts)):
        return "the hosts have steps, but none in common"
    without = [host.host for host in hosts if not len(host.database)]
    if len(without) < len(hosts):
        return f"not every host has steps: none on {without[0]}{' and others' if len(without) > 1 else ''}"
    if steps_from not in (AUTO, MARKERS):
        return hosts[0].why
    unfit = sum(host.unfit for host in hosts)
    if unfit:
        marked = "1 step marker" if unfit == 1 else f"{unfit:,} step markers"
        return f"{marked} in this capture, but nothing that was computed belongs to {'it' if unfit == 1 else 'them'}"
    if any(host.vetoed for host in hosts):
        return "no steps can be distinguished: the capture has loops whose events do not record their iterations"
    devices = any(host.groups for host in hosts) and any(host.accelerated for host in hosts)
    why = "no step markers on the devices of this capture" if devices else "no step markers in this capture"
    return why if steps_from == MARKERS else f"{why}, and nothing repeats that could serve instead"


def sources(kept: Sequence[HostSteps]) -> list[str]:
    """What the steps of hosts are made from, each once."""
    return list(dict.fromkeys(host.source for host in kept if len(host.database)))


def inferred_from(found: Sequence[str]) -> str | tuple[None, str]:
    """Return in words what steps of these sources are inferred from and how certain that is, or None and why not."""
    inferred = [one for one in found if CERTAINTY[one] != "certain"]
    if not inferred:
        return None, "the program or its framework marks steps" if found else "there are no steps"
    return "; ".join(f"inferred from {SOURCES[one]}: {CERTAINTY[one]}" for one in inferred)


def on_sources(kept: Sequence[HostSteps]) -> Iterator[str]:
    """Yield how steps are made and how certain that is, unless each is a marker and no more."""
    of_hosts = {host.why: host for host in kept if len(host.database) and host.source != MARKERS}
    for why, host in of_hosts.items():
        where = f" on {host.host}" if len(kept) > 1 else ""
        is_certain = CERTAINTY[host.source] == "certain"
        made = SOURCES[host.source] if is_certain else f"inferred ({CERTAINTY[host.source]})"
        yield f"Steps{where} are {made}: {why}."


def on_kinds(kept: Sequence[HostSteps]) -> Iterator[str]:
    """Which of several kinds of markers make the steps."""
    for kinds in dict.fromkeys(host.kinds for host in kept if host.kinds):
        hosts = [host.host for host in kept if host.kinds == kinds]
        yield f"{few(hosts)}: {kinds}."


def on_pairs(database: StepDatabase) -> list[str]:
    """Which hosts have no steps, and how those of the others were paired where names, times and numbers disagree."""
    if not len(database) or len(database.hosts) == 1:
        return []
    found = []
    if database.without:
        have, are = ("has", "is") if len(database.without) == 1 else ("have", "are")
        found.append(f"{few(database.without)} {have} no steps and {are} left out where steps of hosts are compared.")
    if database.shifts is not None:
        found.append(
            "Steps of hosts cannot be paired by their names: they are aligned by when they ran, with "
            f"{_shifted(database, database.shifts)}."
        )
    elif database.shifts_by_time is not None:
        found.append(
            "Steps of hosts are paired by their names. XProf pairs them by when they ran, with "
            f"{_shifted(database, database.shifts_by_time)}."
        )
    if database.differs:
        first = next(place for place, group in enumerate(database.group[0].tolist()) if group >= 0)
        found.append(f"Hosts number their steps differently: numbers here are those of {database.hosts[first]}.")
    return found


def _shifted(database: StepDatabase, shifts: dict[int, int]) -> str:
    """Against the first of the hosts that have steps."""
    first = next(iter(shifts.values()), 0)
    moved = [f"{database.hosts[place]} shifted by {by - first}" for place, by in shifts.items() if by != first]
    return few(moved) or "none shifted"
