"""Which ops communicate, of what kind, and whether they are the whole of it, its start or its end.

The kind of a TPU op follows from its category, such as ``all-reduce`` or ``all-gather-start``; of asynchronous ops in
other categories from its instruction. On GPUs it follows from the category of a kernel's instruction, else from the
name of the kernel or copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from fastprof.derive.ops.kernel_names import copy_category
from fastprof.derive.steps.gpu_step_events import type_of_name
from fastprof.derive.steps.time_types import DEVICE_COLLECTIVES
from fastprof.hlo.shape_reader import Expression, read_expression

BETWEEN_DEVICES: Final = "between devices"
WITH_HOST: Final = "with the host"
WITHIN_DEVICE: Final = "within the device"
SCOPES: Final = (BETWEEN_DEVICES, WITH_HOST, WITHIN_DEVICE)

HOST_SPACE: Final = 5
"""The memory space of an HLO layout that is the host's memory: S(5)."""

WHOLE, START, DONE = range(3)


@dataclass(frozen=True, slots=True)
class Kind:
    """``meets``: those that take part wait for each other, so that nobody is done before the last has come."""

    number: int
    name: str
    scope: str
    meets: bool = False


_NAMES: Final = (
    ("all-reduce", BETWEEN_DEVICES, True),
    ("reduce-scatter", BETWEEN_DEVICES, True),
    ("all-gather", BETWEEN_DEVICES, True),
    ("all-to-all", BETWEEN_DEVICES, True),
    ("broadcast", BETWEEN_DEVICES, False),
    ("reduce", BETWEEN_DEVICES, False),
    ("other collective", BETWEEN_DEVICES, False),
    ("collective-permute", BETWEEN_DEVICES, False),
    ("send and recv", BETWEEN_DEVICES, False),
    ("copy between devices", BETWEEN_DEVICES, False),
    ("host send and recv", WITH_HOST, False),
    ("infeed", WITH_HOST, False),
    ("outfeed", WITH_HOST, False),
    ("copy host to device", WITH_HOST, False),
    ("copy device to host", WITH_HOST, False),
    ("offload", WITHIN_DEVICE, False),
    ("copy within device", WITHIN_DEVICE, False),
)
KINDS: Final = tuple(Kind(number, *one) for number, one in enumerate(_NAMES))
"""By number, which is also their rank: of what is exposed at once the first takes the blame."""

(
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE,
    OTHER_COLLECTIVE,
    COLLECTIVE_PERMUTE,
    SEND_RECV,
    PEER_COPY,
    HOST_SEND_RECV,
    INFEED,
    OUTFEED,
    HOST_TO_DEVICE_COPY,
    DEVICE_TO_HOST_COPY,
    OFFLOAD,
    LOCAL_COPY,
) = KINDS

_BASES: Final = {
    "all-reduce": ALL_REDUCE,
    "all-reduce-scatter fusion": REDUCE_SCATTER,
    "reduce-scatter": REDUCE_SCATTER,
    "all-gather": ALL_GATHER,
    "all-to-all": ALL_TO_ALL,
    "ragged-all-to-all": ALL_TO_ALL,
    "collective-broadcast": BROADCAST,
    "collective-permute": COLLECTIVE_PERMUTE,
    "send": SEND_RECV,
    "recv": SEND_RECV,
    "host send": HOST_SEND_RECV,
    "host recv": HOST_SEND_RECV,
    "infeed": INFEED,
    "sparsecorev0 infeed": INFEED,
    "outfeed": OUTFEED,
    "sparsecorev0 outfeed": OUTFEED,
}
_STARTS: Final = frozenset({"send", "recv", "host send", "host recv"})
"""What has no end of its own where another op is its end, without ``-start`` in its name."""

_MOVES: Final = frozenset({"copy", "slice", "dynamic-slice", "dynamic-update-slice"})
"""Opcodes that, asynchronous, move data by DMA."""

_ENDINGS: Final = (("-start", START), ("-done", DONE), ("-update", WHOLE))
_SERIAL: Final = re.compile(r"(\.\d+|\.clone|\.remat\d*)+$")
_LIBRARY: Final = (
    (("allreduce", "all_reduce"), ALL_REDUCE),
    (("reducescatter", "reduce_scatter"), REDUCE_SCATTER),
    (("allgather", "all_gather"), ALL_GATHER),
    (("alltoall", "all_to_all"), ALL_TO_ALL),
    (("broadcast",), BROADCAST),
    (("sendrecv", "send_recv"), SEND_RECV),
    (("reduce",), REDUCE),
)
"""What names of collective libraries' kernels contain, in lower case."""
_OTHER_LIBRARIES: Final = ("nvshmem", "rocshmem")
_COPIES: Final = {
    "copy (H2D)": HOST_TO_DEVICE_COPY,
    "copy (D2H)": DEVICE_TO_HOST_COPY,
    "copy (D2D)": LOCAL_COPY,
    "copy (P2P)": PEER_COPY,
    "copy": LOCAL_COPY,
}
"""By category, as ops of devices have it (op_metrics/copies.py); copies that do not record their way are within."""


@dataclass(frozen=True, slots=True)
class Part:
    """An op that communicates: of what kind, and whether it is all of it, its start or its end."""

    kind: Kind
    role: int


def kind_of(category: str, text: str, name: str) -> Part | None:
    """Of an HLO instruction, given its category, its text (``%name = shape opcode(…``; "": unknown) and its name; None:
    it computes."""
    base, role = _split(category or _without_serial(name))
    known = _BASES.get(base)
    if known is not None:
        return Part(known, START if role == WHOLE and base in _STARTS else role)
    if base not in ("async", "copy") or role == WHOLE:
        return None if base not in _MOVES or role == WHOLE else Part(LOCAL_COPY, role)
    read = read_expression(text)
    return Part(_of_asynchronous(base, read, name), role)


def _split(opcode: str) -> tuple[str, int]:
    for ending, role in _ENDINGS:
        if opcode.endswith(ending):
            return opcode.removesuffix(ending), role
    return opcode, WHOLE


def _without_serial(name: str) -> str:
    return _SERIAL.sub("", name.removeprefix("%"))


def _of_asynchronous(base: str, read: Expression | None, name: str) -> Kind:
    """``base``: copy, or async of what the text says, else the name."""
    opcode = _split(read.opcode)[0] if read is not None else base
    if opcode == "async":
        opcode = _split(_without_serial(name))[0]
    if opcode in _BASES:
        return _BASES[opcode]
    if opcode in _MOVES:
        return _of_copy(read)
    return OFFLOAD


def _of_copy(read: Expression | None) -> Kind:
    """By the memory spaces of what is read and what is written. The tuple that stands for a copy has what is written
    first, that of other moves their operands."""
    if read is None:
        return LOCAL_COPY
    done = read.opcode.endswith("-done")
    leaves = read.operands[0].leaves if done and read.operands else read.output.leaves
    at_host = {leaf.index[0]: leaf.array.memory_space == HOST_SPACE for leaf in reversed(leaves) if leaf.index}
    first, second = at_host.get(0), at_host.get(1)
    if first is None or second is None or first == second:
        return LOCAL_COPY
    to_host = first if read.opcode.startswith("copy") else second
    return DEVICE_TO_HOST_COPY if to_host else HOST_TO_DEVICE_COPY


def kind_of_kernel(name: str, category: str) -> Kind | None:
    """Of what a GPU ran: ``category`` is that of its op, "" where it has none: of a copy that no op is known of, the
    launch may say the way, where the name does not. None: it computes."""
    base = _split(category)[0]
    known = _BASES.get(base)
    if known is None and (type_of_name(name) == DEVICE_COLLECTIVES or name.lower().startswith(_OTHER_LIBRARIES)):
        return _of_library(name)
    way = category if category.startswith("copy (") else copy_category(name)
    return known or _COPIES.get(way)


def _of_library(name: str) -> Kind:
    lowered = name.lower()
    return next((kind for texts, kind in _LIBRARY if any(text in lowered for text in texts)), OTHER_COLLECTIVE)
