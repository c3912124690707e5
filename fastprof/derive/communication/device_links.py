"""Links: what a device sends to another one, as far as the capture records which.

A collective-permute has pairs of devices, as the program numbers them; so do send and recv on GPUs. The device
assignment of the program has their ids. Copies record the GPU that they go to, and process groups the rank of the
device at the other end:

    source_target_pairs={{0,1},{1,0}}     device 7 is number 0, device 4 is number 1: links 7 -> 4 and 4 -> 7
    on device 4                           a row for what it sends to 7, and one for what it receives from 7

Both ends may have recorded a link. What the receiver recorded counts then, because it is done when the bytes are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.derive.communication.collectives import Assignments, parse_payload
from fastprof.derive.communication.communication_sums import Column, OperationSums, narrow_column
from fastprof.derive.communication.flights import NO_BYTES, Direct, Flights, Operation
from fastprof.derive.devices.communication_kinds import CommunicationKind
from fastprof.hlo.shapes import read_expression
from fastprof.schema.columns import (
    Bools,
    Int64s,
    find_group_bounds,
    find_runs,
    join_parts,
    number_distinct_rows,
    number_owners,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

OF_LINKS: Final = (CommunicationKind.COLLECTIVE_PERMUTE, CommunicationKind.SEND_RECV, CommunicationKind.PEER_COPY)
"""Kinds of communication between two devices."""
SYSTEM, HERE, RANK = range(3)
"""How the other device is numbered: among the cores of the system, the GPUs of the host, or the program's ranks."""
MOST_LINKS: Final = 1 << 20
"""Bound for all hosts together. Each keeps its share of the links, the slowest, but at least FEWEST_LINKS."""
FEWEST_LINKS: Final = 32

_PAIRS: Final = compile_late(r'source_target_pairs="?(\{\s*(?:\{\s*\d{1,9}\s*,\s*\d{1,9}\s*\}\s*(?:,\s*)?)*\})')
"""Pattern in which a space matches in one way only, so that a text that ends otherwise fails at once."""
_NUMBER: Final = compile_late(r"\d+")
_CHANNEL: Final = compile_late(r"\bchannel_id=(\d+)")
_MOST_BYTES: Final = 2**62


class DeviceLinks(NamedTuple):
    """Links of a device, a row per other device, direction, kind, and maybe op. ``best_bytes``, ``best_ps``: of the
    execution that moved its bytes fastest. Unknown bytes are NO_BYTES."""

    peer: Int64s
    numbering: Int64s
    sends: Int64s
    kind: Int64s
    occurrences: Int64s
    time_ps: Int64s
    bytes: Int64s
    best_bytes: Int64s
    best_ps: Int64s


@dataclass(frozen=True, slots=True)
class HostLinks:
    """Links of a host, a row per device, other device, direction and kind. ``device``: place among the host's devices,
    or -1 if there are several and only the host's rank is recorded. ``ids``: number of each device in the system, or
    -1; ``rank``: rank of the host, or -1. ``unknown``: number of transfers whose other device is unknown; ``left_out``:
    number of rows beyond the limit."""

    device: Column
    peer: Column
    numbering: Column
    sends: Bools
    kind: Column
    occurrences: Column
    time_ps: Column
    bytes: Column
    best_bytes: Column
    best_ps: Column
    ids: Column
    rank: int
    unknown: int
    left_out: int

    def __len__(self) -> int:
        return len(self.device)


def list_direct_links(flights: Flights, direct: Direct, kind_of_op: Column) -> DeviceLinks:
    """List links of flights that record their other end, a row for each flight, because their sizes differ."""
    at = direct.flight
    kind = kind_of_op[flights.op[at]].astype(np.int64) if len(at) else np.zeros(0, np.int64)
    linked = np.isin(kind, [link_kind.number for link_kind in OF_LINKS])
    at, kind = at[linked], kind[linked]
    time, size = (flights.end_ps - flights.begin_ps)[at], flights.bytes[at]
    numbering = np.where(direct.is_rank[linked], RANK, HERE)
    sends = direct.sends[linked].astype(np.int64)
    every = DeviceLinks(direct.peer[linked], numbering, sends, kind, np.ones(len(at), np.int64), time, size, size, time)
    return DeviceLinks(*_group_links(every, [every.peer, every.numbering, every.sends, every.kind]))


def list_host_links(
    direct: Sequence[DeviceLinks],
    of_devices: Sequence[OperationSums],
    operations: Sequence[Operation],
    assignments: Assignments,
    *,
    is_gpu: bool,
    rank: int | None,
    session_hosts: int,
) -> HostLinks:
    """List the links of a host. ``direct``, ``of_devices``: of each device; ``operations``: by number."""
    parts: list[tuple[int, DeviceLinks]] = [(place, links) for place, links in enumerate(direct) if len(links.peer)]
    unknown = -sum(int(links.occurrences.sum()) for _, links in parts)
    for number, operation in enumerate(operations):
        if operation.kind not in OF_LINKS:
            continue
        read, layout = _parse_pairs(operation.text), assignments.layout(operation.program_id)
        for place, ran in enumerate(of_devices):
            for row in np.flatnonzero(ran.op == number).tolist():
                others = _find_others(read, layout, assignments.id_of(place))
                if others is None:
                    unknown += int(ran.count[row])
                elif others:
                    parts.append(
                        (place, _list_operation_links(operation, ran, row, others, HERE if is_gpu else SYSTEM))
                    )
    device = np.repeat([place for place, _ in parts], [len(links.peer) for _, links in parts]).astype(np.int64)
    none = [np.zeros(0, np.int64)]
    every = DeviceLinks(
        *(np.concatenate(none + [getattr(links, name) for _, links in parts]) for name in DeviceLinks._fields)
    )
    if len(of_devices) > 1:
        device = np.where(every.numbering == RANK, -1, device)
    device, *columns = _group_links(every, [device, every.peer, every.numbering, every.sends, every.kind], device)
    kept, most = np.arange(len(device)), max(MOST_LINKS // max(session_hosts, 1), FEWEST_LINKS)
    if len(kept) > most:
        grouped = DeviceLinks(*columns)
        kept = np.sort(sort_by_rate(grouped.bytes, grouped.time_ps)[:most])
    named = {name: narrow_column(column[kept]) for name, column in zip(DeviceLinks._fields, columns, strict=True)}
    ids = [assignments.id_of(place) for place in range(len(of_devices))]
    return HostLinks(
        device=narrow_column(device[kept]),
        **(named | {"sends": named["sends"].astype(np.bool_)}),
        ids=narrow_column(np.array([-1 if is_gpu or id_ is None else id_ for id_ in ids], np.int64)),
        rank=-1 if rank is None else rank,
        unknown=max(unknown, 0),
        left_out=len(device) - len(kept),
    )


def _list_operation_links(
    operation: Operation, ran: OperationSums, row: int, others: Sequence[tuple[int, bool]], numbering: int
) -> DeviceLinks:
    """Return what a device exchanged in the executions of an instruction."""
    count, time, least = (int(column[row]) for column in (ran.count, ran.time_ps, ran.min_ps))
    size = parse_payload(operation.kind, operation.text).bytes
    known = size is not None and size * count <= _MOST_BYTES
    each, total = (size, size * count) if known and size is not None else (NO_BYTES, NO_BYTES)
    peer, sends = zip(*others, strict=True)
    values = (numbering, operation.kind.number, count, time, total, each, least)
    numbers, kind, *rest = (np.full(len(others), value, np.int64) for value in values)
    return DeviceLinks(np.array(peer, np.int64), numbers, np.array(sends, np.int64), kind, *rest)


def _group_links(every: DeviceLinks, keys: Sequence[Int64s], *more: Int64s) -> list[Int64s]:
    """Join the rows of each key. ``more``: columns to put before those of ``every``, which are parts of the keys."""
    if not len(every.peer):
        return [*more, *every]
    first, number = number_distinct_rows(keys)
    count = len(first)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where((every.best_bytes >= 0) & (every.best_ps > 0), every.best_bytes / every.best_ps, -1.0)
    order = sort_rows(number, -rate)
    best = order[find_group_bounds(number[order], count)[:-1]]
    lacks = np.bincount(number[every.bytes < 0], minlength=count) > 0
    lacks |= np.bincount(number, np.maximum(every.bytes, 0), count) > _MOST_BYTES
    size = np.where(lacks[number], 0, every.bytes)
    sums = {
        "occurrences": sum_by(number, every.occurrences, count),
        "time_ps": sum_by(number, every.time_ps, count, "times of communication"),
        "bytes": np.where(lacks, NO_BYTES, sum_by(number, size, count, "bytes between devices")),
    }
    rest = {name: getattr(every, name)[best] for name in DeviceLinks._fields if name not in sums}
    return [*(column[best] for column in more), *every._replace(**sums, **rest)]


def measure_rates(moved: Int64s, time_ps: Int64s) -> Column:
    """Return bytes per second, or NaN if bytes are unknown or there is no time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((moved < 0) | (time_ps <= 0), np.nan, moved / time_ps * 1e12)


def sort_by_rate(moved: Int64s, time_ps: Int64s) -> Int64s:
    """Return the order of links by bandwidth, then by time; those whose bandwidth is unknown are last."""
    rate = measure_rates(moved, time_ps)
    return sort_rows(np.where(np.isnan(rate), np.inf, rate), -time_ps)


# ---- whom an instruction names


def _find_others(
    read: _InstructionPairs | None, layout: Int64s | None, own: int | None
) -> list[tuple[int, bool]] | None:
    """Return the ids of the devices at the other ends of a device's links, and whether these receive, or None if
    unknown."""
    if read is None or layout is None or own is None:
        return None
    at = np.argwhere(layout == own)
    if not len(at):
        return None
    replica, partition = at[0].tolist()
    of_partitions = layout.shape[0] == 1 or (layout.shape[1] > 1 and read.crosses_partitions)
    ids, number = (layout[replica], partition) if of_partitions else (layout[:, partition], replica)
    targets = read.target[read.source == number] if read.sends else read.target[:0]
    sources = read.source[read.target == number] if read.receives else read.source[:0]
    ends = [*((target, True) for target in targets.tolist()), *((source, False) for source in sources.tolist())]
    return [(int(ids[other]), sends) for other, sends in ends if other != number and other < len(ids)]


class _InstructionPairs(NamedTuple):
    """Pairs of an instruction. ``sends``, ``receives``: which end of a pair runs the instruction; of a permute, both
    do."""

    source: Int64s
    target: Int64s
    crosses_partitions: bool
    sends: bool
    receives: bool


@lru_cache(64)
def _parse_pairs(text: str) -> _InstructionPairs | None:
    """Parse the pairs of an instruction, or return None if it has none."""
    read = read_expression(text)
    listed = _PAIRS.search(read.attributes) if read is not None else None
    if read is None or listed is None:
        return None
    source, target = np.array([int(number) for number in _NUMBER.findall(listed[1])], np.int64).reshape(-1, 2).T
    channel = _CHANNEL.search(read.attributes)
    crosses = channel is not None and int(channel[1]) > 0
    return _InstructionPairs(
        source, target, crosses, not read.opcode.startswith("recv"), not read.opcode.startswith("send")
    )


# ---- all hosts


class SessionLinks(NamedTuple):
    """Links of all hosts, slowest first, a row per pair of devices and kind. ``source``, ``target``: places among
    ``ends``; ``by_target``: whether the device that receives recorded it."""

    ends: list[tuple[int, str]]
    source: Int64s
    target: Int64s
    kind: Int64s
    by_target: Int64s
    occurrences: Int64s
    time_ps: Int64s
    bytes: Int64s
    best_bytes: Int64s
    best_ps: Int64s


class HostDeviceNames(NamedTuple):
    """A host, and the planes of its devices."""

    name: str
    planes: list[str]


def list_links(hosts: Sequence[HostDeviceNames], kept: Sequence[HostLinks]) -> SessionLinks:
    ends = _LinkEnds(hosts, kept)
    host = number_owners([len(host_links) for host_links in kept])
    of = {name: join_parts(getattr(host_links, name) for host_links in kept).astype(np.int64)
          for name in ("device", *DeviceLinks._fields)}  # fmt: skip
    own = ends.own(host, of["device"], of["numbering"])
    other = ends.others(host, of["peer"], of["numbering"])
    sends = of["sends"] > 0
    source, target = np.where(sends, own, other), np.where(sends, other, own)
    order = sort_rows(source, target, of["kind"], sends)
    rows = order[find_runs(source[order], target[order], of["kind"][order])]
    rows = rows[sort_by_rate(of["bytes"][rows], of["time_ps"][rows])]
    columns = (of[name][rows] for name in ("occurrences", "time_ps", "bytes", "best_bytes", "best_ps"))
    return SessionLinks(
        ends.known, source[rows], target[rows], of["kind"][rows], (~sends[rows]).astype(np.int64), *columns
    )


class _LinkEnds:
    """Devices at the ends of links, numbered as they are met: a captured device, or a number that is all that is known.
    ``known``: number of the host, or -1 if it is not captured, and name."""

    def __init__(self, hosts: Sequence[HostDeviceNames], kept: Sequence[HostLinks]) -> None:
        self._hosts, self._rank = hosts, [host_links.rank for host_links in kept]
        self._ids = [host_links.ids.tolist() for host_links in kept]
        self.known: list[tuple[int, str]] = []
        self._places: dict[tuple[int, int, int], int] = {}
        self._cores: dict[int, tuple[int, int] | None] = {}
        self._ranks: dict[int, int | None] = {}
        for host, own in enumerate(kept):
            for device, number in enumerate(self._ids[host]):
                if number >= 0:  # None: several devices have it
                    self._cores[number] = None if number in self._cores else (host, device)
            if own.rank >= 0:
                self._ranks[own.rank] = None if own.rank in self._ranks else host

    def own(self, host: Int64s, device: Int64s, numbering: Int64s) -> Int64s:
        places = []
        for its_host, its_device, numbered in zip(host.tolist(), device.tolist(), numbering.tolist(), strict=True):
            rank = self._rank[its_host]
            if numbered == RANK and self._ranks.get(rank) is not None:
                places.append(self._of_rank(rank))
            elif its_device >= 0:
                places.append(self._device(its_host, its_device))
            else:
                places.append(self._place((RANK, its_host, -1), its_host, "several devices"))
        return np.array(places, np.int64)

    def others(self, host: Int64s, peer: Int64s, numbering: Int64s) -> Int64s:
        rows = zip(host.tolist(), peer.tolist(), numbering.tolist(), strict=True)
        return np.array([self._other(*row) for row in rows], np.int64)

    def _other(self, host: int, peer: int, numbering: int) -> int:
        if numbering == RANK:
            return self._of_rank(peer)
        if numbering == HERE:
            places = [
                i for i, name in enumerate(self._hosts[host].planes) if find_device_of_plane(name) == ("GPU", peer)
            ]
            if places:
                return self._device(host, places[0])
            return self._place((HERE, host, peer), host, f"/device:GPU:{peer}")
        own = self._ids[host]
        device = (host, own.index(peer)) if peer in own else self._cores.get(peer)
        return self._device(*device) if device is not None else self._place((SYSTEM, 0, peer), -1, f"core {peer}")

    def _of_rank(self, rank: int) -> int:
        """Return the place of a rank: of its device, if its host has only one."""
        host = self._ranks.get(rank)
        if host is not None and len(self._hosts[host].planes) == 1:
            return self._device(host, 0)
        return self._place((RANK, 0, rank), -1 if host is None else host, f"rank {rank}")

    def _device(self, host: int, device: int) -> int:
        return self._place((-1, host, device), host, self._hosts[host].planes[device])

    def _place(self, key: tuple[int, int, int], host: int, name: str) -> int:
        place = self._places.setdefault(key, len(self.known))
        if place == len(self.known):
            self.known.append((host, name))
        return place
