"""The memory profile in words: leaks, fragmentation, churn, exhaustion, requests, and why there may be nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory import matching
from fastprof.derive.memory.alive import REASONS, wasted_by_allocator
from fastprof.derive.memory.fragmentation import FROM_DEVICE, NO, OPEN, YES, Fits, not_taken_bytes
from fastprof.derive.memory.host_memory import HostMemory, MemoryFigures, held_before, kept_out
from fastprof.derive.memory.memory_events import FREE, LIFETIME_PEAK, first_of_most
from fastprof.schema.array_types import Bools, Int64s
from fastprof.wording.quantities import counted, moment_text, size_text

LEAK_STEPS: Final = 4
"""Fewest steps of growth that look like a leak."""
LEAK_SHARE: Final = 0.001
"""Least growth over all steps, as a share of the allocator's peak, that is reported."""
FAR_STEPS: Final = 100_000
"""An allocator that is full only after more steps than this is not reported."""
WASTED_SHARE, BEFORE_SHARE, STACK_SHARE = 0.1, 0.5, 0.5
"""Least shares of a peak that are reported as never asked for, held before the capture, or stack."""
SMALL_SHARE: Final = 0.01
"""Peaks below this share of the largest peak of all hosts are not reported."""
CHURN_COUNT, CHURN_SHARE = 1_000, 0.5
"""Fewest short-lived allocations, and their least share of all of an allocator, that are reported."""
FULL_SHARE: Final = 0.95
"""Share of its limit at which an allocator is nearly exhausted."""
MOST_OPS: Final = 3
"""Leaking ops in remarks; the table has the others."""
MANY: Final = 1_000
"""Cases of a host that are counted."""
MOST_ALLOCATORS: Final = 4
"""Allocators with a remark on --request: those with the largest peaks."""

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


_OF_TORCH: Final = (
    "the capture has no events of PyTorch's allocators: record them with torch.profiler.profile(profile_memory=True)."
)


_OF_RUNS: Final = (
    "the file has no records of allocators. The RunMetadata of a run with trace_level=RunOptions.FULL_TRACE has them."
)


Remark = tuple[str, str]
"""Severity, as notices have it, and a sentence."""


def none_there(hosts: Sequence[HostMemory]) -> Remark:
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


def remarks(hosts: Sequence[MemoryFigures], at_ps: int | None) -> Iterator[Remark]:
    """What is worth saying, what to do about first."""
    yield from _leaks(hosts)
    yield from _worst("recommendation", (case for host in hosts for case in _exhausted(host)), _exhausted_text)
    yield from _worst("recommendation", (case for host in hosts for case in _kept_out(host)), _kept_out_text)
    yield from _outside([host.memory for host in hosts], at_ps)
    yield from _requests(hosts)
    yield from _of_peaks(hosts)
    yield from _worst("info", (case for host in hosts for case in _churn(host)), _churn_text)
    yield from _lost(hosts)
    yield from _inexact(hosts)
    yield from _growing(hosts)


class _Case(NamedTuple):
    """``weight``: importance; ``place``: row, allocator or event of the host's figures."""

    weight: float
    host: MemoryFigures
    place: int


def _heaviest(host: MemoryFigures, weights: npt.NDArray[Any], places: npt.NDArray[Any]) -> list[_Case]:
    """Cases at some places with a weight above 0, heaviest first."""
    places = places[weights[places] > 0]
    places = places[np.argsort(-weights[places], kind="stable")]
    return [_Case(float(weights[place]), host, place) for place in places[:MANY].tolist()]


def _sorted(cases: Iterable[_Case]) -> list[_Case]:
    return sorted(cases, key=lambda case: -case.weight)


def _worst(severity: str, cases: Iterable[_Case], text: Callable[[_Case], str]) -> Iterator[Remark]:
    """The heaviest case, and how many others there are."""
    worst = _sorted(cases)
    if worst:
        yield severity, text(worst[0]) + _others(len(worst) - 1)


def _others(count: int) -> str:
    return f" The same goes for {counted(count, 'other allocator', 'other allocators')}." if count else ""


def _size(size: Any) -> str:
    return size_text(int(size))


def _moment(time_ps: Any) -> str:
    return moment_text(int(time_ps))


def _large(hosts: Sequence[MemoryFigures]) -> list[Bools]:
    """By host [k] whether the peak is not small beside the largest."""
    peaks = [host.at_peak(host.in_use_bytes) for host in hosts]
    largest = max((int(peak.max(initial=0)) for peak in peaks), default=0)
    return [peak >= SMALL_SHARE * largest for peak in peaks]


# ---- each kind


def _leaks(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    """An op that leaks on several allocators is reported once; on small allocators only if it fills them."""
    leaks: list[_Case] = []
    for host, large in zip(hosts, _large(hosts), strict=True):
        grown = host.growth
        peak = host.in_use_bytes[host.peak][grown.allocator]
        rows = grown.grows_steadily & (grown.step_count >= LEAK_STEPS) & (grown.growth_bytes > LEAK_SHARE * peak)
        cases = _heaviest(host, grown.growth_bytes * rows, np.arange(len(rows)))
        leaks += [case for case in cases if large[grown.allocator[case.place]] or _until_full(host, case.place)]
    by_op: dict[str, list[_Case]] = {}
    for case in _sorted(leaks):
        by_op.setdefault(case.host.op_name(int(case.host.growth.op[case.place])), []).append(case)
    for op, cases in list(by_op.items())[:MOST_OPS]:
        _, host, row = cases[0]
        grown = host.growth
        yield (
            "recommendation",
            f"{op} holds more and more memory of {host.allocator_name(int(grown.allocator[row]))}: "
            f"{_size(grown.growth_bytes[row])} more at the end of the last of {int(grown.step_count[row])} "
            f"steps than of the first, and never less from step to step, as a leak does{_until_full(host, row)}."
            f"{_others(len(cases) - 1)} See the table growth.",
        )


def _until_full(host: MemoryFigures, row: int) -> str:
    """After how many more steps the peak of a step reaches the allocator's limit, at this pace; and what runs outside
    of steps, if that needs more."""
    allocator = int(host.growth.allocator[row])
    pace, last = float(host.growth.growth_per_step_bytes[row]), int(host.windows.last_peak[allocator])
    left_bytes = host.limit_bytes - host.in_use_bytes
    if pace <= 0 or last < 0 or not host.limit_known[last] or left_bytes[last] / pace > FAR_STEPS:
        return ""
    in_use, free = int(host.in_use_bytes[last]), int(left_bytes[last])
    sentence = (
        f"; at this pace the peak of a step, {size_text(in_use)} in the last one, reaches the "
        f"{size_text(in_use + free)} that the allocator may use after {int(max(free, 0) / pace):,} more steps"
    )
    peak, peak_ps = int(host.peak[allocator]), int(host.peak_ps[allocator])
    if host.in_use_bytes[peak] <= in_use or host.memory.steps.at(host.peak_ps[allocator : allocator + 1])[1][0]:
        return sentence
    sentence += (
        f". What runs outside of steps may fail sooner: it had {_size(host.in_use_bytes[peak])} in use at "
        f"{moment_text(peak_ps)}"
    )
    if peak_ps >= host.memory.steps.end_ps.max() and host.limit_known[peak]:  # after all growth
        sentence += f", which fits for {int(max(int(left_bytes[peak]), 0) / pace):,} more steps"
    return sentence


def _exhausted(host: MemoryFigures) -> list[_Case]:
    in_use, limit = host.in_use_bytes[host.peak], host.limit_bytes[host.peak]
    known = (host.peak >= 0) & host.in_use_known[host.peak] & host.limit_known[host.peak]
    known &= (in_use > 0) & (limit >= in_use)
    share = np.where(known, in_use / np.maximum(limit.astype(np.float64), 1), 0.0)
    return _heaviest(host, share, np.flatnonzero(share >= FULL_SHARE))


def _exhausted_text(case: _Case) -> str:
    host, i = case.host, int(case.host.peak[case.place])
    return (
        f"{host.allocator_name(case.place)} is nearly exhausted: at its peak, at {_moment(host.peak_ps[case.place])}, "
        f"{100 * case.weight:.1f} % of the {size_text(int(host.limit_bytes[i]))} that it may "
        "use were in use. The table active has what was alive then. Requests that failed are not recorded: "
        "--request shows when their size would have fitted."
    )


def _kept_out(host: MemoryFigures) -> list[_Case]:
    """The worst moment of each allocator at which no chunk was large enough."""
    amounts = np.where(kept_out(host), host.events.free_bytes, 0)
    return _heaviest(host, amounts, first_of_most(amounts, host.events.bounds))


def _kept_out_text(case: _Case) -> str:
    host, i, events, chunk = case.host, case.place, case.host.events, case.host.fragmentation
    wanted = int(chunk.next_largest[i])
    return (
        f"At {_moment(events.start_ps[i])} {_size(events.free_bytes[i])} of "
        f"{host.allocator_name(int(host.allocator[i]))} were free, but no chunk held the "
        f"{_size(chunk.next_largest_bytes[i])} that {host.op_name(int(events.sites.op_number[events.site[wanted]]))} "
        f"asked for at {_moment(events.start_ps[wanted])}: the largest had at most "
        f"{_size(chunk.largest_free_high[i])}. Such fragmentation ends in out-of-memory errors; allocate what lives "
        "long first, or let the driver join chunks (TF_GPU_ALLOCATOR=cuda_malloc_async, "
        "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async)."
    )


def _of_peaks(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    """Parts of the peaks that are unknown or belong to no op: of each kind that of the largest peak; none of small
    peaks."""
    large_of = _large(hosts)
    for kind, least, cause in (
        (_wasted, WASTED_SHARE, lambda _: _NEVER_ASKED_FOR),
        (held_before, BEFORE_SHARE, lambda _: _BEFORE),
        (_stack, STACK_SHARE, _of_stack),
    ):
        cases: list[_Case] = []
        for host, large in zip(hosts, large_of, strict=True):
            in_use, amounts = host.at_peak(host.in_use_bytes).astype(np.float64), kind(host)
            cases += _heaviest(host, in_use, np.flatnonzero(large & (amounts > 0) & (amounts >= least * in_use)))

        yield from _worst("info", cases, partial(_part_text, kind, cause))


def _part_text(kind: Callable[[MemoryFigures], Int64s], cause: Callable[[_Case], str], case: _Case) -> str:
    share = int(kind(case.host)[case.place]) / case.weight
    name = case.host.allocator_name(case.place)
    return f"{100 * share:.0f} % of the memory in use at the peak of {name} {cause(case)}"


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
        yield (
            "warning",
            f"The time asked for, {moment_text(at_ps)}, is outside of the capture{of}: "
            f"{first.host} was captured from {moment_text(first.begin_ps)} to {moment_text(first.end_ps)}.",
        )


def _churn(host: MemoryFigures) -> list[_Case]:
    short = np.zeros(len(host.events.allocators), np.int64)
    np.add.at(short, host.ops.allocator, host.ops.short_lived_count)
    every = host.counts(host.events.is_allocation)
    return _heaviest(host, short, np.flatnonzero((short >= CHURN_COUNT) & (short >= CHURN_SHARE * every)))


def _churn_text(case: _Case) -> str:
    host, ops = case.host, case.host.ops
    mine = np.flatnonzero(ops.allocator == case.place)
    most = int(mine[ops.short_lived_count[mine].argmax()])
    return (
        f"{int(case.weight):,} of {int(ops.count[mine].sum()):,} allocations of {host.allocator_name(case.place)} are "
        f"freed soon after; {host.op_name(int(ops.op[most]))} has most of these, {int(ops.short_lived_count[most]):,}. "
        "See the table ops."
    )


def _lost(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    kinds = (matching.REPLACED, matching.ALLOCATION_LOST)
    lost = sum(int(host.within(host.matches.fate == kind).sum()) for host in hosts for kind in kinds)
    if lost:
        of = "1 allocation or free has" if lost == 1 else f"{lost:,} allocations and frees have"
        yield (
            "info",
            f"{of} no counterpart, though the address was used again: the capture lost events, or their order, so "
            "some lifetimes and owners of memory are not known.",
        )


def _inexact(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    """Peaks that are known only in part."""
    counts = np.bincount(np.concatenate([host.active.reason for host in hosts]), minlength=len(REASONS)).tolist()
    for reason, count in zip(REASONS, counts, strict=True):
        if reason is not None and count:
            which = counted(count, "allocator", "allocators")
            yield "info", f"What is alive at the peak of {which} does not add up to the memory in use: {reason}."


def _growing(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    cases = []
    for host in hosts:
        last = host.events.bounds[1:] - 1
        cases += [_Case(float(host.events.heap_bytes[i]), host, i) for i in last[host.fragmentation.grows].tolist()]
    if cases:
        many = counted(len(cases), "allocator takes", "allocators take")
        yield (
            "info",
            f"{many} more memory from the device as it is needed{_taken(_sorted(cases)[0])}. Fragmentation is of what "
            "is taken, so how large the largest free chunk is, and how much is too small, is known within bounds.",
        )


def _taken(case: _Case) -> str:
    """What an allocator has taken at its last event."""
    _, host, i = case
    low, high = int(host.fragmentation.taken_low[i]), int(host.fragmentation.taken_high[i])
    if low < 0 or not host.events.has(FREE)[i]:
        return ""
    limit = int(host.events.heap_bytes[i]) + int(host.events.free_bytes[i])
    name = host.allocator_name(int(host.allocator[i]))
    return f": {name} has taken {_range(low, high)} by its last event, of the {size_text(limit)} that it may"


def _range(low: int, high: int) -> str:
    return size_text(high) if size_text(low) == size_text(high) else f"{size_text(low)} to {size_text(high)}"


# ---- requests

_WOULD = {
    NO: "would not have fitted",
    YES: "would have fitted",
    OPEN: "may have fitted",
    FROM_DEVICE: "would have fitted, if the device had as much left,",
}
_FITS = ((YES, "it fits"), (FROM_DEVICE, "it fits if the device has it"), (NO, "it does not fit"), (OPEN, "it may fit"))


def _requests(hosts: Sequence[MemoryFigures]) -> Iterator[Remark]:
    """Whether a request of the size of --request would have fitted in each allocator."""
    peaks = [
        (-int(host.in_use_bytes[peak]), number, allocator)
        for number, host in enumerate(hosts)
        if host.fits is not None
        for allocator, peak in enumerate(host.peak.tolist())
        if peak >= 0
    ]
    for _, number, allocator in sorted(peaks)[:MOST_ALLOCATORS]:
        host = hosts[number]
        assert host.fits is not None
        yield "info", _request(host, host.fits, allocator)
    if len(peaks) > MOST_ALLOCATORS:
        more = counted(len(peaks) - MOST_ALLOCATORS, "more allocator", "more allocators")
        yield "info", f"The table request has {more}."


def _request(host: MemoryFigures, fits: Fits, allocator: int) -> str:
    peak, name = int(host.peak[allocator]), host.allocator_name(allocator)
    capacity = int(host.limit_bytes[peak])
    if host.limit_known[peak] and capacity < fits.size:
        return f"A request of {size_text(fits.size)} is more than all that {name} may use, {size_text(capacity)}."
    sentence = (
        f"A request of {size_text(fits.size)} {_WOULD[int(fits.answer[peak])]} in {name} at its peak, at "
        f"{_moment(host.peak_ps[allocator])}{_why(host, peak)}."
    )
    at = -1 if host.at is None else int(host.at[allocator])
    if at >= 0:
        sentence += f" At the time asked for it {_WOULD[int(fits.answer[at])].removesuffix(',')}{_why(host, at)}."
    return f"{sentence}{_over_time(fits, allocator)} See the table request."


def _why(host: MemoryFigures, i: int) -> str:
    """What was free after an event, and the sizes of its chunks."""
    chunk = host.fragmentation
    if not host.events.has(FREE)[i]:
        return ", as far as known: the allocator does not record what is free"
    free, low, high = (
        int(column[i]) for column in (host.events.free_bytes, chunk.largest_free_low, chunk.largest_free_high)
    )
    if host.memory.of_torch:
        return f": {size_text(free)} were free of what it keeps, and it takes more of the device as it is needed"
    text = f": {size_text(free)} were free"
    if chunk.grows[host.allocator[i]]:
        left = int(not_taken_bytes(host.events, chunk)[i])
        return f"{text}, {f'at least {size_text(left)}' if left >= 0 else 'some'} of it not yet taken from the device"
    if low < 0 or high < 0:
        return f"{text}, in chunks of unknown size"
    return f"{text}, the largest chunk had {_range(low, high)}"


def _over_time(fits: Fits, allocator: int) -> str:
    """For how much of the time between the snapshots, and from when never again."""
    mine = np.flatnonzero(fits.allocator == allocator)
    answer, start = fits.answer[fits.first[mine]], fits.start_ps[mine]
    lengths = (fits.end_ps[mine] - start).astype(np.float64)
    total = float(lengths.sum())
    if not total > 0:
        return ""
    parts = [
        f"{words} for {_percent(float(lengths[answer == kind].sum()) / total)}"
        for kind, words in _FITS
        if (answer == kind).any()
    ]
    sentence = f" From the first snapshot to the last {', '.join(parts)} of the time"
    if answer[-1] == NO and len(mine) > 1:
        sentence += f", no more from {moment_text(int(start[-1]))} on"
    return sentence + "."


def _percent(share: float) -> str:
    """Only 0 and 1 are written as 0.0 % and 100.0 %."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    return "more than 99.9 %" if 0.9995 < share < 1 else f"{100 * share:.1f} %"
