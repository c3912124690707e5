"""What a collective moves, and among which devices.

Bytes follow from the text of its instruction. They are those that bandwidth is usually stated for, as in the tests of
NCCL: the entire buffer of an all-reduce, what an all-gather has gathered, what a reduce-scatter is given, what one
device sends in other operations. What passes through each device's links, its bus bandwidth, is that times

    all-reduce                                  2 (n - 1) / n
    all-gather, reduce-scatter, all-to-all        (n - 1) / n
    others                                      1

of n devices that take part (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

Groups are of numbers that the program gives its devices: replicas and partitions. The program's device assignment has
the number of each device, by its id. The id of a TPU core is its number in the system (core_details); of a GPU it is
its ordinal, if the program has no other devices than those of the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.kinds import Kind
from fastprof.derive.steps.core_details import core_details
from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule
from fastprof.hlo.shape_reader import Expression, Leaf, Value, read_expression
from fastprof.tables.host_events import Plane

MOST_DEVICES: Final = 1 << 20
"""Groups of more devices are not listed."""
_MOST_DIMENSIONS: Final = 32
"""Of the arrays of devices that texts cut into groups: arrays of NumPy have no more."""

_GROUPS: Final = re.compile(r"\breplica_groups=(\{(?:\{[\d, ]*\},? ?)*\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")
_PAIRS: Final = re.compile(r"\bsource_target_pairs=(\{(?:\{\d+,\d+\},?)*\})")
_GLOBAL: Final = "use_global_device_ids=true"
_IOTA: Final = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LIST: Final = re.compile(r"\{([\d, ]*)\}")
_ASSIGNMENT: Final = 15
_REPLICA_COUNT, _PARTITION_COUNT, _PARTITION, _DEVICE_IDS = 1, 2, 3, 1
"""Fields of HloModuleProto and DeviceAssignmentProto."""
_SHARED: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)


@dataclass(frozen=True, slots=True)
class Payload:
    """``bytes``: None: unknown. ``groups``: as the text has them, "": none; ``size``: devices of the largest group,
    None: not recorded, as if all take part; ``count``: of groups, None likewise."""

    bytes: int | None = None
    groups: str = ""
    size: int | None = None
    count: int | None = None
    is_global: bool = False

    def bus_factor(self, kind: Kind) -> float | None:
        """Bytes that pass the links of each device for each byte of ``bytes``; None: the number of devices is not
        known."""
        if kind is not Kind.ALL_REDUCE and kind not in _SHARED:
            return 1.0
        if not self.size:
            return None
        return (2 if kind is Kind.ALL_REDUCE else 1) * (self.size - 1) / self.size


NO_PAYLOAD: Final = Payload()


def payload(kind: Kind, text: str) -> Payload:
    """What an instruction moves that is all of an operation or its start."""
    read = read_expression(text)
    if read is None:
        return NO_PAYLOAD
    size = _bytes(kind, read)
    pairs = _PAIRS.search(read.attributes)
    listed = _GROUPS.search(read.attributes)
    groups = listed[1] if listed else pairs[1] if pairs else ""
    count, largest = _extent(listed[1]) if listed else (None, None)
    return Payload(size, groups, largest, count, _GLOBAL in read.attributes)


# ---- bytes


def _bytes(kind: Kind, read: Expression) -> int | None:
    sent = read.opcode in ("send", "outfeed") or kind is Kind.REDUCE_SCATTER
    if sent and read.opcode != "async-start" and read.operands:
        operands = read.operands[:1] if kind is not Kind.REDUCE_SCATTER else read.operands
        return _sum([leaf for operand in operands for leaf in operand.leaves])
    if read.opcode in ("recv", "infeed"):
        return _sum(_element(read.output, 0))
    if read.opcode.endswith("-start") and read.opcode != "all-reduce-start":
        return _sum(_element(read.output, 0 if read.opcode == "copy-start" or kind is Kind.REDUCE_SCATTER else 1))
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
        return _of_iota(*(_numbers(one or "") for one in iota.groups()))
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


# ---- which devices


def device_ids(planes: Sequence[Plane]) -> list[int | None]:
    """Ids of TPU cores and GPUs; None: unknown, as are all if several are equal."""
    ids: list[int | None] = []
    for plane in planes:
        details = core_details(plane.stats) if plane.kind == "TPU" else None
        ids.append(plane.ordinal if plane.kind == "GPU" else details.global_core_id if details is not None else None)
    known = [one for one in ids if one is not None]
    return ids if len(set(known)) == len(known) else [None] * len(ids)


def teams(module: HloModule, payload: Payload, ids: Sequence[int | None], *, all_here: bool) -> list[int | None]:
    """The group of each device, None: unknown. ``all_here``: ids count only if the program has no other devices."""
    try:
        numbers = _assigned(module, payload)
    except CaptureError:  # a damaged assignment
        numbers = None
    groups = groups_of(payload.groups)
    if numbers is None or groups is None or (all_here and not set(numbers) <= set(ids)):
        return [None] * len(ids)
    team_of = {number: place for place, group in enumerate(groups) for number in group.tolist()}
    return [None if one is None else team_of.get(numbers.get(one, -1)) for one in ids]


def _assigned(module: HloModule, payload: Payload) -> Mapping[int, int] | None:
    """The number of each device in the groups, by its id. Global ids count the partitions of a replica, then of the
    next; others count replicas. None: there is no assignment, or groups are of replicas within partitions."""
    assignment = Message(module.proto).message(_ASSIGNMENT)
    replicas, partitions = assignment.integer(_REPLICA_COUNT), assignment.integer(_PARTITION_COUNT)
    if not 0 < replicas * partitions <= MOST_DEVICES or not (payload.is_global or partitions == 1):
        return None
    number: dict[int, int] = {}
    for partition, devices in enumerate(assignment.messages(_PARTITION)):
        for replica, device in enumerate(devices.integers(_DEVICE_IDS)):
            number[device] = replica * partitions + partition
    return number if len(number) == replicas * partitions else None
