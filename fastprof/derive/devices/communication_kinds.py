"""Which ops communicate, their kinds, and whether they are an entire operation, its start or its end.

The kind of a TPU op follows from its category, such as ``all-reduce`` or ``all-gather-start``; of asynchronous ops in
other categories from its instruction. On GPUs it follows from the category of a kernel's instruction, else from the
name of the kernel or copy.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from fastprof.derive.devices.op_names import without_serial
from fastprof.hlo.shape_reader import Expression, read_expression

BETWEEN_DEVICES: Final = "between devices"
WITH_HOST: Final = "with the host"
WITHIN_DEVICE: Final = "within the device"
SCOPES: Final = (BETWEEN_DEVICES, WITH_HOST, WITHIN_DEVICE)

HOST_SPACE: Final = 5
"""The memory space of an HLO layout that is the host's memory: S(5)."""

WHOLE, START, DONE = range(3)


class Kind(Enum):
    """Kinds of communication, with their titles. If several are exposed at once, the first is blamed. ``meets``: those
    that take part wait for each other, so that nobody is done before the last has come."""

    ALL_REDUCE = "all-reduce", BETWEEN_DEVICES, True
    REDUCE_SCATTER = "reduce-scatter", BETWEEN_DEVICES, True
    ALL_GATHER = "all-gather", BETWEEN_DEVICES, True
    ALL_TO_ALL = "all-to-all", BETWEEN_DEVICES, True
    BROADCAST = "broadcast", BETWEEN_DEVICES
    REDUCE = "reduce", BETWEEN_DEVICES
    OTHER_COLLECTIVE = "other collective", BETWEEN_DEVICES
    COLLECTIVE_PERMUTE = "collective-permute", BETWEEN_DEVICES
    SEND_RECV = "send and recv", BETWEEN_DEVICES
    PEER_COPY = "copy between devices", BETWEEN_DEVICES
    HOST_SEND_RECV = "host send and recv", WITH_HOST
    INFEED = "infeed", WITH_HOST
    OUTFEED = "outfeed", WITH_HOST
    HOST_TO_DEVICE_COPY = "copy host to device", WITH_HOST
    DEVICE_TO_HOST_COPY = "copy device to host", WITH_HOST
    OFFLOAD = "offload", WITHIN_DEVICE
    LOCAL_COPY = "copy within device", WITHIN_DEVICE

    def __init__(self, title: str, scope: str, meets: bool = False) -> None:
        self.title = title
        self.scope = scope
        self.meets = meets
        self.number = len(type(self).__members__)


KINDS: Final = tuple(Kind)
"""By number."""

OF_CATEGORY: Final = {
    "all-reduce": Kind.ALL_REDUCE,
    "all-reduce fusion": Kind.ALL_REDUCE,
    "all-reduce-scatter fusion": Kind.REDUCE_SCATTER,
    "reduce-scatter": Kind.REDUCE_SCATTER,
    "all-gather": Kind.ALL_GATHER,
    "all-to-all": Kind.ALL_TO_ALL,
    "ragged-all-to-all": Kind.ALL_TO_ALL,
    "collective-broadcast": Kind.BROADCAST,
    "collective-permute": Kind.COLLECTIVE_PERMUTE,
    "send": Kind.SEND_RECV,
    "recv": Kind.SEND_RECV,
    "host send": Kind.HOST_SEND_RECV,
    "host recv": Kind.HOST_SEND_RECV,
    "infeed": Kind.INFEED,
    "sparsecorev0 infeed": Kind.INFEED,
    "outfeed": Kind.OUTFEED,
    "sparsecorev0 outfeed": Kind.OUTFEED,
}
_STARTS: Final = frozenset({"send", "recv", "host send", "host recv"})
"""Their ends are other ops, though their names have no ``-start``."""

_MOVES: Final = frozenset({"copy", "slice", "dynamic-slice", "dynamic-update-slice"})
"""Opcodes that, asynchronous, move data by DMA."""

_ENDINGS: Final = (("-start", START), ("-done", DONE), ("-update", WHOLE))


class Part(NamedTuple):
    """An op that communicates: its kind, and whether it is all of the operation, its start or its end."""

    kind: Kind
    role: int


def kind_of(category: str, text: str, name: str) -> Part | None:
    """What an HLO instruction is, given its category, its text (``%name = shape opcode(…``; "": unknown) and its name;
    None: it computes."""
    base, role = split(category or _without_serial(name))
    known = OF_CATEGORY.get(base)
    if known is not None:
        return Part(known, START if role == WHOLE and base in _STARTS else role)
    if base not in ("async", "copy") or role == WHOLE:
        return None if base not in _MOVES or role == WHOLE else Part(Kind.LOCAL_COPY, role)
    read = read_expression(text)
    return Part(_of_asynchronous(base, read, name), role)


def split(opcode: str) -> tuple[str, int]:
    """A category or opcode without its ending, and what the ending says: WHOLE, START or DONE."""
    for ending, role in _ENDINGS:
        if opcode.endswith(ending):
            return opcode.removesuffix(ending), role
    return opcode, WHOLE


def _without_serial(name: str) -> str:
    return without_serial(name.removeprefix("%"))


def _of_asynchronous(base: str, read: Expression | None, name: str) -> Kind:
    """``base``: copy, or async; the text, else the name, has the opcode."""
    opcode = split(read.opcode)[0] if read is not None else base
    if opcode == "async":
        opcode = split(_without_serial(name))[0]
    if opcode in OF_CATEGORY:
        return OF_CATEGORY[opcode]
    if opcode in _MOVES:
        return _of_copy(read)
    return Kind.OFFLOAD


def _of_copy(read: Expression | None) -> Kind:
    """By the memory spaces of what is read and what is written. The tuple that stands for a copy has what is written
    first, that of other moves their operands."""
    if read is None:
        return Kind.LOCAL_COPY
    done = read.opcode.endswith("-done")
    leaves = read.operands[0].leaves if done and read.operands else read.output.leaves
    at_host = {leaf.index[0]: leaf.array.memory_space == HOST_SPACE for leaf in reversed(leaves) if leaf.index}
    first, second = at_host.get(0), at_host.get(1)
    if first is None or second is None or first == second:
        return Kind.LOCAL_COPY
    to_host = first if read.opcode.startswith("copy") else second
    return Kind.DEVICE_TO_HOST_COPY if to_host else Kind.HOST_TO_DEVICE_COPY
