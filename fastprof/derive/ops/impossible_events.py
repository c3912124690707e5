"""Events of GPUs that cannot have happened as recorded: analyses leave them out, and ``import_log`` names them.

A stream runs one event after the other, so an event that lasts beyond later ones of its stream has a wrong end.

    stream  |=kernel=| |=kernel=| |=kernel=|
                 |====== wrong end ===================...

An event far outside the time that all other events of the host take has a wrong begin: the call that launched it, and
what waited for it, would have been recorded, too. So has a single event long before the call that launched it; if many
are, the clocks of host and GPU differ (record_checks).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fastprof.decode.import_log import LogRow
from fastprof.derive.devices.collective_kernels import kind_of_collective
from fastprof.derive.ops.call_order import after_waits, before_calls
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HostEvents, Line, beside
from fastprof.wording.quantities import counted, few, shortened, time_text

STATS: Final = ("correlation_id",)
_SHARE: Final = 0.1
"""Of the events of a stream, at most this share has wrong ends; else the line does not run in order."""
_LEAST: Final = 2
"""An event that outlasts fewer later ones may have been started early, before its stream was free."""
_FAR: Final = 0.2
"""An event is far from the others if the time between is longer than this share of their time."""
_MOST_FAR: Final = 3
"""More events far from the others are work."""
_EARLY_PS: Final = 1_000_000_000
"""An event this long before its launch, or after a call that waited for it, has wrong times, unless more than this
share of all events have."""
_MOST_EARLY: Final = 0.01


@dataclass(frozen=True, slots=True)
class Impossible:
    """An event that is left out. ``why``: the contradiction; ``row``: in the events as they were read;
    ``correlation``: its correlation id, 0: none."""

    name: str
    start_ps: int
    duration_ps: int
    why: str
    row: int
    correlation: int = 0


def without_impossible(events: HostEvents, *, entire: bool) -> HostEvents:
    """Return the events without those of GPUs that contradict others, which it notes. ``entire``: all events of the
    host were read, so that one is known to be far from the others."""
    lines = [line for plane in events.planes_of("GPU") for line in plane.lines if _is_stream(line)]
    found = [one for line in lines for one in _outlasting(events, line)]
    if STATS[0] in events.stats:
        found += _out_of_order(events, {one.row for one in found})
    if entire:
        found += _far(events, lines, {one.row for one in found})
    if not found:
        return events
    keep = np.ones(len(events), bool)
    keep[[one.row for one in found]] = False
    sound = events.subset(keep)
    sound.untimed = dict(events.untimed)
    for line in events.lines:
        if lost := sum(line.first <= one.row < line.last for one in found):
            sound.untimed[line.line_id] = sound.untimed.get(line.line_id, 0) + lost
    sound.impossible = tuple(found)
    _note(events, found)
    return sound


def in_words(found: tuple[Impossible, ...]) -> str:
    """Return the sentence on events that are left out, one or more."""
    first = max(found, key=lambda one: one.duration_ps)
    are = "device event is" if len(found) == 1 else "device events are"
    names = list(dict.fromkeys(shortened(one.name) for one in found))
    named = f" ({few(names, 3)})" if len(names) > 1 else ""
    return (
        f"{len(found):,} {are} impossible and not counted{named}: {shortened(first.name)} begins at "
        f"{time_text(first.start_ps)} and lasts {time_text(first.duration_ps)}, but {first.why}"
    )


def _note(events: HostEvents, found: list[Impossible]) -> None:
    text = in_words(tuple(found))
    row = LogRow("data_loss", "impossible_time", len(found), None, events.capture.path, text)
    events.capture.log.take([row])  # once, however often the host is read


def _is_stream(line: Line) -> bool:
    return not line.is_derived and line.name != COUNTER_LINE and line.last > line.first


def _outlasting(events: HostEvents, line: Line) -> Iterator[Impossible]:
    """Yield the events of a stream with wrong ends."""
    start = events.start_ps[line.first : line.last]
    end = ends_of(start, np.maximum(events.duration_ps[line.first : line.last], 0)) - events.slack_ps
    if not (end[:-1] > start[1:]).any():
        return
    wrong, outlasted, stream_end = _wrong_ends(start, end)
    for place, count in zip(wrong.tolist(), outlasted.tolist(), strict=True):
        row = line.first + place
        name = events.names[events.meta[row]]
        # a collective on a line of several queues may run beside all that computes, but not beyond
        if end[place] <= stream_end and kind_of_collective(name) is not None:
            continue
        runs = counted(count, "later event of its stream runs", "later events of its stream run")
        yield _impossible(events, row, f"{runs} meanwhile")


def _wrong_ends(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, int]:
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


def _out_of_order(events: HostEvents, known: set[int]) -> list[Impossible]:
    """Return the few events that begin long before the calls that launched them, or end long after a call that waited
    for them. If there are many, clocks differ."""
    found: dict[int, str] = {}
    for (rows, late), why in (
        (before_calls(events), "the call that launched it begins {} later"),
        (after_waits(events), "a call that waited for it returned {} before its end"),
    ):
        wrong = np.flatnonzero(late > _EARLY_PS)
        if len(wrong) <= max(1, _MOST_EARLY * len(rows)):
            pairs = zip(rows[wrong].tolist(), late[wrong].tolist(), strict=True)
            found |= {row: why.format(time_text(ps)) for row, ps in pairs if row not in known}
    return [_impossible(events, row, why) for row, why in found.items()]


def _far(events: HostEvents, streams: list[Line], known: set[int]) -> list[Impossible]:
    """Return the first or last few events of GPUs if nothing else is near them in time."""
    rows = np.concatenate([np.arange(line.first, line.last) for line in streams] or [np.zeros(0, np.int64)])
    rows = rows[~np.isin(rows, list(known))] if known else rows
    if len(rows) < 3:
        return []
    start = events.start_ps[rows]
    order = np.argsort(start, kind="stable") if len(streams) > 1 else np.arange(len(rows))
    begins = start[order]
    ends = np.maximum.accumulate(ends_of(begins, np.maximum(events.duration_ps[rows[order]], 0)))
    apart = begins[1:] - ends[:-1]
    middle = len(apart) // 2
    edges = {*range(min(_MOST_FAR, middle)), *range(max(len(apart) - _MOST_FAR, middle), len(apart))}
    span = int(ends[-1] - begins[0])
    wide = [at for at in sorted(edges) if apart[at] > _FAR * (span - int(apart[at]))]
    extent = _extent_of_threads(events) if wide else None
    if extent is None:
        return []
    for at in wide:
        first = at < middle
        far = order[: at + 1] if first else order[at + 1 :]
        begin = min(extent[0], int(begins[at + 1] if first else begins[0]))
        end = max(extent[1], int(ends[-1] if first else ends[at]))
        gap = begin - int(ends[at]) if first else int(begins[at + 1]) - end
        if gap > max(_FAR * (end - begin), _EARLY_PS) and not _were_launched(events, rows[far]):
            where = f"everything else of the host is from {time_text(begin)} to {time_text(end)}"
            return [_impossible(events, int(row), where) for row in rows[far].tolist()]
    return []


def _were_launched(events: HostEvents, rows: Int64s) -> bool:
    """Return whether calls before these events launched any of them."""
    if STATS[0] not in events.stats:
        return False
    known, early = before_calls(events)
    return bool(np.isin(rows, known[early <= 0]).any())


def _extent_of_threads(events: HostEvents) -> tuple[int, int] | None:
    """Return the first begin and the last end of the events of the host's threads; None: there are none."""
    lines = [line for line in events.lines if line.plane.kind != "GPU" and line.name != COUNTER_LINE]
    lines = [line for line in lines if line.last > line.first]
    if not lines:
        return None
    ends = [
        ends_of(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)).max()
        for rows in (slice(line.first, line.last) for line in lines)
    ]
    return min(int(events.start_ps[line.first]) for line in lines), int(max(ends))


def _impossible(events: HostEvents, row: int, why: str) -> Impossible:
    name = events.names[events.meta[row]]
    id_ = 0
    if STATS[0] in events.stats:
        has, ids = beside(np.array([row]), *events.ints(STATS[0]))
        id_ = int(ids[0]) if has[0] else 0
    return Impossible(name, int(events.start_ps[row]), int(events.duration_ps[row]), why, row, id_)
