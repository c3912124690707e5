"""Comparison of events equals TraceDiff of HolisticTraceAnalysis on real traces, cell by cell."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest
from test_hta import CAPTURES, GOLDENS

import fastprof
from fastprof.cli.main import main
from fastprof.errors import UsageError

TRACES = CAPTURES / "chrome" / "kineto"
A100 = TRACES / "a100_rank-0.json.gz", TRACES / "a100_rank-1.json.gz"
RESNET = TRACES / "resnet50_worker0.json.gz", TRACES / "resnet50_worker0.json.gz"


@pytest.mark.parametrize(
    ("golden", "traces", "device", "steps"),
    [
        ("a100/diff_rank0_rank1_all.csv", A100, "all", (551, 551)),
        ("a100/diff_rank0_rank1_cpu.csv", A100, "cpu", (551, 551)),
        ("a100/diff_rank0_rank1_gpu.csv", A100, "gpu", (None, None)),
        ("resnet50_worker0/diff_step6_step8_all.csv", RESNET, "all", (6, 8)),
    ],
)
def test_every_cell_is_that_of_hta(
    golden: str, traces: tuple[Path, Path], device: str, steps: tuple[int | None, int | None]
) -> None:
    ours = {row.pop("name"): row for row in fastprof.compare_events(*traces, device=device, steps=steps).to_pylist()}
    with (GOLDENS / golden).open(encoding="utf-8") as file:
        theirs = {row.pop("name"): row for row in csv.DictReader(file)}
    assert len(ours) > 100 and ours.keys() == theirs.keys()
    for name, row in theirs.items():
        change = row.pop("counts_change_categories")
        assert ours[name].pop("counts_change_categories") == change
        assert ours[name] == pytest.approx({column: float(value) for column, value in row.items()}), name


def test_lists_of_ops_follow_from_counts() -> None:
    rows = fastprof.compare_events(*A100, steps=(551, 551)).to_pylist()
    lists = {
        "added": [row["name"] for row in rows if not row["Control_counts"]],
        "deleted": [row["name"] for row in rows if not row["Test_counts"]],
    }
    both = [row for row in rows if row["Control_counts"] and row["Test_counts"]]
    for kind, sign in (("increased", "+"), ("decreased", "-"), ("unchanged", "=")):
        lists[kind] = [row["name"] for row in both if row["counts_change_categories"] == sign]
    answered = json.loads((GOLDENS / "a100" / "ops_diff_rank0_rank1.json").read_text())
    assert {kind: sorted(names) for kind, names in answered.items()} == {k: sorted(v) for k, v in lists.items()}


def test_a_step_that_is_missing_is_an_error_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no step 9; steps: 551, 552"):
        fastprof.compare_events(*A100, steps=(9, None))
    with pytest.raises(UsageError, match="device is one of"):
        fastprof.compare_events(*A100, device="tpu")
    assert main(["compare", *map(str, A100), "--hta-steps", "1,2"]) == 2
    assert main(["compare", *map(str, A100), "--hta", "gpu", "--hta-steps", "1"]) == 2
    assert main(["compare", *map(str, A100), "--hta", "gpu", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("name,Control_counts,Control_total_duration")


def sum_by_launch(path: Path) -> dict[str, list[float]]:
    """Calls and kernel time by op, from correlations and times in the JSON alone: the op that begins last around a
    launch on its thread."""
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    ops = [event for event in events if event.get("cat") == "cpu_op" and event["name"] != "record_param_comms"]
    launches = {each["args"]["correlation"]: each for each in events if each.get("cat") == "cuda_runtime"}
    sums: dict[str, list[float]] = {}
    seen = set()
    for event in events:
        launch = launches.get(event["args"].get("correlation")) if str(event.get("cat")) in GPU_WORK else None
        around = [
            op for op in ops
            if launch and op["tid"] == launch["tid"] and op["ts"] <= launch["ts"] < op["ts"] + op["dur"]
        ]  # fmt: skip
        if around:
            op = max(around, key=lambda op: (op["ts"], -op["dur"]))
            known = sums.setdefault(op["name"], [0, 0.0])
            known[0] += id(op) not in seen
            known[1] += event["dur"]
            seen.add(id(op))
    return sums


GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def test_ops_by_arguments_have_tracelens_columns_and_times_of_launches() -> None:
    rows = fastprof.compare_ops(*A100).to_pylist()
    assert {row["sheet"] for row in rows} == {"intersect", "only_baseline", "only_variant"}
    for run, path in zip(("base", "new"), A100, strict=True):
        ours: dict[str, list[float]] = {}
        for row in rows:
            if row[f"{run}::operation_count"] is not None:
                known = ours.setdefault(row["name"], [0, 0.0])
                known[0] += row[f"{run}::operation_count"]
                known[1] += row[f"{run}::total_direct_kernel_time_sum"]
        theirs = sum_by_launch(path)
        same = [name for name in ours if ours[name] == theirs.get(name)]  # times in whole µs leave some launches open
        assert len(ours) > 50 and len(same) >= 0.9 * len(ours) and ours.keys() <= theirs.keys()
    both = [row for row in rows if row["sheet"] == "intersect"]
    for row in both:
        base, new = (row[f"{run}::total_direct_kernel_time_sum"] for run in ("base", "new"))
        assert row["total_direct_kernel_time_sum__new_diff"] == new - base
        assert row["total_direct_kernel_time_sum__new_pct"] == pytest.approx(100 * (new - base) / base)
        assert row["base::total_direct_kernel_time_mean"] * row["base::operation_count"] == pytest.approx(base)


def test_captures_without_shapes_have_no_tracelens_columns(capsys: pytest.CaptureFixture[str]) -> None:
    xla = str(Path(__file__).resolve().parents[2] / "demo" / "xla")
    assert main(["compare", xla, xla, "--tracelens"]) == 2
    assert "record PyTorch on a GPU with record_shapes=True" in capsys.readouterr().err
    assert main(["compare", xla, xla, "--tracelens", "--hta", "all"]) == 2
