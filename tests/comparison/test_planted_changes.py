"""Pairs of runs with one planted change: the verdict, the first row and its amount, and that rows sum exactly."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import pytest
from paired_runs import MODEL, NETWORK, Kernel, Op, Plan, TorchPlan

import fastprof
from fastprof.profile.report import Report

BASE, TORCH = Plan(seed=1), TorchPlan(seed=1)
AGAIN, TORCH_AGAIN = replace(BASE, seed=2), replace(TORCH, seed=2)


@dataclass(frozen=True)
class Planted:
    """A change, and what must be found. ``change_us``: per step; ``first``: a word of the first row's title, name or
    kind; ``row_us``: the first row's change where that is not all of it."""

    base: Plan | TorchPlan
    new: Plan | TorchPlan
    verdict: str
    first: str = ""
    change_us: float | None = None
    row_us: float | None = None


def split_fusion() -> list[Op]:
    mlp = "jit(train)/Model/layer_0/mlp/"
    parts = [
        Op("fusion.3", f"{mlp}dot_general", "bf16[32,2048]", "convolution fusion", 2100),
        Op("fusion.9", f"{mlp}gelu", "bf16[32,2048]", "loop fusion", 900),
    ]
    return [one for op in MODEL for one in (parts if op.name == "fusion.3" else [op])]


def renumbered() -> list[Op]:
    return [replace(op, name=f"{op.name.split('.')[0]}.{90 - place}") for place, op in enumerate(MODEL)]


def rescoped() -> list[Op]:
    return [replace(op, scope=op.scope.replace("Model/layer_", "Transformer/block_")) for op in MODEL]


def batched() -> list[Op]:
    return [
        replace(op, shape=op.shape.replace("[32", "[64"), time_us=op.time_us * (1 if "1024" in op.shape else 1.9))
        for op in MODEL
    ]


def saves(step: int) -> list[tuple[str, float]]:
    return [("checkpoint_manager.save", 20_000)] if step % 10 == 9 else []


def compiles(_: int) -> list[tuple[str, float]]:
    return [("backend_compile", 2_000)]


def slow_product(kernels: list[Kernel]) -> TorchPlan:
    return replace(
        TORCH_AGAIN, kernels=[replace(one, time_us=2500) if one.op == "aten::mm" else one for one in kernels]
    )


def kernels_renamed() -> list[Kernel]:
    names = {"aten::conv2d": "sm80_xmma_fprop_implicit_gemm_f32", "aten::mm": "cutlass_80_simt_sgemm_256x128"}
    return [replace(one, name=names.get(one.op, one.name)) for one in NETWORK]


PLANTED = {
    "nothing": Planted(BASE, AGAIN, "unchanged"),
    "noise": Planted(replace(BASE, noise=0.05), replace(AGAIN, noise=0.05), "unchanged"),
    "op slower": Planted(BASE, AGAIN.changed("fusion.3", time_us=3000), "slower", "fusion.3", 800),
    "op faster": Planted(BASE, AGAIN.changed("fusion.5", time_us=1400), "faster", "fusion.5", -800),
    "op added": Planted(
        BASE, replace(AGAIN, ops=[*MODEL, Op("sort.9", "jit(train)/metrics/sort", "f32[32]", "sort", 700)]),
        "slower", "sort.9", 700,
    ),
    "op removed": Planted(BASE, replace(AGAIN, ops=list(MODEL[:-1])), "faster", "fusion.8", -500),
    "fusion split": Planted(BASE, replace(AGAIN, ops=split_fusion()), "slower", "layer_0/mlp", 800),
    "collective exposed": Planted(BASE, AGAIN.changed("all-reduce.7", time_us=1400), "slower", "communication", 800),
    "input slower": Planted(BASE, AGAIN.changed("infeed.1", time_us=1500), "slower", "input", 1400),
    "input faster": Planted(AGAIN.changed("infeed.1", time_us=1500), BASE, "faster", "input", -1400),
    "idle longer": Planted(BASE, replace(AGAIN, between_us=900), "slower", "idle", 850),
    "saves": Planted(BASE, replace(AGAIN, calls=saves), "slower", "checkpoint", 2000),
    "recompilation": Planted(BASE, replace(AGAIN, calls=compiles), "slower", "compilation", 2000),
    "straggler": Planted(
        replace(BASE, chips=8), replace(AGAIN, chips=8, slow_chip=1.2), "slower", "straggler", 1840, 1610
    ),
    "scope renamed": Planted(BASE, replace(AGAIN, ops=rescoped()), "unchanged"),
    "scope renamed, op slower": Planted(
        BASE, replace(AGAIN, ops=rescoped()).changed("fusion.3", time_us=3000), "slower", "fusion.3", 800
    ),
    "renumbered": Planted(BASE, replace(AGAIN, ops=renumbered()), "unchanged"),
    "renumbered, op slower": Planted(
        BASE, replace(AGAIN, ops=renumbered()).changed("fusion.87", time_us=3000), "slower", "fusion.87", 800
    ),
    "more steps": Planted(BASE, replace(AGAIN, steps=60), "unchanged"),
    "more hosts": Planted(BASE, replace(AGAIN, hosts=2), "unchanged"),
    "more hosts, op slower": Planted(
        BASE, replace(AGAIN, hosts=2).changed("fusion.3", time_us=3000), "slower", "fusion.3", 800
    ),
    "larger batch": Planted(BASE, replace(AGAIN, ops=batched()), "not_comparable"),
    "kernel slower": Planted(TORCH, slow_product(list(NETWORK)), "slower", "sgemm", 1000),
    "other kernels": Planted(TORCH, replace(TORCH_AGAIN, kernels=kernels_renamed()), "unchanged"),
    "other kernels, one slower": Planted(TORCH, slow_product(kernels_renamed()), "slower", "sgemm", 1000),
    "loader slower": Planted(TORCH, replace(TORCH_AGAIN, load_us=lambda _: 1500), "slower", "input", 1450),
    "loader stalls": Planted(
        TORCH, replace(TORCH_AGAIN, load_us=lambda step: 5050 if step % 4 == 3 else 50), "slower", "input", 1250
    ),
}  # fmt: skip


def compared(planted: Planted) -> Report:
    runs = ([io.BytesIO(part) for part in run.captures()] for run in (planted.base, planted.new))
    return fastprof.compare(*(fastprof.load(run if len(run) > 1 else run[0]) for run in runs))


@pytest.mark.parametrize("name", PLANTED)
def test_planted_change_is_found(name: str) -> None:
    planted = PLANTED[name]
    report = compared(planted)
    figures = {name: figure.value for name, figure in report.scalars.items()}
    rows = report.tables["changes"].to_pylist()
    assert figures["verdict"] == planted.verdict, report
    assert sum(row["change_ps"] for row in rows) == figures["step_change_ps"]
    assert figures["step_change_ps"] == figures["new_step_ps"] - figures["base_step_ps"]
    is_noise = planted.verdict == "unchanged"
    assert [row["share"] is None for row in rows] == [is_noise] * len(rows)
    assert ("Changes, which together are within noise" in repr(report)) == is_noise
    if planted.change_us is not None:
        assert figures["step_change_ps"] / 1e6 == pytest.approx(planted.change_us, rel=0.1)
        first = rows[0]
        assert planted.first in f"{first['title']} {first['name']} {first['kind']} {first['where']}", report
        row_us = planted.change_us if planted.row_us is None else planted.row_us
        assert first["change_ps"] / 1e6 == pytest.approx(row_us, rel=0.1), report


@pytest.mark.parametrize(
    "shape", ["a" * 4_000, f"f32[{'9' * 5_000}]", f"f32[3,{'9' * 400}]", "(" * 10_000, "f32[" * 3_000]
)
def test_shapes_of_any_length_cost_little(shape: str) -> None:
    odd = [replace(op, shape=shape) for op in MODEL]
    runs = [fastprof.load(io.BytesIO(replace(BASE, steps=4, ops=ops).captures()[0])) for ops in (MODEL, odd, odd)]
    assert fastprof.compare(runs[1], runs[2]).scalars["verdict"].value == "unchanged"
    assert fastprof.compare(runs[0], runs[1]).scalars["verdict"].value == "unchanged"
