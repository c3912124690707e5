"""The profile of one host as columns: nodes in the order of their names, and their figures in a step or on average; and
what ran in one step, for the timeline: executions of each node by device, and the memory it held."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import EVERYTHING, Ints, match_regex
from fastprof.schema.columns import count_bounds, find_equal, find_group_bounds
from fastprof.wording.patterns import compile_late

FIGURES: Final = (
    *("micros", "accelerator_micros", "cpu_micros", "bytes", "peak_bytes", "residual_bytes", "output_bytes"),
    *("params", "float_ops", "run_count", "definition_count"),
)
"""Figures that are summed, in the order of the rows of an array of figures."""

BEYOND: Final = ("accessed_bytes", "float_ops_known", "accessed_bytes_known")
"""Figures that are summed of captures only; the last two count nodes with a known figure."""
_NO_VALUES: Final = "tfprof does not show tensor values; variable values are in checkpoints"
DEFINED: Final = FIGURES.index("definition_count")
_MEMORY: Final = ("requested_bytes", "peak_bytes", "residual_bytes", "output_bytes")
_AVERAGE: Final = -1
_KEPT_STEPS: Final = 4
"""Steps whose figures stay in memory: those of 200,000 nodes are 18 MB."""


class Columns(Protocol):
    """Table, or the columns of one that are made when they are used."""

    def __getitem__(self, name: str) -> Any: ...


class RecordedGraph:
    """Nodes of one host, from its rows of the tables tfprof_profiles, tfprof_nodes, …_executions and …_memory."""

    rows: tuple[str, ...] = FIGURES
    """Figures that are summed."""
    is_capture = False
    unknown: Mapping[str, str] = {"tensor_value": _NO_VALUES}  # it is not written
    """Figures that are not recorded, and why."""
    without_code = "the profile has no code traces for the view code"
    without_graph: str | None = None
    """Why a view of a graph cannot be made, or None if it can."""

    def __init__(self, profile: Mapping[str, object], nodes: Columns, executions: Columns, memory: Columns) -> None:
        steps = profile["steps"]
        assert isinstance(steps, list)
        self.steps: Sequence[int] = steps
        self.misses_accelerator_stream = bool(profile["misses_accelerator_stream"])
        self.nodes, self.executions, self.memory = nodes, executions, memory
        self._figures: dict[int, Ints] = {}

    def __len__(self) -> int:
        return len(self.names)

    # ---- columns

    @cached_property
    def names(self) -> pa.Array:
        return get_texts(self.nodes["name"])

    @cached_property
    def ops(self) -> pa.Array:
        return get_texts(self.nodes["op"])

    @cached_property
    def devices(self) -> pa.Array:
        """Canonical device of each node, or an empty text."""
        return pc.fill_null(get_texts(self.nodes["canonical_device"]), "")

    @cached_property
    def input_shapes(self) -> pa.Array:
        """Inputs of each node by slot, with the shape of the output that they take; empty if it is unknown."""
        inputs = get_plain(self.nodes["inputs"])
        each = pc.list_flatten(inputs)
        outputs = get_plain(self.nodes["output_shapes"])
        shapes = pc.list_flatten(outputs)
        key = (get_numbers(pc.list_parent_indices(outputs)) << 32) + get_numbers(shapes.field("slot"))
        order = np.argsort(key, kind="stable")
        output = each.field("output")
        wanted = (self.rows_of(each.field("node")) << 32) + get_numbers(pc.fill_null(output, 0))
        is_there, place = find_equal(key[order], wanted)
        there = is_there & get_flags(output.is_valid())
        taken = shapes.field("shape").take(pa.array(np.r_[order, 0][place], mask=~there))
        known = pc.if_else(taken.is_valid(), taken, pa.scalar([], taken.type))
        lengths = get_numbers(pc.fill_null(pc.list_value_length(inputs), 0))
        both = pa.StructArray.from_arrays([each.field("slot"), known], ["slot", "shape"])
        return pa.ListArray.from_arrays(pa.array(count_bounds(lengths).astype(np.int32)), both)

    @cached_property
    def links(self) -> tuple[Ints, Ints]:
        """Producers of each node's inputs: where those of each node begin, with the end, and all producers."""
        inputs = get_plain(self.nodes["inputs"])
        consumer = get_numbers(pc.list_parent_indices(inputs))
        producer = self.rows_of(pc.list_flatten(inputs).field("node"))
        known = producer >= 0
        return find_group_bounds(consumer[known], len(self)), producer[known]

    def input_rows(self, node: int) -> list[int]:
        """Return the nodes whose outputs a node takes, by number of the input."""
        begins, producers = self.links
        rows: list[int] = producers[begins[node] : begins[node + 1]].tolist()
        return rows

    @cached_property
    def run_steps(self) -> tuple[Ints, Ints, Ints]:
        """Node, step and run count of each record of a run."""
        runs = get_plain(self.nodes["run_times"])
        each = pc.list_flatten(runs)
        rows = get_numbers(pc.list_parent_indices(runs))
        return rows, get_numbers(each.field("step")), get_numbers(each.field("run_count"))

    @cached_property
    def _execution_rows(self) -> Ints:
        return self.rows_of(self.executions["name"])

    @cached_property
    def _memory_rows(self) -> Ints:
        return self.rows_of(self.memory["name"])

    def rows_of(self, names: pa.ChunkedArray | pa.Array) -> Ints:
        """Return the node of each name, -1 for null and unknown names."""
        array = get_plain(names)
        if not pa.types.is_dictionary(array.type):
            return self._places(array)
        places = np.append(self._places(array.dictionary), -1)  # the last is that of null
        return places[get_numbers(pc.fill_null(array.indices, -1))]

    def _places(self, names: pa.Array) -> Ints:
        if names.equals(self.names):
            return np.arange(len(names))
        return get_numbers(pc.fill_null(pc.index_in(names, self.names), -1))

    # ---- accounting

    def times_accounted(self, regexes: Sequence[str]) -> Ints:
        """Count the ``regexes`` that match a type of each node."""
        if tuple(regexes) == EVERYTHING:
            return np.ones(len(self), np.int64)
        types = get_plain(self.nodes["types"])
        each, rows = get_texts(pc.list_flatten(types)), get_numbers(pc.list_parent_indices(types))
        encoded = each.dictionary_encode()
        times = np.zeros(len(self), np.int64)
        for regex in regexes:
            hits = match_regex(encoded.dictionary, regex)[get_numbers(encoded.indices)]
            times += np.bincount(rows[hits], minlength=len(self)) > 0
        return times

    # ---- figures

    def figures(self, step: int) -> Ints:
        """Return the figures of each node: rows are FIGURES. ``step``: a number, or below 0 for averages, rounded down,
        over the steps in which a node ran."""
        step = max(step, _AVERAGE)
        figures = self._figures.get(step)
        if figures is None:
            for old in list(self._figures)[: 1 - _KEPT_STEPS]:
                self._figures.pop(old, None)
            figures = self._figures[step] = self._computed(step)
        return figures

    def ticks(self, step: int) -> Ints:
        """Return the figures of each node as views sum them: rows are ``rows``."""
        return self.figures(step)

    def devices_of(self, nodes: Ints) -> tuple[Ints, pa.Array]:
        """Return the devices of some nodes, each with the place of its node."""
        devices = self.devices.take(pa.array(nodes))
        known = np.asarray(pc.not_equal(devices, ""), np.bool_) if len(nodes) else np.zeros(0, np.bool_)
        return np.flatnonzero(known), devices.filter(pa.array(known))

    def _computed(self, step: int) -> Ints:
        figures = np.zeros((len(FIGURES), len(self)), np.int64)
        micros, accelerator, cpu = figures[:3]
        every = self.executions
        wanted = (self._execution_rows >= 0) & _is_of_step(get_numbers(every["step"]), step)
        duration, is_accelerator = get_numbers(every["duration_us"]), get_flags(every["is_accelerator"])
        for target, chosen in ((accelerator, wanted & is_accelerator), (cpu, wanted & ~is_accelerator)):
            np.add.at(target, self._execution_rows[chosen], duration[chosen])
        micros += accelerator + cpu
        wanted = (self._memory_rows >= 0) & _is_of_step(get_numbers(self.memory["step"]), step)
        for target, name in zip(figures[3:7], _MEMORY, strict=True):
            np.add.at(target, self._memory_rows[wanted], get_numbers(self.memory[name])[wanted])
        rows, steps, counts = self.run_steps
        runs, wanted = figures[FIGURES.index("run_count")], _is_of_step(steps, step)
        np.add.at(runs, rows[wanted], counts[wanted])
        recorded = np.bincount(rows, minlength=len(self))
        if step == _AVERAGE:  # sums are signed and their division is not, as in tfprof
            summed = [*range(7), FIGURES.index("run_count")]
            divided = figures[summed].view(np.uint64) // np.maximum(recorded, 1).astype(np.uint64)
            figures[summed] = divided.view(np.int64)
        figures[7] = get_numbers(self.nodes["parameters"])
        figures[8] = get_numbers(self.nodes["float_ops"]) * np.where(recorded > 0, runs, 1)
        figures[DEFINED] = 1
        return figures


def _is_of_step(steps: Ints, step: int) -> np.typing.NDArray[np.bool_]:
    return np.ones(len(steps), np.bool_) if step == _AVERAGE else steps == step


# ---- columns of Arrow


def get_plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the column as one array."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def get_texts(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the strings without a dictionary."""
    array = get_plain(column)
    return array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array


def get_coded(column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """Return the strings as codes of distinct words; a word is null if a string is."""
    array = get_plain(column)
    if not pa.types.is_dictionary(array.type):
        return array.dictionary_encode("encode")
    if not array.null_count:
        return array
    words = pa.concat_arrays([array.dictionary, pa.nulls(1, array.dictionary.type)])
    return pa.DictionaryArray.from_arrays(pc.fill_null(array.indices, len(array.dictionary)), words)


def get_numbers(column: pa.ChunkedArray | pa.Array) -> Ints:
    return np.asarray(get_plain(column).to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def get_flags(column: pa.ChunkedArray | pa.Array) -> np.typing.NDArray[np.bool_]:
    return np.asarray(get_plain(column).to_numpy(zero_copy_only=False), np.bool_)


_CANONICAL: Final = compile_late(r".*/(device:gpu|gpu|device:cpu|cpu):\d+", re.ASCII)


def is_canonical(device: str) -> bool:
    """Return whether graphs place nodes on the device: it is not a stream of one."""
    return _CANONICAL.fullmatch(device) is not None


class NodeRun(NamedTuple):
    """Execution of a node, in microseconds."""

    start: int
    duration: int


class StepRuns:
    """Nodes that ran in a step and whose times are known."""

    def __init__(self, recorded: RecordedGraph, step: int) -> None:
        self._recorded, self._step = recorded, step

    @cached_property
    def timed(self) -> dict[int, list[tuple[int, int]]]:
        """Allocations, time and bytes, of each node with a start and an end."""
        runs = get_plain(self._recorded.nodes["runs"])
        each = pc.list_flatten(runs)
        rows, steps = get_numbers(pc.list_parent_indices(runs)), get_numbers(each.field("step"))
        there = (
            (steps == self._step)
            & (get_numbers(each.field("start_us")) != 0)
            & (get_numbers(each.field("end_us")) != 0)
        )
        places = np.flatnonzero(there)
        allocations = each.field("allocations").take(places).to_pylist()
        return {
            row: [(allocation["time_us"], allocation["bytes"]) for allocation in some or ()]
            for row, some in zip(rows[places].tolist(), allocations, strict=True)
        }

    @cached_property
    def spans(self) -> dict[int, dict[str, list[NodeRun]]]:
        """Executions of each node by device, in the order of the bytes of their names."""
        return self._spans(of_cpu_only=False)

    @cached_property
    def on_cpu(self) -> dict[int, dict[str, list[NodeRun]]]:
        """Executions on the host of each node by device."""
        return self._spans(of_cpu_only=True)

    def _spans(self, *, of_cpu_only: bool) -> dict[int, dict[str, list[NodeRun]]]:
        every = self._recorded.executions
        wanted = get_numbers(every["step"]) == self._step
        if of_cpu_only:
            wanted &= ~get_flags(every["is_accelerator"])
        places = np.flatnonzero(wanted)
        columns = (get_texts(every["device"]).take(places).to_pylist(), get_numbers(every["start_us"])[places].tolist())
        rows, durations = (
            self._recorded.rows_of(every["name"])[places].tolist(),
            get_numbers(every["duration_us"])[places],
        )
        spans: dict[int, dict[str, list[NodeRun]]] = defaultdict(lambda: defaultdict(list))
        for row, device, start, duration in zip(rows, *columns, durations.tolist(), strict=True):
            spans[row][device].append(NodeRun(start, duration))
        return {row: dict(sorted(some.items(), key=lambda entry: entry[0].encode())) for row, some in spans.items()}

    @cached_property
    def in_use(self) -> dict[int, list[tuple[int, int]]]:
        """Bytes that each node's allocator had given out, by time."""
        every = self._recorded.memory
        places = np.flatnonzero(get_numbers(every["step"]) == self._step)
        rows = self._recorded.rows_of(every["name"])[places].tolist()
        times, sizes = (get_numbers(every[name])[places].tolist() for name in ("end_us", "allocator_bytes_in_use"))
        in_use = defaultdict[int, list[tuple[int, int]]](list)
        for row, time, size in zip(rows, times, sizes, strict=True):
            in_use[row].append((time, size))
        return in_use

    @cached_property
    def persistent(self) -> dict[int, int]:
        """Memory of accelerators that outlives the runs of a node: the most of any step."""
        every = self._recorded.memory
        rows, steps = self._recorded.rows_of(every["name"]).tolist(), get_numbers(every["step"]).tolist()
        sums = defaultdict[tuple[int, int], int](int)
        for row, step, size in zip(
            rows, steps, get_numbers(every["accelerator_persistent_bytes"]).tolist(), strict=True
        ):
            sums[row, step] += size
        most = defaultdict[int, int](int)
        for (row, _), size in sums.items():
            most[row] = max(most[row], size)
        return most
