"""An oracle: compiled programs as rows of the table hlo_instructions, read slowly, with no code of fastprof.

rows_of(data)     an XSpace's bytes -> the rows, as dictionaries, of the columns in COLUMNS
"""

from __future__ import annotations

import re
from typing import Any

from slow_reader import _fields, parse, signed

COLUMNS = (
    *("program_id", "module", "computation", "instruction_id", "name", "opcode", "is_entry", "is_root"),
    *("schedule_position", "element_type", "dimensions", "tile", "memory_space", "operands", "called_computations"),
    *("fusion_kind", "custom_call_target", "channel_id", "op_name", "op_type", "source_file", "source_line"),
    *("source_column", "stack", "deduplicated_name", "scheduling_name"),
)
_NAMES = (
    "? pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token c128 f8e5m2 f8e4m3fn s4 u4 "
    "f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1 f4e2m1fn f8e8m0fnu"
)
_TYPES = _NAMES.split()
Message = dict[int, list[Any]]


def rows_of(data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    seen: set[int] = set()
    for plane in parse(data).planes:
        if plane.name != "/host:metadata":
            continue
        names = {key: one.name for key, one in plane.stat_metadata.items()}
        for entry in plane.event_metadata.values():
            proto = next((s.value for s in entry.stats if names.get(s.metadata_id) in ("Hlo Proto", "HLO Proto")), None)
            if proto is None:
                continue
            numbered = re.fullmatch(r".*\((\d+)\)", entry.name)
            program = signed(int(numbered[1])) if numbered else entry.id
            if program not in seen:
                seen.add(program)
                rows += [{"program_id": program, "module": entry.name, **row} for row in _program(proto)]
    return rows


def _message(data: bytes) -> Message:
    found: Message = {}
    for (number, _), value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _numbers(values: list[Any]) -> list[int]:
    """Of a repeated int64, packed or not."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(signed(value))
            continue
        number = shift = 0
        for byte in value:
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                found.append(signed(number))
                number = shift = 0
    return found


def _number(one: Message, field: int) -> int:
    return signed(one[field][-1]) if field in one else 0


def _text(one: Message, field: int) -> str | None:
    """None: empty, or not there."""
    return one[field][-1].decode() or None if field in one else None


def _program(proto: bytes) -> list[dict[str, Any]]:
    module = _message(_message(proto)[1][-1])
    computations = [_message(one) for one in module.get(3, [])]
    called = {_number(one, 5): _text(one, 1) for one in computations}
    instructions = [(c, _message(one)) for c in computations for one in c.get(2, [])]
    names = {_number(one, 35): _text(one, 1) for _, one in instructions}
    positions = _positions(module)
    index = _message(module[17][-1]) if 17 in module else {}
    rows = []
    for inside, one in instructions:
        id = _number(one, 35)
        origin = _message(one[7][-1]) if 7 in one else {}
        frames = _stack(index, _number(origin, 15))
        file, line, column = _text(origin, 3), _number(origin, 4), _number(origin, 18)
        if file is None and frames:
            file, line, column = frames[0]
        rows.append({
            "computation": _text(inside, 1), "instruction_id": id, "name": _text(one, 1), "opcode": _text(one, 2),
            "is_entry": _number(inside, 5) == _number(module, 6), "is_root": _number(inside, 6) == id,
            "schedule_position": positions.get(id), **_shape(_message(one[3][-1])),
            "operands": [names.get(other) for other in _numbers(one.get(36, []))],
            "called_computations": [called.get(other) for other in _numbers(one.get(38, []))],
            "fusion_kind": _text(one, 11), "custom_call_target": _text(one, 28),
            "channel_id": _number(one, 26) or None, "op_name": _text(origin, 2), "op_type": _text(origin, 1),
            "source_file": file, "source_line": line or None, "source_column": column or None,
            "stack": "".join(f"{f}:{n}:{c}\n" for f, n, c in frames) or None,
            "deduplicated_name": _text(origin, 12), "scheduling_name": _text(origin, 16),
        })  # fmt: skip
    return rows


def _positions(module: Message) -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in _message(module[7][-1]).get(1, []) if 7 in module else ():
        ids = _numbers(_message(_message(entry)[2][-1]).get(1, []))
        found |= {id: place for place, id in enumerate(ids)}
    return found


def _shape(shape: Message) -> dict[str, Any]:
    kind = _number(shape, 2)
    is_array = _TYPES[kind] not in ("tuple", "token", "opaque", "?")
    layout = _message(shape[5][-1]) if 5 in shape else {}
    tiles = [_numbers(_message(tile).get(1, [])) for tile in layout.get(6, [])]
    return {
        "element_type": _TYPES[kind],
        "dimensions": _numbers(shape.get(3, [])) if is_array else None,
        "tile": "".join(f"({','.join(map(str, tile))})" for tile in tiles) or None,
        "memory_space": _number(layout, 8) if is_array and 5 in shape else None,
    }


def _stack(index: Message, frame: int) -> list[tuple[str, int, int]]:
    """File, line and column of a frame, and of those around it."""
    found = []
    while frame:
        one = _message(index[4][frame - 1])
        place = _message(index[3][_number(one, 1) - 1])
        found.append((index[1][_number(place, 1) - 1].decode(), _number(place, 3), _number(place, 4)))
        frame = _number(one, 2)
    return found
