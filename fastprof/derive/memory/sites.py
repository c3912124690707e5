"""What allocations are for: the op, the region of memory, the data type and the shape."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fastprof.schema.array_types import Int32s
from fastprof.wording.patterns import pattern_of

_NO_NAME = ("", "(null)")
"""What profilers write for a missing text."""
_NUMBER = pattern_of(r"(?<![A-Z0-9])[0-9]+(?![0-9A-Za-z])", re.ASCII)
"""A number at the end of a word, as in layer_12 and layer12; not those in Conv2D and ConcatV2."""


class SiteNames(NamedTuple):
    """By site, as users see them; None: not known."""

    op_name: list[str | None]
    region_type: list[str | None]
    data_type: list[str | None]
    shape: list[str | None]


@dataclass(frozen=True, eq=False)
class Sites:
    """Distinct sites, by number: texts and numbers of data types as they are recorded, None where they are not."""

    op: list[str | None]
    region: list[str | None]
    shape: list[str | None]
    data_type: list[int | None]

    def __len__(self) -> int:
        return len(self.op)

    @cached_property
    def names(self) -> SiteNames:
        types = {number: data_type_text(number) for number in set(self.data_type) - {None, INVALID}}
        named: list[str | None] = [None if number is None else types.get(number) for number in self.data_type]
        return SiteNames(_named(self.op), _named(self.region), named, _named(self.shape))

    @cached_property
    def _ops(self) -> tuple[list[str | None], Int32s]:
        place: dict[str | None, int] = {}
        number = [place.setdefault(name, len(place)) for name in self.names.op_name]
        return list(place), np.array(number, np.int32)

    @property
    def op_names(self) -> list[str | None]:
        """The distinct names of ops; None, if it is among them, for ops that are unknown."""
        return self._ops[0]

    @cached_property
    def like_names(self) -> list[str | None]:
        """``op_names``, numbers at the ends of words replaced by *."""
        return [None if name is None else _NUMBER.sub("*", name) for name in self.op_names]

    @property
    def op_number(self) -> Int32s:
        """The place of each site's op in ``op_names``."""
        return self._ops[1]


def _named(texts: Sequence[str | None]) -> list[str | None]:
    return [None if text in _NO_NAME else text for text in texts]


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
"""Larger numbers are references: to the type of the number less this."""


def data_type_text(number: int | None) -> str:
    """TensorFlow's name of the type; empty: none is recorded. Only 32 bits of the number count."""
    if number is None:
        return ""
    number = (number + 2**31) % 2**32 - 2**31
    return f"{_plain(number - _REFERENCE)}_ref" if number > _REFERENCE else _plain(number)


def _plain(number: int) -> str:
    return _NAMES.get(number) or f"unknown dtype enum ({number})"
