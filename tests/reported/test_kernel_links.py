"""What a kernel records beside its name is shown: occupancy, op, call that launched it, device, hardware counters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import fastprof

HERE = Path(__file__).parent


def load(name: str) -> fastprof.Profile:
    return fastprof.load(HERE / f"{name}.json.gz")


def changed(tmp_path: Path, name: str, change: Any) -> fastprof.Profile:
    """The case with its document changed."""
    document = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return fastprof.load(path)


def column(profile: fastprof.Profile, name: str) -> dict[str, Any]:
    """By name of the kernel."""
    kernels = profile.kernel_stats().tables["kernels"]
    return dict(zip(kernels["name"].to_pylist(), kernels[name].to_pylist(), strict=True))


# ---- occupancy

OCCUPANCY = {"ampere_sgemm_128x64_nn": 12, "void at::native::reduce_kernel<512, 1>()": 63, "softmax_warp_forward": 100}


def test_recorded_occupancy_is_shown_and_judged() -> None:
    """Cost: 3 x 0.4 ms x (1 - 12 %)."""
    profile = load("p4-occupancy")
    assert column(profile, "occupancy_percent") == OCCUPANCY
    costs = {row["cause"]: row["cost_ps"] for row in profile.diagnosis().tables["findings"].to_pylist()}
    assert costs["low_occupancy"] == 1_056_000_000


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("est. achieved occupancy %", 0, 0),
        ("est. achieved occupancy %", -99, None),
        ("est. achieved occupancy %", 37.5, 37.5),
        ("theoretical occupancy %", 25, 25),
        ("theoretical occupancy %", 0, None),
    ],
)
def test_occupancy_is_what_the_version_writes(tmp_path: Path, name: str, value: float, shown: float | None) -> None:
    """An estimate is rounded to whole percents, and negative if the profiler does not know the device."""

    def change(document: dict[str, Any]) -> None:
        for event in document["traceEvents"]:
            if event.get("cat") == "kernel":
                del event["args"]["est. achieved occupancy %"]
                event["args"][name] = value

    assert set(column(changed(tmp_path, "p4-occupancy", change), "occupancy_percent").values()) == {shown}
