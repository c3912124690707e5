"""XProf's page memory_profile: at most 1,000 snapshots of each allocator, and live memory at the peak.

XProf's own order holds here: snapshots are sorted by their offset within their line, whatever the line began with, and
the summary is made in the order of the capture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native.kernels import rank_order
from fastprof._native.memory_kernels import HELD_AT_END
from fastprof.analyses.accumulation import LazyHostValues
from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.memory import memory_events as recorded
from fastprof.derive.memory.allocation_history import match_frees
from fastprof.derive.memory.host_memory import HostMemory, ModuleRuns
from fastprof.derive.memory.memory_events import INVALID, MemoryEvents, format_data_type
from fastprof.derive.memory.session_memory import HostMemoryState
from fastprof.schema.columns import Int32s, Int64s, count_bounds, find_group_bounds, number_owners, sort_rows

MOST_SNAPSHOTS = 1000
_KEPT_IN_ORDER = 16
"""Number of equal snapshots up to which XProf's sort keeps their order."""
VERSION = 1
ACTIVITY = ("DEALLOCATION", "ALLOCATION")
Json = dict[str, Any]


def answer(report: AnalysisReport) -> object:
    """Make the page of a single host, or an object of pages by host."""
    hosts: LazyHostValues[HostMemoryState] = report.detail_as(LazyHostValues)
    if len(hosts) == 1:
        return _make_page(hosts[0].value())
    return {host.about.host: _make_page(host.value()) for host in hosts}


def _make_page(host: HostMemory) -> Json:
    """Make a page, which is empty if the host has no plane of threads."""
    if not host.about.has_host_plane:
        return {}
    events = host.chosen_events()
    return {
        "memoryProfilePerAllocator": _Pages(_Snapshots(events)).all() if len(events) else {},
        "numHosts": 1,
        "memoryIds": list(events.allocators),
        "version": VERSION,
        "hloModules": _list_modules(host.modules),
    }


def _list_modules(runs: ModuleRuns) -> list[Json]:
    ends = runs.offset_ps + runs.duration_ps
    rows = zip(*(column.tolist() for column in (runs.name, runs.plane, runs.offset_ps, ends)), strict=True)
    return [
        {"name": runs.names[name], "startTimePs": str(start), "endTimePs": str(end), "id": str(number),
         "planeName": runs.planes[plane]}
        for number, (name, plane, start, end) in enumerate(rows)
    ]  # fmt: skip


class _Snapshots:
    """The snapshots of a host as XProf reads them, by allocator and offset.

    ``bounds``: int64[k + 1], where those of each of k allocators begin. All other arrays are beside the n snapshots:
    ``step``: the group, else one more than that of the last snapshot with a group; ``used``: bytes of stack and
    heap."""

    def __init__(self, events: MemoryEvents) -> None:
        self.events = events
        self.bounds = events.bounds
        self.count = np.diff(events.bounds)
        self.allocator = number_owners(self.count)
        self._order = self._in_order()
        self.offset = self._sorted(events.offset_ps)
        self.row = self._sorted(events.row)
        self.is_allocation = self._sorted(events.is_allocation)
        self.site = self._sorted(self._sites())
        self.address = self._read(events.address, recorded.ADDRESS)
        self.requested = self._read(events.requested_bytes, recorded.REQUESTED)
        self.size = self._read(events.allocation_bytes, recorded.ALLOCATION)
        self.stack = self._read(events.stack_bytes, recorded.STACK)
        self.heap = self._read(events.heap_bytes, recorded.HEAP)
        self.used = self.stack + self.heap
        self.free = self._read(events.free_bytes, recorded.FREE)
        self.lifetime_peak = self._read(events.lifetime_peak_bytes, recorded.LIFETIME_PEAK)
        fragmentation = np.where(events.has(recorded.FRAGMENTATION), events.fragmentation, 0.0)
        self.fragmentation = self._read(fragmentation, recorded.FRAGMENTATION)
        self.step = self._steps(self._sorted(events.group))

    def __len__(self) -> int:
        return len(self.offset)

    def _in_order(self) -> npt.NDArray[np.intp] | None:
        """Return the order, or None if rows are in order already, as they are if all lines begin at the same time."""
        events, offset = self.events, self.events.offset_ps
        same = self.allocator[1:] == self.allocator[:-1]
        falls = (offset[1:] < offset[:-1]) | ((offset[1:] == offset[:-1]) & (events.row[1:] < events.row[:-1]))
        order = sort_rows(self.allocator, offset, events.row) if (falls & same).any() else None
        sorted_offset = offset if order is None else offset[order]
        ties = np.unique(self.allocator[1:][(sorted_offset[1:] == sorted_offset[:-1]) & same])
        ties = ties[self.count[ties] > _KEPT_IN_ORDER]
        return self._unstable(np.arange(len(offset)) if order is None else order, ties) if len(ties) else order

    def _unstable(self, order: npt.NDArray[np.intp], allocators: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Sort snapshots of some allocators as XProf's sort does, which is not stable."""
        row, offset = self.events.row, self.events.offset_ps
        for first, last in zip(self.bounds[allocators].tolist(), self.bounds[allocators + 1].tolist(), strict=True):
            in_capture = first + np.argsort(row[first:last])
            places = np.arange(last - first, dtype=np.int32)
            rank_order(-offset[in_capture], places)
            order[first:last] = in_capture[places]
        return order

    def _sites(self) -> Int32s:
        """Return numbers of sites; those of data types that XProf can't read come after all others, in the same
        order."""
        events = self.events
        if events.unsigned is None:
            return events.site
        odd = (events.unsigned & recorded.DATA_TYPE) != 0
        return np.where(odd, events.site + len(events.sites), events.site).astype(np.int32)

    def _sorted(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self._order is None else column[self._order]

    def _read(self, column: npt.NDArray[Any], bit: int) -> npt.NDArray[Any]:
        """Return a column, with 0 for stats of a kind that XProf does not read."""
        odd = self.events.unsigned
        return self._sorted(column if odd is None else np.where(odd & bit, 0, column))

    def _steps(self, group: Int32s) -> Int64s:
        known = np.maximum.accumulate(np.where(group != -1, np.arange(len(group)), -1))
        before = np.where(known >= self.bounds[self.allocator], group[known], -1)
        steps: Int64s = np.where(group == -1, before + 1, group).astype(np.int64)
        return steps

    @cached_property
    def shown_site(self) -> Int32s:
        """Site that snapshots show: a free has that of the first of the allocations of its address that came
        since the free before."""
        partner = match_frees(self.is_allocation, self.address, self.bounds, keep_first=True).partner
        copies = ~self.is_allocation & (partner >= 0)
        return np.where(copies, self.site[partner], self.site).astype(np.int32)


class _Peaks:
    """Peaks by allocator. ``place``: of the snapshot in the summary, or -1 if the memory in use is always negative;
    ``last``: of the last snapshot in the capture; ``step``: that of the peak, or 0. Of several equal peaks the last
    counts: in the capture for the summary, in time for the step."""

    def __init__(self, snapshots: _Snapshots) -> None:
        most = np.maximum.reduceat(snapshots.used, snapshots.bounds[:-1])
        is_peak = (snapshots.used == most[snapshots.allocator]) & (snapshots.used >= 0)
        self.place, self.last = _find_last(snapshots, is_peak), _find_last(snapshots, np.ones(len(snapshots), bool))
        self.step = np.zeros(len(snapshots.count), np.int64)
        self.step[snapshots.allocator[is_peak]] = snapshots.step[is_peak]


def _find_last(snapshots: _Snapshots, chosen: npt.NDArray[np.bool_]) -> Int64s:
    """Return, by allocator, the place of the last of the chosen snapshots in the capture, or -1."""
    row = np.where(chosen, snapshots.row, -1)
    latest = np.maximum.reduceat(row, snapshots.bounds[:-1])
    places = np.flatnonzero(chosen & (row == latest[snapshots.allocator]))
    last = np.full(len(latest), -1)
    last[snapshots.allocator[places]] = places
    return last


def _sample_snapshots(snapshots: _Snapshots) -> Int64s:
    """Return the places of at most 1,000 snapshots per allocator: the first with the most memory in use of each of
    1,000 intervals, of equal length or the later ones longer by one."""
    sampled = []
    for first, count in zip(snapshots.bounds[:-1].tolist(), snapshots.count.tolist(), strict=True):
        if count <= MOST_SNAPSHOTS:
            sampled.append(np.arange(first, first + count))
            continue
        width = count // MOST_SNAPSHOTS
        widths = np.full(MOST_SNAPSHOTS, width)
        widths[MOST_SNAPSHOTS * (width + 1) - count :] += 1
        starts = np.cumsum(widths) - widths
        used = snapshots.used[first : first + count]
        most = np.repeat(np.maximum.reduceat(used, starts), widths)
        places = np.flatnonzero(used == most)
        sampled.append(first + places[np.searchsorted(places, starts)])
    return np.concatenate(sampled)


class _Active:
    """Live memory at the peaks, merged if equal. ``bounds``: [k + 1], those of each allocator; ``place``: of the first
    snapshot; ``count``: number of equal ones; ``unmapped``: [k], bytes of the heap that no allocation of the peak's
    step accounts for."""

    def __init__(self, snapshots: _Snapshots, peaks: _Peaks, rank: Int32s) -> None:
        """Find live memory. ``rank``: of each site, by its texts."""
        known = peaks.place >= 0
        until = np.where(known, snapshots.offset[peaks.place], 0)
        chosen = np.flatnonzero(
            (snapshots.offset <= until[snapshots.allocator]) & (snapshots.step == peaks.step[snapshots.allocator])
        )
        is_allocation, size = snapshots.is_allocation[chosen], snapshots.size[chosen]
        bounds = np.searchsorted(chosen, snapshots.bounds)
        matched = match_frees(is_allocation, snapshots.address[chosen], bounds)
        # A free gives back what it frees, and takes it again if its allocation is unknown.
        taken = np.where(is_allocation, size, np.where(matched.partner < 0, 0, -size))
        freed = np.diff(count_bounds(taken)[bounds])
        self.unmapped = np.where(known, snapshots.heap[peaks.place], 0) - freed

        alive = chosen[is_allocation & (matched.fate == HELD_AT_END)]
        sizes = (-snapshots.size[alive], -snapshots.requested[alive])
        keys = np.stack([snapshots.allocator[alive], *sizes, rank[snapshots.site[alive]]])
        order = sort_rows(*keys, alive)
        alive, keys = alive[order], keys[:, order]
        firsts = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(alive)])
        self.place, self.count = alive[firsts], np.diff(firsts, append=len(alive))
        self.bounds = find_group_bounds(snapshots.allocator[self.place], len(bounds) - 1)


class _Pages:
    """The page's objects of each allocator."""

    def __init__(self, snapshots: _Snapshots) -> None:
        self.snapshots = snapshots
        # XProf can't read one data type: texts are listed with theirs, and once more with that one.
        sites = snapshots.events.sites
        types = [format_data_type(number) for number in sites.data_type]
        self.texts = [
            (op or "", region or "", data_type, shape or "")
            for named in (types, [format_data_type(INVALID)] * len(types))
            for op, region, data_type, shape in zip(sites.op, sites.region, named, sites.shape, strict=True)
        ]
        numbers = {text: number for number, text in enumerate(sorted(set(self.texts)))}
        self.rank = np.array([numbers[text] for text in self.texts], np.int32)
        self.peaks = _Peaks(snapshots)

    def all(self) -> Json:
        snapshots = self.snapshots
        active = _Active(snapshots, self.peaks, self.rank)
        sampled = _sample_snapshots(snapshots)
        bounds = np.searchsorted(sampled, snapshots.bounds).tolist()
        timeline, alive = self._written(sampled), self._written(active.place)
        pages = {}
        for number, name in enumerate(snapshots.events.allocators):
            first, last = active.bounds[number : number + 2].tolist()
            rows, special = self._rows(number, active, alive[first:last])
            pages[name] = {
                "memoryProfileSnapshots": alive[first:last],
                "profileSummary": self._summary(number),
                "activeAllocations": rows,
                "specialAllocations": special,
                "sampledTimelineSnapshots": timeline[bounds[number] : bounds[number + 1]],
            }
        return pages

    def _summary(self, number: int) -> Json:
        at, place, last = self.snapshots, int(self.peaks.place[number]), int(self.peaks.last[number])
        columns = (at.offset, at.stack, at.heap, at.free, at.fragmentation, at.used)
        offset, stack, heap, free, fragmentation, used = (
            column[place : place + 1] if place >= 0 else np.zeros(1, column.dtype) for column in columns
        )
        return {
            "peakBytesUsageLifetime": str(at.lifetime_peak[last]),
            "peakStats": _make_stats(stack[0], heap[0], free[0], float(fragmentation[0]), used[0]),
            "peakStatsTimePs": str(offset[0]),
            "memoryCapacity": str((used + free)[0]),
        }

    def _rows(self, number: int, active: _Active, alive: list[Json]) -> tuple[list[Json], list[Json]]:
        """Return the rows of live memory, largest first, and what rows without an allocation show: the rest of the
        heap, and the stack."""
        place, step = int(self.peaks.place[number]), int(self.peaks.step[number])
        stack = int(self.snapshots.stack[place]) if place >= 0 else 0
        rest = (int(active.unmapped[number]), "unused preallocated device memory", "persist/dynamic")
        special = [_make_special(*part, step) for part in (rest, (stack, "stack", "stack")) if part[0] > 0]
        first, last = active.bounds[number : number + 2].tolist()
        counts = active.count[first:last].tolist()
        rows = [(_get_sort_key(row["activityMetadata"]), i, -1, counts[i]) for i, row in enumerate(alive)]
        rows += [(_get_sort_key(row), -i - 1, i, 1) for i, row in enumerate(special)]
        rows.sort()
        return [
            {"snapshotIndex": str(index), "specialIndex": str(other), "numOccurrences": str(count)}
            for _, index, other, count in rows
        ], special

    def _written(self, places: Int64s) -> list[Json]:
        """Return the snapshots at some places, as JSON has them."""
        at = self.snapshots
        columns = (
            (at.offset,), (at.stack, at.heap, at.free, at.fragmentation, at.lifetime_peak), (at.is_allocation,),
            (at.requested, at.size, at.address.view(np.uint64), at.step), (at.shown_site,),
        )  # fmt: skip
        groups = (zip(*(column[places].tolist() for column in group), strict=True) for group in columns)
        return [
            {
                "timeOffsetPs": str(offset),
                "aggregationStats": _make_stats(*stats),
                "activityMetadata": _make_activity(ACTIVITY[is_allocation], sizes, self.texts[site]),
            }
            for (offset,), stats, (is_allocation,), sizes, (site,) in zip(*groups, strict=True)
        ]


def _make_stats(stack: int, heap: int, free: int, fragmentation: float, peak: int) -> Json:
    return {
        "stackReservedBytes": str(stack),
        "heapAllocatedBytes": str(heap),
        "freeMemoryBytes": str(free),
        "fragmentation": fragmentation,
        "peakBytesInUse": str(peak),
    }


def _make_activity(activity: str, numbers: Sequence[int], texts: Sequence[str]) -> Json:
    """Make the activity. ``numbers``, ``texts``: in the order of the names below."""
    numbered = zip(("requestedBytes", "allocationBytes", "address", "stepId"), map(str, numbers), strict=True)
    named = zip(("tfOpName", "regionType", "dataType", "tensorShape"), texts, strict=True)
    return {"memoryActivity": activity, **dict(numbered), **dict(named)}


def _make_special(size: int, op: str, region: str, step: int) -> Json:
    """Make memory at the peak that is no allocation."""
    return _make_activity("ALLOCATION", (size, size, 0, step), (op, region, format_data_type(INVALID), "unknown"))


def _get_sort_key(text: Json) -> tuple[Any, ...]:
    """Return the sort key of rows."""
    sizes = (-int(text["allocationBytes"]), -int(text["requestedBytes"]))
    return (*sizes, text["tfOpName"], text["regionType"], text["dataType"], text["tensorShape"])
