"""Kernels that communicate, by the names that libraries of collectives give them.

A name counts by its parts: return type, templates and arguments are removed, and mangled names are taken apart.

    void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*, …)
         ^^^^  ^^^^^^^^^^^^^^^^^^^^^^^^^^
         path  function: cross, device, reduce, …

All kernels of libraries that only communicate are collectives. Kernels of other libraries are collectives if the words
of their function name one, unless it is among threads of one device, as in ``block_all_reduce``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from fastprof.derive.devices.communication_kinds import Kind
from fastprof.wording.patterns import pattern_of

_KINDS: Final = (
    ("all_?reduce|cross_device_reduce|userbuffers.*_sum_inplace", Kind.ALL_REDUCE),
    ("reduce_?scatter", Kind.REDUCE_SCATTER),
    ("all_?gather", Kind.ALL_GATHER),
    ("all_?(?:to|2)_?all", Kind.ALL_TO_ALL),
    ("broadcast", Kind.BROADCAST),
    ("send_?recv", Kind.SEND_RECV),
    ("reduce", Kind.REDUCE),
)
"""Patterns of function words, by kind; the first match counts."""

_ONLY_COLLECTIVES: Final = pattern_of(
    "nccl|rccl|msccl|(?:one)?ccl(?:_|$)|hccl|hcom|nvshmem|rocshmem|ishmem|k?userbuffers"
)
"""How functions or namespaces of libraries begin that only communicate: NCCL, RCCL, MSCCL and MSCCL++, oneCCL, HCCL of
Ascend and of Gaudi, shared memory of several devices, user buffers of Transformer Engine."""

_EXPERTS: Final = frozenset(
    ("ep", "deep_ep", "hybrid_ep", "mori", "pplx", "uccl", "intranode", "internode", "internode_ll", "moe_comm",
     "mnnvl_throughput", "moe_alltoall")
)  # fmt: skip
"""Namespaces of libraries that send tokens to experts on other devices and fetch the results, among them DeepEP, MORI,
Perplexity's kernels, UCCL and TensorRT-LLM."""
_TO_EXPERTS: Final = pattern_of("(?:^|_)(?:dispatch(?!_layout)|combine|notify)")
_EXPERTS_IN_WORDS: Final = pattern_of("A2A|(?:^|_)a2a(?:_|$)|^Ep(?:Dispatch|Combine)")

_AMONG_DEVICES: Final = pattern_of(
    "(?<!block_)(?<!warp_)(?<!wave_)(?<!wavefront_)(?<!group_)(?<!thread_)(?<!cta_)(?<!cluster_)(?<!lane_)(?<!quad_)"
    "(?:all_?reduce|all_?gather|all_?(?:to|2)_?all|(?:^|_)reduce_?scatter|cross_device|multimem)"
)
_MAY: Final = pattern_of(
    "ccl|hcom|shmem|userbuffers|reduce|gather|all.{0,4}all|scatter|cross_device|multimem|symmetric|dispatch|combine|"
    "notify|a2a",
    re.IGNORECASE,
)
"""A quick test that every collective passes, and few other kernels."""
_WORD_ENDS: Final = pattern_of(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=2[A-Za-z])|(?<=l2)")
_MANGLED: Final = pattern_of(r"_ZN?[KVr]*L?(?=\d)")
_LENGTH: Final = pattern_of(r"\d{1,3}")
_MOST: Final = 4_096
"""Characters that are looked at: names of templates may have many thousands."""


@lru_cache(1 << 15)
def kind_of_collective(kernel: str) -> Kind | None:
    """Return the communication kind of a kernel, or None if the kernel computes."""
    if not _MAY.search(kernel, 0, _MOST):
        return None
    *path, function = _path(kernel[:_MOST])
    words = _words(function)
    within = "/".join(path).lower()
    if _ONLY_COLLECTIVES.match(words) or any(map(_ONLY_COLLECTIVES.match, within.split("/"))):
        return kind_in_words(words)
    if not _EXPERTS.isdisjoint(within.split("/")) and _TO_EXPERTS.search(words):
        return Kind.ALL_TO_ALL
    if _EXPERTS_IN_WORDS.search(function):
        return Kind.ALL_TO_ALL
    if _AMONG_DEVICES.search(words) or "symmetric_memory" in within:
        return kind_in_words(words)
    return None


def kind_in_words(name: str) -> Kind:
    """Return the kind that a collective's name contains."""
    words = _words(name)
    return next((kind for pattern, kind in _KINDS if re.search(pattern, words)), Kind.OTHER_COLLECTIVE)


def _words(name: str) -> str:
    """Return the name in lower case, with ``_`` between words."""
    return _WORD_ENDS.sub("_", name).replace("__", "_").lower()


def _path(kernel: str) -> list[str]:
    """Return the namespaces and the function of a kernel name."""
    if begin := _MANGLED.match(kernel):
        return _demangled(kernel, begin.end())
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


def _demangled(kernel: str, at: int) -> list[str]:
    """Return the namespaces and the function of a mangled C++ name; the first length is at ``at``."""
    parts = []
    while length := _LENGTH.match(kernel, at):
        at = length.end() + int(length[0])
        parts.append(kernel[length.end() : at])
        if kernel[at : at + 1] == "L":  # it has internal linkage
            at += 1
    return parts
