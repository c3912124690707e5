"""What the memory of one host has that is worth saying: sentences about its allocators, each with its weight, so that
the heaviest of all hosts can be said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.memory import matching
from fastprof.derive.memory.alive import REASONS, wasted_by_allocator
from fastprof.derive.memory.fragmentation import FROM_DEVICE, NO, OPEN, YES, Fits, not_taken_bytes
from fastprof.derive.memory.host_memory import MemoryFigures, held_before, kept_out
from fastprof.derive.memory.memory_events import FREE, LIFETIME_PEAK, first_of_most
from fastprof.schema.array_types import Int64s
from fastprof.wording.quantities import moment_text, size_text

LEAK_STEPS: Final = 4
"""Fewest steps of growth that look like a leak."""
LEAK_SHARE: Final = 0.001
"""Least growth over all steps, as a share of the allocator's peak, that is reported."""
FAR_STEPS: Final = 100_000
"""An allocator that is full only after more steps than this is not reported."""
WASTED_SHARE, BEFORE_SHARE, STACK_SHARE = 0.1, 0.5, 0.5
"""Least shares of a peak that are reported as never asked for, held before the capture, or stack."""
CHURN_COUNT, CHURN_SHARE = 1_000, 0.5
"""Fewest short-lived allocations, and their least share of all of an allocator, that are reported."""
FULL_SHARE: Final = 0.95
"""Share of its limit at which an allocator is nearly exhausted."""
MANY: Final = 1_000
"""Cases of a host that are counted."""
MOST_ALLOCATORS: Final = 4
"""Allocators with a remark on --request: those with the largest peaks."""

_NEVER_ASKED_FOR: Final = (
    "was never asked for: chunks are larger than requests, which are rounded up, and large chunks not always split. "
    "The column wasted_bytes of the table active has whose."
)
_BEFORE: Final = (
    "was allocated before the capture, as weights are as a rule, so its use is unknown: capture the start of the "
    "program to see it."
)


class Case(NamedTuple):
    """A sentence: what stands before the name of the allocator and after it. ``weight``: importance; ``peak_bytes``: in
    use at the allocator's peak, 0: unknown; ``op``: that it is about; ``until_full``: see _until_full."""

    weight: float
    allocator: str
    before: str
    after: str
    peak_bytes: int = 0
    op: str = ""
    until_full: str = ""

    def text(self, host: str | None) -> str:
        """``host``: named beside the allocator; None: there is only one."""
        return f"{self.before}{self.allocator}{'' if host is None else f' of {host}'}{self.after}"


class Worst(NamedTuple):
    """The heaviest case of a kind, None: there is none. ``weights``: of all, heaviest first."""

    case: Case | None
    weights: list[float]


class HostCases:
    """``peak_bytes``: the largest of all allocators. ``leaks``: heaviest first. ``of_peaks``: parts of peaks that were
    never asked for, held before the capture, or stack. ``lost``: events without a counterpart. ``reasons``: allocators
    by place in REASONS. ``requests``: of the allocators with the largest peaks, ``request_count``: of all.
    ``growing``: allocators that take more from the device; its case is about the heaviest, "" if nothing is known."""

    def __init__(self, host: MemoryFigures) -> None:
        self.peak_bytes = int(_peaks(host).max(initial=0))
        self.leaks = _leaks(host)
        self.exhausted = _worst(host, _exhausted_share(host), _exhausted)
        self.kept_out = _of_kept_out(host)
        self.of_peaks = [_part(host, *kind) for kind in _PARTS]
        self.churn = _churning(host)
        self.lost = sum(
            int(host.within(host.matches.fate == kind).sum()) for kind in (matching.REPLACED, matching.ALLOCATION_LOST)
        )
        self.reasons: list[int] = np.bincount(host.active.reason, minlength=len(REASONS)).tolist()
        self.growing = _growing(host)
        self.requests, self.request_count = _requests(host)


def _peaks(host: MemoryFigures) -> Int64s:
    """[k] in use at the peak, 0 without one."""
    return host.at_peak(host.in_use_bytes)


def _heaviest(weights: npt.NDArray[Any], places: npt.NDArray[Any]) -> list[int]:
    """Of some places those with a weight above 0, heaviest first."""
    places = places[weights[places] > 0]
    found: list[int] = places[np.argsort(-weights[places], kind="stable")][:MANY].tolist()
    return found


def _worst(
    host: MemoryFigures,
    weights: npt.NDArray[Any],
    sentence: Callable[[MemoryFigures, int, float], tuple[str, str]],
    places: npt.NDArray[Any] | None = None,
) -> Worst:
    """``weights``: by allocator; ``places``: the allocators that count, None: all."""
    heaviest = _heaviest(weights, np.arange(len(weights)) if places is None else places)
    if not heaviest:
        return Worst(None, [])
    first, weight = heaviest[0], float(weights[heaviest[0]])
    case = Case(weight, host.allocator_name(first), *sentence(host, first, weight))
    return Worst(case, [float(weights[place]) for place in heaviest])


def _size(size: Any) -> str:
    return size_text(int(size))


def _moment(time_ps: Any) -> str:
    return moment_text(int(time_ps))


# ---- leaks


def _leaks(host: MemoryFigures) -> list[Case]:
    grown = host.growth
    peak = host.in_use_bytes[host.peak][grown.allocator]
    rows = grown.grows_steadily & (grown.step_count >= LEAK_STEPS) & (grown.growth_bytes > LEAK_SHARE * peak)
    amounts = grown.growth_bytes * rows
    return [_leak(host, row, float(amounts[row])) for row in _heaviest(amounts, np.arange(len(rows)))]


def _leak(host: MemoryFigures, row: int, weight: float) -> Case:
    grown, op, until_full = host.growth, host.op_name(int(host.growth.op[row])), _until_full(host, row)
    allocator = int(grown.allocator[row])
    after = (
        f": {_size(grown.growth_bytes[row])} more at the end of the last of {int(grown.step_count[row])} "
        f"steps than of the first, and never less from step to step, as a leak does{until_full}."
    )
    name, peak = host.allocator_name(allocator), int(_peaks(host)[allocator])
    return Case(weight, name, f"{op} holds more and more memory of ", after, peak, op, until_full)


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
    if host.in_use_bytes[peak] <= in_use or host.about.steps.at(host.peak_ps[allocator : allocator + 1])[1][0]:
        return sentence
    sentence += (
        f". What runs outside of steps may fail sooner: it had {_size(host.in_use_bytes[peak])} in use at "
        f"{moment_text(peak_ps)}"
    )
    if peak_ps >= host.about.steps.end_ps.max() and host.limit_known[peak]:  # after all growth
        sentence += f", which fits for {int(max(int(left_bytes[peak]), 0) / pace):,} more steps"
    return sentence


# ---- little left


def _exhausted_share(host: MemoryFigures) -> npt.NDArray[Any]:
    """[k] the share of its limit that an allocator has in use at its peak, 0 if it is not nearly exhausted."""
    in_use, limit = host.in_use_bytes[host.peak], host.limit_bytes[host.peak]
    known = (host.peak >= 0) & host.in_use_known[host.peak] & host.limit_known[host.peak]
    known &= (in_use > 0) & (limit >= in_use)
    share = np.where(known, in_use / np.maximum(limit.astype(np.float64), 1), 0.0)
    return np.where(share >= FULL_SHARE, share, 0.0)


def _exhausted(host: MemoryFigures, allocator: int, share: float) -> tuple[str, str]:
    i = int(host.peak[allocator])
    return "", (
        f" is nearly exhausted: at its peak, at {_moment(host.peak_ps[allocator])}, "
        f"{100 * share:.1f} % of the {size_text(int(host.limit_bytes[i]))} that it may "
        "use were in use. The table active has what was alive then. Requests that failed are not recorded: "
        "--request shows when their size would have fitted."
    )


def _of_kept_out(host: MemoryFigures) -> Worst:
    """The worst moment of each allocator at which no chunk was large enough."""
    amounts = np.where(kept_out(host), host.events.free_bytes, 0)
    heaviest = _heaviest(amounts, first_of_most(amounts, host.events.bounds))
    if not heaviest:
        return Worst(None, [])
    i = heaviest[0]
    case = Case(float(amounts[i]), host.allocator_name(int(host.allocator[i])), *_kept_out(host, i))
    return Worst(case, [float(amounts[place]) for place in heaviest])


def _kept_out(host: MemoryFigures, i: int) -> tuple[str, str]:
    events, chunk = host.events, host.fragmentation
    wanted = int(chunk.next_largest[i])
    return f"At {_moment(events.start_ps[i])} {_size(events.free_bytes[i])} of ", (
        f" were free, but no chunk held the "
        f"{_size(chunk.next_largest_bytes[i])} that {host.op_name(int(events.sites.op_number[events.site[wanted]]))} "
        f"asked for at {_moment(events.start_ps[wanted])}: the largest had at most "
        f"{_size(chunk.largest_free_high[i])}. Such fragmentation ends in out-of-memory errors; allocate what lives "
        "long first, or let the driver join chunks (TF_GPU_ALLOCATOR=cuda_malloc_async, "
        "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async)."
    )


# ---- parts of peaks


def _part(
    host: MemoryFigures,
    amounts_of: Callable[[MemoryFigures], Int64s],
    least: float,
    cause: Callable[[MemoryFigures, int], str],
) -> Worst:
    in_use, amounts = _peaks(host).astype(np.float64), amounts_of(host)

    def sentence(host: MemoryFigures, allocator: int, weight: float) -> tuple[str, str]:
        share = int(amounts[allocator]) / weight
        return f"{100 * share:.0f} % of the memory in use at the peak of ", f" {cause(host, allocator)}"

    return _worst(host, in_use, sentence, np.flatnonzero((amounts > 0) & (amounts >= least * in_use)))


def _wasted(host: MemoryFigures) -> Int64s:
    return wasted_by_allocator(host.active.rows, len(host.peak))[0]


def _stack(host: MemoryFigures) -> Int64s:
    return host.at_peak(host.events.stack_bytes)


def _of_stack(host: MemoryFigures, allocator: int) -> str:
    """What the stack is, which program ran, and that the lifetime peak may lack it."""
    number, at = host.events.allocators[allocator], int(host.peak_ps[allocator])
    sentence = "is the stack: what the runtime reserves for compiled programs, whose ops this profile does not record."
    run = host.memory.modules.at(f"{host.about.hardware}:{number}", at)
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


_PARTS: Final = (
    (_wasted, WASTED_SHARE, lambda *_: _NEVER_ASKED_FOR),
    (held_before, BEFORE_SHARE, lambda *_: _BEFORE),
    (_stack, STACK_SHARE, _of_stack),
)
"""The bytes of a part by allocator, their least share that is reported, and why."""


# ---- churn, growth


def _churning(host: MemoryFigures) -> Worst:
    short = np.zeros(len(host.events.allocators), np.int64)
    np.add.at(short, host.ops.allocator, host.ops.short_lived_count)
    every = host.counts(host.events.is_allocation)
    return _worst(host, short, _churn, np.flatnonzero((short >= CHURN_COUNT) & (short >= CHURN_SHARE * every)))


def _churn(host: MemoryFigures, allocator: int, short: float) -> tuple[str, str]:
    ops = host.ops
    mine = np.flatnonzero(ops.allocator == allocator)
    most = int(mine[ops.short_lived_count[mine].argmax()])
    return f"{int(short):,} of {int(ops.count[mine].sum()):,} allocations of ", (
        f" are freed soon after; {host.op_name(int(ops.op[most]))} has most of these, "
        f"{int(ops.short_lived_count[most]):,}. See the table ops."
    )


def _growing(host: MemoryFigures) -> Worst:
    last = (host.events.bounds[1:] - 1)[host.fragmentation.grows].tolist()
    weights = sorted((float(host.events.heap_bytes[i]) for i in last), reverse=True)
    if not last:
        return Worst(None, [])
    i = max(last, key=lambda place: float(host.events.heap_bytes[place]))
    return Worst(Case(weights[0], host.allocator_name(int(host.allocator[i])), *_taken(host, i)), weights)


def _taken(host: MemoryFigures, i: int) -> tuple[str, str]:
    """What an allocator has taken at its last event."""
    low, high = int(host.fragmentation.taken_low[i]), int(host.fragmentation.taken_high[i])
    if low < 0 or not host.events.has(FREE)[i]:
        return "", ""
    limit = int(host.events.heap_bytes[i]) + int(host.events.free_bytes[i])
    return ": ", f" has taken {_range(low, high)} by its last event, of the {size_text(limit)} that it may"


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


def _requests(host: MemoryFigures) -> tuple[list[Case], int]:
    """Whether a request of the size of --request would have fitted in the allocators with the largest peaks, and how
    many have one."""
    fits = host.fits
    if fits is None:
        return [], 0
    with_peak = [number for number, peak in enumerate(host.peak.tolist()) if peak >= 0]
    sizes = host.in_use_bytes[host.peak].tolist()
    largest = sorted(with_peak, key=lambda number: -sizes[number])[:MOST_ALLOCATORS]
    return [_request(host, fits, number, sizes[number]) for number in largest], len(with_peak)


def _request(host: MemoryFigures, fits: Fits, allocator: int, in_use_bytes: int) -> Case:
    peak, capacity = int(host.peak[allocator]), int(host.limit_bytes[host.peak[allocator]])
    if host.limit_known[peak] and capacity < fits.size:
        before, after = "is more than all that ", f" may use, {size_text(capacity)}."
    else:
        before = f"{_WOULD[int(fits.answer[peak])]} in "
        after = f" at its peak, at {_moment(host.peak_ps[allocator])}{_why(host, peak)}."
        after += f"{_when_asked(host, fits, allocator)}{_over_time(fits, allocator)} See the table request."
    name = host.allocator_name(allocator)
    return Case(float(in_use_bytes), name, f"A request of {size_text(fits.size)} {before}", after, in_use_bytes)


def _when_asked(host: MemoryFigures, fits: Fits, allocator: int) -> str:
    at = -1 if host.at is None else int(host.at[allocator])
    if at < 0:
        return ""
    return f" At the time asked for it {_WOULD[int(fits.answer[at])].removesuffix(',')}{_why(host, at)}."


def _why(host: MemoryFigures, i: int) -> str:
    """What was free after an event, and the sizes of its chunks."""
    chunk = host.fragmentation
    if not host.events.has(FREE)[i]:
        return ", as far as known: the allocator does not record what is free"
    free, low, high = (
        int(column[i]) for column in (host.events.free_bytes, chunk.largest_free_low, chunk.largest_free_high)
    )
    if host.about.of_torch:
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
