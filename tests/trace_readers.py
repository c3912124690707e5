"""Trace files read back by readers that are not ours: the json module, and protobuf with Perfetto's own schema."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet


@dataclass
class Slice:
    """An event; ``row``: the key of its row in the file."""

    process: str
    track: str
    row: Any
    start_ps: int
    duration_ps: int
    name: str
    args: dict[str, Any]
    flows_out: list[int] = field(default_factory=list)
    flows_in: list[int] = field(default_factory=list)


@dataclass
class ReadTrace:
    slices: list[Slice]
    counters: dict[tuple[str, str], list[tuple[int, float]]]
    processes: list[str]
    """By how they are sorted."""
    tracks: dict[str, list[str]]
    """Of each process, by how they are sorted; rows of a track once."""

    def nests(self) -> bool:
        """Whether on every row slices lie side by side or in each other."""
        rows = defaultdict(list)
        for one in self.slices:
            if one.duration_ps > 0:
                rows[one.process, one.row].append((one.start_ps, -one.duration_ps))
        for spans in rows.values():
            ends: list[int] = []
            for start, negative in sorted(spans):
                while ends and ends[-1] <= start:
                    ends.pop()
                if ends and start - negative > ends[-1]:
                    return False
                ends.append(start - negative)
        return True


# ---- Chrome


def read_chrome(data: bytes) -> ReadTrace:
    text = data.decode("utf-8")
    events = json.loads(text, parse_float=Decimal, object_pairs_hook=_once, parse_constant=_refuse)["traceEvents"]
    named: dict[tuple[str, Any, Any], Any] = {}
    for event in events:
        if event["ph"] == "M":
            key = (event["name"], event["pid"], event.get("tid"))
            assert key not in named
            (named[key],) = event["args"].values()
    slices: list[Slice] = []
    counters: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for event in events:
        pid, tid = event["pid"], event.get("tid")
        process = named["process_name", pid, None]
        if event["ph"] in "Xi":
            assert event["ph"] == "X" or event["s"] == "t"
            track = named["thread_name", pid, tid]
            span = _ps(event["ts"]), _ps(event.get("dur", 0))
            slices.append(Slice(process, track, tid, *span, event["name"], event.get("args", {})))
        elif event["ph"] in "sf":
            last = slices[-1]
            assert (process, tid, _ps(event["ts"])) == (last.process, last.row, last.start_ps)
            (last.flows_out if event["ph"] == "s" else last.flows_in).append(event["id"])
        elif event["ph"] == "C":
            counters[process, event["name"]].append((_ps(event["ts"]), float(event["args"]["value"])))
        else:
            assert event["ph"] == "M", event
    return ReadTrace(slices, counters, *_chrome_order(named))


def _chrome_order(named: dict[tuple[str, Any, Any], Any]) -> tuple[list[str], dict[str, list[str]]]:
    pids = {pid: name for (what, pid, _), name in named.items() if what == "process_name"}
    tracks: dict[str, list[str]] = {}
    order = sorted(pids, key=lambda pid: named["process_sort_index", pid, None])
    for pid in order:
        tids = [tid for (what, of, tid) in named if what == "thread_name" and of == pid]
        tids.sort(key=lambda tid: (named["thread_sort_index", pid, tid], named["thread_name", pid, tid], tid))
        tracks[pids[pid]] = [named["thread_name", pid, tid] for tid in tids]
    return [pids[pid] for pid in order], tracks


def _ps(micros: int | Decimal) -> int:
    ps = Decimal(micros) * 1_000_000
    assert ps == int(ps)
    return int(ps)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a key twice: {pairs}"
    return dict(pairs)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def lost_in_perfetto(data: bytes, in_ns: Callable[[float], int]) -> list[str]:
    """Names of the slices that Perfetto drops of a Chrome trace: its importer takes ``ts`` and ``dur`` to whole ns,
    each by itself, with ``in_ns``, sorts by start, longer ones first, and drops what ends after one it begins in."""
    rows = defaultdict(list)
    for event in json.loads(data)["traceEvents"]:
        if event["ph"] in "Xi":
            duration = in_ns(float(event.get("dur", 0)) * 1000)
            rows[event["pid"], event["tid"]].append((in_ns(float(event["ts"]) * 1000), duration, event["name"]))
    lost = []
    for slices in rows.values():
        ends: list[tuple[int, int]] = []
        for start, duration, name in sorted(slices, key=lambda one: (one[0], -one[1])):
            while ends and (ends[-1][0] < start or (ends[-1][0] == start and (ends[-1][1] or duration))):
                ends.pop()
            if any(start < end < start + duration for end, _ in ends):
                lost.append(name)
            else:
                ends.append((start + duration, duration))
    return lost


# ---- Perfetto


class Interned:
    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.keys: dict[int, str] = {}
        self.texts: dict[int, str] = {}

    def learn(self, data: Any) -> None:
        for entry in data.event_names:
            assert self.names.setdefault(entry.iid, entry.name) == entry.name
        for entry in data.debug_annotation_names:
            assert self.keys.setdefault(entry.iid, entry.name) == entry.name
        for entry in data.debug_annotation_string_values:
            text = entry.str.decode("utf-8")
            assert self.texts.setdefault(entry.iid, text) == text


def read_perfetto(data: bytes) -> ReadTrace:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace = Trace.FromString(data)
    check_known(trace)
    interned = Interned()
    tracks: dict[int, Any] = {}
    slices: list[Slice] = []
    open_slices: dict[int, list[tuple[int, Slice]]] = defaultdict(list)
    counters: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        interned.learn(packet.interned_data)
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in tracks
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event, track = packet.track_event, tracks[packet.track_event.track_uuid]
        process = tracks[track.parent_uuid].process.process_name
        if event.type == TrackEvent.TYPE_COUNTER:
            value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
            counters[process, track.name].append((packet.timestamp * 1000, value))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, ended = open_slices[track.uuid].pop()
            ended.duration_ps = (packet.timestamp - start) * 1000
            assert abs(ended.args.get("dur_ps", ended.duration_ps) - ended.duration_ps) < 1000
        else:
            one = _perfetto_slice(packet, event, track, process, interned)
            slices.append(one)
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                open_slices[track.uuid].append((packet.timestamp, one))
            else:
                assert event.type == TrackEvent.TYPE_INSTANT
    assert not any(open_slices.values())
    for one in slices:
        exact = one.args.pop("ts_ps", one.start_ps)
        assert 0 <= exact - one.start_ps < 1000  # on the clock of the file
        one.start_ps = exact
        one.duration_ps = one.args.pop("dur_ps", one.duration_ps)
    return ReadTrace(slices, counters, *_perfetto_order(tracks))


def _perfetto_slice(packet: Any, event: Any, track: Any, process: str, interned: Interned) -> Slice:
    args: dict[str, Any] = {}
    for note in event.debug_annotations:
        key = note.name if note.HasField("name") else interned.keys[note.name_iid]
        assert key not in args, key
        kind = note.WhichOneof("value")
        value = getattr(note, kind)
        args[key] = interned.texts[value] if kind == "string_value_iid" else value
    name = interned.names[event.name_iid] if event.HasField("name_iid") else ""
    one = Slice(process, track.name, track.uuid, packet.timestamp * 1000, 0, name, args)
    one.flows_out += event.flow_ids
    one.flows_in += event.terminating_flow_ids
    return one


def _perfetto_order(tracks: dict[int, Any]) -> tuple[list[str], dict[str, list[str]]]:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor

    assert tracks[0].process_ordering == TrackDescriptor.PROCESS_ORDERING_EXPLICIT
    processes = sorted(
        (one for one in tracks.values() if one.HasField("process")), key=lambda one: one.sibling_order_rank
    )
    ordered: dict[str, list[str]] = {}
    for process in processes:
        assert process.child_ordering == TrackDescriptor.EXPLICIT
        of_process = [one for one in tracks.values() if one.parent_uuid == process.uuid and not one.HasField("counter")]
        merged = {one.sibling_merge_key_int: one for one in of_process}
        in_order = sorted(merged.values(), key=lambda one: one.sibling_order_rank)
        ordered[process.process.process_name] = [one.name for one in in_order]
    return [process.process.process_name for process in processes], ordered


def check_known(message: Message) -> None:
    """Every field of the message, and of those in it, is one that the schema has."""
    for one in _messages(message):
        assert not list(UnknownFieldSet(one)), one


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for one in [value] if isinstance(value, Message) else value:
            yield from _messages(one)
