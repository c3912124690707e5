"""Kernels, collectives, copies, bytes, ops and steps of real captures equal a count over the file.

The count shares no code with the product: see independent_counts.py.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import slow_reader
from independent_counts import (
    Record,
    count,
    count_tpu_ops,
    counted_by_fastprof,
    records_of_xspace,
    steps_of_xspace,
    tpu_ops_by_fastprof,
)

import fastprof

# ---- Kineto ---------------------------------------------------------------------------------------


def _events(path: Path) -> list[dict[str, Any]]:
    document = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    return [event for event in document["traceEvents"] if event.get("ph") == "X"]


def _records_of_kineto(path: Path) -> list[Record]:
    return [
        Record(
            event["name"],
            round(event["dur"] * 1_000_000),
            kind == "kernel",
            kind != "kernel",
            event.get("args", {}).get("bytes"),
        )
        for event in _events(path)
        if (kind := event.get("cat", "").lower()) in {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
    ]


KINETO = ["a100_rank-0", "a100_rank-1", "alexnet", "h100_qwen", "large_integers", "resnet50_worker0"]


@pytest.mark.parametrize("name", KINETO)
def test_what_gpus_ran_in_traces_of_pytorch(captures: Path, name: str) -> None:
    path = captures / "chrome" / "kineto" / f"{name}.json.gz"
    records = _records_of_kineto(path)
    assert records
    assert counted_by_fastprof(fastprof.load(path)) == count(records)


@pytest.mark.parametrize("name", KINETO)
def test_steps_of_traces_of_pytorch(captures: Path, name: str) -> None:
    path = captures / "chrome" / "kineto" / f"{name}.json.gz"
    steps = {event["name"] for event in _events(path) if event["name"].startswith("ProfilerStep#")}
    assert fastprof.load(path).steps(steps_from="markers").scalars["step_count"].value == len(steps)


XSPACE = ["gpu-mi300x-jax-conv-minimal-08", "gpu-mi300x-jax-conv-minimal-legacy", "gpu-mi300x-jax08-gemm",
          "gpu-v100x8-tf"]  # fmt: skip


@pytest.mark.parametrize("name", XSPACE)
def test_what_gpus_ran_in_xspaces(captures: Path, name: str) -> None:
    [path] = (captures / "xspace" / name).glob("*.xplane.pb")
    records = list(records_of_xspace(slow_reader.parse(path.read_bytes())))
    assert records
    assert counted_by_fastprof(fastprof.load(path)) == count(records)


STEPS = [*XSPACE, "cpu-jax-train", "cpu-tf214-train", "cpu-tf221-train", "synthetic-tpu-pod", "tpu-v6e-jax-inference"]


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_xspaces(captures: Path, name: str) -> None:
    path = sorted((captures / "xspace" / name).glob("*.xplane.pb"))[0]
    steps = steps_of_xspace(slow_reader.parse(path.read_bytes()))
    assert fastprof.load(path).steps(steps_from="markers").scalars["step_count"].value == steps


@pytest.mark.parametrize("name", ["synthetic-tpu-pod/host0", "synthetic-tpu-pod/host1", "tpu-v6e-jax-inference/host0"])
def test_what_tpus_ran(captures: Path, name: str) -> None:
    path = captures / "xspace" / f"{name}.xplane.pb"
    counted = count_tpu_ops(slow_reader.parse(path.read_bytes()))
    assert counted.ops
    assert tpu_ops_by_fastprof(fastprof.load(path)) == counted
