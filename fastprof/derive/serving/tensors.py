"""Tensors that requests and batches move between the host's layout and the device's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fastprof.derive.serving.host_rows import HostRows
from fastprof.derive.serving.requests import Batches, Requests
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import beside

MOVES = ("Linearize", "Delinearize", "TransferBufferFromDevice-FastPath")
DESCRIPTION = ("shape", "layout")

Pattern = tuple[str, ...]
"""What a request or batch moves: ``name shape layout`` of each event, sorted."""


@dataclass(frozen=True, slots=True)
class TensorMoves:
    """A pattern of each request or batch that moves tensors. ``owner``: place among the requests, or of a batch, behind
    them; ``time_ps``: of all its moves; ``pattern``: place in ``patterns``."""

    owner: Int64s
    pattern: Int64s
    time_ps: Int64s
    patterns: list[Pattern]


def find(rows: HostRows, requests: Requests, batches: Batches, group_count: int) -> TensorMoves:
    """The moves of a host. An owner is left out where the shape or layout of one of its moves is not recorded."""
    owner_of_group = np.full(group_count, -1, np.int64)
    owner_of_group[batches.group] = len(requests) + np.arange(len(batches))
    owner_of_group[requests.group] = np.arange(len(requests))
    found = rows.grouped(*MOVES)
    owner = owner_of_group[rows.group[found]]
    found, owner = found[owner >= 0], owner[owner >= 0]
    known, rank, texts = _described(rows, found)
    count = len(requests) + len(batches)
    time_ps, incomplete = np.zeros(count, np.int64), np.zeros(count, bool)
    np.add.at(time_ps, owner, np.maximum(rows.events.duration_ps[found], 0))
    incomplete[owner[~known]] = True
    keep = ~incomplete[owner]
    owner, rank = owner[keep], rank[keep]
    order = np.lexsort((rank, owner))
    owner, rank = owner[order], rank[order]
    owners, begin = np.unique(owner, return_index=True)
    bounds = [*begin.tolist(), len(owner)]
    numbers: dict[bytes, int] = {}
    pattern = [numbers.setdefault(rank[a:b].tobytes(), len(numbers)) for a, b in pairwise(bounds)]
    patterns = [tuple(texts[i] for i in np.frombuffer(key, np.int64).tolist()) for key in numbers]
    return TensorMoves(owners, np.array(pattern, np.int64), time_ps[owners], patterns)


def _described(rows: HostRows, found: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s, list[str]]:
    """Whether shape and layout of each move are known, the rank of its description, and the descriptions, sorted."""
    columns = [rows.events.meta[found].astype(np.int64)]
    known = np.ones(len(found), bool)
    for stat in DESCRIPTION:
        stat_rows, numbers = rows.events.texts(stat)
        has, number = beside(found, stat_rows, numbers)
        known &= has
        columns.append(number)
    distinct, place = np.unique(np.stack(columns, axis=1)[known], axis=0, return_inverse=True)
    texts = [
        f"{rows.events.names[meta]} {rows.events.text(shape)} {rows.events.text(layout)}"
        for meta, shape, layout in distinct.tolist()
    ]
    ordered = sorted(set(texts))
    ranks = {text: i for i, text in enumerate(ordered)}
    rank = np.zeros(len(found), np.int64)
    rank[known] = np.array([ranks[text] for text in texts], np.int64)[place.ravel()]
    return known, rank, ordered
