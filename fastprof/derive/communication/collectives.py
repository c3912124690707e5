"""Collectives: what one moves, among which devices, in which group each device takes part, and when devices arrive.

Bytes follow from the text of its instruction. They are those that bandwidth is usually stated for, as in the tests of
NCCL: the entire buffer of an all-reduce, what an all-gather has gathered, what a reduce-scatter is given, what one
device sends in other operations. What passes through each device's links, its bus bandwidth, is that times

    all-reduce                                  2 (n - 1) / n
    all-gather, reduce-scatter, all-to-all        (n - 1) / n
    others                                      1

of n devices that take part (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).

Groups are of numbers that the program gives its devices: replicas and partitions. The program's device assignment has
the number of each device, by its id. The id of a TPU core is its number in the system (core_details); of a GPU it is
its ordinal, if the program has no other devices than those of the host.

Ranks of PyTorch count from Unix epoch. Collectives of one kind and size belong together if they go on at once:
nobody is done before the last one has come. Their order shows nothing: ranks may start recording at different ones.

    rank 0   |-all_to_all-|       |----all_to_all----|
    rank 1                           |--all_to_all---|      |-all_to_all-|
    met      |     alone      |   |      together    |      |    alone   |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.communication_sums import narrow_column
from fastprof.derive.communication.flights import NO_BYTES, Flights
from fastprof.derive.devices.communication_kinds import CommunicationKind
from fastprof.derive.steps.device_steps import read_core_details
from fastprof.errors import CaptureError
from fastprof.hlo.shapes import Expression, Leaf, Message, Value, read_expression
from fastprof.schema.columns import Bools, Int32s, Int64s, join_parts, number_owners, number_values, sort_rows
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.programs import Modules


MOST_DEVICES: Final = 1 << 20
"""Bound above which groups of devices are not listed."""

_GROUPS: Final = compile_late(r"\breplica_groups=(\{(?:\{[\d, ]*\},? ?)*\}|\[[\d,]+\]<=\[[\d,]+\](?:T\([\d,]+\))?)")
_PAIRS: Final = compile_late(r"\bsource_target_pairs=(\{(?:\{\d+,\d+\},?)*\})")
_GLOBAL: Final = "use_global_device_ids=true"
IOTA: Final = compile_late(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
LISTS: Final = compile_late(r"\{([\d, ]*)\}")
_SHARED: Final = (CommunicationKind.ALL_GATHER, CommunicationKind.REDUCE_SCATTER, CommunicationKind.ALL_TO_ALL)


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes and groups of a communication instruction. ``bytes``: None if unknown; ``groups``: as in the text, or "";
    ``size``: devices of the largest group, None if not recorded or all take part; ``count``: groups, or None."""

    bytes: int | None = None
    groups: str = ""
    size: int | None = None
    count: int | None = None
    is_global: bool = False

    def bus_factor(self, kind: CommunicationKind) -> float | None:
        """Return the bytes that pass the links of each device for each byte of ``bytes``, or None if the number of
        devices is unknown."""
        if kind is not CommunicationKind.ALL_REDUCE and kind not in _SHARED:
            return 1.0
        if not self.size:
            return None
        return (2 if kind is CommunicationKind.ALL_REDUCE else 1) * (self.size - 1) / self.size


NO_PAYLOAD: Final = Payload()


def parse_payload(kind: CommunicationKind, text: str) -> Payload:
    """Parse what an instruction moves that is all of an operation or its start."""
    read = read_expression(text)
    if read is None:
        return NO_PAYLOAD
    size = _measure_bytes(kind, read)
    pairs = _PAIRS.search(read.attributes)
    listed = _GROUPS.search(read.attributes)
    groups = listed[1] if listed else pairs[1] if pairs else ""
    count, largest = _parse_extent(listed[1]) if listed else (None, None)
    return Payload(size, groups, largest, count, _GLOBAL in read.attributes)


# ---- bytes


def _measure_bytes(kind: CommunicationKind, read: Expression) -> int | None:
    sent = read.opcode in ("send", "outfeed") or kind is CommunicationKind.REDUCE_SCATTER
    if sent and read.opcode != "async-start" and read.operands:
        operands = read.operands[:1] if kind is not CommunicationKind.REDUCE_SCATTER else read.operands
        return _sum_leaves([leaf for operand in operands for leaf in operand.leaves])
    if read.opcode in ("recv", "infeed"):
        return _sum_leaves(_get_element(read.output, 0))
    if read.opcode.endswith("-start") and read.opcode != "all-reduce-start":
        return _sum_leaves(
            _get_element(
                read.output, 0 if read.opcode == "copy-start" or kind is CommunicationKind.REDUCE_SCATTER else 1
            )
        )
    return _sum_leaves(list(read.output.leaves))


def _get_element(value: Value, place: int) -> list[Leaf]:
    """Return the arrays of an element of a tuple, or all if the value is no tuple."""
    return [leaf for leaf in value.leaves if not leaf.index or leaf.index[0] == place]


def _sum_leaves(leaves: list[Leaf]) -> int | None:
    sizes = [leaf.array.bytes for leaf in leaves]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


# ---- who takes part


@lru_cache(4096)
def _parse_extent(text: str) -> tuple[int | None, int | None]:
    """Return the number of groups, and the size of the largest; (None, None) if all devices are in one."""
    if iota := IOTA.fullmatch(text):
        dimensions = parse_numbers(iota[1])
        is_told = len(dimensions) > 1 and prod(dimensions) <= MOST_DEVICES
        return (dimensions[0], prod(dimensions[1:])) if is_told else (None, None)
    lengths = [len(parse_numbers(numbers)) for numbers in LISTS.findall(text[1:-1])]
    return (len(lengths), max(lengths)) if any(lengths) else (None, None)


def parse_numbers(text: str) -> list[int]:
    return [int(digits) for digits in text.replace(" ", "").split(",") if digits and len(digits) < 19]


DeviceIds = Sequence[int | None]
FindTeams = Callable[[Int64s], Int64s]
"""Function that returns the groups of device numbers, which are not negative, or -1."""

_MOST_DIMENSIONS: Final = 32
"""Bound of dimensions of device arrays that texts cut into groups; NumPy arrays have no more."""
_ASSIGNMENT: Final = 15
_REPLICA_COUNT, _PARTITION_COUNT, _PARTITION, _DEVICE_IDS = 1, 2, 3, 1
"""Fields of HloModuleProto and DeviceAssignmentProto."""


def list_device_ids(planes: Sequence[Plane]) -> DeviceIds:
    """List the ids of TPU cores and GPUs; None if unknown. All are unknown if several are equal."""
    ids: list[int | None] = []
    for plane in planes:
        details = read_core_details(plane.stats) if plane.kind == "TPU" else None
        ids.append(plane.ordinal if plane.kind == "GPU" else details.global_core_id if details is not None else None)
    known = [id_ for id_ in ids if id_ is not None]
    return ids if len(set(known)) == len(known) else [None] * len(ids)


class Assignments:
    """Numbers that programs give to the devices of a host. ``all_here``: ids count only if the program has no other
    devices. Each assignment is read once, however many ops refer to it."""

    def __init__(self, modules: Modules, ids: DeviceIds, *, all_here: bool) -> None:
        self._modules, self._ids, self._all_here = modules, ids, all_here
        self._numbers: dict[tuple[int, bool], Mapping[int, int] | None] = {}
        self._layouts: dict[int, Int64s | None] = {}

    def teams(self, program_id: int, payload: Payload, devices: Int64s) -> Int64s:
        """Return the group of each of some devices, given by their places among the ids, or -1."""
        key = (program_id, payload.is_global)
        if key not in self._numbers:
            # Global ids count the partitions of a replica, then of the next. Others count replicas, and are unknown if
            # groups are of replicas within partitions.
            layout, numbers = self.layout(program_id), None
            if layout is not None and (payload.is_global or layout.shape[1] == 1):
                numbers = {device: number for number, device in enumerate(layout.ravel().tolist())}
            self._numbers[key] = numbers
        known, groups = self._numbers[key], parse_groups(payload.groups)
        team = np.full(len(devices), -1, np.int64)
        if known is None or groups is None:
            return team
        ids = [self._ids[place] for place in devices.tolist()]
        number = np.array([-1 if id_ is None else known.get(id_, -1) for id_ in ids], np.int64)
        team[number >= 0] = groups(number[number >= 0])
        return team

    def layout(self, program_id: int) -> Int64s | None:
        """Return the ids of a program's devices, by replica and partition, or None."""
        if program_id not in self._layouts:
            module = self._modules.module(program_id)
            layout = None if module is None else _read_layout(module)
            if layout is not None and self._all_here and not set(layout.ravel().tolist()) <= set(self._ids):
                layout = None
            self._layouts[program_id] = layout
        return self._layouts[program_id]

    def id_of(self, place: int) -> int | None:
        return self._ids[place]


def _read_layout(module: HloModule) -> Int64s | None:
    """Read the device assignment, or return None if it is missing or damaged."""
    try:
        assignment = Message(module.proto).message(_ASSIGNMENT)
        replicas, partitions = assignment.integer(_REPLICA_COUNT), assignment.integer(_PARTITION_COUNT)
        if not 0 < replicas * partitions <= MOST_DEVICES:
            return None
        ids = [devices.integers(_DEVICE_IDS) for devices in assignment.messages(_PARTITION)]
    except CaptureError:
        return None
    if len(ids) != partitions or any(len(of_partition) != replicas for of_partition in ids):
        return None
    layout = np.array(ids, np.int64).T
    return layout if len(np.unique(layout)) == layout.size else None


# ---- groups


@lru_cache(256)
def parse_groups(text: str) -> FindTeams | None:
    """Parse the groups of a text, or return None if they are not recorded, or have too many devices."""
    if iota := IOTA.fullmatch(text):
        return _expand_iota(*(parse_numbers(listed or "") for listed in iota.groups()))
    groups = [parse_numbers(numbers) for numbers in LISTS.findall(text[1:-1])]
    if not groups or not all(groups):
        return None
    group_of = {number: place for place, group in enumerate(groups) for number in group}
    return lambda devices: np.array([group_of.get(device, -1) for device in devices.tolist()], np.int64)


def _expand_iota(sizes: list[int], dimensions: list[int], order: list[int]) -> FindTeams | None:
    """Parse ``[4,2]<=[2,4]T(1,0)``: the numbers from 0 on as an array of 2 x 4, transposed, then cut into 4 groups of
    2."""
    count, axes = prod(dimensions), order or list(range(len(dimensions)))
    if (
        not 0 < count <= MOST_DEVICES
        or len(dimensions) > _MOST_DIMENSIONS
        or prod(sizes) != count
        or sorted(axes) != list(range(len(dimensions)))
    ):
        return None
    size, turned = count // sizes[0], tuple(dimensions[axis] for axis in axes)

    def groups(devices: Int64s) -> Int64s:
        at = np.unravel_index(np.minimum(devices, count - 1), dimensions)
        place = np.ravel_multi_index(tuple(at[axis] for axis in axes), turned)
        return np.where(devices < count, place // size, -1)

    return groups


_ENVIRONMENT: Final = "Task Environment"
_MOST: Final = 1 << 24


def read_rank_count(events: HostEvents) -> int | None:
    """Read the number of ranks of the program, as its process groups record it, or None."""
    return _read_recorded(events, "world_size", 1)


def read_rank(events: HostEvents) -> int | None:
    """Read the host's rank, or None."""
    return _read_recorded(events, "rank", 0)


def _read_recorded(events: HostEvents, name: str, least: int) -> int | None:
    plane = events.plane_named(_ENVIRONMENT)
    try:
        info = json.loads(str(plane.stats.get("distributedInfo")) if plane is not None else "null")
    except (ValueError, RecursionError):
        return None
    value = info.get(name) if isinstance(info, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value < _MOST else None


def read_zero_ns(events: HostEvents) -> int | None:
    """Read the origin of times, in nanoseconds since Unix epoch, or None if it is not recorded or of no use."""
    plane = events.plane_named(_ENVIRONMENT)
    value = None if plane is None else plane.stats.get("zero_ns")
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def find_offsets_ps(zeros_ns: Sequence[int | None]) -> list[int] | None:
    """Return the shift of each host's times that makes them count from one origin, or None if unknown, or more than a
    day."""
    known = [zero for zero in zeros_ns if zero is not None]
    if len(known) < max(len(zeros_ns), 2) or max(known) - min(known) > 86_400 * 10**9:
        return None
    return [(zero - min(known)) * 1000 for zero in known]


def match_concurrent(series: Int64s, device: Int32s, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
    """Return a number for each occurrence, equal for those of a series that run at the same time on different
    devices."""
    order = sort_rows(series, begin_ps, end_ps).tolist()
    number, count, members = np.zeros(len(order), np.int64), -1, set[int]()
    of, until = None, 0
    rows = zip(series[order].tolist(), device[order].tolist(), begin_ps[order].tolist(), end_ps[order].tolist(),
               strict=True)  # fmt: skip
    for place, (own, here, begin, end) in zip(order, rows, strict=True):  # a row is a collective of a device
        if own != of or begin > until or here in members:
            count, members, of, until = count + 1, set(), own, end
        members.add(here)
        until = min(until, end)
        number[place] = count
    return number


MOST_BYTES = 600 << 20
"""Approximate bound for the arrivals of all hosts together. Each takes ``_ROW_BYTES`` in a temporary file, and each
host at a collective ``_PAIR_BYTES`` of memory while they are compared, however many of its devices are there."""

_ROW_BYTES: Final = 20

_PAIR_BYTES: Final = 160

FEWEST_STEPS: Final = 3
"""Fewest steps of a host: two show who delays the others, and the middle of hosts may be one step apart."""

NEARLY_ALL: Final = 0.9
"""Smallest share of hosts with a step that is compared, of the number of hosts with the most common step."""

_WAITS: Final = 10
"""Ratio to the shortest op that ends a flight from which on such an op waited."""


class DeviceArrivals(NamedTuple):
    """Arrivals of a device, by begin on the clock of its ops. ``group``: of the step in which it begins, or -1; begin
    and end are by the host's clock, the duration by the core's. ``blocks``: nothing else runs until it ends, so that
    its end shows when the last device came; ``bytes``: NO_BYTES if unknown; ``waited``: something else runs, but the
    device waited for the end, which shows the same; ``hidden_ps``: time in which the device computes."""

    op: Int32s
    group: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    duration_ps: Int64s
    blocks: Bools
    bytes: Int64s
    waited: Bools
    hidden_ps: Int64s


@dataclass(frozen=True, slots=True)
class HostArrivals:
    """Arrivals of a host, by op, group, device and begin, if it is known which devices belong together. They are many,
    so each column has the narrowest type that holds it. ``group``: place among ``groups``; ``device``: place among the
    host's; ``team``: the group of devices in which the device takes part; ``beyond_ps``: time from begin to end beyond
    the duration; ``bytes``, ``waited``, ``hidden_ps``: empty if unknown for all, or 0; ``grouped``: number of arrivals
    left out, because it is unknown which devices belong together; ``of_steps``: number of steps of the host with
    arrivals, if only some are here."""

    op: npt.NDArray[Any]
    group: npt.NDArray[Any]
    device: npt.NDArray[Any]
    team: npt.NDArray[Any]
    begin_ps: Int64s
    duration_ps: npt.NDArray[Any]
    beyond_ps: npt.NDArray[Any]
    blocks: Bools
    bytes: npt.NDArray[Any]
    groups: Int64s
    grouped: int
    of_steps: int | None = None
    waited: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    hidden_ps: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.op)

    def without_rows(self) -> HostArrivals:
        """Drop the rows."""
        none: dict[str, Any] = dict.fromkeys((*_BY_ROW, "groups"), _NONE)
        return replace(self, **none)


_NONE: Final = np.zeros(0, np.int64)

_BY_ROW: Final = (
    "op", "group", "device", "team", "begin_ps", "duration_ps", "beyond_ps", "blocks", "bytes", "waited",
    "hidden_ps",
)  # fmt: skip


def find_device_arrivals(
    flights: Flights, chosen: Int64s, group: Int64s, hidden_ps: Int64s, *, is_gpu: bool
) -> DeviceArrivals:
    """Return the arrivals of flights. ``chosen``: flights of operations whose devices wait for each other, by begin;
    ``group``: of these; ``hidden_ps``: of all flights."""
    duration_ps = flights.end_ps[chosen] - flights.begin_ps[chosen]
    blocks = np.full(len(chosen), True) if is_gpu else ~flights.aloft[chosen]
    waited = np.zeros(len(chosen), np.bool_)
    ends = flights.done_ps[flights.done_ps > 0]
    if len(ends):  # the op that ends a flight and does not wait only checks it: on TPUs that takes 1 to 4 ns
        waited = flights.done_ps[chosen] > _WAITS * int(ends.min())
    times = (flights.clock_begin_ps[chosen], flights.clock_end_ps[chosen], duration_ps)
    return DeviceArrivals(
        flights.op[chosen],
        group,
        *times,
        blocks,
        flights.bytes[chosen],
        waited,
        hidden_ps[chosen],
    )


def join_arrivals(parts: Sequence[DeviceArrivals], teams: Sequence[Int64s], *, sized: bool) -> HostArrivals:
    """Join the devices of a host. ``teams``: of the rows of each device, or -1; ``sized``: whether bytes matter."""
    each = [DeviceArrivals(*(np.zeros(0, kind) for kind in _TYPES)), *parts]
    op, group, begin, end, duration, blocks, size, waited, hidden = (
        np.concatenate(column) for column in zip(*each, strict=True)
    )
    device = number_owners([len(part.op) for part in parts])
    team = join_parts(teams)
    groups, group = number_values(group)
    op, group, device, team = (narrow_column(column) for column in (op, group.reshape(-1), device, team))
    rows = sort_rows(op, group, device, begin)
    rows = rows[team[rows] >= 0]
    size = size if sized and (size != NO_BYTES).any() else size[:0]
    return HostArrivals(
        op=op[rows],
        group=group[rows],
        device=device[rows],
        team=team[rows],
        begin_ps=begin[rows],
        duration_ps=narrow_column(duration)[rows],
        beyond_ps=narrow_column(end - begin - duration)[rows],
        blocks=blocks[rows],
        bytes=narrow_column(size[rows] if len(size) else size),
        groups=groups,
        grouped=len(team) - len(rows),
        waited=waited[rows] if waited.any() else waited[:0],
        hidden_ps=narrow_column(hidden[rows] if hidden.any() else hidden[:0]),
    )


_TYPES: Final = ("i4", "i8", "i8", "i8", "i8", "?", "i8", "?", "i8")


def limit_rows(hosts: int, devices: int) -> int:
    """Return about how many rows each of ``hosts`` hosts may keep that has ``devices`` devices."""
    return max(MOST_BYTES // (_ROW_BYTES + _PAIR_BYTES // max(devices, 1)) // max(hosts, 1), 1)


def keep_middle_steps(every: HostArrivals, complete: Int64s, most: int) -> HostArrivals:
    """Return all arrivals if there are at most ``most``, else those of the middle steps. ``complete``: groups of steps
    that are entirely in the capture; others count only if there are not enough of these."""
    if len(every) <= most:
        return every
    count = np.bincount(every.group, minlength=len(every.groups))
    begin = np.full(len(every.groups), np.iinfo(np.int64).max)
    np.minimum.at(begin, every.group, every.begin_ps)
    steps = np.flatnonzero((every.groups >= 0) & (count > 0))
    entire = steps[np.isin(every.groups[steps], complete)]
    steps = entire if len(entire) >= FEWEST_STEPS else steps
    steps = steps[np.argsort(begin[steps], kind="stable")]
    chosen = np.zeros(len(every.groups), np.bool_)
    # the longest range around the middle with at most ``most`` rows, but at least FEWEST_STEPS
    upto = np.append(0, np.cumsum(count[steps]))
    size = np.arange(1, len(steps) + 1)
    first = (len(steps) - size) // 2
    fits = int(np.count_nonzero(upto[first + size] - upto[first] <= most))
    fits = min(max(fits, FEWEST_STEPS), len(steps))
    first_step = (len(steps) - fits) // 2
    chosen[steps[first_step : first_step + fits]] = True
    rows = np.flatnonzero(chosen[every.group])
    columns = {name: getattr(every, name) for name in _BY_ROW}
    columns = {name: column[rows] if len(column) else column for name, column in columns.items()}
    return replace(every, **columns, of_steps=len(steps))


class KeptSteps(NamedTuple):
    """Steps of a host whose arrivals it kept, by their numbers in the session, or -1. ``of_steps``: as in
    HostArrivals."""

    of_steps: int | None
    steps: npt.NDArray[Any]


def choose_compared_steps(kept: Sequence[KeptSteps], shift: Int64s | None = None) -> Int64s | None:
    """Return the steps whose arrivals nearly all hosts kept, or None if hosts kept all. ``shift``: number to add to
    the steps of each host."""
    if all(own.of_steps is None for own in kept):
        return None
    count: Counter[int] = Counter()
    for host, own in enumerate(kept):
        steps = own.steps[own.steps >= 0].astype(np.int64)
        count.update((steps if shift is None else steps + shift[host]).tolist())
    least = NEARLY_ALL * max(count.values(), default=0)
    return np.array(sorted(step for step, many in count.items() if many >= least), np.int64)
