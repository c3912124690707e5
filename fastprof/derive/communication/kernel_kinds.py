"""What kernels and copies of GPUs communicate: by the category of the instruction, else by their name."""

from __future__ import annotations

from typing import Final

from fastprof.derive.devices.collective_kernels import kind_in_words, kind_of_collective
from fastprof.derive.devices.communication_kinds import OF_CATEGORY, Kind, split
from fastprof.derive.ops.kernel_names import copy_category

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
    if known is None and (collective := kind_of_collective(name)) is not None:
        return collective
    way = category if category.startswith("copy (") else copy_category(name)
    return known or _COPIES.get(way)


def kind_of_call(name: str) -> Kind:
    """What a call of a library of collectives runs: ``nccl:all_reduce``, ``c10d::allgather_``."""
    lowered = name.lower().rpartition(":")[2]
    return Kind.SEND_RECV if lowered.startswith(("send", "recv")) else kind_in_words(lowered)
