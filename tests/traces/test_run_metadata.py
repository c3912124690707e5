"""RunMetadata of TensorFlow 1: the events that TensorFlow's own timeline has of them, and what damage gives."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from gate import left_to_test_all, rounds

import fastprof
from fastprof.errors import CaptureError
from fastprof.inputs.formats import run_metadata
from fastprof.schema.message_fields import put

SHARED = Path(__file__).resolve().parents[3] / "shared"
INPUTS = SHARED / "conformance" / "tfprof" / "inputs"
FILES = {
    "tf1": SHARED / "captures" / "tf1" / "run_metadata.pb",
    "gpu_0": INPUTS / "gpu_run_metadata_0.pb",
    "gpu_1": INPUTS / "gpu_run_metadata_1.pb",
    "sample": SHARED / "spec" / "samples" / "run_meta.pb",
}


def ran(profile: fastprof.Profile) -> list[dict[str, Any]]:
    """The events that are executions of nodes, with their stats; ``start``: Unix time, in picoseconds."""
    tables = profile.tables
    zero = {row["line_id"]: row["timestamp_ns"] * 1000 for row in tables["lines"].to_pylist()}
    stats: dict[int, dict[str, Any]] = {}
    for row in tables["event_stats"].to_pylist():
        value = row["int_value"] if row["int_value"] is not None else row["str_value"]
        stats.setdefault(row["event_id"], {})[row["stat"]] = value
    return [
        {**row, "start": zero[row["line_id"]] + row["start_ps"], **stats.get(row["event_id"], {})}
        for row in tables["events"].to_pylist()
        if row["line"] not in ("allocations", "runs", "Steps", "_counters_")
    ]


def as_timeline(event: dict[str, Any]) -> tuple[int, str, str, tuple[str, ...]]:
    node, _, type_ = event["name"].partition(":")
    inputs = tuple(event[f"input{number}"] for number in range(100) if f"input{number}" in event)
    return event["start"] // 1_000_000, node, type_ or "unknown", inputs


def of_tensorflow(name: str) -> list[dict[str, Any]]:
    every = json.loads((SHARED / "conformance" / "tfprof" / "timeline" / f"{name}.schedule.json").read_text())
    return [event for event in every["traceEvents"] if event["ph"] == "X"]


@pytest.mark.parametrize("name", FILES)
def test_events_are_those_of_tensorflows_timeline(name: str) -> None:
    own = sorted(ran(fastprof.load(FILES[name])), key=as_timeline)
    known = of_tensorflow(name)
    wanted = [
        (one["ts"], one["args"]["name"], one["args"]["op"],
         tuple(one["args"][f"input{number}"] for number in range(100) if f"input{number}" in one["args"]), one["dur"])
        for one in known
    ]  # fmt: skip
    assert [as_timeline(one) for one in own] == sorted(one[:4] for one in wanted)
    took = dict.fromkeys([one[:4] for one in wanted], 0)
    for one in wanted:
        took[one[:4]] += one[4]
    for one in own:
        took[as_timeline(one)] -= one["duration_ps"] // 1_000_000
    assert all(abs(rest) <= 2 for rest in took.values())  # microseconds of TensorFlow are differences of truncated ones


def test_devices_are_planes_and_streams_are_lines() -> None:
    profile = fastprof.load(FILES["gpu_1"])
    assert {(one["plane"], one["line"]) for one in ran(profile)} == {
        ("/host:CPU", "lane 0"), ("/host:CPU", "lane 1"), ("/host:CPU", "lane 2"), ("/host:CPU", "GPU:0 scheduling"),
        ("/device:GPU:0", "stream all"), ("/device:GPU:0", "stream 7"), ("/device:GPU:0", "stream 13"),
        ("/device:GPU:0", "memcpy"),
    }  # fmt: skip
    (relu,) = (
        one for one in ran(profile) if one["line"] == "stream 7" and one["start"] == 1_500_000_000_010_420_137_000
    )
    assert (relu["name"], relu["tf_op"]) == ("kernel_of_stream_7", "tower_0/BatchNorm/Relu:Relu")
    assert (relu["duration_ps"], relu["op_end_ps"]) == (43_011_000, 40_011_000)


def test_allocations_are_events_with_a_running_sum() -> None:
    tables = fastprof.load(FILES["gpu_1"]).tables
    names = [row["name"] for row in tables["events"].to_pylist() if row["line"] == "allocations"]
    assert set(names) == {"MemoryAllocation", "MemoryDeallocation"}
    sums = [row["int_value"] for row in tables["event_stats"].to_pylist() if row["stat"] == "bytes_allocated"]
    assert sums[0] == 24_576
    assert min(sums) >= 0


def test_a_damaged_file_is_an_error_with_its_place_or_salvaged() -> None:
    data = FILES["tf1"].read_bytes()
    with pytest.raises(CaptureError, match="the message ends within a field, reading RunMetadata") as caught:
        fastprof.load(data[:3000])
    assert caught.value.offset == 0
    kept = fastprof.load(data[:3000], on_error="salvage")
    assert sorted(kept.import_log["code"].to_pylist()) == ["bad_node", "truncated"]
    every = fastprof.load(data)
    assert kept.events.num_rows > 10
    assert set(kept.events["name"].to_pylist()) < set(every.events["name"].to_pylist())


def transcribed(data: bytes, salvage: bool) -> bytes:
    scribe = run_metadata.scribe("file", salvage)
    for at in range(0, len(data), 1000):
        scribe.push(data[at : at + 1000])
    return b"".join(scribe.finish())


def test_cut_and_changed_files_give_a_table_or_an_error() -> None:
    data, chance, errors = FILES["gpu_1"].read_bytes(), random.Random(7), 0
    cuts = [data[:end] for end in range(0, len(data), rounds(9, 60))]
    for _ in range(rounds(200, 40)):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        cuts.append(bytes(changed))
    for number, broken in enumerate(cuts):
        try:
            transcribed(broken, salvage=False)
        except CaptureError as fault:
            errors += 1
            assert fault.offset is not None
            assert 0 <= fault.offset <= len(broken)
        salvaged = transcribed(broken, salvage=True)
        if number % 40 == 0:
            fastprof.load(salvaged, on_error="salvage").tables["events"].to_pylist()
    assert errors > rounds(300, 40)


@left_to_test_all
def test_many_nodes_at_once_take_many_lanes_and_little_time() -> None:
    nodes = b"".join(
        put(2, put(1, f"n{number}") + put(2, 1_000 + number) + put(5, 1 << 30)) for number in range(20_000)
    )
    profile = fastprof.load(put(1, put(1, put(1, "/job:w/replica:0/task:0/device:CPU:0") + nodes)))
    assert profile.tables["lines"].num_rows == 20_001


def test_packed_files_are_known() -> None:
    plain, packed = FILES["sample"].read_bytes(), gzip.compress(FILES["sample"].read_bytes())
    assert fastprof.load(packed).tables["events"].equals(fastprof.load(plain).tables["events"])


def test_23_work_of_streams_counts_once() -> None:
    ops = fastprof.load(FILES["gpu_1"]).report("op_stats").tables["ops"].to_pylist()
    own = [row for row in ops if row["host_or_device"] == "Device" and row["type"] != "IDLE"]
    kernels = [353_011_000, 123_011_000, 43_011_000, 44_011_000, 45_011_000, 903_011_000]
    assert sum(row["total_ps"] for row in own) == sum(kernels)


def test_24_times_of_scheduling_are_not_those_of_the_run() -> None:
    profile = fastprof.load(FILES["tf1"])
    assert min(one["scheduled_micros"] for one in ran(profile)) > 5_000_000_000_000_000
    (run,) = (row for row in profile.tables["events"].to_pylist() if row["line"] == "runs")
    assert run["duration_ps"] == 293_337_000


def test_25_nanoseconds_count_and_not_differences_of_truncated_microseconds() -> None:
    node = put(1, "a") + put(2, 7) + put(5, 3) + put(13, 7_900) + put(16, 2_150)
    (one,) = ran(fastprof.load(put(1, put(1, put(1, "/job:w/replica:0/task:0/device:CPU:0") + put(2, node)))))
    assert (one["start"], one["duration_ps"]) == (7_900_000, 2_150_000)


@pytest.mark.parametrize("label", ["gemm@@x:MatMul#id=0#", "x:MatMul@@gemm#id=0#"])
def test_labels_of_kernels_name_the_node_first_or_last(label: str) -> None:
    node = put(1, "x:MatMul") + put(2, 7) + put(5, 3) + put(8, label)
    (one,) = ran(fastprof.load(put(1, put(1, put(1, "/device:GPU:0/stream:7") + put(2, node)))))
    assert (one["name"], one["tf_op"], one["node"]) == ("gemm", "x:MatMul", "x")
