"""More pairs of runs with one planted change, whose cause is in a program, an annotation, a host or the device."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from paired_runs import MODEL, Op, Plan, TorchPlan
from test_compared_programs import BASE_OPS, SPLIT_OPS, TURNED, WHOLE, program

import fastprof

BASE, TORCH = Plan(seed=1), TorchPlan(seed=1)
AGAIN, TORCH_AGAIN = replace(BASE, seed=2), replace(TORCH, seed=2)
OTHER = ("fusion.2", ("sine", "negate"))
COMPILED = Plan(ops=BASE_OPS, seed=1, program=program(WHOLE, OTHER))
HALVES = (("fusion.8", ("multiply", "exponential")), OTHER, ("fusion.9", ("tanh", "add")))


def compiles(_: int) -> list[tuple[str, float]]:
    return [("backend_compile", 3_000)]


def scaled(factor: float) -> Plan:
    return replace(AGAIN, ops=[replace(op, time_us=op.time_us * factor) for op in MODEL])


def renamed() -> list[Op]:
    """The same products by another library: other instructions, same scopes."""
    return [
        replace(
            op, name=op.name.replace("fusion", "custom-call"), category="custom-call", time_us=TIMES.get(op.name, 1800)
        )
        if "dot_general" in op.scope else op
        for op in MODEL
    ]  # fmt: skip


TIMES = {"fusion.3": 2700.0, "fusion.5": 2200.0}


PLANTED = {
    "split with a layout": (
        COMPILED, replace(COMPILED, seed=2, ops=SPLIT_OPS, program=program(*HALVES, what=TURNED)),
        "slower", 1000, "title", "fusion.1 split into 2 kernels: fusion.8, fusion.9",
    ),
    "padding": (
        BASE, AGAIN.changed("fusion.5", shape="bf16[32,2176]", time_us=2800), "slower", 600, "name", "fusion.5",
    ),
    "recompiled in each step": (
        COMPILED, replace(COMPILED, seed=2, programs=10, calls=compiles), "slower", 3000, "kind", "compilation",
    ),
    "more hosts with a straggler": (
        replace(BASE, chips=4), replace(AGAIN, chips=4, hosts=2, slow_chip=1.3), "slower", 2760, "kind", "straggler",
    ),
    "library renamed, one product slower": (
        BASE, replace(AGAIN, ops=renamed()), "slower", 500, "title", "custom-call.3",
    ),
    "lower clock": (BASE, scaled(1.05), "slower", 495, "title", "fusion."),
    "higher clock": (BASE, scaled(0.9), "faster", -990, "title", "fusion."),
    "launches slower": (
        TORCH, replace(TORCH_AGAIN, launch_us=1200), "slower", None, "kind", "launch",
    ),
    "wider type": (
        BASE, AGAIN.changed("fusion.2", shape="f32[32,512]", time_us=2700), "slower", 900, "name", "fusion.2",
    ),
    "two changes": (
        BASE, AGAIN.changed("fusion.2", time_us=2600).changed("fusion.8", time_us=200),
        "slower", 500, "name", "fusion.2",
    ),
}  # fmt: skip


def compare(base: Plan | TorchPlan, new: Plan | TorchPlan) -> fastprof.Report:
    sides = [[io.BytesIO(part) for part in run.captures()] for run in (base, new)]
    return fastprof.compare(*(fastprof.load(side if len(side) > 1 else side[0]) for side in sides))


@pytest.mark.parametrize("name", PLANTED)
def test_planted_change_is_the_first_row(name: str) -> None:
    base, new, verdict, change_us, column, text = PLANTED[name]
    report = compare(base, new)
    figures = {name: figure.value for name, figure in report.scalars.items()}
    rows = report.tables["changes"].to_pylist()
    assert figures["verdict"] == verdict, report
    assert sum(row["change_ps"] for row in rows) == figures["step_change_ps"]
    if change_us is not None:
        assert figures["step_change_ps"] / 1e6 == pytest.approx(change_us, rel=0.1)
    assert text in rows[0][column], report


def test_a_clock_is_named_where_all_ops_change_alike() -> None:
    texts = [notice.text for notice in compare(BASE, scaled(1.05)).answer.notices]
    assert any(
        re.match(r"Nearly all ops take (4\.9|5\.0|5\.1) % more time: likely the clock", text) for text in texts
    ), texts
    for name in ("padding", "more hosts with a straggler", "two changes"):
        assert not any("likely the clock" in notice.text for notice in compare(*PLANTED[name][:2]).answer.notices)


def test_a_slower_annotation_is_the_first_of_the_annotations() -> None:
    report = compare(TORCH, replace(TORCH_AGAIN, load_us=lambda _: 1500))
    rows = report.tables["annotations"].to_pylist()
    assert rows[0]["name"].startswith("enumerate(DataLoader)")
    assert (rows[0]["base_time_ps"], rows[0]["new_time_ps"]) == (50_000_000, 1_500_000_000)
    assert (rows[0]["base_count"], rows[0]["count_change"]) == (1.0, 0.0)
    assert report.scalars["annotation_count"].value == len(rows)


def test_communication_is_compared_by_kind() -> None:
    report = compare(BASE, AGAIN.changed("all-reduce.7", time_us=1400))
    (row,) = [row for row in report.tables["communication"].to_pylist() if row["kind"] == "all-reduce"]
    assert row["exposed_change_ps"] / 1e6 == pytest.approx(800, rel=0.1)
    assert report.scalars["pipeline_part_count"].reason == "neither run records input pipelines or input ops"
