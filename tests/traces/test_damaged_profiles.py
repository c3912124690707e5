"""Damaged and hostile profiles of tfprof give tables, or errors that say what and where."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from gate import few
from random_profiles import CPU, random_profile
from slow_profile import tables
from tensorflow_descriptor import message

import fastprof
from fastprof.errors import CaptureError
from fastprof.schema.message_fields import put

TABLES = ("tfprof_profiles", "tfprof_nodes", "tfprof_executions", "tfprof_memory")


def read(data: bytes, on_error: Any = "raise") -> fastprof.Profile:
    profile = fastprof.load(data, on_error=on_error)
    for name, table in profile.read(*TABLES, "events", "import_log").items():
        table.validate(full=True)
        assert name
    return profile


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_changed_bytes_give_tables_or_errors(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(random_profile(seed % 7, 12).SerializeToString())
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        data[at : at + chance.randint(0, 2)] = bytes(chance.getrandbits(8) for _ in range(chance.randint(0, 2)))
    for on_error in ("raise", "salvage"):
        try:
            read(bytes(data), on_error)
        except CaptureError as error:
            assert error.path == "<bytes>" and (error.offset is None or 0 <= error.offset <= len(data))


def test_of_a_file_that_was_cut_the_nodes_before_are_salvaged() -> None:
    data = random_profile(3).SerializeToString()
    for size in range(40, len(data), 997):
        with pytest.raises(CaptureError):
            read(data[:size])
        profile = read(data[:size], "salvage")
        assert "truncated" in profile.import_log["code"].to_pylist()
        whole = {row["name"]: row["op"] for row in tables(data)["nodes"]}
        assert all(whole[row["name"]] == row["op"] for row in profile.tfprof_nodes.select(["name", "op"]).to_pylist())


def test_a_damaged_node_is_an_error_with_its_place_and_is_left_out_to_salvage() -> None:
    def node(id_: int, name: str, rest: bytes) -> bytes:
        return put(1, put(1, id_) + put(2, put(1, name) + rest))

    first = node(1, "a", put(9, "A"))
    data = first + node(2, "b", b"\x0f") + node(3, "c", put(2, put(1, 0) + put(2, 1)))
    with pytest.raises(CaptureError) as error:
        read(data)
    assert len(first) < error.value.offset < len(first) + 12
    profile = read(data, "salvage")
    assert profile.tfprof_nodes["name"].to_pylist() == ["a", "c"]
    assert profile.tfprof_nodes["inputs"].to_pylist()[1] == [{"slot": 0, "node": "a", "output": 0}]
    (row,) = (row for row in profile.import_log.to_pylist() if row["code"] == "damaged_node")
    assert row["first_offset"] == len(first) and row["severity"] == "data_loss"


def test_long_names_cycles_and_markup_are_read() -> None:
    profile = message("ProfileProto")()
    names = ["x" * 10_000_000, "<script>alert(1)</script>", "", "é\0\n"]
    for id_, name in enumerate(names):
        node = profile.nodes[id_]
        node.name, node.op = name, name[:9]
        node.inputs[0] = (id_ + 1) % len(names)
        node.inputs[1] = id_
        node.execs[0].cpu_execs[CPU].times.add(int64_values=[10 + id_, 1])
    data = profile.SerializeToString()
    loaded = read(data)
    assert loaded.tfprof_nodes["name"].to_pylist() == sorted(names, key=str.encode)
    assert loaded.tfprof_executions.num_rows == 4 and loaded.events.num_rows == 5
    for row in loaded.tfprof_nodes.select(["name", "inputs"]).to_pylist():
        following = names[(names.index(row["name"]) + 1) % 4]
        assert [one["node"] for one in row["inputs"]] == [following, row["name"]]


def test_many_steps_and_devices_take_little_time() -> None:
    """As many planes and steps as executions: a row each."""
    profile = message("ProfileProto")()
    profile.nodes[0].name = "a"
    for step in range(3000):
        profile.nodes[0].execs[step].cpu_execs[f"device {step % 500}"].times.add(int64_values=[10 + step, 1])
    loaded = read(profile.SerializeToString())
    assert loaded.tfprof_executions.num_rows == 3000
    assert loaded.planes.num_rows == 500 + 3 and loaded.events.num_rows == 6000


@pytest.mark.captures
def test_lines_of_code_whose_texts_are_lost_are_in_the_diagnosis() -> None:
    """Texts stand behind the nodes that refer to them."""
    path = Path(__file__).resolve().parents[3] / "shared" / "captures" / "tf1" / "profile_8"
    profile = fastprof.load(path.read_bytes()[:-20_000], on_error="salvage")
    assert "unknown_id" in profile.import_log["code"].to_pylist()
    assert profile.diagnosis().tables["findings"].num_rows > 0
