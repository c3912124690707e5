"""The compiled programs of a session as tables: modules, computations, instructions, their costs and their memory.

Rows join events by ``program_id``, instructions also by ``name``, which events call ``hlo_op`` and TPUs
``display_name``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastprof.decode.import_log import ImportLog
from fastprof.errors import CaptureError
from fastprof.hlo.buffers import CATEGORIES, KINDS, SHARE_WITH, BufferAssignment
from fastprof.hlo.instruction_columns import instruction_columns
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import UNKNOWN, ProgramMemory
from fastprof.hlo.programs import Program
from fastprof.hlo.table_columns import ABSENT, Lists, Numbers, TableTexts, Values, ranges, tables_of
from fastprof.schema.array_types import Int32s
from fastprof.schema.tables import TABLES

if TYPE_CHECKING:
    from fastprof.hlo.work import Cost

_CONTAINERS = ("call", "while", "conditional")
_FLAGS = {
    "is_thread_local": "thread_local",
    "is_entry_parameter": "entry_parameter",
    "may_be_output": "live_out",
    "is_tuple": "tuple",
    "is_constant": "constant",
}
_IN_PARTS = ("-start", "-update", "-done")
"""Suffixes of opcodes of asynchronous instructions."""


class Listed:
    """A program of a host, and what its rows are built from. ``module``: None where it does not decode, which is
    logged."""

    def __init__(self, host: str, program: Program, log: ImportLog, texts: TableTexts) -> None:
        self.host = host
        self.program = program
        self.log = log
        self.texts = texts
        self.module: HloModule | None = None
        self.problem = ""
        try:
            self.module = program.read(log)
        except CaptureError as error:
            self.problem = program.problem(error)

    def key(self, rows: int) -> dict[str, Values]:
        """The columns that all rows of the program share."""
        return {
            "host": np.full(rows, self.texts.number(self.host), np.int32),
            "program_id": Numbers(np.full(rows, self.program.id, np.int64)),
            "module": np.full(rows, self.texts.number(self.program.title), np.int32),
        }

    @property
    def read(self) -> HloModule:
        assert self.module is not None
        return self.module

    @cached_property
    def words(self) -> Int32s:
        """By text of the module, its number in the tables."""
        return self.texts.of_pool(*self.read.text_pool)


def module_row(listed: Listed) -> dict[str, Values]:
    module, program, texts = listed.module, listed.program, listed.texts
    there = np.array([module is not None])
    counts = (0, 0, 0) if module is None else (module.id, len(module.computations), len(module))
    entry = "" if module is None or module.entry < 0 else module.text(int(module.computations["name"][module.entry]))
    text = {
        "name": "" if module is None else module.name,
        "path": program.path,
        "entry_computation": entry,
        "problem": listed.problem,
    }
    numbers = zip(("module_id", "computation_count", "instruction_count"), counts, strict=True)
    return {
        **{name: texts.all_numbers([value]) for name, value in text.items()},
        **{name: Numbers(np.array([value], np.int64), there) for name, value in numbers},
        "embedded": Numbers(np.array([program.embedded])),
        "size_bytes": Numbers(np.array([program.length], np.int64)),
        "is_scheduled": Numbers(np.array([module is not None and module.is_scheduled]), there),
    }


def computation_rows(listed: Listed) -> dict[str, Values]:
    module, words = listed.read, listed.words
    rows = module.computations
    is_parameter = words[module.instructions["opcode"]] == listed.texts.number("parameter")
    before = np.concatenate([[0], np.cumsum(is_parameter)])
    first, last = rows["first_instruction"], rows["last_instruction"]
    names = np.append(module.instructions["name"], 0)
    return {
        "computation": words[rows["name"]],
        "computation_id": Numbers(rows["id"]),
        "is_entry": Numbers(np.arange(len(rows)) == module.entry),
        "is_fusion": Numbers(rows["is_fusion"] != 0),
        "execution_thread": words[rows["execution_thread"]],
        "root": words[np.where(rows["root"] < 0, 0, names[rows["root"]])],
        "parameter_count": Numbers(before[last] - before[first]),
        "instruction_count": Numbers((last - first).astype(np.int64)),
        "is_scheduled": Numbers(rows["scheduled_count"] >= 0),
    }


def cost_rows(listed: Listed) -> dict[str, Values]:
    """By XLA's general cost model. For instructions that run others it knows how much these move, not from where; it
    counts all bytes of an asynchronous instruction at both its start and its end, so those are null."""
    from fastprof.hlo.cost import CostModel
    from fastprof.hlo.counting import GENERAL

    module = listed.read
    costs = CostModel(module, GENERAL)
    every = [costs.cost(row) for row in range(len(module))]
    opcodes = [module.text(number) for number in module.instructions["opcode"].tolist()]
    known = np.array([one.is_known for one in every], bool)
    in_parts = np.array([opcode.endswith(_IN_PARTS) for opcode in opcodes], bool)
    has_places = np.array([_has_places(one, opcode) for one, opcode in zip(every, opcodes, strict=True)], bool)
    figures = {
        "flops": ([one.model_flops for one in every], known),
        "accessed_bytes": ([one.bytes_accessed for one in every], known & ~in_parts),
        "hbm_read_bytes": ([one.hbm_read_bytes for one in every], known & ~in_parts & has_places),
        "hbm_written_bytes": ([one.hbm_write_bytes for one in every], known & ~in_parts & has_places),
    }
    columns: dict[str, Values] = {
        name: Numbers(np.array(one, np.int64), there) for name, (one, there) in figures.items()
    }
    return columns | {"name": listed.words[module.instructions["name"]]}


def _has_places(cost: Cost, opcode: str) -> bool:
    """Whether the model knows which memory bytes move from and to."""
    known = not cost.bytes_accessed or bool(cost.hbm_read_bytes or cost.hbm_write_bytes or cost.elsewhere)
    return known and opcode not in _CONTAINERS


# ---- what programs hold in memory


def allocation_rows(listed: Listed) -> dict[str, Values]:
    """CaptureError, also of ``buffer_rows`` and ``heap_event_rows``: the assignment of buffers does not decode."""
    buffers = BufferAssignment(listed.read.data)
    rows = buffers.allocations
    is_parameter = rows["entry_parameter"] != 0
    columns: dict[str, Values] = {
        "allocation": Numbers(rows["index"]),
        "size_bytes": Numbers(rows["size"], ~buffers.odd_allocations),
        "memory_space": Numbers(rows["color"]),
        "category": listed.texts.all_numbers(CATEGORIES)[buffers.category],
        "buffer_count": Numbers(rows["assigned_count"].astype(np.int64)),
        "parameter_number": Numbers(rows["parameter_number"], is_parameter),
        "parameter_index": _lists(buffers, rows["first_index"], rows["index_count"], is_parameter),
    }
    flags: dict[str, Values] = {name: Numbers(rows[flag] != 0) for name, flag in _FLAGS.items()}
    return columns | flags | {"is_aliased": Numbers(buffers.aliased)}


def buffer_rows(listed: Listed) -> dict[str, Values]:
    memory = ProgramMemory(listed.read)
    buffers = memory.buffers
    rows = buffers.buffers
    lies = buffers.allocation_of >= 0
    allocations = np.append(buffers.allocations["index"], np.int64(0))[buffers.allocation_of]
    names = np.append(listed.words[memory.module.instructions["name"]], np.int32(ABSENT))
    return {
        "buffer": Numbers(rows["id"]),
        "instruction": names[memory.instruction],
        "element": _lists(buffers, rows["first_index"], rows["index_count"], None),
        "size_bytes": Numbers(rows["size"], ~buffers.odd_buffers),
        "unpadded_bytes": Numbers(memory.unpadded, memory.unpadded != UNKNOWN),
        "memory_space": Numbers(rows["color"]),
        "allocation": Numbers(allocations, lies),
        "offset_bytes": Numbers(buffers.offset_of, lies),
    }


def heap_event_rows(listed: Listed) -> dict[str, Values]:
    buffers, texts = BufferAssignment(listed.read.data), listed.texts
    rows = buffers.events
    words = texts.all_numbers(buffers.texts.to_pylist())
    kinds = texts.all_numbers([*KINDS, None])
    first = buffers.traces["first_event"][rows["trace"]] if len(rows) else np.zeros(0, np.int64)
    return {
        "heap": Numbers(rows["trace"].astype(np.int64)),
        "position": Numbers(np.arange(len(rows), dtype=np.int64) - first),
        "kind": kinds[np.where((rows["kind"] >= 0) & (rows["kind"] < len(KINDS)), rows["kind"], len(KINDS))],
        "buffer": Numbers(rows["buffer_id"]),
        "shared_buffer": Numbers(rows["canonical_id"], rows["kind"] == SHARE_WITH),
        "computation": words[rows["computation_name"]],
        "instruction": words[rows["instruction_name"]],
    }


def _lists(buffers: BufferAssignment, first: Int32s, count: Int32s, valid: np.ndarray | None) -> Lists:
    counts = count.astype(np.int64) if valid is None else np.where(valid, count, 0)
    return Lists(counts, buffers.indices[ranges(first, counts)], valid)


_ROWS: Mapping[str, Callable[[Listed], dict[str, Values]]] = {
    "hlo_modules": module_row,
    "hlo_computations": computation_rows,
    "hlo_instructions": lambda listed: instruction_columns(listed.read, listed.words, listed.texts),
    "hlo_costs": cost_rows,
    "hlo_allocations": allocation_rows,
    "hlo_buffers": buffer_rows,
    "hlo_heap_events": heap_event_rows,
}


def hlo_tables(names: Iterable[str], programs: Iterable[tuple[str, Program, ImportLog]]) -> dict[str, pa.Table]:
    """Tables of programs, each with its host and the log for its faults. Each program is read once."""
    texts = TableTexts()
    parts: dict[str, list[dict[str, Values]]] = {name: [] for name in names}
    for host, program, log in programs:
        listed = Listed(host, program, log, texts)
        for name in parts if listed.module is not None else parts.keys() & {"hlo_modules"}:
            try:
                columns = _ROWS[name](listed)
                parts[name].append(listed.key(_length(columns)) | columns)
            except CaptureError as error:  # a damaged assignment of buffers
                program.note(log, error)
    return {name: tables_of(TABLES[name], shares, texts) for name, shares in parts.items()}


def _length(columns: Mapping[str, Values]) -> int:
    one = next(iter(columns.values()))
    if isinstance(one, Numbers):
        return len(one.values)
    return len(one) if isinstance(one, np.ndarray) else len(one.counts)
