"""Remarks on memory: leaks, fragmentation, churn, exhaustion, requests, and why there may be nothing. Remarks on the
allocators of a host have weights, so that the heaviest of all hosts can be shown."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory import allocation_history
from fastprof.derive.memory.heap_state import (
    FROM_DEVICE,
    NO,
    OPEN,
    REASONS,
    YES,
    RequestFits,
    measure_not_taken,
    measure_wasted,
)
from fastprof.derive.memory.host_memory import HostOutline, MemoryFigures, find_kept_out, measure_held_before
from fastprof.derive.memory.memory_events import FREE, LIFETIME_PEAK, find_first_largest
from fastprof.schema.columns import Int64s, sum_by
from fastprof.wording.quantities import count_noun, format_moment, format_size

LEAK_STEPS: Final = 4
"""Fewest steps of growth that look like a leak."""
LEAK_SHARE: Final = 0.001
"""Smallest growth over all steps, as a share of the allocator's peak, that is reported."""
FAR_STEPS: Final = 100_000
"""Largest number of steps until an allocator is full that is reported."""
WASTED_SHARE, BEFORE_SHARE, STACK_SHARE = 0.1, 0.5, 0.5
"""Smallest shares of a peak that are reported as never requested, held before the capture, or stack."""
CHURN_COUNT, CHURN_SHARE = 1_000, 0.5
"""Fewest short-lived allocations, and their smallest share of all of an allocator, that are reported."""
FULL_SHARE: Final = 0.95
"""Share of its limit at which an allocator is nearly exhausted."""
MANY: Final = 1_000
"""Largest number of cases of a host that are counted."""
MOST_ALLOCATORS: Final = 4
"""Largest number of allocators with a remark on --request: those with the largest peaks."""

_ROUNDING: Final = (
    "is allocator rounding: allocators round requests up, and do not always split large chunks. See the column "
    "wasted_bytes of the active table for the owners."
)
_BEFORE: Final = (
    "was allocated before the capture, as weights usually are, so its use is unknown: capture the start of the "
    "program to see it."
)


class Case(NamedTuple):
    """Sentence with the name of an allocator between ``before`` and ``after``. ``weight``: importance; ``peak_bytes``:
    in use at the allocator's peak, 0 if unknown; ``op``: its subject; ``until_full``: see _describe_until_full."""

    weight: float
    allocator: str
    before: str
    after: str
    peak_bytes: int = 0
    op: str = ""
    until_full: str = ""

    def text(self, host: str | None) -> str:
        """Return the sentence. ``host``: host to name beside the allocator, or None if there is only one."""
        return f"{self.before}{self.allocator}{'' if host is None else f' of {host}'}{self.after}"


class Worst(NamedTuple):
    """The heaviest case of a kind, or None. ``weights``: of all cases, heaviest first."""

    case: Case | None
    weights: list[float]


class HostCases:
    """Cases of a host. ``peak_bytes``: the largest of all allocators. ``leaks``: heaviest first. ``of_peaks``: parts of
    peaks that were never requested, held before the capture, or stack. ``lost``: number of events without a
    counterpart. ``reasons``: numbers of allocators by place in REASONS. ``requests``: of the allocators with the
    largest peaks, ``request_count``: number of all. ``growing``: allocators that take more from the device; the case is
    about the heaviest, and "" if nothing is known."""

    def __init__(self, host: MemoryFigures) -> None:
        self.peak_bytes = int(_get_peaks(host).max(initial=0))
        self.leaks = _find_leaks(host)
        in_use, limit = host.in_use_bytes[host.peak], host.limit_bytes[host.peak]
        known = (host.peak >= 0) & host.in_use_known[host.peak] & host.limit_known[host.peak]
        known &= (in_use > 0) & (limit >= in_use)
        share = np.where(known, in_use / np.maximum(limit.astype(np.float64), 1), 0.0)
        share = np.where(share >= FULL_SHARE, share, 0.0)  # of its limit that each allocator has in use at its peak
        self.exhausted = _find_worst(host, share, _describe_exhausted)
        self.kept_out = _find_kept_out(host)
        self.of_peaks = [_find_part(host, *kind) for kind in _PARTS]
        short = sum_by(host.ops.allocator, host.ops.short_lived_count, len(host.events.allocators))
        every = host.counts(host.events.is_allocation)
        churning = np.flatnonzero((short >= CHURN_COUNT) & (short >= CHURN_SHARE * every))
        self.churn = _find_worst(host, short, _describe_churn, churning)
        self.lost = sum(
            int(host.within(host.matches.fate == kind).sum())
            for kind in (allocation_history.REPLACED, allocation_history.ALLOCATION_LOST)
        )
        self.reasons: list[int] = np.bincount(host.active.reason, minlength=len(REASONS)).tolist()
        self.growing = _find_growing(host)
        self.requests, self.request_count = _describe_requests(host)


def _get_peaks(host: MemoryFigures) -> Int64s:
    """Return memory in use at each allocator's peak, 0 without one."""
    return host.at_peak(host.in_use_bytes)


def _sort_heaviest(weights: npt.NDArray[Any], places: npt.NDArray[Any]) -> list[int]:
    """Return the places with a weight above 0, heaviest first."""
    places = places[weights[places] > 0]
    heaviest: list[int] = places[np.argsort(-weights[places], kind="stable")][:MANY].tolist()
    return heaviest


def _find_worst(
    host: MemoryFigures,
    weights: npt.NDArray[Any],
    sentence: Callable[[MemoryFigures, int, float], tuple[str, str]],
    places: npt.NDArray[Any] | None = None,
) -> Worst:
    """Find the heaviest case. ``weights``: by allocator; ``places``: the allocators that count, or None for all."""
    heaviest = _sort_heaviest(weights, np.arange(len(weights)) if places is None else places)
    if not heaviest:
        return Worst(None, [])
    first, weight = heaviest[0], float(weights[heaviest[0]])
    case = Case(weight, host.allocator_name(first), *sentence(host, first, weight))
    return Worst(case, [float(weights[place]) for place in heaviest])


def _format_size(size: Any) -> str:
    return format_size(int(size))


def _format_moment(time_ps: Any) -> str:
    return format_moment(int(time_ps))


# ---- leaks


def _find_leaks(host: MemoryFigures) -> list[Case]:
    grown = host.growth
    peak = host.in_use_bytes[host.peak][grown.allocator]
    rows = grown.grows_steadily & (grown.step_count >= LEAK_STEPS) & (grown.growth_bytes > LEAK_SHARE * peak)
    amounts = grown.growth_bytes * rows
    leaks = []
    for row in _sort_heaviest(amounts, np.arange(len(rows))):
        op, until_full = host.op_name(int(grown.op[row])), _describe_until_full(host, row)
        after = (
            f": {_format_size(grown.growth_bytes[row])} more at the end of the last of {int(grown.step_count[row])} "
            f"steps than of the first, and never less from step to step, as a leak does{until_full}."
        )
        allocator = int(grown.allocator[row])
        name, allocator_peak = host.allocator_name(allocator), int(_get_peaks(host)[allocator])
        before = f"{op} holds more and more memory of "
        leaks.append(Case(float(amounts[row]), name, before, after, allocator_peak, op, until_full))
    return leaks


def _describe_until_full(host: MemoryFigures, row: int) -> str:
    """Describe after how many more steps the peak of a step reaches the allocator's limit, at this pace; and work
    outside steps, if that needs more."""
    allocator = int(host.growth.allocator[row])
    pace, last = float(host.growth.growth_per_step_bytes[row]), int(host.windows.last_peak[allocator])
    left_bytes = host.limit_bytes - host.in_use_bytes
    if pace <= 0 or last < 0 or not host.limit_known[last] or left_bytes[last] / pace > FAR_STEPS:
        return ""
    in_use, free = int(host.in_use_bytes[last]), int(left_bytes[last])
    sentence = (
        f"; at this pace the peak of a step, {format_size(in_use)} in the last one, reaches the "
        f"{format_size(in_use + free)} that the allocator may use after {int(max(free, 0) / pace):,} more steps"
    )
    peak, peak_ps = int(host.peak[allocator]), int(host.peak_ps[allocator])
    if host.in_use_bytes[peak] <= in_use or host.about.steps.at(host.peak_ps[allocator : allocator + 1])[1][0]:
        return sentence
    sentence += (
        f". Work outside steps may run out of memory sooner: it had {_format_size(host.in_use_bytes[peak])} in use at "
        f"{format_moment(peak_ps)}"
    )
    if peak_ps >= host.about.steps.end_ps.max() and host.limit_known[peak]:  # after all growth
        sentence += f", which fits for {int(max(int(left_bytes[peak]), 0) / pace):,} more steps"
    return sentence


# ---- little left


def _describe_exhausted(host: MemoryFigures, allocator: int, share: float) -> tuple[str, str]:
    i = int(host.peak[allocator])
    return "", (
        f" is nearly exhausted: at its peak, at {_format_moment(host.peak_ps[allocator])}, "
        f"{100 * share:.1f} % of the {format_size(int(host.limit_bytes[i]))} that it may "
        "use were in use. The table active has the allocations alive at the peak. Requests that failed are not "
        "recorded: "
        "--request shows when their size would have fitted."
    )


def _find_kept_out(host: MemoryFigures) -> Worst:
    """Find the worst time of each allocator at which no chunk was large enough."""
    amounts = np.where(find_kept_out(host), host.events.free_bytes, 0)
    heaviest = _sort_heaviest(amounts, find_first_largest(amounts, host.events.bounds))
    if not heaviest:
        return Worst(None, [])
    i = heaviest[0]
    events, chunk = host.events, host.fragmentation
    wanted = int(chunk.next_largest[i])
    before = f"At {_format_moment(events.start_ps[i])} {_format_size(events.free_bytes[i])} of "
    after = (
        f" were free, but no chunk held the "
        f"{_format_size(chunk.next_largest_bytes[i])} that "
        f"{host.op_name(int(events.sites.op_number[events.site[wanted]]))} "
        f"asked for at {_format_moment(events.start_ps[wanted])}: the largest had at most "
        f"{_format_size(chunk.largest_free_high[i])}. Such fragmentation leads to out-of-memory errors; allocate "
        f"long-lived memory first, or let the driver join chunks (TF_GPU_ALLOCATOR=cuda_malloc_async, "
        "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async)."
    )
    case = Case(float(amounts[i]), host.allocator_name(int(host.allocator[i])), before, after)
    return Worst(case, [float(amounts[place]) for place in heaviest])


# ---- parts of peaks


def _find_part(
    host: MemoryFigures,
    amounts_of: Callable[[MemoryFigures], Int64s],
    least: float,
    cause: Callable[[MemoryFigures, int], str],
) -> Worst:
    in_use, amounts = _get_peaks(host).astype(np.float64), amounts_of(host)

    def sentence(host: MemoryFigures, allocator: int, weight: float) -> tuple[str, str]:
        share = int(amounts[allocator]) / weight
        return f"{100 * share:.0f} % of the memory in use at the peak of ", f" {cause(host, allocator)}"

    return _find_worst(host, in_use, sentence, np.flatnonzero((amounts > 0) & (amounts >= least * in_use)))


def _describe_stack(host: MemoryFigures, allocator: int) -> str:
    """Describe the stack: its purpose, the program that ran, and that the lifetime peak may lack it."""
    number, at = host.events.allocators[allocator], int(host.peak_ps[allocator])
    sentence = "is the stack: what the runtime reserves for compiled programs, whose ops this profile does not record."
    run = host.memory.modules.at(f"{host.about.hardware}:{number}", at)
    if run is not None:
        name, start = run
        sentence += (
            f" {name} ran then." if start <= at else f" The next program to run was {name}, at {format_moment(start)}."
        )
    events = host.events.of_allocator(allocator)
    lifetime = int(host.events.lifetime_peak_bytes[events].max())
    if host.events.has(LIFETIME_PEAK)[events].any() and lifetime < host.in_use_bytes[host.peak[allocator]]:
        sentence += f" The lifetime peak, {format_size(lifetime)}, counts the heap alone."
    return sentence


_PARTS: Final = (
    (lambda host: measure_wasted(host.active.rows, len(host.peak))[0], WASTED_SHARE, lambda *_: _ROUNDING),
    (measure_held_before, BEFORE_SHARE, lambda *_: _BEFORE),
    (lambda host: host.at_peak(host.events.stack_bytes), STACK_SHARE, _describe_stack),
)
"""Bytes of a part by allocator, their smallest share that is reported, and the cause."""


# ---- churn, growth


def _describe_churn(host: MemoryFigures, allocator: int, short: float) -> tuple[str, str]:
    ops = host.ops
    mine = np.flatnonzero(ops.allocator == allocator)
    most = int(mine[ops.short_lived_count[mine].argmax()])
    return f"{int(short):,} of {int(ops.count[mine].sum()):,} allocations of ", (
        f" are freed soon after; {host.op_name(int(ops.op[most]))} has most of these, "
        f"{int(ops.short_lived_count[most]):,}. See the table ops."
    )


def _find_growing(host: MemoryFigures) -> Worst:
    """Find the allocator that has taken most, of those that take memory on demand, each at its last event."""
    events, chunks = host.events, host.fragmentation
    last = (events.bounds[1:] - 1)[chunks.grows].tolist()
    if not last:
        return Worst(None, [])
    weights = sorted((float(events.heap_bytes[i]) for i in last), reverse=True)
    i = max(last, key=lambda place: float(events.heap_bytes[place]))
    before = after = ""
    low, high = int(chunks.taken_low[i]), int(chunks.taken_high[i])
    if low >= 0 and events.has(FREE)[i]:
        limit = format_size(int(events.heap_bytes[i]) + int(events.free_bytes[i]))
        before, after = ": ", f" has taken {_format_range(low, high)} by its last event, of the {limit} that it may"
    return Worst(Case(weights[0], host.allocator_name(int(host.allocator[i])), before, after), weights)


def _format_range(low: int, high: int) -> str:
    return format_size(high) if format_size(low) == format_size(high) else f"{format_size(low)} to {format_size(high)}"


# ---- requests

_WOULD = {
    NO: "would not have fitted",
    YES: "would have fitted",
    OPEN: "may have fitted",
    FROM_DEVICE: "would have fitted, if the device had as much left,",
}
_FITS = ((YES, "it fits"), (FROM_DEVICE, "it fits if the device has it"), (NO, "it does not fit"), (OPEN, "it may fit"))


def _describe_requests(host: MemoryFigures) -> tuple[list[Case], int]:
    """Describe whether a request of the size of --request would have fitted in the allocators with the largest peaks.
    Return also the number of allocators with a peak."""
    fits = host.fits
    if fits is None:
        return [], 0
    with_peak = [number for number, peak in enumerate(host.peak.tolist()) if peak >= 0]
    sizes = host.in_use_bytes[host.peak].tolist()
    largest = sorted(with_peak, key=lambda number: -sizes[number])[:MOST_ALLOCATORS]
    return [_describe_request(host, fits, number, sizes[number]) for number in largest], len(with_peak)


def _describe_request(host: MemoryFigures, fits: RequestFits, allocator: int, in_use_bytes: int) -> Case:
    peak, capacity = int(host.peak[allocator]), int(host.limit_bytes[host.peak[allocator]])
    if host.limit_known[peak] and capacity < fits.size:
        before, after = "is more than all that ", f" may use, {format_size(capacity)}."
    else:
        before = f"{_WOULD[int(fits.answer[peak])]} in "
        after = f" at its peak, at {_format_moment(host.peak_ps[allocator])}{_describe_chunks(host, peak)}."
        at = -1 if host.at is None else int(host.at[allocator])
        if at >= 0:
            would = _WOULD[int(fits.answer[at])].removesuffix(",")
            after += f" At the requested time it {would}{_describe_chunks(host, at)}."
        after += f"{_describe_over_time(fits, allocator)} See the table request."
    name = host.allocator_name(allocator)
    return Case(float(in_use_bytes), name, f"A request of {format_size(fits.size)} {before}", after, in_use_bytes)


def _describe_chunks(host: MemoryFigures, i: int) -> str:
    """Describe what was free after an event, and the sizes of its chunks."""
    chunk = host.fragmentation
    if not host.events.has(FREE)[i]:
        return ", as far as known: the allocator does not record free memory"
    free, low, high = (
        int(column[i]) for column in (host.events.free_bytes, chunk.largest_free_low, chunk.largest_free_high)
    )
    if host.about.of_torch:
        return f": {format_size(free)} of its reserved memory were free, and it reserves more on demand"
    text = f": {format_size(free)} were free"
    if chunk.grows[host.allocator[i]]:
        left = int(measure_not_taken(host.events, chunk)[i])
        return f"{text}, {f'at least {format_size(left)}' if left >= 0 else 'some'} of it not yet taken from the device"
    if low < 0 or high < 0:
        return f"{text}, in chunks of unknown size"
    return f"{text}, the largest chunk had {_format_range(low, high)}"


def _describe_over_time(fits: RequestFits, allocator: int) -> str:
    """Describe the share of time for each answer between the snapshots, and from when on the request no longer fits."""
    mine = np.flatnonzero(fits.allocator == allocator)
    answer, start = fits.answer[fits.first[mine]], fits.start_ps[mine]
    lengths = (fits.end_ps[mine] - start).astype(np.float64)
    total = float(lengths.sum())
    if not total > 0:
        return ""
    parts = [
        f"{words} for {_format_percent(float(lengths[answer == kind].sum()) / total)}"
        for kind, words in _FITS
        if (answer == kind).any()
    ]
    sentence = f" From the first snapshot to the last {', '.join(parts)} of the time"
    if answer[-1] == NO and len(mine) > 1:
        sentence += f", no more from {format_moment(int(start[-1]))} on"
    return sentence + "."


def _format_percent(share: float) -> str:
    """Format a share; only 0 and 1 are written as 0.0 % and 100.0 %."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    return "more than 99.9 %" if 0.9995 < share < 1 else f"{100 * share:.1f} %"


SMALL_SHARE: Final = 0.01
"""Share of the largest peak of all hosts below which peaks are not reported."""
MOST_OPS: Final = 3
"""Largest number of leaking ops in remarks; the table has the others."""
_ANY: Final = 2**63 - 1

NOT_RECORDED: Final = "the capture has no events MemoryAllocation or MemoryDeallocation"
NO_THREADS: Final = "the capture has no threads of hosts, plane /host:CPU, where allocators write events"
_LEVEL: Final = (
    "at host_tracer_level 2, the default, or above (tf.profiler.experimental.ProfilerOptions(host_tracer_level=2), "
    "jax.profiler.ProfileOptions().host_tracer_level = 2)"
)
_HOW: Final = {
    "GPU": f"TensorFlow and JAX GPU allocators write them {_LEVEL}, and only from the BFC allocator: not with "
    "TF_GPU_ALLOCATOR=cuda_malloc_async, nor with XLA_PYTHON_CLIENT_ALLOCATOR=platform or cuda_async. An allocation "
    "or free must happen while the profiler runs.",
    "TPU": f"The TPU runtime writes them {_LEVEL}, as the allocations of the program happen: profile its start, or a "
    "step that allocates.",
    "CPU_ONLY": "CPU allocators write none, unless TensorFlow runs with TF_CPU_ALLOCATOR_USE_BFC=true in its "
    f"environment and the profiler {_LEVEL}. JAX has no such allocator for CPUs.",
}


_OF_TORCH: Final = (
    "the capture has no PyTorch allocator events: record them with torch.profiler.profile(profile_memory=True)."
)


_OF_RUNS: Final = (
    "the file has no allocator records. The RunMetadata of a run with trace_level=RunOptions.FULL_TRACE has them."
)


Remark = tuple[str, str]
"""Severity and a sentence."""


class EventlessHost(NamedTuple):
    """Properties of a host without allocator events that show why; see HostOutline."""

    of_torch: bool
    of_runs: bool
    hardware: str
    has_host_plane: bool


def explain_none(hosts: Collection[EventlessHost]) -> Remark:
    """Explain why there is nothing, and what to switch on."""
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


class MemoryRemarks:
    """Remarks on hosts that are added one after the other. Only numbers of each host stay, and sentences that may be
    shown."""

    def __init__(self, at_ps: int | None) -> None:
        self._at_ps = at_ps
        self._hosts, self._peak_bytes = 0, 0
        self._leaks: dict[str, _OpLeaks] = {}
        self._exhausted, self._kept_out, self._churn, self._growing = (_HeaviestCase() for _ in range(4))
        self._of_peaks: list[_HeaviestCase] = []
        self._outside: tuple[int, HostOutline | None] = 0, None
        self._requests: list[tuple[str, Case]] = []
        self._request_count, self._lost = 0, 0
        self._reasons = [0] * len(REASONS)

    def add(self, about: HostOutline, cases: HostCases) -> None:
        name = about.host
        self._peak_bytes = max(self._peak_bytes, cases.peak_bytes)
        for number, case in enumerate(cases.leaks):
            self._leaks.setdefault(case.op, _OpLeaks()).add(self._hosts, number, case)
        self._exhausted.add(name, cases.exhausted)
        self._kept_out.add(name, cases.kept_out)
        if self._at_ps is not None and not about.begin_ps <= self._at_ps <= about.end_ps:
            count, first = self._outside
            self._outside = count + 1, first or about
        requests = [*self._requests, *((name, case) for case in cases.requests)]
        self._requests = sorted(requests, key=lambda request: -request[1].peak_bytes)[:MOST_ALLOCATORS]
        self._request_count += cases.request_count
        self._of_peaks = self._of_peaks or [_HeaviestCase() for _ in cases.of_peaks]
        for every, worst in zip(self._of_peaks, cases.of_peaks, strict=True):
            every.add(name, worst)
        self._churn.add(name, cases.churn)
        self._lost += cases.lost
        self._reasons = [before + more for before, more in zip(self._reasons, cases.reasons, strict=True)]
        self._growing.add(name, cases.growing)
        self._hosts += 1

    def all(self, leaks_of: Callable[[int], tuple[str, list[Case]]]) -> Iterator[Remark]:
        """Yield remarks, most urgent first. ``leaks_of``: returns the name and the leaks of a host, by its place among
        those added."""
        several, least = self._hosts > 1, SMALL_SHARE * self._peak_bytes
        # An op that leaks on several allocators is reported once, and on small allocators only if it fills them.
        by_op = sorted(leak for leaks in self._leaks.values() if (leak := leaks.heaviest(least)) is not None)
        for _, host, number, count in by_op[:MOST_OPS]:
            name, cases = leaks_of(host)
            text = cases[number].text(name if several else None)
            yield "recommendation", f"{text}{_format_others(count - 1)} See the table growth."
        yield from self._exhausted.remark("recommendation", several)
        yield from self._kept_out.remark("recommendation", several)
        outside_count, outside = self._outside
        if outside is not None and self._at_ps is not None:
            of = f" of {count_noun(outside_count, 'host', 'hosts')}" if several else ""
            yield (
                "warning",
                f"The requested time, {format_moment(self._at_ps)}, is outside of the capture{of}: "
                f"{outside.host} was captured from {format_moment(outside.begin_ps)} to "
                f"{format_moment(outside.end_ps)}.",
            )
        for name, case in self._requests:
            yield "info", case.text(name if several else None)
        if self._request_count > MOST_ALLOCATORS:
            more = count_noun(self._request_count - MOST_ALLOCATORS, "more allocator", "more allocators")
            yield "info", f"The table request has {more}."
        for every in self._of_peaks:
            yield from every.remark("info", several, least)
        yield from self._churn.remark("info", several)
        if self._lost:
            of = "1 allocation or free has" if self._lost == 1 else f"{self._lost:,} allocations and frees have"
            yield (
                "info",
                f"{of} no counterpart, though the address was used again: the capture lost events, or their order, so "
                f"some lifetimes and owners of memory are unknown.",
            )
        for reason, count in zip(REASONS, self._reasons, strict=True):
            if reason is not None and count:  # the peaks are known only in part
                which = count_noun(count, "allocator", "allocators")
                yield "info", f"Live allocations at the peak of {which} do not add up to the memory in use: {reason}."
        if self._growing.first is not None:
            name, case = self._growing.first
            many = count_noun(len(self._growing.weights), "allocator takes", "allocators take")
            taken = case.text(name if several else None) if case.before else ""
            yield (
                "info",
                f"{many} more memory from the device on demand{taken}. Fragmentation is relative to this memory, so "
                f"the largest free chunk and the memory in too small chunks are known only within bounds.",
            )


class _HeaviestCase:
    """The heaviest case of a kind, and the weights of all."""

    def __init__(self) -> None:
        self.first: tuple[str, Case] | None = None
        self.weights = array("d")

    def add(self, host: str, worst: Worst) -> None:
        if worst.case is not None and (self.first is None or worst.case.weight > self.first[1].weight):
            self.first = host, worst.case
        self.weights.extend(worst.weights)

    def remark(self, severity: str, several: bool, least: float = 0) -> Iterator[Remark]:
        """Yield the heaviest case, and how many others there are. ``least``: smallest weight of a case that counts."""
        if self.first is not None and self.first[1].weight >= least:
            name, case = self.first
            count = sum(weight >= least for weight in self.weights)
            yield severity, case.text(name if several else None) + _format_others(count - 1)


class _OpLeaks:
    """Leaks of an op, in the order of the hosts. ``_peak_bytes``: in use at the allocator's peak, or above any if the
    op fills it."""

    def __init__(self) -> None:
        self._weight, self._peak_bytes, self._host, self._number = array("d"), array("q"), array("q"), array("q")

    def add(self, host: int, number: int, case: Case) -> None:
        self._weight.append(case.weight)
        self._peak_bytes.append(_ANY if case.until_full else case.peak_bytes)
        self._host.append(host)
        self._number.append(number)

    def heaviest(self, least: float) -> tuple[float, int, int, int] | None:
        """Return a key that sorts the heaviest first: negative weight, host, place there, and the number of leaks that
        count."""
        some = [at for at, peak in enumerate(self._peak_bytes) if peak >= least]
        if not some:
            return None
        at = max(some, key=lambda at: self._weight[at])  # of equal ones the first
        return -self._weight[at], self._host[at], self._number[at], len(some)


def _format_others(count: int) -> str:
    return f" The same applies to {count_noun(count, 'other allocator', 'other allocators')}." if count else ""
