"""Names of TensorFlow's data types, by their numbers: enum DataType of TensorFlow's types.proto."""

from __future__ import annotations

INVALID = 0
_NAMES = {
    INVALID: "INVALID",
    1: "float",
    2: "double",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    11: "qint8",
    12: "quint8",
    13: "qint32",
    14: "bfloat16",
    15: "qint16",
    16: "quint16",
    17: "uint16",
    18: "complex128",
    19: "half",
    20: "resource",
    21: "variant",
    22: "uint32",
    23: "uint64",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    26: "float8_e4m3fnuz",
    27: "float8_e4m3b11fnuz",
    28: "float8_e5m2fnuz",
    29: "int4",
    30: "uint4",
}
_REFERENCE = 100
"""Beyond it, numbers are of references to the type that is as many less."""


def data_type_text(number: int | None) -> str:
    """What TensorFlow calls the type; empty where none is recorded. Of the number 32 bits count."""
    if number is None:
        return ""
    number = (number + 2**31) % 2**32 - 2**31
    return f"{_plain(number - _REFERENCE)}_ref" if number > _REFERENCE else _plain(number)


def _plain(number: int) -> str:
    return _NAMES.get(number) or f"unknown dtype enum ({number})"
