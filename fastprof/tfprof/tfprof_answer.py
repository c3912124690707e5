"""The answer of tfprof to one request: its report, the files of its outputs, and what it prints.

The files are pprof files of the code view (a sample a node, with the stack of lines that made it) and trace files of
the output ``timeline`` (sums as nested boxes; of the graph view one step as it ran, with arrows and memory). Where
tfprof refuses, it prints a line to standard error and answers with nothing; so does this.

Beside its report, tfprof returns protos: GraphNodeProto of the views scope and graph, MultiGraphNodeProto of op and
code, and AdviceProto. Here they are in protobuf's JSON: zero fields are left out; 64-bit numbers are strings.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from fastprof.derive.tfprof.options import ORDERS, ViewOptions
from fastprof.derive.tfprof.recorded import FIGURES, RecordedGraph, StepRuns, is_canonical
from fastprof.derive.tfprof.view_set import ViewSet, check_view
from fastprof.derive.tfprof.views import GRADIENT, CodeLines, VisibleTree, make_empty_tree
from fastprof.errors import UsageError
from fastprof.schema.message_fields import encode_varint, put
from fastprof.schema.value_classes import dataclass
from fastprof.tfprof.tfprof_text import MISSES_STREAM, explain_unmatched, surround_report, write_report

_NAMES: Final = {
    "micros": "exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "bytes": "requested_bytes",
    "params": "parameters",
}
_FIELDS: Final = [_NAMES.get(name, name) for name in FIGURES]
_OF_NODES: Final = ("run_count", "definition_count")


def write_view_proto(shown: VisibleTree | None, recorded: RecordedGraph, step: int) -> Iterator[str]:
    """Yield the document in parts, for rows of any depth. ``shown``: None if tfprof returns nothing."""
    if shown is None:
        yield "{}\n"
        return
    figures, totals = shown.figures.T.tolist(), shown.totals.T.tolist()
    names, depth = shown.names.to_pylist(), [*shown.forest.depth.tolist(), 0]
    for place, name in enumerate(names):
        row: dict[str, Any] = {"name": name}
        of_nodes = shown.node is not None
        own = figures[place] if place else [0] * len(FIGURES)  # the root has sums only
        row |= _list_numbers(own, totals[place], of_nodes)
        if shown.node is not None:
            node = int(shown.node[place])
            row |= _describe_node(recorded, node) if node >= 0 else {}
        elif members := shown.members(place).tolist():
            row["graph_nodes"] = [_describe_member(recorded, node, step) for node in members]
        text = json.dumps(row)
        if depth[place + 1] > depth[place]:
            yield f'{text[:-1]}, "children": ['
        else:
            closing = "]}" * (depth[place] - depth[place + 1])
            yield f"{text}{closing}{', ' if place + 1 < len(names) else ''}"
    yield "\n"


def write_advice_proto(reports: Mapping[str, list[str]]) -> str:
    """Return the document; a checker without reports is an empty object."""
    return f"{json.dumps({'checkers': {name: {'reports': some} if some else {} for name, some in reports.items()}})}\n"


def _list_numbers(figures: list[int], totals: list[int], of_nodes: bool) -> dict[str, str]:
    row = {}
    for name, own, total in zip(_FIELDS, figures, totals, strict=False):
        if not of_nodes and name in _OF_NODES:
            continue
        if own and name != "definition_count":
            row[name] = str(own)
        if total:
            row[f"total_{name}"] = str(total)
    return row


def _describe_member(recorded: RecordedGraph, node: int, step: int) -> dict[str, Any]:
    own = recorded.figures(step)[:, node].tolist()
    return {"name": recorded.names[node].as_py()} | _list_numbers(own, own, True) | _describe_node(recorded, node)


def _describe_node(recorded: RecordedGraph, node: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if device := recorded.devices[node].as_py():
        row["devices"] = [device]
    if inputs := recorded.input_shapes[node].as_py():
        dims = [(slot["slot"], [{"size": str(size)} if size else {} for size in slot["shape"]]) for slot in inputs]
        row["input_shapes"] = {str(slot): {"dim": dim} if dim else {"unknown_rank": True} for slot, dim in dims}
    return row


_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING, _COMMENT = 1, 2, 4, 5, 6, 13
MEASURES: Final = {
    "bytes": "Sum of operation total memory requests, excluding deallocations.",
    "peak_bytes": "Sum of operation peak memory usage.",
    "residual_bytes": "Sum of operation allocated memory after finish.",
    "output_bytes": "Sum of operation output size.",
    "micros": "Sum of accelerator execution time and cpu execution time.",
    "accelerator_micros": "Accelerator execution time.",
    "cpu_micros": "CPU execution time.",
    "params": "Model parameters.",
    "float_ops": "Model float operations (Only available if defined).",
}


class _StackFrame(NamedTuple):
    file: str
    line: int
    function: str
    function_line: int


def compress_stacks(shown: VisibleTree, views: ViewSet, options: ViewOptions, *, as_tfprof: bool = False) -> bytes:
    """The file of a code view. ``as_tfprof``: with the samples that tfprof writes, which are some. UsageError: not one
    figure is selected, which samples count beside nodes."""
    step, selected = options.step, set(options.select)
    if len(selected) != 1 or not selected <= set(MEASURES):
        raise UsageError(f"a file of pprof counts one of {', '.join(MEASURES)}: select one")
    (measure,) = selected
    nodes = _list_last_nodes(shown, views.lines) if as_tfprof else _list_row_nodes(shown, views.lines)
    return gzip.compress(_CodeProfile(measure).message(shown, views, step, nodes), mtime=0)


def _list_row_nodes(shown: VisibleTree, lines: CodeLines) -> list[list[int]]:
    """The accounted nodes of each row, and of the hidden lines below it."""
    place_of = dict(zip(shown.row.tolist(), range(len(shown.row)), strict=True))
    nodes: list[list[int]] = [[] for _ in place_of]
    near: list[int] = []
    for row, above in enumerate(lines.forest.parent.tolist()):
        near.append(place_of.get(row, near[above] if row else 0))
        nodes[near[row]] += shown.of_row(row).tolist()
    return nodes


def _list_last_nodes(shown: VisibleTree, lines: CodeLines) -> list[list[int]]:
    """The accounted nodes of the last lines below each last row that is shown: tfprof has no sample of a node if its
    line calls another one."""
    end = lines.forest.end
    nodes: list[list[int]] = [[] for _ in shown.row]
    for place in range(1, len(nodes)):
        row = int(shown.row[place])
        if shown.forest.end[place] == place + 1:
            last = (line for line in range(row, int(end[row])) if end[line] == line + 1)
            nodes[place] = [node for line in last for node in shown.of_row(line).tolist()]
    return nodes


class _CodeProfile:
    def __init__(self, measure: str) -> None:
        self._measure = measure
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[tuple[str, int, str], int] = {}
        self._parts: list[bytes] = []

    def message(self, shown: VisibleTree, views: ViewSet, step: int, nodes: list[list[int]]) -> bytes:
        figure = FIGURES.index(self._measure)
        if self._measure.endswith("micros") and views.recorded.is_capture:
            values, unit = (views.recorded.ticks(step)[figure] + 500) // 1000, "nanoseconds"
        else:
            values = views.recorded.figures(step)[figure]
            unit = next((unit for suffix, unit in _UNITS.items() if self._measure.endswith(suffix)), "count")
        for kind, of in (("count", "count"), (self._measure, unit)):
            self._parts.append(put(_SAMPLE_TYPE, put(1, self._text(kind)) + put(2, self._text(of))))
        lines = views.lines
        frames: list[Any] = []  # of each row; of the root None
        for row in shown.row.tolist():
            if row == 0:
                frames.append(None)
                continue
            frame = lines.frames[lines.frame[row]].as_py()
            suffix = GRADIENT if lines.is_gradient[row] else ""
            frames.append(_StackFrame(frame["file"], frame["line"], frame["function"] + suffix, frame["function_line"]))
        names, parent = views.recorded.names, shown.forest.parent.tolist()
        calls = [b""] * len(parent)  # the ids of a row's stack, innermost first
        for place in range(1, len(parent)):
            above = parent[place]
            if above > 0:
                calls[place] = encode_varint(self._location(frames[above], frames[place])) + calls[above]
            for node in nodes[place]:
                label = put(1, self._text("graph node:")) + put(2, self._text(names[node].as_py()))
                value = encode_varint(1) + encode_varint(int(values[node]))
                self._parts.append(put(_SAMPLE, put(1, calls[place]) + put(2, value) + put(3, label)))
        comment = put(_COMMENT, self._text(MEASURES[self._measure]))
        return b"".join([*self._parts, comment, *(put(_STRING, text) for text in self._strings)])

    def _text(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _location(self, caller: _StackFrame, callee: _StackFrame) -> int:
        key = caller.file, caller.line, callee.function
        number = self._locations.get(key)
        if number is None:
            number = self._locations[key] = len(self._locations) + 1
            line = put(1, self._function(callee)) + put(2, caller.line)
            self._parts.append(put(_LOCATION, put(1, number) + put(4, line)))
        return number

    def _function(self, frame: _StackFrame) -> int:
        key = frame.file, frame.function, frame.function_line
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            module = frame.file.rpartition("/")[2].rpartition(".")[0] or frame.file.rpartition("/")[2]
            named = self._text(f"{module}:{frame.function}")
            described = put(1, number) + put(2, named) + put(3, named) + put(4, self._text(frame.file))
            self._parts.append(put(_FUNCTION, described + put(5, frame.function_line)))
        return number


_UNITS: Final = {"micros": "microseconds", "bytes": "bytes"}


_MICROS: Final = FIGURES.index("micros")
_LARGE: Final = 200 << 20
_TOO_LARGE: Final = (
    "Trace file is over 200MB. Chrome might not be able to display it. Consider to use filters (e.g. -min_micros > "
    "1000 or -op_type .*gpu:0.* to reduce the size.\n"
)
_APART_US: Final = 100
"""Counters of memory are at least this far apart."""
_TOP: Final = 10


def make_trace_document(events: Iterable[str]) -> str:
    """A trace file of events."""
    return f'{{"traceEvents":[{",".join(events)}]}}\n'


def get_size_warning(trace: str) -> str:
    """What tfprof says of a large file; empty: nothing."""
    return _TOO_LARGE if len(trace) > _LARGE else ""


def make_trace(shown: VisibleTree, view: str, recorded: RecordedGraph, options: ViewOptions) -> str:
    """The trace file of a view. UsageError: the view has none, or no step is chosen."""
    if view == "op":
        raise UsageError("the view op has no timeline: choose scope, graph or code")
    if view != "graph":
        return make_trace_document(make_boxes(shown))
    steps = recorded.steps if options.step < 0 else [options.step]
    if len(steps) != 1:
        raise UsageError(f"the timeline of the graph is of one step: choose one of {', '.join(map(str, steps))}")
    return make_trace_document(GraphTimeline(shown, recorded, steps[0]).events())


# ---- scope and code


def make_boxes(shown: VisibleTree) -> Iterator[str]:
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
            yield _write_process(f"Scope:{announced}", announced)
        args = {"name": names[place], "op": names[place]}
        yield _write_slice(names[place], args, begin[place], micros[place], depth[place], 0)
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

    def __init__(self, shown: VisibleTree, recorded: RecordedGraph, step: int) -> None:
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
                    yield _write_process(f"Op {title} threads: {device}", pids[device])
                there = by_device.setdefault(device, {})
                for start, duration in spans:
                    there.setdefault(start, _Execution(node, device, start, duration, 0, []))
        ordered = [lane for device in by_device for lane in _assign_lanes(by_device[device])]
        self._link(by_device)
        for execution in ordered:
            name = self._name[execution.node]
            yield _write_slice(
                name, {"name": name}, execution.start, execution.duration, pids[execution.device], execution.lane
            )
        memory = _AcceleratorMemory(self._nodes, self._names, self._runs, self._recorded)
        next_pid = len(pids)
        for device in memory.devices:
            yield _write_process(f"mem usage on:{device}", next_pid)
            yield _write_process(f"mem usage on:{device} allocations", next_pid + 1)
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
            for execution in sorted(by_device[device].values(), key=attrgetter("start")):
                for producer in inputs(execution.node):
                    if producer not in accounted:
                        continue
                    for other, spans in self._runs.on_cpu.get(producer, {}).items():
                        if other != device and is_canonical(other):
                            for start, _ in spans:
                                by_device[other][start].takers.append(execution)

    def _flows(self, ordered: list[_Execution], pids: dict[str, int]) -> Iterator[str]:
        number = 0
        for execution in ordered:
            name = f"{self._name[execution.node]}_flow"
            for taker in execution.takers:
                number += 1
                yield _write_flow(
                    "s", name, number, execution.start + execution.duration, pids[execution.device], execution.lane
                )
                yield _write_flow("t", name, number, taker.start, pids[taker.device], taker.lane)


def _assign_lanes(executions: dict[int, _Execution]) -> list[_Execution]:
    """Executions of a device in the order of lanes, then of start: each is on the first lane that is free."""
    lanes: list[list[_Execution]] = []
    for _, execution in sorted(executions.items()):
        execution.lane = next((n for n, lane in enumerate(lanes) if _is_free(lane, execution.start)), len(lanes))
        if execution.lane == len(lanes):
            lanes.append([])
        lanes[execution.lane].append(execution)
    return [execution for lane in lanes for execution in lane]


def _is_free(lane: list[_Execution], start: int) -> bool:
    last = lane[-1]
    return last.start + last.duration <= start


class _AcceleratorMemory:
    """The memory of accelerators in a step, by device in the order of their names."""

    def __init__(self, nodes: list[int], names: list[str], runs: StepRuns, recorded: RecordedGraph) -> None:
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
            yield _write_counter("Allocated Bytes", {"Allocator Bytes in Use": size}, time, pid)
            yield _write_counter("Top Allocations", self._top(device, time, size), time, pid + 1)

    def _top(self, device: str, time: int, size: int) -> dict[str, str]:
        """The largest allocations at a time."""
        held = []
        for name, (times, sizes) in sorted(self._held[device].items(), key=lambda entry: entry[0].encode()):
            place = bisect_right(times, time) - 1
            if place >= 0 and sizes[place] > 0:
                held.append((sizes[place], name))
        held.sort(key=lambda entry: -entry[0])
        top: list[tuple[int, str]] = []
        rest = size
        for held_bytes, name in held:  # tfprof leaves out what is larger than the memory in use that the others leave
            if held_bytes <= rest and len(top) < _TOP:
                top.append((held_bytes, name))
                rest -= held_bytes
        spelt = {n: f"{held_bytes / 1e6:g} MB from {name}" for n, (held_bytes, name) in enumerate(top)}
        spelt |= dict.fromkeys(range(max(1, len(top)), _TOP), "N/A")  # tfprof leaves out the first if there is none
        return {"Not Displayed": f"{rest / 1e6:.2f} MB"} | {f"Top Allocation {n:02}": text for n, text in spelt.items()}


# ---- events, with their keys in alphabetical order


def _write_process(name: str, pid: int) -> str:
    return f'{{"args":{{"name":{_quote(name)}}},"name":"process_name","ph":"M","pid":{pid}}}'


def _write_slice(name: str, args: dict[str, str], start: int, duration: int, pid: int, lane: int) -> str:
    return (
        f'{{"args":{_write_object(args)},"cat":"Op","dur":{duration},"name":{_quote(name)},"ph":"X",'
        f'"pid":{pid},"tid":{lane},"ts":{start}}}'
    )


def _write_flow(phase: str, name: str, number: int, time: int, pid: int, lane: int) -> str:
    return (
        f'{{"cat":"DataFlow","id":{number},"name":{_quote(name)},"ph":"{phase}","pid":{pid},"tid":{lane},"ts":{time}}}'
    )


def _write_counter(name: str, args: dict[str, Any], time: int, pid: int) -> str:
    return f'{{"args":{_write_object(args)},"cat":"Memory","name":"{name}","ph":"C","pid":{pid},"tid":0,"ts":{time}}}'


def _write_object(args: dict[str, Any]) -> str:
    pairs = (f"{_quote(key)}:{_quote(value) if isinstance(value, str) else value}" for key, value in args.items())
    return f"{{{','.join(pairs)}}}"


def _quote(text: str) -> str:
    return json.dumps(text)


_STARS = "*" * 54


@dataclasses.dataclass
class TfprofAnswer:
    """What a request yields."""

    shown: VisibleTree | None = None
    """The view; None: tfprof refuses, or answers with files only."""
    report: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents of output files other than the report, by suffix to the path of the output."""
    stdout: str = ""
    stderr: str = ""
    target: OutputTarget | None = None
    """None if the requested output does not exist."""
    proto: Callable[[], Iterator[str]] = field(default=lambda: iter(("{}\n",)))
    """Yields the proto that tfprof returns, as JSON in parts."""


class OutputTarget(NamedTuple):
    """Form of an output, and the path of its files, or "" without files."""

    form: str
    path: str


_OUTPUTS: Final = {"timeline": True, "stdout": False, "file": True, "pprof": True, "none": False}
"""Forms of outputs, and whether they have a path."""


def read_output(output: str) -> OutputTarget | str:
    """Parse ``form:outfile=path``, or return tfprof's error message."""
    form, _, more = output.partition(":")
    form = form if output else "stdout"
    if form not in _OUTPUTS:
        return f"E.g. Unknown output type: {form}, Valid types: {','.join(sorted(_OUTPUTS))}\n"
    path = ""
    for pair in filter(None, more.split(",")):
        key, *value = filter(None, pair.split("="))
        if not value:
            return "Visualize format: -output timeline:key=value,key=value,..."
        if key != "outfile" or not _OUTPUTS[form]:
            return f"Unrecognized options {key} for output_type: {form}\n"
        path = "=".join(value)
    if _OUTPUTS[form] and not path:
        return f"Missing required output_options for {form}\nE.g. -output {form}:outfile=...\n"
    return OutputTarget(form, path)


_DEPRECATED: Final = (
    "-dump_to_file option is deprecated. Please use -output file:outfile=<filename>\n"
    "-output {} is overwritten with -output file:outfile={}\n"
)


def make_answer(
    views: ViewSet, view: str, options: ViewOptions, *, of_graph: bool = False, dump_to_file: str = ""
) -> TfprofAnswer:
    """Return tfprof's answer. ``of_graph``: tfprof reads a graph and runs instead of a profile, and reports
    accelerators without streams. ``dump_to_file``: path that replaces the output. UsageError: an unknown view."""
    check_view(view)
    target = read_output(options.output)
    unmatched = explain_unmatched(views) if view == "code" else ""
    if isinstance(target, str):
        return TfprofAnswer(stderr=f"{unmatched}INVALID_ARGUMENT: {target}\n")
    if dump_to_file:
        unmatched += _DEPRECATED.format(options.output, dump_to_file)
        target = OutputTarget("file", dump_to_file)
    made = _answer_view(views, view, options, target, of_graph)
    made.target = target
    made.proto = partial(write_view_proto, made.shown, views.recorded, options.step)
    made.stderr = unmatched + made.stderr
    if target.form == "stdout":
        made.stdout = surround_report(options, made.report or "")
    return made


def _answer_view(views: ViewSet, view: str, options: ViewOptions, target: OutputTarget, of_graph: bool) -> TfprofAnswer:
    from fastprof.tfprof.invalid_regexes import try_regexes

    output, path = target
    if options.order_by and options.order_by not in ORDERS:
        options = options.replaced(order_by="name")  # as tfprof takes an order that it does not know
    if not views.has_step(options.step):
        known = "".join(f"{step} " for step in views.recorded.steps)
        return TfprofAnswer(stderr=f"Options -step={options.step} not found.\nAvailable steps: {known}\n")
    if view == "code" and not views.lines.is_known:
        return TfprofAnswer(stderr="No code trace information\n")
    refusal = _explain_refusal(view, output, options)
    if refusal:
        return TfprofAnswer(make_empty_tree(), stderr=refusal)
    is_by_step = view == "graph" and output == "timeline" and options.step < 0
    steps = views.recorded.steps if is_by_step else [options.step]
    options, tried = try_regexes(views, view, options, steps)
    stderr = _note_ignored(view, options) + tried
    if view == "code" and "tensor_value" in options.select:
        rows = len(views.shown(view, options).row)
        stderr += rows * "code view has no tensor value to show\n"
    if output == "timeline":
        return _answer_timeline(views, view, options, path, stderr)
    shown = views.shown(view, options)
    if output == "pprof":
        stacks = compress_stacks(shown, views, options, as_tfprof=True)
        printed = f"\nRun pprof -png --nodecount=100 --sample_index=1 <{path}>\n"
        return TfprofAnswer(shown, files={"": stacks}, stdout=printed, stderr=stderr)
    if output == "none":
        return TfprofAnswer(shown, stderr=stderr)
    prefix = MISSES_STREAM if of_graph and views.recorded.misses_accelerator_stream else ""
    text = prefix + "".join(write_report(shown, view, views.recorded, options))
    return TfprofAnswer(shown, text, stderr=stderr)


def list_complaints(views: ViewSet, view: str, options: ViewOptions) -> str:
    """Return tfprof's messages on standard error for a view."""
    return (explain_unmatched(views) if view == "code" else "") + _note_ignored(view, options)


def _note_ignored(view: str, options: ViewOptions) -> str:
    is_ignored = view == "code" and options.account_displayed_op_only
    return "Note: code view ignores account_displayed_op_only\n" if is_ignored else ""


def _explain_refusal(view: str, output: str, options: ViewOptions) -> str:
    if output == "pprof" and view != "code":
        return "Only 'code' view supports pprof output now.\n"
    if output == "timeline" and view == "op":
        return "op view doesn't support timeline yet. Consider graph/scope/code view.\n"
    if output == "pprof":
        if len(set(options.select)) != 1:
            return "Can only select 1 attribute for pprof output.\n"
        if options.select[0] not in MEASURES:
            return f"pprof doesn't support -select={options.select[0]}\n"
    return ""


def _answer_timeline(views: ViewSet, view: str, options: ViewOptions, path: str, stderr: str) -> TfprofAnswer:
    files, stdout = {}, ""
    by_steps = view == "graph" and options.step < 0
    shown = None
    for step in views.recorded.steps if by_steps else [options.step]:
        shown = views.shown(view, options.replaced(step=step))
        if view == "graph":
            graph = GraphTimeline(shown, views.recorded, step)
            trace = make_trace_document(graph.events())
            peaks = (f"{device} peak memory: {size / 1e6:.2f} MB\n" for device, size in graph.peaks.items())
            stdout += f"generating trace file.\n{''.join(peaks)}"
        else:
            trace = make_trace_document(make_boxes(shown))
        stderr += get_size_warning(trace)
        files[f"_{step}"] = trace.encode()
        stdout += (
            f"\n{_STARS}\nTimeline file is written to {path}_{step}.\n"
            f"Open a Chrome browser, enter URL chrome://tracing and load the timeline file.\n{_STARS}\n"
        )
    return TfprofAnswer(None if by_steps else shown, files=files, stdout=stdout, stderr=stderr)
