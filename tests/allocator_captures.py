"""An allocator whose free list is known, and captures of what it does.

The allocator is one of best fit with coalescing, as those of TensorFlow and JAX are: memory in units of 256 bytes, the
smallest free chunk that fits, cut in two where enough is left, joined with its free neighbours when it comes back. It
notes after each call what it has, so a test knows all that the capture can only hint at: `Moment.free_chunks`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trace_builder import Event, Value, event, line, plane, xspace

KIB, MIB = 1 << 10, 1 << 20
US, MS = 1_000_000, 1_000_000_000
"""In picoseconds."""

UNIT = 256
FLOAT = 1
"""TensorFlow's number of the data type."""


@dataclass(frozen=True, slots=True)
class Held:
    """Memory in use. ``op``, ``region``, ``shape``, ``data_type``: what the capture says of it."""

    address: int
    size: int
    requested: int
    op: str
    since_ps: int
    region: str = "temp"
    shape: str = ""
    data_type: int = FLOAT


@dataclass(frozen=True, slots=True)
class Moment:
    """What was so after a call. ``chunk``: what was allocated or freed; ``free_chunks``: address and size of each."""

    at_ps: int
    is_allocation: bool
    chunk: Held
    held: tuple[Held, ...]
    free_chunks: tuple[tuple[int, int], ...]

    @property
    def in_use(self) -> int:
        return sum(one.size for one in self.held)

    @property
    def free(self) -> int:
        return sum(size for _, size in self.free_chunks)

    @property
    def taken(self) -> int:
        """Bytes that the allocator has taken from the device."""
        return self.in_use + self.free

    @property
    def largest_free(self) -> int:
        return max((size for _, size in self.free_chunks), default=0)

    def smaller_than(self, request: int) -> int:
        """Bytes of free memory in chunks too small for a request."""
        return sum(size for _, size in self.free_chunks if size < request)


class BestFit:
    """Hands out ``limit`` bytes: taken from the device at once, or, with ``region``, in regions as they are needed, the
    first of that size and each later one twice as large. ``adjoining``: a region follows on the one before, so that
    chunks at their edge join. ``collects``: where a request fits nowhere and too little is left to take, regions that
    are free from end to end are given back, if that helps."""

    def __init__(
        self, limit: int, region: int | None = None, *, adjoining: bool = False, collects: bool = False
    ) -> None:
        self.limit = limit
        self.adjoining, self.collects = adjoining, collects
        self.whole: dict[int, int] = {}
        """Regions: where they start, and their size."""
        self.given_back = 0
        """How many regions."""
        self.held: dict[int, Held] = {}
        self.starts: list[int] = []
        self.sizes: dict[int, int] = {}
        self.taken = self.regions = 0
        self.region = region
        if region is None:
            self._extend(limit)

    def _extend(self, size: int) -> None:
        start = (1 << 40) + self.taken if self.adjoining else (self.regions + 1) << 40
        self.regions += 1
        self.taken += size
        self.whole[start] = size
        self.give_back(start, size)

    def _collect(self, rounded: int) -> None:
        free = [start for start, size in self.whole.items() if self.sizes.get(start) == size]
        if rounded <= self.limit - self.taken + sum(self.whole[start] for start in free):
            for start in free:
                self.taken -= self._drop(start)
                del self.whole[start]
                self.given_back += 1

    def _fitting(self, rounded: int) -> tuple[int, int] | None:
        return min(((size, start) for start, size in self.sizes.items() if size >= rounded), default=None)

    def take(self, requested: int) -> tuple[int, int]:
        """The address and size of a new chunk."""
        rounded = max(-(-requested // UNIT), 1) * UNIT
        if self.region is not None and self._fitting(rounded) is None:
            if self.collects and self.taken + rounded > self.limit:
                self._collect(rounded)
            if self.taken + rounded <= self.limit:
                self._extend(min(max(self.region << self.regions, rounded), self.limit - self.taken))
        fitting = self._fitting(rounded)
        if fitting is None:
            raise MemoryError(f"{requested} bytes: largest free chunk {max(self.sizes.values(), default=0)}")
        size, start = fitting
        self._drop(start)
        if size - rounded >= min(rounded, 128 * MIB):
            self._add(start + rounded, size - rounded)
            size = rounded
        return start, size

    def give_back(self, start: int, size: int) -> None:
        place = bisect_left(self.starts, start)
        following = self.starts[place] if place < len(self.starts) else None
        before = self.starts[place - 1] if place else None
        if following == start + size:
            size += self._drop(following)
        if before is not None and before + self.sizes[before] == start:
            size += self._drop(before)
            start = before
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        self.starts.insert(bisect_left(self.starts, start), start)
        self.sizes[start] = size

    def _drop(self, start: int) -> int:
        del self.starts[bisect_left(self.starts, start)]
        return self.sizes.pop(start)


def six_digits(value: float) -> float | int:
    """Round a value as profilers do: through text of six significant digits; integers stay integers."""
    written = float(f"{value:.6g}")
    return int(written) if written.is_integer() else written


@dataclass
class Device:
    """A device that allocates, and records that while ``recording``. Time passes by ``wait`` and by a tick a call.

    ``marks``: whether its steps are those of the host; ``stack``: bytes outside the heap; ``exact``: fragmentation is
    recorded as it is, not in six digits; ``by_number``: the allocator is known by its number, and frees without sizes,
    as TPUs do; ``region``, ``adjoining``, ``collects``: as of BestFit."""

    limit: int = 64 * MIB
    name: str = "GPU_0_bfc"
    marks: bool = True
    stack: int = 0
    exact: bool = False
    by_number: int | None = None
    region: int | None = None
    adjoining: bool = False
    collects: bool = False
    tick_ps: int = US
    now_ps: int = 0
    moments: list[Moment] = field(default_factory=list)
    threads: dict[str, list[Event]] = field(default_factory=dict)
    recording: bool = True
    peak: int = 0
    """Since the allocator was made, as it reports it."""

    def __post_init__(self) -> None:
        how = {"adjoining": self.adjoining, "collects": self.collects}
        self.heap = BestFit(self.limit - self.stack, self.region, **how)

    @property
    def allocator(self) -> str:
        return self.name if self.by_number is None else str(self.by_number)

    @property
    def last(self) -> Moment:
        return self.moments[-1]

    def wait(self, ps: int) -> None:
        self.now_ps += ps

    def allocate(self, op: str, requested: int, thread: str = "main", **details: Any) -> int:
        """The address of new memory. ``details``: other fields of Held."""
        self.now_ps += self.tick_ps
        address, size = self.heap.take(requested)
        one = Held(address, size, requested, op, self.now_ps, **details)
        self.heap.held[address] = one
        self._note(True, one, thread)
        return address

    def free(self, address: int, thread: str = "main") -> None:
        self.now_ps += self.tick_ps
        one = self.heap.held.pop(address)
        self.heap.give_back(address, one.size)
        self._note(False, one, thread)

    @contextmanager
    def using(self, op: str, requested: int, **details: Any) -> Iterator[int]:
        """Memory for as long as the block lasts."""
        address = self.allocate(op, requested, **details)
        yield address
        self.free(address)

    @contextmanager
    def step(self, number: int, name: str = "train") -> Iterator[None]:
        """A step that a marker of the user makes, with an op in it, so that it is one of the host's steps."""
        begin = self.now_ps = self.now_ps + self.tick_ps
        yield
        self.now_ps += self.tick_ps
        if self.recording and self.marks:
            marker = event(name, begin, self.now_ps - begin, {"_r": 1, "step_num": number})
            main = self.threads.setdefault("main", [])
            main += [marker, event("model/MatMul:MatMul", begin + 1, self.now_ps - begin - 2)]

    def _note(self, is_allocation: bool, one: Held, thread: str) -> None:
        in_use = sum(each.size for each in self.heap.held.values())
        self.peak = max(self.peak, in_use)
        if not self.recording:
            return
        free = tuple((start, self.heap.sizes[start]) for start in self.heap.starts)
        moment = Moment(self.now_ps, is_allocation, one, tuple(self.heap.held.values()), free)
        self.moments.append(moment)
        name = "MemoryAllocation" if is_allocation else "MemoryDeallocation"
        self.threads.setdefault(thread, []).append(event(name, self.now_ps, 0, self._stats(moment)))

    def _stats(self, moment: Moment) -> dict[str | int, Value]:
        one = moment.chunk
        fragmentation = (moment.free - moment.largest_free) / moment.free if moment.free else 0.0
        recorded: dict[str | int, Value] = {
            "bytes_reserved": self.stack,
            "bytes_allocated": moment.in_use,
            "bytes_available": self.heap.limit - moment.in_use,
            "fragmentation": fragmentation if self.exact else six_digits(fragmentation),
            "peak_bytes_in_use": self.peak,
            "addr": one.address,
        }
        if self.by_number is None:
            recorded["allocator_name"] = self.name
        else:
            recorded["index_on_host"] = self.by_number
        if moment.is_allocation or self.by_number is None:
            recorded |= {"requested_bytes": one.requested, "allocation_bytes": one.size}
        if moment.is_allocation:
            recorded |= {"id": 0, "data_type": one.data_type, "tf_op": one.op, "region_type": one.region}
            recorded |= {"shape": one.shape} if one.shape else {}
        return recorded


def in_order(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one.offset_ps or 0, -one.duration_ps))


def captured(*devices: Device, hostnames: Sequence[str] = ("vm",)) -> bytes:
    """The capture of a host with these devices; threads of equal name are one."""
    threads: dict[str, list[Event]] = {}
    for device in devices:
        for name, events in device.threads.items():
            threads.setdefault(name, []).extend(events)
    lines = [line(name, in_order(events), id=number) for number, (name, events) in enumerate(threads.items(), 1)]
    return xspace(plane("/host:CPU", lines), hostnames=list(hostnames))


def next_largest(moments: Sequence[Moment], place: int) -> int | None:
    """The largest request that follows a moment."""
    return max((one.chunk.requested for one in moments[place + 1 :] if one.is_allocation), default=None)
