"""The tables of the memory profile, from what is computed of each host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.memory import live_set, matching
from fastprof.memory.host_memory import MemoryFigures, added, first_of_most, tightest
from fastprof.memory.in_use import highest_fragmentation
from fastprof.memory.lifetimes import lifetime_ps
from fastprof.memory.live_set import LiveSets
from fastprof.memory.memory_events import ADDRESS, ALLOCATION, FREE, HEAP, LIFETIME_PEAK, REQUESTED, STACK, MemoryEvents
from fastprof.memory.memory_schemas import TABLES
from fastprof.memory.table_parts import Known, Part, Text, table, values
from fastprof.op_metrics.tables import sums_by

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOMENTS: Final = ("peak", "most fragmented", "tightest", "at")
ACTIVITIES: Final = ("free", "allocation")
_SIZES = "the sizes of allocations"


def tables(hosts: Sequence[MemoryFigures]) -> dict[str, pa.Table]:
    """Every table, in the order of TABLES."""
    hosts = [host for host in hosts if len(host.events)]
    ranks = _ranks(hosts)
    asked = [host for host in hosts if host.active_at is not None]  # of all, or of none
    made: dict[str, Callable[[], pa.Table]] = {
        "allocators": lambda: _sorted("allocators", hosts, ranks, _allocators),
        "active": lambda: _sorted("active", hosts, ranks, lambda host: _active(host, host.active)),
        "at": lambda: _sorted("at", asked, ranks, lambda host: _active(host, host.active_at)),
        "steps": lambda: _sorted("steps", hosts, ranks, _steps),
        "ops": lambda: _largest("ops", hosts, ranks, _ops, "allocated_bytes"),
        "growth": lambda: _largest("growth", hosts, ranks, _growth, "growth_bytes"),
        "fragmentation": lambda: _sorted("fragmentation", hosts, ranks, _fragmentation),
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
    peaks = np.concatenate([host.in_use_bytes[host.peak] for host in hosts])
    places = np.empty(len(peaks), np.int64)
    places[np.argsort(-peaks.astype(np.float64), kind="stable")] = np.arange(len(peaks))
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
        "allocator": Text(host.events.allocators, allocator),
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
    free_known = events.has(FREE)[peak]
    known = host.in_use_known[peak]
    step, in_step = host.step
    lifetime = first_of_most(events.lifetime_peak_bytes, events.bounds)
    high = highest_fragmentation(events)
    capacity = added(host.in_use_bytes[peak], events.free_bytes[peak])
    return {
        **_keys(host, np.arange(len(peak), dtype=np.int32)),
        "snapshot_count": np.diff(events.bounds),
        "allocation_count": host.counts(events.is_allocation),
        "free_count": host.counts(~events.is_allocation),
        "held_before_count": host.counts(fate == matching.HELD_BEFORE),
        "replaced_count": host.counts(fate == matching.REPLACED),
        "held_at_end_count": host.counts(held),
        "held_at_end_bytes": Known(_summed(host, held, events.allocation_bytes), ~unsized),
        "peak_bytes": Known(host.in_use_bytes[peak], known),
        "peak_ps": Known(events.start_ps[peak], known),
        "peak_step": Known(step[peak], known & in_step[peak]),
        "stack_at_peak_bytes": Known(events.stack_bytes[peak], events.has(STACK)[peak]),
        "heap_at_peak_bytes": Known(events.heap_bytes[peak], events.has(HEAP)[peak]),
        "free_at_peak_bytes": Known(events.free_bytes[peak], free_known),
        "fragmentation_at_peak": _finite(events.fragmentation[peak]),
        "capacity_bytes": Known(capacity, known & free_known),
        "lifetime_peak_bytes": Known(events.lifetime_peak_bytes[lifetime], events.has(LIFETIME_PEAK)[lifetime]),
        "highest_fragmentation": _finite(np.where(high >= 0, events.fragmentation[high], np.nan)),
        "highest_fragmentation_ps": Known(events.start_ps[high], high >= 0),
    }


def _finite(numbers: npt.NDArray[np.float64]) -> Known:
    known = np.isfinite(numbers)
    return Known(np.where(known, numbers, 0.0), known)


def _summed(host: MemoryFigures, which: Bools, sizes: Int64s) -> Int64s:
    """[k] the sizes of the marked events."""
    return sums_by(host.allocator[which], sizes[which], len(host.events.allocators), _SIZES)


# ---- what is alive


def _active(host: MemoryFigures, found: LiveSets | None) -> Part:
    assert found is not None
    rows, in_use = found.rows, found.in_use_bytes[found.rows.allocator]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = rows.total_bytes / in_use.astype(np.float64)
    told, sized = rows.count > 0, rows.total_bytes >= 0
    shared = sized & (in_use > 0) & (share >= 0) & (share <= 1)
    alone = told & (rows.allocation_bytes >= 0)
    return {
        **_keys(host, rows.allocator),
        **_of_site(host.events, rows.site),
        "allocation_bytes": Known(rows.allocation_bytes, alone),
        "requested_bytes": Known(rows.requested_bytes, told & (rows.requested_bytes >= 0)),
        "count": Known(rows.count, told),
        "total_bytes": Known(rows.total_bytes, sized),
        "share": Known(np.where(shared, share, 0.0), shared),
        "source": Text(live_set.SOURCES, rows.source),
    }


# ---- steps and ops


def _steps(host: MemoryFigures) -> Part:
    found, steps = host.windows, host.memory.steps
    allocator, step = np.nonzero(found.allocation_count + found.free_count)
    begin, end, peak = (column[allocator, step] for column in (found.first_snapshot, found.last_snapshot, found.peak))
    begins, ends = _in_use(host, begin), _in_use(host, end)
    return {
        **_keys(host, allocator.astype(np.int32)),
        "step": steps.number[step],
        "start_ps": steps.start_ps[step],
        "duration_ps": steps.end_ps[step] - steps.start_ps[step],
        "peak_bytes": _in_use(host, peak),
        "peak_ps": Known(np.maximum(host.events.start_ps[peak], steps.start_ps[step]), peak >= 0),
        "begin_bytes": begins,
        "end_bytes": ends,
        "growth_bytes": Known(ends.values - begins.values, begins.known & ends.known),
        **{
            name: getattr(found, name)[allocator, step]
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
    moments = np.stack([host.peak, highest_fragmentation(events), tightest(host), at], axis=1)
    allocator, moment = np.nonzero((moments >= 0) & events.has(FREE)[moments])
    i = moments[allocator, moment]
    wanted = host.fragmentation.next_largest[i]
    follows = wanted >= 0
    op = np.where(follows, events.sites.op_number[events.site[wanted]], -1)
    return {
        **_keys(host, allocator.astype(np.int32)),
        "moment": Text(MOMENTS, moment),
        "start_ps": events.start_ps[i],
        **_chunks(host, i),
        "next_largest_op": Text(events.sites.op_names, op),
        "next_largest_ps": Known(events.start_ps[wanted], follows),
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


# ---- every event


def _snapshots(host: MemoryFigures) -> Part:
    events, partner = host.events, host.matches.partner
    step, in_step = host.step
    return {
        **_keys(host, host.allocator),
        "start_ps": events.start_ps,
        "step": Known(step, in_step),
        "activity": Text(ACTIVITIES, events.is_allocation.view(np.uint8)),
        **_of_site(events, host.site),
        "requested_bytes": _requested(events, partner),
        "allocation_bytes": _not_negative(matching.moved_bytes(events)),
        "address": Known(events.address, events.has(ADDRESS)),
        "stack_bytes": Known(events.stack_bytes, events.has(STACK)),
        "heap_bytes": Known(events.heap_bytes, events.has(HEAP)),
        "in_use_bytes": Known(host.in_use_bytes, host.in_use_known),
        **_chunks(host, slice(None)),
        "lifetime_peak_bytes": Known(events.lifetime_peak_bytes, events.has(LIFETIME_PEAK)),
    }


def _requested(events: MemoryEvents, partner: npt.NDArray[np.int32]) -> Known:
    """What was asked for; of a free that does not tell it, for its allocation."""
    sizes, known = events.requested_bytes, events.has(REQUESTED)
    lacking = np.flatnonzero(~known & ~events.is_allocation & (partner >= 0))
    if len(lacking):
        sizes, known, other = sizes.copy(), known.copy(), partner[lacking]
        sizes[lacking], known[lacking] = sizes[other], known[other]
    return Known(sizes, known)


def _allocations(host: MemoryFigures) -> Part:
    """Allocations, and frees without one, where each begins or is met first."""
    events, matched = host.events, host.matches
    i = np.flatnonzero(events.is_allocation | (matched.partner < 0))
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
