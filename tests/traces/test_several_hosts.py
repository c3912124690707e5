"""Files of several hosts: traces that XProf wrote of them, and runs of TensorFlow 1 on several tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastprof
from fastprof.cli.main import main
from fastprof.schema.message_fields import put


def named(pid: int, process: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}


def ran(pid: int, name: str, ts: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": 1, "name": name, "ts": ts, "dur": 2, **more}


def document(*events: dict[str, Any]) -> bytes:
    return json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events}).encode()


TWO = document(
    named(1, "a b /host:CPU"), named(2, "a b /device:TPU:0"), named(3, "c /host:CPU"), named(4, "c plain"),
    ran(1, "one", 1, bind_id="0x1", flow_out=True), ran(2, "two", 5, bind_id="0x1", flow_in=True),
    ran(3, "three", 7, bind_id="0x2", flow_out=True), ran(3, "four", 10, bind_id="0x2", flow_in=True),
    ran(4, "five", 9),
)  # fmt: skip


def events_of(profile: fastprof.Profile) -> list[tuple[str, str, str, int]]:
    columns = ("host", "plane", "name", "start_ps")
    return [tuple(row[name] for name in columns) for row in profile.events.to_pylist()]


OF_TWO = [
    ("a b", "/host:CPU", "one", 1_000_000),
    ("a b", "/device:TPU:0", "two", 5_000_000),
    ("c", "/host:CPU", "three", 7_000_000),
    ("c", "/host:CPU", "four", 10_000_000),
    ("c", "plain", "five", 9_000_000),
]


def test_each_host_of_a_trace_of_xprof_is_a_host_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "pod.trace.json"
    path.write_bytes(TWO)
    profile = fastprof.load(path)
    assert events_of(profile) == OF_TWO
    rows = profile.hosts.to_pylist()
    assert [(row["host"], row["path"], row["hostnames"]) for row in rows] == [
        ("a b", str(path), ["a b"]),
        ("c", str(path), ["c"]),
    ]
    flows = profile.tables["flows"].to_pylist()
    assert [(row["host"], row["from_event_id"], row["to_event_id"]) for row in flows] == [("a b", 0, 1), ("c", 2, 3)]
    assert profile.import_log.num_rows == 0

    assert main(["convert", str(path), "-o", str(tmp_path / "converted"), "-q"]) == 0
    assert events_of(fastprof.load(tmp_path / "converted")) == OF_TWO
    assert events_of(fastprof.load(TWO)) == OF_TWO  # from memory


def test_planes_without_a_host_are_of_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vm.trace.json"
    path.write_bytes(document(named(1, "/host:CPU"), ran(1, "own", 1), named(2, "b /host:CPU"), ran(2, "other", 2)))
    assert events_of(fastprof.load(path)) == [
        ("vm", "/host:CPU", "own", 1_000_000),
        ("b", "/host:CPU", "other", 2_000_000),
    ]


def test_a_single_host_is_named_after_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vm.trace.json"
    path.write_bytes(document(named(1, "b /host:CPU"), ran(1, "own", 1)))
    profile = fastprof.load(path)
    assert events_of(profile) == [("vm", "/host:CPU", "own", 1_000_000)]
    assert profile.hosts.to_pylist()[0]["hostnames"] == ["b"]


def test_tasks_of_a_run_of_tensorflow_1_are_hosts() -> None:
    def device(name: str, node: str, start: int, *more: bytes) -> bytes:
        """A node of 1 us, and its memory."""
        return put(1, put(1, name) + put(2, put(1, node) + put(2, start) + put(5, 1) + b"".join(more)))

    def allocated(size: int, when: int) -> bytes:
        return put(6, put(1, "cpu") + put(6, put(1, when) + put(2, size)))

    run = put(
        1,
        device("/job:w/replica:0/task:0/device:CPU:0", "a", 100, allocated(8, 100))
        + device("/job:w/replica:0/task:1/device:CPU:0", "b", 102, allocated(16, 102))
        + device("/job:w/replica:0/task:1/device:GPU:0", "c", 103)
        + device("/device:GPU:0/stream:1", "d", 104),
    )
    profile = fastprof.load(run)
    host = profile.hosts["host"][0].as_py()
    rows = [(row["host"], row["plane"], row["line"], row["name"]) for row in profile.events.to_pylist()]
    assert rows == [
        (host, "/host:CPU", "thread 0", "a"),
        (host, "/host:CPU", "allocations", "MemoryAllocation"),
        (host, "/host:CPU", "runs", "RunMetadata"),
        (host, "/device:GPU:0", "stream 1", "d"),
        (host, "/device:GPU:0", "Steps", "0"),
        ("w-replica0-task1", "/host:CPU", "thread 0", "b"),
        ("w-replica0-task1", "/host:CPU", "GPU:0 scheduling", "c"),
        ("w-replica0-task1", "/host:CPU", "allocations", "MemoryAllocation"),
        ("w-replica0-task1", "/host:CPU", "runs", "RunMetadata"),
    ]
    held = [row["int_value"] for row in profile.tables["event_stats"].to_pylist() if row["stat"] == "bytes_allocated"]
    assert held == [8, 16]


def test_a_process_called_like_the_environment_is_of_one_host(tmp_path: Path) -> None:
    """Whatever its id, and whatever it says of itself."""
    path = tmp_path / "vm.trace.json"
    process = 2**31 - 1
    path.write_bytes(
        document(
            named(process, "Task Environment"), ran(process, "own", 1), named(2, "b /host:CPU"), ran(2, "other", 2),
            {"ph": "M", "pid": process, "name": "transcribed_from", "args": {"name": "Kineto JSON"}},
        )
    )  # fmt: skip
    profile = fastprof.load(path)
    assert events_of(profile) == [
        ("vm", "Task Environment", "own", 1_000_000),
        ("b", "/host:CPU", "other", 2_000_000),
    ]
    assert profile.hosts["start_unix_ns"].to_pylist() == [None, None]


def test_a_name_too_long_for_a_path_is_shortened_and_said_to_be(tmp_path: Path) -> None:
    names = ["h" * 299 + "1", "h" * 299 + "2", "\u6c34" * 60]  # the last one is long once it is URL-encoded
    events = [[named(pid, f"{name} /host:CPU"), ran(pid, "e", 1 + pid)] for pid, name in enumerate(names)]
    profile = fastprof.load(document(*events[0], *events[1], *events[2]))
    folder = fastprof.export.write(profile, tmp_path / "out", tables=["events", "import_log"], layout="paths")
    hosts = sorted(one.name.removeprefix("host=") for one in (folder / "events").iterdir())
    assert len(hosts) == 3 and max(map(len, hosts)) <= 200
    assert [row["count"] for row in profile.import_log.to_pylist() if row["code"] == "shortened_name"] == [3]
