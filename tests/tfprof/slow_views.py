"""tfprof's views by plain recursion over objects, from the description of tfprof: an oracle for small graphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fastprof.derive.tfprof.options import ViewOptions

ROOT = "_TFProfRoot"
FIGURES = (
    *("micros", "accelerator_micros", "cpu_micros", "bytes", "peak_bytes", "residual_bytes", "output_bytes"),
    *("params", "float_ops", "run_count", "definition_count"),
)
_MEMORY = {"bytes": "requested_bytes"} | {name: name for name in FIGURES[4:7]}

Figures = dict[str, int]


@dataclass(eq=False)
class Row:
    name: str
    children: list[Row] = field(default_factory=list)
    own: Figures = field(default_factory=lambda: dict.fromkeys(FIGURES, 0))
    accounted: bool = False
    nodes: list[str] = field(default_factory=list)
    total: Figures = field(default_factory=dict)


def full(regexes: Iterable[str], text: str) -> bool:
    return any(re.fullmatch(regex, text) for regex in regexes)


class SlowProfile:
    def __init__(self, profile: Any) -> None:
        self.nodes = {node.name: node for node in profile.nodes.values()}
        self.by_id = {number: node.name for number, node in profile.nodes.items()}
        self.texts = profile.id_to_string
        self.names = sorted(self.nodes, key=str.encode)

    def figures(self, name: str, step: int) -> Figures:
        node = self.nodes[name]
        each = {number: self._of_run(run) for number, run in node.execs.items()}
        if step >= 0:
            sums = each.get(step, dict.fromkeys(FIGURES, 0))
        else:
            sums = {figure: sum(one[figure] for one in each.values()) // max(len(each), 1) for figure in FIGURES}
        params = 1 if node.shape and min(node.shape) >= 0 else 0
        for size in node.shape:
            params *= size
        float_ops = node.float_ops * (sums["run_count"] if each else 1)
        return sums | {"params": params, "float_ops": float_ops, "definition_count": 1}

    def _of_run(self, run: Any) -> Figures:
        figures = dict.fromkeys(FIGURES, 0)
        for name, by_device in (("accelerator_micros", run.accelerator_execs), ("cpu_micros", run.cpu_execs)):
            figures[name] = sum(one.int64_values[1] for times in by_device.values() for one in times.times)
        figures["micros"] = figures["accelerator_micros"] + figures["cpu_micros"]
        for name, recorded in _MEMORY.items():
            figures[name] = sum(getattr(one, recorded) for one in run.memory_execs)
        figures["run_count"] = run.run_count
        return figures

    def times(self, types: Iterable[str], options: ViewOptions) -> int:
        if options.account_type_regexes == (".*",):
            return 1
        return sum(any(re.fullmatch(regex, one) for one in types) for regex in options.account_type_regexes)


# ---- scope


def scope(profile: SlowProfile, options: ViewOptions) -> Row:
    rows: dict[str, Row] = {}
    for name in profile.names:
        parts = name.split("/")
        for count in range(1, len(parts) + 1):
            rows.setdefault("/".join(parts[:count]), Row("/".join(parts[:count])))
    root = Row(ROOT)
    for name in sorted(rows, key=str.encode):
        above, slash, _ = name.rpartition("/")
        (rows[above] if slash else root).children.append(rows[name])
        row = rows[name]
        row.own["definition_count"] = 1
        types: Iterable[str] = ["_kTFScopeParent"]
        if name in profile.nodes:
            row.own, types, row.nodes = profile.figures(name, options.step), profile.nodes[name].op_types, [name]
        row.accounted = profile.times(types, options) > 0
    root.children = [kept for child in root.children for kept in _with_accounted(child)]
    root.own["definition_count"] = 1
    return _shown(root, options, of_nodes=True)


def _with_accounted(row: Row) -> list[Row]:
    row.children = [kept for child in row.children for kept in _with_accounted(child)]
    return [row] if row.accounted or row.children else []


# ---- graph


def graph(profile: SlowProfile, options: ViewOptions) -> Row:
    rows = {name: Row(name) for name in profile.names}
    taken = {profile.by_id[number] for node in profile.nodes.values() for number in node.inputs.values()}
    met: set[str] = set()

    def walk(name: str) -> list[Row]:
        if name in met:
            return []
        met.add(name)
        node, row = profile.nodes[name], rows[name]
        below = [each for _, number in sorted(node.inputs.items()) for each in walk(profile.by_id[number])]
        row.own, row.nodes = profile.figures(name, options.step), [name]
        row.accounted = profile.times(node.op_types, options) > 0
        row.children = below
        return [row] if row.accounted else below

    root = Row(ROOT)
    root.children = [each for name in profile.names if name not in taken for each in walk(name)]
    root.own["definition_count"] = 1
    return _shown(root, options, of_nodes=True)


# ---- code


def code(profile: SlowProfile, options: ViewOptions) -> Row:
    root, gradients, forward = Row(ROOT), {}, {}
    for name in profile.names:
        if not profile.nodes[name].trace.traces:
            continue
        before, after = name.find("gradients/"), name.find("_grad/")
        begin = before + len("gradients/")
        if before >= 0 and after >= 0 and after != begin:
            gradients.setdefault(name[begin : after if after > begin else None], []).append(name)
        else:
            forward[name] = _leaf(root, profile, name, "")
            forward[name].nodes.append(name)
    for name in sorted(gradients, key=str.encode):
        if name in forward:
            _leaf(root, profile, name, " (gradient)").nodes.extend(gradients[name])
    for row in list(_rows(root))[1:]:
        _account(row, profile, options)
    root.children = [kept for child in root.children for kept in _with_accounted(child)]
    return _shown(root, options, of_nodes=False)


def _leaf(root: Row, profile: SlowProfile, name: str, suffix: str) -> Row:
    row = root
    for frame in profile.nodes[name].trace.traces:
        function = profile.texts[frame.function_id]
        short = function if len(function) < 20 else f"{function[:17]}..."
        label = f"{profile.texts[frame.file_id].rpartition('/')[2]}:{frame.lineno}:{short}{suffix}"
        below = next((child for child in row.children if child.name == label), None)
        if below is None:
            below = Row(label)
            row.children.append(below)
        row = below
    return row


def _account(row: Row, profile: SlowProfile, options: ViewOptions) -> None:
    """Sums of the nodes of a row, each as often as it matches."""
    times = {name: profile.times(profile.nodes[name].op_types, options) for name in row.nodes}
    own = {name: profile.figures(name, options.step) for name in row.nodes}
    row.own = {figure: sum(own[name][figure] * times[name] for name in row.nodes) for figure in FIGURES}
    row.nodes = sorted((name for name in row.nodes if times[name]), key=str.encode)
    row.own["definition_count"] = len(row.nodes)
    row.own["run_count"] = sum(own[name]["run_count"] for name in row.nodes)
    row.accounted = bool(row.nodes) or options.account_type_regexes == (".*",)


def _rows(row: Row) -> Iterator[Row]:
    yield row
    for child in row.children:
        yield from _rows(child)


# ---- trees


def _sum_up(row: Row) -> None:
    for child in row.children:
        _sum_up(child)
    row.total = {figure: row.own[figure] + sum(child.total[figure] for child in row.children) for figure in FIGURES}


def _shown(root: Row, options: ViewOptions, *, of_nodes: bool) -> Row:
    _sum_up(root)
    if options.start_name_regexes != (".*",):
        root.children = _starts(root.children, options)
    (shown,) = _below(root, options, 1, of_nodes)
    _sort(shown, options, of_nodes)
    if of_nodes and not options.account_displayed_op_only:
        shown.total["definition_count"] -= 1
    return shown


def _starts(rows: list[Row], options: ViewOptions) -> list[Row]:
    return [
        one
        for row in rows
        for one in ([row] if full(options.start_name_regexes, row.name) else _starts(row.children, options))
    ]


def _below(row: Row, options: ViewOptions, depth: int, of_nodes: bool) -> list[Row]:
    trimmed = full(options.trim_name_regexes, row.name) or depth > options.max_depth
    if trimmed and not of_nodes and row.name != ROOT:
        return []
    show = row.name == ROOT or (depth <= options.max_depth and _wanted(row, options, of_nodes))
    row.children = (
        [] if trimmed else [one for child in row.children for one in _below(child, options, depth + 1, of_nodes)]
    )
    return [row] if show else row.children


def _wanted(row: Row, options: ViewOptions, of_nodes: bool) -> bool:
    for figure in FIGURES[:9]:
        compared = row.own if of_nodes and figure in ("params", "float_ops") else row.total
        if compared[figure] < getattr(options, f"min_{figure}"):
            return False
    if of_nodes and row.own["run_count"] < options.min_occurrence:
        return False
    return full(options.show_name_regexes, row.name) and not full(options.hide_name_regexes, row.name)


def _sort(row: Row, options: ViewOptions, of_nodes: bool) -> None:
    for child in row.children:
        _sort(child, options, of_nodes)
    if of_nodes and options.account_displayed_op_only:
        row.total = {figure: row.own[figure] + sum(one.total[figure] for one in row.children) for figure in FIGURES}
    row.children.sort(key=_key(options, of_nodes))


def _key(options: ViewOptions, of_nodes: bool) -> Callable[[Row], Any]:
    by = options.order_by
    if by == "occurrence" and not of_nodes:
        return lambda row: -len(row.nodes)
    return (lambda row: row.name.encode()) if by in ("name", "occurrence") else (lambda row: -row.total[by])


# ---- op


def op(profile: SlowProfile, options: ViewOptions) -> Row:
    rows: dict[str, Row] = {}
    for name in profile.names:
        rows.setdefault(profile.nodes[name].op, Row(profile.nodes[name].op)).nodes.append(name)
    for row in rows.values():
        _account(row, profile, options)
        row.total = row.own
    every = sorted(rows.values(), key=lambda row: row.name.encode())
    listed = [row for row in sorted(every, key=_key(options, False)) if row.accounted]
    root = Row(ROOT, total=_chain(listed))
    begin = 0
    if options.start_name_regexes not in ((".*",), ()):
        starts = (place for place, row in enumerate(listed) if full(options.start_name_regexes, row.name))
        begin = next(starts, len(listed))
    shown = []
    for depth, row in enumerate(listed[begin:]):
        if full(options.trim_name_regexes, row.name) or depth > options.max_depth:
            break
        if _wanted(row, options, False) and len(row.nodes) >= options.min_occurrence:
            shown.append(row)
    if options.account_displayed_op_only:
        root.total = _chain(shown)
    above = root
    for row in shown:
        above.children, above = [row], row
    return root


def _chain(rows: list[Row]) -> Figures:
    """Sets each total to the sum from the row on; returns that of the first."""
    total = dict.fromkeys(FIGURES, 0)
    for row in reversed(rows):
        total = {figure: total[figure] + row.own[figure] for figure in FIGURES}
        row.total = total
    return total


VIEWS = {"scope": scope, "graph": graph, "op": op, "code": code}
