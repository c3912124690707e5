"""Builders of Arrow columns for reports: typed values, and text with few distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def typed(values: Any, kind: pa.DataType) -> pa.Array:
    """Values as an array of this type. Avoids a cast if it can: the first cast imports a module, which takes 30 ms."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return array if array.type == kind else array.cast(kind)


_FEW: Final = 4096


def few_taken(texts: pa.Array, rows: npt.NDArray[Any]) -> pa.Array:
    """These rows of an array of texts. If they are few, without ``take``, which imports a module of 13 MB."""
    if len(rows) > _FEW:
        return texts.take(pa.array(rows))
    return pa.array([texts[row].as_py() for row in rows.tolist()], texts.type)


def texts_of(offsets: bytes, data: bytes) -> pa.Array:
    """Texts as Arrow strings, from int64 offsets and bytes; large ones only where they pass 2 GiB."""
    count = len(offsets) // 8 - 1
    if len(data) < 2**31:
        narrow = np.frombuffer(offsets, np.int64).astype(np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(narrow), pa.py_buffer(data))
    return pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def texts(values: Sequence[str | None], at: npt.NDArray[Any]) -> pa.DictionaryArray:
    """``values[at[i]]`` in row i; None becomes null. The dictionary holds each text once."""
    distinct = dict.fromkeys(values)
    distinct.pop(None, None)
    place: dict[str | None, int] = dict(zip(distinct, range(len(distinct)), strict=True))
    number = np.fromiter(map((place | {None: -1}).__getitem__, values), np.int32, len(values))
    rows = number[at] if len(number) else np.zeros(0, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(rows, mask=rows < 0), pa.array(list(distinct), pa.string()))


def shares(part: npt.NDArray[Any], whole: npt.NDArray[Any] | float) -> pa.Array:
    """``part / whole``; null where the whole is 0."""
    wholes = np.broadcast_to(np.asarray(float(whole) if isinstance(whole, int) else whole), part.shape)
    return pa.array(np.divide(part, wholes, out=np.zeros(len(part)), where=wholes != 0), mask=wholes == 0)
