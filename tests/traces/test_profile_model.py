"""Profiles made of a graph, of runs and of a log of ops are those that tfprof makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensorflow_descriptor import message

import fastprof
from fastprof.errors import CaptureError
from fastprof.inputs.profile_model import make_profile

INPUTS = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "tfprof" / "inputs"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def read(name: str) -> bytes:
    return (INPUTS / name).read_bytes()


def made(graph: Any, *runs: Any, log: Any = None) -> Any:
    """The profile, as the protobuf runtime reads it: nodes by name."""
    data = make_profile(
        graph.SerializeToString(), [(step, run.SerializeToString()) for step, run in enumerate(runs)],
        log and log.SerializeToString(),
    )  # fmt: skip
    return message("ProfileProto").FromString(data)


def node(profile: Any, name: str) -> Any:
    (found,) = (one for one in profile.nodes.values() if one.name == name)
    return found


def run_of(*stats: tuple[str, dict[str, Any]]) -> Any:
    """RunMetadata of nodes by device."""
    return message("RunMetadata")(
        step_stats={"dev_stats": [{"device": device, "node_stats": [one]} for device, one in stats]}
    )


def test_a_profile_is_the_one_that_tfprof_wrote() -> None:
    """But for the output of an input NODE:1, which tfprof records as 0."""
    runs = [(step, read(f"gpu_run_metadata_{step}.pb")) for step in (0, 1)]
    ours = message("ProfileProto").FromString(make_profile(read("gpu_graph.pb"), runs, read("gpu_op_log")))
    theirs = message("ProfileProto").FromString(read("gpu_profile"))
    assert len(theirs.nodes) == 115
    other = [(one, id_) for one in ours.nodes for id_, output in ours.nodes[one].src_output_index.items() if output]
    assert [ours.nodes[one].name for one, _ in other] == ["gradients/tower_0/conv/Conv2D_grad/Conv2DBackpropFilter"]
    for one, id_ in other:
        theirs.nodes[one].src_output_index[id_] = 1
    assert ours == theirs


def test_a_graph_alone_is_a_profile_without_steps() -> None:
    profile = fastprof.load(make_profile(read("gpu_graph.pb")))
    assert profile.tfprof_profiles.to_pylist()[0]["steps"] == [] and profile.tfprof_nodes.num_rows > 100
    assert profile.events.num_rows == 0 and not any(profile.tfprof_nodes["runs"].to_pylist())
    assert {"name": "data_format", "value": "NHWC"} in [
        one for row in profile.tfprof_nodes["attrs"].to_pylist() for one in row
    ]


def test_shapes_come_from_attributes() -> None:
    """A scalar has one element; without a known rank it has none."""
    shapes = [{"dim": [{"size": 3}, {"size": -1}]}, {}, {"unknown_rank": True}]
    nodes = [{"name": f"n{at}", "op": "V", "attr": {"shape": {"shape": shape}}} for at, shape in enumerate(shapes)]
    nodes.append({"name": "m", "op": "M", "attr": {"_output_shapes": {"list": {"shape": shapes}}}})
    profile = made(message("GraphDef")(node=nodes))
    assert [list(node(profile, f"n{at}").shape) for at in range(3)] == [[3, -1], [1], []]
    outputs = node(profile, "m").output_shapes
    assert [list(outputs[slot].int64_values) for slot in sorted(outputs)] == [[3, -1], [1], []]


def test_inputs_are_nodes_and_outputs() -> None:
    """Control inputs are inputs, too; others that the graph lacks are left out; of two equal names the first counts."""
    nodes = [
        {"name": "a", "op": "A"},
        {"name": "b", "op": "B", "input": ["a:2", "missing", "^a"]},
        {"name": "b", "op": "C"},
    ]
    found = node(made(message("GraphDef")(node=nodes)), "b")
    assert (found.op, dict(found.inputs), dict(found.src_output_index)) == ("B", {0: 0, 2: 0}, {0: 0})


def test_the_first_device_of_a_job_counts() -> None:
    """What others record of the node is dropped, but for streams; names end at their first colon."""
    gpu = CPU.replace("CPU", "GPU")
    run = run_of(
        (gpu, {"node_name": "a:MatMul", "all_start_micros": 10, "op_end_rel_micros": 0}),
        (CPU, {"node_name": "a", "all_start_micros": 20, "op_end_rel_micros": 5}),
        ("/device:GPU:0/stream:all", {"node_name": "a:MatMul", "all_start_micros": 30, "op_end_rel_micros": 7}),
        ("/device:GPU:0/stream:3", {"node_name": "a:MatMul", "all_start_micros": 30, "op_end_rel_micros": 7}),
        (CPU, {"node_name": "late", "op_end_rel_micros": 5}),
        *((CPU, {"node_name": name, "all_start_micros": 1}) for name in ("RecvTensor", "_SOURCE", "x MEMCPY y")),
    )
    profile = made(message("GraphDef")(node=[{"name": "a", "op": "MatMul"}]), run)
    one = node(profile, "a")
    ran = one.execs[0]
    assert (one.canonical_device, one.host_device) == (gpu.lower(), gpu.lower().replace("gpu:0", "cpu:0"))
    assert {name: [list(t.int64_values) for t in times.times] for name, times in ran.cpu_execs.items()} == {
        gpu.lower(): [[10, 1]]
    }
    assert {name: [list(t.int64_values) for t in times.times] for name, times in ran.accelerator_execs.items()} == {
        "/device:gpu:0/stream:all": [[30, 7]]
    }
    assert (ran.run_count, ran.all_start_micros, ran.latest_end_micros, len(ran.devices)) == (1, 10, 37, 3)
    assert {one.name: one.op for one in profile.nodes.values()} == {"a": "MatMul", "late": "late"}
    assert node(profile, "late").execs[0].all_start_micros == 0 and not profile.miss_accelerator_stream


def test_an_accelerator_without_its_stream_is_noted() -> None:
    run = run_of((CPU.replace("CPU", "GPU"), {"node_name": "a", "all_start_micros": 10}))
    profile = made(message("GraphDef")(), run, message("RunMetadata")())
    assert profile.miss_accelerator_stream and list(profile.steps) == [0]


def test_a_log_adds_types_operations_and_code() -> None:
    code = {"traces": [{"lineno": 3, "file_id": 1, "function_id": 2, "line_id": 1}]}
    entries = [{"name": "a", "float_ops": 5, "types": ["x"], "code_def": code}, {"name": "a", "types": ["y"]},
               {"name": "missing", "float_ops": 1}]  # fmt: skip
    log = message("OpLogProto")(log_entries=entries, id_to_string={1: "f.py", 2: "g"})
    profile = made(message("GraphDef")(node=[{"name": "a", "op": "A"}]), log=log)
    one = node(profile, "a")
    assert (list(one.op_types), one.float_ops, one.trace.traces[0].lineno) == (["A", "x", "y"], 5, 3)
    assert profile.has_trace and dict(profile.id_to_string) == {1: "f.py", 2: "g"}


@pytest.mark.parametrize("what", ["GraphDef", "RunMetadata", "OpLogProto"])
def test_damaged_documents_are_errors(what: str) -> None:
    good, bad = message("GraphDef")(node=[{"name": "a", "op": "A"}]).SerializeToString(), b"\x0a\x05\x0a\x02a"
    with pytest.raises(CaptureError, match=what) as error:
        make_profile(bad if what == "GraphDef" else good, [(0, bad)] if what == "RunMetadata" else [],
                      bad if what == "OpLogProto" else None)  # fmt: skip
    assert error.value.offset == 0
