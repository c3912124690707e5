"""The tables of the memory profile, from what is computed of each host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.memory import live_set, matching
from fastprof.derive.memory.host_memory import MemoryFigures, added, held_before, tightest
from fastprof.derive.memory.lifetimes import lifetime_ps
from fastprof.derive.memory.live_groups import LiveGroups, wasted_by_allocator, wasted_bytes
from fastprof.derive.memory.live_set import LiveSets
from fastprof.derive.memory.memory_events import (
    ADDRESS,
    ALLOCATION,
    FREE,
    HEAP,
    LIFETIME_PEAK,
    REQUESTED,
    STACK,
    MemoryEvents,
    first_of_most,
    highest_fragmentation,
)
from fastprof.derive.memory.memory_over_time import Stretches, stretches
from fastprof.derive.memory.memory_schemas import TABLES
from fastprof.derive.memory.request_fits import ANSWERS, Fits
from fastprof.derive.memory.table_parts import Known, Part, Text, table, values
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Bools, Int64s

MOMENTS: Final = ("peak", "most fragmented", "tightest", "at")
ACTIVITIES: Final = ("free", "allocation")
_SIZES = "the sizes of allocations"


def tables(hosts: Sequence[MemoryFigures]) -> dict[str, pa.Table]:
    """Every table, in the order of TABLES."""
    hosts = [host for host in hosts if len(host.events)]
    ranks = _ranks(hosts)
    asked = [host for host in hosts if host.active_at is not None]  # of all, or of none
    wanted = [host for host in hosts if host.fits is not None]  # likewise
    made: dict[str, Callable[[], pa.Table]] = {
        "allocators": lambda: _sorted("allocators", hosts, ranks, _allocators),
        "active_groups": lambda: _sorted("active_groups", hosts, ranks, lambda host: _groups(host, host.groups)),
        "active": lambda: _sorted("active", hosts, ranks, lambda host: _active(host, host.active)),
        "at": lambda: _sorted("at", asked, ranks, lambda host: _active(host, host.active_at)),
        "steps": lambda: _sorted("steps", hosts, ranks, _steps),
        "ops": lambda: _largest("ops", hosts, ranks, _ops, "allocated_bytes"),
        "growth": lambda: _largest("growth", hosts, ranks, _growth, "growth_bytes"),
        "fragmentation": lambda: _sorted("fragmentation", hosts, ranks, _fragmentation),
        "request": lambda: _sorted("request", wanted, ranks, lambda host: _request(host, host.fits)),
        "timeline": lambda: table(TABLES["timeline"], _timelines(hosts)),
        "snapshots": lambda: table(TABLES["snapshots"], [_snapshots(host) for host in hosts]),
        "allocations": lambda: table(TABLES["allocations"], [_allocations(host) for host in hosts]),
    }
    return {name: made[name]() for name in TABLES}


# ---- order

_PLACE = "allocator_place"
"""Beside the columns of a part: number of the allocator on its host."""


def _ranks(hosts: Sequence[MemoryFigures]) -> list[Int64s]:
    """The place of each allocator of each host among all of them, largest peak first."""
    if not hosts:
        return []
    peaks = np.concatenate([
        np.where(host.peak >= 0, host.events.ranked_in_use[host.peak], np.iinfo(np.int64).min) for host in hosts
    ])  # fmt: skip
    places = np.empty(len(peaks), np.int64)
    places[np.argsort(~peaks, kind="stable")] = np.arange(len(peaks))
    return np.split(places, np.cumsum([len(host.peak) for host in hosts])[:-1])


def _parts(
    hosts: Sequence[MemoryFigures], ranks: Sequence[Int64s], make: Callable[[MemoryFigures], Part]
) -> tuple[list[Part], Int64s]:
    """What each host has, and the rank of the allocator of each row."""
    parts = [make(host) for host in hosts]
    rank = [ranks[number][np.asarray(part[_PLACE])] for number, part in enumerate(parts)]
    return parts, np.concatenate(rank) if rank else np.zeros(0, np.int64)


def _sorted(
    name: str, hosts: Sequence[MemoryFigures], ranks: Sequence[Int64s], make: Callable[[MemoryFigures], Part]
) -> pa.Table:
    """Rows by allocator, largest peak first; those of an allocator as they are."""
    parts, rank = _parts(hosts, ranks, make)
    return table(TABLES[name], parts, np.argsort(rank, kind="stable"))


def _largest(
    name: str, hosts: Sequence[MemoryFigures], ranks: Sequence[Int64s], make: Callable[[MemoryFigures], Part], by: str
) -> pa.Table:
    """Rows by size, largest first; of equal ones by allocator."""
    parts, rank = _parts(hosts, ranks, make)
    size = values(parts, by) if parts else np.zeros(0, np.int64)
    return table(TABLES[name], parts, np.lexsort((rank, ~size)))


def _keys(host: MemoryFigures, allocator: npt.NDArray[Any]) -> dict[str, Any]:
    return {
        "host": Text([host.memory.host], np.zeros(len(allocator), np.int32)),
        "allocator": Text(host.memory.names, allocator),
        _PLACE: allocator,
    }


def _of_site(events: MemoryEvents, site: npt.NDArray[np.int32]) -> dict[str, Text]:
    """What memory is for; -1: not known."""
    names = events.sites.names
    return {
        "op_name": Text(names.op_name, site),
        "region_type": Text(names.region_type, site),
        "data_type": Text(names.data_type, site),
        "shape": Text(names.shape, site),
    }


# ---- allocators


def _allocators(host: MemoryFigures) -> Part:
    events, fate, peak = host.events, host.matches.fate, host.peak
    held = (fate == matching.HELD_AT_END) & events.is_allocation
    unsized = host.counts(held & ~events.has(ALLOCATION)) > 0
    there = peak >= 0
    free_known = events.has(FREE)[peak] & there
    known = host.in_use_known[peak] & there
    step, in_step = host.memory.steps.at(host.peak_ps)
    lifetime = first_of_most(events.lifetime_peak_bytes, events.bounds)
    high = highest_fragmentation(events, host.shown)
    capacity = added(host.in_use_bytes[peak], events.free_bytes[peak])
    before = held_before(host)
    wasted, asked = wasted_by_allocator(host.active.rows, len(peak))
    return {
        **_keys(host, np.arange(len(peak), dtype=np.int32)),
        "snapshot_count": host.counts(np.ones(len(events), np.bool_)),
        "allocation_count": host.counts(events.is_allocation),
        "free_count": host.counts(~events.is_allocation),
        "held_before_count": host.counts(fate == matching.HELD_BEFORE),
        "replaced_count": host.counts(fate == matching.REPLACED),
        "held_at_end_count": host.counts(held),
        "held_at_end_bytes": Known(_summed(host, held, events.allocation_bytes), ~unsized),
        "peak_bytes": Known(host.in_use_bytes[peak], known),
        "peak_ps": Known(host.peak_ps, known),
        "peak_step": Known(step, known & in_step),
        "stack_at_peak_bytes": Known(events.stack_bytes[peak], events.has(STACK)[peak] & there),
        "heap_at_peak_bytes": Known(events.heap_bytes[peak], events.has(HEAP)[peak] & there),
        "free_at_peak_bytes": Known(events.free_bytes[peak], free_known),
        "held_before_at_peak_bytes": Known(before, known),
        "wasted_at_peak_bytes": Known(wasted, known & asked),
        "fragmentation_at_peak": _finite(np.where(there, events.fragmentation[peak], np.nan)),
        "capacity_bytes": Known(capacity, known & free_known),
        "lifetime_peak_bytes": Known(events.lifetime_peak_bytes[lifetime], events.has(LIFETIME_PEAK)[lifetime]),
        "highest_fragmentation": _finite(np.where(high >= 0, events.fragmentation[high], np.nan)),
        "highest_fragmentation_ps": Known(events.start_ps[high], high >= 0),
    }


def _finite(numbers: npt.NDArray[np.float64]) -> Known:
    known = np.isfinite(numbers)
    return Known(np.where(known, numbers, 0.0), known)


def _summed(host: MemoryFigures, which: Bools, sizes: Int64s) -> Int64s:
    """[k] the sizes of the marked events, within the chosen steps."""
    which = host.within(which)
    return sums_by(host.allocator[which], sizes[which], len(host.events.allocators), _SIZES)


# ---- what is alive


def _active(host: MemoryFigures, found: LiveSets | None) -> Part:
    assert found is not None
    rows = found.rows
    counted_rows, sized = rows.count > 0, rows.total_bytes >= 0
    wasted = wasted_bytes(rows)
    alone = counted_rows & (rows.allocation_bytes >= 0)
    return {
        **_keys(host, rows.allocator),
        **_of_site(host.events, rows.site),
        "allocation_bytes": Known(rows.allocation_bytes, alone),
        "requested_bytes": Known(rows.requested_bytes, counted_rows & (rows.requested_bytes >= 0)),
        "count": Known(rows.count, counted_rows),
        "total_bytes": Known(rows.total_bytes, sized),
        "wasted_bytes": _not_negative(wasted),
        "share": _share(rows.total_bytes, found.in_use_bytes[rows.allocator]),
        "source": Text(live_set.SOURCES, rows.source),
    }


def _share(total: Int64s, in_use: Int64s) -> Known:
    with np.errstate(divide="ignore", invalid="ignore"):
        share = total / in_use.astype(np.float64)
    known = (total >= 0) & (in_use > 0) & (share >= 0) & (share <= 1)
    return Known(np.where(known, share, 0.0), known)


def _groups(host: MemoryFigures, found: LiveGroups) -> Part:
    asked = found.requested_bytes >= 0
    return {
        **_keys(host, found.allocator),
        "op_names": Text(found.names, found.name),
        "region_type": Text(found.regions, found.region),
        "data_type": Text(found.data_types, found.data_type),
        "op_count": Known(found.op_count, found.op_count > 0),
        "count": Known(found.count, found.count > 0),
        "total_bytes": _not_negative(found.total_bytes),
        "requested_bytes": Known(found.requested_bytes, asked),
        "wasted_bytes": Known(found.total_bytes - found.requested_bytes, asked),
        "share": _share(found.total_bytes, host.active.in_use_bytes[found.allocator]),
        "source": Text(live_set.SOURCES, found.source),
    }


# ---- steps and ops


def _steps(host: MemoryFigures) -> Part:
    found, steps, step = host.windows.rows, host.memory.steps, host.windows.window
    peak, begins, ends = found.peak, _in_use(host, found.first_snapshot), _in_use(host, found.last_snapshot)
    return {
        **_keys(host, host.windows.allocator),
        "step": steps.number[step],
        "start_ps": steps.start_ps[step],
        "duration_ps": steps.end_ps[step] - steps.start_ps[step],
        "peak_bytes": _in_use(host, peak),
        "peak_ps": Known(np.maximum(host.events.start_ps[peak], steps.start_ps[step]), peak >= 0),
        "begin_bytes": begins,
        "end_bytes": ends,
        "growth_bytes": Known(ends.values - begins.values, begins.known & ends.known),
        **{
            name: getattr(found, name)
            for name in ("allocation_count", "free_count", "allocated_bytes", "freed_bytes", "short_lived_bytes")
        },
    }


def _in_use(host: MemoryFigures, events: Int64s) -> Known:
    """After some events, -1: none."""
    return Known(host.in_use_bytes[events], (events >= 0) & host.in_use_known[events])


def _ops(host: MemoryFigures) -> Part:
    found = host.ops
    freed = found.lifetime_max_ps >= 0
    return {
        **_keys(host, found.allocator),
        "op_name": Text(host.events.sites.op_names, found.op),
        "largest_bytes": Known(found.largest_bytes, found.largest_bytes >= 0),
        **{name: Known(getattr(found, name), freed) for name in _LIFETIMES},
        **{name: getattr(found, name) for name in _OP_COLUMNS},
    }


_LIFETIMES = ("lifetime_min_ps", "lifetime_p50_ps", "lifetime_max_ps")
_OP_COLUMNS = (
    "count", "allocated_bytes", "requested_bytes", "held_at_end_count", "held_at_end_bytes", "short_lived_count",
    "short_lived_bytes",
)  # fmt: skip


def _growth(host: MemoryFigures) -> Part:
    found = host.growth
    rows = np.flatnonzero(found.growth_bytes > 0)
    return {
        **_keys(host, found.allocator[rows]),
        "op_name": Text(host.events.sites.op_names, found.op[rows]),
        "first_step_end_bytes": found.first_end_bytes[rows],
        "last_step_end_bytes": found.last_end_bytes[rows],
        **{
            name: getattr(found, name)[rows]
            for name in ("growth_bytes", "growth_per_step_bytes", "steps_grown", "step_count", "grows_steadily")
        },
    }


# ---- fragmentation


def _fragmentation(host: MemoryFigures) -> Part:
    """The moments of each allocator, as far as it has them."""
    events, none = host.events, np.full(len(host.peak), -1, np.int64)
    at = none if host.at is None else host.at
    moments = np.stack([host.peak, highest_fragmentation(events, host.shown), tightest(host), at], axis=1)
    allocator, moment = np.nonzero((moments >= 0) & events.has(FREE)[moments])
    i = moments[allocator, moment]
    wanted = host.fragmentation.next_largest[i]
    follows = wanted >= 0
    op = np.where(follows, events.sites.op_number[events.site[wanted]], -1)
    return {
        **_keys(host, allocator.astype(np.int32)),
        "moment": Text(MOMENTS, moment),
        "start_ps": np.where(moment == 0, host.peak_ps[allocator], events.start_ps[i]),
        **_chunks(host, i),
        "request_fits": _request_fits(host.fits, i),
        "next_largest_op": Text(events.sites.op_names, op),
        "next_largest_ps": Known(events.start_ps[wanted], follows),
        "taken_least_bytes": _not_negative(host.fragmentation.taken_low[i]),
        "taken_most_bytes": _not_negative(host.fragmentation.taken_high[i]),
        "known_free_bytes": host.fragmentation.known_free_bytes[i],
        "known_free_chunks": host.fragmentation.known_free_chunks[i],
    }


def _chunks(host: MemoryFigures, i: Int64s | slice) -> dict[str, Known]:
    """What is known of free chunks after some events."""
    events, found = host.events, host.fragmentation
    return {
        "free_bytes": Known(events.free_bytes[i], events.has(FREE)[i]),
        "fragmentation": _finite(events.fragmentation[i]),
        "largest_free_least_bytes": _not_negative(found.largest_free_low[i]),
        "largest_free_bytes": _not_negative(found.largest_free_high[i]),
        "next_largest_bytes": Known(found.next_largest_bytes[i], found.next_largest[i] >= 0),
        "too_small_least_bytes": _not_negative(found.too_small_least[i]),
        "too_small_most_bytes": _not_negative(found.too_small_most[i]),
    }


def _not_negative(sizes: Int64s) -> Known:
    return Known(sizes, sizes >= 0)


def _request_fits(fits: Fits | None, i: Int64s) -> Text:
    return Text(ANSWERS, np.full(len(i), -1) if fits is None else fits.answer[i])


def _request(host: MemoryFigures, found: Fits | None) -> Part:
    assert found is not None
    return {
        **_keys(host, found.allocator),
        "fits": Text(ANSWERS, found.answer[found.first]),
        "start_ps": found.start_ps,
        "duration_ps": found.end_ps - found.start_ps,
        "snapshot_count": found.snapshot_count,
        **{
            name: _not_negative(getattr(found, name))
            for name in ("least_free_bytes", "most_free_bytes", "largest_free_least_bytes", "largest_free_most_bytes")
        },
    }


# ---- over time


def _timelines(hosts: Sequence[MemoryFigures]) -> list[Part]:
    """Rows as of snapshots: by host, allocator and time."""
    parts, before = [], 0
    for host in hosts:
        found = stretches(host.events, host.shown)
        parts.append(_timeline(host, found, before))
        before += len(found.rows)
    return parts


def _timeline(host: MemoryFigures, found: Stretches, before: int) -> Part:
    """``before``: snapshots of the hosts before it."""
    events, most = host.events, found.most
    first, last = found.rows[found.first], found.rows[found.end - 1]
    return {
        **_keys(host, found.allocator),
        "start_ps": events.start_ps[first],
        "duration_ps": events.start_ps[last] - events.start_ps[first],
        "snapshot_count": found.end - found.first,
        "first_snapshot": found.first + before,
        "least_in_use_bytes": Known(np.where(found.is_known, found.least_bytes, 0), found.is_known),
        "most_in_use_bytes": Known(host.in_use_bytes[most], found.is_known),
        "last_in_use_bytes": Known(host.in_use_bytes[last], host.in_use_known[last]),
        "most_ps": events.start_ps[most],
        "stack_bytes": Known(events.stack_bytes[most], events.has(STACK)[most]),
        "heap_bytes": Known(events.heap_bytes[most], events.has(HEAP)[most]),
        "free_bytes": Known(events.free_bytes[most], events.has(FREE)[most]),
        "fragmentation": _finite(events.fragmentation[most]),
    }


# ---- every event


def _snapshots(host: MemoryFigures) -> Part:
    events = host.events
    step, in_step = host.step
    i = slice(None) if host.shown is None else np.flatnonzero(host.shown)
    return {
        **_keys(host, host.allocator[i]),
        "start_ps": events.start_ps[i],
        "step": Known(step[i], in_step[i]),
        "activity": Text(ACTIVITIES, events.is_allocation.view(np.uint8)[i]),
        **_of_site(events, host.site[i]),
        "requested_bytes": _requested(host, i),
        "allocation_bytes": _not_negative(matching.moved_bytes(events)[i]),
        "address": Known(events.address[i], events.has(ADDRESS)[i]),
        "stack_bytes": Known(events.stack_bytes[i], events.has(STACK)[i]),
        "heap_bytes": Known(events.heap_bytes[i], events.has(HEAP)[i]),
        "in_use_bytes": Known(host.in_use_bytes[i], host.in_use_known[i]),
        **_chunks(host, i),
        "lifetime_peak_bytes": Known(events.lifetime_peak_bytes[i], events.has(LIFETIME_PEAK)[i]),
    }


def _requested(host: MemoryFigures, i: Int64s | slice) -> Known:
    """The requested size; of a free that does not record it, that of its allocation."""
    events, partner = host.events, host.matches.partner
    sizes, known = events.requested_bytes, events.has(REQUESTED)
    lacking = np.flatnonzero(~known & ~events.is_allocation & (partner >= 0))
    if len(lacking):
        sizes, known, other = sizes.copy(), known.copy(), partner[lacking]
        sizes[lacking], known[lacking] = sizes[other], known[other]
    return Known(sizes[i], known[i])


def _allocations(host: MemoryFigures) -> Part:
    """Allocations, and frees without one, where each begins or is met first; of chosen steps those that begin or end
    within them."""
    events, matched = host.events, host.matches
    i = np.flatnonzero(events.is_allocation | (matched.partner < 0))
    if host.shown is not None:
        freed_by = matched.partner[i]
        i = i[host.shown[i] | (host.shown[freed_by] & (freed_by >= 0))]
    allocated = events.is_allocation[i]
    freed_by = np.where(allocated, matched.partner[i], i)
    freed = freed_by >= 0
    lifetime = lifetime_ps(events)[i]
    step, in_step = host.step
    return {
        **_keys(host, host.allocator[i]),
        **_of_site(events, host.site[i]),
        "allocation_bytes": _not_negative(matching.moved_bytes(events)[i]),
        "requested_bytes": Known(events.requested_bytes[i], events.has(REQUESTED)[i]),
        "address": Known(events.address[i], events.has(ADDRESS)[i]),
        "allocated_ps": Known(events.start_ps[i], allocated),
        "freed_ps": Known(events.start_ps[freed_by], freed),
        "lifetime_ps": Known(lifetime, allocated & (lifetime >= 0)),
        "allocated_step": Known(step[i], allocated & in_step[i]),
        "freed_step": Known(step[freed_by], freed & in_step[freed_by]),
        "fate": Text(matching.FATES, matched.fate[i]),
    }
