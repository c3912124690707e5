"""Calls of a host that start work on its GPUs, and whose work is not in the capture: the profiler lost its records.

A call and what it starts have one correlation id. A call in a stream capture starts nothing, and of a call of the
runtime and the call of the driver inside it, one has the id of the work.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import numpy as np

from fastprof.decode.plane_kinds import device_of
from fastprof.derive.steps.device_steps import is_derived
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HostEvents
from fastprof.tables.once import once
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import counted, few, time_text

STATS: Final = ("correlation_id",)
_KERNELS: Final = pattern_of(r"launch\w*kernel|kernel\w*launch|graph\w*launch|launch\w*graph|^(cu|hip)launch\b", re.I)
_COPIES: Final = pattern_of(r"^(cu|cuda|hip)mem(cpy|set)", re.I)
_BEGINS: Final = pattern_of(r"(begin|start)\w*capture", re.I)
_ENDS: Final = pattern_of(r"end\w*capture", re.I)

MOST_KERNELS: Final = 0.01
"""If more of the launches of kernels have no record, what devices do is unknown."""
MOST_COPIES: Final = 0.25
"""The limit for copies and sets. It is higher: a copy of 0 bytes, or within the host, starts no GPU work."""


@dataclass(frozen=True, slots=True)
class Lost:
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
        """Whether so much is lost that figures of devices do not hold."""
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
                one, more, record = what
                have = "has" if lost == 1 else "have"
                of = counted(every, one, more)
                parts.append(f"{lost:,} of {of} {have} no {record} ({100 * lost / every:.3g} %)")
        first, last = time_text(int(self.times_ps[0])), time_text(int(self.times_ps[-1]))
        when = f"at {first}" if first == last else f"from {first} to {last}"
        none = ": no activity of a device is recorded" if not self.recorded else ""
        none = f": nothing that was launched after {first} is recorded" if self.at_end else none
        return f"{' and '.join(parts)}{none}; calls {when}: {few(self.calls, 3)}"


NOTHING_LOST: Final = Lost(0, 0, 0, 0, (), np.zeros(0, np.int64), 0)


@once
def lost_records(events: HostEvents) -> Lost:
    """Return the calls whose work is not recorded; none are known to be lost if as much work has no id."""
    at, ids = events.ints("correlation_id")
    if not len(at):
        return NOTHING_LOST
    recorded, of_gpu = 0, np.zeros(len(at), np.bool_)
    for plane in events.planes_of("GPU"):
        of_gpu[slice(*np.searchsorted(at, [plane.first, plane.last]).tolist())] = True
        lines = (line for line in plane.lines if not is_derived(line) and line.name != COUNTER_LINE)
        recorded += sum(line.last - line.first for line in lines)
    rows, wanted = at[~of_gpu].astype(np.int64), ids[~of_gpu]
    kinds = _kinds(events)[events.meta[rows]]
    starts = (kinds != 0) & (wanted != 0)
    rows, wanted, kinds = rows[starts], wanted[starts], kinds[starts]
    if not len(rows) or len(events.planes_of("GPU")) < sum(device_of(name)[0] == "GPU" for name in events.plane_names):
        return NOTHING_LOST  # or planes of GPUs were not read
    present = np.concatenate([ids[of_gpu], np.array([one.correlation for one in events.impossible], np.int64)])
    lost = ~np.isin(wanted, present) & ~_is_captured(events, rows)
    counts, lost = _once_each(events, rows, lost)
    without_id = recorded - int(np.count_nonzero(ids[of_gpu])) + _without_time(events)
    if np.count_nonzero(lost) <= without_id:
        lost = np.zeros(len(rows), np.bool_)
    of_kernels = kinds == 1
    begins = events.start_ps[rows]
    at_end = bool(lost.any()) and bool((~lost).any()) and int(begins[lost].min()) > int(begins[~lost].max())
    names = Counter(events.names[meta] for meta in events.meta[rows[lost]].tolist())
    return Lost(
        int(np.count_nonzero(of_kernels & counts)),
        int(np.count_nonzero(~of_kernels & counts)),
        int(np.count_nonzero(of_kernels & lost)),
        int(np.count_nonzero(~of_kernels & lost)),
        tuple(name for name, _ in names.most_common()),
        np.sort(begins[lost]),
        recorded + len(events.impossible),
        at_end,
    )


def _without_time(events: HostEvents) -> int:
    """Return how many events of the file were left out because they have no time: they are not lost."""
    rows = events.capture.log.rows()
    return sum(row.count for row in rows if row.code == "bad_time" and row.path == events.capture.path)


def _kinds(events: HostEvents) -> Int64s:
    """By row of event metadata: 1 for calls that launch, 2 for calls that copy or set, else 0."""
    return np.array(
        [1 if _KERNELS.search(name) else 2 if _COPIES.match(name) else 0 for name in events.names], np.int64
    )


def _is_captured(events: HostEvents, rows: Int64s) -> Bools:
    """Whether each call is made while its thread captures a stream."""
    begins, ends = (_rows_named(events, pattern) for pattern in (_BEGINS, _ENDS))
    if not len(begins):
        return np.zeros(len(rows), np.bool_)
    begun = np.append(-1, begins)[np.searchsorted(begins, rows)]
    ended = np.append(-1, ends)[np.searchsorted(ends, rows)]
    firsts = np.array([line.first for line in events.lines if line.last > line.first])
    line_first = firsts[np.searchsorted(firsts, rows, side="right") - 1]
    found: Bools = (begun > ended) & (begun >= line_first)
    return found


def _rows_named(events: HostEvents, pattern: re.Pattern[str]) -> Int64s:
    metas = [meta for meta, name in enumerate(events.names) if pattern.search(name)]
    return np.flatnonzero(np.isin(events.meta, metas)) if metas else np.zeros(0, np.int64)


def _once_each(events: HostEvents, rows: Int64s, lost: Bools) -> tuple[Bools, Bools]:
    """Return which calls count, and which of them are lost: of two calls, one inside the other, the outer counts, and
    is lost if both are."""
    begin = events.start_ps[rows]
    end = ends_of(begin, np.maximum(events.duration_ps[rows], 0))
    firsts = np.array([line.first for line in events.lines if line.last > line.first])
    line = np.searchsorted(firsts, rows, side="right")
    differs = events.meta[rows[1:]] != events.meta[rows[:-1]]
    inner = np.append(False, (line[1:] == line[:-1]) & (end[1:] <= end[:-1]) & differs)
    outer = np.append(inner[1:], False)
    lost = lost & ~inner & ~(outer & ~np.append(lost[1:], True))
    return ~inner, lost
