"""Whether a request of the size asked for would have fitted, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fastprof.derive.memory.host_memory import MemoryFigures
from fastprof.derive.memory.memory_events import FREE
from fastprof.derive.memory.request_fits import FROM_DEVICE, NO, OPEN, YES, Fits, not_taken_bytes
from fastprof.wording.quantities import counted, moment_text, size_text

MOST_ALLOCATORS = 4
"""Allocators in remarks: those with the largest peaks; the table has the others."""
_WOULD = {
    NO: "would not have fitted",
    YES: "would have fitted",
    OPEN: "may have fitted",
    FROM_DEVICE: "would have fitted, if the device had as much left,",
}
_FITS = ((YES, "it fits"), (FROM_DEVICE, "it fits if the device has it"), (NO, "it does not fit"), (OPEN, "it may fit"))


def request_remarks(hosts: Sequence[MemoryFigures]) -> Iterator[str]:
    """A sentence or more for each allocator."""
    found = [
        (-int(host.in_use_bytes[peak]), number, allocator)
        for number, host in enumerate(hosts)
        if host.fits is not None
        for allocator, peak in enumerate(host.peak.tolist())
        if peak >= 0
    ]
    for _, number, allocator in sorted(found)[:MOST_ALLOCATORS]:
        host = hosts[number]
        assert host.fits is not None
        yield _remark(host, host.fits, allocator, len(hosts) > 1)
    if len(found) > MOST_ALLOCATORS:
        yield f"The table request has {counted(len(found) - MOST_ALLOCATORS, 'more allocator', 'more allocators')}."


def _remark(host: MemoryFigures, fits: Fits, allocator: int, several: bool) -> str:
    peak = int(host.peak[allocator])
    capacity = int(host.in_use_bytes[peak]) + int(host.events.free_bytes[peak])
    if host.events.has(FREE)[peak] and capacity < fits.size:
        name = host.allocator_name(allocator, several)
        return f"A request of {size_text(fits.size)} is more than all that {name} may use, {size_text(capacity)}."
    return _at_moments(host, fits, allocator, several) + _over_time(fits, allocator) + " See the table request."


def _at_moments(host: MemoryFigures, fits: Fits, allocator: int, several: bool) -> str:
    peak = int(host.peak[allocator])
    at = -1 if host.at is None else int(host.at[allocator])
    sentence = (
        f"A request of {size_text(fits.size)} {_WOULD[int(fits.answer[peak])]} in "
        f"{host.allocator_name(allocator, several)} at its peak, "
        f"at {moment_text(int(host.peak_ps[allocator]))}{_why(host, peak)}."
    )
    if at >= 0:
        sentence += f" At the time asked for it {_WOULD[int(fits.answer[at])].removesuffix(',')}{_why(host, at)}."
    return sentence


def _why(host: MemoryFigures, i: int) -> str:
    """What was free after an event, and in how large chunks."""
    chunk = host.fragmentation
    if not host.events.has(FREE)[i]:
        return ", as far as known: the allocator does not record what is free"
    free, low, high = (
        int(column[i]) for column in (host.events.free_bytes, chunk.largest_free_low, chunk.largest_free_high)
    )
    text = f": {size_text(free)} were free"
    if chunk.grows[host.allocator[i]]:
        left = int(not_taken_bytes(host.events, chunk)[i])
        return f"{text}, {f'at least {size_text(left)}' if left >= 0 else 'some'} of it not yet taken from the device"
    if low < 0 or high < 0:
        return f"{text}, in chunks of unknown size"
    low_text, high_text = size_text(low), size_text(high)
    return f"{text}, the largest chunk had {low_text if low_text == high_text else f'{low_text} to {high_text}'}"


def _over_time(fits: Fits, allocator: int) -> str:
    """For how much of the time between the snapshots, and from when on never again."""
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
    """What is not all or nothing does not look like it."""
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    return "more than 99.9 %" if 0.9995 < share < 1 else f"{100 * share:.1f} %"
