"""Profiles of tfprof: tables and events of what the protobuf runtime reads, of real and of random files."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gate import few
from random_profiles import CPU, GPU, OTHER, STREAM, random_profile
from slow_profile import tables
from tensorflow_descriptor import message

import fastprof
from fastprof.cli.main import main
from fastprof.errors import CaptureError
from fastprof.inputs.formats import find_format
from fastprof.schema.message_fields import put

SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = {
    "profile_1": SHARED / "spec" / "samples" / "profile_1",
    "profile_8": SHARED / "captures" / "tf1" / "profile_8",
    "gpu_profile": SHARED / "conformance" / "tfprof" / "inputs" / "gpu_profile",
}
PLACES = {
    CPU: ("own", "/host:CPU", "lane"), GPU: ("own", "/host:CPU", "GPU:0 scheduling"),
    STREAM: ("own", "/device:GPU:0", "stream all"), "odd": ("own", "odd", "lane"),
    OTHER: ("worker-replica0-task1", "/host:CPU", "lane"),
}  # fmt: skip


def rows(profile: fastprof.Profile, table: str) -> list[dict[str, Any]]:
    found = profile.tables[f"tfprof_{table}"]
    found.validate(full=True)
    return [{name: value for name, value in row.items() if name not in ("host", "start_ps", "duration_ps")}
            for row in found.to_pylist()]  # fmt: skip


def assert_as_protobuf(profile: fastprof.Profile, data: bytes) -> None:
    expected = tables(data)
    for name in ("profiles", "nodes", "executions", "memory"):
        assert rows(profile, name) == expected[name], name


@pytest.mark.parametrize("name", FILES)
def test_tables_are_what_protobuf_reads(name: str) -> None:
    profile = fastprof.load(FILES[name])
    assert_as_protobuf(profile, FILES[name].read_bytes())
    assert profile.tfprof_nodes.num_rows > 10 and profile.tfprof_executions.num_rows > 10
    assert set(profile.tfprof_memory["host"].to_pylist()) == {name}


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_tables_of_random_profiles_are_what_protobuf_reads(seed: int) -> None:
    data = random_profile(seed).SerializeToString()
    assert find_format(data[:65536]) is not None
    assert_as_protobuf(fastprof.load(data), data)


@pytest.mark.parametrize("source", [*FILES, 1, 2, 3])
def test_executions_are_events(source: str | int) -> None:
    """On the hosts of their tasks, the planes and lines of their devices, in the steps that they ran in, with the times
    of the table."""
    data = FILES[source].read_bytes() if isinstance(source, str) else random_profile(source).SerializeToString()
    profile = fastprof.load(data)
    ops = dict(zip(*(profile.tfprof_nodes[name].to_pylist() for name in ("name", "op")), strict=True))
    own = profile.tfprof_nodes["host"][0].as_py()
    events = profile.event_table(["host", "plane", "line", "name", "start_ps", "duration_ps"], ["group_id"]).to_pylist()
    steps = sorted(set(profile.tfprof_executions["step"].to_pylist()))
    wanted: Counter[tuple[Any, ...]] = Counter()
    for row in profile.tfprof_executions.to_pylist():
        host, plane, line = PLACES[row["device"]]
        host = own if host == "own" else host
        name = f"{row['name']}:{ops[row['name']]}"
        wanted[host, plane, line, name, row["start_ps"], row["duration_ps"], steps.index(row["step"])] += 1
    found = Counter(
        (row["host"], row["plane"], re.sub(r" ?lane \d+$", "", row["line"]) or "lane", row["name"], row["start_ps"],
         row["duration_ps"], row["group_id"])
        for row in events if row["line"] != "runs"
    )  # fmt: skip
    assert found == wanted and len(found) > 5
    runs = {(row["host"], row["group_id"]) for row in events if row["line"] == "runs"}
    assert runs == {(host, group) for host, *_, group in wanted}
    assert set(profile.tfprof_executions["host"].to_pylist()) == {own}  # all are of the profile, which is one


def test_lanes_hold_one_event_at_a_time() -> None:
    events = fastprof.load(FILES["gpu_profile"]).events.to_pylist()
    ends: dict[int, int] = {}
    for row in events:
        if "lane" in row["line"]:
            assert row["start_ps"] >= ends.get(row["line_id"], 0)
            ends[row["line_id"]] = row["start_ps"] + row["duration_ps"]
    assert len(ends) == 2


def test_a_profile_survives_conversion(tmp_path: Path) -> None:
    """The XSpace that it becomes carries it."""
    source = tmp_path / "profile_7"
    shutil.copyfile(FILES["gpu_profile"], source)
    assert main(["convert", str(source), "-o", str(tmp_path / "out.xplane.pb")]) == 0
    assert_as_protobuf(fastprof.load(tmp_path / "out.xplane.pb"), FILES["gpu_profile"].read_bytes())


def test_other_protobufs_are_known_to_be_others() -> None:
    others = [
        message("GraphDef")(node=[{"name": "a", "op": "Add"}]).SerializeToString(),
        message("OpLogProto")(log_entries=[{"name": "a", "float_ops": 3}]).SerializeToString(),
        put(1, put(1, 7) + put(2, "plane") + put(3, b"")), put(1, put(1, 7) + put(2, "Task Environment")),
        put(1, put(1, 7)), put(1, put(1, 7) + put(2, b"")), put(2, 1) + put(3, b"\1"), b"",
    ]  # fmt: skip
    for data in others:
        form = find_format(data)
        assert form is None or form.NAME != "profile_proto"


def test_a_log_of_ops_alone_is_an_error() -> None:
    code = {"traces": [{"lineno": 3, "file_id": 1}]}
    log = message("OpLogProto")(log_entries=[{"name": "a", "float_ops": 3, "types": ["x"], "code_def": code}])
    for on_error in ("raise", "salvage"):
        with pytest.raises(CaptureError, match="OpLogProto"):
            fastprof.load(log.SerializeToString(), on_error=on_error)


def test_of_equal_keys_the_last_counts_and_of_equal_names_the_first() -> None:
    def node(id_: int, name: str, op: str) -> bytes:
        return put(1, put(1, id_) + put(2, put(1, name) + put(9, op) + put(2, put(1, 0) + put(2, 2))))

    profile = fastprof.load(node(1, "a", "lost") + node(2, "b", "B") + node(1, "a", "kept") + node(3, "b", "second"))
    nodes = profile.tfprof_nodes.select(["name", "op", "inputs"]).to_pylist()
    link = [{"slot": 0, "node": "b", "output": 0}]
    assert nodes == [{"name": "a", "op": "kept", "inputs": link}, {"name": "b", "op": "B", "inputs": link}]


def test_times_that_are_none_are_no_events() -> None:
    profile = message("ProfileProto")()
    for number, when in enumerate([[5, 1], [0, 1], [6, -1], [2**62, 1], [7]]):
        profile.nodes[number].name = f"n{number}"
        profile.nodes[number].execs[0].cpu_execs[CPU].times.add(int64_values=when)
    loaded = fastprof.load(profile.SerializeToString())
    assert loaded.tfprof_executions["start_ps"].to_pylist() == [0, None, None, None, 2_000_000]
    assert loaded.tfprof_executions["duration_us"].to_pylist() == [1, 1, -1, 1, 0]
    assert loaded.events.num_rows == 2 + 1
    (row,) = (row for row in loaded.import_log.to_pylist() if row["code"] == "bad_time")
    assert row["count"] == 3


def test_an_input_that_leads_nowhere_is_an_error() -> None:
    data = put(1, put(1, 4) + put(2, put(1, "lonely") + put(2, put(1, 0) + put(2, 99))))
    with pytest.raises(CaptureError, match="an input of the node is not in the profile") as error:
        assert fastprof.load(data).tfprof_nodes
    assert error.value.offset == 6
    salvaged = fastprof.load(data, on_error="salvage")
    assert salvaged.tfprof_nodes["inputs"].to_pylist() == [[]]
    assert [row["code"] for row in salvaged.import_log.to_pylist()] == ["unknown_id"]


def test_several_profiles_are_several_hosts(tmp_path: Path) -> None:
    """Their nodes follow each other, with one dictionary of texts."""
    paths = []
    for number, name in enumerate(("gpu_profile", "profile_1")):
        (tmp_path / f"profile_{number}").mkdir()
        paths.append(tmp_path / f"profile_{number}" / name)
        paths[-1].write_bytes(FILES[name].read_bytes())
    nodes = fastprof.load(paths).tfprof_nodes
    assert nodes.num_rows == 115 + 17
    assert nodes["name"].to_pylist()[115:] == [row["name"] for row in tables(FILES["profile_1"].read_bytes())["nodes"]]
    assert nodes["types"].to_pylist()[-1] == tables(FILES["profile_1"].read_bytes())["nodes"][-1]["types"]


def test_of_a_directory_timelines_of_steps_that_a_profile_has_are_not_read(tmp_path: Path) -> None:
    tf1 = SHARED / "captures" / "tf1"
    for name in ("profile_8", "timeline-8.json", "timeline-12.json", "graph.pb", "run_metadata.pb"):
        shutil.copyfile(tf1 / name, tmp_path / name)
    loaded = fastprof.load(tmp_path)
    assert loaded.hosts["host"].to_pylist() == ["profile", "timeline-12"]
    remarks = {row["example"] for row in loaded.import_log.to_pylist() if row["code"] == "same_session"}
    assert remarks == {"not read, because profile_8 has its step"}
    (tmp_path / "profile_8").unlink()
    assert fastprof.load(tmp_path).hosts["host"].to_pylist() == ["timeline-12", "timeline-8"]  # the run is of any step
    (tmp_path / "timeline-8.json").unlink()
    (tmp_path / "run_metadata.pb").rename(tmp_path / "run_meta_12")
    loaded = fastprof.load(tmp_path)
    assert loaded.hosts["host"].to_pylist() == ["graph"]
    assert [Path(row["path"]).name for row in loaded.import_log.to_pylist()] == ["timeline-12.json"]


def test_of_a_directory_the_profile_of_the_latest_step_is_read(tmp_path: Path) -> None:
    """It has the steps of the others. Names alone are not enough."""
    for number in (2, 10, 9):
        profile = message("ProfileProto")(steps=range(number))
        profile.nodes[0].name = "a"
        (tmp_path / f"profile_{number}").write_bytes(profile.SerializeToString())
    (tmp_path / "profile_11").write_bytes(b"no profile")
    (tmp_path / "checkpoint").write_bytes(b"text")
    loaded = fastprof.load(tmp_path)
    assert loaded.tfprof_profiles["steps"].to_pylist() == [list(range(10))]
    remarks = {row["path"][-9:]: row["example"] for row in loaded.import_log.to_pylist()}
    assert remarks == {
        "profile_2": "not read, because profile_10 has all of its steps",
        "profile_9": "not read, because profile_10 has all of its steps",
    }
