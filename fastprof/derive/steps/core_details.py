"""What a TPU plane says of its core: the stat ``core_details``, a small protobuf message (XProf's CoreDetails)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_FIELDS = {2: "device_ordinal", 3: "core_num", 4: "local_chip_id", 5: "global_chip_id", 6: "global_core_id"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class CoreDetails:
    """Numbers of a core: on its host, on its chip, and in the whole system; 0 where not recorded."""

    device_ordinal: int = 0
    core_num: int = 0
    local_chip_id: int = 0
    global_chip_id: int = 0
    global_core_id: int = 0


def core_details(stats: dict[str, Any]) -> CoreDetails | None:
    """From the stats of a plane; None where the plane has none, or none that can be read."""
    recorded = stats.get("core_details")
    if not isinstance(recorded, bytes | memoryview):
        return None
    try:
        return CoreDetails(**_numbers(bytes(recorded)))
    except ValueError:
        return None


def _numbers(message: bytes) -> dict[str, int]:
    """The numeric fields; of a field that comes twice the last counts. ValueError: the message is broken."""
    found: dict[str, int] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(message, at)
            if number in _FIELDS:
                found[_FIELDS[number]] = value & 0xFFFFFFFF
        elif wire_type == _BYTES:
            size, at = _varint(message, at)
            at += size
        elif wire_type in (_FIXED64, _FIXED32):
            at += 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError("a field of an unknown type")
    if at > len(message):
        raise ValueError("a field that runs past the end")
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for place in range(10):
        if at + place >= len(message):
            break
        byte = message[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number that does not end")
