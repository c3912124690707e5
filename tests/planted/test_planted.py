"""The captures of the examination hold what they claim: the planted cost is in their events."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate import few
from planted_cases import HEALTHY, PLANTED, Case
from reports import figures, session_of
from score import HELD_OUT, Score

RECORDED = [case for case in (*PLANTED, *HEALTHY, *HELD_OUT) if case.make is None]
EVIDENCE = {
    "jax_sleeping_batches": r"\$builtins next",
    "jax_decoding_batches": r"load_batch",
    "jax_python_between": r"\$train\.py:\d+ summary",
    "jax_changing_shapes": r"PjitFunction\(train_step\)",
    "jax_jit_in_loop": r"PjitFunction\(<lambda>\)",
    "jax_callback": r"pure_callback.*",
    "jax_copies": r"H2D Dispatch",
    "jax_lock": r"\$.* acquire",
    "jax_garbage": r"\$gc collect",
    "jax_checkpoint": r"\$train\.py:\d+ save_checkpoint",
    "tf_slow_map": r"IteratorGetNextOp::DoCompute",
    "tf_no_prefetch": r"IteratorGetNextOp::DoCompute",
    "tf_py_function": r"EagerPyFunc:EagerPyFunc",
    "tf_retracing": r"train_step",
    "torch_sleeping_loader": r"enumerate\(DataLoader\)#.*",
    "torch_looping_optimizer": r"Optimizer\.step#Sliced\.step",
    "gpu_all_reduce": r"nccl.*",
    "gpu_slow_iterator": r"IteratorGetNextOp::DoCompute",
    "gpu_copied_batches": r"MemcpyH2D",
    "gpu_transposed_images": r".*SwapDimension1And2.*",
    "gpu_allocated_each_step": r"cuMem(Free|Alloc)_v2",
    "tpu_late_infeed": r"%infeed.*",
    "tpu_offloaded_weights": r"%copy-done.*",
    "tpu_outside_compilation": r"%(send|recv).*",
    "tpu_all_reduce": r"%all-reduce.*",
}
"""Names of the events that are what is planted, of cases where one device or thread has them."""


def spans(case: Case) -> list[tuple[int, int, str, str]]:
    """Start, end, name and place of every event with a start."""
    events = session_of(*case.run().captures.values()).events
    rows = events.select(["start_ps", "duration_ps", "name", "host", "plane"]).to_pylist()
    return [(r["start_ps"], r["start_ps"] + (r["duration_ps"] or 0), r["name"], r["host"] + r["plane"]) for r in rows]


def covered(given: list[tuple[int, int]]) -> int:
    """The time of the union."""
    total, reached = 0, -(1 << 62)
    for begin, end in sorted(given):
        total += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return total


@pytest.mark.parametrize("name", EVIDENCE)
def test_the_planted_cost_is_in_the_capture(name: str) -> None:
    case = next(one for one in PLANTED if one.name == name)
    found = [one for one in spans(case) if re.fullmatch(EVIDENCE[name], one[2])]
    device = min((plane for *_, plane in found), default="")
    recorded = covered([(begin, end) for begin, end, _, plane in found if plane == device])
    assert recorded == pytest.approx(case.run().cost_ps, rel=0.1 if case.make is None else 1e-9)


@pytest.mark.parametrize("case", few([one for one in PLANTED if one.make], 9), ids=lambda case: case.name)
def test_a_written_run_fills_its_time(case: Case) -> None:
    """Its events span the run, its marks are its steps, nothing is dropped, and a large part of it is planted."""
    run = case.run()
    session = session_of(*run.captures.values())
    assert session.import_log.num_rows == 0
    events = spans(case)
    marks = sum(name == "train" for _, _, name, _ in events)
    assert figures(session.report("steps"))["step_count"] * len(run.captures) == marks
    times = np.array([one[:2] for one in events])
    assert times[:, 1].max() - times[:, 0].min() == pytest.approx(run.run_ps, rel=0.02)
    assert 0.2 < run.cost_ps / run.run_ps < 1


@pytest.mark.parametrize("name", ["gpu_late_launches", "gpu_tiny_functions", "gpu_eager_ops", "gpu_op_on_the_host"])
def test_a_gpu_is_idle_for_the_planted_cost(name: str) -> None:
    case = next(one for one in PLANTED if one.name == name)
    run = case.run()
    busy = covered([one[:2] for one in spans(case) if "/device:GPU:" in one[3]])
    assert run.run_ps - busy == pytest.approx(run.cost_ps, rel=0.08)


@pytest.mark.parametrize(
    ("name", "event", "fast", "slow"),
    [
        ("gpu_slow_device", r"nccl.*", "host0/device:GPU:0", "host0/device:GPU:2"),
        ("tpu_slow_chip", r"%all-reduce.*", "host0/device:TPU:0", "host0/device:TPU:3"),
        ("tpu_slow_host", r"%all-reduce.*", "host0/device:TPU:1", "host1/device:TPU:0"),
    ],
)
def test_fast_devices_wait_for_the_slow_one(name: str, event: str, fast: str, slow: str) -> None:
    case = next(one for one in PLANTED if one.name == name)
    sums = [one for one in spans(case) if re.fullmatch(event, one[2])]
    waited = {plane: covered([one[:2] for one in sums if one[3] == plane]) for plane in (fast, slow)}
    assert waited[fast] - waited[slow] == pytest.approx(case.run().cost_ps, rel=0.01)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.name)
def test_a_recorded_capture_is_small_and_names_no_machine(case: Case) -> None:
    (packed,) = case.run().captures.values()
    raw = gzip.decompress(packed)
    assert len(packed) <= 60_000
    (host,) = session_of(packed).hosts.to_pylist()
    assert host["hostnames"] == ["host0"] or dict(host["task_environment"])["host_name"] == "host0"
    assert re.findall(rb"/(?:home|root|tmp|usr|opt|var|work)/[\w./-]*", raw) == []
    assert case.cause == "" or 0.2 < case.run().cost_ps / case.run().run_ps < 1


def test_recorded_captures_are_a_megabyte_at_most() -> None:
    files = [path for folder in {one.folder for one in RECORDED} for path in Path(folder).glob("*.gz")]
    assert sorted(path.name.partition(".")[0] for path in files) == sorted(one.name for one in RECORDED)
    assert sum(path.stat().st_size for path in files) <= 1 << 20


def test_there_is_enough_to_examine() -> None:
    every = (*PLANTED, *HEALTHY, *HELD_OUT)
    assert len({one.name for one in every}) == len(every)
    assert len(PLANTED) >= 24 and len(HEALTHY) >= 6 and len(HELD_OUT) == 8
    assert {one.device for one in PLANTED} == {one.device for one in HEALTHY} == {"CPU", "GPU", "TPU"}


def finding(cause: str, cost_ps: int, share: float = 0.5, is_bound: bool = False) -> dict[str, Any]:
    return {"cause": cause, "cost_ps": cost_ps, "share": share, "is_bound": is_bound}


@pytest.mark.parametrize(
    ("findings", "is_right"),
    [
        ([finding("input", 95)], True),
        ([finding("input", 111)], False),
        ([finding("input", 89)], False),
        ([finding("python", 100), finding("input", 100)], False),
        ([], False),
        ([finding("input", 190, is_bound=True)], True),
        ([finding("input", 190)], False),
        ([finding("input", 230, is_bound=True)], False),
    ],
)
def test_the_first_finding_has_the_cause_and_the_cost(findings: list[dict[str, Any]], is_right: bool) -> None:
    assert Score(Case("c", "JAX", "CPU", "input"), findings, 100, 200, 1000).is_right is is_right


@pytest.mark.parametrize(("shares", "is_right"), [([], True), ([0.03, 0.01], True), ([0.01, 0.04], False)])
def test_a_healthy_run_has_no_large_finding(shares: list[float], is_right: bool) -> None:
    score = Score(Case("c", "JAX", "CPU", ""), [finding("input", 1, share) for share in shares], 0, 0, 1000)
    assert score.is_right is is_right
