"""The memory profile in words: leaks, fragmentation, churn, exhaustion, requests, and why there may be nothing."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fastprof.derive.memory.alive import REASONS
from fastprof.derive.memory.host_memory import AboutHost
from fastprof.derive.memory.memory_cases import MOST_ALLOCATORS, Case, HostCases, Worst
from fastprof.wording.quantities import counted, moment_text

SMALL_SHARE: Final = 0.01
"""Peaks below this share of the largest peak of all hosts are not reported."""
MOST_OPS: Final = 3
"""Leaking ops in remarks; the table has the others."""
_ANY: Final = 2**63 - 1

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


class Lacking(NamedTuple):
    """What says why a host has no events of allocators; as of AboutHost."""

    of_torch: bool
    of_runs: bool
    hardware: str
    has_host_plane: bool


def none_there(hosts: Collection[Lacking]) -> Remark:
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


class Remarks:
    """What is worth saying of hosts that are added one after the other. Of each are kept numbers; sentences only of
    those that may be said."""

    def __init__(self, at_ps: int | None) -> None:
        self._at_ps = at_ps
        self._hosts, self._peak_bytes = 0, 0
        self._leaks: dict[str, _Leaks] = {}
        self._exhausted, self._kept_out, self._churn, self._growing = (_Heaviest() for _ in range(4))
        self._of_peaks: list[_Heaviest] = []
        self._outside: tuple[int, AboutHost | None] = 0, None
        self._requests: list[tuple[str, Case]] = []
        self._request_count, self._lost = 0, 0
        self._reasons = [0] * len(REASONS)

    def add(self, about: AboutHost, cases: HostCases) -> None:
        name = about.host
        self._peak_bytes = max(self._peak_bytes, cases.peak_bytes)
        for number, case in enumerate(cases.leaks):
            self._leaks.setdefault(case.op, _Leaks()).add(self._hosts, number, case)
        self._exhausted.add(name, cases.exhausted)
        self._kept_out.add(name, cases.kept_out)
        if self._at_ps is not None and not about.begin_ps <= self._at_ps <= about.end_ps:
            count, first = self._outside
            self._outside = count + 1, first or about
        requests = [*self._requests, *((name, case) for case in cases.requests)]
        self._requests = sorted(requests, key=lambda one: -one[1].peak_bytes)[:MOST_ALLOCATORS]
        self._request_count += cases.request_count
        self._of_peaks = self._of_peaks or [_Heaviest() for _ in cases.of_peaks]
        for every, worst in zip(self._of_peaks, cases.of_peaks, strict=True):
            every.add(name, worst)
        self._churn.add(name, cases.churn)
        self._lost += cases.lost
        self._reasons = [before + more for before, more in zip(self._reasons, cases.reasons, strict=True)]
        self._growing.add(name, cases.growing)
        self._hosts += 1

    def all(self, leaks_of: Callable[[int], tuple[str, list[Case]]]) -> Iterator[Remark]:
        """What to do about first. ``leaks_of``: the name and the leaks of a host, by its place among those added."""
        several, least = self._hosts > 1, SMALL_SHARE * self._peak_bytes
        yield from self._of_leaks(leaks_of, least)
        yield from self._exhausted.remark("recommendation", several)
        yield from self._kept_out.remark("recommendation", several)
        yield from _outside(*self._outside, self._at_ps, several)
        yield from self._of_requests(several)
        for every in self._of_peaks:
            yield from every.remark("info", several, least)
        yield from self._churn.remark("info", several)
        yield from _lost(self._lost)
        yield from _inexact(self._reasons)
        yield from _growing(self._growing, several)

    def _of_leaks(self, leaks_of: Callable[[int], tuple[str, list[Case]]], least: float) -> Iterator[Remark]:
        """An op that leaks on several allocators is reported once; on small allocators only if it fills them."""
        by_op = sorted(found for leaks in self._leaks.values() if (found := leaks.heaviest(least)) is not None)
        for _, host, number, count in by_op[:MOST_OPS]:
            name, cases = leaks_of(host)
            text = cases[number].text(name if self._hosts > 1 else None)
            yield "recommendation", f"{text}{_others(count - 1)} See the table growth."

    def _of_requests(self, several: bool) -> Iterator[Remark]:
        """Whether a request of the size of --request would have fitted, in the allocators with the largest peaks."""
        for name, case in self._requests:
            yield "info", case.text(name if several else None)
        if self._request_count > MOST_ALLOCATORS:
            more = counted(self._request_count - MOST_ALLOCATORS, "more allocator", "more allocators")
            yield "info", f"The table request has {more}."


class _Heaviest:
    """The heaviest case of a kind, and the weights of all."""

    def __init__(self) -> None:
        self.first: tuple[str, Case] | None = None
        self.weights = array("d")

    def add(self, host: str, worst: Worst) -> None:
        if worst.case is not None and (self.first is None or worst.case.weight > self.first[1].weight):
            self.first = host, worst.case
        self.weights.extend(worst.weights)

    def remark(self, severity: str, several: bool, least: float = 0) -> Iterator[Remark]:
        """And how many others there are. ``least``: the weight of a case that counts."""
        if self.first is not None and self.first[1].weight >= least:
            name, case = self.first
            count = sum(weight >= least for weight in self.weights)
            yield severity, case.text(name if several else None) + _others(count - 1)


class _Leaks:
    """Of an op, in the order of the hosts. ``_peak_bytes``: in use at the peak of the allocator, above any if the op
    fills it."""

    def __init__(self) -> None:
        self._weight, self._peak_bytes, self._host, self._number = array("d"), array("q"), array("q"), array("q")

    def add(self, host: int, number: int, case: Case) -> None:
        self._weight.append(case.weight)
        self._peak_bytes.append(_ANY if case.until_full else case.peak_bytes)
        self._host.append(host)
        self._number.append(number)

    def heaviest(self, least: float) -> tuple[float, int, int, int] | None:
        """The least is the first to be reported: its weight below 0, its host, its place there, and how many count."""
        some = [at for at, peak in enumerate(self._peak_bytes) if peak >= least]
        if not some:
            return None
        at = max(some, key=lambda at: self._weight[at])  # of equal ones the first
        return -self._weight[at], self._host[at], self._number[at], len(some)


def _others(count: int) -> str:
    return f" The same goes for {counted(count, 'other allocator', 'other allocators')}." if count else ""


def _outside(count: int, first: AboutHost | None, at_ps: int | None, several: bool) -> Iterator[Remark]:
    if first is not None and at_ps is not None:
        of = f" of {counted(count, 'host', 'hosts')}" if several else ""
        yield (
            "warning",
            f"The time asked for, {moment_text(at_ps)}, is outside of the capture{of}: "
            f"{first.host} was captured from {moment_text(first.begin_ps)} to {moment_text(first.end_ps)}.",
        )


def _lost(lost: int) -> Iterator[Remark]:
    if lost:
        of = "1 allocation or free has" if lost == 1 else f"{lost:,} allocations and frees have"
        yield (
            "info",
            f"{of} no counterpart, though the address was used again: the capture lost events, or their order, so "
            "some lifetimes and owners of memory are not known.",
        )


def _inexact(reasons: Sequence[int]) -> Iterator[Remark]:
    """Peaks that are known only in part."""
    for reason, count in zip(REASONS, reasons, strict=True):
        if reason is not None and count:
            which = counted(count, "allocator", "allocators")
            yield "info", f"What is alive at the peak of {which} does not add up to the memory in use: {reason}."


def _growing(every: _Heaviest, several: bool) -> Iterator[Remark]:
    if every.first is not None:
        name, case = every.first
        many = counted(len(every.weights), "allocator takes", "allocators take")
        taken = case.text(name if several else None) if case.before else ""
        yield (
            "info",
            f"{many} more memory from the device as it is needed{taken}. Fragmentation is of what is taken, so how "
            "large the largest free chunk is, and how much is too small, is known within bounds.",
        )
