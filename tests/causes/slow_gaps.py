"""Why devices do not compute, by asking for each moment between two changes: slow, but simple enough to be trusted.

It starts from what each event of a thread says, what each device ran and when steps are, and takes threads whose events
nest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from fastprof.derive.causes.cause_names import GAP_CAUSES, OTHER_WORK
from fastprof.derive.causes.gaps import StepIntervals
from fastprof.derive.ops.device_time import COMMUNICATION, COMPUTE, COPY, IDLE, WAIT, DeviceSpans
from fastprof.derive.ops.launches import find_launches
from fastprof.derive.steps.host_causes import _POWERS, CAUSE_OF, DRIVER, EXECUTOR, FEED, OTHER, Code, HostCauses
from fastprof.tables.host_events import HostEvents

WEAK = {
    Code.LAUNCH: (2, 3, 7), Code.FIRST_CALL: (2, 3, 7), Code.PYTHON: (4, 7, 7), Code.ANNOTATION: (4, 7, 7),
    Code.LOCK: (6, 9, None), Code.WAITS: (8, 9, None), Code.PROFILER: (0, None, None),
    Code.NOTHING: (None, None, None),
}  # fmt: skip
"""Which of several threads counts first: what drives, what works for it, others. All other codes: 0, 1, 5."""
OF_WAIT = {"infeed": "input", "outfeed": "transfer", "host": "callback", "core": "straggler"}
LATENCY_PS = 30_000_000
LAUNCHES = (Code.LAUNCH, Code.FIRST_CALL, Code.HOST_COMPUTE)


def rank(role: int, code: int) -> int | None:
    if role == FEED:  # a program that does not ask for elements of tf.data does not wait for them
        return None
    return WEAK.get(Code(code), (0, 1, 5))[(DRIVER, EXECUTOR, OTHER).index(role)]


@dataclass
class Part:
    """A piece of time, or a part of one."""

    begin: int
    end: int
    row: int
    group: int
    transfer: int
    cause: str | None
    kind: int


def runs(values: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """Neighbours of equal value as one: (begin, end, value)."""
    found: list[tuple[int, int, Any]] = []
    for begin, end, value in values:
        if found and found[-1][1] == begin and found[-1][2] == value:
            found[-1] = (found[-1][0], end, value)
        else:
            found.append((begin, end, value))
    return found


def moments(*times: int) -> Iterator[tuple[int, int]]:
    return pairwise(sorted(set(times)))


class SlowHost:
    """The threads of a host."""

    def __init__(self, events: HostEvents, causes: HostCauses) -> None:
        self.start = events.start_ps.tolist()
        self.end = [at + max(length, 0) for at, length in zip(self.start, events.duration_ps.tolist(), strict=True)]
        self.code = causes.code.tolist()
        self.markers = {row for row in causes.marked.tolist() if self.code[row] == Code.PYTHON}
        self.names, self.metas = events.names, events.meta.tolist()
        self.threads = list(zip(causes.lines, causes.role, strict=True))
        self.line = {row: line for line in causes.lines for row in range(line.first, line.last)}
        self.above = cache(self._above)
        self.said = cache(self._said)

    def name(self, row: int) -> str:
        return self.names[self.metas[row]]

    def _above(self, row: int) -> int:
        around = [one for one in range(self.line[row].first, row) if self.end[one] >= self.end[row]]
        return around[-1] if around else -1

    def _said(self, row: int) -> int:
        """The row that says what the thread does while this one is the innermost."""
        if row < 0:
            return -1
        around, own = self.said(self.above(row)), self.code[row]
        if not own or (around >= 0 and own == self.code[around]):
            return around
        return row if around < 0 or _POWERS[0, own] >= _POWERS[1, self.code[around]] else around

    def doing(self, line: Any) -> list[tuple[int, int, int]]:
        rows = range(line.first, line.last)
        found = []
        for begin, end in moments(*(self.start[row] for row in rows), *(self.end[row] for row in rows)):
            open_rows = [row for row in rows if self.start[row] <= begin < self.end[row]]
            found.append((begin, end, self.said(open_rows[-1]) if open_rows else -1))
        return runs(found)

    def foremost(self) -> list[tuple[int, int, int]]:
        """Which row says what the host does; -1: none."""
        pieces = []
        for place, (line, role) in enumerate(self.threads):
            for begin, end, row in self.doing(line):
                first = rank(role, self.code[row]) if row >= 0 else None
                if first is not None:
                    pieces.append((first, begin, place, end, row))
        found = []
        for begin, end in moments(*(one[1] for one in pieces), *(one[3] for one in pieces)):
            here = [one for one in pieces if one[1] <= begin < one[3]]
            found.append((begin, end, min(here)[4] if here else -1))
        return runs(found)

    def other_work(self) -> list[tuple[int, int, int, str, int]]:
        """Return when driver threads evaluate, log or save: begin, end, row, cause, and first launch."""
        every = []
        for line, role in self.threads:
            for row in range(line.first, line.last) if role == DRIVER else ():
                cause = CAUSE_OF.get(Code(self.code[row]))
                if cause in OTHER_WORK and self.end[row] > self.start[row]:
                    inner = [one for one in range(row + 1, line.last) if Code(self.code[one]) in LAUNCHES]
                    first = min((self.start[one] for one in inner), default=1 << 62)
                    every.append((self.start[row], self.end[row], row, cause, first))
        found: list[tuple[int, int, int, str, int]] = []
        for one in sorted(every, key=lambda one: (one[0], -one[1])):
            if all(one[0] >= other[1] for other in found):
                found.append(one)
        return found

    def drives(self, row: int) -> bool:
        return any(line == self.line[row] and role == DRIVER for line, role in self.threads)

    def elsewhere(self, *, without_drivers: bool) -> list[tuple[int, int]]:
        """When threads that drive devices, or launch for them, do what is neither input nor Python nor a wait."""
        apart = ("NOTHING", "INPUT", "INPUT_WORDS", "PYTHON", "ANNOTATION", "LOCK", "WAITS", "PROFILER")
        return [
            (begin, end)
            for line, role in self.threads
            if role not in (OTHER, FEED) and not line.name.startswith("tf_data")
            if not (without_drivers and role == DRIVER)
            for begin, end, row in self.doing(line)
            if row >= 0 and Code(self.code[row]).name not in apart
        ]

    def finest(self, part: Part) -> int:
        """The event that explains a piece, from nearby."""
        code = self.code[part.row] if part.row >= 0 else Code.NOTHING
        built_in = code == Code.INPUT_WORDS and self.name(part.row).startswith("$builtins ")
        if code not in (Code.PYTHON, Code.INPUT) and not built_in:
            return part.row
        line, middle = self.line[part.row], part.begin + (part.end - part.begin) // 2
        at = max(row for row in range(line.first, line.last) if self.start[row] <= middle)
        while True:
            covered = min(self.end[at], part.end) - max(self.start[at], part.begin)
            lasts = 2 * covered >= part.end - part.begin
            fits = lasts and (code == Code.PYTHON or self.code[at] == Code.INPUT)
            if built_in:
                fits = lasts and self.name(at).startswith("$") and ".py:" in self.name(at)
            if fits or at == part.row or self.above(at) < 0:
                break
            at = self.above(at)
        return at if fits and at >= part.row and self.start[at] < self.end[part.row] else part.row


def stretches(ran: DeviceSpans, window: tuple[int, int]) -> list[tuple[int, int, int]]:
    """What a device does: the place of a transfer, -1: it computes, -2: nothing."""
    spans = [(one[2], one[0], place, one[1], one[3]) for place, one in enumerate(ran.spans.tolist()) if one[1] > one[0]]
    inside = [time for one in spans for time in (one[1], one[3]) if window[0] < time < window[1]]
    found = []
    for begin, end in moments(*window, *inside):
        here = [one for one in spans if one[1] <= begin < one[3]]
        found.append((begin, end, min(here)[4] - 1 if here else -2))
    return runs(found)


def kind_of(ran: DeviceSpans, state: int) -> int:
    return IDLE if state == -2 else COMPUTE if state == -1 else ran.transfers[state].kind


BEFORE = -(1 << 62)
Launch = tuple[int, int, int, int]


def launched_at(events: HostEvents, ran: DeviceSpans, end: int) -> Launch | None:
    """Begin, end and row of the call that launched a GPU's work that begins at a time, and the row of that. BEFORE: all
    calls."""
    work = zip(ran.events.rows.tolist(), ran.events.start_ps.tolist(), ran.events.end_ps.tolist(), strict=True)
    begun = [row for row, at, until in work if at == end < until]
    ids = dict(zip(*(one.tolist() for one in events.ints("correlation_id")), strict=True))
    if not begun or begun[0] not in ids:
        return None
    on_gpu = [(plane.first, plane.last) for plane in events.planes_of("GPU")]
    every = [(one, row) for row, one in ids.items() if not any(a <= row < b for a, b in on_gpu)]
    calls = [row for one, row in every if one == ids[begun[0]]]
    if calls:
        call = max(calls)
        start = int(events.start_ps[call])
        return start, start + max(int(events.duration_ps[call]), 0), call, begun[0]
    return (BEFORE, BEFORE, -1, begun[0]) if every and 0 < ids[begun[0]] < min(every)[0] else None


@dataclass
class SlowDevice:
    """A device whose clock is its host's. ``busy``: stretches in which any device works."""

    events: HostEvents
    host: SlowHost
    ran: DeviceSpans
    stretches: list[tuple[int, int, int]]
    steps: StepIntervals
    busy: list[tuple[int, int, Any]]

    def pieces(self) -> Iterator[Part]:
        works = [end for _, end, state in self.stretches if state != -2]
        for begin, end, state in self.stretches:
            is_gpu = self.ran.plane.kind == "GPU"
            launch = launched_at(self.events, self.ran, end) if is_gpu and state == -2 else None
            cuts = self.cuts(begin, end, state, launch)
            parts = [self.part(one, (begin, end, state), launch, is_gpu, max(works, default=0)) for one in cuts]
            for joined in self.joined(parts):
                for one in self.of_other_work(joined):
                    one.row = self.host.finest(one)
                    yield one

    def of_other_work(self, part: Part) -> Iterator[Part]:
        """The piece, cut where the host begins or ends to evaluate, to log or to save."""
        spans = self.computes() if part.kind == COMPUTE else [one[:4] for one in self.host.other_work()]
        bounds = [time for begin, end, _, _ in spans for time in (begin, end) if part.begin < time < part.end]
        for begin, end in moments(part.begin, part.end, *bounds):
            within = [(row, cause) for since, until, row, cause in spans if since <= begin < until]
            row, cause = within[-1] if within else (part.row, part.cause)
            yield replace(part, begin=begin, end=end, row=row, cause=cause)

    def computes(self) -> list[tuple[int, int, int, str]]:
        """Return when the device computes for such work: from its first launched event to its last, if known."""
        found, reached, own = [], BEFORE, self.ran.events
        rows = own.rows.astype(np.int64)
        calls = find_launches(self.events, rows).row.tolist() if self.ran.plane.kind == "GPU" else []
        for begin, end, row, cause, first in self.host.other_work():
            times = (min(first, end), end)
            if self.ran.plane.kind == "GPU":
                some = [k for k, call in enumerate(calls) if call >= 0 and begin <= self.host.start[call] < end]
                starts, ends = ([int(one[k]) for k in some] for one in (own.start_ps, own.end_ps))
                times = (min(starts), max(ends)) if some else (end, end)
            found.append((max(times[0], reached), max(*times, reached), row, cause))
            reached = max(reached, times[1])
        return found

    def cuts(self, begin: int, end: int, state: int, launch: Launch | None) -> Iterator[tuple[int, int]]:
        times = [*self.steps.begin_ps.tolist(), *self.steps.end_ps.tolist(), *(launch[:2] if launch else [])]
        if kind_of(self.ran, state) >= WAIT:
            times += [time for one in self.host.foremost() for time in one[:2]]
        if state == -2:
            times += [time for one in self.busy for time in one[:2]]
        return moments(begin, end, *(time for time in times if begin < time < end))

    def part(
        self,
        cut: tuple[int, int],
        stretch: tuple[int, int, int],
        launch: Launch | None,
        is_gpu: bool,
        done: int,
    ) -> Part:
        begin, end = cut
        state, kind = stretch[2], kind_of(self.ran, stretch[2])
        step = [
            int(group)
            for group, since, until in zip(self.steps.group, self.steps.begin_ps, self.steps.end_ps, strict=True)
            if since <= begin < until
        ]
        found = Part(begin, end, -1, step[0] if step else -1, max(state, -1), None, kind)
        if kind <= COPY:
            found.cause = {COMPUTE: None, COMMUNICATION: "communication", COPY: "transfer"}[kind]
            return found
        row = next((row for since, until, row in self.host.foremost() if since <= begin < until), -1)
        code = Code(self.host.code[row]) if row >= 0 else Code.NOTHING
        meanwhile = kind == IDLE and any(since <= begin < until for since, until, _ in self.busy)
        if launch is not None and kind == IDLE and begin >= launch[0]:
            _, returned, call, work = launch
            length = stretch[1] - max(stretch[0], returned)
            soon = "launch" if returned > stretch[0] else "between_kernels"
            found.cause = ("straggler" if meanwhile else "queue") if length > LATENCY_PS else soon
            if begin < returned:
                found.cause = "transfer" if self.host.code[call] == Code.TRANSFER else "launch"
            found.row = call if begin < returned or found.cause == "launch" else work
            return found
        own = CAUSE_OF.get(code)
        if own is None:
            late = code == Code.WAITS and not is_gpu and end < done
            others = meanwhile and stretch[1] - stretch[0] > LATENCY_PS
            found.cause = "straggler" if others else "launch" if late else "idle"
        else:
            found.cause = own
        if kind == WAIT and found.cause in ("idle", "launch"):
            found.cause = OF_WAIT[self.ran.transfers[state].waits_for]
        if own == found.cause or code == Code.WAITS:
            found.row = row
        return found

    def joined(self, parts: list[Part]) -> Iterator[Part]:
        """Neighbours of equal cause and step as one, explained by the longest of them."""
        while parts:
            count = 1
            while count < len(parts) and (parts[count].cause, parts[count].group) == (parts[0].cause, parts[0].group):
                count += 1
            longest = max(parts[:count], key=lambda one: one.end - one.begin)
            first, last, parts = parts[0], parts[count - 1], parts[count:]
            found = Part(first.begin, last.end, longest.row, first.group, first.transfer, first.cause, first.kind)
            yield found

    def line(self, row: int) -> str:
        """The thread or stream of an event."""
        return next(line.name for line in self.events.lines if line.first <= row < line.last)

    def explanation(self, part: Part) -> tuple[int, str] | None:
        """A number that says which of two with equal time counts, and the text."""
        if part.row >= 0 and part.row not in self.host.markers:
            meta = int(self.events.meta[part.row]) % len(self.events.names)
            return meta, self.events.names[meta]
        if part.transfer >= 0:
            return len(self.events.names) + part.transfer, self.ran.transfers[part.transfer].name
        return None

    def beside(self, part: Part) -> tuple[str | None, str | None]:
        """What the device ended last before a piece, and began first after it."""
        ran = self.ran.events
        own = list(zip(*(one.tolist() for one in (ran.rows, ran.start_ps, ran.end_ps)), strict=True))
        before = [(end, place, row) for place, (row, _, end) in enumerate(own) if end <= part.begin]
        after = [(start, place, row) for place, (row, start, _) in enumerate(own) if start >= part.end]
        rows = [max(before)[2] if before else None, min(after)[2] if after else None]
        names = [None if row is None else int(self.events.meta[row]) for row in rows]
        first, second = (
            None if meta is None else self.events.display_names[meta] or self.events.names[meta] for meta in names
        )
        return first, second


Sums = dict[tuple[int, int, str | None], tuple[int, int, int, int, str | None]]


def sums(device: SlowDevice, pieces: list[Part]) -> Sums:
    """By group, kind and cause: time, count, the longest and its begin, and what explains most."""
    by: dict[tuple[int, int, str | None], list[Part]] = defaultdict(list)
    for one in pieces:
        by[one.group, one.kind, one.cause].append(one)
    found: Sums = {}
    for key, own in by.items():
        times: dict[tuple[int, str], int] = defaultdict(int)
        for one in own:
            what = device.explanation(one)
            if what:
                times[what] += one.end - one.begin
        event = max(times, key=lambda what: (times[what], what[0]))[1] if times else None
        longest = max(own, key=lambda one: one.end - one.begin)
        time = sum(one.end - one.begin for one in own)
        found[key] = time, len(own), longest.end - longest.begin, longest.begin, event
    return found


def works(devices: list[tuple[DeviceSpans, list[tuple[int, int, int]]]]) -> list[tuple[int, int, Any]]:
    """When any of several devices computes or communicates."""
    if len(devices) < 2:
        return []
    busy = [(begin, end) for ran, own in devices for begin, end, state in own if kind_of(ran, state) <= COMMUNICATION]
    times = moments(*(time for one in busy for time in one))
    return runs([(begin, end, 0) for begin, end in times if any(a <= begin < b for a, b in busy)])


def all_busy(devices: list[tuple[DeviceSpans, list[tuple[int, int, int]]]]) -> list[tuple[int, int, Any]]:
    """The same, if any communicates: others do not wait for each other."""
    communicates = any(kind_of(ran, state) == COMMUNICATION for ran, own in devices for _, _, state in own)
    return works(devices) if communicates else []


def cause_name(number: int) -> str | None:
    return (*GAP_CAUSES, None)[number]
