"""Clock cycles of elementwise operators, as XLA's GPU cost model has measured them on sm_86, for whichever device."""

from __future__ import annotations

DEFAULT_CYCLES = 3

_CYCLES = {
    "add": "F64 97, C128 97",
    "subtract": "F64 97, C128 97",
    "multiply": "F64 97, C128 270",
    "divide": "S8 370, S16 367, S32 306, S64 918, U8 306, U16 302, U32 115, U64 838, F64 2016, C64 687, C128 7941",
    "power": "S8 392, S16 396, S64 601, U8 388, U16 399, U64 604, F16 975, F32 925, F64 5511, C64 3351, C128 18205",
    "exponential": "F16 108, F32 86, F64 1652, C64 1360, C128 4028",
    "exponential-minus-one": "F16 396, F32 381, F64 1900, C64 1400, C128 4161",
    "log": "F16 266, F32 244, F64 608, C64 950, C128 7599",
    "log-plus-one": "F16 284, F32 262, F64 2073, C64 842, C128 6962",
    "logistic": "F16 226, F32 176, F64 2412",
    "tanh": "F16 212, F32 190, F64 1609, C128 9939",
    "sqrt": "F16 97, F32 75, F64 986, C64 3193, C128 15606",
    "rsqrt": "F16 97, F32 75, F64 698, C64 2383, C128 11318",
    "cbrt": "F16 925, F32 867, F64 6339",
    "sine": "F32 662, F64 1789, C128 5878",
    "cosine": "F16 691, F32 662, F64 1717, C128 6613",
    "atan2": "F16 482, F32 486, F64 3747, C64 5353, C128 39027",
}


def _parsed() -> dict[tuple[str, str], int]:
    pairs = ((opcode, pair.split()) for opcode, row in _CYCLES.items() for pair in row.split(", "))
    return {(opcode, kind): int(cycles) for opcode, (kind, cycles) in pairs}


CYCLES = _parsed()


def cycles(opcode: str, element_type: str) -> int:
    """Cycles for one element of a type, such as F32."""
    return CYCLES.get((opcode, element_type), DEFAULT_CYCLES)
