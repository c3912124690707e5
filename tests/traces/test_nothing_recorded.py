"""Traces that hold nothing: no events, no JSON, or lanes that are not devices of a capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fastprof
from fastprof import CaptureError


@pytest.mark.parametrize("analysis", ["overview", "steps", "gaps", "kernel_stats"])
def test_a_trace_without_events_is_said_to_have_none(tmp_path: Path, analysis: str) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    [notice] = fastprof.load(path).report(analysis).notices
    assert notice.severity == "warning" and "The session has no events" in notice.text


@pytest.mark.parametrize("text", ["loss 0.1, step 7\n", "a,b"])
def test_a_text_is_not_json_and_the_error_shows_its_begin(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(CaptureError, match="neither an XSpace nor JSON") as failure:
        fastprof.load(path).overview()
    assert failure.value.excerpt == f"it begins with {text.strip()!r}"


def test_an_object_in_place_of_the_events_is_an_error_that_says_so() -> None:
    with pytest.raises(CaptureError, match="traceEvents is not an array") as failure:
        fastprof.load(b'{"traceEvents": {}, "a": 1}')
    assert failure.value.excerpt == "its keys are traceEvents, a"


@pytest.mark.captures
@pytest.mark.parametrize("name", ["run_metadata.pb", "timeline-8.json", "profile_8"])
def test_files_of_tensorflow_1_do_not_lead_to_the_profiler_of_tensorflow_2(name: str) -> None:
    path = Path(__file__).resolve().parents[3] / "shared" / "captures" / "tf1" / name
    names = ("overview", "diagnosis", "memory_profile", "annotations", "python_time", "input_pipeline")
    reports = fastprof.load(path).reports(*names)
    texts = " ".join(report.to_text(limit="all") for report in reports.values())
    assert not [word for word in ("ProfilerOptions", "host_tracer_level", "ProfileOptions") if word in texts]
    assert reports["diagnosis"].answer.scalars["framework"].value == "TensorFlow 1"


def test_a_timeline_of_tensorflow_1_leads_to_its_run_metadata(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    name = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "/job:localhost/device:CPU:0 Compute"}}
    op = {"name": "MatMul", "cat": "Op", "ph": "X", "pid": 1, "tid": 0, "ts": 5, "dur": 7, "args": {"op": "MatMul"}}
    path.write_text(json.dumps({"traceEvents": [name, op]}))
    words = " ".join(notice.text for notice in fastprof.load(path).overview().notices)
    assert "run_metadata.pb" in words and "ProfilerOptions" not in words
