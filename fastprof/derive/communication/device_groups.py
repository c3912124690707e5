"""Which devices take part in a collective together, where it has several groups of them.

Groups are of numbers that the program gives its devices: replicas and partitions. Which device has which is in the
program's device assignment, by the id of the device. That is, of a TPU core, its number in the system (core_details)
and, of a GPU, its ordinal, if the program has no other devices than those of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fastprof.derive.communication.payload import MOST_DEVICES, Payload, groups_of
from fastprof.derive.steps.core_details import core_details
from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule
from fastprof.tables.host_events import Plane

_ASSIGNMENT: Final = 15
_REPLICA_COUNT, _PARTITION_COUNT, _PARTITION, _DEVICE_IDS = 1, 2, 3, 1

Numbers = Mapping[int, int]


def device_ids(planes: Sequence[Plane]) -> list[int | None]:
    """Of TPU cores and GPUs; None: not known, as of all where several would have the same."""
    found: list[int | None] = []
    for plane in planes:
        details = core_details(plane.stats) if plane.kind == "TPU" else None
        found.append(plane.ordinal if plane.kind == "GPU" else details.global_core_id if details is not None else None)
    known = [one for one in found if one is not None]
    return found if len(set(known)) == len(known) else [None] * len(found)


def teams(module: HloModule, payload: Payload, ids: Sequence[int | None], *, all_here: bool) -> list[int | None]:
    """The group of each device, None: it is not known. ``all_here``: ids are those of devices only if the program has
    no others."""
    try:
        numbers = _numbers(module, payload)
    except CaptureError:  # a damaged assignment is none
        numbers = None
    groups = groups_of(payload.groups)
    if numbers is None or groups is None or (all_here and not set(numbers) <= set(ids)):
        return [None] * len(ids)
    team_of = {number: place for place, group in enumerate(groups) for number in group.tolist()}
    return [None if one is None else team_of.get(numbers.get(one, -1)) for one in ids]


def _numbers(module: HloModule, payload: Payload) -> Numbers | None:
    """The number of each device in the groups, by its id. Numbers count the partitions of a replica, then of the next,
    where ids are global; else replicas. None: there is no assignment, or groups are of replicas within partitions."""
    assignment = Message(module.proto).message(_ASSIGNMENT)
    replicas, partitions = assignment.integer(_REPLICA_COUNT), assignment.integer(_PARTITION_COUNT)
    if not 0 < replicas * partitions <= MOST_DEVICES or not (payload.is_global or partitions == 1):
        return None
    found: dict[int, int] = {}
    for partition, devices in enumerate(assignment.messages(_PARTITION)):
        for replica, device in enumerate(devices.integers(_DEVICE_IDS)):
            found[device] = replica * partitions + partition
    return found if len(found) == replicas * partitions else None
