"""Arrivals of devices at collectives: the state of each host until all hosts are compared.

In a session with many hosts, each keeps only its middle steps, so that all of them together stay below a limit. Hosts
that are recorded together have the same steps there, give or take one:

    host a   | 0 | 1 | 2 |(3)|(4)|(5)| 6 | 7 | 8 |       most hosts have 3, 4 and 5: these are compared
    host b   | 0 | 1 | 2 |(3)|(4)|(5)| 6 | 7 | 8 |
    host c       | 1 | 2 | 3 |(4)|(5)|(6)| 7 | 8 | 9 |   its 6 is left out
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.communication_sums import narrow_column
from fastprof.derive.communication.flights import NO_BYTES, Flights
from fastprof.schema.columns import Bools, Int32s, Int64s, join_parts, number_owners, number_values, sort_rows
from fastprof.schema.value_classes import dataclass

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
    device waited for the end, which shows the same."""

    op: Int32s
    group: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    duration_ps: Int64s
    blocks: Bools
    bytes: Int64s
    waited: Bools


@dataclass(frozen=True, slots=True)
class HostArrivals:
    """Arrivals of a host, by op, group, device and begin, if it is known which devices belong together. They are many,
    so each column has the narrowest type that holds it. ``group``: place among ``groups``; ``device``: place among the
    host's; ``team``: the group of devices in which the device takes part; ``beyond_ps``: time from begin to end beyond
    the duration; ``bytes``, ``waited``: empty if unknown for all; ``grouped``: number of arrivals left out, because it
    is unknown which devices belong together; ``of_steps``: number of steps of the host with arrivals, if only some are
    here."""

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

    def __len__(self) -> int:
        return len(self.op)

    def without_rows(self) -> HostArrivals:
        """Drop the rows."""
        none: dict[str, Any] = dict.fromkeys((*_BY_ROW, "groups"), _NONE)
        return replace(self, **none)


_NONE: Final = np.zeros(0, np.int64)
_BY_ROW: Final = (
    "op", "group", "device", "team", "begin_ps", "duration_ps", "beyond_ps", "blocks", "bytes", "waited",
)  # fmt: skip


def find_device_arrivals(flights: Flights, chosen: Int64s, group: Int64s, *, is_gpu: bool) -> DeviceArrivals:
    """Return the arrivals of flights. ``chosen``: flights of operations whose devices wait for each other, by begin;
    ``group``: of these."""
    duration_ps = flights.end_ps[chosen] - flights.begin_ps[chosen]
    blocks = np.full(len(chosen), True) if is_gpu else ~flights.aloft[chosen]
    times = (flights.clock_begin_ps[chosen], flights.clock_end_ps[chosen], duration_ps)
    return DeviceArrivals(
        flights.op[chosen], group, *times, blocks, flights.bytes[chosen], _has_waited(flights)[chosen]
    )


def _has_waited(flights: Flights) -> Bools:
    """Return whether the op that ends each flight waited for it: it took much longer than the shortest such op of the
    core, which only checks whether the flight is over. On TPUs that takes 1 to 4 ns."""
    ends = flights.done_ps[flights.done_ps > 0]
    return flights.done_ps > _WAITS * int(ends.min()) if len(ends) else np.zeros(len(flights), np.bool_)


def join_arrivals(parts: Sequence[DeviceArrivals], teams: Sequence[Int64s], *, sized: bool) -> HostArrivals:
    """Join the devices of a host. ``teams``: of the rows of each device, or -1; ``sized``: whether bytes matter."""
    each = [DeviceArrivals(*(np.zeros(0, kind) for kind in _TYPES)), *parts]
    op, group, begin, end, duration, blocks, size, waited = (
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
    )


_TYPES: Final = ("i4", "i8", "i8", "i8", "i8", "?", "i8", "?")


# ---- sessions of many hosts


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
    chosen[steps[_find_middle(count[steps], most)]] = True
    rows = np.flatnonzero(chosen[every.group])
    columns = {name: getattr(every, name) for name in _BY_ROW}
    columns = {name: column[rows] if len(column) else column for name, column in columns.items()}
    return replace(every, **columns, of_steps=len(steps))


def _find_middle(count: Int64s, most: int) -> slice:
    """Return the longest range around the middle with at most ``most`` rows, but at least FEWEST_STEPS."""
    upto = np.append(0, np.cumsum(count))
    size = np.arange(1, len(count) + 1)
    first = (len(count) - size) // 2
    fits = int(np.count_nonzero(upto[first + size] - upto[first] <= most))
    fits = min(max(fits, FEWEST_STEPS), len(count))
    first_step = (len(count) - fits) // 2
    return slice(first_step, first_step + fits)


class KeptSteps(NamedTuple):
    """Steps of a host whose arrivals it kept, by their numbers in the session, or -1. ``of_steps``: as in
    HostArrivals."""

    of_steps: int | None
    steps: npt.NDArray[Any]


def choose_compared_steps(kept: Sequence[KeptSteps], shift: Int64s | None = None) -> Int64s | None:
    """Return the steps whose arrivals nearly all hosts kept, or None if hosts kept all. ``shift``: number to add to the
    steps of each host."""
    if all(own.of_steps is None for own in kept):
        return None
    count: Counter[int] = Counter()
    for host, own in enumerate(kept):
        steps = own.steps[own.steps >= 0].astype(np.int64)
        count.update((steps if shift is None else steps + shift[host]).tolist())
    least = NEARLY_ALL * max(count.values(), default=0)
    return np.array(sorted(step for step, many in count.items() if many >= least), np.int64)
