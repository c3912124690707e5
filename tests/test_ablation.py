"""Captures of all kinds without one kind of record: dependent figures and cells are unknown, and none becomes 0 or
more certain."""

from __future__ import annotations

from pathlib import Path

import pytest
from ablation import became_certain, became_zero, without_of_kineto, without_of_xspace
from gate import few
from sweep import reports_of
from table_ablation import cells_that_became_zero

import fastprof

HERE = Path(__file__).parent
OWN = ["planted/loops/torch_no_schedule.pt.trace.json.gz", "reported/i17-comm-nccl.json.gz"]
REAL = ["chrome/kineto/alexnet.json.gz", "chrome/kineto/a100_rank-0.json.gz", "xspace/cpu-jax-train/vm.xplane.pb",
        "xspace/cpu-tf221-train/vm.xplane.pb", "xspace/gpu-mi300x-jax08-gemm/tw003.xplane.pb",
        "xspace/synthetic-tpu-pod/host0.xplane.pb", "xspace/tpu-v6e-jax-inference/host0.xplane.pb",
        "xspace/synthetic-serving/server0.xplane.pb"]  # fmt: skip


def faults(path: Path) -> dict[str, list[str]]:
    """By the kind of record that is removed, what became 0 or certain."""
    full, found = reports_of(fastprof.load(path)), {}
    for kind, data in (without_of_kineto if path.suffix == ".gz" else without_of_xspace)(path):
        rest = reports_of(fastprof.load(data))
        checks = (became_zero, cells_that_became_zero, became_certain)
        if wrong := [fault for check in checks for fault in check(full, rest)]:
            found[kind] = wrong
    return found


@pytest.mark.parametrize("name", OWN)
def test_nothing_becomes_zero_or_certain(name: str) -> None:
    assert faults(HERE / name) == {}


@pytest.mark.parametrize("name", few(REAL, 3))
def test_nothing_of_real_captures_becomes_zero_or_certain(captures: Path, name: str) -> None:
    assert faults(captures / name) == {}
