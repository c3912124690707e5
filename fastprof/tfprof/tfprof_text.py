"""The texts of tfprof, byte for byte as tfprof writes them: reports of its views, what stands around them, and advice;
and a view as JSON: its rows, their nodes, and the options that made them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Ints, get_text_buffers
from fastprof.derive.tfprof.options import NAMES, ViewOptions
from fastprof.derive.tfprof.recorded import FIGURES, RecordedGraph, get_numbers, get_plain, get_texts
from fastprof.derive.tfprof.view_set import (
    CHECKERS,
    CostlyRow,
    ViewSet,
    could_fuse_norms,
    find_channels_last,
    find_costly_lines,
    find_costly_ops,
    find_costly_scopes,
    measure_uses,
)
from fastprof.derive.tfprof.views import VisibleTree
from fastprof.render import as_json
from fastprof.schema.columns import count_bounds, find_runs, number_values
from fastprof.schema.tables import String, TableSchema


def format_amount(value: int) -> str:
    """Format an amount as 1.23k, 1.23m or 1.23b; less than a thousand as it is."""
    return _format_scaled(value, "", (("k", 10**3), ("m", 10**6), ("b", 10**9)))


def format_micros(micros: int) -> str:
    return _format_scaled(micros, "us", (("ms", 10**3), ("sec", 10**6)))


def format_bytes(size: int) -> str:
    return _format_scaled(size, "B", (("KB", 10**3), ("MB", 10**6)))


def _format_scaled(value: int, unit: str, larger: tuple[tuple[str, int], ...]) -> str:
    if value < larger[0][1]:
        return f"{value}{unit}"
    name, scale = next(step for step in reversed(larger) if value >= step[1])
    return f"{value / scale:.2f}{name}"


TIMES: Final = ("micros", "accelerator_micros", "cpu_micros")


def list_summed_times(select: Sequence[str]) -> list[str]:
    """Return the selected times: the sum with its parts, or one of them."""
    return list(TIMES) if "micros" in select else [name for name in TIMES if name in select]


def list_devices(recorded: RecordedGraph, nodes: Ints) -> list[str]:
    """Return the canonical devices of nodes, in the order of their bytes, the empty one too."""
    return sorted(set(recorded.devices.take(pa.array(nodes)).to_pylist()), key=str.encode)


def list_types(recorded: RecordedGraph, nodes: Ints) -> list[str]:
    types = pc.list_flatten(get_plain(recorded.nodes["types"]).take(pa.array(nodes)))
    return sorted(set(get_texts(types).to_pylist()), key=str.encode)


_VIEWS: Final = {
    "scope": "scope: The nodes in the model graph are organized by their names, which is hierarchical like filesystem.",
    "op": "op: The nodes are operation kernel type, such as MatMul, Conv2D. Graph nodes belonging to the same type are "
    "aggregated together.",
    "code": "code: When python trace is available, the nodes are python lines and their are organized by the python "
    "call stack.",
}
_VIEWS_OF_NODES: Final = ("scope", "graph")
_CPU: Final = (
    "cpu execution time: The time from the start to the end of the operation. It's the sum of actual cpu run time plus "
    "the time that it spends waiting if part of computation is launched asynchronously."
)
_ACCELERATOR: Final = (
    "accelerator execution time: Time spent executing on the accelerator. This is normally measured by the actual "
    "hardware library."
)
_MEANINGS: Final = {
    "accelerator_micros": _ACCELERATOR,
    "bytes": "requested bytes: The memory requested by the operation, accumulatively.",
    "cpu_micros": _CPU,
    "device": "device: which device is placed on.",
    "float_ops": "flops: Number of float operations. Note: Please read the implementation for the math behind it.",
    "input_shapes": "input shape: The shape of input tensors",
    "micros": "total execution time: Sum of accelerator execution time and cpu execution time.\n"
    f"{_CPU}\n{_ACCELERATOR}",
    "occurrence": "occurrence: The number of times it occurs",
    "op_types": "op_types: The attributes of the operation, includes the Kernel name device placed on and user-defined "
    "strings.",
    "output_bytes": "output bytes: The memory that is output from the operation (not necessarily allocated by the "
    "operation)",
    "params": "param: Number of parameters (in the Variable).",
    "peak_bytes": "peak bytes: The peak amount of memory that the operation is holding at some point.",
    "residual_bytes": "residual bytes: The memory not de-allocated after the operation finishes.",
    "tensor_value": "tensor_value: Not supported now.",
}
_TITLES: Final = {
    "params": "# parameters",
    "float_ops": "# float_ops",
    "bytes": "requested bytes",
    "peak_bytes": "peak bytes",
    "residual_bytes": "residual bytes",
    "output_bytes": "output bytes",
    "micros": "total execution time",
    "accelerator_micros": "accelerator execution time",
    "cpu_micros": "cpu execution time",
    "device": "assigned devices",
    "op_types": "op types",
    "occurrence": "op count (run|defined)",
    "input_shapes": "input shapes",
}
_COUNTS: Final = ("params", "float_ops")
_OF_GROUPS: Final = {"occurrence": "op occurrence (run|defined)"}
MISSES_STREAM: Final = (
    "\n\nFound accelerator operation but misses accelerator stream stats!\n\n"
    "It's likely a gpu tracing issue rather than tf-profiler issue.\n"
    "If you found your operation missing accelerator time, consider to post to discuss@tensorflow.org!\n\n"
)


def make_head(view: str, select: Sequence[str]) -> str:
    """Return all before the first row: what the view and its columns are, and their titles."""
    meanings = "\n".join(_MEANINGS.get(name, f"Unknown select: {name}") for name in sorted(set(select)))
    described = _VIEWS["scope" if view == "graph" else view]
    return f"\nDoc:\n{described}\n{meanings}\n\nProfile:\nnode name | {' | '.join(list_titles(view, select))}\n"


def list_titles(view: str, select: Sequence[str]) -> list[str]:
    """Return the titles of the columns. A sum of times brings its parts."""
    names = list(_TITLES)
    spelt = _TITLES
    if view not in _VIEWS_OF_NODES:
        names = [*names[2:9], *_COUNTS, *names[9:]]
        spelt = _TITLES | _OF_GROUPS
    chosen = {*select, "accelerator_micros", "cpu_micros"} if "micros" in select else set(select)
    return [spelt[name] for name in names if name in chosen]


def format_options(options: ViewOptions) -> str:
    """Format the options, one a line, as tfprof prints them before a report on standard output."""
    return "".join(f"{'-' + name:<28}{_format_option(options, name)}\n" for name in NAMES)


def _format_option(options: ViewOptions, name: str) -> str:
    value = getattr(options, name)
    if name == "select":
        return ",".join(sorted(set(value)))
    if name == "output":
        form, _, more = value.partition(":")
        return f"{form or 'stdout'}:{more}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def surround_report(options: ViewOptions, report: str) -> str:
    """Return a report with its surroundings on standard output."""
    return (
        "\n=========================Options=============================\n"
        f"{format_options(options)}"
        "\n==================Model Analysis Report======================\n"
        f"{report}"
        "\n======================End of Report==========================\n"
    )


_OP_BYTES: Final = ("bytes", "peak_bytes", "residual_bytes", "output_bytes")
_NAME_BYTES: Final = 25
_RUNS: Final = FIGURES.index("run_count")


def format_ops(shown: VisibleTree, recorded: RecordedGraph, options: ViewOptions) -> Iterator[str]:
    """Yield the text of each op. The root, which has the sums of all, has none."""
    forms: dict[str, Callable[[int], str]] = {name: format_bytes for name in _OP_BYTES if name in options.select}
    forms |= dict.fromkeys(list_summed_times(options.select), format_micros)
    forms |= {"params": lambda value: f"{format_amount(value)} params"} if "params" in options.select else {}
    forms |= {"float_ops": lambda value: f"{format_amount(value)} float_ops"} if "float_ops" in options.select else {}
    runs = recorded.figures(options.step)[_RUNS]
    names = shown.names.to_pylist()
    for place in range(1, len(names)):
        nodes = shown.members(place)
        cells = [_format_shares(shown, FIGURES.index(name), place, form) for name, form in forms.items()]
        if "device" in options.select:
            cells.append("|".join(list_devices(recorded, nodes)))
        if "op_types" in options.select:
            cells.append("|".join(list_types(recorded, nodes)))
        if "occurrence" in options.select:
            cells.append(f"{f'{runs[nodes].sum()}|{len(nodes)}':>10}")
        gap = " " * (_NAME_BYTES - len(names[place].encode()))
        line = f"{names[place]}{gap}{', '.join(cells)}\n"
        if "input_shapes" in options.select and len(nodes):
            line = f"{line}\n{_format_input_types(recorded, nodes, options)}\n\n"
        yield line


def _format_shares(shown: VisibleTree, figure: int, place: int, form: Callable[[int], str]) -> str:
    """Format the figure, and how much of the root's sum are the sum from this row on and the figure itself. tfprof
    shows no share of bytes if a row has none itself, and of others if neither it nor those after it have any."""
    own, total, root = (int(value) for value in (shown.figures[figure, place], *shown.totals[figure, [place, 0]]))
    some = own if FIGURES[figure] in _OP_BYTES else total
    from_here, here = (100.0 * total / root, 100.0 * own / root) if some > 0 else (0.0, 0.0)
    return f"{f'{form(own)} ({from_here:.2f}%, {here:.2f}%)':>30}"


def _format_input_types(recorded: RecordedGraph, nodes: Ints, options: ViewOptions) -> str:
    """Format the different shapes of inputs with runs, nodes and time, the most runs first."""
    figures = recorded.figures(options.step)
    runs, micros = figures[_RUNS][nodes].tolist(), figures[FIGURES.index("micros")][nodes].tolist()
    sums: dict[str, list[int]] = {}
    for inputs, run_count, time_us in zip(recorded.input_shapes.take(nodes).to_pylist(), runs, micros, strict=True):
        spelt = "input_type: " + ",\t".join(map(_format_shape, inputs))
        counts = sums.setdefault(spelt, [0, 0, 0])
        counts[0] += 1
        counts[1] += run_count
        counts[2] += time_us
    ordered = sorted(sorted(sums, key=str.encode), key=lambda spelt: -sums[spelt][1])
    return "\n".join(
        f"{spelt}\t(run*{sums[spelt][1]}|defined*{sums[spelt][0]})\texec_time: {format_micros(sums[spelt][2])}"
        for spelt in ordered
    )


def _format_shape(shape: dict[str, Any]) -> str:
    return f"{shape['slot']}:{'x'.join(map(str, shape['shape'])) or 'unknown'}"


_PIECE_BYTES = 1 << 24  # of text at a time: lines of deep rows are long
_FORMS: Final[dict[str, tuple[Callable[[int], str], str]]] = {
    "params": (format_amount, " params"),
    "float_ops": (format_amount, " flops"),
    **dict.fromkeys(("bytes", "peak_bytes", "residual_bytes", "output_bytes"), (format_bytes, "")),
    **dict.fromkeys(("micros", "accelerator_micros", "cpu_micros"), (format_micros, "")),
}


def write_report(shown: VisibleTree, view: str, recorded: RecordedGraph, options: ViewOptions) -> Iterator[str]:
    """Yield the text, in pieces, as the output to a file has it."""
    yield make_head(view, options.select)
    if view == "op":
        yield from format_ops(shown, recorded, options)
        return
    sizes = 2 * shown.forest.depth + get_numbers(pc.binary_length(shown.names)) + 40 * len(options.select)
    piece = np.cumsum(sizes) // _PIECE_BYTES
    bounds = np.append(find_runs(piece), len(piece))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        lines_of = _TreeLines(shown, slice(begin, end), recorded, options)
        yield get_text_buffers(lines_of.text())[1].tobytes().decode("utf-8", "replace")


class _TreeLines:
    """Some lines of a tree."""

    def __init__(self, shown: VisibleTree, rows: slice, recorded: RecordedGraph, options: ViewOptions) -> None:
        self._shown, self._rows, self._recorded = shown, rows, recorded
        self._select = options.select
        self._accounted = pa.array(shown.accounted[rows])
        self._size = len(shown.row[rows])

    def text(self) -> pa.Array:
        """Return each line with its end."""
        depth = self._shown.forest.depth[self._rows]
        indents = _spell_numbers(depth, lambda steps: "  " * steps)
        parts = list(self._of_nodes() if self._shown.node is not None else self._of_code())
        if not parts:
            return pc.binary_join_element_wise(indents, self._shown.names[self._rows], " ()\n", "")
        info = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 2)
        return pc.binary_join_element_wise(indents, self._shown.names[self._rows], " (", info, ")\n", "")

    def _of_nodes(self) -> Iterator[pa.Array]:
        node = self._shown.node
        assert node is not None
        node, nodes = node[self._rows], self._recorded
        if "params" in self._select:
            shapes = _join_lists(nodes.nodes["shape"], node, "x")
            yield _hide_empty(shapes)
            yield _add_comma(self._pairs("params"))
        for name in ("float_ops", *_OP_BYTES):
            if name in self._select:
                yield _add_comma(self._pairs(name))
        for name in list_summed_times(self._select):
            yield _add_comma(self._pairs(name))
        if "device" in self._select:
            yield _hide_empty(_take_nodes(nodes.devices, node, ""))
        if "op_types" in self._select:
            yield _add_comma(_join_types(nodes, node, self._shown.parent_type))
        if "occurrence" in self._select:
            runs = self._pairs("run_count", format_amount)
            yield _add_comma(pc.binary_join_element_wise(runs, self._pairs("definition_count", format_amount), "|"))
        if "input_shapes" in self._select:
            yield _add_comma(_take_nodes(_join_input_shapes(nodes, node), np.arange(len(node)), ""))

    def _of_code(self) -> Iterator[pa.Array]:
        for name in _OP_BYTES:
            if name in self._select:
                yield _add_comma(self._pairs(name))
        for name in (*list_summed_times(self._select), "params", "float_ops"):
            if name in (*list_summed_times(self._select), *self._select):
                yield _add_comma(self._pairs(name))
        if "device" in self._select or "op_types" in self._select:
            devices, types = _join_groups(self._shown, self._rows, self._recorded)
            if "device" in self._select:
                yield devices
            if "op_types" in self._select:
                yield _add_comma(types)
        for name in ("occurrence", "input_shapes"):
            if name in self._select:
                yield _add_comma(pa.array([f"{name} N/A in code view"] * self._size))

    def _pairs(self, name: str, form: Callable[[int], str] | None = None) -> pa.Array:
        """Return ``self/total unit`` of each row; ``--`` for self where it is not accounted."""
        spell, unit = (form, "") if form is not None else _FORMS[name]
        assert spell is not None
        place = FIGURES.index(name)
        own = _spell_numbers(self._shown.figures[place, self._rows], spell)
        total = _spell_numbers(self._shown.totals[place, self._rows], lambda value: spell(value) + unit)
        return pc.binary_join_element_wise(pc.if_else(self._accounted, own, "--"), total, "/")


def _spell_numbers(values: Ints, spell: Callable[[int], str]) -> pa.Array:
    """Return the texts of numbers, each different one formatted once."""
    encoded = pa.array(values).dictionary_encode()
    spelt = pa.array([spell(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return spelt.take(encoded.indices)


def _add_comma(parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(", ", parts, "")


def _hide_empty(parts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(parts, ""), "", _add_comma(parts))


def _take_nodes(values: pa.Array, node: Ints, other: str) -> pa.Array:
    """Return the value of each node; ``other`` for -1."""
    return pc.fill_null(values.take(pa.array(node, mask=node < 0)), other)


def _join_lists(column: pa.ChunkedArray, node: Ints, between: str) -> pa.Array:
    """Join lists of numbers to text, such as ``3x3``; empty for null and for -1."""
    lists = get_plain(column).take(pa.array(node, mask=node < 0))
    words = pa.ListArray.from_arrays(*_change_lists(lists, lambda values: values.cast(pa.string())))
    return pc.binary_join(words, between)


def _change_lists(lists: pa.Array, change: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Return offsets and changed values of lists, null as empty."""
    lengths = get_numbers(pc.fill_null(pc.list_value_length(lists), 0))
    return pa.array(count_bounds(lengths).astype(np.int32)), change(pc.list_flatten(lists))


def _join_types(nodes: RecordedGraph, node: Ints, other: str) -> pa.Array:
    """Join the types of each node in the order of their bytes."""
    lists = get_plain(nodes.nodes["types"]).take(pa.array(node, mask=node < 0))
    offsets, texts = _change_lists(lists, get_texts)
    spelt = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), "|")
    is_unknown = pa.array(node < 0)
    return pc.if_else(is_unknown, other, spelt)


def _join_input_shapes(nodes: RecordedGraph, node: Ints) -> pa.Array:
    """Return ``0:32x64|1:unknown`` of each node."""
    different, which = number_values(node)
    lists = nodes.input_shapes.take(pa.array(different, mask=different < 0))
    each = pc.list_flatten(lists)
    shapes = _join_lists(pa.chunked_array([each.field("shape")]), np.arange(len(each)), "x")
    spelt = pc.binary_join_element_wise(
        each.field("slot").cast(pa.string()), pc.if_else(pc.equal(shapes, ""), "unknown", shapes), ":"
    )
    offsets, _ = _change_lists(lists, lambda values: values)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, spelt), "|").take(pa.array(which))


def _join_groups(shown: VisibleTree, rows: slice, recorded: RecordedGraph) -> tuple[pa.Array, pa.Array]:
    """Return the devices, with a comma before if there are nodes, and the types of all nodes of each row."""
    devices, types = [], []
    for place in range(*rows.indices(len(shown.row))):
        nodes = shown.members(place)
        devices.append(f", {'|'.join(list_devices(recorded, nodes))}" if len(nodes) else "")
        types.append("|".join(list_types(recorded, nodes)))
    return pa.array(devices, pa.string()), pa.array(types, pa.string())


def write_view_json(
    view: str, options: ViewOptions, unknown: Mapping[str, str], table: pa.Table, nodes: pa.Table
) -> Iterator[bytes]:
    """Return the chunks of the document, ended by a newline. ``unknown``: figures that are not recorded, and why."""
    written = {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(options).items()
    }
    described = {"view": view, "options": written, "unknown": dict(unknown)}
    return as_json.write_sections(described, {"tfprof_view": table, "tfprof_view_nodes": nodes})


ADVICE: Final = TableSchema(
    "tfprof_advice",
    "a report of tfprof's advisor",
    (
        String("checker", "name of the checker", lambda rows: [name for name, _ in rows]),
        String(
            "report",
            "what it reports, in one line or several; may be empty",
            lambda rows: [report for _, report in rows],
        ),
    ),
    derived=True,
)
_LITTLE: Final = 0.5
_TIMES: Final = tuple(FIGURES.index(name) for name in ("cpu_micros", "accelerator_micros", "micros"))
_NO_STEPS: Final = (
    "Missing RunMetadata info. Skip ExpensiveOperationChecker\nMissing run_meta for ExpensiveOperationChecker\n"
)
_NO_CODE: Final = "Missing op_log (code traces) for ExpensiveOperationChecker\n"


def list_advice(views: ViewSet, checkers: Iterable[str] = CHECKERS) -> Mapping[str, list[str]]:
    """Return the reports of each checker, in the order of CHECKERS. tfprof's job checker has none and is not listed."""
    wanted = set(checkers)
    makers = {"AcceleratorUtilizationChecker": _check_use, "OperationChecker": _check_ops,
              "ExpensiveOperationChecker": _check_costs}  # fmt: skip
    return {name: makers[name](views) for name in CHECKERS if name in wanted and name in makers}


def list_advice_complaints(views: ViewSet, checkers: Iterable[str] = CHECKERS) -> str:
    """Return tfprof's messages on standard error: gradients of absent nodes, and missing records."""
    unmatched = explain_unmatched(views)
    if "ExpensiveOperationChecker" not in set(checkers):
        return unmatched
    return unmatched + ("" if views.recorded.steps else _NO_STEPS) + ("" if views.lines.is_known else _NO_CODE)


def explain_unmatched(views: ViewSet) -> str:
    """Return what tfprof says of gradients of nodes that it does not know."""
    count = views.lines.unmatched_gradients
    return f"{count} gradient nodes not accounted\n" if count else ""


def format_advice(reports: Mapping[str, list[str]]) -> str:
    """Format the reports as tfprof prints them."""
    return "".join(f"\n{name}:\n" + "".join(f"{report}\n" for report in some) for name, some in reports.items())


def make_advice_table(reports: Mapping[str, list[str]]) -> pa.Table:
    """Return the table of reports, one a row."""
    return ADVICE.of([(name, report) for name, some in reports.items() for report in some])


def _check_use(views: ViewSet) -> list[str]:
    return [
        f"device: {device} {'' if share >= _LITTLE else 'low '}utilization: {share:.2f}"
        for device, share in measure_uses(views.recorded)
    ]


def _check_ops(views: ViewSet) -> list[str]:
    reports = []
    if could_fuse_norms(views.recorded):
        reports.append("Maybe use faster FusedBatchNorm instead of BatchNorm")
    if len(find_channels_last(views.recorded)):
        reports.append("Found operation using NHWC data_format on GPU. Maybe NCHW is faster.")
    return reports


def _check_costs(views: ViewSet) -> list[str]:
    reports = []
    if views.recorded.steps:
        ops, total = find_costly_ops(views)
        if ops:
            lines = [
                f"top {number} operation type: {_format_costly(op)} "
                f"({100 * int(op.figures[_TIMES[2]]) / (total + 1e-10):.2f}%)"
                for number, op in enumerate(ops, 1)
            ]
            reports.append("\n".join(lines))
    scopes = find_costly_scopes(views)
    if scopes:
        reports.append(
            "\n".join(f"top {number} graph node: {_format_costly(scope)}" for number, scope in enumerate(scopes, 1))
        )
    lines_of_code = find_costly_lines(views) if views.lines.is_known else None
    if lines_of_code is not None:
        reports.append("\n".join(f"{'  ' * line.depth}{_format_costly(line)}" for line in lines_of_code))
    return reports


def _format_costly(row: CostlyRow) -> str:
    cpu, accelerator, both = (format_micros(int(row.figures[place])) for place in _TIMES)
    return f"{row.name}, cpu: {cpu}, accelerator: {accelerator}, total: {both}"
