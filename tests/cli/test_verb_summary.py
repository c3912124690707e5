"""fastprof SESSION: the first minute with a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprof.cli.main import main
from fastprof.wording.screen import measure_width

DEMO = Path(__file__).resolve().parents[2] / "demo"
SESSIONS = sorted(path.name for path in DEMO.iterdir() if (path / "plugins").is_dir())


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(DEMO.parent)

    def run(*words: str) -> tuple[str, str]:
        assert main(words) == 0
        captured = capsys.readouterr()
        return captured.out, captured.err

    return run


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_fits_a_screen(show: Callable[..., Any], name: str) -> None:
    out, err = show(f"demo/{name}")
    lines = (out + err).splitlines()
    assert len(lines) <= 40 and max(map(measure_width, lines)) <= 100
    assert lines[0].startswith(f"demo/{name} (run 20")
    assert f"  fastprof diagnosis demo/{name}" in out
    assert (out, err) == show("summary", f"demo/{name}")


def test_findings_have_a_cost_an_action_and_the_command_that_shows_their_evidence(show: Callable[..., Any]) -> None:
    out, _ = show("demo/xla")
    assert "JAX on 2 TPU v6 Lite, 1 host; 29.69 ms, 5 steps\n" in out
    assert "  1. Ops are memory-bandwidth bound: up to 7.089 ms, 23.9 %\n     Move fewer bytes: " in out
    assert "  3. " in out and "  4. " not in out
    assert "  fastprof roofline demo/xla --table 'ops?bound_by=HBM'" in out
    examined = "Checked and harmless: 10 causes; 17 cannot be judged from this capture"
    assert f"{examined} (fastprof diagnosis --verbose lists them)" in " ".join(out.split())
    assert f"{examined}\n" in show("diagnosis", "demo/xla")[0]
    assert "  4. " in show("demo/xla", "--limit", "4")[0]


def test_the_document_is_small_and_names_causes_by_identifier(show: Callable[..., Any]) -> None:
    document = json.loads(show("demo/xla", "--format", "json")[0])
    assert list(document) == [
        "session", "run", "framework", "device_type", "device_count", "host_count", "window_ps", "step_count",
        "figures", "reasons", "headline", "findings", "harmless", "unknown", "unrecorded", "next",
    ]  # fmt: skip
    assert [finding["cause"] for finding in document["findings"]] == ["memory_bound", "straggler", "slow_step"]
    assert document["findings"][0]["cost_ps"] == 7_089_392_244
    assert "memory_bound" not in document["harmless"] + document["unknown"]
    assert document["next"][0] == "fastprof roofline demo/xla --table 'ops?bound_by=HBM'"
    assert len(json.dumps(document)) < 6_000
    unknown = json.loads(show("demo/serving", "--format", "json")[0])
    assert unknown["window_ps"] is None and "no device" in unknown["reasons"]["window_ps"]


def test_reports_of_requests_and_python_are_next_where_the_capture_has_them(show: Callable[..., Any]) -> None:
    def verbs(name: str) -> list[str]:
        return [command.split()[1] for command in json.loads(show(name, "--format", "json")[0])["next"]]

    assert verbs("demo/serving") == ["diagnosis", "inference", "serve"]
    assert verbs("demo/logdir") == ["gaps", "diagnosis", "python-time", "serve"]
    assert verbs("demo/kernel") == ["diagnosis", "serve"]


def test_incomplete_steps_are_counted_and_named(show: Callable[..., Any]) -> None:
    assert "JAX on 1 CPU, 1 host; 44.26 ms, 10 steps (2 incomplete)\n" in show("demo/logdir")[0]
    assert "; 29.69 ms, 5 steps\n" in show("demo/xla")[0]
    cut = "Steps 0, 9 may be cut off by the recording: averages leave them out."
    assert cut in show("steps", "demo/logdir")[0] and cut in show("gaps", "demo/logdir", "--verbose")[0]


def test_commands_do_not_repeat_a_long_path(show: Callable[..., Any], tmp_path: Path) -> None:
    link = tmp_path / ("session" * 10)
    link.symlink_to(DEMO / "xla")
    out, _ = show(str(link))
    assert "\nNext, with SESSION as above\n  fastprof roofline SESSION --table 'ops?bound_by=HBM'" in out
    assert max(map(measure_width, out.splitlines())) <= 100


def test_several_runs_follow_each_other(show: Callable[..., Any]) -> None:
    out, _ = show("demo/xla", "demo/kernel")
    assert "demo/xla, demo/kernel" in out and out.count("\nNext") == 2


@pytest.mark.parametrize("name", ["kernel", "serving"])
def test_a_diagnosis_without_findings_is_short(show: Callable[..., Any], name: str) -> None:
    out, err = show("diagnosis", f"demo/{name}")
    assert len((out + err).splitlines()) <= 15
    assert "not recorded" not in out and "  Not recorded: " in out and "  -  " not in out
    verbose, _ = show("diagnosis", f"demo/{name}", "--verbose")
    assert "\nNot recorded\n  1. " in verbose


def test_details_of_a_diagnosis_are_shown_on_request(show: Callable[..., Any]) -> None:
    out, _ = show("diagnosis", "demo/xla")
    assert not any(text in out for text in ("ranked by", "Always 0", "Hidden columns", "Checked causes"))
    assert "garbage_collection" not in out and "host: worker0; device: /device:TPU:1; certainty: certain" in out
    verbose, _ = show("diagnosis", "demo/xla", "-v")
    assert all(text in verbose for text in ("ranked by", "Always 0", "Checked causes", "garbage collection"))
