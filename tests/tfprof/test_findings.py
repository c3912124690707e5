"""What tfprof's advisor examines, as findings of the diagnosis."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from profile_messages import profile_class
from random_graphs import CPU, START

import fastprof

SHARED = Path(__file__).resolve().parents[3] / "shared"
GPU = SHARED / "conformance" / "tfprof" / "inputs" / "gpu_profile"
US = 1_000_000


def findings(profile: fastprof.Profile) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = profile.diagnosis().tables["findings"].to_pylist()
    return rows


@pytest.mark.captures
@pytest.mark.skipif(not GPU.is_file(), reason="the input is absent")
def test_findings_of_a_profile_of_gpus() -> None:
    profile = fastprof.load(GPU)
    rows = findings(profile)
    assert [(row["cause"], row["title"], row["is_bound"], row["certainty"], row["op"]) for row in rows[1:]] == [
        ("layout", "1 op of a GPU has the layout NHWC", True, "possible", "tower_0/conv/Conv2D"),
        ("elementwise", "BatchNorm is not fused: it runs as 41 ops", True, "possible", "tower_0/BatchNorm/Relu"),
        ("low_utilization", "MatMul takes 58.2 % of op time", False, "possible", "MatMul"),
    ]
    every = profile.tfprof_executions.to_pylist()
    for row, wanted in zip(rows[1:3], ("tower_0/conv/Conv2D", "BatchNorm"), strict=True):
        time = sum(one["duration_us"] for one in every if one["is_accelerator"] and wanted in one["name"])
        assert row["cost_ps"] == time * US > 0
    assert rows[3]["cost_ps"] is None
    assert rows[3]["detail"] == "In an average step: MatMul 938.0 µs, Conv2D 480.0 µs, Relu 132.0 µs."
    assert "device:gpu:0 computes for 93.2 % of its active time" in rows[0]["detail"]
    assert "NCHW" in rows[1]["advice"] and "fused_batch_norm" in rows[2]["advice"]
    for row in rows[1:]:
        table, _, filters = row["evidence"].partition("?")
        analysis, _, name = table.partition(".")
        others = profile.report(analysis).tables[name].to_pylist()
        assert any(all(other[key] == value for key, value in parse_qsl(filters)) for other in others), row["evidence"]


def made(path: Path, names: list[str], step: int = 2) -> fastprof.Profile:
    """A profile of nodes that ran one after the other on a CPU, for 10 µs each."""
    profile = profile_class()()
    profile.steps.append(step)
    for number, name in enumerate(names):
        node = profile.nodes[number]
        node.name, node.id, node.op, node.canonical_device = name, number, f"Op{number}", CPU
        node.op_types.extend([node.op, CPU])
        start = START + 20 * number
        run = node.execs[step]
        run.run_count, run.all_start_micros, run.latest_end_micros = 1, start, start + 10
        run.cpu_execs[CPU].times.add(int64_values=[start, 10])
    path.write_bytes(profile.SerializeToString())
    return fastprof.load(path)


def test_norms_of_the_host_cost_its_time(tmp_path: Path) -> None:
    rows = findings(made(tmp_path / "profile_2", ["x", "a/BatchNorm/mul", "a/BatchNorm/add", "y"]))
    (norm,) = [row for row in rows if row["cause"] == "elementwise"]
    assert (norm["cost_ps"], norm["op"]) == (20 * US, "a/BatchNorm/add")
    assert norm["evidence"] == "op_stats.host_ops?name=a%2FBatchNorm%2Fadd"
    assert [row["cause"] for row in rows if row["cause"] in ("layout", "low_utilization")] == []


def test_no_op_takes_most_of_the_time_unless_it_takes_half(tmp_path: Path) -> None:
    rows = findings(made(tmp_path / "profile_2", ["x", "y"]))
    (one,) = [row for row in rows if row["cause"] == "low_utilization"]
    assert one["title"] == "Op0 takes 50.0 % of op time"
    rows = findings(made(tmp_path / "profile_2", ["x", "y", "z"]))
    assert all(row["cause"] != "low_utilization" for row in rows)


def test_advice_is_that_of_tensorflow(tmp_path: Path) -> None:
    report = made(tmp_path / "profile_2", ["x", "a/BatchNorm/mul"]).diagnosis()
    assert report.answer.scalars["framework"].value == "TensorFlow 1"
    texts = " ".join(
        str(value) for table in report.tables.values() for row in table.to_pylist() for value in row.values()
    )
    assert not any(word in texts for word in ("jax", "JAX", "torch", "Torch", "ProfilerOptions"))
