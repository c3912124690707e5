"""The text and the HTML of a diagnosis and of an overview begin with what costs most, not with verdicts of XProf."""

from __future__ import annotations

import html as markup
import re

import pytest

import fastprof
from tests.trace_builder import event, line, plane, xspace

MS = 10**9
TITLE = "The GPU waits for input: load_batch <b>"
HEADLINE = f"{TITLE}: 8.000 ms, 80.0 % of the run."


@pytest.fixture(scope="module")
def profile() -> fastprof.Profile:
    """A GPU that computes for 1 ms of 10, before and after a batch is loaded."""
    steps = [event("train", 0, 10 * MS, {"step_num": 0}), event("load_batch <b>", MS, 8 * MS)]
    kernels = [event("dot", 0, MS), event("dot", 9 * MS, MS)]
    return fastprof.load(
        xspace(
            plane("/host:CPU", [line("python", steps)], id=1),
            plane("/device:GPU:0", [line("Stream #1(Compute)", kernels, id=1)], id=2),
        )
    )


@pytest.mark.parametrize("name", ["overview", "diagnosis"])
def test_the_text_begins_with_the_headline_and_the_findings(profile: fastprof.Profile, name: str) -> None:
    lines = [line.strip() for line in str(profile.report(name)).splitlines() if line.strip()]
    assert lines[1:4] == [HEADLINE, "What costs the time", f"1. {TITLE}: 8.000 ms, 80.0 %"]
    assert not any("input-bound" in line or "All Others" in line for line in lines)


@pytest.mark.parametrize("name", ["overview", "diagnosis"])
def test_the_html_has_findings_in_full_sentences(profile: fastprof.Profile, name: str) -> None:
    html = profile.report(name)._repr_html_()
    assert "<b>:" not in html, "texts of the capture are escaped"
    words = markup.unescape(re.sub(r"</?(p|b|li|ol|div|h\d)\b[^>]*>", "\n", html))
    first = [line.strip() for line in words.splitlines() if line.strip()][1:4]
    assert first == [HEADLINE, "What costs the time", f"{TITLE}: 8.000 ms, 80.0 %"]
    assert re.search(r"advice: .*[Pp]repare batches in the background .* before it is needed\.", words)
    assert "input-bound" not in words
