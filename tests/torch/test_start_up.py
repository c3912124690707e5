"""Costs that come once, such as the loading of kernels at their first launch, come after those that recur."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_captures import Recorded, kernel, launch, op, step, torch_capture

import fastprof


def launched(first_us: int, count: int = 40) -> list[dict[str, object]]:
    """Findings on kernels that are launched when the device is idle; the first launch takes longer."""
    host: list[Recorded] = []
    gpu: list[Recorded] = []
    at = 0
    for number in range(1, count + 1):
        category, name, _, _, stats = launch(at, number)
        took = first_us if number == 3 else 50
        host += [op("aten::copy_", at, took), (category, name, at, took - 10, stats)]
        copies = ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + took, 100, {"correlation_id": number})
        gpu.append(copies if number % 2 else kernel("elementwise", at + took, 100, number))
        at += took + 100
    report = torch_capture({"main": [step(1, 0, at), *host]}, {"stream 7": gpu}).diagnosis()
    return [{**row, "headline": report.scalars["headline"].value} for row in report.tables["findings"].to_pylist()]


@pytest.mark.parametrize(("first_us", "is_once"), [(3_000_000, True), (50, False)])
def test_a_launch_that_takes_seconds_among_many_quick_ones_is_start_up(first_us: int, is_once: bool) -> None:
    rows = launched(first_us)
    launches = [row for row in rows if row["cause"] in ("launch", "small_ops")]
    assert (launches[-1]["ranked_by"] == "after recurring causes") is is_once
    assert ("first use" in str(launches[-1]["advice"])) is is_once
    assert sum(row["ranked_by"] == "after recurring causes" for row in rows) == is_once
    if is_once:
        recurring, once = launches
        assert [row["cause"] for row in rows] == ["transfer", recurring["cause"], "launch"]
        assert (recurring["cost_ps"], once["cost_ps"]) == (39 * 50_000_000, 3_000_000_000_000)
        assert once["detail"] == "One wait of 3.000 s."
        assert str(rows[0]["headline"]).startswith("One-time start-up: 3.000 s.")
        assert str(rows[0]["headline"]).endswith("of the rest of the run.")
    else:
        assert "Start-up" not in str(rows[0]["headline"])


def test_one_wait_of_few_is_not_start_up() -> None:
    assert all(row["ranked_by"] != "after recurring causes" for row in launched(3_000_000, 12))


KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
def test_start_up_and_what_recurs_of_one_cause_are_two_findings() -> None:
    """Four of 103 waits for launches take 4,293.7 ms, the others 15.698 ms; so do six of 27 for memory."""
    report = fastprof.load(KINETO / "alexnet.json.gz").diagnosis()
    rows = report.tables["findings"].to_pylist()
    recurring = {row["cause"]: row["cost_ps"] for row in rows if row["ranked_by"] != "after recurring causes"}
    assert (recurring["launch"], recurring["memory_pressure"]) == (15_698_000_000, 80_730_000_000)
    assert rows[0]["cause"] == "memory_pressure"
    titles = [row["title"] for row in rows if row["cause"] == "memory_pressure"]
    assert titles[0] == "The GPU waits for memory allocation" and titles[1].endswith(", at start-up")
    assert str(report.scalars["headline"].value).startswith("One-time start-up: 12.69 s.")
