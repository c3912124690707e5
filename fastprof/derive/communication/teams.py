"""In which of a collective's groups of devices each device takes part.

Groups are of numbers that the program gives its devices: replicas and partitions. The program's device assignment has
the number of each device, by its id. The id of a TPU core is its number in the system (core_details); of a GPU it is
its ordinal, if the program has no other devices than those of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.communication.payload import IOTA, LISTS, MOST_DEVICES, Payload, numbers
from fastprof.derive.steps.core_details import core_details
from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_events import Plane

if TYPE_CHECKING:
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.modules import Modules

DeviceIds = Sequence[int | None]
Groups = Callable[[Int64s], Int64s]
"""From numbers of devices, which are not negative, to the groups that they are in; -1: in none."""

_MOST_DIMENSIONS: Final = 32
"""Of the arrays of devices that texts cut into groups: arrays of NumPy have no more."""
_ASSIGNMENT: Final = 15
_REPLICA_COUNT, _PARTITION_COUNT, _PARTITION, _DEVICE_IDS = 1, 2, 3, 1
"""Fields of HloModuleProto and DeviceAssignmentProto."""


def device_ids(planes: Sequence[Plane]) -> DeviceIds:
    """Ids of TPU cores and GPUs; None: unknown, as are all if several are equal."""
    ids: list[int | None] = []
    for plane in planes:
        details = core_details(plane.stats) if plane.kind == "TPU" else None
        ids.append(plane.ordinal if plane.kind == "GPU" else details.global_core_id if details is not None else None)
    known = [one for one in ids if one is not None]
    return ids if len(set(known)) == len(known) else [None] * len(ids)


class Assignments:
    """The numbers that programs give to the devices of a host. ``all_here``: ids count only if the program has no other
    devices. Each assignment is read once, however many ops refer to it."""

    def __init__(self, modules: Modules, ids: DeviceIds, *, all_here: bool) -> None:
        self._modules, self._ids, self._all_here = modules, ids, all_here
        self._numbers: dict[tuple[int, bool], Mapping[int, int] | None] = {}
        self._layouts: dict[int, Int64s | None] = {}

    def teams(self, program_id: int, payload: Payload, devices: Int64s) -> Int64s:
        """The group of each of some devices, given by their places among the ids; -1: unknown."""
        key = (program_id, payload.is_global)
        if key not in self._numbers:
            self._numbers[key] = self._assigned(program_id, is_global=payload.is_global)
        known, groups = self._numbers[key], groups_of(payload.groups)
        team = np.full(len(devices), -1, np.int64)
        if known is None or groups is None:
            return team
        ids = [self._ids[place] for place in devices.tolist()]
        number = np.array([-1 if one is None else known.get(one, -1) for one in ids], np.int64)
        team[number >= 0] = groups(number[number >= 0])
        return team

    def layout(self, program_id: int) -> Int64s | None:
        """Ids of the devices of a program, by replica and partition; None: unknown."""
        if program_id not in self._layouts:
            module = self._modules.module(program_id)
            found = None if module is None else _layout(module)
            if found is not None and self._all_here and not set(found.ravel().tolist()) <= set(self._ids):
                found = None
            self._layouts[program_id] = found
        return self._layouts[program_id]

    def id_of(self, place: int) -> int | None:
        return self._ids[place]

    def _assigned(self, program_id: int, *, is_global: bool) -> Mapping[int, int] | None:
        """The number of each device in the groups, by its id. Global ids count the partitions of a replica, then of the
        next; others count replicas. None: it is unknown, or groups are of replicas within partitions."""
        found = self.layout(program_id)
        if found is None or not (is_global or found.shape[1] == 1):
            return None
        return {device: number for number, device in enumerate(found.ravel().tolist())}


def _layout(module: HloModule) -> Int64s | None:
    """None: it lacks an assignment, or that is damaged."""
    try:
        assignment = Message(module.proto).message(_ASSIGNMENT)
        replicas, partitions = assignment.integer(_REPLICA_COUNT), assignment.integer(_PARTITION_COUNT)
        if not 0 < replicas * partitions <= MOST_DEVICES:
            return None
        ids = [devices.integers(_DEVICE_IDS) for devices in assignment.messages(_PARTITION)]
    except CaptureError:
        return None
    if len(ids) != partitions or any(len(of_partition) != replicas for of_partition in ids):
        return None
    found = np.array(ids, np.int64).T
    return found if len(np.unique(found)) == found.size else None


# ---- groups


@lru_cache(256)
def groups_of(text: str) -> Groups | None:
    """The groups of a text; None: not recorded, or too many devices."""
    if iota := IOTA.fullmatch(text):
        return _of_iota(*(numbers(one or "") for one in iota.groups()))
    groups = [numbers(one) for one in LISTS.findall(text[1:-1])]
    if not groups or not all(groups):
        return None
    group_of = {number: place for place, group in enumerate(groups) for number in group}
    return lambda devices: np.array([group_of.get(one, -1) for one in devices.tolist()], np.int64)


def _of_iota(sizes: list[int], dimensions: list[int], order: list[int]) -> Groups | None:
    """``[4,2]<=[2,4]T(1,0)``: the numbers from 0 on as an array of 2 x 4, transposed, then cut into 4 groups of 2."""
    count, axes = prod(dimensions), order or list(range(len(dimensions)))
    if (
        not 0 < count <= MOST_DEVICES
        or len(dimensions) > _MOST_DIMENSIONS
        or prod(sizes) != count
        or sorted(axes) != list(range(len(dimensions)))
    ):
        return None
    size, turned = count // sizes[0], tuple(dimensions[axis] for axis in axes)

    def groups(devices: Int64s) -> Int64s:
        at = np.unravel_index(np.minimum(devices, count - 1), dimensions)
        place = np.ravel_multi_index(tuple(at[axis] for axis in axes), turned)
        return np.where(devices < count, place // size, -1)

    return groups
