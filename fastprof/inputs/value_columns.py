"""Values of the fields of many messages, as columns: texts, each stored once, repeated integers, maps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fastprof._native.transcribing import span_ints, span_texts
from fastprof.inputs.message_columns import Buffer, MessageColumns, Spans
from fastprof.schema.array_types import Int32s, Int64s, UInt64s
from fastprof.schema.arrow_columns import texts_of


class Texts(NamedTuple):
    """``words[number[i]]`` is text i; -1: there is none. Words are in the order in which they are first met."""

    number: Int32s
    words: pa.Array

    def array(self) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(self.number, mask=self.number < 0), self.words)

    def rank(self) -> Int64s:
        """Of each word, its place in the order of bytes."""
        return places(byte_order(self.words))


def byte_order(words: pa.Array) -> Int64s:
    """The places of distinct words in the order of their bytes."""
    import pyarrow.compute as pc  # late: most captures do without

    return np.asarray(pc.sort_indices(words)).astype(np.int64)


def places(order: Int64s) -> Int64s:
    """Where an order of all numbers below its length has each of them."""
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def texts_at(data: Buffer, at: Spans, doing: str) -> Texts:
    """Invalid UTF-8 is replaced."""
    numbers, offsets, content = span_texts(data, _joined(at), True, doing)
    return Texts(np.frombuffer(numbers, np.int32), texts_of(offsets, content))


def bytes_at(data: Buffer, at: Spans, doing: str) -> tuple[Int32s, Spans, bytes]:
    """Bytes, each once: the number of each span, -1: it is absent, and where each lies in the bytes returned."""
    numbers, offsets, content = span_texts(data, _joined(at), False, doing)
    bounds = np.frombuffer(offsets, np.int64)
    return np.frombuffer(numbers, np.int32), Spans(bounds[:-1], np.diff(bounds)), content


def integers_at(data: Buffer, columns: MessageColumns, number: int, doing: str) -> tuple[Int64s, Int64s]:
    """All values of a repeated integer field of each message, packed or not, in order: messages and values."""
    owner, value, length = columns.values(number)
    packed = length >= 0
    if not packed.any():
        return owner, value.view(np.int64)
    spans = Spans(value[packed].view(np.int64), length[packed])
    ends, unpacked = span_ints(data, _joined(spans), doing)
    counts = np.ones(len(owner), np.int64)
    counts[packed] = np.diff(np.frombuffer(ends, np.int64), prepend=0)
    found = np.empty(int(counts.sum()), np.int64)
    is_unpacked = np.repeat(packed, counts)
    found[is_unpacked] = np.frombuffer(unpacked, np.int64)
    found[~is_unpacked] = value[~packed].view(np.int64)
    return np.repeat(owner, counts), found


def _joined(at: Spans) -> UInt64s:
    spans = np.empty((len(at.offset), 2), np.uint64)
    spans[:, 0], spans[:, 1] = at.offset, at.length.view(np.uint64)
    return spans.reshape(-1)


def by_key(owner: Int64s, key: Int64s) -> Int64s:
    """The order of entries of maps by ``owner`` and ``key``: of several with one key the last, as protobuf has it."""
    step, rise = np.diff(owner), np.diff(key)
    if ((step > 0) | ((step == 0) & (rise > 0))).all():
        return np.arange(len(owner))
    order = np.lexsort((key, owner))
    is_last = np.ones(len(order), bool)
    is_last[:-1] = (np.diff(owner[order]) != 0) | (np.diff(key[order]) != 0)
    return order[is_last]


def ends_of(owner: Int64s, count: int) -> Int64s:
    """For values in the order of their ``count`` owners: 0, and where those of each end."""
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=ends[1:])
    return ends
