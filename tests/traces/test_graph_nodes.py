"""GraphDefs as sessions: the table graph_nodes, how it travels, and what damage gives."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_event_files import record
from test_graph_def import FILES, SHARED, slow_rows

import fastprof
from fastprof.errors import CaptureError
from fastprof.inputs.formats import find_format, graph_def
from fastprof.schema.message_fields import put

GRAPH = FILES[0].read_bytes()


def rows_of(profile: fastprof.Profile) -> list[tuple[Any, ...]]:
    return [
        (row["function"] or "", row["node"], row["op"], row["device"] or "", row["inputs"], row["control_inputs"],
         dict(row["attrs"]))
        for row in profile.graph_nodes.to_pylist()
    ]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_graph_alone_is_a_session_with_its_nodes_and_without_events(file: Path) -> None:
    profile = fastprof.load(file)
    assert rows_of(profile) == slow_rows(file.read_bytes())
    assert profile.events.num_rows == 0
    assert {row["kind"] for row in profile.graph_nodes.to_pylist()} == {"graph"}
    assert profile.import_log.num_rows == 0


def test_attributes_have_columns_of_their_own() -> None:
    by_name = {row["node"]: row for row in fastprof.load(FILES[1]).graph_nodes.to_pylist()}
    shapes = [row for row in by_name.values() if row["output_shapes"]]
    assert shapes and all(row["output_shapes"] == list_of(dict(row["attrs"])["_output_shapes"]) for row in shapes)
    variables = [row for row in by_name.values() if row["op"].startswith("Variable")]
    assert variables and all(row["shape"] == dict(row["attrs"])["shape"] for row in variables)
    assert {row["dtype"] for row in variables} == {"float"}


def list_of(text: str) -> list[str]:
    return text[1:-1].split(", ") if len(text) > 2 else []


def test_graphs_travel_in_chunks_compressed_converted_and_exported(tmp_path: Path) -> None:
    known = fastprof.load(GRAPH).graph_nodes
    assert fastprof.load(gzip.compress(GRAPH)).graph_nodes == known
    saved = tmp_path / "graph.xplane.pb"
    saved.write_bytes(transcribed(GRAPH, 1000))
    assert fastprof.load(saved).graph_nodes.drop("host").equals(known.drop("host"))
    fastprof.load(FILES[0]).to_parquet(str(tmp_path / "out"), layout="paths")
    exported = pq.ParquetFile(next((tmp_path / "out").rglob("graph_nodes/**/*.parquet"))).read()
    assert exported["node"].to_pylist() == known["node"].to_pylist()
    assert exported["attrs"].to_pylist() == known["attrs"].to_pylist()


def transcribed(data: bytes, size: int, salvage: bool = False) -> bytes:
    scribe = graph_def.scribe("file", salvage)
    pieces = [scribe.push(data[at : at + size]) or b"" for at in range(0, len(data), size)]
    return b"".join((*pieces, *scribe.finish()))


def test_chunks_of_any_size_give_the_same() -> None:
    every = [transcribed(GRAPH[:4000] + GRAPH[4000:], size) for size in (1, 7, 64, 4096, len(GRAPH))]
    assert all(one == every[0] for one in every)


def test_large_graphs_are_cut_into_pieces_and_are_one_graph() -> None:
    node = put(2, "Const") + put(5, put(1, "value") + put(2, put(8, put(1, 3) + put(4, bytes(400_000)))))
    graph = b"".join(put(1, put(1, f"n{number}") + node) for number in range(20))
    profile = fastprof.load(graph)
    assert profile.graph_nodes["node"].to_pylist() == [f"n{number}" for number in range(20)]
    assert set(profile.graph_nodes["graph"].to_pylist()) == {0}
    assert profile.planes["name"].to_pylist().count("TensorFlow graphs") == 1
    assert profile.event_metadata.num_rows == 5
    assert profile.import_log.num_rows == 0


def test_of_two_nodes_of_one_name_the_first_counts() -> None:
    graph = b"".join(put(1, put(1, name) + put(2, op)) for name, op in (("a", "Add"), ("b", "Mul"), ("a", "Sub")))
    profile = fastprof.load(graph)
    assert list(zip(*(profile.graph_nodes[name].to_pylist() for name in ("node", "op")), strict=True)) == [
        ("a", "Add"), ("b", "Mul"),
    ]  # fmt: skip
    (row,) = profile.import_log.to_pylist()
    assert (row["code"], row["count"], row["severity"]) == ("duplicate_node", 1, "notice")


def test_graphs_are_known_by_content_and_other_messages_are_not_graphs() -> None:
    assert find_format(GRAPH[: 64 << 10]) is graph_def
    assert find_format(put(4, put(1, 1087)) + GRAPH[:5000]) is graph_def
    node = put(1, "c") + put(2, "Const") + put(5, put(1, "value") + put(2, put(8, put(4, bytes(1 << 17)))))
    assert find_format(put(1, node)[: 64 << 10]) is graph_def
    module = put(1, "jit_f") + put(2, "main") + put(3, put(1, "main") + put(2, put(1, "x")))
    assert find_format(put(1, module)) is None
    log = put(1, put(1, "a") + put(2, 7) + put(3, "_trainable_variables"))
    assert find_format(log) is not graph_def
    profiles = SHARED / "spec" / "samples"
    assert find_format((profiles / "profile_1").read_bytes()) is not graph_def
    assert find_format((SHARED / "captures/xspace/cpu-jax-train/vm.xplane.pb").read_bytes()[: 64 << 10]) is None


def test_damage_is_an_error_with_its_place_or_salvaged() -> None:
    with pytest.raises(CaptureError, match="reading a GraphDef: the message ends within a field") as caught:
        fastprof.load(GRAPH[:-3])
    last = caught.value.offset
    assert last is not None and 0 < last < len(GRAPH)
    salvaged = fastprof.load(GRAPH[:-3], on_error="salvage")
    assert salvaged.graph_nodes.num_rows > 100
    assert [row["code"] for row in salvaged.import_log.to_pylist()] == ["truncated"]
    broken = bytearray(GRAPH)
    at = GRAPH.index(b"tower/w1/Initializer") - 1
    broken[at] = 0x7F
    profile = fastprof.load(bytes(broken))
    with pytest.raises(CaptureError, match="reading a GraphDef") as caught:
        _ = profile.graph_nodes
    assert caught.value.offset is not None
    assert abs(caught.value.offset - at) < 200
    kept = fastprof.load(bytes(broken), on_error="salvage")
    assert kept.graph_nodes.num_rows < 193
    assert "broken_graph" in kept.import_log["code"].to_pylist()


def test_cut_and_changed_graphs_give_a_table_or_an_error() -> None:
    chance, data = random.Random(2), FILES[1].read_bytes()[:3000]
    cuts = [data[:end] for end in range(1, len(data), 101)]
    for _ in range(60):
        changed = bytearray(data)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        cuts.append(bytes(changed))
    for one in cuts:
        try:
            made = transcribed(one, 500)
        except CaptureError as fault:
            assert fault.offset is not None
            assert 0 <= fault.offset <= len(one)
            made = transcribed(one, 500, salvage=True)
        fastprof.load(made, on_error="salvage").graph_nodes.to_pylist()


def test_graphs_that_a_run_recorded_are_beside_its_events() -> None:
    run = (SHARED / "captures/tf1/run_metadata.pb").read_bytes()
    one, two = (put(1, put(1, name) + put(2, "Add")) for name in ("a", "b"))
    functions = put(4, put(1, one) + put(2, two) + put(3, one + two))
    profile = fastprof.load(run + put(3, one) + put(3, two) + functions)
    assert profile.events.num_rows == fastprof.load(run).events.num_rows
    rows = profile.graph_nodes.to_pylist()
    assert [(row["graph"], row["kind"], row["node"]) for row in rows] == [
        (0, "partition", "a"), (1, "partition", "b"), (2, "function partition", "a"), (3, "before optimization", "b"),
        (4, "after optimization", "a"), (4, "after optimization", "b"),
    ]  # fmt: skip


def test_graphs_in_an_event_file_are_beside_its_runs() -> None:
    (sample,) = (SHARED / "conformance/tfprof/inputs/events").iterdir()
    profile = fastprof.load(sample)
    assert rows_of(profile) == slow_rows(FILES[1].read_bytes())
    assert profile.events["name"].to_pylist().count("RunMetadata") == 2
    meta = record(put(3, "brain.Event:2")) + record(put(4, GRAPH)) + record(put(9, put(2, GRAPH)))
    rows = fastprof.load(meta).graph_nodes.to_pylist()
    assert [row["kind"] for row in rows] == ["graph"] * 193 + ["meta graph"] * 193
    assert {row["graph"] for row in rows} == {0, 1}
