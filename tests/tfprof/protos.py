"""A view as the protos that tfprof returns, GraphNodeProto and MultiGraphNodeProto, in the form of protobuf's JSON."""

from __future__ import annotations

from typing import Any

from fastprof.derive.tfprof.recorded import FIGURES, RecordedGraph
from fastprof.derive.tfprof.views import VisibleTree

_NAMES = {
    "micros": "exec_micros",
    "accelerator_micros": "accelerator_exec_micros",
    "cpu_micros": "cpu_exec_micros",
    "bytes": "requested_bytes",
    "params": "parameters",
}
_FIELDS = [_NAMES.get(name, name) for name in FIGURES]
_OF_NODES = ("run_count", "definition_count")


def proto(shown: VisibleTree, recorded: RecordedGraph, step: int) -> dict[str, Any]:
    figures, totals = shown.figures.T.tolist(), shown.totals.T.tolist()
    names, depth = shown.names.to_pylist(), shown.forest.depth.tolist()
    path: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        row: dict[str, Any] = {"name": name}
        of_nodes = shown.node is not None
        if place or not of_nodes:
            row |= _numbers(figures[place], totals[place], of_nodes)
        if not place:
            row |= _numbers([0] * len(FIGURES), totals[place], of_nodes)
        if of_nodes:
            node = int(shown.node[place]) if shown.node is not None else -1
            row |= _node(recorded, node) if node >= 0 else {}
        else:
            members = shown.members(place).tolist()
            if members:
                row["graph_nodes"] = [_graph_node(recorded, node, step) for node in members]
        del path[depth[place] :]
        if path:
            path[-1].setdefault("children", []).append(row)
        path.append(row)
    return path[0]


def _numbers(figures: list[int], totals: list[int], of_nodes: bool) -> dict[str, str]:
    row = {}
    for name, own, total in zip(_FIELDS, figures, totals, strict=True):
        if not of_nodes and name in _OF_NODES:
            continue
        if own and name != "definition_count":
            row[name] = str(own)
        if total:
            row[f"total_{name}"] = str(total)
    return row


def _graph_node(recorded: RecordedGraph, node: int, step: int) -> dict[str, Any]:
    own = recorded.figures(step)[:, node].tolist()
    return {"name": recorded.names[node].as_py()} | _numbers(own, own, True) | _node(recorded, node)


def _node(recorded: RecordedGraph, node: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    device = recorded.devices[node].as_py()
    if device:
        row["devices"] = [device]
    inputs = recorded.input_shapes[node].as_py()
    if inputs:
        row["input_shapes"] = {str(one["slot"]): _shape(one["shape"]) for one in inputs}
    return row


def _shape(sizes: list[int]) -> dict[str, Any]:
    return {"dim": [{"size": str(size)} if size else {} for size in sizes]} if sizes else {"unknown_rank": True}
