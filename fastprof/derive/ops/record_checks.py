"""Missing, wrong and impossible records of a host, and their remedies.

Checks compare records with each other: launches with kernels, listed GPUs with activity, errors of the profiler with
what it recorded, events with their streams, and clocks with the order of launch and kernel.

Impossible events are left out of analyses, and ``import_log`` names them. A stream runs one event after the other, so
an event that lasts beyond later ones of its stream has a wrong end::

    stream  |=kernel=| |=kernel=| |=kernel=|
                 |====== wrong end ===================...

The last kernel of a stream has a wrong end if it ends long after everything else, and is far longer than all others
of its name.

An event far outside the time that all other events of the host take has a wrong begin: the call that launched it, and
what waited for it, would have been recorded, too. So has a single event long before the call that launched it; if
many are, the clocks of host and GPU differ.

Work is lost if a call starts it and its records are missing. A call and what it starts have one correlation id. A
call in a stream capture starts nothing, and of a call of the runtime and the call of the driver inside it, one has
the id of the work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.decode.import_log import LogRow
from fastprof.decode.plane_kinds import find_device_of_plane, get_device_word, pluralise_device
from fastprof.decode.span_stats import XPROF
from fastprof.derive.devices.communication_kinds import find_collective_kind
from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.ops.launches import measure_end_after_wait, measure_start_before_call
from fastprof.schema.columns import Bools, Int64s, add_durations, find_rows_within
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import (
    COUNTER_LINE,
    HostEvents,
    Line,
    compute_once,
    find_line_starts,
    find_lines,
    join_stat,
)
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import count_noun, format_time, list_few, shorten_name

RECORD_STATS: Final = ("correlation_id",)
_SHARE: Final = 0.1
"""Largest share of a stream's events with wrong ends; with more, the line does not run in order."""
_LEAST: Final = 2
"""An event that outlasts fewer later ones may have been started early, before its stream was free."""
_FAR: Final = 0.2
"""An event is far from the others if the time between is longer than this share of their time."""
_MOST_FAR: Final = 3
"""More events far from the others are work."""
_FEWEST_ALIKE: Final = 3
_ENDLESS: Final = 100
"""A kernel that lasts this many times the longest of several others of its name may have a wrong end."""
_EARLY_EVENT_PS: Final = 1_000_000_000
"""An event this long before its launch, or after a call that waited for it, has wrong times, unless more than this
share of all events have."""
_MOST_EARLY: Final = 0.01


@dataclass(frozen=True, slots=True)
class ImpossibleEvent:
    """An event that is left out. ``why``: the contradiction; ``row``: in the events as they were read; ``correlation``:
    its correlation id, or 0 if there is none."""

    name: str
    start_ps: int
    duration_ps: int
    why: str
    row: int
    correlation: int = 0


def drop_impossible_events(events: HostEvents, *, entire: bool) -> HostEvents:
    """Return the events without those of GPUs that contradict others, which it notes. ``entire``: all events of the
    host were read, so that one is known to be far from the others."""
    every = (line for plane in events.planes_of("GPU") for line in plane.lines)
    lines = [line for line in every if not line.is_derived and line.name != COUNTER_LINE and line.last > line.first]
    impossible = [event for line in lines for event in _find_outlasting(events, line)]
    if RECORD_STATS[0] in events.stats:
        impossible += _find_out_of_order(events, {event.row for event in impossible})
    if entire:
        impossible += _find_far(events, lines, {event.row for event in impossible})
        impossible += _find_endless(events, lines, {event.row for event in impossible})
    if not impossible:
        return events
    keep = np.ones(len(events), bool)
    keep[[event.row for event in impossible]] = False
    sound = events.subset(keep)
    sound.untimed = dict(events.untimed)
    for line in events.lines:
        if lost := sum(line.first <= event.row < line.last for event in impossible):
            sound.untimed[line.line_id] = sound.untimed.get(line.line_id, 0) + lost
    sound.impossible = tuple(impossible)
    text = describe_impossible_events(tuple(impossible))
    row = LogRow("data_loss", "impossible_time", len(impossible), None, events.capture.path, text)
    events.capture.log.take([row])  # once, however often the host is read
    return sound


def describe_impossible_events(impossible: tuple[ImpossibleEvent, ...]) -> str:
    """Return the sentence on events that are left out, one or more."""
    first = max(impossible, key=lambda event: event.duration_ps)
    are = "device event is" if len(impossible) == 1 else "device events are"
    names = list(dict.fromkeys(shorten_name(event.name) for event in impossible))
    named = f" ({list_few(names, 3)})" if len(names) > 1 else ""
    return (
        f"{len(impossible):,} {are} impossible and not counted{named}: {shorten_name(first.name)} begins at "
        f"{format_time(first.start_ps)} and lasts {format_time(first.duration_ps)}, but {first.why}"
    )


def _find_outlasting(events: HostEvents, line: Line) -> Iterator[ImpossibleEvent]:
    """Yield the events of a stream with wrong ends."""
    start = events.start_ps[line.first : line.last]
    end = add_durations(start, np.maximum(events.duration_ps[line.first : line.last], 0)) - events.slack_ps
    if not (end[:-1] > start[1:]).any():
        return
    wrong, outlasted, stream_end = _find_wrong_ends(start, end)
    for place, count in zip(wrong.tolist(), outlasted.tolist(), strict=True):
        row = line.first + place
        name = events.names[events.meta[row]]
        # a collective on a line of several queues may run beside all that computes, but not beyond
        if end[place] <= stream_end and find_collective_kind(name) is not None:
            continue
        runs = count_noun(count, "later event of its stream runs", "later events of its stream run")
        yield _make_impossible_event(events, row, f"{runs} meanwhile")


def _find_wrong_ends(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, int]:
    """Return the places of events that outlast several later ones and are longer than the others, how many they
    outlast, and the last end of the others. There are none if the line does not run in order without them. Kernels may
    begin before the one before them ends, but end in order."""
    earliest = np.minimum.accumulate(end[::-1])[::-1]  # of each event and the later ones
    outlasts = np.append(end[:-1] > earliest[1:], False)
    others = ~outlasts
    stream_end = int(end[others].max())
    places = np.flatnonzero(outlasts)
    if len(places) > max(1, _SHARE * len(start)):
        return places[:0], places[:0], stream_end
    ended, begun = (np.searchsorted(times[others], at[places]) for times, at in ((end, end), (start, start)))
    count = ended - begun
    length = end - start
    is_wrong = (count >= _LEAST) & (length[places] > length[others].max())
    beyond = end[places].astype(np.float64) - stream_end  # times of damaged captures may exceed 64 bits
    is_wrong |= (count > 0) & (beyond > stream_end - float(start[0]))
    return places[is_wrong], count[is_wrong], stream_end


def _find_out_of_order(events: HostEvents, known: set[int]) -> list[ImpossibleEvent]:
    """Return the few events that begin long before the calls that launched them, or end long after a call that waited
    for them. If there are many, clocks differ."""
    reasons: dict[int, str] = {}
    for (rows, late), why in (
        (measure_start_before_call(events), "the call that launched it begins {} later"),
        (measure_end_after_wait(events), "a call that waited for it returned {} before its end"),
    ):
        wrong = np.flatnonzero(late > _EARLY_EVENT_PS)
        if len(wrong) <= max(1, _MOST_EARLY * len(rows)):
            pairs = zip(rows[wrong].tolist(), late[wrong].tolist(), strict=True)
            reasons |= {row: why.format(format_time(ps)) for row, ps in pairs if row not in known}
    return [_make_impossible_event(events, row, why) for row, why in reasons.items()]


def _find_far(events: HostEvents, streams: list[Line], known: set[int]) -> list[ImpossibleEvent]:
    """Return the first or last few events of GPUs if nothing else is near them in time."""
    rows = np.concatenate([np.arange(line.first, line.last) for line in streams] or [np.zeros(0, np.int64)])
    rows = rows[~np.isin(rows, list(known))] if known else rows
    if len(rows) < 3:
        return []
    start = events.start_ps[rows]
    order = np.argsort(start, kind="stable") if len(streams) > 1 else np.arange(len(rows))
    begins = start[order]
    ends = np.maximum.accumulate(add_durations(begins, np.maximum(events.duration_ps[rows[order]], 0)))
    apart = begins[1:] - ends[:-1]
    middle = len(apart) // 2
    edges = {*range(min(_MOST_FAR, middle)), *range(max(len(apart) - _MOST_FAR, middle), len(apart))}
    span = int(ends[-1] - begins[0])
    wide = [at for at in sorted(edges) if apart[at] > _FAR * (span - int(apart[at]))]
    extent = _find_extent_of_threads(events) if wide else None
    if extent is None:
        return []
    for at in wide:
        first = at < middle
        far = order[: at + 1] if first else order[at + 1 :]
        begin = min(extent[0], int(begins[at + 1] if first else begins[0]))
        end = max(extent[1], int(ends[-1] if first else ends[at]))
        gap = begin - int(ends[at]) if first else int(begins[at + 1]) - end
        if gap > max(_FAR * (end - begin), _EARLY_EVENT_PS) and not _were_launched(events, rows[far]):
            where = f"all other events of the host are from {format_time(begin)} to {format_time(end)}"
            return [_make_impossible_event(events, int(row), where) for row in rows[far].tolist()]
    return []


def _find_endless(events: HostEvents, streams: list[Line], known: set[int]) -> list[ImpossibleEvent]:
    """Return the kernel that ends long after everything else, if it is far longer than all others of its name. It is
    the last of its stream, so no later one shows that its end is wrong. Collectives may wait for other hosts."""
    rows = np.concatenate([np.arange(line.first, line.last) for line in streams] or [np.zeros(0, np.int64)])
    rows = rows[~np.isin(rows, list(known))] if known else rows
    if len(rows) <= _FEWEST_ALIKE:
        return []
    duration = np.maximum(events.duration_ps[rows], 0)
    end = add_durations(events.start_ps[rows], duration)
    last = int(end.argmax())
    others = np.arange(len(rows)) != last
    begin = int(events.start_ps[rows].min())
    rest_end = int(end[others].max())
    if int(end[last]) - rest_end <= rest_end - begin:
        return []
    meta = events.meta[rows]
    alike = others & (meta == meta[last])
    longest = int(duration[alike].max(initial=0))
    extent = _find_extent_of_threads(events)
    is_near = extent is not None and int(end[last]) - extent[1] <= extent[1] - min(extent[0], begin)
    is_alike = np.count_nonzero(alike) < _FEWEST_ALIKE or int(duration[last]) < _ENDLESS * longest
    if is_near or is_alike or find_collective_kind(events.names[meta[last]]) is not None:
        return []
    why = f"others of its name last {format_time(longest)} at most, and all other events end before"
    return [_make_impossible_event(events, int(rows[last]), why)]


def _were_launched(events: HostEvents, rows: Int64s) -> bool:
    """Return whether calls before these events launched any of them."""
    if RECORD_STATS[0] not in events.stats:
        return False
    known, early = measure_start_before_call(events)
    return bool(np.isin(rows, known[early <= 0]).any())


def _find_extent_of_threads(events: HostEvents) -> tuple[int, int] | None:
    """Return the first begin and the last end of the events of the host's threads; None if there are none."""
    lines = [line for line in events.lines if line.plane.kind != "GPU" and line.name != COUNTER_LINE]
    lines = [line for line in lines if line.last > line.first]
    if not lines:
        return None
    ends = [
        add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)).max()
        for rows in (slice(line.first, line.last) for line in lines)
    ]
    return min(int(events.start_ps[line.first]) for line in lines), int(max(ends))


def _make_impossible_event(events: HostEvents, row: int, why: str) -> ImpossibleEvent:
    name = events.names[events.meta[row]]
    id_ = 0
    if RECORD_STATS[0] in events.stats:
        has, ids = join_stat(np.array([row]), *events.ints(RECORD_STATS[0]))
        id_ = int(ids[0]) if has[0] else 0
    return ImpossibleEvent(name, int(events.start_ps[row]), int(events.duration_ps[row]), why, row, id_)


_KERNELS: Final = compile_late(r"launch\w*kernel|kernel\w*launch|graph\w*launch|launch\w*graph|^(cu|hip)launch\b", re.I)
_COPIES: Final = compile_late(r"^(cu|cuda|hip)mem(cpy|set)", re.I)
_BEGINS: Final = compile_late(r"(begin|start)\w*capture", re.I)
_ENDS: Final = compile_late(r"end\w*capture", re.I)

MOST_KERNELS: Final = 0.01
"""If more of the launches of kernels have no record, what devices do is unknown."""
MOST_COPIES: Final = 0.25
"""The limit for copies and sets. It is higher: a copy of 0 bytes, or within the host, starts no GPU work."""


@dataclass(frozen=True, slots=True)
class LostRecords:
    """``launches``, ``copies``: calls that start kernels or graphs, and copies or sets; ``lost_launches``,
    ``lost_copies``: those of them whose work is not recorded; ``calls``: names of these calls, the most frequent first;
    ``times_ps``: when they began, ascending; ``recorded``: events of GPUs in the capture; ``at_end``: whether all calls
    before them have their work, as if a buffer became full."""

    launches: int
    copies: int
    lost_launches: int
    lost_copies: int
    calls: tuple[str, ...]
    times_ps: Int64s
    recorded: int
    at_end: bool = False

    @property
    def matters(self) -> bool:
        """Return whether so much is lost that figures of devices do not hold."""
        of_kernels = self.lost_launches > MOST_KERNELS * self.launches
        return of_kernels or self.lost_copies > MOST_COPIES * self.copies

    def in_words(self) -> str:
        """Return how many calls lack their work, which share, and when."""
        parts = []
        for lost, every, what in (
            (self.lost_launches, self.launches, ("launch", "launches", "kernel")),
            (self.lost_copies, self.copies, ("copy or set", "copies and sets", "record")),
        ):
            if lost:
                single, more, record = what
                have = "has" if lost == 1 else "have"
                of = count_noun(every, single, more)
                parts.append(f"{lost:,} of {of} {have} no {record} ({100 * lost / every:.3g} %)")
        first, last = format_time(int(self.times_ps[0])), format_time(int(self.times_ps[-1]))
        when = f"at {first}" if first == last else f"from {first} to {last}"
        none = ": no activity of a device is recorded" if not self.recorded else ""
        none = f": nothing that was launched after {first} is recorded" if self.at_end else none
        return f"{' and '.join(parts)}{none}; calls {when}: {list_few(self.calls, 3)}"


NOTHING_LOST: Final = LostRecords(0, 0, 0, 0, (), np.zeros(0, np.int64), 0)


@compute_once
def find_lost_records(events: HostEvents) -> LostRecords:
    """Return the calls whose work is not recorded; none are known to be lost if as much work has no id."""
    at, ids = events.ints("correlation_id")
    if not len(at):
        return NOTHING_LOST
    recorded, of_gpu = 0, np.zeros(len(at), np.bool_)
    for plane in events.planes_of("GPU"):
        of_gpu[find_rows_within(at, plane.first, plane.last)] = True
        lines = (line for line in plane.lines if not line.is_derived and line.name != COUNTER_LINE)
        recorded += sum(line.last - line.first for line in lines)
    rows, wanted = at[~of_gpu].astype(np.int64), ids[~of_gpu]
    # 1 for calls that launch, 2 for calls that copy or set, else 0
    codes = [1 if _KERNELS.search(name) else 2 if _COPIES.match(name) else 0 for name in events.names]
    kinds = np.array(codes, np.int64)[events.meta[rows]]
    starts = (kinds != 0) & (wanted != 0)
    rows, wanted, kinds = rows[starts], wanted[starts], kinds[starts]
    if not len(rows) or len(events.planes_of("GPU")) < sum(
        find_device_of_plane(name)[0] == "GPU" for name in events.plane_names
    ):
        return NOTHING_LOST  # or planes of GPUs were not read
    present = np.concatenate([ids[of_gpu], np.array([event.correlation for event in events.impossible], np.int64)])
    lost = ~np.isin(wanted, present) & ~_is_captured(events, rows)
    counts, lost = _drop_nested_calls(events, rows, lost)
    without_id = recorded - int(np.count_nonzero(ids[of_gpu]))
    for left_out in events.capture.log.rows():  # events that have no time are not lost
        if left_out.code == "bad_time" and left_out.path == events.capture.path:
            without_id += left_out.count
    if np.count_nonzero(lost) <= without_id:
        lost = np.zeros(len(rows), np.bool_)
    of_kernels = kinds == 1
    begins = events.start_ps[rows]
    at_end = bool(lost.any()) and bool((~lost).any()) and int(begins[lost].min()) > int(begins[~lost].max())
    names = Counter(events.names[meta] for meta in events.meta[rows[lost]].tolist())
    return LostRecords(
        int(np.count_nonzero(of_kernels & counts)),
        int(np.count_nonzero(~of_kernels & counts)),
        int(np.count_nonzero(of_kernels & lost)),
        int(np.count_nonzero(~of_kernels & lost)),
        tuple(name for name, _ in names.most_common()),
        np.sort(begins[lost]),
        recorded + len(events.impossible),
        at_end,
    )


def _is_captured(events: HostEvents, rows: Int64s) -> Bools:
    """Return whether each call is made while its thread captures a stream."""
    marks = []
    for pattern in (_BEGINS, _ENDS):
        metas = [meta for meta, name in enumerate(events.names) if pattern.search(name)]
        marks.append(np.flatnonzero(np.isin(events.meta, metas)) if metas else np.zeros(0, np.int64))
    begins, ends = marks
    if not len(begins):
        return np.zeros(len(rows), np.bool_)
    begun = np.append(-1, begins)[np.searchsorted(begins, rows)]
    ended = np.append(-1, ends)[np.searchsorted(ends, rows)]
    captured: Bools = (begun > ended) & (begun >= find_line_starts(events.used_lines, rows))
    return captured


def _drop_nested_calls(events: HostEvents, rows: Int64s, lost: Bools) -> tuple[Bools, Bools]:
    """Return which calls count, and which of them are lost: of two calls, one inside the other, the outer counts, and
    is lost if both are."""
    begin = events.start_ps[rows]
    end = add_durations(begin, np.maximum(events.duration_ps[rows], 0))
    line = find_lines(events.used_lines, rows)
    differs = events.meta[rows[1:]] != events.meta[rows[:-1]]
    inner = np.append(False, (line[1:] == line[:-1]) & (end[1:] <= end[:-1]) & differs)
    outer = np.append(inner[1:], False)
    lost = lost & ~inner & ~(outer & ~np.append(lost[1:], True))
    return ~inner, lost


_OF_DEVICES: Final = compile_late(r"CUPTI|CUDA|ROCM|ROCPROF|ROCTRACER|HIP|GPU|TPU|device tracer|activity buffer")
_NO_DEVICE: Final = compile_late(r"(?i)no[_ ]device|no cuda-capable|not find (any )?gpu")
"""A machine without devices has nothing to record."""
_DROPPED: Final = compile_late(r"(?i)drop|overflow|buffer.*(full|exhaust)|out of (buffer|space)|lost|exceed|truncat")
_MOST_IN_TRACE: Final = 1_000_000
"""XProf leaves out events beyond these when it writes a trace as JSON."""
_EARLY_SHARE: Final = 0.01
_EARLY_PS: Final = 100_000_000
"""Clocks differ if more than this share of kernels begins before its launch, and one by more than this time."""

PROFILER_ERROR: Final = "profiler_error"
CODES: Final = frozenset((
    PROFILER_ERROR, "lost_records", "no_device_activity", "impossible_time", "clocks_differ", "most_events",
))  # fmt: skip
"""Codes of flaws in import_log. Their captures are as the profiler wrote them."""

_KEEP_PROFILER: Final = (
    "Record fewer steps, or with larger buffers of the profiler, and end the profile after the device is synchronized."
)
_ENABLE_ACTIVITY: Final = (
    "If the program uses the {}, profile with activities=[ProfilerActivity.CPU, ProfilerActivity.{}]."
)
_ACTIVITIES: Final = ("XPU", "HPU", "MTIA")
"""PyTorch profiler activities named after their device. GPUs use CUDA, other devices PrivateUse1."""
_ENABLE_DEVICE: Final = "If the program uses the {}, enable the profiler's device tracer (device_tracer_level=1)."
_FIX_ERROR: Final = "Fix the cause of the error, such as missing permission for device counters, and record again."
_RECORD_AGAIN: Final = "Record again; figures exclude these events."
_CLOCKS: Final = "Waits between launch and kernel are unreliable; update the driver and the profiler."
_SHORTER: Final = "Record less time, or read the XSpace (.xplane.pb) beside the trace, which has all events."


@dataclass(frozen=True, slots=True)
class Flaw:
    """``text``: missing item or wrong, with numbers and names; ``remedy``: what to do; ``code``: in import_log;
    ``hides_devices``: whether what devices did is unknown, entirely or for a time."""

    code: str
    text: str
    remedy: str
    hides_devices: bool

    @property
    def sentence(self) -> str:
        return f"Capture incomplete: {self.text}."

    @property
    def warning(self) -> str:
        return f"{self.sentence} {self.remedy}"


@dataclass(frozen=True, slots=True)
class HostRecords:
    """``flaws``: of a host. ``recorded``: whether anything of its devices is; ``has_gpu_events``: of its GPUs."""

    host: str
    flaws: tuple[Flaw, ...]
    recorded: bool
    has_gpu_events: bool


@compute_once
def check_records(events: HostEvents) -> HostRecords:
    """Check the records of a host. Adds rows to ``import_log``. Reads ``RECORD_STATS`` and planes of host and
    devices."""
    from fastprof.derive.ops.gpu_ops import mark_op_line_events  # it takes long to import

    has_gpu_events = bool(mark_op_line_events(events).any()) or bool(events.impossible)
    read = {plane.name: plane.last > plane.first for plane in events.planes}
    tpus = [name for name in events.plane_names if find_device_of_plane(name)[0] == "TPU"]
    recorded = has_gpu_events or any(read.get(name, True) for name in tpus)  # planes that were not read may have some
    flaws = tuple(_find_flaws(events, recorded))
    rows = [LogRow("data_loss", flaw.code, 1, None, events.capture.path, flaw.text) for flaw in flaws]
    events.capture.log.take(rows)
    return HostRecords(events.host, flaws, recorded, has_gpu_events)


def _find_flaws(events: HostEvents, recorded: bool) -> Iterator[Flaw]:
    lost, gpus = find_lost_records(events), events.planes_of("GPU")
    errors = []  # messages of the profiler that explain that records are missing
    for message in (*events.capture.errors, *events.capture.warnings):
        of_devices = _OF_DEVICES.search(message) and not _NO_DEVICE.search(message)
        if _DROPPED.search(message) or (of_devices and not recorded):
            errors.append(message)
    has_threads = any(line.last > line.first for plane in events.planes for line in plane.lines)
    if errors:
        yield Flaw(PROFILER_ERROR, f"the profiler recorded: {list_few(errors, 3)}", _FIX_ERROR, not recorded)
    if lost.matters:
        yield Flaw("lost_records", lost.in_words(), _KEEP_PROFILER, True)
    elif gpus and not recorded and not errors and has_threads:
        word = get_device_word(plane.name for plane in gpus)
        single, more = (
            f"{word} is listed, but its activity was",
            f"{pluralise_device(word)} are listed, but their activity was",
        )
        listed = count_noun(len(gpus), single, more)
        activity = "CUDA" if word == "GPU" else word if word in _ACTIVITIES else "PrivateUse1"
        remedy = (_ENABLE_ACTIVITY if is_kineto(events) else _ENABLE_DEVICE).format(word, activity)
        yield Flaw(
            "no_device_activity", f"{listed} not recorded, and there are no calls that start work on it", remedy, True
        )
    if events.impossible:
        text = describe_impossible_events(events.impossible)
        yield Flaw("impossible_time", text, _RECORD_AGAIN, False)
    if text := _describe_wrong_clocks(events):
        yield Flaw("clocks_differ", text, _CLOCKS, False)
    recorded_events = sum(line.event_count for line in events.lines)
    if events.transcribed_from == XPROF and recorded_events == _MOST_IN_TRACE:
        text = f"the trace has {recorded_events:,} events, the most that XProf writes: others are left out"
        yield Flaw("most_events", text, _SHORTER, False)


def _describe_wrong_clocks(events: HostEvents) -> str:
    """Return the sentence on differing host and device clocks, or an empty text."""
    for (rows, wrong_ps), what in (
        (measure_start_before_call(events), "begin before the calls that launched them"),
        (measure_end_after_wait(events), "end after calls that waited for them"),
    ):
        count = int(np.count_nonzero(wrong_ps > max(events.slack_ps, 0)))
        if count > _EARLY_SHARE * len(rows) and wrong_ps.max() >= _EARLY_PS:
            name = shorten_name(events.names[events.meta[rows[int(np.argmax(wrong_ps))]]])
            return f"{count:,} of {len(rows):,} device events {what}, {name} by {format_time(int(wrong_ps.max()))}"
    return ""


def list_flaws(hosts: Sequence[HostRecords]) -> list[Flaw]:
    """Return the flaws of all hosts, those that hide devices first. A flaw that several hosts share is returned once,
    with its first host and the number of others."""
    alike: dict[tuple[bool, str, str], list[tuple[str, Flaw]]] = {}
    for records in hosts:
        for flaw in records.flaws:
            alike.setdefault((not flaw.hides_devices, flaw.code, flaw.remedy), []).append((records.host, flaw))
    merged = []
    for _, of_kind in sorted(alike.items(), key=lambda pair: pair[0][0]):
        host, flaw = of_kind[0]
        others = len(of_kind) - 1
        also = (
            f"; so {'has' if others == 1 else 'have'} {count_noun(others, 'other host', 'other hosts')}"
            if others
            else ""
        )
        merged.append(flaw if len(hosts) <= 1 else replace(flaw, text=f"{host}: {flaw.text}{also}"))
    return merged


def explain_missing_records(hosts: Iterable[HostRecords]) -> str | None:
    """Return why nothing is known of devices if their records are missing; None if no host shows that they are."""
    hosts = list(hosts)
    if any(host.recorded for host in hosts):
        return None
    return next((flaw.text for flaw in list_flaws(hosts) if flaw.hides_devices), None)


def find_extent(events: HostEvents) -> tuple[int, int] | None:
    """Return the first begin and the last end of the events; None if there are none."""
    if not len(events):
        return None
    ends = add_durations(events.start_ps, np.maximum(events.duration_ps, 0))
    return int(events.start_ps.min()), int(ends.max())


def find_relevant_losses(events: HostEvents) -> LostRecords | None:
    """Return the calls whose work is not recorded, if devices are not known to idle meanwhile."""
    lost = find_lost_records(events)
    return lost if lost.matters else None
