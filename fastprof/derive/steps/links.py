"""Links between events of different threads: who produced what another consumed, who launched which kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import key_numbers
from fastprof.decode.plane_kinds import device_of
from fastprof.derive.steps.event_types import CODES, KERNEL_EXECUTE, KERNEL_LAUNCH, among
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, beside

Types = npt.NDArray[np.uint8]
MEMBER = np.dtype([("row", "i4"), ("link", "i4")])

CROWD = 64
"""A context with this many producers and this many consumers, or more of both, is left out."""

_EXECUTOR = CODES["ExecutorState::Process"]
DEVICE_REQUESTS = tuple(
    CODES[name]
    for name in (
        "RunProgramRequest", "HostCallbackRequest", "TransferH2DRequest", "TransferPreprocessedH2DRequest",
        "TransferD2HRequest", "OnDeviceSendRequest", "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest",
        "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti", "CustomWait", "PjrtAsyncWait",
    )
)  # fmt: skip
_RUN_ID_BITS = 2**27 - 1
MODULE_LINES = ("XLA Modules", "Sparse Core Modules")


@dataclass(frozen=True, slots=True)
class Ends:
    """Events with their keys: one int64 column a part of the key."""

    rows: Int32s
    keys: tuple[Int64s, ...]

    def of_types(self, types: Types, wanted: Sequence[int]) -> Ends:
        return self.where(among(types[self.rows], wanted))

    def where(self, keep: Bools) -> Ends:
        return Ends(self.rows[keep], tuple(key[keep] for key in self.keys))


class Links:
    """Links as they are found; ``members`` gives them as the graph wants them."""

    def __init__(self) -> None:
        self.count = 0
        self._producers: list[tuple[Int32s, Int32s]] = []
        self._consumers: list[tuple[Int32s, Int32s]] = []

    def join(self, producers: Ends, consumers: Ends, crowds: bool = False) -> None:
        """All producers of a key to all consumers of it; ``crowds``: unless there are too many of both."""
        if not len(producers.rows) or not len(consumers.rows):
            return
        link, count = numbered([np.concatenate(pair) for pair in zip(producers.keys, consumers.keys, strict=True)])
        given, taken = link[: len(producers.rows)], link[len(producers.rows) :]
        gives, takes = np.bincount(given, minlength=count), np.bincount(taken, minlength=count)
        wanted = (gives > 0) & (takes > 0)
        if crowds:
            wanted &= (gives < CROWD) | (takes < CROWD)
        self._add(producers.rows, given, consumers.rows, taken, wanted)

    def join_last(self, producers: Ends, consumers: Ends) -> None:
        """The last producer of a key to all consumers of it."""
        if not len(producers.rows) or not len(consumers.rows):
            return
        link, count = numbered([np.concatenate(pair) for pair in zip(producers.keys, consumers.keys, strict=True)])
        given, taken = link[: len(producers.rows)], link[len(producers.rows) :]
        last = np.full(count, -1, np.int32)
        last[given] = producers.rows  # of equal indices the last assignment stays
        wanted = (last >= 0) & (np.bincount(taken, minlength=count) > 0)
        self._add(last, np.arange(count, dtype=np.int32), consumers.rows, taken, wanted)

    def lead(self, leader: Int32s, followers: Int32s, leader_of: Int32s) -> None:
        """``leader[leader_of[i]]`` to ``followers[i]``."""
        wanted = np.ones(len(leader), bool)
        self._add(leader, np.arange(len(leader), dtype=np.int32), followers, leader_of, wanted)

    def _add(self, givers: Int32s, given: Int32s, takers: Int32s, taken: Int32s, wanted: npt.NDArray[np.bool_]) -> None:
        place = (np.cumsum(wanted) - 1 + self.count).astype(np.int32)
        for into, rows, links in ((self._producers, givers, given), (self._consumers, takers, taken)):
            keep = wanted[links]
            into.append((rows[keep], place[links[keep]]))
        self.count += int(wanted.sum())

    def members(self, node: Int32s | None) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Producers and consumers by row, then link; ``node``: the row that represents each, -1: none."""
        return _members(self._producers, node), _members(self._consumers, node)


def _members(shares: list[tuple[Int32s, Int32s]], node: Int32s | None) -> npt.NDArray[np.void]:
    rows = np.concatenate([rows for rows, _ in shares] or [np.zeros(0, np.int32)])
    links = np.concatenate([links for _, links in shares] or [np.zeros(0, np.int32)])
    if node is not None:
        rows = node[rows]
        rows, links = rows[rows >= 0], links[rows >= 0]
    key = rows.astype(np.int64) << 32 | links
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        rows, links = rows[order], links[order]
    members = np.zeros(len(rows), MEMBER)
    members["row"], members["link"] = rows, links
    return members


def numbered(columns: Sequence[Int64s]) -> tuple[Int32s, int]:
    """The number of each key, and how many there are."""
    numbers = np.zeros(len(columns[0]), np.int32)
    count = key_numbers([np.ascontiguousarray(column) for column in columns], numbers)
    return numbers, count


def first_of(number: npt.NDArray[np.integer], count: int) -> npt.NDArray[np.int64]:
    """The first place of each number below ``count``; every number occurs."""
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return first


def having(events: HostEvents, *stats: str) -> Ends:
    """The events that have all of these integer stats, with their values."""
    rows, first = events.ints(stats[0])
    values = [first]
    for name in stats[1:]:
        other, value = events.ints(name)
        if len(other) == len(rows) and (other == rows).all():
            values.append(value)
            continue
        mine, its = in_both(rows, other)
        rows, values = rows[mine], [*(column[mine] for column in values), value[its]]
    return Ends(rows, tuple(values))


def in_both(rows: Int32s, others: Int32s) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where the rows that both have are in each. The fewer are looked up among the more."""
    if len(others) < len(rows):
        its, mine = in_both(others, rows)
        return mine, its
    place = np.searchsorted(others, rows)
    place[place == len(others)] = 0
    found = np.flatnonzero(others[place] == rows) if len(others) else np.zeros(0, np.intp)
    return found, place[found]


def is_one_of(keys: Int64s, known: Int64s) -> npt.NDArray[np.bool_]:
    """Where a key is known; in a time that grows with both, and no faster."""
    number, count = numbered([np.concatenate([keys, known])])
    there = np.zeros(count, bool)
    there[number[len(keys) :]] = True
    return there[number[: len(keys)]]


def find_links(events: HostEvents, types: Types) -> Links:
    """All links of a host, in the order in which parents of an event are searched."""
    links = Links()
    iterations = having(events, "id", "iter_num")
    executors = iterations.of_types(types, (_EXECUTOR,))
    for name in ("IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute"):
        links.join_last(executors, iterations.of_types(types, (CODES[name],)))
    correlated = having(events, "correlation_id")
    links.join_last(correlated.of_types(types, (KERNEL_LAUNCH,)), correlated.of_types(types, (KERNEL_EXECUTE,)))
    executed = iterations.of_types(types, (CODES["TpuExecuteOp"],))
    requests = having(events, "request_id", "queue_addr")
    enqueued = requests.of_types(types, (CODES["EnqueueRequestLocked"],))
    taken_up = requests.of_types(types, DEVICE_REQUESTS)
    programs, runs = _launches(events, types)
    links.join(
        _without(contexts(events, "_pt", "_p"), executors, enqueued, programs),
        _without(contexts(events, "_ct", "_c"), executed, taken_up, runs),
        crowds=True,
    )
    links.join(executors, executed, crowds=True)
    links.join(enqueued, taken_up, crowds=True)
    links.join(programs, runs, crowds=True)
    return links


def _without(ends: Ends, *others: Ends) -> Ends:
    """Those that are not linked in another way: other contexts of such events do not count."""
    rows = np.concatenate([one.rows for one in others])
    if not len(rows) or not len(ends.rows):
        return ends
    return ends.where(~np.isin(ends.rows, rows))


def contexts(events: HostEvents, kind: str, number: str) -> Ends:
    """Events with the type and number of the context that they produce or consume, and the process it is of: by the
    event's ``_pid``, else the plane's ``process_id``."""
    ends = having(events, kind, number)
    rows, values = events.ints("_pid")
    if not len(rows) and not any("process_id" in plane.stats for plane in events.planes):
        return ends
    process, known = np.zeros(len(ends.rows), np.int64), np.zeros(len(ends.rows), np.int64)
    for plane in events.planes:
        stated = plane.stats.get("process_id")
        if isinstance(stated, int):
            part = slice(*np.searchsorted(ends.rows, [plane.first, plane.last]))
            process[part], known[part] = np.array([stated % 2**64], np.uint64).view(np.int64)[0], 1
    own, value = beside(ends.rows, rows, values)
    return Ends(ends.rows, (*ends.keys, np.where(own, value, process), np.where(own, 1, known)))


def _launches(events: HostEvents, types: Types) -> tuple[Ends, Ends]:
    """Programs that the host enqueues; the callbacks of their end, and their executions on devices."""
    runs = having(events, "run_id", "queue_id")
    of_host = having(events, "run_id", "queue_id", "device_ordinal")
    _, core_type = beside(of_host.rows, *events.ints("core_type"))
    run_id, queue, ordinal = of_host.keys
    called = Ends(of_host.rows, (ordinal, queue, run_id & _RUN_ID_BITS, core_type))
    programs = called.of_types(types, (CODES["DoEnqueueProgram"],))
    modules = module_ends(events, runs)
    callbacks = called.of_types(types, (CODES["CompleteCallbacks"],))
    keys = tuple(np.concatenate(pair) for pair in zip(callbacks.keys, modules.keys, strict=True))
    return programs, Ends(np.concatenate([callbacks.rows, modules.rows]), keys)


def module_ends(events: HostEvents, runs: Ends) -> Ends:
    """Executions of modules on TensorCores, keyed as the programs that the host enqueues."""
    device = np.full(len(runs.rows), -1, np.int64)
    for line in events.lines:
        kind, ordinal = device_of(line.plane.name)
        if line.name == "XLA Modules" and kind == "TPU" and ordinal is not None:
            device[slice(*np.searchsorted(runs.rows, [line.first, line.last]))] = ordinal
    _, core_type = beside(runs.rows, *events.ints("core_type"))
    run_id, queue = runs.keys
    return Ends(runs.rows, (device, queue, run_id, core_type)).where(device >= 0)
