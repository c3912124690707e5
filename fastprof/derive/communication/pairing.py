"""Events that belong together: starts with their ends, and rows of equal keys."""

from __future__ import annotations

import numpy as np

from fastprof.schema.array_types import Bools, Int64s


def before_each(key: Int64s, time: Int64s, begins: Bools) -> Int64s:
    """Of each row that does not begin anything the row that does: the latest one of its key, unless another row that
    does not is between them; -1: there is none."""
    order = np.lexsort((time, key))
    after, before = order[1:], order[:-1]
    pairs = ~begins[after] & begins[before] & (key[after] == key[before])
    found = np.full(len(key), -1, np.int64)
    found[after[pairs]] = before[pairs]
    return found


def places_of(known: tuple[Int64s, Int64s], wanted: tuple[Int64s, Int64s]) -> Int64s:
    """For each wanted pair of numbers the first row of it among the known ones; -1: there is none."""
    if not len(known[0]) or not len(wanted[0]):
        return np.full(len(wanted[0]), -1, np.int64)
    first, second = (np.concatenate(pair) for pair in zip(known, wanted, strict=True))
    order = np.lexsort((second, first))  # stable: of equal pairs those that are known come first
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (first[order[1:]] != first[order[:-1]]) | (second[order[1:]] != second[order[:-1]])
    heads = order[np.flatnonzero(fresh)][np.cumsum(fresh) - 1]
    found = np.empty(len(order), np.int64)
    found[order] = np.where(heads < len(known[0]), heads, -1)
    return found[len(known[0]) :]
