"""What XProf's page memory_profile says of some threads, computed snapshot by snapshot in plain Python.

No groups, no programs, and stats of the kinds that XProf reads. Written from the description of the page, apart from
the code that it checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trace_builder import Event, Line

Json = dict[str, Any]
TYPES = {1: "float"}
USE = {
    "stackReservedBytes": "bytes_reserved",
    "heapAllocatedBytes": "bytes_allocated",
    "freeMemoryBytes": "bytes_available",
    "peakBytesInUse": "peak_bytes_in_use",
}
SIZES = {"requestedBytes": "requested_bytes", "allocationBytes": "allocation_bytes", "address": "addr"}
TEXTS = {"tfOpName": "tf_op", "regionType": "region_type", "tensorShape": "shape"}
FIELDS = (*TEXTS, "dataType")
WIDEST = 1000


@dataclass
class Snapshot:
    offset: int
    activity: str
    use: dict[str, int]
    sizes: dict[str, int]
    texts: dict[str, str]
    step: int = 0

    @property
    def used(self) -> int:
        return self.use["stackReservedBytes"] + self.use["heapAllocatedBytes"]

    @property
    def key(self) -> tuple[Any, ...]:
        sizes = self.sizes
        texts = (self.texts[name] for name in ("tfOpName", "regionType", "dataType", "tensorShape"))
        return (-sizes["allocationBytes"], -sizes["requestedBytes"], *texts)

    def meta(self) -> Json:
        sizes = {name: str(value) for name, value in self.sizes.items()}
        return {"memoryActivity": self.activity, "stepId": str(self.step), **sizes, **self.texts}

    def json(self) -> Json:
        use = {name: str(value) for name, value in self.use.items()} | {"fragmentation": 0}
        return {"timeOffsetPs": str(self.offset), "aggregationStats": use, "activityMetadata": self.meta()}


@dataclass
class Allocator:
    snapshots: list[Snapshot] = field(default_factory=list)
    peak: Snapshot | None = None

    def add(self, one: Snapshot) -> None:
        self.snapshots.append(one)
        if one.used >= (self.peak.used if self.peak else 0):
            self.peak = one


def slow_page(lines: Sequence[Line]) -> Json:
    found: dict[str, Allocator] = {}
    for one in lines:
        for inner in one.events:
            assert isinstance(inner, Event)
            stats = dict(inner.stats)  # type: ignore[call-overload]
            found.setdefault(stats.get("allocator_name", ""), Allocator()).add(snapshot(inner, stats))
    return {
        "memoryProfilePerAllocator": {name: page_of_allocator(one) for name, one in found.items()},
        "numHosts": 1,
        "memoryIds": sorted(found),
        "version": 1,
        "hloModules": [],
    }


def snapshot(one: Event, stats: Json) -> Snapshot:
    data_type = TYPES[stats["data_type"]] if "data_type" in stats else ""
    return Snapshot(
        one.offset_ps or 0,
        str(one.name).removeprefix("Memory").upper(),
        {name: stats.get(stat, 0) for name, stat in USE.items()},
        {name: stats.get(stat, 0) for name, stat in SIZES.items()},
        {name: stats.get(stat, "") for name, stat in TEXTS.items()} | {"dataType": data_type},
    )


def page_of_allocator(one: Allocator) -> Json:
    last = one.snapshots[-1]
    snapshots = sorted(one.snapshots, key=lambda snapshot: snapshot.offset)
    fill_frees(snapshots)
    special, rows = active(one.peak, snapshots)
    kept = [row[1] for row in rows if row[1] not in special]
    numbers = {id(row): i for i, row in enumerate(kept)} | {id(row): -i - 1 for i, row in enumerate(special)}
    return {
        "memoryProfileSnapshots": [row.json() for row in kept],
        "profileSummary": summary(one.peak, last),
        "activeAllocations": [
            {
                "snapshotIndex": str(numbers[id(row)]),
                "specialIndex": str(max(-numbers[id(row)] - 1, -1)),
                "numOccurrences": str(count),
            }
            for count, row in rows
        ],
        "specialAllocations": [row.meta() for row in special],
        "sampledTimelineSnapshots": [row.json() for row in sampled(snapshots)],
    }


def fill_frees(snapshots: Sequence[Snapshot]) -> None:
    held: dict[int, Snapshot] = {}
    for one in snapshots:
        address = one.sizes["address"]
        if one.activity == "ALLOCATION":
            held.setdefault(address, one)
        elif address in held:
            one.texts = dict(held.pop(address).texts)


def summary(peak: Snapshot | None, last: Snapshot) -> Json:
    use = dict.fromkeys(USE, 0) if peak is None else peak.use | {"peakBytesInUse": peak.used}
    used = 0 if peak is None else peak.used
    return {
        "peakBytesUsageLifetime": str(last.use["peakBytesInUse"]),
        "peakStats": {name: str(value) for name, value in use.items()} | {"fragmentation": 0},
        "peakStatsTimePs": str(0 if peak is None else peak.offset),
        "memoryCapacity": str(used + use["freeMemoryBytes"]),
    }


def active(peak: Snapshot | None, snapshots: Sequence[Snapshot]) -> tuple[list[Snapshot], list[tuple[int, Snapshot]]]:
    """Rows that are no allocations; and all rows, with how many are alike."""
    rest = 0 if peak is None else peak.use["heapAllocatedBytes"]
    held: dict[int, Snapshot] = {}
    for one in snapshots:
        if one.offset > (0 if peak is None else peak.offset):
            break
        address, size = one.sizes["address"], one.sizes["allocationBytes"]
        if one.activity == "ALLOCATION":
            held[address] = one
            rest -= size
        elif held.pop(address, None):
            rest += size
    special = []
    stack = 0 if peak is None else peak.use["stackReservedBytes"]
    for size, name, region in (
        (rest, "unused preallocated device memory", "persist/dynamic"),
        (stack, "stack", "stack"),
    ):
        if size > 0:
            sizes = {"requestedBytes": size, "allocationBytes": size, "address": 0}
            texts = {"tfOpName": name, "regionType": region, "dataType": "INVALID", "tensorShape": "unknown"}
            special.append(Snapshot(0, "ALLOCATION", {}, sizes, texts))
    rows: list[tuple[int, Snapshot]] = []
    for one in sorted([*held.values(), *special], key=lambda row: row.key):
        if rows and rows[-1][1].key == one.key:
            rows[-1] = (rows[-1][0] + 1, rows[-1][1])
        else:
            rows.append((1, one))
    return special, rows


def sampled(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    if len(snapshots) <= WIDEST:
        return list(snapshots)
    width, longer = divmod(len(snapshots), WIDEST)
    kept, at = [], 0
    for number in range(WIDEST):
        end = at + width + (number >= WIDEST - longer)
        kept.append(max(snapshots[at:end], key=lambda one: one.used))
        at = end
    return kept
