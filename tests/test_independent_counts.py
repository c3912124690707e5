"""Kernels, collectives, copies, bytes and steps of real captures equal a count over the file.

The count shares no code with the product: it uses Python's json and the slow reader of XSpaces.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import slow_reader

import fastprof

PLANTED = Path(__file__).parent / "planted"


class Record(NamedTuple):
    """What a GPU ran. ROCm has kernels that copy: both. ``bytes``: of copies, None where they are not recorded."""

    name: str
    duration_ps: int
    kernel: bool
    copies: bool
    bytes: int | None


class Counts(NamedTuple):
    kernels: int
    kernel_ps: int
    collectives: int
    collective_ps: int
    copies: int
    copied_bytes: int


def count(records: list[Record]) -> Counts:
    """Counts what GPUs ran by names: the captures here have collectives of NCCL and RCCL only."""
    kernels = [record for record in records if record.kernel]
    collectives = [record for record in kernels if re.match(r"(void )?[nr]ccl", record.name, re.I)]
    copies = [record for record in records if record.copies]
    return Counts(
        len(kernels), sum(record.duration_ps for record in kernels),
        len(collectives), sum(record.duration_ps for record in collectives),
        len(copies), sum(record.bytes or 0 for record in copies),
    )  # fmt: skip


def counted_by_fastprof(profile: fastprof.Profile) -> Counts:
    kernels, kinds = profile.kernel_stats().scalars, profile.communication().tables["kinds"].to_pylist()
    streams = profile.streams().tables
    copies = streams["copies"].to_pylist() if "copies" in streams else []
    collectives = [row for row in kinds if not row["kind"].startswith("copy")]
    return Counts(
        kernels["occurrences"].value or 0, kernels["total_ps"].value or 0,
        sum(row["occurrences"] for row in collectives), sum(row["time_ps"] for row in collectives),
        sum(row["count"] for row in copies), sum(row["bytes"] or 0 for row in copies),
    )  # fmt: skip


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


# ---- XSpace ---------------------------------------------------------------------------------------


def _stats(plane: slow_reader.Plane, stats: list[slow_reader.Stat]) -> Iterator[tuple[str, Any]]:
    for stat in stats:
        value = plane.stat_metadata[stat.value].name if stat.kind == "ref" else stat.value
        yield plane.stat_metadata[stat.metadata_id].name, value


def _records_of_xspace(space: slow_reader.Space) -> Iterator[Record]:
    for plane in space.planes:
        lines = [line for line in plane.lines if line.name.startswith("Stream #")]
        for event in (event for line in lines for event in line.events):
            metadata, stats = plane.event_metadata[event.metadata_id], dict(_stats(plane, event.stats))
            details = str(stats.get("memcpy_details") or stats.get("memset_details") or "")
            size = re.search(r"\b(?:size|num_bytes):(\d+)", details)
            copies = bool(details) or bool(re.search(r"mem(cpy|set)|copyBuffer|fillBuffer", metadata.name, re.I))
            kernel = "kernel_details" in stats or not copies
            yield Record(metadata.name, event.duration_ps, kernel, copies, int(size[1]) if size else None)


XSPACE = ["gpu-mi300x-jax-conv-minimal-08", "gpu-mi300x-jax-conv-minimal-legacy", "gpu-mi300x-jax08-gemm",
          "gpu-v100x8-tf"]  # fmt: skip


@pytest.mark.parametrize("name", XSPACE)
def test_what_gpus_ran_in_xspaces(captures: Path, name: str) -> None:
    [path] = (captures / "xspace" / name).glob("*.xplane.pb")
    records = list(_records_of_xspace(slow_reader.parse(path.read_bytes())))
    assert records
    assert counted_by_fastprof(fastprof.load(path)) == count(records)
