"""What a collective moves, and among which devices: from the text of its instruction.

Bytes are those that bandwidth is usually stated for, as in the tests of NCCL: the whole buffer of an all-reduce, what
an all-gather has gathered, what a reduce-scatter is given, what one device sends in other operations. What passes
through each device's links, its bus bandwidth, is that times

    all-reduce                                  2 (n - 1) / n
    all-gather, reduce-scatter, all-to-all        (n - 1) / n
    others                                      1

of n devices that take part (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.kinds import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, Kind
from fastprof.hlo.shape_reader import Expression, Leaf, Value, read_expression

MOST_DEVICES: Final = 1 << 20
"""Groups of more devices than that are not spelled out."""
_MOST_DIMENSIONS: Final = 32
"""Of the arrays of devices that texts cut into groups: arrays of NumPy have no more."""

_GROUPS: Final = re.compile(r"\breplica_groups=(\{(?:\{[\d, ]*\},? ?)*\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")
_PAIRS: Final = re.compile(r"\bsource_target_pairs=(\{(?:\{\d+,\d+\},?)*\})")
_CHANNEL: Final = re.compile(r"\bchannel_id=(\d{1,18})\b")
_GLOBAL: Final = "use_global_device_ids=true"
_IOTA: Final = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LIST: Final = re.compile(r"\{([\d, ]*)\}")
_SHARED: Final = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)


@dataclass(frozen=True, slots=True)
class Payload:
    """``bytes``: None where the text does not say. ``groups``: as the text has them, "" where it has none; ``size``:
    devices of the largest group, None: not recorded, as where all take part; ``count``: of groups, None likewise."""

    bytes: int | None = None
    groups: str = ""
    size: int | None = None
    count: int | None = None
    channel: int | None = None
    is_global: bool = False

    def bus_factor(self, kind: Kind) -> float | None:
        """Bytes that pass the links of each device for each byte of ``bytes``; None: the number of devices is not
        known."""
        if kind is not ALL_REDUCE and kind not in _SHARED:
            return 1.0
        if not self.size:
            return None
        return (2 if kind is ALL_REDUCE else 1) * (self.size - 1) / self.size


NO_PAYLOAD: Final = Payload()


def payload(kind: Kind, text: str) -> Payload:
    """Of an instruction that is all of an operation or its start."""
    read = read_expression(text)
    if read is None:
        return NO_PAYLOAD
    size = _bytes(kind, read)
    pairs, channel = _PAIRS.search(read.attributes), _CHANNEL.search(read.attributes)
    listed = _GROUPS.search(read.attributes)
    groups = listed[1] if listed else pairs[1] if pairs else ""
    count, largest = _extent(listed[1]) if listed else (None, None)
    return Payload(size, groups, largest, count, int(channel[1]) if channel else None, _GLOBAL in read.attributes)


# ---- bytes


def _bytes(kind: Kind, read: Expression) -> int | None:
    sent = read.opcode in ("send", "outfeed") or kind is REDUCE_SCATTER
    if sent and read.opcode != "async-start" and read.operands:
        operands = read.operands[:1] if kind is not REDUCE_SCATTER else read.operands
        return _sum([leaf for operand in operands for leaf in operand.leaves])
    if read.opcode in ("recv", "infeed"):
        return _sum(_element(read.output, 0))
    if read.opcode.endswith("-start") and read.opcode != "all-reduce-start":
        return _sum(_element(read.output, 0 if read.opcode == "copy-start" or kind is REDUCE_SCATTER else 1))
    return _sum(list(read.output.leaves))


def _element(value: Value, place: int) -> list[Leaf]:
    """The arrays of an element of a tuple; of what is no tuple all."""
    return [leaf for leaf in value.leaves if not leaf.index or leaf.index[0] == place]


def _sum(leaves: list[Leaf]) -> int | None:
    sizes = [leaf.array.bytes for leaf in leaves]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


# ---- who takes part


@lru_cache(4096)
def _extent(text: str) -> tuple[int | None, int | None]:
    """How many groups there are, and the size of the largest; (None, None): of all devices there is one."""
    if iota := _IOTA.fullmatch(text):
        dimensions = _numbers(iota[1])
        is_told = len(dimensions) > 1 and prod(dimensions) <= MOST_DEVICES
        return (dimensions[0], prod(dimensions[1:])) if is_told else (None, None)
    lengths = [len(_numbers(one)) for one in _LIST.findall(text[1:-1])]
    return (len(lengths), max(lengths)) if any(lengths) else (None, None)


@lru_cache(256)
def groups_of(text: str) -> list[npt.NDArray[np.int64]] | None:
    """The devices of each group, by the number that the program gives them; None: not recorded, or too many."""
    if iota := _IOTA.fullmatch(text):
        return _of_iota(_numbers(iota[1]), _numbers(iota[2]), _numbers(iota[3] or ""))
    groups = [np.array(_numbers(one), np.int64) for one in _LIST.findall(text[1:-1])]
    return groups if groups and all(len(group) for group in groups) else None


def _of_iota(sizes: list[int], dimensions: list[int], order: list[int]) -> list[npt.NDArray[np.int64]] | None:
    """``[4,2]<=[2,4]T(1,0)``: the numbers from 0 on as an array of 2 x 4, transposed, then cut into 4 groups of 2."""
    count = prod(dimensions)
    if (
        not 0 < count <= MOST_DEVICES
        or len(dimensions) > _MOST_DIMENSIONS
        or prod(sizes) != count
        or (order and sorted(order) != list(range(len(dimensions))))
    ):
        return None
    devices = np.arange(count).reshape(dimensions).transpose(order or None).reshape(sizes[0], -1)
    return list(devices)


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.replace(" ", "").split(",") if one and len(one) < 19]
