"""The memory profile in words: leaks, fragmentation, churn, exhaustion, requests, and why there may be nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fastprof.derive.memory.alive import REASONS
from fastprof.derive.memory.host_memory import AboutHost
from fastprof.derive.memory.memory_cases import MOST_ALLOCATORS, Case, HostCases, Worst
from fastprof.wording.quantities import counted, moment_text

SMALL_SHARE: Final = 0.01
"""Peaks below this share of the largest peak of all hosts are not reported."""
MOST_OPS: Final = 3
"""Leaking ops in remarks; the table has the others."""

NOT_RECORDED: Final = "the capture has no events MemoryAllocation or MemoryDeallocation"
NO_THREADS: Final = "the capture has no threads of hosts, plane /host:CPU, where allocators write events"
_LEVEL: Final = (
    "at host_tracer_level 2, the default, or above (tf.profiler.experimental.ProfilerOptions(host_tracer_level=2), "
    "jax.profiler.ProfileOptions().host_tracer_level = 2)"
)
_HOW: Final = {
    "GPU": f"GPU allocators of TensorFlow and JAX write them {_LEVEL}, if memory comes from the BFC allocator: "
    "not with TF_GPU_ALLOCATOR=cuda_malloc_async, nor with XLA_PYTHON_CLIENT_ALLOCATOR=platform or cuda_async. An "
    "allocation or free must happen while the profiler runs.",
    "TPU": f"The runtime of TPUs writes them {_LEVEL}, as the allocations of the "
    "program happen: profile its start, or a step that allocates.",
    "CPU_ONLY": "Allocators of CPUs write none, unless TensorFlow runs with TF_CPU_ALLOCATOR_USE_BFC=true in its "
    f"environment and the profiler {_LEVEL}. JAX has no such allocator for CPUs.",
}


_OF_TORCH: Final = (
    "the capture has no events of PyTorch's allocators: record them with torch.profiler.profile(profile_memory=True)."
)


_OF_RUNS: Final = (
    "the file has no records of allocators. The RunMetadata of a run with trace_level=RunOptions.FULL_TRACE has them."
)


Remark = tuple[str, str]
"""Severity, as notices have it, and a sentence."""


def none_there(hosts: Sequence[AboutHost]) -> Remark:
    """Why there is nothing, and what to switch on."""
    if any(host.of_torch for host in hosts):
        return "info", f"No memory profile: {_OF_TORCH}"
    if any(host.of_runs for host in hosts):
        return "info", f"No memory profile: {_OF_RUNS}"
    kinds = {host.hardware for host in hosts} or {"CPU_ONLY"}
    kind = next(kind for kind in _HOW if kind in kinds)
    if not any(host.has_host_plane for host in hosts):
        how = "" if kind == "CPU_ONLY" else f" {_HOW[kind]}"
        return "info", f"No memory profile: {NO_THREADS}.{how}"
    return "info", f"No memory profile: {NOT_RECORDED}. {_HOW[kind]}"


def remarks(hosts: Sequence[tuple[AboutHost, HostCases]], at_ps: int | None) -> Iterator[Remark]:
    """What is worth saying, what to do about first."""
    least = SMALL_SHARE * max((cases.peak_bytes for _, cases in hosts), default=0)
    names = [about.host if len(hosts) > 1 else None for about, _ in hosts]
    every = list(zip(names, (cases for _, cases in hosts), strict=True))
    yield from _leaks(every, least)
    yield from _worst("recommendation", [(name, cases.exhausted) for name, cases in every])
    yield from _worst("recommendation", [(name, cases.kept_out) for name, cases in every])
    yield from _outside([about for about, _ in hosts], at_ps)
    yield from _requests(every)
    for parts in zip(*(cases.of_peaks for _, cases in every), strict=True):
        yield from _worst("info", list(zip(names, parts, strict=True)), least)
    yield from _worst("info", [(name, cases.churn) for name, cases in every])
    yield from _lost(sum(cases.lost for _, cases in every))
    yield from _inexact([cases.reasons for _, cases in every])
    yield from _growing([(name, cases.growing) for name, cases in every])


Named = Sequence[tuple[str | None, HostCases]]
"""By host, its name, None: there is only one."""


def _worst(severity: str, hosts: Sequence[tuple[str | None, Worst]], least: float = 0) -> Iterator[Remark]:
    """The heaviest case, and how many others there are. ``least``: the weight of a case that counts."""
    some = [(name, worst.case) for name, worst in hosts if worst.case is not None and worst.case.weight >= least]
    if some:
        name, case = max(some, key=lambda one: one[1].weight)  # of equal ones the first
        count = sum(weight >= least for _, worst in hosts for weight in worst.weights)
        yield severity, case.text(name) + _others(count - 1)


def _others(count: int) -> str:
    return f" The same goes for {counted(count, 'other allocator', 'other allocators')}." if count else ""


def _leaks(hosts: Named, least: float) -> Iterator[Remark]:
    """An op that leaks on several allocators is reported once; on small allocators only if it fills them."""
    leaks = [
        (name, case) for name, cases in hosts for case in cases.leaks if case.peak_bytes >= least or case.until_full
    ]
    by_op: dict[str, list[tuple[str | None, Case]]] = {}
    for name, case in sorted(leaks, key=lambda one: -one[1].weight):
        by_op.setdefault(case.op, []).append((name, case))
    for some in list(by_op.values())[:MOST_OPS]:
        name, case = some[0]
        yield "recommendation", f"{case.text(name)}{_others(len(some) - 1)} See the table growth."


def _outside(hosts: Sequence[AboutHost], at_ps: int | None) -> Iterator[Remark]:
    if at_ps is None:
        return
    outside = [host for host in hosts if not host.begin_ps <= at_ps <= host.end_ps]
    if outside:
        first = outside[0]
        of = f" of {counted(len(outside), 'host', 'hosts')}" if len(hosts) > 1 else ""
        yield (
            "warning",
            f"The time asked for, {moment_text(at_ps)}, is outside of the capture{of}: "
            f"{first.host} was captured from {moment_text(first.begin_ps)} to {moment_text(first.end_ps)}.",
        )


def _requests(hosts: Named) -> Iterator[Remark]:
    """Whether a request of the size of --request would have fitted, in the allocators with the largest peaks."""
    some = [(name, case) for name, cases in hosts for case in cases.requests]
    for name, case in sorted(some, key=lambda one: -one[1].peak_bytes)[:MOST_ALLOCATORS]:
        yield "info", case.text(name)
    count = sum(cases.request_count for _, cases in hosts)
    if count > MOST_ALLOCATORS:
        yield "info", f"The table request has {counted(count - MOST_ALLOCATORS, 'more allocator', 'more allocators')}."


def _lost(lost: int) -> Iterator[Remark]:
    if lost:
        of = "1 allocation or free has" if lost == 1 else f"{lost:,} allocations and frees have"
        yield (
            "info",
            f"{of} no counterpart, though the address was used again: the capture lost events, or their order, so "
            "some lifetimes and owners of memory are not known.",
        )


def _inexact(reasons: Sequence[Sequence[int]]) -> Iterator[Remark]:
    """Peaks that are known only in part."""
    for reason, count in zip(REASONS, map(sum, zip(*reasons, strict=True)), strict=True):
        if reason is not None and count:
            which = counted(count, "allocator", "allocators")
            yield "info", f"What is alive at the peak of {which} does not add up to the memory in use: {reason}."


def _growing(hosts: Sequence[tuple[str | None, Worst]]) -> Iterator[Remark]:
    some = [(name, worst.case) for name, worst in hosts if worst.case is not None]
    if some:
        name, case = max(some, key=lambda one: one[1].weight)
        count = sum(len(worst.weights) for _, worst in hosts)
        many, taken = counted(count, "allocator takes", "allocators take"), case.text(name) if case.before else ""
        yield (
            "info",
            f"{many} more memory from the device as it is needed{taken}. Fragmentation is of what is taken, so how "
            "large the largest free chunk is, and how much is too small, is known within bounds.",
        )
