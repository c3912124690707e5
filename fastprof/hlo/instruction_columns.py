"""The instructions of a program as columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.errors import CaptureError
from fastprof.hlo.category import category
from fastprof.hlo.layout import array_of
from fastprof.hlo.message import Message
from fastprof.hlo.module import HAS_BACKEND_CONFIG, HAS_REPLICA_GROUPS, HAS_SHARDING, HloModule
from fastprof.hlo.shapes import OPAQUE, TOKEN, TYPE_NAMES, Shape
from fastprof.hlo.table_columns import ABSENT, Lists, Numbers, TableTexts, Values, ranges
from fastprof.hlo.text.program import program_of
from fastprof.hlo.text.sharding_text import replica_groups_text, sharding_text
from fastprof.schema.array_types import Int32s

_TEXTS = (
    *("name", "opcode", "fusion_kind", "custom_call_target", "op_name", "op_type", "deduplicated_name"),
    "scheduling_name",
)
_PLACES = {"line": "source_line", "end_line": "source_end_line", "column": "source_column"}
_PLACES |= {"end_column": "source_end_column"}
"""Of a frame, and of an instruction."""


def instruction_columns(module: HloModule, words: Int32s, texts: TableTexts) -> dict[str, Values]:
    """The columns of hlo_instructions, except the program's. ``words``: the number in ``texts`` of each module text."""
    rows = module.instructions
    computations = module.computations[rows["computation"]]
    columns: dict[str, Values] = {name: words[rows[name]] for name in _TEXTS}
    columns |= {
        "computation": words[computations["name"]],
        "instruction_id": Numbers(rows["id"]),
        "category": _categories(module, texts),
        "is_entry": Numbers(rows["computation"] == module.entry),
        "is_root": Numbers(computations["root"] == np.arange(len(rows))),
        "schedule_position": _schedule(module),
        "operands": _names(rows["operand_count"], module.operands, words[rows["name"]]),
        "called_computations": _names(rows["call_count"], module.calls, words[module.computations["name"]]),
        "parameter_number": Numbers(rows["parameter_number"], _of_opcode(module, "parameter")),
        "tuple_index": Numbers(rows["tuple_index"], _of_opcode(module, "get-tuple-element")),
        "channel_id": Numbers(rows["channel_id"], rows["channel_id"] != 0),
    }
    return (
        columns | _shape_columns(module, texts) | _rare_columns(module, texts) | _source_columns(module, words, texts)
    )


def _of_opcode(module: HloModule, opcode: str) -> npt.NDArray[np.bool_]:
    is_opcode: npt.NDArray[np.bool_] = module.instructions["opcode"] == module.texts.index(opcode).as_py()
    return is_opcode


def _names(counts: npt.NDArray[Any], targets: Int32s, names: Int32s) -> Lists:
    """The names of the rows that instructions refer to; operands and calls lie in the order of instructions."""
    return Lists(counts, np.append(names, np.int32(ABSENT))[targets])


def _categories(module: HloModule, texts: TableTexts) -> Int32s:
    """Looked up for each convolution; otherwise once per opcode and kind of fusion."""
    rows = module.instructions
    kinds, first, place = np.unique(rows[["opcode", "fusion_kind"]], return_index=True, return_inverse=True)
    numbers = texts.all_numbers([category(module.instruction(int(row))) for row in first])
    found = numbers[place] if len(kinds) else np.zeros(0, np.int32)
    for row in np.flatnonzero(_of_opcode(module, "convolution")).tolist():
        found[row] = texts.number(category(module.instruction(row)))
    return found


def _schedule(module: HloModule) -> Numbers:
    """The place of each instruction in the schedule of its computation."""
    scheduled = module.computations[module.computations["scheduled_count"] > 0]
    first, count = scheduled["first_scheduled"], scheduled["scheduled_count"]
    rows = module.scheduled[ranges(first, count)]
    place = ranges(np.zeros(len(count), np.int64), count)
    position = np.full(len(module), -1, np.int64)
    position[rows[rows >= 0]] = place[rows >= 0]
    return Numbers(position, position >= 0)


# ---- shapes: instructions share them


def _shape_columns(module: HloModule, texts: TableTexts) -> dict[str, Values]:
    used, place = np.unique(module.instructions["shape"], return_inverse=True)
    rows: list[int] = used.tolist()
    shapes = [module.shape(row) for row in rows]
    texts_of = program_of(module)
    written = [texts_of.shape_text(row) if row >= 0 else None for row in rows]
    types = [_type_name(shape) if row >= 0 else None for row, shape in zip(rows, shapes, strict=True)]
    is_array = np.array([_is_array(shape) for shape in shapes], bool)[place]
    sizes = np.array([len(shape.dimensions) if _is_array(shape) else 0 for shape in shapes], np.int64)[place]
    flat = module.shapes["first_dimension"][module.instructions["shape"]] if len(module.shapes) else sizes
    laid_out = np.array([_is_array(shape) and shape.has_layout for shape in shapes], bool)[place]
    space = np.array([shape.memory_space for shape in shapes], np.int64)[place]
    padded = [_padded(module, shape) for shape in shapes]
    plain = [None if one is None else shape.leaf_bytes for one, shape in zip(padded, shapes, strict=True)]
    return {
        "shape": texts.all_numbers(written)[place],
        "element_type": texts.all_numbers(types)[place],
        "dimensions": Lists(sizes, module.dimensions[ranges(flat, sizes)], is_array),
        "tile": texts.all_numbers([_tile_text(shape) for shape in shapes])[place],
        "memory_space": Numbers(space, laid_out),
        "shape_bytes": _perhaps(plain, place),
        "padded_bytes": _perhaps(padded, place),
    }


def _type_name(shape: Shape) -> str | None:
    return TYPE_NAMES[shape.element_type].lower() if 0 < shape.element_type < len(TYPE_NAMES) else None


def _is_array(shape: Shape) -> bool:
    return not shape.is_tuple and shape.element_type not in (0, TOKEN, OPAQUE)


def _tile_text(shape: Shape) -> str:
    return "".join(f"({','.join('*' if size < 0 else str(size) for size in tile)})" for tile in shape.tiles)


def _padded(module: HloModule, shape: Shape) -> int | None:
    """Bytes of all arrays in a shape, in full tiles; None: unknown."""
    total = 0
    try:
        for _, leaf in shape.leaves():
            if leaf.element_type in (TOKEN, OPAQUE):
                continue
            size = array_of(leaf, module.data).padded_bytes if _is_array(leaf) and leaf.has_layout else None
            if size is None:
                return None
            total += size
    except CaptureError:  # a damaged layout
        return None
    return total


def _perhaps(values: list[int | None], place: npt.NDArray[np.intp]) -> Numbers:
    most = 2**63 - 1
    numbers = np.array([0 if value is None else min(value, most) for value in values], np.int64)
    return Numbers(numbers[place], np.array([value is not None for value in values], bool)[place])


# ---- what few instructions have


def _rare_columns(module: HloModule, texts: TableTexts) -> dict[str, Values]:
    def backend_config(proto: memoryview) -> str:
        return bytes(proto).decode("utf-8", "replace")

    def replica_groups(proto: memoryview) -> str:
        return replica_groups_text(Message(proto))

    return {
        "sharding": _column_of(module, texts, HAS_SHARDING, "sharding_", sharding_text),
        "backend_config": _column_of(module, texts, HAS_BACKEND_CONFIG, "backend_config_", backend_config),
        "replica_groups": _column_of(module, texts, HAS_REPLICA_GROUPS, "", replica_groups),
    }


def _column_of(
    module: HloModule, texts: TableTexts, flag: int, prefix: str, text: Callable[[memoryview], str]
) -> Int32s:
    """Texts of the bytes that instructions with a flag refer to; equal bytes are read once. Null where they do not
    decode."""
    found = np.full(len(module), ABSENT, np.int32)
    rows = np.flatnonzero(module.instructions["flags"] & flag)
    places = module.instructions[[f"{prefix}offset", f"{prefix}length"]][rows].tolist()
    known: dict[bytes, int] = {}
    for row, (at, length) in zip(rows.tolist(), places, strict=True):
        data = module.data[at : at + length]
        key = bytes(data)
        if key not in known:
            try:
                known[key] = texts.number(text(data))
            except CaptureError:
                known[key] = ABSENT
        found[row] = known[key]
    return found


# ---- where instructions come from


def _source_columns(module: HloModule, words: Int32s, texts: TableTexts) -> dict[str, Values]:
    """By their metadata, else by their innermost frame, as ``HloModule.source_of``."""
    rows = module.instructions
    frame = rows["stack_frame_id"]
    there = (frame > 0) & (frame <= len(module.frames))
    by_frame = there & (rows["source_file"] == 0)
    innermost = module.frames[frame[by_frame] - 1]
    file = words[rows["source_file"]]
    file[by_frame] = words[innermost["file"]]
    columns: dict[str, Values] = {"source_file": file}
    for inner, outer in _PLACES.items():
        values = rows[outer].astype(np.int64)
        values[by_frame] = innermost[inner]
        columns[outer] = Numbers(values, values > 0)
    used, place = np.unique(np.where(there, frame, 0), return_inverse=True)
    stacks = [module.stack_frames.text(int(one)) for one in used]
    return columns | {"stack": texts.all_numbers(stacks)[place]}
