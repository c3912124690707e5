"""An overview of ranks keeps little of each: kernels of all ranks are merged, and findings are those of each kernel."""

from __future__ import annotations

import gzip
import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from equal_reports import check_equal
from faulty_executors import TestExecutor
from gate import rounds
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import accumulation, runner
from fastprof.derive.devices.gpu_kernels import Launch
from fastprof.derive.ops.gpu_kernels import KernelKey, KernelRow, merge_kernels
from fastprof.engines.host_task import pack

A100 = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto" / "a100_rank-1.json.gz"
NAMES = ("ampere_sgemm_128x64_nn", "void at::native::reduce_kernel<512, 1>()", "softmax_warp_forward", "nvjet_hsh_a",
         "void at::native::vectorized_elementwise_kernel<4, at::native::F>(int)", "nchwToNhwcKernel")  # fmt: skip
OPS = ("aten::mm", "aten::sum", "aten::add")


def write_rank(folder: Path, rank: int, kernels: int) -> Path:
    """Launches of kernels with grids of their own. Every third kernel has no launch, and so no op."""
    chosen = random.Random(rank)
    events: list[dict[str, Any]] = []
    for number in range(1, kernels + 1):
        start = 100 * number
        grid, name = [chosen.randrange(1, 5000), 1, 1], chosen.choice(NAMES)
        details = {"stream": 7, "device": 0, "correlation": number, "grid": grid, "block": [128, 1, 1],
                   "registers per thread": chosen.randrange(16, 200), "blocks per SM": grid[0] / 108,
                   "est. achieved occupancy %": chosen.choice((0, 7, 12, 29, 30, 63, -99))}  # fmt: skip
        kernel = {"cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start + 20, "args": details}
        events.append(kernel | {"dur": chosen.randrange(1, 80_000) / 1000})
        if number % 3:
            thread = {"pid": 42, "tid": 42, "dur": 15}
            events.append(thread | {"cat": "cpu_op", "name": chosen.choice(OPS), "ts": start, "args": {}})
            call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": number, "cbid": 211}}
            events.append(thread | call | {"ts": start + 2, "dur": 3})
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108}
    job = {"rank": rank, "world_size": 5, "backend": "nccl"}
    document = {"schemaVersion": 1, "deviceProperties": [gpu], "distributedInfo": job}
    path = folder / f"rank{rank}.json.gz"
    path.write_bytes(
        gzip.compress(json.dumps(document | {"traceEvents": [{"ph": "X"} | one for one in events]}).encode(), 1)
    )
    return path


def measure_kept(path: Path, name: str) -> tuple[int, int]:
    """Return the bytes of what an analysis keeps of a rank, as workers send it, and those of its kernels, unpacked."""
    plan = runner.make_plan(runner.add_prerequisites([name]), [name])
    kept = accumulation.keep_host(fastprof.load(path, threads=1).table_set, 0, plan)
    return len(pack(kept)[0]), len(pickle.dumps(kept.kept["kernel_stats"]))


def test_what_is_kept_of_a_rank_does_not_grow_with_its_kernels(tmp_path: Path) -> None:
    rank = write_rank(tmp_path, 0, 4000)
    packed, kernels = measure_kept(rank, "overview")
    _, every = measure_kept(rank, "kernel_stats")
    assert packed < 20 << 10
    assert kernels < 24 << 10 < every / 20


@pytest.mark.skipif(not A100.is_file(), reason="the shared captures are not beside the project")
def test_an_overview_keeps_at_most_50_kib_of_a_recorded_rank() -> None:
    packed, _ = measure_kept(A100, "overview")
    assert packed < 50 << 10


@pytest.mark.parametrize("group", [32, 2])
def test_answers_are_those_of_each_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    """``kernel_stats`` asked for, the kernels of each rank are there."""
    for rank in range(5):
        write_rank(tmp_path, rank, 150)
    expected = fastprof.load(tmp_path, threads=1).answers(("overview", "diagnosis", "kernel_stats"), {}, "json")
    assert expected["kernel_stats"].tables["kernels"].num_rows == 5 * 150
    del expected["kernel_stats"]
    causes = expected["diagnosis"].tables["findings"]["cause"].to_pylist()
    assert {"low_occupancy", "precision", "elementwise"} <= set(causes)
    monkeypatch.setattr(accumulation, "GROUP", group)
    for executor in (None, TestExecutor()):
        found = fastprof.load(tmp_path, executor=executor, threads=1).answers(("overview", "diagnosis"), {}, "json")
        check_equal(found, expected)


# ---- against rows that are looked at one by one


def write_host(folder: Path, number: int) -> None:
    """Kernels of TensorFlow, which no table of ops lists, with grids of their own."""
    chosen, start, kernels = random.Random(number), 0, []
    for _ in range(40):
        took, grid = chosen.randrange(1, 10**6), chosen.randrange(1, 200)
        details = f"regs:32 grid:{grid},1,1 block:128,1,1 occ_pct:{chosen.choice((7, 12.5, 29, 30, 99))} " + (
            f"blocks_per_sm:{grid / 100}" if chosen.random() < 0.8 else ""
        )
        name = chosen.choice(("relu_kernel", "volta_h884gemm", "bias_kernel"))
        op = chosen.choice(("a/Relu:Relu", "b/MatMul:MatMul", "c/Conv2D:Conv2D", "d/BiasAdd:BiasAdd"))
        kernels.append(event(name, start, took, {"kernel_details": details, "tf_op": op}))
        start += took
    gpu = plane("/device:GPU:0", [line("Stream #1", kernels, id=1)], stats={"device_vendor": "Nvidia"})
    (folder / f"host{number}.xplane.pb").write_bytes(xspace(gpu))


def find_starved_slowly(rows: list[dict[str, Any]], devices: int) -> tuple[int, str]:
    """Return the cost of few warps, mean over devices, and the op of the kernel row that loses most."""
    costs = []
    for row in rows:
        blocks = None if row["blocks_per_sm"] is None else 100 * min(1.0, row["blocks_per_sm"])
        percent = blocks if row["uses_tensor_cores"] else row["occupancy_percent"]
        costs.append(0 if percent is None or percent >= 30 else round(row["total_ps"] * (1.0 - percent / 100.0)))
    return sum(costs) // devices, rows[costs.index(max(costs))]["op_name"]


@pytest.mark.parametrize("group", [32, 2])
def test_few_warps_cost_what_they_cost_each_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int) -> None:
    monkeypatch.setattr(accumulation, "GROUP", group)
    ops = set()
    for seed in range(rounds(10, 3)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for number in range(5):
            write_host(folder, 5 * seed + number)
        profile = fastprof.load(folder, threads=1)
        (row,) = [row for row in profile.diagnosis().tables["findings"].to_pylist() if row["cause"] == "low_occupancy"]
        rows = profile.kernel_stats().tables["kernels"].to_pylist()
        assert len(rows) > 180
        assert (row["cost_ps"], row["op"]) == find_starved_slowly(rows, 5)
        ops.add(row["op"])
    assert len(ops) > 1


def make_rows(chosen: random.Random) -> list[KernelRow]:
    rows = []
    for _ in range(chosen.randrange(1, 60)):
        occupancy = chosen.choice((None, 0.0, 12.5, 29.9, 30.0, 77.0))
        blocks = chosen.choice((None, 0.03, 0.7, 12.0))
        op, could = chosen.choice(("", "(null)", "aten::mm")), chosen.random() < 0.5
        key = KernelKey(chosen.choice("ab"), (chosen.randrange(1, 4), 1, 1), (1, 1, 1), 0, 0, 0, False, could, op)
        times = sorted(chosen.choices(range(1, 10**6), k=2))
        launch = Launch(registers=chosen.choice((8, 9000)), estimated_occupancy=occupancy, blocks_per_sm=blocks)
        rows.append(KernelRow(
            f"host{chosen.randrange(3)}", key, launch, "Nvidia", chosen.choice((True, False, None)), could,
            chosen.randrange(4), 1, chosen.randrange(9), chosen.choice((None, "f32")),
            (3, sum(times) + times[0], *times), (1, 1, 1, 1), True,
        ))  # fmt: skip
    return rows


def sum_starved_slowly(rows: list[KernelRow]) -> list[int]:
    """Per row, the time in proportion to missing warps, or missing blocks if it is on Tensor Cores."""
    saved = []
    for row in rows:
        on_units = row.uses or (row.uses is None and row.op_could)
        estimate = None if row.launch.registers == 9000 else row.launch.estimated_occupancy
        blocks = row.launch.blocks_per_sm
        percent = (None if blocks is None else min(100.0, 100.0 * blocks)) if on_units else estimate
        saved.append(round(row.ps[1] * (1.0 - percent / 100.0)) if percent is not None and percent < 30 else 0)
    return saved


def test_merged_kernels_against_each_of_them() -> None:
    chosen = random.Random(11)
    for _ in range(200):
        rows = make_rows(chosen)
        merged = merge_kernels(rows)
        at = sorted([chosen.randrange(len(rows) + 1) for _ in range(2)])
        parts = rows[: at[0]], rows[at[0] : at[1]], rows[at[1] :]
        assert merge_kernels([row for part in parts for row in merge_kernels(part)]) == merged
        assert [*map(len, (merge_kernels(merged), merge_kernels([])))] == [len(merged), 0]
        by_op: dict[Any, list[KernelRow]] = {}
        for row in sorted(rows, key=lambda row: (-row.ps[1], row.kernel, row.host)):
            by_op.setdefault((row.kernel.name, row.op, row.uses, row.could, row.kind, row.precision), []).append(row)
        of_op: dict[Any, list[KernelRow]] = {}
        for row in merged:
            of_op.setdefault((row.kernel.name, row.op, row.uses, row.could, row.kind, row.precision), []).append(row)
        assert list(by_op) == list(of_op), "ops come in the order of their longest kernels"
        for key, each in by_op.items():
            some, saved = of_op[key], sum_starved_slowly(each)
            assert some[0].host == each[0].host and some[0].kernel == each[0].kernel
            assert (some[0].most_ps, sum(row.ps[1] for row in some)) == (each[0].ps[1], sum(row.ps[1] for row in each))
            assert sum(row.ps[0] for row in some) == 3 * len(each)
            assert sum(row.fusible for row in some) == sum(row.fusible for row in each)
            assert min(row.ps[2] for row in some) == min(row.ps[2] for row in each)
            assert max(row.ps[3] for row in some) == max(row.ps[3] for row in each)
            assert sum(row.starved_ps or 0 for row in some) == sum(saved)
            assert max(row.most_starved_ps or 0 for row in some) == max(saved)
