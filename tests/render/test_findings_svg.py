"""The drawing of findings: a bar for each, as long as its share of the run."""

from __future__ import annotations

from pathlib import Path

from test_svg import NAMESPACE, assert_inside, parsed, texts

import fastprof

DEMO = Path(__file__).parents[2] / "demo"


def test_findings_are_bars_of_their_share() -> None:
    report = fastprof.load(DEMO / "xla").diagnosis()
    root = parsed(report.to_svg())
    assert_inside(root)
    first = report.tables["findings"].to_pylist()[0]
    words = [text.text or "" for text in texts(root)]
    assert words[:3] == ["What costs the time", "1. Ops are memory-bandwidth bound", "up to 7.089 ms, 23.9 %"]
    widths = [float(rect.get("width", 0)) for rect in root.iter(f"{NAMESPACE}rect")]
    track, bar = widths[1:3]
    assert abs(bar / track - first["share"]) < 0.001
    assert "data:image/svg+xml" in report._repr_html_()


def test_a_run_without_findings_says_so() -> None:
    root = parsed(fastprof.load(DEMO / "kernel").overview().to_svg())
    assert_inside(root)
    assert "What costs the time" in [text.text for text in texts(root)]
