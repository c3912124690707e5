"""The views of captures: their sums are those of op stats, and loops over the public tables give the same rows."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import slow_captures
from stacks_of_pprof import resolved

import fastprof
from fastprof.cli.main import main
from fastprof.errors import UsageError

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
XSPACE, KINETO = CAPTURES / "xspace", CAPTURES / "chrome" / "kineto"
EVERY = [*XSPACE.glob("*"), *KINETO.glob("*")]
JAX_CPU, TPU, H100 = XSPACE / "cpu-jax-train", XSPACE / "tpu-v6e-jax-inference", KINETO / "h100_qwen.json.gz"
pytestmark = [pytest.mark.captures, pytest.mark.skipif(not CAPTURES.is_dir(), reason="the captures are absent")]
load = cache(fastprof.load)


@cache
def view(path: Path, name: str, **options: Any) -> Any:
    return load(path).tfprof(name, **{"max_depth": 10_000, **options})


def rows(path: Path, name: str, **options: Any) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = view(path, name, **options).table.to_pylist()
    return table


@pytest.mark.parametrize("path", EVERY, ids=[path.name for path in EVERY])
def test_roots_have_the_time_of_op_stats(path: Path) -> None:
    scalars = load(path).op_stats().answer.scalars
    known = [scalars[name].value or 0 for name in ("device_op_ps", "host_op_ps")]
    try:
        root = rows(path, "scope")[0]
    except UsageError:
        assert known == [0, 0]
        return
    assert [root["total_accelerator_ps"], root["total_cpu_ps"]] == known
    assert root["total_time_ps"] == sum(known) and root["total_micros"] == sum(known) // 10**6
    first, *others = rows(path, "op")
    assert first["total_time_ps"] == sum(known) == sum(row["time_ps"] for row in others)


@pytest.mark.parametrize("path", [JAX_CPU, TPU], ids=["cpu", "tpu"])
def test_scopes_ops_and_inputs_of_programs(path: Path) -> None:
    clock = ("device_offset_ps", "device_duration_ps")
    line, stats = ("XLA Ops", clock) if path is TPU else (None, ("hlo_op",))
    ops = slow_captures.compiled_ops(load(path), line, ("program_id", *stats))
    others = {"dummy"}  # an op of the host that takes no time
    made = {row["name"]: (row["time_ps"], row["total_time_ps"]) for row in rows(path, "scope")}
    assert {name: times for name, times in made.items() if name not in others} == slow_captures.scope_view(ops)
    walked = [(row["name"], row["depth"], row["total_time_ps"]) for row in rows(path, "graph")[1:]]
    assert [row for row in walked if row[0] not in others] == slow_captures.graph_view(ops)
    kinds: dict[str, int] = {}
    for op in ops.values():
        kinds[op.kind] = kinds.get(op.kind, 0) + op.ps
    assert {row["name"]: row["time_ps"] for row in rows(path, "op")[1:] if row["time_ps"]} == {
        kind: time for kind, time in kinds.items() if time
    }


def test_lines_of_programs() -> None:
    ops = slow_captures.compiled_ops(load(JAX_CPU), None, ("program_id", "hlo_op"))
    lines = slow_captures.code_view(list(ops.values()))
    made: dict[tuple[str, ...], int] = {}
    above: list[str] = []
    for row in rows(JAX_CPU, "code")[1:]:
        above[row["depth"] - 1 :] = [row["name"].rpartition(":")[0] + ":"]  # tables have no functions
        made[tuple(above)] = row["total_time_ps"]
    assert made == lines


def test_ops_of_torch_are_nodes_by_their_stacks() -> None:
    profile = load(H100)
    ops = slow_captures.torch_ops(profile)
    assert sum(len(op.stack) > 0 for op in ops) > 2_000
    nodes = [row for row in rows(H100, "scope") if row["run_count"] and "(no scope)" not in row["name"]]
    assert sorted((row["cpu_ps"], row["accelerator_ps"], row["run_count"]) for row in nodes) == sorted(
        (op.ps, op.on_device, op.calls) for op in ops
    )
    names = sorted(op.name for op in ops)
    assert sorted(_unnumbered(row["name"], set(names)) for row in nodes) == names
    lines = slow_captures.code_view(ops)
    made: dict[tuple[str, ...], int] = {}
    above: list[str] = []
    for row in rows(H100, "code")[1:]:
        above[row["depth"] - 1 :] = [row["name"]]
        made[tuple(above)] = row["total_time_ps"]
    assert made == lines


def _unnumbered(name: str, known: set[str]) -> str:
    return name if name in known else name.rpartition("_")[0]


def test_stacks_for_pprof_add_up_to_the_code_view() -> None:
    made = view(H100, "code", select=("micros",))
    profile = resolved(gzip.decompress(made.to_pprof()))
    total = made.table["total_time_ps"][0].as_py()
    assert abs(sum(one["value"][1] for one in profile["samples"]) * 1000 - total) < 1000 * len(profile["samples"])
    assert profile["sample_type"][1] == ["micros", "nanoseconds"]


def test_a_roofline_of_ops() -> None:
    by_name = {row["name"]: row for row in rows(XSPACE / "gpu-mi300x-jax08-gemm", "scope")}
    product = by_name["dot_general/custom-call.1@jit_dot(49)"]
    assert (product["float_ops"], product["accessed_bytes"]) == (3 * 2 * 8192**2 * 4096, 3 * 4 * 8192**2)
    assert product["flops_per_byte"] == 2048 and product["bound_by"] == "Compute"
    assert product["source"] == "/workspace/traces/generate_gemm_trace.py:37"
    scope = by_name["dot_general"]
    assert scope["float_ops"] is None and scope["bound_by"] is None
    assert scope["total_float_ops"] == sum(
        row["float_ops"] or 0 for name, row in by_name.items() if name.startswith("dot_general/")
    )


def test_work_of_products_of_torch_is_that_of_op_stats() -> None:
    table = load(H100).op_stats().tables["device_ops"]
    root, *others = rows(H100, "scope")
    assert root["total_float_ops"] == sum(row["flops"] or 0 for row in table.to_pylist()) > 10**12
    (one,) = [row for row in others if row["name"].endswith("Layer_0/Qwen2Attention_0/Linear_0/aten::addmm")]
    assert (one["float_ops"], one["accessed_bytes"]) == (  # rows x 1024 times 1024 x 1024, plus 1024, of two bytes
        2 * 8944 * 1024**2,
        2 * (2 * 8944 * 1024 + 1024**2 + 1024),
    )
    assert one["flops_per_byte"] == one["float_ops"] / one["accessed_bytes"]


def test_what_captures_do_not_record_is_null_with_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    table = view(TPU, "scope").table
    for name in ("bytes", "total_peak_bytes", "residual_bytes", "output_bytes", "params", "total_params"):
        assert table[name].null_count == len(table), name
        assert name.removeprefix("total_") in view(TPU, "scope").unknown
    for options, message in (
        ({"preset": "time_and_memory"}, "min_bytes: captures do not record memory by op"),
        ({"order_by": "params"}, "order_by params: captures do not record which ops are parameters"),
        ({"step": 4_000}, "no step 4000; choose from"),
    ):
        with pytest.raises(UsageError, match=message):
            load(TPU).tfprof("scope", **options)
    with pytest.raises(UsageError, match="PyTorch traces do not record the inputs of ops"):
        load(H100).tfprof("graph")
    with pytest.raises(UsageError, match="no lines of code"):
        load(XSPACE / "cpu-tf221-train").tfprof("code")
    with pytest.raises(UsageError, match="fastprof diagnosis"):
        load(TPU).tfprof_advice()
    with pytest.raises(UsageError, match="fastprof export trace"):
        load(TPU).tfprof("graph").timeline()
    assert main(["tfprof", str(TPU), "scope", "--select", "micros,params", "--format", "tfprof"]) == 0
    out, err = capsys.readouterr()
    assert "params" not in out and "params: captures do not record" in err


def test_types_choose_what_is_accounted() -> None:
    every, backward = (rows(JAX_CPU, "scope", account_type_regexes=regexes) for regexes in ((".*",), ("_backward",)))
    types = {row["name"]: row["types"] for row in every}
    chosen = [row["name"] for row in backward if row["is_accounted"]]
    assert chosen and {name for name, some in types.items() if "_backward" in some} == set(chosen)


def test_a_step_is_the_events_of_it() -> None:
    profile = load(JAX_CPU)
    step = profile.tfprof("scope", step=3).table["total_time_ps"][0].as_py()
    scalars = profile.select(steps=3).op_stats().answer.scalars
    assert step == scalars["host_op_ps"].value > 0
    assert profile.select(steps=3).tfprof("scope").table["total_time_ps"][0].as_py() == step


def test_hosts_together_and_alone(capsys: pytest.CaptureFixture[str]) -> None:
    path = XSPACE / "synthetic-tpu-pod"
    totals = [
        load(path).tfprof("scope", host=host).table["total_time_ps"][0].as_py() for host in (None, "host0", "host1")
    ]
    assert totals[0] == totals[1] + totals[2] > totals[1] > 0
    assert main(["tfprof", str(path), "op", "--host", "host1", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tfprof_view"]["rows"][0]["total_time_ps"] == totals[2]
