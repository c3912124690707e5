"""When the batch of two runs is taken to differ: by shapes, else by arithmetic, unless programs or shapes are equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_compared_programs import OTHER, WHOLE, program, read

import fastprof
from fastprof.derive.comparison.part_matching import BY_NAME, OP, Pair, StepPart
from fastprof.derive.comparison.program_changes import find_batch_change


def pair(name: str, shapes: tuple[str, str], flops: tuple[float, float], time: float = 1.0) -> Pair:
    sides = [StepPart(OP, name, time, shape=shape, flops=work) for shape, work in zip(shapes, flops, strict=True)]
    return Pair(OP, name, (sides[0],), (sides[1],), BY_NAME)


@pytest.mark.parametrize(
    ("pairs", "batch"),
    [
        ([pair("a", ("f32[32,8]", "f32[64,8]"), (1.0, 2.0))], (32, 64)),
        ([pair("a", ("", ""), (1.0, 2.0))], (1.0, 2.0)),
        ([pair("a", ("f32[32,8]", "f32[32,8]"), (1.0, 2.0))], None),
        ([pair("a", ("f32[8]", "f32[8]"), (1.0, 2.0), 3.0), pair("b", ("", ""), (1.0, 2.0))], None),
        ([pair("a", ("f32[8]", "f32[8]"), (1.0, 2.0)), pair("b", ("", ""), (1.0, 2.0), 3.0)], (1.0, 2.0)),
    ],
)
def test_shapes_overrule_arithmetic(pairs: list[Pair], batch: tuple[float, float] | None) -> None:
    assert find_batch_change(pairs) == batch


def test_equal_programs_or_arguments_overrule_arithmetic() -> None:
    doubled = [pair("a", ("", ""), (1.0, 2.0))]
    base, same, other = read(program(WHOLE)), read(program(WHOLE), first=90), read(program(WHOLE, OTHER))
    assert find_batch_change(doubled, base, same) is None
    assert find_batch_change(doubled, base, other) is None  # the same arguments
    assert find_batch_change(doubled, base, []) == (1.0, 2.0)
    grown = [pair("a", ("f32[32,8]", "f32[64,8]"), (1.0, 2.0))]
    assert find_batch_change(grown, base, other) == (32, 64)


def test_a_program_that_runs_twice_a_step_has_the_same_batch(captures: Path) -> None:
    folder = captures / "xspace"
    names = ("gpu-mi300x-jax-conv-minimal-legacy", "gpu-mi300x-jax-conv-minimal-08")
    report = fastprof.compare(folder / names[0], folder / names[1])
    assert report.scalars["verdict"].value == "slower"
    assert "batch" not in [row["what"] for row in report.tables["environment"].to_pylist()]
    report = fastprof.compare(folder / names[1], folder / names[0])
    assert report.scalars["verdict"].value == "faster"
