"""Columns in little memory: of the narrowest type that holds them, and compressed where they are seldom read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.schema.value_classes import dataclass

Column = npt.NDArray[Any]
_CODEC: Final = "zstd"


def narrowed(values: Column) -> Column:
    """The same integers, of the narrowest signed type that holds all."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Compressed:
    """Columns by name, and texts. ``size``: of all before they were compressed; ``layout``: of each column its name,
    type and shape."""

    data: bytes
    size: int
    layout: tuple[tuple[str, str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Column], texts: Sequence[str]) -> Compressed:
        narrow = {name: column if column.dtype == np.bool_ else narrowed(column) for name, column in columns.items()}
        data = b"".join([*(column.tobytes() for column in narrow.values()), json.dumps(texts).encode()])
        layout = tuple((name, column.dtype.str, column.shape) for name, column in narrow.items())
        return cls(pa.compress(data, codec=_CODEC, asbytes=True), len(data), layout)

    def taken_out(self) -> tuple[dict[str, Column], list[str]]:
        """The columns, whose integers are int64, and the texts."""
        data = pa.decompress(self.data, self.size, codec=_CODEC, asbytes=True)
        columns: dict[str, Column] = {}
        at = 0
        for name, kind, shape in self.layout:
            one = np.frombuffer(data, kind, int(np.prod(shape)), at).reshape(shape)
            at += one.nbytes
            columns[name] = one if one.dtype == np.bool_ else one.astype(np.int64)
        return columns, json.loads(data[at:])
