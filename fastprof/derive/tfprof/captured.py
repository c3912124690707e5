"""The ops of captures, as views of tfprof take them: with exact times, and what tfprof did not record.

Figures have the rows of FIGURES, then those of BEYOND. Times are picoseconds until a view is made; then they are
microseconds, rounded down, beside the picoseconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.ops.op_nodes import NodeKey, Nodes, OpNode, name_nodes
from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.options import ViewOptions
from fastprof.derive.tfprof.recorded import BEYOND, FIGURES, RecordedGraph
from fastprof.derive.tfprof.views import ExactFigures, VisibleTree
from fastprof.errors import UsageError
from fastprof.schema.columns import number_owners, sum_exactly

_TIMES: Final = 3
_PER_MICRO: Final = 10**6
_LARGEST: Final = 2**63 - 1
_MEMORY: Final = "captures do not record memory by op; the analysis memory-profile has the allocator records"
_PARAMS: Final = "captures do not record which ops are parameters"
_UNKNOWN: Final = dict.fromkeys(FIGURES[_TIMES:7], _MEMORY) | {"params": _PARAMS, "tensor_value": _PARAMS}
_NO_GRAPH: Final = (
    "the capture does not record the inputs of ops: the view graph needs XLA programs (HLO), recorded by JAX and "
    "TensorFlow profilers"
)
_NO_CODE: Final = (
    "the capture has no lines of code: XLA programs record them in their metadata, PyTorch with with_stack=True, the "
    "Python tracer with python_tracer_level=1"
)
_NO_GRAPH_OF_TORCH: Final = (
    "PyTorch traces do not record the inputs of ops: they only link backward ops with forward ops"
)
_NO_CODE_OF_TORCH: Final = "the trace has no lines of code: PyTorch records them with with_stack=True"
_LINK: Final = pa.list_(pa.struct([("slot", pa.int32()), ("node", pa.string()), ("output", pa.int32())]))
_SHAPE: Final = pa.list_(pa.struct([("slot", pa.int32()), ("shape", pa.list_(pa.int64()))]))
_TRACE: Final = pa.list_(pa.struct([
    ("file", pa.string()), ("line", pa.int32()), ("function", pa.string()), ("function_line", pa.int32()),
    ("text", pa.string()),
]))  # fmt: skip
_RUNS: Final = pa.list_(pa.struct([("step", pa.int64()), ("run_count", pa.int64())]))


class CapturedGraph(RecordedGraph):
    """Nodes of a capture, or of its events of one step."""

    rows = (*FIGURES, *BEYOND)
    is_capture = True
    unknown = _UNKNOWN

    def __init__(self, nodes: Nodes, step: int, *, of_torch: bool = False) -> None:
        """``of_torch``: the capture has traces of PyTorch. CaptureError: figures do not add up in 64 bits."""
        named = sorted(zip(name_nodes(nodes), nodes, nodes.values(), strict=True), key=lambda entry: entry[0].encode())
        self._nodes = [node for _, _, node in named]
        empty: dict[str, Any] = {}
        described = {"steps": [] if step < 0 else [step], "misses_accelerator_stream": False}
        super().__init__(described, _make_columns(named), empty, empty)
        self._ticks = _list_figures(self._nodes)
        self.bound_by = pa.array([node.bound_by for node in self._nodes], pa.string())
        innermost = [node.stack[-1] if node.stack else None for node in self._nodes]
        self.sources = pa.array([frame and f"{frame.file}:{frame.line}" for frame in innermost], pa.string())
        self.without_code = _NO_CODE_OF_TORCH if of_torch else _NO_CODE
        no_graph = _NO_GRAPH_OF_TORCH if of_torch else _NO_GRAPH
        self.without_graph = None if any(node.inputs for node in self._nodes) else no_graph

    def ticks(self, step: int) -> Ints:  # noqa: ARG002  # the nodes are of one step, or of all
        return self._ticks

    def figures(self, step: int) -> Ints:  # noqa: ARG002
        return _round_to_micros(self._ticks)[: len(FIGURES)]

    def devices_of(self, nodes: Ints) -> tuple[Ints, pa.Array]:
        devices = [sorted(self._nodes[node].devices) for node in nodes.tolist()]
        return number_owners([len(some) for some in devices]), pa.array(
            [device for some in devices for device in some], pa.string()
        )

    def in_ticks(self, options: ViewOptions) -> ViewOptions:
        """Return the options with times in picoseconds. UsageError: they need what captures do not have."""
        for name, reason in self.unknown.items():
            for option, is_set in ((f"min_{name}", getattr(options, f"min_{name}", 0) > 0),
                                   (f"order_by {name}", options.order_by == name)):  # fmt: skip
                if is_set:
                    raise UsageError(f"{option}: {reason}")
        least = {f"min_{name}": getattr(options, f"min_{name}") for name in FIGURES[:_TIMES]}
        return dataclasses.replace(
            options, **{name: max(-_LARGEST, min(value * _PER_MICRO, _LARGEST)) for name, value in least.items()}
        )

    def in_micros(self, shown: VisibleTree) -> VisibleTree:
        """Return a view with the rows of FIGURES, and the exact figures in ``beyond``."""
        size = int(shown.row.max(initial=0)) + 2
        own, totals = np.zeros((2, _TIMES + len(BEYOND), size), np.int64)
        for by_row, figures in ((own, shown.figures), (totals, shown.totals)):
            by_row[:_TIMES, shown.row] = figures[:_TIMES]
            by_row[_TIMES:, shown.row] = figures[len(FIGURES) :]
        return dataclasses.replace(
            shown,
            figures=_round_to_micros(shown.figures)[: len(FIGURES)],
            totals=_round_to_micros(shown.totals)[: len(FIGURES)],
            beyond=ExactFigures(own, totals),
        )


def _round_to_micros(ticks: Ints) -> Ints:
    figures = ticks.copy()
    figures[:_TIMES] //= _PER_MICRO
    return figures


def _list_figures(nodes: list[OpNode]) -> Ints:
    columns = [
        [node.cpu_ps + node.accelerator_ps for node in nodes],
        [node.accelerator_ps for node in nodes],
        [node.cpu_ps for node in nodes],
        *([0] * len(nodes) for _ in range(5)),
        [node.flops or 0 for node in nodes],
        [node.runs for node in nodes],
        [1] * len(nodes),
        [node.bytes or 0 for node in nodes],
        [int(node.flops is not None) for node in nodes],
        [int(node.bytes is not None) for node in nodes],
    ]
    for column in columns:
        sum_exactly(column, "times, operations or bytes of ops")
    return np.array(columns, np.int64).reshape(len(columns), len(nodes))


def _make_columns(named: Iterable[tuple[str, NodeKey, OpNode]]) -> dict[str, Any]:
    """Return the columns of tfprof_nodes that views read."""
    every = list(named)
    nodes = [node for _, _, node in every]
    name_of = {key: name for name, key, _ in every}
    links = [
        [{"slot": slot, "node": name_of[key], "output": output} for slot, (key, output) in enumerate(node.inputs)
         if key in name_of]
        for node in nodes
    ]  # fmt: skip
    traces = [
        [{"file": frame.file, "line": frame.line, "function": frame.function, "function_line": 0, "text": ""}
         for frame in node.stack]
        for node in nodes
    ]  # fmt: skip
    shapes = [[{"slot": slot, "shape": list(sizes)} for slot, sizes in enumerate(node.shapes)] for node in nodes]
    count = len(nodes)
    return {
        "name": pa.array([name for name, _, _ in every], pa.string()),
        "op": pa.array([node.type for node in nodes], pa.string()),
        "types": pa.array([sorted(node.types, key=str.encode) for node in nodes], pa.list_(pa.string())),
        "canonical_device": pa.array([",".join(sorted(node.devices)) for node in nodes], pa.string()),
        "inputs": pa.array(links, _LINK),
        "output_shapes": pa.array(shapes, _SHAPE),
        "trace": pa.array(traces, _TRACE),
        "shape": pa.nulls(count, pa.list_(pa.int64())),
        "run_times": pa.array([[]] * count, _RUNS),
    }
