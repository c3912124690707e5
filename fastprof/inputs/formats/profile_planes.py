"""Planes of an XSpace of a ProfileProto: the executions of nodes as events, and the profile as it was written.

plane "/host:CPU"       lines "lane 0", "GPU:0 scheduling", ...    events NODE:OP, group_id: the step
                        line  "runs"                               an event a step, around its executions
plane "/device:GPU:0"   line  "stream all"
plane "tfprof"          event metadata "profile", stats "profile_proto": pieces of the file, one after the other

Tasks but the first are hosts: their names stand before those of their planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof._native import transcribing
from fastprof.inputs.formats.contract import Remark
from fastprof.inputs.formats.device_places import HOST, Place, host_of, place_of, task_of
from fastprof.inputs.formats.event_columns import LineColumns
from fastprof.inputs.formats.step_planes import environment
from fastprof.inputs.message_columns import Buffer
from fastprof.inputs.profile_columns import PICOSECONDS, PLANE, STAT, ProfileColumns, times_of
from fastprof.schema.array_types import Int64s
from fastprof.schema.message_fields import put, put_all, varint

_PIECE: Final = 1 << 20
_GROUP, _STEP_NAME, _TF_OP = 1, 2, 3
_STATS: Final = {"group_id": _GROUP, "step_name": _STEP_NAME, "tf_op": _TF_OP}
_RUNS_LINE: Final = 0xDEADBEEF + 300
"""Lines with such ids are made from others."""


class ProfilePlanes:
    """Of the executions of a profile. ``zero_us``: what their times count from, Unix time; ``timed``: those that have
    a time, and become events."""

    def __init__(self, profile: ProfileColumns) -> None:
        self._profile = profile
        self._every = profile.executions
        self.zero_us, self.timed = times_of(self._every)

    def remarks(self) -> Iterator[Remark]:
        lost = len(self.timed) - int(self.timed.sum())
        if lost:
            text = "executions whose times are none are no events: the table tfprof_executions has them"
            yield Remark("notice", "bad_time", text, lost, None)

    def xspace(self) -> Iterator[bytes]:
        devices: Sequence[str] = self._profile.devices.words.to_pylist()
        first = next((task for task in map(task_of, sorted(devices)) if task), None)
        places = [_placed(device, first) for device in devices]
        numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
        of_device = np.array([numbers[place] for place in places], np.int64)
        rows = np.flatnonzero(self.timed)
        place_of_row = of_device[self._every.device[rows]]
        ends = np.cumsum(np.bincount(place_of_row, minlength=len(numbers)))
        rows = rows[np.argsort(place_of_row, kind="stable")]
        of_plane: dict[str, dict[Place, Int64s]] = {HOST: {}}
        of_host: dict[str, list[Int64s]] = {}
        for (host, place), some in zip(
            numbers, np.split(rows, ends[:-1]), strict=False
        ):  # of no places there is one, too
            of_plane.setdefault(host + HOST, {})
            of_plane.setdefault(host + place.plane, {})[place] = some
            of_host.setdefault(host + HOST, []).append(some)
        for number, (name, rows_of) in enumerate(of_plane.items()):
            yield self._plane(number + 1, name, rows_of, of_host.get(name, []))
        yield environment("TensorFlow 1 profile", self.zero_us * 1000)
        yield from _pieces(self._profile.data, len(of_plane) + 1)

    def _plane(self, number: int, name: str, rows: Mapping[Place, Int64s], of_host: Sequence[Int64s]) -> bytes:
        """``rows``: of the executions of each place. ``of_host``: those of its host, if the plane is of its threads."""
        is_host = name.endswith(HOST)
        used = [self._every.node[some] for some in rows.values()]
        nodes = np.unique(np.concatenate([np.zeros(0, np.int64), *used]))
        lines: list[bytes] = []
        for place, some in rows.items():
            lines += self._lines(some, np.searchsorted(nodes, self._every.node[some]) + 1, place, len(lines) + 1)
        metadata = self._metadata(nodes, 0 if is_host else _TF_OP)
        content = put(1, number) + put(2, name) + put_all(3, lines) + metadata
        if is_host:
            content += self._runs(np.concatenate([np.zeros(0, np.int64), *of_host]), len(nodes) + 1)
        content += put_all(5, (put(1, stat) + put(2, put(1, stat) + put(2, text)) for text, stat in _STATS.items()))
        return put(1, content)

    @cached_property
    def _titles(self) -> pa.Array:
        """NODE:OP of each node."""
        import pyarrow.compute as pc  # late: most captures do without

        ops = self._profile.ops.array().cast(pa.string())
        return pc.binary_join_element_wise(self._profile.names, ops, ":").cast(pa.large_binary())

    def _metadata(self, nodes: Int64s, stat: int) -> bytes:
        texts = self._titles.take(pa.array(nodes))
        _, offsets, content = texts.buffers()
        bounds = np.frombuffer(offsets, np.int64)[: len(nodes) + 1] if len(nodes) else np.zeros(1, np.int64)
        return transcribing.event_metadata(1, bounds, content if content is not None else b"", stat)

    def _lines(self, rows: Int64s, metadata: Int64s, place: Place, first: int) -> list[bytes]:
        every = self._every
        order = np.argsort(every.start_us[rows], kind="stable")
        rows, metadata = rows[order], metadata[order]
        start, duration = every.start_us[rows], every.duration_us[rows]
        lane = np.zeros(len(rows), np.int32)
        if place.is_lanes:
            lane = np.frombuffer(transcribing.first_free_lanes(start, start + duration), np.int32)
        by_lane = np.argsort(lane, kind="stable")
        ends = np.cumsum(np.bincount(lane))
        groups = np.searchsorted(self._steps, every.step[rows])
        lines = []
        for number, chosen in enumerate(np.split(by_lane, ends[:-1])):
            is_one = len(ends) == 1 and place.line != ""
            name = place.line if is_one else f"{place.line} lane {number}".strip()
            offset, length = (start[chosen] - self.zero_us) * PICOSECONDS, duration[chosen] * PICOSECONDS
            events = LineColumns.of_integer(metadata[chosen], offset, length, _GROUP, groups[chosen]).written()
            lines.append(put(1, first + number) + put(2, name) + put(3, self.zero_us * 1000) + events)
        return lines

    @cached_property
    def _steps(self) -> Int64s:
        return np.unique(self._every.step[self.timed])

    def _runs(self, rows: Int64s, metadata: int) -> bytes:
        """A line with an event for each step of these executions."""
        every = self._every
        groups = np.searchsorted(self._steps, every.step[rows])
        of_step, group = np.unique(groups, return_inverse=True)
        steps = self._steps[of_step]
        begin = np.full(len(steps), np.iinfo(np.int64).max)
        end = np.full(len(steps), np.iinfo(np.int64).min)
        np.minimum.at(begin, group, every.start_us[rows])
        np.maximum.at(end, group, every.start_us[rows] + every.duration_us[rows])
        events = []
        spans = zip(of_step.tolist(), steps.tolist(), begin.tolist(), end.tolist(), strict=True)
        for number, step, first, last in spans:
            stats = [put(1, _GROUP) + put(4, number), put(1, _STEP_NAME) + put(5, str(step))]
            times = put(2, (first - self.zero_us) * PICOSECONDS) + put(3, (last - first) * PICOSECONDS)
            events.append(put(1, metadata) + times + put_all(4, stats))
        if not events:
            return b""
        line = put(1, _RUNS_LINE) + put(2, "runs") + put(3, self.zero_us * 1000) + put_all(4, events)
        return put(3, line) + put(4, put(1, metadata) + put(2, put(1, metadata) + put(2, "step")))


def _placed(device: str, first: str | None) -> tuple[str, Place]:
    """What the names of the planes of its host begin with, and its place there. ``first``: the first task."""
    task = task_of(device)
    host = f"{host_of(task)} " if task not in (None, first) else ""
    return host, place_of(device, task or first)


def _pieces(data: Buffer, number: int) -> Iterator[bytes]:
    """The plane of the profile itself. Its length comes first, but it is copied a piece at a time."""
    heads = []
    for at in range(0, len(data), _PIECE):
        size = min(_PIECE, len(data) - at)
        value = put(1, 1) + varint(6 << 3 | 2) + varint(size)
        heads.append(varint(5 << 3 | 2) + varint(len(value) + size) + value)
    metadata = put(1, 1) + put(2, "profile")
    inner = len(metadata) + sum(map(len, heads)) + len(data)
    entry = put(1, 1) + varint(2 << 3 | 2) + varint(inner)
    plane = put(1, number) + put(2, PLANE) + put(5, put(1, 1) + put(2, put(1, 1) + put(2, STAT)))
    head = varint(4 << 3 | 2) + varint(len(entry) + inner)
    size = len(plane) + len(head) + len(entry) + inner
    yield varint(1 << 3 | 2) + varint(size) + plane + head + entry + metadata
    view = memoryview(data)
    for number, one in enumerate(heads):
        yield one
        yield bytes(view[number * _PIECE : (number + 1) * _PIECE])
