"""What kernels and copies of GPUs communicate: by the category of the instruction, else by their name."""

from __future__ import annotations

from typing import Final

from fastprof.derive.devices.communication_kinds import OF_CATEGORY, Kind, split
from fastprof.derive.ops.kernel_names import copy_category
from fastprof.derive.steps.gpu_step_events import type_of_name
from fastprof.derive.steps.step_time import EventType

_LIBRARY: Final = (
    (("allreduce", "all_reduce"), Kind.ALL_REDUCE),
    (("reducescatter", "reduce_scatter"), Kind.REDUCE_SCATTER),
    (("allgather", "all_gather"), Kind.ALL_GATHER),
    (("alltoall", "all_to_all"), Kind.ALL_TO_ALL),
    (("broadcast",), Kind.BROADCAST),
    (("sendrecv", "send_recv"), Kind.SEND_RECV),
    (("reduce",), Kind.REDUCE),
)
"""What names of collective libraries' kernels contain, in lower case."""
_OTHER_LIBRARIES: Final = ("nvshmem", "rocshmem")
_COPIES: Final = {
    "copy (H2D)": Kind.HOST_TO_DEVICE_COPY,
    "copy (D2H)": Kind.DEVICE_TO_HOST_COPY,
    "copy (D2D)": Kind.LOCAL_COPY,
    "copy (P2P)": Kind.PEER_COPY,
    "copy": Kind.LOCAL_COPY,
}
"""By category of device ops; copies that do not record their direction are within the device."""


def kind_of_kernel(name: str, category: str) -> Kind | None:
    """What a kernel or copy of a GPU is; None: it computes. ``category``: of its op, "" without one: if the name of a
    copy does not have its direction, that of its launch may."""
    base = split(category)[0]
    known = OF_CATEGORY.get(base)
    is_collective = type_of_name(name) == EventType.DEVICE_COLLECTIVES
    if known is None and (is_collective or name.lower().startswith(_OTHER_LIBRARIES)):
        return _of_library(name)
    way = category if category.startswith("copy (") else copy_category(name)
    return known or _COPIES.get(way)


def kind_of_call(name: str) -> Kind:
    """What a call of a library of collectives runs: ``nccl:all_reduce``, ``c10d::allgather_``."""
    lowered = name.lower().rpartition(":")[2]
    return Kind.SEND_RECV if lowered.startswith(("send", "recv")) else _of_library(lowered)


def _of_library(name: str) -> Kind:
    lowered = name.lower()
    return next((kind for texts, kind in _LIBRARY if any(text in lowered for text in texts)), Kind.OTHER_COLLECTIVE)
