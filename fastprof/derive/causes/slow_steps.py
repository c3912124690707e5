"""Slow steps: which steps take much longer than the others of their host, and what took longer in them.

Steps are compared with those of their name that run the same program most of the time. A step is an outlier if it takes
longer than their median by more than five times the median deviation from it, and by more than a tenth. What differs is
the time by name within its span, compared with the median of the steps that are not outliers. It is that of the thread
or device on which it takes longest: what several take at once would be more than the step. Ops, frames of Python and
other events count for their self time, annotations for all of theirs.

If device ops take longer from some step on, until the end, no median is usual: the steps from this one on are compared
with those before it::

    compute  |--|  |--|  |--|  |----|  |----|  |----|  |----|
    step      0     1     2     3       4       5       6         a slowdown from step 3 on
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof._native.kernels import nesting_lines
from fastprof.derive.devices.device_events import OP_LINES
from fastprof.derive.steps.event_origin import (
    MARKER,
    NameKind,
    classify_name,
    is_thread,
    kinds_by_category,
    list_threads,
)
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.step_database import OWN_CATEGORIES, StepDatabase
from fastprof.derive.steps.step_figures import COMPUTE, break_down_cores, fit_parts
from fastprof.derive.steps.step_source import StepSource
from fastprof.schema.columns import (
    ArrayRows,
    Bools,
    Int32s,
    Int64s,
    add_durations,
    number_values,
    reduce_runs,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import MODULE_LINES, HostEvents, Line
from fastprof.wording import quantities
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import count_noun, format_time

PROGRAM_STATS: Final = ("program_id", "hlo_module")
NO_PROGRAM: Final = -1


def find_main_programs(groups: Groups, steps: Int64s) -> Int64s:
    """Return a number for each step, given by its group, that steps of the same main program share, or NO_PROGRAM if
    none is recorded."""
    events = groups.events
    rows, program = _find_programs(events)
    order = np.argsort(steps, kind="stable")
    main = np.full(len(steps), NO_PROGRAM, np.int64)
    if not len(rows) or not len(steps):
        return main
    group = groups.group_id[rows].astype(np.int64)
    place = np.minimum(np.searchsorted(steps[order], group), len(steps) - 1)
    ours = steps[order][place] == group
    known, program = number_values(program[ours])
    pairs, pair = number_values(place[ours] * max(len(known), 1) + program.reshape(-1))
    time = np.zeros(len(pairs), np.int64)
    np.add.at(time, pair.reshape(-1), events.duration_ps[rows[ours]])
    step, program = np.divmod(pairs, max(len(known), 1))
    longest_last = sort_rows(step, time)
    main[order[step[longest_last]]] = program[longest_last]
    return main


def _find_programs(events: HostEvents) -> tuple[Int64s, Int64s]:
    """Return rows that show which program runs, and its number: TPU program executions, else events that record the id
    of their program, else its name. Threads count if no device records any."""
    modules = [line for line in events.lines if line.name in MODULE_LINES and not line.is_derived]
    if any(line.last > line.first for line in modules):
        rows = np.concatenate([np.arange(line.first, line.last, dtype=np.int64) for line in modules])
        return rows, _number_texts(events.meta[rows].astype(np.int64), events.names.__getitem__)
    rows, program = _select_devices(events, *events.ints("program_id"))
    if len(rows):
        return rows, program
    rows, number = _select_devices(events, *events.texts("hlo_module"))
    return rows, _number_texts(number, events.text)


def _select_devices(events: HostEvents, rows: Int32s, values: Int64s) -> tuple[Int64s, Int64s]:
    lines = [line for line in events.lines if not is_thread(line) and not line.is_derived]
    bounds = np.array([(line.first, line.last) for line in lines], np.int64).reshape(-1, 2)
    there = np.searchsorted(rows, bounds)
    ours = np.concatenate([np.zeros(0, np.int64), *(np.arange(*pair) for pair in there.tolist())]).astype(np.int64)
    keep = ours if len(ours) else np.arange(len(rows))
    return rows[keep].astype(np.int64), values[keep].astype(np.int64)


def _number_texts(numbers: Int64s, text: Callable[[int], str]) -> Int64s:
    """Return one number for equal strings."""
    known, place = number_values(numbers)
    first: dict[str, int] = {}
    same = np.array([first.setdefault(text(number), number) for number in known.tolist()], np.int64)
    return same[place.reshape(-1)]


KINDS: Final = ("category", "op", "annotation", "python", "event")
"""Kinds of what takes longer: a category of step time, an op of a framework or device, an annotation of a user, a frame
of Python, another event of a host's thread."""
_CATEGORY, _OP, _ANNOTATION, _PYTHON, _EVENT = range(len(KINDS))
_WORDS: Final = {"op": "the op", "annotation": "the annotation", "python": "the Python function", "event": "the event"}
_SAY_MOST: Final = ("annotation", "python", "op", "event", "category")
_SAY_NOTHING: Final = (None, "all_others")
"""Categories too general to explain a slow step next to an event name."""
LEAST_STEPS: Final = 4
"""Fewest steps of a name among which outliers are looked for."""
FEWEST_ON_LEVELS: Final = 2 * LEAST_STEPS
"""Fewest steps among which a slowdown is looked for."""
_DEVIATIONS: Final = 5
_TENTH: Final = 10
_MOST_COMPARED: Final = 32
"""Most outlier steps, the longest, that are compared by name, and most other steps beside them."""
_MOST_STEPS: Final = 64
"""An event that lasts longer than this many of the longest step encloses steps."""
_WAIT: Final = compile_late(
    r"^\$.* (block_until_ready|try_to_block|synchronize)$|wait for completion|::Await|^Wait for |BlockHostUntil"
)
_NUMBER: Final = compile_late(r"(?:^|[ #])\d+$")
_OF_NAME: Final = {
    NameKind.PYTHON: _PYTHON, NameKind.OP: _OP, NameKind.INPUT: _OP, NameKind.CALLBACK: _OP,
    NameKind.UNKNOWN: _ANNOTATION, NameKind.ANNOTATION: _ANNOTATION, MARKER: _ANNOTATION, NameKind.OWN: -1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Differences(ArrayRows):
    """Excess times of outlier steps: a row for each step and kind, by step, then largest difference first."""

    step: Int64s  # place in the database
    duration_ps: Int64s  # of the step
    median_ps: Int64s  # of the durations of the steps of that name
    kind: Int64s  # place in KINDS
    name: Int64s  # number of the name: of metadata, of categories in OWN_CATEGORIES; -1: nothing took longer
    time_ps: Int64s  # in the step
    usual_ps: Int64s  # median of the steps in line


@dataclass(frozen=True, slots=True)
class SlowSteps:
    """``names``: the name in each row of ``differences``, or None if nothing took longer."""

    differences: Differences
    names: list[str | None]

    @property
    def count(self) -> int:
        """Number of outlier steps."""
        return len(self._first())

    @property
    def excess_ps(self) -> int:
        """What they take beyond the median."""
        first = self._first()
        return int((self.differences.duration_ps - self.differences.median_ps)[first].sum())

    @property
    def furthest_ps(self) -> int:
        """Time beyond the median of the largest outlier."""
        return int((self.differences.duration_ps - self.differences.median_ps).max(initial=0))

    def _first(self) -> Int64s:
        """Return the first row of each step."""
        step = self.differences.step
        return np.flatnonzero(np.append(True, step[1:] != step[:-1])[: len(step)])

    def worst(self, label: Sequence[str]) -> str:
        """Return a sentence on the outlier step that takes longest beyond the median. ``label``: step names."""
        rows = self.differences
        excess = rows.duration_ps - rows.median_ps
        at = int(excess.argmax())
        here = np.flatnonzero(rows.step == rows.step[at])
        more = (rows.time_ps - rows.usual_ps)[here]
        kinds = [KINDS[kind] for kind in rows.kind[here].tolist()]
        first = choose_explanation(kinds, more.tolist(), int(excess[at]))
        place = None if first is None else int(here[first])
        why = ""
        if place is not None and self.names[place] is not None:
            what, kind = format_slow_kind(KINDS[int(rows.kind[place])], str(self.names[place])), int(rows.kind[place])
            why = f": {what} takes {format_time(int(rows.time_ps[place] - rows.usual_ps[place]))} more than usual"
            of_category = here[(rows.kind[here] == _CATEGORY) & (2 * more >= excess[at])]
            if kind != _CATEGORY and len(of_category) and (category := self.names[of_category[0]]) not in _SAY_NOTHING:
                why += f" ({quantities.format_step_category(category)})"
        steps, name = count_noun(self.count, "outlier step", "outlier steps"), label[int(rows.step[at])]
        return (
            f"{steps}. The worst, {name_step(name)}, takes "
            f"{format_time(int(rows.duration_ps[at]))} instead of {format_time(int(rows.median_ps[at]))}{why}."
        )


def format_slow_kind(kind: str, what: str) -> str:
    """Return the slower event or category as the subject of a sentence."""
    if kind == "category":
        return quantities.format_step_category(what)
    return f"{_WORDS[kind]} {what.lstrip('$')}"


def name_step(name: str) -> str:
    """Return the name for sentences: some markers have only a number."""
    return f"step {name}" if name.isdigit() else name


def choose_explanation(kinds: Sequence[str], more_ps: Sequence[int], excess_ps: int) -> int | None:
    """Return which of the things that took longer in a step explains it best: of those that take at least half of what
    the step takes beyond the median, the one that says most. None if nothing does. ``kinds``: names of KINDS."""
    enough = [place for place, more in enumerate(more_ps) if 2 * more >= excess_ps]
    return min(enough, key=lambda place: _SAY_MOST.index(kinds[place]), default=None)


def find_slow_steps(made_from: StepSource, database: StepDatabase, kinds: Int64s) -> SlowSteps:
    """Return the outlier steps of a host, each compared with the complete steps of its kind."""
    events = made_from.groups.events
    begin, end = _find_step_spans(database)
    parts: list[Differences] = []
    fit = np.flatnonzero(database.complete & (end > begin))
    fit = fit[np.argsort(kinds[fit], kind="stable")]
    for steps in np.split(fit, np.flatnonzero(np.diff(kinds[fit])) + 1):
        out, median = find_outliers((end - begin)[steps])
        if out.any():
            parts.append(_compare_categories(database, steps, out, (end - begin)[steps[out]], median))
            late = steps[out]
            late = late[np.argsort(-(end - begin)[late], kind="stable")[:_MOST_COMPARED]]
            usual = _thin_steps(steps[~out])
            times = _sum_times_by_name(events, np.sort(np.concatenate([late, usual])), begin, end, made_from.marked)
            parts.append(_compare_names(times, late, usual, end - begin, median))
    every = Differences.joined(parts)
    every = every[sort_rows(every.step, every.usual_ps - every.time_ps, every.kind)]
    names = [
        None if name < 0 else OWN_CATEGORIES[name].name if kind == _CATEGORY else events.names[name]
        for kind, name in zip(every.kind.tolist(), every.name.tolist(), strict=True)
    ]
    return SlowSteps(every, names)


def number_kinds(groups: Groups, database: StepDatabase) -> Int64s:
    """Return the kind of each step: its name without its number, and the program that it runs most, as one number."""
    title = {label: _NUMBER.sub("", label) for label in set(database.label)}
    number = {name: place for place, name in enumerate(sorted(set(title.values())))}
    programs = find_main_programs(groups, database.step)
    programs = programs - programs.min(initial=0)
    of_title = np.array([number[title[label]] for label in database.label], np.int64)
    kinds: Int64s = np.unique(of_title * (programs.max(initial=0) + 1) + programs, return_inverse=True)[1]
    return kinds


def _thin_steps(steps: Int64s) -> Int64s:
    """Return as many of the steps as are compared by name, spread over all of them."""
    count = min(_MOST_COMPARED, len(steps))
    return steps[np.arange(count) * len(steps) // max(count, 1)]


def find_outliers(duration: Int64s) -> tuple[Bools, int]:
    """Return which steps are outliers, and the median of all (the lower of two)."""
    if len(duration) < LEAST_STEPS:
        return np.zeros(len(duration), np.bool_), 0
    median = _compute_median(duration)
    deviation = _compute_median(np.abs(duration - median))
    excess = duration - median
    is_outlier = (excess > _DEVIATIONS * deviation) & (excess > median // _TENTH)
    return is_outlier & (2 * int(is_outlier.sum()) < len(is_outlier)), median


def _compute_median(values: Int64s) -> int:
    return int(np.sort(values)[_middle(len(values))])


def _middle(count: int) -> int:
    return (count - 1) // 2


def _ninth_decile(count: int) -> int:
    """Return the place, among as many ordered values, of the value that at most a tenth of them exceed."""
    return count - 1 - count // 10


def _find_step_spans(database: StepDatabase) -> tuple[Int64s, Int64s]:
    """Return the first begin and the last end of each step on the cores of its host; equal if no core took part."""
    there = database.present
    some = there.any(axis=1)
    begin = np.where(there, database.begin_ps, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    end = np.where(there, add_durations(database.begin_ps, database.duration_ps), np.iinfo(np.int64).min)
    last = end.max(axis=1, initial=np.iinfo(np.int64).min)
    return np.where(some, begin, 0), np.where(some, last, 0)


def _compare_categories(
    database: StepDatabase, steps: Int64s, out: Bools, duration: Int64s, median: int
) -> Differences:
    """Return the category that takes most time beyond its median, on the core on which the step took longest."""
    core = np.where(database.present[steps], database.duration_ps[steps], -1).argmax(axis=1)
    times = fit_parts(break_down_cores(database)[steps, core], database.duration_ps[steps, core])
    ordered = np.sort(times[~out], axis=0)
    usual, most_usual = ordered[_middle(len(ordered))], ordered[_ninth_decile(len(ordered))]
    late = times[out]
    beyond = np.where(late > most_usual, late - usual, 0)
    most = beyond.argmax(axis=1)
    time = late[np.arange(len(late)), most]
    name = np.where(beyond.any(axis=1), most, -1)
    return _make_rows(steps[out], duration, median, np.full(len(late), _CATEGORY), name, time, usual[most])


# ---- slowdowns


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Steps of a host from some step on, whose devices compute longer than in the steps before.

    ``group``: the first one's; ``count``: how many they are; ``before_ps``, ``after_ps``: median compute of a step
    on the core that computes longest; ``excess_ps``: what they compute beyond ``before_ps`` in all. ``alike_share``:
    share of the op time before in ops that take longer by at least half as much as all ops together. ``op``: the op
    that takes most time longer, None if no op is recorded, with its mean time per step before and after."""

    group: int
    count: int
    before_ps: int
    after_ps: int
    excess_ps: int
    alike_share: float
    op: str | None
    op_before_ps: int
    op_after_ps: int


def find_slowdown(made_from: StepSource, database: StepDatabase, kinds: Int64s) -> Slowdown | None:
    """Return from which step on devices compute longer, among the complete steps of the most frequent kind, or None."""
    begin, end = _find_step_spans(database)
    fit = np.flatnonzero(database.complete & (end > begin))
    if len(fit) < FEWEST_ON_LEVELS:
        return None
    fit = fit[kinds[fit] == np.bincount(kinds[fit]).argmax()]
    fit = fit[np.argsort(begin[fit], kind="stable")]
    compute = break_down_cores(database)[fit, :, COMPUTE]
    compute_ps: Int64s = np.where(database.present[fit], compute, 0).max(axis=1, initial=0)
    place = find_level_shift(compute_ps)
    if place is None:
        return None
    before_ps, after_ps = (_compute_median(side) for side in (compute_ps[:place], compute_ps[place:]))
    usual, late = _thin_steps(fit[:place]), _thin_steps(fit[place:])
    chosen = np.sort(np.concatenate([usual, late]))
    times = _sum_times_by_name(made_from.groups.events, chosen, begin, end, made_from.marked, with_threads=False)
    is_op = times.kind == _OP
    metas, number = number_values(times.meta[is_op])
    is_late = np.isin(times.step[is_op], late)
    before, after = (
        sum_by(np.where(side, number.reshape(-1), -1), times.time_ps[is_op], len(metas)) // len(steps)
        for side, steps in ((~is_late, usual), (is_late, late))
    )
    longer = after - before
    half_as_much = longer.sum() / max(int(before.sum()), 1) / 2
    is_longer = (before > 0) & (longer > 0) & (longer >= half_as_much * before)
    most = int(longer.argmax()) if longer.max(initial=0) > 0 else None
    return Slowdown(
        int(database.step[fit[place]]),
        len(fit) - place,
        before_ps,
        after_ps,
        int(np.maximum(compute_ps[place:] - before_ps, 0).sum()),
        float(before[is_longer].sum() / max(int(before.sum()), 1)),
        None if most is None else made_from.groups.events.names[int(metas[most])],
        0 if most is None else int(before[most]),
        0 if most is None else int(after[most]),
    )


def find_level_shift(values: Int64s) -> int | None:
    """Return the place from which on values are higher by more than a tenth, until the end; None if there is none.

    It is where two means leave the least squares of ranks, in which single values count little. On each side, nine
    tenths of the values are on its side of the middle between both medians, and half of them within an eighth of the
    rise from its median: values that grow slowly, or come and go, have no such place."""
    count = len(values)
    if count < FEWEST_ON_LEVELS:
        return None
    ranks = number_values(values)[1].reshape(-1)
    sums, first = np.cumsum(ranks, dtype=np.float64), np.arange(LEAST_STEPS, count - LEAST_STEPS + 1)
    rises = (sums[-1] - sums[first - 1]) / (count - first) - sums[first - 1] / first
    place = int(first[(rises**2 * first * (count - first)).argmax()])
    sides = values[:place], values[place:]
    low, high = (_compute_median(side) for side in sides)
    if low <= 0 or high - low <= low // _TENTH:
        return None
    apart = [(side < (low + high) / 2) == (side is sides[0]) for side in sides]
    spread = [_compute_median(np.abs(side - median)) for side, median in zip(sides, (low, high), strict=True)]
    is_clear = all(np.count_nonzero(side) >= 0.9 * len(side) for side in apart) and 8 * max(spread) <= high - low
    return place if is_clear else None


# ---- time by name


@dataclass(frozen=True, slots=True)
class _NameTimes:
    """Time by name and step, where there is any, in order of names. ``meta``: the first row of metadata with that
    name."""

    meta: Int64s
    kind: Int64s
    step: Int64s
    time_ps: Int64s


def _sum_times_by_name(
    events: HostEvents, steps: Int64s, begin: Int64s, end: Int64s, marked: Int64s, *, with_threads: bool = True
) -> _NameTimes:
    """Return times of some steps by name, on the line on which it takes longest: of a device, or a thread, too."""
    order = steps[np.argsort(begin[steps], kind="stable")]
    begin, end = begin[order], end[order]
    threads = {line.number for line in list_threads(events)} if with_threads else set()
    lines = [line for line in events.lines if line.last > line.first and (line.number in threads or _runs_ops(line))]
    rows, first_of_line = _find_rows_within(events, lines, begin, end)
    start, stop = events.start_ps[rows], add_durations(events.start_ps[rows], events.duration_ps[rows])
    parent = _find_parents(start, stop - start, first_of_line)
    event, place = _find_meetings(start, stop, begin, np.maximum.accumulate(end))
    part = np.minimum(stop[event], end[place]) - np.maximum(start[event], begin[place])
    own = _subtract_children(part, event, place, parent, len(order))
    device = np.repeat([line.number not in threads for line in lines], np.diff(first_of_line)).astype(np.bool_)
    meta = events.meta[rows].astype(np.int64) % len(events.names)  # -1: the last name, which is empty
    kind = _classify_events(events, rows, meta, device)
    kind[np.isin(rows, marked)] = -1
    again = (parent >= 0) & (meta == meta[np.maximum(parent, 0)])
    time = np.where(kind[event] == _ANNOTATION, np.where(again[event], 0, part), own)
    counts = (time > 0) & (kind[event] >= 0)
    event, place, time = event[counts], place[counts], time[counts]
    first_of_name: dict[str, int] = {}  # several rows of metadata may share a name
    named = np.full(len(events.names), -1, np.int64)
    for number in np.unique(meta).tolist():
        named[number] = first_of_name.setdefault(events.names[number], number)
    name = kind[event] * (len(events.names) + 1) + named[meta[event]] + 1  # 0: it has no name
    on_line = np.repeat(np.arange(len(lines)), np.diff(first_of_line))[event]
    keys, number = number_values((name * len(order) + place) * len(lines) + on_line)
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, number.reshape(-1), time)
    keys //= max(len(lines), 1)
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, total = keys[first], reduce_runs(np.maximum, total, first)
    name, place = np.divmod(keys, len(order))
    kind, name = np.divmod(name, len(events.names) + 1)
    return _NameTimes(name - 1, kind, order[place], total)


def _subtract_children(part: Int64s, event: Int64s, place: Int64s, parent: Int64s, steps: int) -> Int64s:
    """Return the part of each pair of event and step that no event directly inside of it covers."""
    key, own = event * steps + place, part.copy()
    inside = np.flatnonzero(parent[event] >= 0)
    if not len(inside):
        return own
    above = parent[event[inside]] * steps + place[inside]
    at = np.minimum(np.searchsorted(key, above), len(key) - 1)
    known = key[at] == above
    np.subtract.at(own, at[known], part[inside[known]])
    return np.maximum(own, 0)


def _find_rows_within(events: HostEvents, lines: list[Line], begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return the rows of lines that may meet any of some spans, and the places at which lines begin among them. Events
    that last much longer than the spans are left out."""
    longest = _MOST_STEPS * int((end - begin).max(initial=0))
    parts = []
    for line in lines:
        here = slice(line.first, line.last)
        start, duration = events.start_ps[here], events.duration_ps[here]
        lasts = duration <= longest
        ends = add_durations(start, duration)
        if not lasts.all():
            ends[~lasts] = np.iinfo(np.int64).min
        reached = np.maximum.accumulate(ends, out=ends)
        low, high = np.searchsorted(reached, begin, side="right"), np.searchsorted(start, end, side="left")
        low[1:] = np.maximum(low[1:], np.maximum.accumulate(high)[:-1])
        ranges = [np.arange(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True) if a < b]
        some = np.concatenate(ranges or [np.zeros(0, np.int64)])
        parts.append(some[lasts[some]] + line.first)
    sizes = [len(part) for part in parts]
    return np.concatenate(parts or [np.zeros(0, np.int64)]), np.append(0, np.cumsum(sizes)).astype(np.int64)


def _runs_ops(line: Line) -> bool:
    if line.plane.kind == "GPU":
        return not line.is_derived
    return line.plane.kind in ("TPU", "SPARSECORE") and line.name in OP_LINES


def _find_parents(start: Int64s, duration: Int64s, first_of_line: Int64s) -> Int64s:
    """Return the innermost enclosing event of each event of a line, or -1."""
    lines = np.zeros(len(first_of_line) - 1, records.LINE_ROWS)
    lines["first"], lines["last"] = first_of_line[:-1], first_of_line[1:]
    n = len(start)
    depth, parent, self_time = np.zeros(n, np.int32), np.full(n, -1, np.int64), np.zeros(n, np.int64)
    nesting_lines(start, duration, None, lines, depth, parent, self_time)
    return parent


def _find_meetings(start: Int64s, stop: Int64s, begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return pairs of an event and a span that it meets, in order. Spans are in order of time."""
    low = np.searchsorted(end, start, side="right")
    high = np.searchsorted(begin, stop, side="left")
    times = np.where(stop <= start, 0, np.maximum(high - low, 0))
    event = np.repeat(np.arange(len(start)), times)
    place = np.arange(len(event)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(low, times)
    return event, place


def _classify_events(events: HostEvents, rows: Int64s, meta: Int64s, device: Bools) -> Int64s:
    """Return the kind of each event, or -1 for step markers and for waiting for what takes the time."""
    used, number = number_values(meta)
    of_category = kinds_by_category(events)
    named = [(events.names[number], of_category[number]) for number in used.tolist()]
    by_name = np.array(
        [-1 if _WAIT.search(name) else _OF_NAME.get(known or classify_name(name), _EVENT) for name, known in named],
        np.int64,
    )
    kind = np.where(device, _OP, by_name[number.reshape(-1)])
    for stat, value in (("hlo_op", _OP), ("step_num", -1)):
        kind[np.isin(rows, events.stat(stat).rows)] = value
    kind[meta < 0] = -1
    return kind


def _compare_names(times: _NameTimes, late: Int64s, usual: Int64s, duration: Int64s, median: int) -> Differences:
    """Find for each outlier step and kind the name that takes most time beyond its usual time."""
    expected, most_usual = (
        _find_usual_times(times, usual, _middle(len(usual))),
        _find_usual_times(times, usual, _ninth_decile(len(usual))),
    )
    rows = np.flatnonzero(np.isin(times.step, late) & (times.time_ps > most_usual) & (times.time_ps > expected))
    difference = times.time_ps[rows] - expected[rows]
    rows = rows[sort_rows(times.step[rows], times.kind[rows], -difference)]
    step, kind = times.step[rows], times.kind[rows]
    first = np.append(True, (step[1:] != step[:-1]) | (kind[1:] != kind[:-1]))[: len(rows)]
    rows, step = rows[first], step[first]
    return _make_rows(
        step, duration[step], median, times.kind[rows], times.meta[rows], times.time_ps[rows], expected[rows]
    )


def _find_usual_times(times: _NameTimes, steps: Int64s, place: int) -> Int64s:
    """Return beside each time the one at a place among the name's times in some steps, in ascending order; it is 0 in
    steps that lack the name."""
    fresh = np.append(True, (times.kind[1:] != times.kind[:-1]) | (times.meta[1:] != times.meta[:-1]))[
        : len(times.kind)
    ]
    name = np.cumsum(fresh) - 1
    here = np.flatnonzero(np.isin(times.step, steps))
    here = here[sort_rows(name[here], times.time_ps[here])]
    count = np.bincount(name[here], minlength=int(fresh.sum()))
    own = place - (len(steps) - count)
    begins = np.cumsum(count) - count
    of_name = np.zeros(len(count), np.int64)
    of_name[own >= 0] = times.time_ps[here[(begins + own)[own >= 0]]]
    beside: Int64s = of_name[name]
    return beside


# ---- rows


def _make_rows(
    step: Int64s, duration: Int64s, median: int, kind: Int64s, name: Int64s, time: Int64s, usual: Int64s
) -> Differences:
    more = time > usual
    return Differences(
        step.astype(np.int64),
        duration,
        np.full(len(step), median, np.int64),
        kind.astype(np.int64),
        np.where(more, name, -1).astype(np.int64),
        time,
        usual,
    )
