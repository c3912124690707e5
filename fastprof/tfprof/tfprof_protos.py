"""Protos that tfprof returns beside a report, in protobuf's JSON: GraphNodeProto of the views scope and graph,
MultiGraphNodeProto of op and code, and AdviceProto. Zero fields are left out; 64-bit numbers are strings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastprof.derive.tfprof.recorded import FIGURES, RecordedGraph
from fastprof.derive.tfprof.views import VisibleTree

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
