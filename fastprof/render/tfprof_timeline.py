"""The trace files of tfprof's output ``timeline``, byte for byte as tfprof writes them.

The scope and code views become nested boxes as long as their sums, without real times. The graph view becomes one step
as it ran: executions by device on lanes, arrows between devices, and the memory of accelerators.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded
from fastprof.derive.tfprof.step_runs import StepRuns, is_canonical
from fastprof.derive.tfprof.views import Shown
from fastprof.errors import UsageError
from fastprof.schema.value_classes import dataclass

_MICROS: Final = FIGURES.index("micros")
_LARGE: Final = 200 << 20
_TOO_LARGE: Final = (
    "Trace file is over 200MB. Chrome might not be able to display it. Consider to use filters (e.g. -min_micros > "
    "1000 or -op_type .*gpu:0.* to reduce the size.\n"
)
_APART_US: Final = 100
"""Counters of memory are at least this far apart."""
_TOP: Final = 10


def document(events: Iterable[str]) -> str:
    """A trace file of events."""
    return f'{{"traceEvents":[{",".join(events)}]}}\n'


def warning(trace: str) -> str:
    """What tfprof says of a large file; empty: nothing."""
    return _TOO_LARGE if len(trace) > _LARGE else ""


def trace(shown: Shown, view: str, recorded: Recorded, options: Options) -> str:
    """The trace file of a view. UsageError: the view has none, or no step is chosen."""
    if view == "op":
        raise UsageError("the view op has no timeline: choose scope, graph or code")
    if view != "graph":
        return document(boxes(shown))
    steps = recorded.steps if options.step < 0 else [options.step]
    if len(steps) != 1:
        raise UsageError(f"the timeline of the graph is of one step: choose one of {', '.join(map(str, steps))}")
    return document(GraphTimeline(shown, recorded, steps[0]).events())


# ---- scope and code


def boxes(shown: Shown) -> Iterator[str]:
    """A box a row, below its parent and after its siblings. UsageError: rows last longer than their parent."""
    names, micros = shown.names.to_pylist(), shown.totals[_MICROS].tolist()
    parent, depth, end = shown.forest.parent.tolist(), shown.forest.depth.tolist(), shown.forest.end.tolist()
    begin = [0] * len(names)
    filled = [0] * len(names)
    announced, place = -1, 0
    while place < len(names):
        above = parent[place]
        if place and micros[place] <= 0:
            place = end[place]
            continue
        if place:
            begin[place] = begin[above] + filled[above]
            filled[above] += micros[place]
            if filled[above] > micros[above]:
                raise UsageError(
                    f"no timeline: what is below {names[above]!r} takes longer than its {micros[above]} us"
                )
        if depth[place] > announced:
            announced = depth[place]
            yield _process(f"Scope:{announced}", announced)
        args = {"name": names[place], "op": names[place]}
        yield _slice(names[place], args, begin[place], micros[place], depth[place], 0)
        place += 1


# ---- graph


@dataclass(slots=True)
class _Execution:
    """An execution on a device, and those on other devices that take an output of its node."""

    node: int
    device: str
    start: int
    duration: int
    lane: int
    takers: list[_Execution]


class GraphTimeline:
    """The step of a graph view."""

    def __init__(self, shown: Shown, recorded: Recorded, step: int) -> None:
        self._shown, self._recorded = shown, recorded
        self._runs = StepRuns(recorded, step)
        assert shown.node is not None
        self._nodes = [node for node in shown.node.tolist() if node >= 0 and node in self._runs.timed]
        self._names = recorded.names.take(self._nodes).to_pylist() if self._nodes else []
        self._name = dict(zip(self._nodes, self._names, strict=True))
        self.peaks: dict[str, int] = {}
        """The most bytes in use of each device with memory, once the events are made."""

    def events(self) -> Iterator[str]:
        pids: dict[str, int] = {}
        by_device: dict[str, dict[int, _Execution]] = {}
        for node in self._nodes:
            for device, spans in self._runs.spans.get(node, {}).items():
                if device not in pids:
                    pids[device] = len(pids)
                    title = "execution" if "stream" in device else "scheduling"
                    yield _process(f"Op {title} threads: {device}", pids[device])
                there = by_device.setdefault(device, {})
                for start, duration in spans:
                    there.setdefault(start, _Execution(node, device, start, duration, 0, []))
        ordered = [one for device in by_device for one in _on_lanes(by_device[device])]
        self._link(by_device)
        for one in ordered:
            name = self._name[one.node]
            yield _slice(name, {"name": name}, one.start, one.duration, pids[one.device], one.lane)
        memory = _Memory(self._nodes, self._names, self._runs, self._recorded)
        next_pid = len(pids)
        for device in memory.devices:
            yield _process(f"mem usage on:{device}", next_pid)
            yield _process(f"mem usage on:{device} allocations", next_pid + 1)
            next_pid += 2
        yield from self._flows(ordered, pids)
        for number, device in enumerate(memory.devices):
            self.peaks[device] = memory.peak(device)
            yield from memory.counters(device, len(pids) + 2 * number)

    def _link(self, by_device: dict[str, dict[int, _Execution]]) -> None:
        """Note what takes outputs of what on another device. Streams have no arrows."""
        accounted = {int(node) for node in self._nodes}
        inputs = self._recorded.input_rows
        for device in sorted(filter(is_canonical, by_device), key=str.encode):
            for one in sorted(by_device[device].values(), key=lambda execution: execution.start):
                for producer in inputs(one.node):
                    if producer not in accounted:
                        continue
                    for other, spans in self._runs.on_cpu.get(producer, {}).items():
                        if other != device and is_canonical(other):
                            for start, _ in spans:
                                by_device[other][start].takers.append(one)

    def _flows(self, ordered: list[_Execution], pids: dict[str, int]) -> Iterator[str]:
        number = 0
        for one in ordered:
            name = f"{self._name[one.node]}_flow"
            for taker in one.takers:
                number += 1
                yield _flow("s", name, number, one.start + one.duration, pids[one.device], one.lane)
                yield _flow("t", name, number, taker.start, pids[taker.device], taker.lane)


def _on_lanes(executions: dict[int, _Execution]) -> list[_Execution]:
    """Executions of a device in the order of lanes, then of start: each is on the first lane that is free."""
    lanes: list[list[_Execution]] = []
    for _, one in sorted(executions.items()):
        one.lane = next((n for n, lane in enumerate(lanes) if _is_free(lane, one.start)), len(lanes))
        if one.lane == len(lanes):
            lanes.append([])
        lanes[one.lane].append(one)
    return [one for lane in lanes for one in lane]


def _is_free(lane: list[_Execution], start: int) -> bool:
    last = lane[-1]
    return last.start + last.duration <= start


class _Memory:
    """The memory of accelerators in a step, by device in the order of their names."""

    def __init__(self, nodes: list[int], names: list[str], runs: StepRuns, recorded: Recorded) -> None:
        canonical = recorded.devices.take(nodes).to_pylist() if nodes else []
        self._held: dict[str, dict[str, tuple[list[int], list[int]]]] = defaultdict(dict)
        self._in_use: dict[str, dict[int, int]] = defaultdict(dict)
        for node, name, device in zip(nodes, names, canonical, strict=True):
            if "gpu" not in device:
                continue
            changes = defaultdict[int, int](int)
            for time, size in runs.timed[node]:
                changes[time] += size
            changes[0] += runs.persistent[node]
            times, held = sorted(changes), 0
            sizes = [held := held + changes[time] for time in times]
            self._held[device][name] = (times, sizes)
            for time, size in runs.in_use.get(node, ()):
                if time > 0:
                    self._in_use[device][time] = size
        self.devices = sorted(self._held, key=str.encode)

    def peak(self, device: str) -> int:
        return max(self._in_use[device].values(), default=0)

    def counters(self, device: str, pid: int) -> Iterator[str]:
        last = 0
        for time, size in sorted(self._in_use[device].items()):
            if time - last < _APART_US:
                continue
            last = time
            yield _counter("Allocated Bytes", {"Allocator Bytes in Use": size}, time, pid)
            yield _counter("Top Allocations", self._top(device, time, size), time, pid + 1)

    def _top(self, device: str, time: int, size: int) -> dict[str, str]:
        """The largest allocations at a time."""
        held = []
        for name, (times, sizes) in sorted(self._held[device].items(), key=lambda one: one[0].encode()):
            place = bisect_right(times, time) - 1
            if place >= 0 and sizes[place] > 0:
                held.append((sizes[place], name))
        held.sort(key=lambda one: -one[0])
        top: list[tuple[int, str]] = []
        rest = size
        for one, name in held:  # tfprof leaves out what is larger than the memory in use that the others leave
            if one <= rest and len(top) < _TOP:
                top.append((one, name))
                rest -= one
        spelt = {n: f"{one / 1e6:g} MB from {name}" for n, (one, name) in enumerate(top)}
        spelt |= dict.fromkeys(range(max(1, len(top)), _TOP), "N/A")  # tfprof leaves out the first if there is none
        return {"Not Displayed": f"{rest / 1e6:.2f} MB"} | {f"Top Allocation {n:02}": text for n, text in spelt.items()}


# ---- events, with their keys in alphabetical order


def _process(name: str, pid: int) -> str:
    return f'{{"args":{{"name":{_quoted(name)}}},"name":"process_name","ph":"M","pid":{pid}}}'


def _slice(name: str, args: dict[str, str], start: int, duration: int, pid: int, lane: int) -> str:
    return (
        f'{{"args":{_object(args)},"cat":"Op","dur":{duration},"name":{_quoted(name)},"ph":"X",'
        f'"pid":{pid},"tid":{lane},"ts":{start}}}'
    )


def _flow(phase: str, name: str, number: int, time: int, pid: int, lane: int) -> str:
    return (
        f'{{"cat":"DataFlow","id":{number},"name":{_quoted(name)},"ph":"{phase}","pid":{pid},"tid":{lane},"ts":{time}}}'
    )


def _counter(name: str, args: dict[str, Any], time: int, pid: int) -> str:
    return f'{{"args":{_object(args)},"cat":"Memory","name":"{name}","ph":"C","pid":{pid},"tid":0,"ts":{time}}}'


def _object(args: dict[str, Any]) -> str:
    pairs = (f"{_quoted(key)}:{_quoted(value) if isinstance(value, str) else value}" for key, value in args.items())
    return f"{{{','.join(pairs)}}}"


def _quoted(text: str) -> str:
    return json.dumps(text)
