"""Memory that grows or is nearly full is a finding, with the figures of memory_profile."""

from __future__ import annotations

from pathlib import Path

import fastprof

DEMO = Path(__file__).resolve().parents[2] / "demo" / "memory"


def test_a_leak_is_a_finding_with_the_steps_that_are_left() -> None:
    profile = fastprof.load(DEMO)
    rows = profile.report("diagnosis").tables["findings"].to_pylist()
    (leak,) = [row for row in rows if row["cause"] == "memory_pressure"]
    assert leak["title"] == "Memory in use grows from step to step and is full in 51 steps: metrics/history/ConcatV2"
    assert (leak["cost_ps"], leak["device"], leak["op"]) == (None, "GPU_0_bfc", "metrics/history/ConcatV2")
    assert leak["detail"] in [notice.text for notice in profile.report("memory_profile").notices]
    assert "fits for 51 more steps" in leak["detail"]
