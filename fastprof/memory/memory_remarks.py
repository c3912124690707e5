"""What the memory profile tells in words: leaks, fragmentation, churn, exhaustion, and why there may be nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.memory import matching
from fastprof.memory.host_memory import HostMemory, MemoryFigures, first_of_most, kept_out
from fastprof.memory.live_set import REASONS
from fastprof.memory.memory_events import FREE

LEAK_STEPS: Final = 4
"""Steps that growth must be seen over before it is called what a leak looks like."""
LEAK_SHARE: Final = 0.001
"""Growth over all steps, as a share of the allocator's peak, from which on it is worth saying."""
FAR_STEPS: Final = 100_000
"""In more steps than this, an allocator that fills up is not worth a word."""
CHURN_COUNT, CHURN_SHARE = 1_000, 0.5
"""Allocations that are short-lived, and their share of all of an allocator, from which on it is said."""
FULL_SHARE: Final = 0.95
"""Share of what an allocator may use, from which on it is nearly exhausted."""
TOLD: Final = 3
"""Ops that are told to leak; the table has the others."""
MANY: Final = 1_000
"""Cases of a host that are counted."""

NOT_RECORDED: Final = "the capture has no events MemoryAllocation or MemoryDeallocation"
_HOW: Final = {
    "GPU": "GPU allocators of TensorFlow and JAX write them at host_tracer_level 2, the default, or above "
    "(tf.profiler.experimental.ProfilerOptions, jax.profiler.ProfileOptions), if memory comes from the BFC allocator: "
    "not with TF_GPU_ALLOCATOR=cuda_malloc_async, nor with XLA_PYTHON_CLIENT_ALLOCATOR=platform or cuda_async. An "
    "allocation or free must happen while the profiler runs.",
    "TPU": "The runtime of TPUs writes them at host_tracer_level 2, the default, or above, as the allocations of the "
    "program happen: profile its start, or a step that allocates.",
    "CPU_ONLY": "Allocators of CPUs write none, unless TensorFlow runs with TF_CPU_ALLOCATOR_USE_BFC=true in its "
    "environment and the profiler at host_tracer_level 2, the default, or above. JAX has no such allocator for CPUs.",
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
    return Remark("warning", f"No memory profile: {NOT_RECORDED}. {_HOW[kind]}")


def remarks(hosts: Sequence[MemoryFigures], at_ps: int | None) -> Iterator[Remark]:
    """What is worth saying, what to do about first."""
    several = len(hosts) > 1
    yield from _leaks(hosts, several)
    yield from _exhausted(hosts, several)
    yield from _kept_out(hosts, several)
    yield from _outside([host.memory for host in hosts], at_ps)
    yield from _churn(hosts, several)
    yield from _lost(hosts)
    yield from _not_told(hosts)
    yield from _growing(hosts)


# ---- in words


def size_text(size: int) -> str:
    """Three digits or more, and a unit."""
    for unit, bits in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if abs(size) >= 1 << bits:
            return f"{size / (1 << bits):,.3g} {unit}" if abs(size) < 1000 << bits else f"{size >> bits:,} {unit}"
    return f"{size} bytes"


def moment_text(time_ps: int) -> str:
    """With three decimals, in the largest unit that is not too large."""
    for unit, size in (("s", 10**12), ("ms", 10**9), ("µs", 10**6), ("ns", 10**3)):
        if abs(time_ps) >= size:
            return f"{time_ps / size:,.3f} {unit}"
    return f"{time_ps} ps"


def _name(host: MemoryFigures, allocator: int, several: bool) -> str:
    name = host.events.allocators[allocator] or "an allocator without a name"
    return f"{name} of {host.memory.host}" if several else name


def _op(host: MemoryFigures, number: int) -> str:
    """``number``: in op_names, -1: none."""
    name = host.events.sites.op_names[number] if number >= 0 else None
    return "an op that is not recorded" if name is None else name


def _counted(count: int, one: str, more: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {more}"


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
    return f" The same goes for {_counted(count, what, what + 's')}." if count else ""


def _leaks(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    """An op that leaks on several allocators is told once."""
    found: list[_Case] = []
    for host in hosts:
        grown = host.growth
        peak = host.in_use_bytes[host.peak][grown.allocator]
        rows = grown.grows_steadily & (grown.step_count >= LEAK_STEPS) & (grown.growth_bytes > LEAK_SHARE * peak)
        found += _heaviest(host, grown.growth_bytes * rows, np.arange(len(rows)))
    by_op: dict[str, list[_Case]] = {}
    for case in _worst(found):
        by_op.setdefault(_op(case.host, int(case.host.growth.op[case.place])), []).append(case)
    for op, cases in list(by_op.items())[:TOLD]:
        host, row, grown = cases[0].host, cases[0].place, cases[0].host.growth
        yield Remark(
            "recommendation",
            f"{op} holds more and more memory of {_name(host, int(grown.allocator[row]), several)}: "
            f"{size_text(int(grown.growth_bytes[row]))} more at the end of the last of {int(grown.step_count[row])} "
            f"steps than of the first, and never less from step to step, as a leak does{_until_full(host, row)}."
            f"{_others(len(cases) - 1)} See the table growth.",
        )


def _until_full(host: MemoryFigures, row: int) -> str:
    """In how many steps the memory that is free at the end has gone at this pace."""
    grown, allocator = host.growth, int(host.growth.allocator[row])
    last = int(host.events.bounds[allocator + 1]) - 1
    pace = float(grown.growth_per_step_bytes[row])
    if pace <= 0 or not host.events.has(FREE)[last]:
        return ""
    steps = max(int(host.events.free_bytes[last]) / pace, 0.0)
    return f"; at this pace the allocator is full in {steps:,.0f} steps" if steps <= FAR_STEPS else ""


def _exhausted(hosts: Sequence[MemoryFigures], several: bool) -> Iterator[Remark]:
    found = []
    for host in hosts:
        in_use, free = host.in_use_bytes[host.peak], host.events.free_bytes[host.peak]
        known = host.in_use_known[host.peak] & host.events.has(FREE)[host.peak] & (in_use > 0) & (free >= 0)
        share = np.where(known, in_use / np.maximum(in_use.astype(np.float64) + free, 1), 0.0)
        found += _heaviest(host, share, np.flatnonzero(share >= FULL_SHARE))
    for case in _worst(found)[:1]:
        host, i = case.host, int(case.host.peak[case.place])
        yield Remark(
            "recommendation",
            f"{_name(host, case.place, several)} is nearly exhausted: at its peak, at "
            f"{moment_text(int(host.events.start_ps[i]))}, {100 * case.weight:.1f} % of the "
            f"{size_text(int(host.in_use_bytes[i]) + int(host.events.free_bytes[i]))} that it may use were in use. The "
            f"table active has what was alive then.{_others(len(found) - 1)}",
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
        op = _op(host, int(events.sites.op_number[int(events.site[wanted])]))
        yield Remark(
            "recommendation",
            f"At {moment_text(int(events.start_ps[i]))} {size_text(int(events.free_bytes[i]))} of "
            f"{_name(host, int(host.allocator[i]), several)} were free, but no chunk held the "
            f"{size_text(int(chunk.next_largest_bytes[i]))} that {op} asked for at "
            f"{moment_text(int(events.start_ps[wanted]))}: the largest had at most "
            f"{size_text(int(chunk.largest_free_high[i]))}. Such fragmentation ends in out-of-memory errors; allocate "
            "what lives long first, or let the driver join chunks (TF_GPU_ALLOCATOR=cuda_malloc_async, "
            f"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async).{_others(len(found) - 1)}",
        )


def _outside(hosts: Sequence[HostMemory], at_ps: int | None) -> Iterator[Remark]:
    if at_ps is None:
        return
    outside = [host for host in hosts if not host.begin_ps <= at_ps <= host.end_ps]
    if outside:
        first = outside[0]
        of = f" of {_counted(len(outside), 'host', 'hosts')}" if len(hosts) > 1 else ""
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
            f"{int(case.weight):,} of {count:,} allocations of {_name(host, case.place, several)} are freed soon "
            f"after; {_op(host, int(ops.op[most]))} has most of these, {int(ops.short_lived_count[most]):,}."
            f"{_others(len(found) - 1)} See the table ops.",
        )


def _lost(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    lost = sum(int((host.matches.fate == matching.REPLACED).sum()) for host in hosts)
    lost += sum(int((host.matches.fate == matching.ALLOCATION_LOST).sum()) for host in hosts)
    if lost:
        of = "1 allocation or free has" if lost == 1 else f"{lost:,} allocations and frees have"
        yield Remark(
            "info",
            f"{of} no counterpart, though the address was used again: the capture lost events, or their order, so "
            "some lifetimes and owners of memory are not known.",
        )


def _not_told(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    """Peaks of which not all can be told."""
    reasons = np.concatenate([host.active.reason for host in hosts])
    for number, reason in enumerate(REASONS):
        count = int((reasons == number).sum())
        if reason is not None and count:
            told = _counted(count, "allocator", "allocators")
            yield Remark("info", f"What is alive at the peak of {told} does not add up to the memory in use: {reason}.")


def _growing(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    count = sum(int(host.fragmentation.grows.sum()) for host in hosts)
    if count:
        told = _counted(count, "allocator takes", "allocators take")
        yield Remark(
            "info",
            f"{told} more memory from the device as it is needed, so {'its' if count == 1 else 'their'} fragmentation "
            "does not tell how large the largest free chunk is.",
        )
