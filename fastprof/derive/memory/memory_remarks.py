"""What the memory profile says in words: leaks, fragmentation, churn, exhaustion, and why there may be nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory import matching
from fastprof.derive.memory.host_memory import HostMemory, MemoryFigures, held_before, kept_out
from fastprof.derive.memory.live_groups import wasted_by_allocator
from fastprof.derive.memory.live_set import REASONS
from fastprof.derive.memory.memory_events import FREE, LIFETIME_PEAK, first_of_most
from fastprof.derive.memory.request_remarks import request_remarks
from fastprof.schema.array_types import Int64s
from fastprof.wording.quantities import counted, moment_text, size_text

LEAK_STEPS: Final = 4
"""Steps that growth must be seen over before it is called what a leak looks like."""
LEAK_SHARE: Final = 0.001
"""Growth over all steps, as a share of the allocator's peak, from which on it is worth saying."""
FAR_STEPS: Final = 100_000
"""In more steps than this, an allocator that fills up is not worth a word."""
WASTED_SHARE, BEFORE_SHARE, STACK_SHARE = 0.1, 0.5, 0.5
"""Shares of a peak from which on it is said that they were never asked for, were held before the capture, or are the
stack."""
SMALL_SHARE: Final = 0.01
"""Share of the largest peak of all hosts below which the peak of another allocator is not worth a word."""
CHURN_COUNT, CHURN_SHARE = 1_000, 0.5
"""Allocations that are short-lived, and their share of all of an allocator, from which on it is said."""
FULL_SHARE: Final = 0.95
"""Share of what an allocator may use, from which on it is nearly exhausted."""
MOST_OPS: Final = 3
"""Leaking ops in remarks; the table has the others."""
MANY: Final = 1_000
"""Cases of a host that are counted."""

NOT_RECORDED: Final = "the capture has no events MemoryAllocation or MemoryDeallocation"
NO_THREADS: Final = "the capture has no threads of hosts, plane /host:CPU, where allocators write events"
_LEVEL: Final = (
    "at host_tracer_level 2, the default, or above (tf.profiler.experimental.ProfilerOptions(host_tracer_level=2), "
    "jax.profiler.ProfileOptions().host_tracer_level = 2)"
)
_NEVER_ASKED_FOR: Final = (
    "was never asked for: chunks are larger than requests, which are rounded up, and large chunks not always split. "
    "The column wasted_bytes of the table active has whose."
)
_BEFORE: Final = (
    "was allocated before the capture, as weights are as a rule, so its use is unknown: capture the start of the "
    "program to see it."
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


@dataclass(frozen=True, slots=True)
class Remark:
    """``severity``: as of Notice."""

    severity: str
    text: str


def none_there(hosts: Sequence[HostMemory]) -> Remark:
    """Why there is nothing, and what to switch on."""
    kinds = {host.hardware for host in hosts} or {"CPU_ONLY"}
    kind = next(kind for kind in ("GPU", "TPU", "CPU_ONLY") if kind in kinds)
    if not any(host.has_host_plane for host in hosts):
        how = "" if kind == "CPU_ONLY" else f" {_HOW[kind]}"
        return Remark("info", f"No memory profile: {NO_THREADS}.{how}")
    return Remark("info", f"No memory profile: {NOT_RECORDED}. {_HOW[kind]}")


def remarks(hosts: Sequence[MemoryFigures], at_ps: int | None) -> Iterator[Remark]:
    """What is worth saying, what to do about first."""
    several = len(hosts) > 1
    yield from _leaks(hosts, several)
    yield from _exhausted(hosts, several)
    yield from _kept_out(hosts, several)
    yield from _outside([host.memory for host in hosts], at_ps)
    yield from (Remark("info", text) for text in request_remarks(hosts))
    yield from _of_peaks(hosts, several)
    yield from _churn(hosts, several)
    yield from _lost(hosts)
    yield from _not_told(hosts)
    yield from _growing(hosts, several)


# ---- each kind


@dataclass(frozen=True, slots=True)
class _Case:
    """``weight``: the heavier, the more it matters; ``place``: row, allocator or event of the host's figures."""

    weight: float
    host: MemoryFigures
    place: int


def _heaviest(host: MemoryFigures, weights: npt.NDArray[Any], places: npt.NDArray[Any]) -> list[_Case]:
    """Cases at some places, by their weight there; those of no weight are none."""
    places = places[weights[places] > 0]
    places = places[np.argsort(-weights[places], kind="stable")]
    return [_Case(float(weights[place]), host, place) for place in places[:MANY].tolist()]


def _worst(cases: list[_Case]) -> list[_Case]:
    return sorted(cases, key=lambda case: -case.weight)


def _others(count: int, what: str = "other allocator") -> str:
    return f" The same goes for {counted(count, what, what + 's')}." if count else ""


def _large(hosts: Sequence[MemoryFigures]) -> list[npt.NDArray[np.bool_]]:
    """By host [k] whether the peak is not small beside the largest."""
    peaks = [host.at_peak(host.in_use_bytes) for host in hosts]
    largest = max((int(peak.max(initial=0)) for peak in peaks), default=0)
    return [peak >= SMALL_SHARE * largest for peak in peaks]


def _leaks(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    """An op that leaks on several allocators is reported once; on small allocators only if it fills them."""
    found: list[_Case] = []
    for host, large in zip(hosts, _large(hosts), strict=True):
        grown = host.growth
        peak = host.in_use_bytes[host.peak][grown.allocator]
        rows = grown.grows_steadily & (grown.step_count >= LEAK_STEPS) & (grown.growth_bytes > LEAK_SHARE * peak)
        cases = _heaviest(host, grown.growth_bytes * rows, np.arange(len(rows)))
        found += [case for case in cases if large[grown.allocator[case.place]] or _until_full(host, case.place)]
    by_op: dict[str, list[_Case]] = {}
    for case in _worst(found):
        by_op.setdefault(case.host.op_name(int(case.host.growth.op[case.place])), []).append(case)
    for op, cases in list(by_op.items())[:MOST_OPS]:
        host, row, grown = cases[0].host, cases[0].place, cases[0].host.growth
        yield Remark(
            "recommendation",
            f"{op} holds more and more memory of {host.allocator_name(int(grown.allocator[row]), several)}: "
            f"{size_text(int(grown.growth_bytes[row]))} more at the end of the last of {int(grown.step_count[row])} "
            f"steps than of the first, and never less from step to step, as a leak does{_until_full(host, row)}."
            f"{_others(len(cases) - 1)} See the table growth.",
        )


def _until_full(host: MemoryFigures, row: int) -> str:
    """After how many more steps the peak of a step is all that the allocator may use, at this pace; and what runs
    outside of steps, if that needs more."""
    events, allocator = host.events, int(host.growth.allocator[row])
    pace, last = float(host.growth.growth_per_step_bytes[row]), int(host.windows.last_peak[allocator])
    if pace <= 0 or last < 0 or not events.has(FREE)[last] or events.free_bytes[last] / pace > FAR_STEPS:
        return ""
    in_use, free = int(host.in_use_bytes[last]), int(events.free_bytes[last])
    sentence = (
        f"; at this pace the peak of a step, {size_text(in_use)} in the last one, reaches the "
        f"{size_text(in_use + free)} that the allocator may use after {int(max(free, 0) / pace):,} more steps"
    )
    peak = int(host.peak[allocator])
    if host.in_use_bytes[peak] <= in_use or host.memory.steps.at(host.peak_ps[allocator : allocator + 1])[1][0]:
        return sentence
    sentence += (
        f". What runs outside of steps may fail sooner: it had {size_text(int(host.in_use_bytes[peak]))} in use at "
    )
    sentence += moment_text(int(host.peak_ps[allocator]))
    later = host.peak_ps[allocator] >= host.memory.steps.end_ps.max()
    if later and events.has(FREE)[peak]:  # after all growth that was seen
        sentence += f", which fits for {int(max(int(events.free_bytes[peak]), 0) / pace):,} more steps"
    return sentence


def _exhausted(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    found = []
    for host in hosts:
        in_use, free = host.in_use_bytes[host.peak], host.events.free_bytes[host.peak]
        known = (
            (host.peak >= 0)
            & host.in_use_known[host.peak]
            & host.events.has(FREE)[host.peak]
            & (in_use > 0)
            & (free >= 0)
        )
        share = np.where(known, in_use / np.maximum(in_use.astype(np.float64) + free, 1), 0.0)
        found += _heaviest(host, share, np.flatnonzero(share >= FULL_SHARE))
    for case in _worst(found)[:1]:
        host, i = case.host, int(case.host.peak[case.place])
        yield Remark(
            "recommendation",
            f"{host.allocator_name(case.place, several)} is nearly exhausted: at its peak, at "
            f"{moment_text(int(host.peak_ps[case.place]))}, {100 * case.weight:.1f} % of the "
            f"{size_text(int(host.in_use_bytes[i]) + int(host.events.free_bytes[i]))} that it may use were in use. The "
            "table active has what was alive then. Requests that failed are not recorded: --request shows when their "
            f"size would have fitted.{_others(len(found) - 1)}",
        )


def _kept_out(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    """The worst moment at which no chunk was large enough, of that of each allocator."""
    found = []
    for host in hosts:
        amounts = np.where(kept_out(host), host.events.free_bytes, 0)
        found += _heaviest(host, amounts, first_of_most(amounts, host.events.bounds))
    for case in _worst(found)[:1]:
        host, i, events, chunk = case.host, case.place, case.host.events, case.host.fragmentation
        wanted = int(chunk.next_largest[i])
        op = host.op_name(int(events.sites.op_number[int(events.site[wanted])]))
        yield Remark(
            "recommendation",
            f"At {moment_text(int(events.start_ps[i]))} {size_text(int(events.free_bytes[i]))} of "
            f"{host.allocator_name(int(host.allocator[i]), several)} were free, but no chunk held the "
            f"{size_text(int(chunk.next_largest_bytes[i]))} that {op} asked for at "
            f"{moment_text(int(events.start_ps[wanted]))}: the largest had at most "
            f"{size_text(int(chunk.largest_free_high[i]))}. Such fragmentation ends in out-of-memory errors; allocate "
            "what lives long first, or let the driver join chunks (TF_GPU_ALLOCATOR=cuda_malloc_async, "
            f"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async).{_others(len(found) - 1)}",
        )


def _of_peaks(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    """Parts of the peaks that are unknown or belong to no op: of each kind that of the largest peak; none of small
    peaks."""
    of_hosts = list(zip(hosts, _large(hosts), strict=True))
    for kind, least, cause in (
        (_wasted, WASTED_SHARE, _NEVER_ASKED_FOR),
        (held_before, BEFORE_SHARE, _BEFORE),
        (_stack, STACK_SHARE, ""),
    ):
        found: list[_Case] = []
        for host, large in of_hosts:
            in_use, amounts = host.at_peak(host.in_use_bytes).astype(np.float64), kind(host)
            found += _heaviest(host, in_use, np.flatnonzero(large & (amounts > 0) & (amounts >= least * in_use)))
        for case in _worst(found)[:1]:
            share = int(kind(case.host)[case.place]) / case.weight
            name = case.host.allocator_name(case.place, several)
            text = f"{100 * share:.0f} % of the memory in use at the peak of {name} {cause or _of_stack(case)}"
            yield Remark("info", text + _others(len(found) - 1))


def _wasted(host: MemoryFigures) -> Int64s:
    return wasted_by_allocator(host.active.rows, len(host.peak))[0]


def _stack(host: MemoryFigures) -> Int64s:
    return host.at_peak(host.events.stack_bytes)


def _of_stack(case: _Case) -> str:
    """What the stack is, which program ran, and that the lifetime peak may lack it."""
    host, allocator = case.host, case.place
    number, at = host.events.allocators[allocator], int(host.peak_ps[allocator])
    sentence = "is the stack: what the runtime reserves for compiled programs, whose ops this profile does not record."
    run = host.memory.modules.at(f"{host.memory.hardware}:{number}", at)
    if run is not None:
        name, start = run
        sentence += (
            f" {name} ran then." if start <= at else f" The next program to run was {name}, at {moment_text(start)}."
        )
    events = host.events.of_allocator(allocator)
    lifetime = int(host.events.lifetime_peak_bytes[events].max())
    if host.events.has(LIFETIME_PEAK)[events].any() and lifetime < host.in_use_bytes[host.peak[allocator]]:
        sentence += f" The lifetime peak, {size_text(lifetime)}, counts the heap alone."
    return sentence


def _outside(hosts: Sequence[HostMemory], at_ps: int | None) -> Iterator[Remark]:
    if at_ps is None:
        return
    outside = [host for host in hosts if not host.begin_ps <= at_ps <= host.end_ps]
    if outside:
        first = outside[0]
        of = f" of {counted(len(outside), 'host', 'hosts')}" if len(hosts) > 1 else ""
        yield Remark(
            "warning",
            f"The time asked for, {moment_text(at_ps)}, is outside of the capture{of}: "
            f"{first.host} was captured from {moment_text(first.begin_ps)} to {moment_text(first.end_ps)}.",
        )


def _churn(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    found = []
    for host in hosts:
        short = np.zeros(len(host.events.allocators), np.int64)
        np.add.at(short, host.ops.allocator, host.ops.short_lived_count)
        every = host.counts(host.events.is_allocation)
        found += _heaviest(host, short, np.flatnonzero((short >= CHURN_COUNT) & (short >= CHURN_SHARE * every)))
    for case in _worst(found)[:1]:
        host, ops = case.host, case.host.ops
        of_it = np.flatnonzero(ops.allocator == case.place)
        most = int(of_it[ops.short_lived_count[of_it].argmax()])
        count = int(ops.count[of_it].sum())
        yield Remark(
            "info",
            f"{int(case.weight):,} of {count:,} allocations of {host.allocator_name(case.place, several)} are freed "
            f"soon after; {host.op_name(int(ops.op[most]))} has most of these, {int(ops.short_lived_count[most]):,}."
            f"{_others(len(found) - 1)} See the table ops.",
        )


def _lost(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    kinds = (matching.REPLACED, matching.ALLOCATION_LOST)
    lost = sum(int(host.within(host.matches.fate == kind).sum()) for host in hosts for kind in kinds)
    if lost:
        of = "1 allocation or free has" if lost == 1 else f"{lost:,} allocations and frees have"
        yield Remark(
            "info",
            f"{of} no counterpart, though the address was used again: the capture lost events, or their order, so "
            "some lifetimes and owners of memory are not known.",
        )


def _not_told(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    """Peaks that are known only in part."""
    reasons = np.concatenate([host.active.reason for host in hosts])
    for number, reason in enumerate(REASONS):
        count = int((reasons == number).sum())
        if reason is not None and count:
            which = counted(count, "allocator", "allocators")
            yield Remark(
                "info", f"What is alive at the peak of {which} does not add up to the memory in use: {reason}."
            )


def _growing(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    cases = []
    for host in hosts:
        last = host.events.bounds[1:] - 1
        cases += [_Case(float(host.events.heap_bytes[i]), host, i) for i in last[host.fragmentation.grows].tolist()]
    if cases:
        many = counted(len(cases), "allocator takes", "allocators take")
        yield Remark(
            "info",
            f"{many} more memory from the device as it is needed{_taken(_worst(cases)[0], several)}. Fragmentation is "
            "of what is taken, so how large the largest free chunk is, and how much is too small, is known within "
            "bounds.",
        )


def _taken(case: _Case, several: bool) -> str:
    """Of an allocator, at its last event."""
    host, i, chunk = case.host, case.place, case.host.fragmentation
    low, high = int(chunk.taken_low[i]), int(chunk.taken_high[i])
    if low < 0 or not host.events.has(FREE)[i]:
        return ""
    limit = int(host.events.heap_bytes[i]) + int(host.events.free_bytes[i])
    between = size_text(high) if size_text(low) == size_text(high) else f"{size_text(low)} to {size_text(high)}"
    name = host.allocator_name(int(host.allocator[i]), several)
    return f": {name} has taken {between} by its last event, of the {size_text(limit)} that it may"
