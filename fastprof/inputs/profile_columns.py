"""The columns of a ProfileProto, tfprof's file of a graph and of what its nodes did, each read when it is first used.

    nodes {id: {name, op, inputs {slot: id}, runs {step: {accelerator_execs {device: times}, memory ...}}}}
    id_to_string {id: text}: what traces refer to

Nodes are rows in the order of the bytes of their names; of equal names the first counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.message_columns import Buffer, MessageColumns, Spans, all_of
from fastprof.inputs.value_columns import (
    Texts,
    by_key,
    byte_order,
    bytes_at,
    ends_of,
    integers_at,
    only,
    places,
    texts_at,
)
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int32s, Int64s

DOING: Final = "reading a ProfileProto"
PLANE, STAT = "tfprof", "profile_proto"
"""An XSpace that was transcribed from a profile carries it: pieces of it are stats of this name, in a plane."""
PICOSECONDS: Final = 1_000_000
"""Of a microsecond."""
_FAR_US: Final = (1 << 62) // PICOSECONDS
"""Times that are farther apart than this, some 53 days, have no place on one line."""
_LATEST_US: Final = (1 << 62) // 1000
NODES, HAS_TRACE, STEPS, ID_TO_STRING, MISSES_STREAM = range(1, 6)
KEY, VALUE = 1, 2
NAME, INPUTS, OUTPUTS, SHAPE, TYPES, CANONICAL_DEVICE, HOST_DEVICE, FLOAT_OPS, OP, TRACE, ATTRS, EXECS, ID = range(
    1, 14
)
OUTPUT_OF_INPUT, OUTPUT_SHAPES, INPUT_SHAPES = 14, 15, 16
RUN_COUNT, START, END, ACCELERATOR_EXECS, CPU_EXECS, DEVICES, MEMORY = range(1, 8)
ALLOCATIONS: Final = 11
TIMES, TUPLE = 1, 1
LINE, FUNCTION_LINE, FILE_ID, FUNCTION_ID, LINE_ID = 2, 5, 6, 7, 8
_INLINE: Final = {FILE_ID: 1, FUNCTION_ID: 3, LINE_ID: 4}
"""Where old files have the text itself."""
MEMORY_NUMBERS: Final = range(1, 11)
"""Fields of ExecMemory that are numbers."""
OUTPUT_MEMORY: Final = 11


@dataclass(frozen=True, slots=True)
class Links(ArrayRows):
    """Edges of the graph, in the order of ``node`` and ``slot``, to or from the ``output`` of the node ``other``."""

    node: Int64s
    slot: Int64s
    other: Int64s
    output: Int64s


@dataclass(frozen=True, slots=True)
class Executions(ArrayRows):
    """In the order of ``node``, ``step`` and device, then as recorded; ``device``: a word of ``devices``."""

    node: Int64s
    step: Int64s
    device: Int32s
    is_accelerator: Bools
    start_us: Int64s
    duration_us: Int64s


def times_of(every: Executions) -> tuple[int, Bools]:
    """What times count from, and which executions have a time that is near the others'."""
    start, duration = every.start_us, every.duration_us
    is_time = (start > 0) & (start < _LATEST_US) & (duration >= 0) & (duration < _FAR_US)
    if not is_time.any():
        return 0, is_time
    middle = int(np.median(start[is_time]))
    is_time &= np.abs(start - middle) < _FAR_US
    return int(start[is_time].min()), is_time


@dataclass(frozen=True, slots=True)
class Lists:
    """``owner`` of each value, ascending."""

    owner: Int64s
    values: Texts


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of slots, in the order of ``node`` and ``slot``: sizes ends[i] .. ends[i + 1]."""

    node: Int64s
    slot: Int64s
    sizes: Int64s
    ends: Int64s


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of code: ``frame[i]`` of node ``node[i]``, outermost first, is a row of the other columns."""

    node: Int64s
    frame: Int32s
    line: Int64s
    function_line: Int64s
    file: Texts
    function: Texts
    text: Texts


class ProfileColumns:
    """Raises CaptureError, at once or when a column is read: the bytes do not decode, or a node leads nowhere; its
    offset is one in ``data``. ``tolerant``: what leads nowhere is left out and counted in ``lost``."""

    def __init__(self, data: Buffer, tolerant: bool = False) -> None:
        self.data = data
        self.lost: dict[str, int] = {}
        self._tolerant = tolerant
        self._top = MessageColumns(data, all_of(data), DOING)
        entries = MessageColumns(data, self._top.each(NODES).at, DOING)
        ids, messages = entries.integers(KEY), entries.spans(VALUE)
        last = by_key(np.zeros(len(ids), np.int64), ids)
        last.sort()
        ids, messages = ids[last], messages.taken(last)
        found = texts_at(data, _present(MessageColumns(data, messages, DOING, only(NAME)).spans(NAME)), DOING)
        before = np.maximum.accumulate(np.append(-1, found.number))[:-1]
        first = np.flatnonzero(found.number > before)
        order = byte_order(found.words)
        self.names = found.words.take(order)
        self._at = messages.taken(first[order])
        by_id = np.argsort(ids, kind="stable")
        self._ids, self._row_of_id = ids[by_id], places(order)[found.number][by_id]

    def __len__(self) -> int:
        return len(self._at.offset)

    def check(self) -> None:
        """Raise CaptureError if any column does not decode."""
        for name in ("executions", "inputs", "outputs", "input_shapes", "output_shapes", "attrs", "frames"):
            getattr(self, name)
        for one in (self.allocations, self.run_devices, self.memory, self.output_memory):
            assert one is not None

    # ---- of the profile

    @property
    def steps(self) -> Int64s:
        return np.unique(integers_at(self.data, self._top, STEPS, DOING)[1])

    @property
    def has_trace(self) -> bool:
        return bool(self._top.integers(HAS_TRACE)[0])

    @property
    def misses_accelerator_stream(self) -> bool:
        return bool(self._top.integers(MISSES_STREAM)[0])

    # ---- of nodes

    def _nodes(self, *numbers: int) -> MessageColumns:
        return MessageColumns(self.data, self._at, DOING, only(*numbers))

    @cached_property
    def _scalars(self) -> MessageColumns:
        return self._nodes(SHAPE, TYPES, CANONICAL_DEVICE, HOST_DEVICE, FLOAT_OPS, OP)

    @cached_property
    def _links(self) -> MessageColumns:
        return self._nodes(INPUTS, OUTPUTS, OUTPUT_OF_INPUT, OUTPUT_SHAPES, INPUT_SHAPES)

    @property
    def ops(self) -> Texts:
        return texts_at(self.data, _present(self._scalars.spans(OP)), DOING)

    @property
    def canonical_devices(self) -> Texts:
        return texts_at(self.data, _filled(self._scalars.spans(CANONICAL_DEVICE)), DOING)

    @property
    def host_devices(self) -> Texts:
        return texts_at(self.data, _filled(self._scalars.spans(HOST_DEVICE)), DOING)

    @property
    def float_ops(self) -> Int64s:
        return self._scalars.integers(FLOAT_OPS)

    @property
    def shapes(self) -> tuple[Int64s, Int64s]:
        """Sizes, and where those of each node end, after 0."""
        owner, sizes = integers_at(self.data, self._scalars, SHAPE, DOING)
        return sizes, ends_of(owner, len(self))

    @property
    def types(self) -> Lists:
        """Each once, in the order of their bytes."""
        every = self._scalars.each(TYPES)
        found = texts_at(self.data, every.at, DOING)
        order = by_key(every.owner, found.rank()[found.number])
        return Lists(every.owner[order], Texts(found.number[order], found.words))

    # ---- the graph

    @property
    def inputs(self) -> Links:
        """Inputs from one node share one output, the last that is recorded: tfprof keeps it by the node."""
        node, slot, other = self._linked(INPUTS, "input")
        every = self._links.each(OUTPUT_OF_INPUT)
        entries = MessageColumns(self.data, every.at, DOING)
        rows, known = self._rows_of(entries.integers(KEY))
        owner, producer, output = every.owner[known], rows[known], entries.integers(VALUE)[known]
        last = by_key(owner, producer)
        keys, wanted = owner[last] * len(self) + producer[last], node * len(self) + other
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        recorded = keys[at] == wanted if len(keys) else np.zeros(len(wanted), bool)
        outputs = np.zeros(len(node), np.int64)
        outputs[recorded] = output[last][at[recorded]]
        return Links(node, slot, other, outputs)

    @property
    def outputs(self) -> Links:
        node, slot, other = self._linked(OUTPUTS, "output")
        return Links(node, slot, other, slot)

    def _linked(self, number: int, what: str) -> tuple[Int64s, Int64s, Int64s]:
        every = self._links.each(number)
        entries = MessageColumns(self.data, every.at, DOING)
        slot, ids = entries.integers(KEY), entries.integers(VALUE)
        order = by_key(every.owner, slot)
        rows, known = self._rows_of(ids[order])
        if not known.all():
            self._lose(f"{what}s", int((~known).sum()), lambda: self._no_node(what, every.owner, order, known, ids))
        order = order[known]
        return every.owner[order], slot[order], rows[known]

    def _rows_of(self, ids: Int64s) -> tuple[Int64s, Bools]:
        """The nodes with these ids, and which there are."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return self._row_of_id[at], self._ids[at] == ids

    def _no_node(self, what: str, owner: Int64s, order: Int64s, known: Bools, ids: Int64s) -> CaptureError:
        first = order[np.flatnonzero(~known)[0]]
        node = int(owner[first])
        name = self.names[node].as_py()[:200]
        text = f"an {what} of the node {name!r} is node {ids[first]}, which is not in the profile"
        return CaptureError(f"{text}, {DOING}", offset=int(self._at.offset[node]))

    def _lose(self, what: str, count: int, fault: Callable[[], CaptureError]) -> None:
        if not self._tolerant:
            raise fault()
        self.lost[what] = count

    @property
    def input_shapes(self) -> Shapes:
        return self._shapes_of(INPUT_SHAPES)

    @property
    def output_shapes(self) -> Shapes:
        return self._shapes_of(OUTPUT_SHAPES)

    def _shapes_of(self, number: int) -> Shapes:
        every = self._links.each(number)
        entries = MessageColumns(self.data, every.at, DOING)
        slot = entries.integers(KEY)
        order = by_key(every.owner, slot)
        tuples = MessageColumns(self.data, entries.spans(VALUE).taken(order), DOING)
        owner, sizes = integers_at(self.data, tuples, TUPLE, DOING)
        return Shapes(every.owner[order], slot[order], sizes, ends_of(owner, len(order)))

    @property
    def attrs(self) -> tuple[Int64s, Texts, Int32s, Spans, bytes]:
        """Attributes by node and name: nodes, names, numbers of values; and where each value, an AttrValue, lies in the
        bytes returned."""
        every = self._nodes(ATTRS).each(ATTRS)
        entries = MessageColumns(self.data, every.at, DOING)
        names = texts_at(self.data, _present(entries.spans(KEY)), DOING)
        number, at, content = bytes_at(self.data, _present(entries.spans(VALUE)), DOING)
        order = by_key(every.owner, names.rank()[names.number])
        return every.owner[order], Texts(names.number[order], names.words), number[order], at, content

    # ---- code

    @property
    def frames(self) -> Frames:
        """Equal frames are read once: a program has few, but each node many."""
        codes = self._nodes(TRACE).spans(TRACE)
        every = MessageColumns(self.data, codes, DOING).each(1)
        frame, at, content = bytes_at(self.data, every.at, DOING)
        traces = MessageColumns(content, at, DOING)
        texts = [self._frame_texts(content, traces, number) for number in (FILE_ID, FUNCTION_ID, LINE_ID)]
        return Frames(every.owner, frame, traces.integers(LINE), traces.integers(FUNCTION_LINE), *texts)

    @cached_property
    def _strings(self) -> tuple[Int64s, Spans]:
        """The ids of texts, ascending, and where these lie."""
        entries = MessageColumns(self.data, self._top.each(ID_TO_STRING).at, DOING)
        ids = entries.integers(KEY)
        order = by_key(np.zeros(len(ids), np.int64), ids)
        return ids[order], _present(entries.spans(VALUE)).taken(order)

    def _frame_texts(self, content: bytes, traces: MessageColumns, number: int) -> Texts:
        inline = traces.spans(_INLINE[number])
        if (inline.length >= 0).any():
            return texts_at(content, inline, DOING)
        ids, at = self._strings
        wanted = traces.integers(number)
        places_ = np.minimum(np.searchsorted(ids, wanted), max(len(ids) - 1, 0))
        known = ids[places_] == wanted if len(ids) else np.zeros(len(wanted), bool)
        if not known.all():
            self.lost["texts of code"] = self.lost.get("texts of code", 0) + int((~known).sum())
        found = at.taken(places_) if len(ids) else Spans(wanted * 0, wanted * 0)
        return texts_at(self.data, Spans(found.offset, np.where(known, found.length, -1)), DOING)

    # ---- runs

    @cached_property
    def _runs(self) -> tuple[Int64s, Int64s, MessageColumns]:
        """Nodes and steps of runs, in their order, and the runs."""
        every = self._nodes(EXECS).each(EXECS)
        entries = MessageColumns(self.data, every.at, DOING)
        step = entries.integers(KEY)
        order = by_key(every.owner, step)
        return every.owner[order], step[order], MessageColumns(self.data, entries.spans(VALUE).taken(order), DOING)

    @property
    def runs(self) -> tuple[Int64s, Int64s]:
        """Nodes and steps of runs, in this order."""
        return self._runs[:2]

    def run_integers(self, number: int) -> Int64s:
        return self._runs[2].integers(number)

    @property
    def run_devices(self) -> Lists:
        """The devices that mention a run, in the order of runs, each once."""
        every = self._runs[2].each(DEVICES)
        found = texts_at(self.data, every.at, DOING)
        order = by_key(every.owner, found.rank()[found.number])
        return Lists(every.owner[order], Texts(found.number[order], found.words))

    @property
    def allocations(self) -> tuple[Int64s, Int64s, Int64s]:
        """The run, time in microseconds and bytes of allocations, in the order of runs."""
        every = self._runs[2].each(ALLOCATIONS)
        records = MessageColumns(self.data, every.at, DOING)
        return every.owner, records.integers(1), records.integers(2)

    @cached_property
    def _executions(self) -> tuple[Executions, Texts]:
        node, step, runs = self._runs
        found = [runs.each(number) for number in (CPU_EXECS, ACCELERATOR_EXECS)]
        owner = np.concatenate([one.owner for one in found])
        at = Spans(*(np.concatenate([one.at[place] for one in found]) for place in (0, 1)))
        is_accelerator = np.repeat([False, True], [len(one.owner) for one in found])
        entries = MessageColumns(self.data, at, DOING)
        device = texts_at(self.data, _present(entries.spans(KEY)), DOING)
        order = by_key(owner, 2 * device.rank()[device.number] + is_accelerator)
        times = MessageColumns(self.data, entries.spans(VALUE).taken(order), DOING).each(TIMES)
        of, values = integers_at(self.data, MessageColumns(self.data, times.at, DOING), TUPLE, DOING)
        ends = ends_of(of, len(times.owner))
        start, duration = (_nth(values, ends, place) for place in (0, 1))
        rows = order[times.owner]
        run = owner[rows]
        every = Executions(node[run], step[run], device.number[rows], is_accelerator[rows], start, duration)
        return every, device

    @property
    def executions(self) -> Executions:
        return self._executions[0]

    @property
    def devices(self) -> Texts:
        """Of executions: their words."""
        return self._executions[1]

    # ---- memory

    @cached_property
    def _memory(self) -> tuple[Int64s, MessageColumns]:
        every = self._runs[2].each(MEMORY)
        return every.owner, MessageColumns(self.data, every.at, DOING)

    @property
    def memory(self) -> tuple[Int64s, dict[int, Int64s]]:
        """The run of each record of memory, and its numbers by field."""
        run, records = self._memory
        return run, {number: records.integers(number) for number in MEMORY_NUMBERS}

    @property
    def output_memory(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """The record, slot, bytes and address of outputs, in this order."""
        every = self._memory[1].each(OUTPUT_MEMORY)
        entries = MessageColumns(self.data, every.at, DOING)
        slot = entries.integers(KEY)
        order = by_key(every.owner, slot)
        places_ = MessageColumns(self.data, entries.spans(VALUE).taken(order), DOING)
        return every.owner[order], slot[order], places_.integers(1), places_.integers(2)


def _present(at: Spans) -> Spans:
    """Absent texts are empty."""
    return Spans(at.offset, np.maximum(at.length, 0))


def _filled(at: Spans) -> Spans:
    """Empty texts are absent."""
    return Spans(at.offset, np.where(at.length == 0, -1, at.length))


def _nth(values: Int64s, ends: Int64s, place: int) -> Int64s:
    """The value at a place of each range; 0: it is shorter."""
    at = ends[:-1] + place
    there = at < ends[1:]
    found = np.zeros(len(at), np.int64)
    found[there] = values[at[there]]
    return found
