"""Communication ops and kernels: their kinds, and whether they are an entire operation, its start or its end."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from fastprof.derive.devices.op_names import drop_serial
from fastprof.hlo.shapes import Expression, read_expression
from fastprof.wording.patterns import compile_late

BETWEEN_DEVICES: Final = "between devices"
WITH_HOST: Final = "with the host"
WITHIN_DEVICE: Final = "within the device"
SCOPES: Final = (BETWEEN_DEVICES, WITH_HOST, WITHIN_DEVICE)

HOST_SPACE: Final = 5
"""The memory space of an HLO layout that is the host's memory: S(5)."""

WHOLE, START, DONE = range(3)


class CommunicationKind(Enum):
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


KINDS: Final = tuple(CommunicationKind)
"""Kinds by number."""

OF_CATEGORY: Final = {
    "all-reduce": CommunicationKind.ALL_REDUCE,
    "all-reduce fusion": CommunicationKind.ALL_REDUCE,
    "all-reduce-scatter fusion": CommunicationKind.REDUCE_SCATTER,
    "reduce-scatter": CommunicationKind.REDUCE_SCATTER,
    "all-gather": CommunicationKind.ALL_GATHER,
    "all-to-all": CommunicationKind.ALL_TO_ALL,
    "ragged-all-to-all": CommunicationKind.ALL_TO_ALL,
    "collective-broadcast": CommunicationKind.BROADCAST,
    "collective-permute": CommunicationKind.COLLECTIVE_PERMUTE,
    "send": CommunicationKind.SEND_RECV,
    "recv": CommunicationKind.SEND_RECV,
    "host send": CommunicationKind.HOST_SEND_RECV,
    "host recv": CommunicationKind.HOST_SEND_RECV,
    "infeed": CommunicationKind.INFEED,
    "sparsecorev0 infeed": CommunicationKind.INFEED,
    "outfeed": CommunicationKind.OUTFEED,
    "sparsecorev0 outfeed": CommunicationKind.OUTFEED,
}
_STARTS: Final = frozenset({"send", "recv", "host send", "host recv"})
"""Their ends are other ops, though their names have no ``-start``."""

_MOVES: Final = frozenset({"copy", "slice", "dynamic-slice", "dynamic-update-slice"})
"""Opcodes that, asynchronous, move data by DMA."""

_ENDINGS: Final = (("-start", START), ("-done", DONE), ("-update", WHOLE))


class CommunicationOp(NamedTuple):
    """An op that communicates: its kind, and whether it is all of the operation, its start or its end."""

    kind: CommunicationKind
    role: int


def find_communication(category: str, text: str, name: str) -> CommunicationOp | None:
    """Return what an HLO instruction is, or None if it computes. ``category``, ``text`` (``%name = shape opcode(…``, or
    "" if unknown) and ``name`` are its own."""
    base, role = split_opcode(category or _drop_name_serial(name))
    known = OF_CATEGORY.get(base)
    if known is not None:
        return CommunicationOp(known, START if role == WHOLE and base in _STARTS else role)
    if base not in ("async", "copy") or role == WHOLE:
        return None if base not in _MOVES or role == WHOLE else CommunicationOp(CommunicationKind.LOCAL_COPY, role)
    read = read_expression(text)
    return CommunicationOp(_find_async_kind(base, read, name), role)


def split_opcode(opcode: str) -> tuple[str, int]:
    """Split a category or opcode into the word without its ending, and what the ending says: WHOLE, START or DONE."""
    for ending, role in _ENDINGS:
        if opcode.endswith(ending):
            return opcode.removesuffix(ending), role
    return opcode, WHOLE


def _drop_name_serial(name: str) -> str:
    return drop_serial(name.removeprefix("%"))


def _find_async_kind(base: str, read: Expression | None, name: str) -> CommunicationKind:
    """Return the kind of an asynchronous op. ``base``: copy, or async; the text, else the name, has the opcode."""
    opcode = split_opcode(read.opcode)[0] if read is not None else base
    if opcode == "async":
        opcode = split_opcode(_drop_name_serial(name))[0]
    if opcode in OF_CATEGORY:
        return OF_CATEGORY[opcode]
    if opcode in _MOVES:
        return _find_copy_kind(read)
    return CommunicationKind.OFFLOAD


def _find_copy_kind(read: Expression | None) -> CommunicationKind:
    """Classify a copy by the memory spaces that it reads and writes. The tuple that stands for a copy has what is
    written first, that of other moves their operands."""
    if read is None:
        return CommunicationKind.LOCAL_COPY
    done = read.opcode.endswith("-done")
    leaves = read.operands[0].leaves if done and read.operands else read.output.leaves
    at_host = {leaf.index[0]: leaf.array.memory_space == HOST_SPACE for leaf in reversed(leaves) if leaf.index}
    first, second = at_host.get(0), at_host.get(1)
    if first is None or second is None or first == second:
        return CommunicationKind.LOCAL_COPY
    to_host = first if read.opcode.startswith("copy") else second
    return CommunicationKind.DEVICE_TO_HOST_COPY if to_host else CommunicationKind.HOST_TO_DEVICE_COPY


_KINDS: Final = (
    ("all_?reduce|cross_device_reduce|userbuffers.*_sum_inplace", CommunicationKind.ALL_REDUCE),
    ("reduce_?scatter", CommunicationKind.REDUCE_SCATTER),
    ("all_?gather", CommunicationKind.ALL_GATHER),
    ("all_?(?:to|2)_?all", CommunicationKind.ALL_TO_ALL),
    ("broadcast", CommunicationKind.BROADCAST),
    ("send_?recv", CommunicationKind.SEND_RECV),
    ("reduce", CommunicationKind.REDUCE),
)
"""Patterns of function words, by kind; the first match counts."""

_ONLY_COLLECTIVES: Final = compile_late(
    "nccl|rccl|msccl|(?:one)?ccl(?:_|$)|hccl|hcom|nvshmem|rocshmem|ishmem|k?userbuffers"
)
"""How functions or namespaces of libraries begin that only communicate: NCCL, RCCL, MSCCL and MSCCL++, oneCCL, HCCL of
Ascend and of Gaudi, shared memory of several devices, user buffers of Transformer Engine."""

_EXPERTS: Final = frozenset(
    ("ep", "deep_ep", "hybrid_ep", "mori", "pplx", "uccl", "intranode", "internode", "internode_ll", "moe_comm",
     "nixl_ep", "mnnvl_throughput", "moe_alltoall")
)  # fmt: skip
"""Namespaces of libraries that send tokens to experts on other devices and fetch the results, among them DeepEP, MORI,
Perplexity's kernels, UCCL and TensorRT-LLM."""
_TO_EXPERTS: Final = compile_late("(?:^|_)(?:dispatch(?!_layout)|combine|notify)")
_EXPERTS_IN_WORDS: Final = compile_late("A2A|(?:^|_)a2a(?:_|$)|^Ep(?:Dispatch|Combine)")

_AMONG_DEVICES: Final = compile_late(
    "(?<!block_)(?<!warp_)(?<!wave_)(?<!wavefront_)(?<!group_)(?<!thread_)(?<!cta_)(?<!cluster_)(?<!lane_)(?<!quad_)"
    "(?:all_?reduce|all_?gather|all_?(?:to|2)_?all|(?:^|_)reduce_?scatter|cross_device|multimem)"
)
_MAY: Final = compile_late(
    "ccl|hcom|shmem|userbuffers|reduce|gather|all.{0,4}all|scatter|cross_device|multimem|symmetric|dispatch|combine|"
    "notify|a2a",
    re.IGNORECASE,
)
"""A quick test that every collective passes, and few other kernels: a name without any of these words is compute."""
_FUSED: Final = compile_late("triton_[a-z]{2,3}_fused_")
"""Prefix of the names of kernels that Inductor fuses. Names list ops, also ops that prepare or await collectives."""
_WORD_ENDS: Final = compile_late(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=2[A-Za-z])|(?<=l2)")
_MANGLED: Final = compile_late(r"_ZN?[KVr]*L?(?=\d)")
_LENGTH: Final = compile_late(r"\d{1,3}")
_MOST: Final = 4_096
"""Characters that are looked at: names of templates may have many thousands."""


@lru_cache(1 << 15)
def find_collective_kind(kernel: str) -> CommunicationKind | None:
    """Return the communication kind of a kernel, or None if the kernel computes."""
    if not _MAY.search(kernel, 0, _MOST) or _FUSED.match(kernel):
        return None
    *path, function = _split_kernel_name(kernel[:_MOST])
    words = _split_words(function)
    within = "/".join(path).lower()
    if _ONLY_COLLECTIVES.match(words) or any(map(_ONLY_COLLECTIVES.match, within.split("/"))):
        return parse_kind(words)
    if not _EXPERTS.isdisjoint(within.split("/")) and _TO_EXPERTS.search(words):
        return CommunicationKind.ALL_TO_ALL
    if _EXPERTS_IN_WORDS.search(function):
        return CommunicationKind.ALL_TO_ALL
    if _AMONG_DEVICES.search(words) or "symmetric_memory" in within:
        return parse_kind(words)
    return None


def parse_kind(name: str) -> CommunicationKind:
    """Return the kind that a collective's name contains."""
    words = _split_words(name)
    return next((kind for pattern, kind in _KINDS if re.search(pattern, words)), CommunicationKind.OTHER_COLLECTIVE)


def _split_words(name: str) -> str:
    """Return the name in lower case, with ``_`` between words."""
    return _WORD_ENDS.sub("_", name).replace("__", "_").lower()


def _split_kernel_name(kernel: str) -> list[str]:
    """Return the namespaces and the function of a kernel name."""
    if begin := _MANGLED.match(kernel):
        at = begin.end()
        parts = []
        while length := _LENGTH.match(kernel, at):
            at = length.end() + int(length[0])
            parts.append(kernel[length.end() : at])
            if kernel[at : at + 1] == "L":  # it has internal linkage
                at += 1
        return parts
    plain, depth = [], 0
    for character in kernel.replace("(anonymous namespace)", "").removesuffix(".kd"):
        if character == "<":
            depth += 1
        elif character == ">":
            depth = max(depth - 1, 0)
        elif depth == 0:
            if character == "(":
                break
            plain.append(character)
    return "".join(plain).strip().rpartition(" ")[2].split("::")
