"""Lines derived for GPUs: each expected table is what XProf 2.24.2 shows of the capture."""

from __future__ import annotations

from pathlib import Path

from timelines import args_of, derived, host_of
from trace_builder import Event, Value, event, int_field, len_field, line, plane, u64, xspace

from fastprof.derive.timeline.derived_lines import derive_timeline

NS = 1000


def kernel(start: int, duration: int, **stats: Value) -> Event:
    return event("kernel", start * NS, duration * NS, {"kernel_details": "regs:1", **stats})


def stream(*kernels: Event, more: tuple[bytes, ...] = ()) -> bytes:
    """Of one GPU, with one stream; ``more``: other planes."""
    return xspace(plane("/device:GPU:0", [line("Stream #7(Compute)", kernels, id=7)]), *more)


def track(capture: bytes, name: str) -> list[tuple[str, int, int]]:
    """Slices in nanoseconds."""
    found = derived(capture).get(f"/device:GPU:0 {name}", [])
    return [(title, start // NS, duration // NS) for title, start, duration in found]


def test_modules_and_ops_last_as_long_as_kernels_of_one_follow_each_other() -> None:
    of = {"hlo_module": "jit_f", "program_id": 5}
    capture = stream(
        kernel(0, 10, hlo_op="add.1", **of), kernel(20, 10, hlo_op="add.1", **of), kernel(40, 10, hlo_op="dot.2", **of),
        kernel(60, 10, hlo_module="jit_g", hlo_op="add.1"), kernel(80, 10, hlo_op="add.1", **of),
    )  # fmt: skip
    assert track(capture, "XLA Modules - from #7") == [("jit_f(5)", 0, 50), ("jit_g", 60, 10), ("jit_f(5)", 80, 10)]
    assert track(capture, "XLA Ops - from #7") == [
        ("add.1", 0, 30),
        ("dot.2", 40, 10),
        ("add.1", 60, 10),
        ("add.1", 80, 10),
    ]
    timeline = derive_timeline(host_of(capture))
    names = [one["long_name"] for one in args_of(timeline, "XLA Ops - from #7")]
    assert names == ["5/add.1", "5/dot.2", "jit_g/add.1", "5/add.1"]


def test_ops_in_ops_nest_and_those_of_equal_times_get_shorter() -> None:
    capture = stream(
        kernel(0, 10, hlo_op="while::body::dot"),
        kernel(10, 10, hlo_op="while::body::add"),
        kernel(20, 9, hlo_op="x::y"),
    )
    assert track(capture, "XLA Ops - from #7") == [
        ("while", 0, 20), ("body", 0, 19), ("dot", 0, 10), ("add", 10, 9), ("x", 20, 9), ("y", 20, 9),
    ]  # fmt: skip


def test_framework_ops_are_called_by_their_type_in_the_scopes_of_their_name() -> None:
    capture = stream(
        kernel(0, 10, tf_op="model/dense/MatMul:MatMul"), kernel(10, 10, tf_op="model/dense/BiasAdd:BiasAdd"),
        kernel(20, 10, tf_op="model/out/MatMul:MatMul"), kernel(30, 10, tf_op="no op at all"),
    )  # fmt: skip
    assert track(capture, "Framework Ops - from #7") == [
        ("MatMul", 0, 10), ("BiasAdd", 10, 10), ("MatMul", 20, 10), ("no op at all", 30, 10),
    ]  # fmt: skip
    assert track(capture, "Framework Name Scope - from #7") == [("model", 0, 30), ("dense", 0, 20), ("out", 20, 10)]


def test_copies_and_what_records_no_kernel_are_left_out() -> None:
    copy = event("copy", 0, 10 * NS, {"memcpy_details": "size:1", "tf_op": "a/b:Copy", "hlo_module": "jit_f"})
    assert derived(stream(copy)) == {}
    assert derived(stream(event("kernel", 0, 10, {"kernel_details": "", "hlo_module": "jit_f"}))) == {}
    run = event("graph", 0, 10 * NS, {"cuda_graph_exec_id": u64(3), "hlo_module": "jit_f"})
    assert track(stream(run), "XLA Modules - from #7") == [("jit_f", 0, 10)]


def test_nodes_of_graphs_make_command_buffers_launch_by_launch() -> None:
    capture = stream(
        kernel(0, 10, cuda_graph_id=u64(4), correlation_id=u64(1)),
        kernel(20, 10, cuda_graph_id=u64(4), correlation_id=u64(1)),
        kernel(40, 10, cuda_graph_id=u64(4), correlation_id=u64(2)), kernel(60, 10, cuda_graph_id=u64(0)),
        kernel(80, 10, cuda_graph_id=u64(9)),
    )  # fmt: skip
    name = "Command Buffers - from #7"
    assert track(capture, name) == [
        ("Command Buffer 4", 0, 30),
        ("Command Buffer 4", 40, 10),
        ("Command Buffer 9", 80, 10),
    ]
    assert args_of(derive_timeline(host_of(capture)), name) == [
        {"cuda_graph_id": 4, "correlation_id": 1}, {"cuda_graph_id": 4, "correlation_id": 2}, {"cuda_graph_id": 9},
    ]  # fmt: skip


def test_ranges_keep_executions_of_one_module_apart_by_the_outermost() -> None:
    def of(number: int) -> dict[str, Value]:
        return {"hlo_module": "jit_f", "scope_range_id": number}

    tree = b"".join(
        len_field(6, int_field(1, inner) + int_field(4, outer)) for inner, outer in {3: 1, 4: 1, 5: 2}.items()
    )
    ranges = len_field(2, "/host:__ScopeRangeCallStack__") + tree
    kernels = [
        kernel(0, 10, **of(3)),
        kernel(20, 10, **of(4)),
        kernel(40, 10, **of(5)),
        kernel(60, 10, hlo_module="jit_f"),
    ]
    assert track(stream(*kernels, more=(ranges,)), "XLA Modules - from #7") == [("jit_f", 0, 30), ("jit_f", 40, 30)]
    assert len(track(stream(*kernels), "XLA Modules - from #7")) == 3


def steps_of_host(*spans: tuple[int, int, int]) -> bytes:
    """Steps by number, start and duration; each launches the kernel with the correlation id of its number."""
    events = []
    for number, start, duration in spans:
        events.append(event("train", start * NS, duration * NS, {"_r": 1, "step_num": number}))
        launch = {"correlation_id": u64(number), "device_id": u64(0)}
        events.append(event("hipLaunchKernel", (start + 1) * NS, 2 * NS, launch))
    return plane("/host:CPU", [line("python", events, id=1)])


def test_steps_last_from_the_first_to_the_last_kernel_of_their_group_and_others_join_the_one_before() -> None:
    host = steps_of_host((7, 0, 100), (8, 200, 100))
    capture = stream(
        kernel(5, 1),
        kernel(10, 10, correlation_id=u64(7)),
        kernel(30, 10),
        kernel(210, 10, correlation_id=u64(8)),
        more=(host,),
    )
    assert track(capture, "Steps") == [("train 7", 10, 30), ("train 8", 210, 10)]
    timeline = derive_timeline(host_of(capture))
    assert args_of(timeline, "Steps") == [
        {"group_id": 0, "step_name": "train 7"},
        {"group_id": 1, "step_name": "train 8"},
    ]
    assert track(capture, "Launch Stats") == [("Launch Stats for train 7", 1, 2), ("Launch Stats for train 8", 201, 2)]
    assert args_of(timeline, "Launch Stats")[0] == {
        "group_id": 0, "num_launches": 1, "max_launch_time_us": 0.002, "avg_launch_time_us": 0.002,
    }  # fmt: skip


def test_groups_of_kernels_keep_events_apart() -> None:
    host = steps_of_host((1, 0, 100), (2, 200, 100))
    of = {"hlo_module": "jit_f", "hlo_op": "add"}
    capture = stream(
        kernel(0, 10, correlation_id=u64(1), **of), kernel(20, 10, correlation_id=u64(2), **of), more=(host,)
    )
    assert track(capture, "XLA Ops - from #7") == [("add", 0, 10), ("add", 20, 10)]


def test_a_capture_that_is_grouped_gets_no_lines() -> None:
    capture = xspace(plane("/device:GPU:0", [line("Stream #7", [kernel(0, 10, hlo_module="jit_f", group_id=0)], id=7)]))
    assert derived(capture) == {}


def test_a_real_capture_has_the_lines_that_xprof_shows(captures: Path) -> None:
    found = derived(captures / "xspace" / "gpu-mi300x-jax08-gemm" / "tw003.xplane.pb")
    assert {name.removeprefix("/device:GPU:0 "): len(rows) for name, rows in found.items()} == {
        "Framework Name Scope - from #16": 18, "Framework Ops - from #16": 30, "XLA Modules - from #16": 30,
        "XLA Ops - from #16": 30, "Source code - from #16": 15,
    }  # fmt: skip
    assert found["/device:GPU:0 Source code - from #16"][:2] == [
        ("generate_gemm_trace.py:34", 1496522000, 390561000), ("generate_gemm_trace.py:37", 1943723000, 157440000),
    ]  # fmt: skip
    assert found["/device:GPU:0 Framework Ops - from #16"][:2] == [
        (":", 1373002000, 4320000), ("broadcast_in_dim", 1496522000, 5840000),
    ]  # fmt: skip
