"""The compiled programs of a session as tables.

Rows join events by ``program_id``, instructions also by ``name``, which events call ``hlo_op`` and TPUs
``display_name``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native.xspace import Memory
from fastprof.decode.import_log import ImportLog
from fastprof.decode.text_pools import TextTable, get_index_dtype
from fastprof.errors import CaptureError
from fastprof.hlo.module import HAS_BACKEND_CONFIG, HAS_REPLICA_GROUPS, HAS_SHARDING, HloModule
from fastprof.hlo.opcodes import get_category
from fastprof.hlo.program_memory import CATEGORIES, KINDS, SHARE_WITH, BufferAssignment, ProgramMemory
from fastprof.hlo.program_tables import PROGRAM_TABLES
from fastprof.hlo.programs import Program
from fastprof.hlo.shapes import TYPE_NAMES, Shape
from fastprof.hlo.text.shape_text import format_replica_groups, format_sharding
from fastprof.inputs.message import Message
from fastprof.schema.columns import Bools, Int32s, Int64s, Records, expand_ranges, number_values
from fastprof.schema.tables import Column, TableSchema
from fastprof.schema.value_classes import dataclass


def make_hlo_tables(names: Iterable[str], programs: Iterable[tuple[str, Program, ImportLog]]) -> dict[str, pa.Table]:
    """Tables of programs, each with its host and the log for its faults. Each program is read once."""
    texts = TextTable(Memory())
    parts: dict[str, list[list[Values]]] = {name: [] for name in names}
    for host, program, log in programs:
        rows = ProgramRows(host, program, log, texts)
        for name in parts if rows.problem == "" else parts.keys() & {"hlo_modules"}:
            try:
                parts[name].append(_get_column_values(PROGRAM_TABLES[name], rows))
            except CaptureError as error:  # a damaged assignment of buffers
                program.note(log, error)
    words = texts.array()
    return {name: _join_table(PROGRAM_TABLES[name], some, words) for name, some in parts.items()}


def _get_column_values(schema: TableSchema, rows: ProgramRows) -> list[Values]:
    """Return the values of each column, and where they are null, for the rows of one program."""
    values = [(column.of(rows), column.null and column.null(rows)) for column in schema.columns if column.of]
    count = next((len(column) for column, _ in values if not np.isscalar(column)), 1)
    return [
        (np.full(count, column), null if null is None else np.full(count, null))
        if np.isscalar(column)
        else (column, null)
        for column, null in values
    ]


def _join_table(schema: TableSchema, parts: Sequence[list[Values]], words: pa.Array) -> pa.Table:
    """One table of all parts, in order."""
    if not parts:
        return schema.empty()
    columns = [join_column(column, values, words) for column, *values in zip(schema.columns, *parts, strict=True)]
    fields = [column.field(array.type) for column, array in zip(schema.columns, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


class ProgramRows:
    """What the formulas of the tables read of one program of a host. ``module``: None where it does not decode, which
    is logged, with the ``problem`` in words. Texts are numbers in ``texts``."""

    module: HloModule

    def __init__(self, host: str, program: Program, log: ImportLog, texts: TextTable) -> None:
        self.host = host
        self.program = program
        self.texts = texts
        self.log = log
        self.problem = ""
        try:
            self.module = program.read(log)
        except CaptureError as error:
            self.module = None  # type: ignore[assignment]  # then only the table of modules has a row
            self.problem = program.problem(error)

    def number(self, text: str | None) -> int:
        return self.texts.add(text) if text else ABSENT

    def numbers(self, texts: Iterable[str | None]) -> Int32s:
        return np.array([self.number(text) for text in texts], np.int32)

    @cached_property
    def words(self) -> Int32s:
        """Number in the tables of each text of the module, whose first one is empty."""
        words = self.texts.add_all(*self.module.text_pool).copy()
        words[:1] = ABSENT
        return words

    @cached_property
    def names(self) -> Int32s:
        """Names of instructions; the last is for row -1."""
        return np.append(self.words[self.instructions["name"]], np.int32(ABSENT))

    # ---- modules and computations

    @property
    def computations(self) -> Records:
        return self.module.computations

    @property
    def instructions(self) -> Records:
        return self.module.instructions

    @property
    def parameter_counts(self) -> Int64s:
        before = np.append(0, np.cumsum(self.where_opcode("parameter".__eq__)))
        counts: Int64s = before[self.computations["last_instruction"]] - before[self.computations["first_instruction"]]
        return counts

    # ---- instructions

    def where_opcode(self, test: Callable[[str], bool]) -> Bools:
        """Return, per instruction, whether its opcode passes a test."""
        opcodes, place = number_values(self.instructions["opcode"])
        passes: Bools = np.array([test(self.module.text(opcode)) for opcode in opcodes.tolist()], bool)[place]
        return passes

    @property
    def categories(self) -> Int32s:
        """Categories, looked up for each convolution, otherwise once per opcode and kind of fusion."""
        read = self.module.instruction
        kinds = self.instructions[["opcode", "fusion_kind"]]
        _, first, place = np.unique(kinds, return_index=True, return_inverse=True)
        numbers = self.numbers(get_category(read(row)) for row in first.tolist())[place]
        for row in np.flatnonzero(self.where_opcode("convolution".__eq__)).tolist():
            numbers[row] = self.number(get_category(read(row)))
        return numbers

    @cached_property
    def schedule(self) -> Int64s:
        """The place of each instruction in the schedule of its computation; -1 if there is none."""
        scheduled = self.computations[self.computations["scheduled_count"] > 0]
        first, count = scheduled["first_scheduled"], scheduled["scheduled_count"]
        rows = self.module.scheduled[expand_ranges(first, count)[1]]
        position = np.full(len(self.module), -1, np.int64)
        position[rows[rows >= 0]] = expand_ranges(np.zeros_like(first), count)[1][rows >= 0]
        return position

    @property
    def operands(self) -> Lists:
        """Names of operands, which lie in the order of instructions, as calls do."""
        return Lists(self.instructions["operand_count"], self.names[self.module.operands])

    @property
    def calls(self) -> Lists:
        names = np.append(self.words[self.computations["name"]], np.int32(ABSENT))
        return Lists(self.instructions["call_count"], names[self.module.calls])

    @cached_property
    def by_shape(self) -> dict[str, Any]:
        """Facts about the shapes of instructions, each computed once for equal shapes; bytes are -1 where unknown."""
        rows, place = number_values(self.instructions["shape"])
        text_of = self.module.shape_text
        shapes = [self.module.shape(row) for row in rows.tolist()]
        is_array = np.array([shape.is_array for shape in shapes], bool)
        columns: dict[str, Any] = {
            "text": self.numbers(text_of(row) if row >= 0 else None for row in rows.tolist()),
            "type": self.numbers(map(_get_type_name, shapes)),
            "tile": self.numbers(shape.array.tile_text for shape in shapes),
            "is_array": is_array,
            "has_layout": is_array & np.array([shape.has_layout for shape in shapes], bool),
            "rank": np.array([len(shape.dimensions) for shape in shapes], np.int64) * is_array,
            "memory_space": np.array([shape.memory_space for shape in shapes], np.int64),
            "bytes": np.array([UNKNOWN if shape.is_cut else shape.leaf_bytes for shape in shapes], np.int64),
            "padded": np.array(
                [UNKNOWN if shape.padded_bytes is None else shape.padded_bytes for shape in shapes], np.int64
            ),
        }
        lost = [
            shape.is_cut or (shape.padded_bytes is None and shape.bytes > 0 and shape.laid_out()) for shape in shapes
        ]
        why = "do not fit 64 bits, or have damaged tiles"
        self._note_unknown(np.array(lost, bool)[place], f"sizes of results of the program {{}} {why}", "shapes")
        return {name: values[place] for name, values in columns.items()}

    def _note_unknown(self, rows: Bools, what: str, read: str) -> None:
        """Return a row of import_log, about instructions whose figures are null. ``what``: a sentence, {} for the
        program."""
        if rows.any():
            first = self.module.text(int(self.instructions["name"][np.flatnonzero(rows)[0]]))
            text = f"{what.format(self.program.title)}, the first those of {first}: they are null"
            faults = [("size_overflow", text, read, int(rows.sum()), self.program.offset)]
            self.log.add_faults(faults, self.program.path)

    @property
    def dimensions(self) -> Lists:
        """Dimensions of arrays."""
        counts = self.by_shape["rank"]
        first = np.append(self.module.shapes["first_dimension"], 0)[self.instructions["shape"]]
        return Lists(counts, self.module.dimensions[expand_ranges(first, counts)[1]])

    # ---- what few instructions have

    @property
    def shardings(self) -> Int32s:
        return self._texts_of(HAS_SHARDING, "sharding_", format_sharding)

    @property
    def backend_configs(self) -> Int32s:
        return self._texts_of(HAS_BACKEND_CONFIG, "backend_config_", lambda data: str(data, "utf-8", "replace"))

    @property
    def replica_groups(self) -> Int32s:
        return self._texts_of(HAS_REPLICA_GROUPS, "", lambda data: format_replica_groups(Message(data)))

    def _texts_of(self, flag: int, prefix: str, text: Callable[[memoryview], str]) -> Int32s:
        """Texts of the bytes that instructions with a flag refer to; equal bytes are read once. Null where they do not
        decode."""
        numbers = np.full(len(self.module), ABSENT, np.int32)
        rows = np.flatnonzero(self.instructions["flags"] & flag)
        places = self.instructions[[f"{prefix}offset", f"{prefix}length"]][rows].tolist()
        known: dict[bytes, int] = {}
        for row, (at, length) in zip(rows.tolist(), places, strict=True):
            data = self.module.data[at : at + length]
            key = bytes(data)
            if key not in known:
                try:
                    known[key] = self.number(text(data))
                except CaptureError:
                    known[key] = ABSENT
            numbers[row] = known[key]
        return numbers

    # ---- where instructions come from

    @cached_property
    def places(self) -> dict[str, Any]:
        """File, lines and columns: by their metadata, else by their innermost frame, as ``HloModule.source_of``."""
        rows, frames = self.instructions, self.module.frames
        frame = rows["stack_frame_id"]
        by_frame = (rows["source_file"] == 0) & (frame > 0) & (frame <= len(frames))
        innermost = frames[frame[by_frame] - 1]
        places = {name: rows[f"source_{name}"].copy() for name in ("file", "line", "end_line", "column", "end_column")}
        for name, values in places.items():
            values[by_frame] = innermost[name]
        return places | {"file": self.words[places["file"]]}

    @property
    def stacks(self) -> Int32s:
        frames, place = number_values(self.instructions["stack_frame_id"])
        return self.numbers(map(self.module.stack_frames.text, frames.tolist()))[place]

    # ---- costs

    @cached_property
    def costs(self) -> Records:
        """Figures by XLA's general cost model, and whether any bytes are elsewhere than in HBM."""
        from fastprof.hlo.cost import CostModel
        from fastprof.hlo.work import GENERAL

        figures = ("model_flops", "bytes_accessed", "hbm_read_bytes", "hbm_write_bytes")
        model = CostModel(self.module, GENERAL)
        costs = [model.cost(row) for row in range(len(self.module))]
        is_cut = np.array([cost.is_cut for cost in costs], bool)
        self._note_unknown(is_cut, "costs of instructions of the program {} do not fit 64 bits", "costs")
        rows = [(*(getattr(cost, name) for name in figures), cost.is_known, bool(cost.elsewhere)) for cost in costs]
        return np.array(rows, [*((name, "i8") for name in figures), ("is_known", "?"), ("elsewhere", "?")])

    # ---- the plan of memory; CaptureError: it does not decode

    @cached_property
    def memory(self) -> ProgramMemory:
        return ProgramMemory(self.module)

    @property
    def plan(self) -> BufferAssignment:
        return self.memory.buffers

    @property
    def uses(self) -> Int32s:
        """Uses of allocations."""
        return self.numbers(CATEGORIES)[self.plan.category]

    def indices(self, rows: Records, there: Bools | None = None) -> Lists:
        """Return the elements of values that buffers hold, or that allocations are for, if they are ``there``."""
        counts = rows["index_count"] if there is None else np.where(there, rows["index_count"], 0)
        return Lists(counts, self.plan.indices[expand_ranges(rows["first_index"], counts)[1]])

    @cached_property
    def plan_words(self) -> Int32s:
        """Number in the tables of each text of the plan."""
        return self.numbers(self.plan.texts.to_pylist())

    @property
    def heap_positions(self) -> Int64s:
        traces = self.plan.events["trace"]
        positions: Int64s = np.arange(len(traces)) - np.append(self.plan.traces["first_event"], 0)[traces]
        return positions

    @property
    def is_share(self) -> Bools:
        """Return whether each event of heaps shares memory."""
        is_share: Bools = self.plan.events["kind"] == SHARE_WITH
        return is_share

    @property
    def heap_kinds(self) -> Int32s:
        kinds = self.plan.events["kind"]
        return self.numbers([*KINDS, None])[np.where((kinds >= 0) & (kinds < len(KINDS)), kinds, len(KINDS))]


def _get_type_name(shape: Shape) -> str | None:
    return TYPE_NAMES[shape.element_type].lower() if 0 < shape.element_type < len(TYPE_NAMES) else None


# ---- columns of several programs

LETTERS = 1 << 30
"""Bytes that a column of lists of names may take."""
LONG_NAME = 1 << 10
"""Letters of a name in a column that takes more than a small part of ``LETTERS``."""
_SMALL_PART = 16
ABSENT = -1
"""The number of a text that is null."""
UNKNOWN = -1
"""A size that is null."""


@dataclass(frozen=True, slots=True)
class Lists:
    """``counts[i]`` of the values in row i, in order: numbers of texts or integers."""

    counts: npt.NDArray[Any]
    values: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.counts)


Values: TypeAlias = tuple[Any, Bools | None]
"""Values of a column for one program: integers, flags, numbers of texts or ``Lists``; and where they are null."""


def join_column(column: Column, parts: Sequence[Values], words: pa.Array) -> pa.Array:
    """Return the column of all parts, in order. ``words``: texts by number."""
    nulls = None if parts[0][1] is None else np.concatenate([null for _, null in parts])
    if isinstance(column.type, pa.ListType):
        return _join_lists(column, [values for values, _ in parts], nulls, words)
    values = np.concatenate([values for values, _ in parts])
    if isinstance(column.type, pa.DictionaryType):
        is_used = np.zeros(len(words) + 1, bool)
        is_used[values] = True  # nulls mark the last place
        is_used[-1] = False
        place, count = np.cumsum(is_used) - 1, int(is_used.sum())
        indices = np.where(values < 0, 0, place[values]).astype(get_index_dtype(count))
        texts = words.take(pa.array(np.flatnonzero(is_used)))
        return pa.DictionaryArray.from_arrays(pa.array(indices, mask=values < 0), texts)
    return pa.array(values.astype(column.type.to_pandas_dtype(), copy=False), mask=nulls)


def _join_lists(column: Column, parts: Sequence[Lists], nulls: Bools | None, words: pa.Array) -> pa.ListArray:
    values = np.concatenate([part.values for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    offsets = np.append(np.int32(0), np.cumsum(counts, dtype=np.int32))
    if column.type.value_type == pa.string():
        inner = _fit_words(words, values).take(pa.array(np.where(values < 0, 0, values), mask=values < 0))
    else:
        inner = pa.array(values, column.type.value_type)
    mask = None if nulls is None else pa.array(nulls)
    return pa.ListArray.from_arrays(pa.array(offsets), inner, column.type, mask=mask)


def _fit_words(words: pa.Array, numbers: npt.NDArray[Any]) -> pa.Array:
    """Return the texts as strings, long ones cut where the column would take much room: a damaged program of a few
    bytes can repeat a name of megabytes."""
    import pyarrow.compute as pc  # few sessions show programs

    lengths = np.append(np.asarray(pc.binary_length(words), np.int64), 0)
    if lengths[numbers].sum() > LETTERS // _SMALL_PART:
        room = max(LETTERS // (4 * len(numbers)), 1)
        if np.minimum(lengths, 4 * LONG_NAME)[numbers].sum() <= LETTERS:
            room = max(room, LONG_NAME)
        words = pc.utf8_slice_codeunits(words, 0, min(room, LONG_NAME))
    return words if words.type == pa.string() else words.cast(pa.string())
