"""RunMetadata beside the timelines that TensorFlow makes of them, event by event: all options of its own.

Compared exactly: which events there are, their processes, names, ops, inputs and starts; rows, where the host's events
are on lanes; arrows; tensors; counters of allocators with their times and maxima. Durations differ by a microsecond at
most: TensorFlow subtracts truncated microseconds, here nanoseconds count. Not compared: order in the file, ids of
arrows and tensors, moments when tensors are deleted but for the counters that these change, and the descriptions of
tensors, which are stats of another form.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from test_run_metadata import FILES, SHARED, ran

import fastprof

GOLDENS = SHARED / "conformance" / "tfprof" / "timeline"
OP_TIMES = ("schedule", "gpu", "all")
US = 1_000_000
Event = dict[str, Any]


def golden(name: str) -> list[Event]:
    path = GOLDENS / f"{name}.json"
    text = path.read_bytes() if path.exists() else gzip.decompress((GOLDENS / f"{name}.json.gz").read_bytes())
    events: list[Event] = json.loads(text)["traceEvents"]
    return events


def loaded(name: str) -> fastprof.Profile:
    return fastprof.load(FILES[name])


@cache
def nodes(name: str) -> list[Event]:
    """Executions with the name of their process in TensorFlow's timeline, times in microseconds. ``node``, ``op``: as
    it shows them."""
    processes, every = device_names(name), ran(loaded(name))
    return [{**one, "process": processes[one["plane"], kind_of_line(one["line"])], **parts(one)} for one in every]


def parts(event: Event) -> Event:
    node, _, op = event["name"].partition(":")
    inputs = [event[f"input{number}"] for number in range(100) if f"input{number}" in event]
    begin, end = event["start"] // US, (event["start"] + event["duration_ps"]) // US
    return {"node": node, "op": op or "unknown", "inputs": inputs, "begin": begin, "end": end}


def kind_of_line(line: str) -> str:
    return line if line.startswith(("stream", "memcpy", "GPU:")) else ""


def device_names(name: str) -> dict[tuple[str, str], str]:
    """Of a plane and line: the device that TensorFlow names its process after."""
    found: dict[tuple[str, str], str] = {}
    for event in golden(f"{name}.schedule"):
        process = event["args"].get("name", "") if event["ph"] == "M" else ""
        if not process.endswith(" Compute"):
            continue
        device = process.removesuffix(" Compute").lower()
        place = device.rpartition("/device:" if "/device:" in device else "/")[2]
        if "/stream" in device or "/memcpy" in device:
            kind = "memcpy" if "/memcpy" in device else "stream " + device.rpartition(":")[2]
            number = device.partition("gpu:")[2].partition("/")[0]
            found[f"/device:GPU:{number}", kind] = process
        else:
            found["/host:CPU", f"GPU:{place.rpartition(':')[2]} scheduling" if "gpu" in place else ""] = process
    return found


def processes(events: list[Event]) -> dict[int, str]:
    return {one["pid"]: one["args"]["name"] for one in events if one["ph"] == "M"}


def key(process: str, node: str, op: str, inputs: list[str], begin: int) -> tuple[Any, ...]:
    return process, node, op, tuple(inputs), begin


@pytest.mark.parametrize("op_time", OP_TIMES)
@pytest.mark.parametrize("name", FILES)
def test_executions_are_those_of_tensorflow_with_every_op_time(name: str, op_time: str) -> None:
    events = golden(f"{name}.{op_time}")
    names = processes(events)
    wanted: dict[tuple[Any, ...], list[int]] = {}
    for one in events:
        if one["ph"] == "X":
            args = one["args"]
            inputs = [args[f"input{number}"] for number in range(len(args) - 2)]
            wanted.setdefault(key(names[one["pid"]], args["name"], args["op"], inputs, one["ts"]), []).append(
                one["dur"]
            )
            assert one["name"] == args["op"]
    own: dict[tuple[Any, ...], list[int]] = {}
    for one in timed(name, op_time):
        place = key(one["process"], one["node"], one["op"], one["inputs"], one["begin"])
        own.setdefault(place, []).append(one["end"] - one["begin"])
    assert sorted(own) == sorted(wanted)
    for place, durations in own.items():
        assert len(durations) == len(wanted[place])
        assert all(abs(a - b) <= 1 for a, b in zip(sorted(durations), sorted(wanted[place]), strict=True)), place


def timed(name: str, op_time: str) -> list[Event]:
    """Executions with the times that an option of TensorFlow gives them: host ops reach to the end of their kernels
    (all), or begin with these, too (gpu)."""
    if op_time == "schedule":
        return nodes(name)
    kernels: dict[str, tuple[int, int]] = {}
    for one in nodes(name):
        if one["line"] == "stream all":
            begin, end = kernels.get(one["node"], (one["begin"], one["end"]))
            kernels[one["node"]] = min(begin, one["begin"]), max(end, one["end"])
    moved = []
    for one in nodes(name):
        begin, end = kernels.get(one["node"], (one["begin"], one["end"]))
        if "/job" in one["process"] and one["node"] in kernels:
            one = {**one, "begin": begin if op_time == "gpu" else one["begin"], "end": max(end, one["end"])}
        moved.append(one)
    return moved


@pytest.mark.parametrize("name", FILES)
def test_lanes_are_the_rows_of_tensorflow(name: str) -> None:
    events = golden(f"{name}.schedule")
    names, tids = processes(events), Counter[tuple[Any, ...]]()
    for one in events:
        if one["ph"] == "X":
            tids[names[one["pid"]], one["args"]["name"], one["ts"], one["tid"]] += 1
    on_lanes = [one for one in nodes(name) if one["line"].startswith("lane ")]
    for one in on_lanes:
        assert tids[one["process"], one["node"], one["begin"], int(one["line"].split()[-1])]
    assert on_lanes or name in ("sample", "tf1")


@pytest.mark.parametrize("name", FILES)
def test_arrows_are_the_inputs_of_nodes(name: str) -> None:
    events = golden(f"{name}.schedule")
    names = processes(events)
    starts = {one["id"]: one for one in events if one["ph"] == "s"}
    wanted = Counter(
        (one["name"], names[starts[one["id"]]["pid"]], names[one["pid"]], one["ts"])
        for one in events
        if one["ph"] == "t"
    )
    rows = Counter(
        (one["args"]["name"], one["ts"], names[one["pid"]], one["tid"]) for one in events if one["ph"] == "X"
    )
    tid_of = {(node, begin, process): tid for node, begin, process, tid in rows}
    makers = {
        one["node"] if not number else f"{one['node']}:{number}": one
        for one in nodes(name) for number in range(100) if f"output:{number}" in one
    }  # fmt: skip
    own = Counter[tuple[Any, ...]]()
    for one in nodes(name):
        for text in one["inputs"]:
            cut = text if text in makers or text.rfind("/_") <= 0 else text[: text.rfind("/_")]
            maker = makers.get(cut)
            if maker is None:
                continue
            here, there = (
                (part["process"], tid_of[part["node"], part["begin"], part["process"]]) for part in (one, maker)
            )
            if here != there:
                own[cut, maker["process"], one["process"], one["begin"]] += 1
    assert own == wanted
    assert not [one for one in golden(f"{name}.schedule.noflow") if one["ph"] in "st"]


def counters(profile: fastprof.Profile) -> Counter[tuple[str, int, int]]:
    """Allocator, Unix time in microseconds, bytes."""
    tables = profile.tables
    zero = {row["line_id"]: row["timestamp_ns"] * 1000 for row in tables["lines"].to_pylist()}
    value = {row["event_id"]: row["int_value"] for row in tables["event_stats"].to_pylist() if row["kind"] == "int64"}
    return Counter(
        (row["name"], (zero[row["line_id"]] + row["start_ps"]) // US, value[row["event_id"]])
        for row in tables["events"].to_pylist()
        if row["plane"] == "Allocators"
    )


@pytest.mark.parametrize("name", FILES)
def test_counters_of_allocators_are_those_of_tensorflow(name: str) -> None:
    wanted = Counter(
        (one["name"], one["ts"], one["args"][one["name"]])
        for one in golden(f"{name}.schedule.memory")
        if one["ph"] == "C"
    )
    assert counters(loaded(name)) == wanted
    assert sum(wanted.values()) >= 10
    most = json.loads((GOLDENS / f"{name}.maximums.json").read_text())
    largest = {one: max(size for own, _, size in wanted if own == one) for one in most}
    assert largest == {one: known["num_bytes"] for one, known in most.items()}
    for one, known in most.items():
        assert (
            min(time for own, time, size in counters(loaded(name)) if (own, size) == (one, largest[one]))
            == (known["timestamp"])
        )


@pytest.mark.parametrize("name", FILES)
def test_tensors_are_the_outputs_of_nodes(name: str) -> None:
    created = Counter((one["name"], one["ts"]) for one in golden(f"{name}.schedule.memory") if one["ph"] == "N")
    own = Counter(
        (one["node"] if not number else f"{one['node']}:{number}", one["begin"])
        for one in nodes(name) for number in range(100) if f"output:{number}" in one
    )  # fmt: skip
    assert own == created


def test_kernels_of_a_stream_are_work_of_a_gpu() -> None:
    """10 kernels of 60 us, one every 100 us; the lanes "all" and of what launches them repeat these."""
    names = ("GPU:0/stream:13", "GPU:0/stream:all", "CPU:0")
    events: list[Event] = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"/device:{name} Compute"}}
        for pid, name in enumerate(names)
    ]
    events += [
        {"ph": "X", "cat": "Op", "name": "MatMul", "pid": pid, "tid": 0, "ts": 10**6 + 100 * at, "dur": 60,
         "args": {"name": f"m{at}", "op": "MatMul"}}
        for at in range(10) for pid in range(3)
    ]  # fmt: skip
    profile = fastprof.load(json.dumps({"traceEvents": events}).encode())
    (device,) = profile.gaps().tables["devices"].to_pylist()
    assert (device["device"], device["compute_ps"], device["window_ps"]) == ("/device:GPU:0", 600 * US, 960 * US)
    assert profile.kernel_stats().scalars["total_ps"].value == 600 * US
    lines = profile.tables["lines"].to_pylist()
    assert [one["name"] for one in lines] == ["0", "0", "stream 13"]
