"""The columns of a ProfileProto, tfprof's file of a graph and of what its nodes did, each read when it is first used.

    nodes {id: {name, op, inputs {slot: id}, runs {step: {accelerator_execs {device: times}, memory ...}}}}
    id_to_string {id: text}: what traces refer to

Nodes are rows in the order of the bytes of their names; of equal names the first counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.message_columns import (
    Buffer,
    ByteSpans,
    DistinctTexts,
    MessageColumns,
    MessageRows,
    WantedFields,
    find_ends,
    make_whole_span,
    read_bytes,
    read_integers,
    read_tables,
    read_texts,
    sort_by_key,
    sort_words,
)
from fastprof.schema.columns import ArrayRows, Bools, Int32s, Int64s, find_equal, invert_order
from fastprof.schema.value_classes import dataclass

DOING: Final = "reading a ProfileProto"
PICOSECONDS: Final = 1_000_000
"""Picoseconds of a microsecond."""
_FAR_US: Final = (1 << 62) // PICOSECONDS
"""Times that are farther apart than this, some 53 days, have no place on one line."""
_LATEST_US: Final = (1 << 62) // 1000
NODES, HAS_TRACE, STEPS, ID_TO_STRING, MISSES_STREAM = range(1, 6)
KEY, VALUE = 1, 2
ABSENT: Final = -1
"""Id of an input that the graph lacks. Only profiles of graphs read as tfprof reads them have such inputs."""
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
_DEVICE_TIMES: Final = WantedFields(
    texts=(KEY,), messages={VALUE: WantedFields(messages={TIMES: WantedFields(numbers=(TUPLE,))})}
)
_OUTPUTS: Final = WantedFields((KEY,), messages={VALUE: WantedFields((1, 2))})
_RUN: Final = WantedFields(
    (RUN_COUNT, START, END),
    messages={
        ACCELERATOR_EXECS: _DEVICE_TIMES, CPU_EXECS: _DEVICE_TIMES,
        MEMORY: WantedFields(tuple(MEMORY_NUMBERS)),
    },
)  # fmt: skip
_LISTS: Final = WantedFields(messages={ALLOCATIONS: WantedFields((1, 2))}, lists=(DEVICES,))
_LISTS_OF_RUNS: Final = WantedFields(messages={EXECS: WantedFields(messages={VALUE: _LISTS})})
_SCALARS: Final = WantedFields((FLOAT_OPS,), (CANONICAL_DEVICE, HOST_DEVICE, OP), numbers=(SHAPE,), lists=(TYPES,))
_LINK: Final = WantedFields((KEY, VALUE))
_INPUTS: Final = WantedFields(messages={INPUTS: _LINK, OUTPUT_OF_INPUT: _LINK})
_SLOT_SHAPES: Final = WantedFields((KEY,), messages={VALUE: WantedFields(numbers=(TUPLE,))})
_ATTRS: Final = WantedFields(messages={ATTRS: WantedFields(texts=(KEY, VALUE))})
_CODE: Final = WantedFields(messages={TRACE: WantedFields(lists=(1,))})
_NODE_RUNS: Final = WantedFields(messages={EXECS: WantedFields((KEY,), messages={VALUE: _RUN})})
_RUN_OUTPUTS: Final = WantedFields(messages={MEMORY: WantedFields(messages={OUTPUT_MEMORY: _OUTPUTS})})
_OUTPUTS_OF_RUNS: Final = WantedFields(messages={EXECS: WantedFields(messages={VALUE: _RUN_OUTPUTS})})


@dataclass(frozen=True, slots=True)
class GraphLinks(ArrayRows):
    """Edges of the graph, in the order of ``node`` and ``slot``, to or from the ``output`` of the node ``other``, -1 if
    the graph lacks it."""

    node: Int64s
    slot: Int64s
    other: Int64s
    output: Int64s


@dataclass(frozen=True, slots=True)
class NodeExecutions(ArrayRows):
    """Executions in the order of ``node``, ``step`` and device, then as recorded; ``device``: a word of ``devices``."""

    node: Int64s
    step: Int64s
    device: Int32s
    is_accelerator: Bools
    start_us: Int64s
    duration_us: Int64s


def find_times(every: NodeExecutions) -> tuple[int, Bools]:
    """Return the zero of times, and which executions have a time that is near the others'."""
    start, duration = every.start_us, every.duration_us
    is_time = (start > 0) & (start < _LATEST_US) & (duration >= 0) & (duration < _FAR_US)
    if not is_time.any():
        return 0, is_time
    middle = int(np.median(start[is_time]))
    is_time &= np.abs(start - middle) < _FAR_US
    return int(start[is_time].min()), is_time


@dataclass(frozen=True, slots=True)
class OwnedLists:
    """``owner`` of each value, ascending."""

    owner: Int64s
    values: DistinctTexts


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
    file: DistinctTexts
    function: DistinctTexts
    text: DistinctTexts


class ProfileColumns:
    """Raises CaptureError, at once or when a column is read: the bytes do not decode, or a node leads nowhere; its
    offset is one in ``data``. ``tolerant``: what leads nowhere is left out and counted in ``lost``."""

    def __init__(self, data: Buffer, tolerant: bool = False) -> None:
        self.data = data
        self.lost: dict[str, int] = {}
        self._tolerant = tolerant
        self._top = MessageColumns(data, make_whole_span(data), DOING)
        entries = read_tables(data, self._top.each(NODES).at, WantedFields((KEY,), (VALUE,)), DOING)
        ids, messages = entries.integers(KEY), entries.spans(VALUE)
        last = sort_by_key(np.zeros(len(ids), np.int64), ids)
        last.sort()
        ids, messages = ids[last], messages.taken(last)
        texts = read_texts(
            data, _fill_absent(read_tables(data, messages, WantedFields(texts=(NAME,)), DOING).spans(NAME)), DOING
        )
        before = np.maximum.accumulate(np.append(-1, texts.number))[:-1]
        first = np.flatnonzero(texts.number > before)
        order = sort_words(texts.words)
        self.names = texts.words.take(order)
        self._at = messages.taken(first[order])
        by_id = np.argsort(ids, kind="stable")
        self._ids, self._row_of_id = ids[by_id], invert_order(order)[texts.number][by_id]

    def __len__(self) -> int:
        return len(self._at.offset)

    def check(self) -> None:
        """Raise CaptureError if any column does not decode."""
        for name in ("executions", "types", "inputs", "outputs", "input_shapes", "output_shapes", "attrs", "frames"):
            getattr(self, name)
        for column in (self.allocations, self.run_devices, self.memory, self.output_memory):
            assert column is not None

    # ---- of the profile

    @property
    def steps(self) -> Int64s:
        return np.unique(read_integers(self.data, self._top, STEPS, DOING)[1])

    @property
    def has_trace(self) -> bool:
        return bool(self._top.integers(HAS_TRACE)[0])

    @property
    def misses_accelerator_stream(self) -> bool:
        return bool(self._top.integers(MISSES_STREAM)[0])

    # ---- of nodes

    def _read(self, wanted: WantedFields) -> MessageRows:
        return read_tables(self.data, self._at, wanted, DOING)

    @cached_property
    def _scalars(self) -> MessageRows:
        return self._read(_SCALARS)

    @property
    def ops(self) -> DistinctTexts:
        return read_texts(self.data, _fill_absent(self._scalars.spans(OP)), DOING)

    @property
    def canonical_devices(self) -> DistinctTexts:
        return read_texts(self.data, _mark_empty(self._scalars.spans(CANONICAL_DEVICE)), DOING)

    @property
    def host_devices(self) -> DistinctTexts:
        return read_texts(self.data, _mark_empty(self._scalars.spans(HOST_DEVICE)), DOING)

    @property
    def float_ops(self) -> Int64s:
        return self._scalars.integers(FLOAT_OPS)

    @property
    def shapes(self) -> tuple[Int64s, Int64s]:
        """Sizes, and where those of each node end, after 0."""
        sizes = self._scalars.rows_of[SHAPE]
        return sizes.integers(), find_ends(sizes.parent, len(self))

    @property
    def types(self) -> OwnedLists:
        """Each once, in the order of their bytes."""
        every = self._scalars.rows_of[TYPES]
        return self._distinct(every.parent, every.spans())

    def _distinct(self, owner: Int64s, at: ByteSpans) -> OwnedLists:
        texts = read_texts(self.data, at, DOING)
        order = sort_by_key(owner, texts.rank()[texts.number])
        return OwnedLists(owner[order], DistinctTexts(texts.number[order], texts.words))

    # ---- the graph

    @property
    def inputs(self) -> GraphLinks:
        """Inputs from one node share one output, the last that is recorded: tfprof keeps it by the node."""
        links = self._read(_INPUTS)
        node, slot, other = self._linked(links.rows_of[INPUTS], "input")
        entries = links.rows_of[OUTPUT_OF_INPUT]
        rows, known = self._rows_of(entries.integers(KEY))
        owner, producer, output = entries.parent[known], rows[known], entries.integers(VALUE)[known]
        last = sort_by_key(owner, producer)
        keys, wanted = owner[last] * len(self) + producer[last], node * len(self) + other
        recorded, at = find_equal(keys, wanted)
        outputs = np.zeros(len(node), np.int64)
        outputs[recorded] = output[last][at[recorded]]
        return GraphLinks(node, slot, other, outputs)

    @property
    def outputs(self) -> GraphLinks:
        links = self._read(WantedFields(messages={OUTPUTS: _LINK}))
        node, slot, other = self._linked(links.rows_of[OUTPUTS], "output")
        return GraphLinks(node, slot, other, slot)

    def _linked(self, entries: MessageRows, what: str) -> tuple[Int64s, Int64s, Int64s]:
        owner, slot, ids = entries.parent, entries.integers(KEY), entries.integers(VALUE)
        order = sort_by_key(owner, slot)
        rows, known = self._rows_of(ids[order])
        if not known.all():
            if not self._tolerant:
                node = int(owner[order][np.flatnonzero(~known)[0]])
                text = f"an {what} of the node is not in the profile, {DOING}"
                raise CaptureError(text, offset=int(self._at.offset[node]))
            self.lost[f"{what}s"] = int((~known).sum())
        order = order[known]
        return owner[order], slot[order], rows[known]

    def _rows_of(self, ids: Int64s) -> tuple[Int64s, Bools]:
        """Return the nodes with these ids, -1 for an absent input, and whether each id is valid."""
        known, at = find_equal(self._ids, ids)
        rows = self._row_of_id[at] if len(self._ids) else at
        return np.where(known, rows, -1), known | (ids == ABSENT)

    @property
    def input_shapes(self) -> Shapes:
        return self._shapes_of(INPUT_SHAPES)

    @property
    def output_shapes(self) -> Shapes:
        return self._shapes_of(OUTPUT_SHAPES)

    def _shapes_of(self, number: int) -> Shapes:
        entries = self._read(WantedFields(messages={number: _SLOT_SHAPES})).rows_of[number]
        node, slot, tuples = entries.parent, entries.integers(KEY), entries.rows_of[VALUE]
        order = sort_by_key(node, slot)
        of_tuple = np.full(len(tuples), -1, np.int64)
        row = tuples.last(len(entries))[order]
        of_tuple[row[row >= 0]] = np.flatnonzero(row >= 0)
        sizes = tuples.rows_of[TUPLE]
        of = of_tuple[sizes.parent]
        rows = _sort_rows(of)
        return Shapes(node[order], slot[order], sizes.integers()[rows], find_ends(of[rows], len(order)))

    @property
    def attrs(self) -> tuple[Int64s, DistinctTexts, Int32s, ByteSpans, bytes]:
        """Attributes by node and name: nodes, names, numbers of values; and where each value, an AttrValue, lies in the
        bytes returned."""
        entries = self._read(_ATTRS).rows_of[ATTRS]
        names = read_texts(self.data, _fill_absent(entries.spans(KEY)), DOING)
        number, at, content = read_bytes(self.data, _fill_absent(entries.spans(VALUE)), DOING)
        order = sort_by_key(entries.parent, names.rank()[names.number])
        return entries.parent[order], DistinctTexts(names.number[order], names.words), number[order], at, content

    # ---- code

    @property
    def frames(self) -> Frames:
        """Equal frames are read once: a program has few, but each node many."""
        codes = self._read(_CODE).rows_of[TRACE]
        every = codes.rows_of[1]
        node = codes.parent[every.parent]
        rows = np.flatnonzero(codes.last(len(self))[node] == every.parent)
        frame, at, content = read_bytes(self.data, every.spans().taken(rows), DOING)
        traces = MessageColumns(content, at, DOING)
        texts = [self._frame_texts(content, traces, number) for number in (FILE_ID, FUNCTION_ID, LINE_ID)]
        return Frames(node[rows], frame, traces.integers(LINE), traces.integers(FUNCTION_LINE), *texts)

    @cached_property
    def _strings(self) -> tuple[Int64s, ByteSpans]:
        """The ids of texts, ascending, and where these lie."""
        entries = MessageColumns(self.data, self._top.each(ID_TO_STRING).at, DOING)
        ids = entries.integers(KEY)
        order = sort_by_key(np.zeros(len(ids), np.int64), ids)
        return ids[order], _fill_absent(entries.spans(VALUE)).taken(order)

    def _frame_texts(self, content: bytes, traces: MessageColumns, number: int) -> DistinctTexts:
        inline = traces.spans(_INLINE[number])
        if (inline.length >= 0).any():
            return read_texts(content, inline, DOING)
        ids, at = self._strings
        wanted = traces.integers(number)
        known, place = find_equal(ids, wanted)
        if not known.all():
            self.lost["texts of code"] = self.lost.get("texts of code", 0) + int((~known).sum())
        spans = at.taken(place) if len(ids) else ByteSpans(wanted * 0, wanted * 0)
        return read_texts(self.data, ByteSpans(spans.offset, np.where(known, spans.length, -1)), DOING)

    # ---- runs

    @cached_property
    def _ran(self) -> MessageRows:
        return read_tables(self.data, self._at, _NODE_RUNS, DOING).rows_of[EXECS]

    @cached_property
    def _runs(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Nodes and steps of runs, in their order; the row that each is, -1: nothing is recorded; and for each row the
        run, -1: it does not count."""
        entries = self._ran
        node, step = entries.parent, entries.integers(KEY)
        order = sort_by_key(node, step)
        row = entries.rows_of[VALUE].last(len(entries))[order]
        run = np.full(len(entries.rows_of[VALUE]) + 1, -1, np.int64)
        run[row] = np.arange(len(order))
        run[-1] = -1
        return node[order], step[order], row, run[:-1]

    @property
    def runs(self) -> tuple[Int64s, Int64s]:
        """Nodes and steps of runs, in this order."""
        return self._runs[:2]

    def run_integers(self, number: int) -> Int64s:
        return np.append(self._ran.rows_of[VALUE].integers(number), 0)[self._runs[2]]

    @cached_property
    def _run_lists(self) -> MessageRows:
        return self._read(_LISTS_OF_RUNS).rows_of[EXECS].rows_of[VALUE]

    @property
    def run_devices(self) -> OwnedLists:
        """The devices that mention a run, in the order of runs, each once."""
        every = self._run_lists.rows_of[DEVICES]
        run = self._runs[3][every.parent]
        rows = np.flatnonzero(run >= 0)
        return self._distinct(run[rows], every.spans().taken(rows))

    @property
    def allocations(self) -> tuple[Int64s, Int64s, Int64s]:
        """The run, time in microseconds and bytes of allocations, in the order of runs."""
        records = self._run_lists.rows_of[ALLOCATIONS]
        run = self._runs[3][records.parent]
        rows = _sort_rows(run)
        return run[rows], records.integers(1)[rows], records.integers(2)[rows]

    @cached_property
    def _executions(self) -> tuple[NodeExecutions, DistinctTexts]:
        node, step, _, run_of_row = self._runs
        parts = [self._ran.rows_of[VALUE].rows_of[number] for number in (CPU_EXECS, ACCELERATOR_EXECS)]
        run = np.concatenate([run_of_row[part.parent] for part in parts])
        at = ByteSpans(*(np.concatenate([part.spans(KEY)[place] for part in parts]) for place in (0, 1)))
        device = read_texts(self.data, _fill_absent(at), DOING)
        is_accelerator = np.repeat([False, True], [len(part) for part in parts])
        known = np.flatnonzero(run >= 0)
        order = known[sort_by_key(run[known], (2 * device.rank()[device.number] + is_accelerator)[known])]
        place = np.full(len(run), -1, np.int64)
        place[order] = np.arange(len(order))
        cpu, accelerator = (_split_times(part) for part in parts)
        entry = np.concatenate([cpu[0], len(parts[0]) + accelerator[0]])
        start, duration = (np.concatenate([cpu[at], accelerator[at]]) for at in (1, 2))
        rows = _sort_rows(place[entry])
        entry = entry[rows]
        every = NodeExecutions(
            node[run[entry]], step[run[entry]], device.number[entry], is_accelerator[entry], start[rows], duration[rows]
        )
        return every, device

    @property
    def executions(self) -> NodeExecutions:
        return self._executions[0]

    @property
    def devices(self) -> DistinctTexts:
        """The devices of executions, as words."""
        return self._executions[1]

    # ---- memory

    @cached_property
    def _memory(self) -> tuple[Int64s, Int64s, MessageRows]:
        """The rows of records, in the order of runs, and the run of each."""
        records = self._ran.rows_of[VALUE].rows_of[MEMORY]
        run = self._runs[3][records.parent]
        rows = _sort_rows(run)
        return rows, run[rows], records

    @property
    def memory(self) -> tuple[Int64s, dict[int, Int64s]]:
        """The run of each record of memory, and its numbers by field."""
        rows, run, records = self._memory
        return run, {number: records.integers(number)[rows] for number in MEMORY_NUMBERS}

    @property
    def output_memory(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """The record, slot, bytes and address of outputs, in this order."""
        rows, _, records = self._memory
        entries = self._read(_OUTPUTS_OF_RUNS).rows_of[EXECS].rows_of[VALUE].rows_of[MEMORY].rows_of[OUTPUT_MEMORY]
        place = np.full(len(records), -1, np.int64)
        place[rows] = np.arange(len(rows))
        record, slot = place[entries.parent], entries.integers(KEY)
        known = np.flatnonzero(record >= 0)
        order = known[sort_by_key(record[known], slot[known])]
        values = entries.rows_of[VALUE]
        row = values.last(len(entries))[order]
        sizes, pointers = (np.append(values.integers(number), 0)[row] for number in (1, 2))
        return record[order], slot[order], sizes, pointers


def _split_times(devices: MessageRows) -> tuple[Int64s, Int64s, Int64s]:
    """Return the device, start and duration of each time, in microseconds."""
    times = devices.rows_of[VALUE]
    tuples = times.rows_of[TIMES]
    known = np.flatnonzero(times.last(len(devices))[times.parent[tuples.parent]] == tuples.parent)
    values = tuples.rows_of[TUPLE]
    ends = find_ends(values.parent, len(tuples))
    start, duration = (_get_nth(values.integers(), ends, place)[known] for place in (0, 1))
    return times.parent[tuples.parent[known]], start, duration


def _sort_rows(keys: Int64s) -> Int64s:
    """Return the rows whose key is not negative, in the order of keys."""
    if not len(keys) or (keys[0] >= 0 and (np.diff(keys) >= 0).all()):
        return np.arange(len(keys))
    order = np.argsort(keys, kind="stable")
    return order[np.searchsorted(keys[order], 0) :]


def _fill_absent(at: ByteSpans) -> ByteSpans:
    """Absent texts are empty."""
    return ByteSpans(at.offset, np.maximum(at.length, 0))


def _mark_empty(at: ByteSpans) -> ByteSpans:
    """Empty texts are absent."""
    return ByteSpans(at.offset, np.where(at.length == 0, -1, at.length))


def _get_nth(values: Int64s, ends: Int64s, place: int) -> Int64s:
    """Return the value at a place of each range; 0: it is shorter."""
    at = ends[:-1] + place
    there = at < ends[1:]
    nth = np.zeros(len(at), np.int64)
    nth[there] = values[at[there]]
    return nth
