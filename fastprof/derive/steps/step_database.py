"""Step database: when each step ran on each core, and what its time was spent on, by event type and by category.

Arrays are indexed by step (n of them, ascending), by core (c), and by event type or op category. Times are int64
picoseconds of the core's own host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from enum import IntEnum
from itertools import compress
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from fastprof._native.step_kernels import step_time
from fastprof.errors import MemoryLimitError
from fastprof.schema.columns import (
    PERCENTILES,
    ArrayRows,
    Bools,
    Int32s,
    Int64s,
    add_durations,
    locate_percentile,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass

Types = npt.NDArray[np.uint8]


class EventType(IntEnum):
    """Their order is their priority: if events overlap, time counts for the last of their types. In XProf they are ten
    times as large."""

    UNKNOWN_TIME = 0
    HOST_COMPUTE = 1
    HOST_PREPROCESS = 2
    HOST_POSTPROCESS = 3
    HOST_BATCH_FORMATION = 4
    HOST_RUNTIME = 5
    HOST_COMPILE = 6
    HOST_TO_HOST = 7
    HOST_TO_DEVICE = 8
    HOST_PREPARE = 9
    DEVICE_COLLECTIVES = 10
    HOST_WAIT_INPUT = 11
    DEVICE_TO_DEVICE = 12
    DEVICE_TO_HOST = 13
    DEVICE_COMPUTE_32 = 14
    DEVICE_COMPUTE_16 = 15
    DEVICE_WAIT_DEVICE = 16
    DEVICE_WAIT_HOST = 17


TYPES: Final = tuple(kind.name.lower() for kind in EventType)
NO_TYPE: Final = 255
"""The type of an event that takes no part in step time."""


@dataclass(frozen=True, slots=True)
class Category:
    """A category of step time: its name, and the event types whose time it adds up."""

    number: int
    name: str
    label: str
    types: tuple[int, ...]


CATEGORIES: Final = (
    Category(1, "device_compute", "Device compute", (EventType.DEVICE_COMPUTE_16, EventType.DEVICE_COMPUTE_32)),
    Category(2, "device_to_device", "Device to device", (EventType.DEVICE_TO_DEVICE, EventType.DEVICE_WAIT_DEVICE)),
    Category(3, "device_collectives", "Device collective communication", (EventType.DEVICE_COLLECTIVES,)),
    Category(4, "host_compute", "Host compute", (EventType.HOST_COMPUTE,)),
    Category(5, "kernel_launch", "Kernel launch", (EventType.HOST_PREPARE,)),
    Category(6, "input", "Input", (EventType.HOST_WAIT_INPUT, EventType.HOST_TO_DEVICE, EventType.DEVICE_WAIT_HOST)),
    Category(7, "output", "Output", (EventType.DEVICE_TO_HOST,)),
    Category(8, "compilation", "Compilation", (EventType.HOST_COMPILE,)),
    Category(9, "all_others", "All others", (EventType.UNKNOWN_TIME,)),
)
"""The categories of XProf, by their number less one. Host-to-host copies are in none of them."""

OWN_CATEGORIES: Final = (
    *CATEGORIES,
    Category(10, "copies", "Copies", ()),
    Category(11, "not_training", "Evaluation, logging and saving", (EventType.HOST_BATCH_FORMATION,)),
)
"""Categories with copies: on TPUs those between host and device, and within the device, which XProf counts as compute;
on GPUs those to the device, which XProf counts as input. Other copies are in categories by their direction there. Work
that is not training, compute included, has the place of a type that XProf does not count."""


HOST_TRANSFERS: Final = ("host send", "host send-done", "host recv", "host recv-done")
OFF_DUTY: Final = ("infeed", "outfeed", *HOST_TRANSFERS, "async-done", "megacore fusion")
"""Categories of ops in which a TPU core waits: for the host, for a transfer, or for the other core of the chip."""


def sum_by_category(type_ps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the times of the nine categories in ps, from times by type: [..., 18] to [..., 9]."""
    return np.stack([type_ps[..., list(category.types)].sum(axis=-1) for category in CATEGORIES], axis=-1)


@dataclass(frozen=True, slots=True)
class Markers(ArrayRows):
    """Events that mark when a step was: the group, start and duration of each, in the order in which they count."""

    group: Int32s
    start_ps: Int64s
    duration_ps: Int64s


def select_longest_markers(markers: Markers) -> Markers:
    """Return the longest marker of each group that has one longer than nothing, by group; of equals the first."""
    some = np.flatnonzero(markers.duration_ps > 0)
    order = some[sort_rows(markers.group[some], -markers.duration_ps[some])]
    group = markers.group[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = group[1:] != group[:-1]
    return markers[order[first]]


@dataclass(frozen=True, slots=True)
class TypedEvents(ArrayRows):
    """Events that take part in step time."""

    group: Int32s
    type: Types
    start_ps: Int64s
    duration_ps: Int64s


@dataclass(frozen=True, slots=True)
class TimeByType:
    """Times by group, then event type: within the step, with what is unknown of it, and in all."""

    within_ps: Int64s  # [n, 18]
    seen: Bools  # [n, 18]: the type occurs, if only for no time
    total_ps: Int64s  # [n, 18]


def sum_time_by_type(events: TypedEvents, lines: Int64s | None, begin_ps: Int64s, duration_ps: Int64s) -> TimeByType:
    """What steps were spent on: groups 0 to n - 1, which lasted ``duration_ps`` from ``begin_ps`` on.
    ``lines``: the events at which lines begin, and the end of the last; None: in any order.

    Overlapping events count for the highest type. What no event of a type fills is UNKNOWN_TIME.
    """
    n = len(begin_ps)
    total, within = np.zeros((n, len(TYPES)), np.int64), np.zeros((n, len(TYPES)), np.int64)
    seen = np.zeros((n, len(TYPES)), np.uint8)
    clip = np.stack([begin_ps, add_durations(begin_ps, duration_ps)], axis=1)
    step_time(
        np.ascontiguousarray(events.group),
        np.ascontiguousarray(events.type),
        np.ascontiguousarray(events.start_ps),
        np.ascontiguousarray(events.duration_ps),
        None if lines is None else np.ascontiguousarray(lines),
        clip,
        total,
        within,
        seen,
    )
    missing = duration_ps - within.sum(axis=1)
    within[:, EventType.UNKNOWN_TIME] += np.maximum(missing, 0)
    occurs = seen.astype(np.bool_)
    occurs[:, EventType.UNKNOWN_TIME] = within[:, EventType.UNKNOWN_TIME] > 0
    return TimeByType(within, occurs, total)


def get_spread(times_ps: npt.NDArray[np.int64]) -> dict[str, int | float | None] | None:
    """count, mean_ps, stdev_ps (of the sample; None: of one), min_ps, p50_ps, p90_ps, p99_ps, max_ps; None: no times.

    Percentile p is the least time that p of 100 do not exceed.
    """
    count = len(times_ps)
    if not count:
        return None
    ordered = np.sort(times_ps)
    summary: dict[str, int | float | None] = {
        "count": count,
        "mean_ps": sum(ordered.tolist()) / count,
        "stdev_ps": float(np.std(ordered.astype(np.float64), ddof=1)) if count > 1 else None,
        "min_ps": int(ordered[0]),
    }
    for percent in PERCENTILES:
        summary[f"p{percent}_ps"] = int(ordered[locate_percentile(percent, count)])
    return summary | {"max_ps": int(ordered[-1])}


IDLE: Final = "IDLE"
"""The category of time in a step in which a core ran no op; the first of `StepDatabase.categories` on TPUs."""

NO_HOSTNAME: Final = "localhost"
"""Name of a host that its capture does not name, as in XProf."""

CORES_PER_HOST: Final = 1000
"""Offset of core ids per host number, if there are several hosts."""

SPARSE_CORE_IDS: Final = 1_000_000
"""Ids of sparse cores on their host begin here."""

GENERIC_CORE: Final = 1
"""The id of the one core that represents a host without TPUs."""

AT_ONCE: Final = 1 << 18
"""Steps on cores, of many hosts, that are in memory at a time."""

MOST_BYTES: Final = 2 << 30
"""What the steps of a session that are in memory may take."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores that steps ran on, in the order of their ids.

    On TPUs a core is a TensorCore or a SparseCore; otherwise one core, of id 1, represents all devices of a host.
    """

    id: Int64s  # over several hosts: 1000 times the host's number, plus the id on the host
    local_id: Int64s  # on its host
    host_number: npt.NDArray[np.int32]  # index into StepDatabase.hosts
    host: list[str]  # host name as recorded in the capture; "localhost" where none is
    name: list[str]  # "host:ordinal" of a core with details, else "host"
    sparse: Bools  # a SparseCore
    has_details: Bools  # the capture describes the core
    device: list[str | None]  # as other tables name it: plane of the core, or CPU; None: all GPUs of a host
    shows_input: Bools  # the records would show input loading or waiting

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True)
class Collectives(ArrayRows):
    """Collective operations within steps, a row each."""

    step: Int64s  # index of the step in the database
    core_id: Int64s  # as Cores.id; on GPUs the id of the plane instead of 1
    unique_id: Int64s  # the same on all cores that took part; 0 on GPUs
    begin_ps: Int64s
    end_ps: Int64s
    bytes: Int64s  # moved, 0 where not recorded


class SpilledTimes(Protocol):
    """Times of steps that are not in memory."""

    def chosen(self, steps: Bools) -> SpilledTimes: ...

    def stretches(self, steps: StepDatabase) -> Iterator[StepDatabase]: ...


BY_CORE: Final = (
    "present", "begin_ps", "duration_ps", "extent_begin_ps", "extent_ps", "type_ps", "category_ps", "infeed_ps",
    "sparse_busy_ps", "lost",
)  # fmt: skip
"""The arrays of a StepDatabase that have a place for each core."""


@dataclass(frozen=True, slots=True)
class StepDatabase:
    """Steps of a host, or of all hosts of a session aligned with each other.

    `step` is the group id that the events carry; of several hosts that number groups differently, the first one's.
    It is unique, `number` may not be.

    The time of a step, `duration_ps`, is its period, until the next step begins (see host_steps.py), and its times by
    type and category add up to it. Its extent is what its marker or its work on the device spans. Steps in the form of
    XProf have extents alone: both are equal.
    """

    hardware: str  # "GPU", "TPU", "CPU_ONLY": of the session
    hosts: list[str]  # name of each capture, by number; all of them, those without steps too
    step: Int64s  # [n]
    number: Int64s  # [n] what users see and choose, see step_numbers; several steps may have one number
    name: list[str]  # [n] of steps of host threads: "train 7"; empty where devices mark the steps
    label: list[str]  # [n] name of the step's group, also on devices
    numbered: Bools  # [n] the capture records the number in that name; False: it only counts the groups of the host
    complete: Bools  # [n] False: the step may be cut off, or when it ends is not recorded
    has_period: Bools  # [n] False: the next step is not recorded, and duration_ps is the extent
    cores: Cores  # [c]
    group: Int64s  # [n, hosts] the step's group id on each host; -1: no such step there
    present: Bools  # [n, c] the core took part in the step
    begin_ps: Int64s  # [n, c]
    duration_ps: Int64s  # [n, c] of the period
    extent_begin_ps: Int64s  # [n, c]
    extent_ps: Int64s  # [n, c]
    type_ps: Int64s  # [n, c, 18] time by event type; [n, c, 0] on TPUs, which have none
    categories: list[str]  # [k] op categories on TPUs, IDLE first; empty otherwise
    category_ps: Int64s  # [n, c, k] self time by category; of SparseCores that do not mark their steps, nothing
    infeed_ps: Int64s  # [n, c] idle time that the host's input explains
    sparse_busy_ps: Int64s  # [n, c] time in which a SparseCore ran an op; 0 for other cores
    lost: Bools  # [n, c] calls in the step started device work that is not recorded
    collectives: Collectives
    compute_16bit_ps: int  # time of 16-bit kernels in all groups, whether they are steps or not
    compute_32bit_ps: int
    without: tuple[str, ...] = ()  # hosts that have no steps, while others like them do
    empty_intersect: bool = False  # hosts have steps, but none in common
    differs: bool = False  # hosts have other numbers for some steps: `number` is the first host's
    shifts: dict[int, int] | None = None  # by number of host, if hosts are aligned by time: steps it is shifted by
    shifts_by_time: dict[int, int] | None = None  # the same, if alignment by time would differ from that by name
    is_bound: bool = False  # no period is known: times of complete steps are extents, and so lower bounds
    aside: SpilledTimes | None = (
        None  # of many hosts, what the arrays of BY_CORE hold, which are empty then: stretches()
    )

    def __len__(self) -> int:
        return len(self.step)

    @property
    def is_tpu(self) -> bool:
        return self.hardware == "TPU"

    @property
    def knows_categories(self) -> Bools:
        """[n, c] whether time is known by category of op: not where a SparseCore does not mark its steps."""
        known: Bools = np.asarray(self.category_ps.any(axis=2))
        return known

    def complete_steps(self) -> StepDatabase:
        """Select the complete steps."""
        return self.chosen(self.complete)

    def chosen(self, steps: Bools) -> StepDatabase:
        """Select the steps in a mask."""
        if steps.all():
            return self
        rows = self.collectives[steps[self.collectives.step]]
        rows = replace(rows, step=(np.cumsum(steps) - 1)[rows.step])
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        of_steps = (name for name in parts if name not in BY_CORE or len(parts[name]) == len(self))
        parts = {name: parts[name][steps] for name in of_steps if isinstance(parts[name], np.ndarray)}
        parts |= {name: list(compress(getattr(self, name), steps.tolist())) for name in ("name", "label")}
        aside = None if self.aside is None else self.aside.chosen(steps)
        return replace(self, collectives=rows, aside=aside, **parts)

    def without_times(self) -> StepDatabase:
        return replace(self, aside=None, **make_zero_times(self.hardware, 0, 0, 0))

    def stretches(self) -> Iterator[StepDatabase]:
        """Yield all steps in batches, so that those of many cores take little memory. Each has its times."""
        if self.aside is not None:
            yield from self.aside.stretches(self)
            return
        many = count_steps_per_batch(len(self.cores))
        for first in range(0, max(len(self), 1), many):
            some = np.zeros(len(self), np.bool_)
            some[first : first + many] = True
            yield self.chosen(some)

    def numbers_of(self, steps: Int64s) -> Int64s:
        """Return the numbers of steps, which are given as `step` has them; -1 if a step is unknown."""
        return look_up_sorted(self.step, self.number, steps)

    def of_type(self, number: int) -> Int64s:
        """Return [n, c] time of events of a type."""
        return np.zeros_like(self.duration_ps) if self.is_tpu else np.asarray(self.type_ps[:, :, number])

    def category(self, *names: str, fixed: bool = True) -> Int64s:
        """Return [n, c] self time in all of some op categories. `fixed`: waiting on the host counts as infeed, not as
        idle."""
        total = np.zeros_like(self.duration_ps)
        for name in names:
            if name in self.categories:
                total += self.category_ps[:, :, self.categories.index(name)]
            if fixed and name in (IDLE, "infeed"):
                total += self.infeed_ps if name == "infeed" else -self.infeed_ps
        return total


def look_up_sorted(keys: Int64s, values: Int64s, wanted: Int64s) -> Int64s:
    """Return the value of each wanted key, or -1 if the key is not there or is below 0."""
    order = np.argsort(keys, kind="stable")
    if not len(order):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
    looked_up: Int64s = np.where((keys[order[at]] == wanted) & (wanted >= 0), values[order[at]], -1)
    return looked_up


def count_steps_per_batch(cores: int) -> int:
    """Return how many steps on this many cores are in memory at a time."""
    return max(AT_ONCE // max(cores, 1), 1)


def check_database_size(steps: int, cores: int, categories: int, hardware: str, most: int | None = None) -> None:
    """Check that a database of this many steps, cores and op categories fits in memory, or raise MemoryLimitError. A
    capture of a few hundred kilobytes can ask for gigabytes."""
    most = MOST_BYTES if most is None else most
    of_type, others = 0 if hardware == "TPU" else len(TYPES) * 9, 50
    size = steps * cores * (of_type + others + 8 * (categories + len(OWN_CATEGORIES)))
    if size > most:
        raise MemoryLimitError(
            f"{steps:,} steps on {cores:,} cores, with {categories:,} categories of ops, would take "
            f"{size / 2**30:,.1f} GiB of memory, more than the {most / 2**30:,.1f} GiB that steps may; choose "
            "some of the steps (--steps A:B, select(steps=(a, b))) or of the hosts (--host, select(hosts=...))"
        )


def make_empty_database(hardware: str, hosts: list[str], cores: Cores | None = None) -> StepDatabase:
    """Make a database without steps."""
    none, flags = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    cores = cores or Cores(none, none, none.astype(np.int32), [], [], flags, flags, [], flags)
    blank = make_blank_database(hardware, "", cores, none, [], [])
    return replace(blank, hosts=hosts, group=np.zeros((0, len(hosts)), np.int64))


def make_blank_database(
    hardware: str,
    host: str,
    cores: Cores,
    group: Int64s,
    label: list[str],
    categories: list[str],
    *,
    has_times: bool = True,
) -> StepDatabase:
    """Make a database of the steps of one host, of these groups, all complete, on no core, and without any time.
    ``has_times``: there is room for times."""
    n, c = len(group), len(cores)
    return StepDatabase(
        hardware=hardware,
        hosts=[host],
        step=group,
        number=group,
        name=[""] * n,
        label=label,
        numbered=np.zeros(n, np.bool_),
        complete=np.ones(n, np.bool_),
        has_period=np.zeros(n, np.bool_),
        cores=cores,
        group=group.reshape(n, 1),
        categories=categories,
        **(make_zero_times(hardware, n, c, len(categories)) if has_times else make_zero_times(hardware, 0, 0, 0)),
        collectives=Collectives.none(),
        compute_16bit_ps=0,
        compute_32bit_ps=0,
    )


def make_zero_times(hardware: str, steps: int, cores: int, categories: int) -> dict[str, Any]:
    """Return the arrays of BY_CORE: no core took part in a step."""
    times: dict[str, Any] = {
        name: np.zeros((steps, cores), np.bool_ if name in ("present", "lost") else np.int64) for name in BY_CORE
    }
    times["type_ps"] = np.zeros((steps, cores, 0 if hardware == "TPU" else len(TYPES)), np.int64)
    times["category_ps"] = np.zeros((steps, cores, categories), np.int64)
    return times
