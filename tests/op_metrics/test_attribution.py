"""Which op an event of a GPU belongs to where it does not say so itself, and the reason where nothing does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hlo_builder import Op, Program, f32
from trace_builder import Event, Metadata, Plane, Value, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.host import Host
from fastprof.derive.ops.device_ops import READS
from fastprof.derive.ops.gpu_attribution import find_op_events, sum_gpu_ops
from fastprof.derive.ops.gpu_kernels import KernelNames, classify_copy, normalize_kernel_name
from fastprof.derive.ops.gpu_ops import OpReference, parse_annotation
from fastprof.derive.ops.op_table import Ops
from fastprof.hlo import METADATA_STATS
from fastprof.hlo.programs import Modules
from fastprof.tables.host_reader import read_host

STATS = tuple(dict.fromkeys(Host.GROUPING.stats + READS.stats + READS.stats_with_gpus))


def program(name: str = "jit_f", fusion: str = "loop_add_fusion.3") -> bytes:
    made = Program(name)
    fused = made.computation("fused", Op("p", "parameter", f32(10)), Op("neg.7", "negate", f32(10), ["p"]))
    made.entry(
        Op("x", "parameter", f32(10)),
        Op(fusion, "fusion", f32(10), ["x"], calls=[fused], fusion_kind="kLoop"),
        Op("call.1", "call", f32(10), ["x"], calls=[fused]),
        Op("sine.2", "sine", f32(10), ["x"], op_name="jit(f)/sin"),
    )
    return made.proto()


PROGRAMS = plane(
    "/host:metadata",
    event_metadata=[
        Metadata("jit_f(3)", 3, stats={"Hlo Proto": program()}),
        Metadata("jit_g(4)", 4, stats={"Hlo Proto": program("jit_g", "loop_mul_fusion")}),
    ],
)


def device(*events: Event) -> Plane:
    return plane("/device:GPU:0", [line("Stream #1", events)], id=1)


def threads(*events: Event) -> Plane:
    return plane("/host:CPU", [line("main", events)], id=9)


def run(name: str, at: int, **stats: Value) -> Event:
    known: dict[str | int, Value] = {key: u64(int(str(v))) if key == "program_id" else v for key, v in stats.items()}
    return event(name, at, 5, known)


def during(name: str, begin: int, end: int, **stats: Value) -> Event:
    return event(name, begin, end - begin, dict(run(name, 0, **stats).stats))


def host_of(*planes: Plane) -> Host:
    profile = fastprof.load(xspace(PROGRAMS, *planes))
    return Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)


def ops_of(*planes: Plane) -> Ops:
    host = host_of(*planes)
    (found,) = sum_gpu_ops(host.events, host.is_eager, host.modules)
    return found


def attributions(ops: Ops) -> list[tuple[int, str, str, bool]]:
    """Program, name, way, and whether the op is known."""
    table = ops.table
    columns: Any = (table.program_id.tolist(), table.name, table.attribution, [not one for one in table.unattributed])
    return list(zip(*columns, strict=True))


# ---- launches


def test_a_kernel_is_of_the_instruction_that_its_launch_names() -> None:
    launch = run("hipLaunchKernel", 0, correlation_id=8, hlo_op="a::sine.2", program_id=3, hlo_module="jit_f")
    ops = ops_of(device(run("sin_kernel", 10, correlation_id=8), run("cos", 20, correlation_id=9)), threads(launch))
    assert attributions(ops) == [(3, "sine.2", "launch", True), (0, "cos", "", False)]
    assert ops.table.provenance == ["jit(f)/sin:", ""] and ops.table.flops.tolist() == [10 * 662.0, 0.0]


def test_a_kernel_is_of_the_framework_op_that_its_launch_or_what_encloses_that_names() -> None:
    calls = threads(
        run("cuLaunchKernel", 0, correlation_id=1, tf_op="a/b:MatMul"),
        during("model/dense/Add:AddV2", 10, 40),
        during("Executor::Run", 11, 30),
        run("cuLaunchKernel", 12, correlation_id=2),
        run("MemcpyH2D", 20, correlation_id=3),
        during("model/dense/Mul:Mul", 31, 36),
        run("cuLaunchKernel", 50, correlation_id=4),
    )
    ops = ops_of(
        device(*(run(f"k{i}" if i != 3 else "MemcpyH2D", 100 + 10 * i, correlation_id=i) for i in range(1, 5))), calls
    )
    assert attributions(ops) == [
        (0, "a/b/k1", "launch", True),
        (0, "model/dense/Add/k2", "enclosing event", True),
        (0, "model/dense/Add/MemcpyH2D", "enclosing event", True),
        (0, "k4", "", False),
    ]
    assert ops.table.category == ["MatMul", "AddV2", "copy (H2D)", "kernel"]


def test_the_nearest_event_around_a_launch_counts_however_deep_it_lies() -> None:
    deep = [during(f"call {i}", 1 + i, 5000 - i) for i in range(300)]
    around = during("XlaModule", 0, 5001, hlo_module="jit_f", program_id=3, hlo_op="sine.2")
    launch = run("cuLaunchKernel", 2000, correlation_id=1)
    assert attributions(ops_of(device(run("k", 6000, correlation_id=1)), threads(around, *deep, launch))) == [
        (3, "sine.2", "enclosing event", True)
    ]


def test_a_program_is_found_by_the_name_of_its_module() -> None:
    launch = run("cuLaunchKernel", 0, correlation_id=1, hlo_op="loop_mul_fusion", hlo_module="jit_g")
    unknown = run("cuLaunchKernel", 9, correlation_id=2, hlo_op="loop_mul_fusion", hlo_module="jit_h")
    ops = ops_of(device(run("k", 20, correlation_id=1), run("k", 30, correlation_id=2)), threads(launch, unknown))
    assert attributions(ops) == [(4, "loop_mul_fusion", "launch", True), (0, "loop_mul_fusion", "launch", True)]


# ---- graphs


def test_of_what_one_launch_ran_many_of_each_is_of_the_instruction_that_it_is_named_after() -> None:
    launch = run("cuGraphLaunch", 0, correlation_id=5, hlo_op="call.1", program_id=3)
    kernels = [run(name, 10 * i, correlation_id=5) for i, name in enumerate(("loop_add_fusion_3", "sine_2", "k"), 1)]
    assert attributions(ops_of(device(*kernels), threads(launch))) == [
        (3, "loop_add_fusion.3", "kernel name in module", True),
        (3, "sine.2", "kernel name in module", True),
        (3, "call.1", "launch", True),
    ]


def test_a_node_of_a_graph_runs_the_same_op_each_time() -> None:
    named = run("k", 0, cuda_graph_node_id=u64(7), hlo_op="sine.2", program_id=3)
    torn = [run("k", 10, cuda_graph_node_id=u64(8), hlo_op=name, program_id=3) for name in ("sine.2", "call.1")]
    again = [run("k", 20 + node, cuda_graph_node_id=u64(node)) for node in (7, 8, 9)]
    host = host_of(device(named, *torn, *again))
    found = find_op_events(host.events, host.modules)
    of_line = found.op[host.events.planes_of("GPU")[0].first :]
    names = [found.ops[op].name for op in of_line.tolist()[-3:]]
    assert names == ["sine.2", "k", "k"]


# ---- names of kernels


def test_a_kernel_is_of_the_only_instruction_that_it_is_named_after() -> None:
    ops = ops_of(device(run("loop_add_fusion_3.kd", 0), run("loop_mul_fusion", 10), run("neg_7", 20)))
    assert attributions(ops) == [
        (3, "loop_add_fusion.3", "kernel name in module", True),
        (4, "loop_mul_fusion", "kernel name in module", True),
        (0, "neg_7", "", False),  # it is fused: it does not run by itself
    ]


def test_where_several_programs_have_the_name_the_one_that_runs_counts() -> None:
    near = [run("x", 0, hlo_op="loop_mul_fusion", program_id=4), run("sine_2", 10), run("sine_2", 20)]
    assert attributions(ops_of(device(*near)))[1] == (4, "sine.2", "kernel name in module", True)
    between = [*near[:2], run("x", 30, hlo_op="loop_add_fusion.3", program_id=3)]
    (_, unclear, _) = attributions(ops_of(device(*between)))
    assert unclear == (0, "sine_2", "", False)
    (alone,) = ops_of(device(run("sine_2", 0))).table.unattributed
    assert alone.endswith("; 2 programs have an instruction of its name")


def test_of_fusions_that_may_share_a_kernel_none_is_taken() -> None:
    made = Program("jit_twins")
    twins = []
    for p, n in (("p.0", "n.0"), ("p.1", "n.1")):
        twins.append(made.computation(n, Op(p, "parameter", f32(10)), Op(n, "negate", f32(10), [p])))
    other = made.computation("fused.9", Op("p.9", "parameter", f32(10)), Op("s.9", "sine", f32(10), ["p.9"]))
    called = zip(("loop_negate_fusion", "loop_negate_fusion.1", "loop_sine_fusion"), (*twins, other), strict=True)
    fusions = [Op(name, "fusion", f32(10), ["x"], calls=[one], fusion_kind="kLoop") for name, one in called]
    made.entry(Op("x", "parameter", f32(10)), *fusions)
    held = plane("/host:metadata", event_metadata=[Metadata("jit_twins(5)", 5, stats={"Hlo Proto": made.proto()})])
    profile = fastprof.load(xspace(held, device(run("loop_negate_fusion", 0), run("loop_sine_fusion", 10))))
    host = Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)
    (found,) = sum_gpu_ops(host.events, host.is_eager, host.modules)
    assert attributions(found) == [
        (0, "loop_negate_fusion", "", False),
        (5, "loop_sine_fusion", "kernel name in module", True),
    ]
    assert found.table.unattributed[0].endswith("; several instructions may run as a kernel of its name")


# ---- annotations


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("a/b:MatMul#shape=(f32[2,3])#", OpReference(tf_op="a/b:MatMul", from_annotation=True)),
        ("a:A::b:B#from=x,to=y#::#edge_name=e#", OpReference(tf_op="b:B", from_annotation=True)),
        ("MakeTensorFromProto", OpReference(tf_op="MakeTensorFromProto", from_annotation=True)),
        ("a:A::untyped", OpReference(tf_op="a:A", from_annotation=True)),
        (
            "XlaModule:#hlo_module=jit_f,program_id=12#::Thunk:#hlo_op=while::sine.2#",
            OpReference("sine.2", 12, "jit_f", "", from_annotation=True),
        ),
        (f"Thunk:#hlo_op=x,program_id={2**64 - 1}#", OpReference("x", -1, "", "", from_annotation=True)),
        (f"Thunk:#hlo_op=x,program_id={2**64}#", OpReference("x", None, "", "", from_annotation=True)),
        ("Thunk:#program_id=²#", OpReference(from_annotation=True)),
        ("", OpReference(from_annotation=True)),
    ],
)
def test_annotations_name_the_innermost_op(text: str, reference: OpReference) -> None:
    assert parse_annotation(text) == reference


def test_an_annotation_of_the_event_itself_counts_before_its_launch() -> None:
    launch = run("cuLaunchKernel", 0, correlation_id=1, tf_op="other:Other")
    kernel = run("k", 10, correlation_id=1, annotation="a/b:MatMul#x=y#")
    assert attributions(ops_of(device(kernel), threads(launch))) == [(0, "a/b/k", "annotation", True)]


def test_that_a_program_runs_is_not_an_op_of_a_framework() -> None:
    launch = run("cuLaunchKernel", 0, correlation_id=1, hlo_op="sine.2", program_id=3)
    kernels = [run("k", 10 * i, correlation_id=i, tf_op="XlaModule:") for i in (1, 2)]
    assert attributions(ops_of(device(*kernels), threads(launch))) == [
        (3, "sine.2", "launch", True),
        (0, "k", "", False),
    ]


def test_what_belongs_to_no_op_is_of_the_program_that_the_event_records() -> None:
    ops = ops_of(device(run("k", 0, tf_op="XlaModule:", program_id=3), run("k", 9, tf_op="XlaModule:")))
    assert attributions(ops) == [(3, "k", "", False), (0, "k", "", False)]
    assert ops.table.provenance == ["", ""]
    assert all("an op name" in reason for reason in ops.table.unattributed)


def test_the_attribution_of_an_op_is_that_of_most_of_its_events() -> None:
    kernels = [
        run("k", 0, hlo_op="sine.2", program_id=3),
        run("sine_2", 10),
        run("k", 20, hlo_op="sine.2", program_id=3),
    ]
    assert attributions(ops_of(device(*kernels))) == [(3, "sine.2", "", True)]
    assert attributions(ops_of(device(*kernels, run("sine_2", 30), run("sine_2", 40)))) == [
        (3, "sine.2", "kernel name in module", True)
    ]


# ---- what is left


def test_what_no_op_is_known_of_says_why() -> None:
    calls = threads(run("hipMemcpyHtoDAsync", 0, correlation_id=1), run("hipMemsetAsync", 5, correlation_id=2))
    kernels = [
        run("__amd_rocclr_copyBuffer.kd", 10, correlation_id=1),
        run("__amd_rocclr_fillBufferAligned.kd", 20, correlation_id=2),
        run("k", 30),
        run("MemcpyD2H", 40, correlation_id=3),
    ]
    table = ops_of(device(*kernels), calls).table
    assert table.name == [
        "__amd_rocclr_copyBuffer.kd (H2D)",
        "__amd_rocclr_fillBufferAligned.kd",
        "k",
        "MemcpyD2H",
    ]
    assert table.category == ["copy (H2D)", "memset", "kernel", "copy (D2H)"]
    assert table.unattributed == [
        "launch hipMemcpyHtoDAsync names no op, nor do the event itself and those around the launch",
        "launch hipMemsetAsync names no op, nor do the event itself and those around the launch",
        "neither an op name nor a correlation id of its launch",
        "no op name and no launch record",
    ]


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("MEMCPYHtoD", "copy (H2D)"),
        ("cuMemcpyDtoHAsync_v2", "copy (D2H)"),
        ("hipMemcpyDtoDAsync", "copy (D2D)"),
        ("MemcpyP2P", "copy (P2P)"),
        ("CopyHostToHost", "copy (H2H)"),
        ("cudaMemcpyAsync", "copy"),
        ("Memset", "memset"),
        ("FillBuffer", "memset"),
        ("copy_fusion", ""),
        ("memory_kernel", ""),
        ("cublas_gemm", ""),
    ],
)
def test_copies_are_given_by_name(name: str, category: str) -> None:
    assert classify_copy(name) == category


def test_names_of_kernels_have_letters_only() -> None:
    assert normalize_kernel_name("loop-add.fusion:3.kd") == "loop_add_fusion_3"


@pytest.mark.parametrize("kernel", ["void gemm<float>(int)", "MemcpyH2D", "__amd_rocclr_copyBuffer.kd", "", "a.1"])
def test_for_names_that_are_none_of_xla_s_no_program_is_read(kernel: str) -> None:
    class Unread(Modules):
        def __init__(self) -> None:
            pass

        @property
        def program_ids(self) -> list[int]:
            raise AssertionError("programs are read")

        def module(self, program_id: int) -> Any:
            raise AssertionError(f"program {program_id} is read")

    names = KernelNames(Unread())
    assert names.programs(kernel) == [] and names.instruction(3, kernel) == ""
    with pytest.raises(AssertionError, match="programs are read"):
        names.programs("loop_add_fusion_3.kd")


# ---- real captures


def stripped(host: Host, stats: tuple[str, ...], kinds: tuple[str | None, ...]) -> Host:
    """Without the stats of events of planes of these kinds."""
    for name in stats:
        stat = host.events.stats[name]
        keep = np.ones(len(stat), bool)
        for one in host.events.planes:
            keep &= (one.kind not in kinds) | (stat.rows < one.first) | (stat.rows >= one.last)
        host.events.stats[name] = type(stat)(stat.rows[keep], stat.kind[keep], stat.value[keep])
    return host


@pytest.mark.parametrize("session", ["gpu-mi300x-jax08-gemm", "gpu-mi300x-jax-conv-minimal-08"])
def test_launches_record_the_same_as_kernels_that_record_it_themselves(captures: Path, session: str) -> None:
    profile = fastprof.load(captures / "xspace" / session)

    def host() -> Host:
        return Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)

    whole = host()
    found = find_op_events(whole.events, whole.modules)
    bare = stripped(host(), ("hlo_op", "hlo_module", "program_id", "tf_op"), ("GPU",))
    again = find_op_events(bare.events, bare.modules)
    named = (found.op >= 0) & (found.way == 0)
    assert named.sum() >= 40
    for row in named.nonzero()[0].tolist():
        one, other = found.ops[found.op[row]], again.ops[again.op[row]]
        assert (one.program_id, one.name) == (other.program_id, other.name)


def test_annotations_of_an_old_tensorflow_name_ops(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "gpu-v100x8-tf")
    host = Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)
    ops = [one for one in sum_gpu_ops(host.events, host.is_eager, host.modules) if len(one.table)]
    known = sum(int(one.table.occurrences[[not u for u in one.table.unattributed]].sum()) for one in ops)
    assert (known, sum(int(one.table.occurrences.sum()) for one in ops)) == (1542, 1556)
