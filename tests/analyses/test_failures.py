"""One analysis fails on damaged numbers: the others answer, and its report says why it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli.main import main

HALF = 2**62
KERNEL = {"tf_op": "a/b:MatMul", "kernel_details": "regs:3"}
WHY = "the durations of kernels do not add up in 64 bits (host vm)"
FIRST = "the analysis streams has no answer: the durations of ops do not add up in 64 bits (host vm)"
FAILED = {"kernel_stats", "streams", "op_stats", "input_pipeline", "diagnosis", "overview"}
"""What adds up or computes with kernels, or needs the report of one that does."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two kernels whose durations are 2^63 ps together."""
    kernels = [event(name, 0, HALF, KERNEL) for name in ("k1", "k2")]
    capture = tmp_path / "vm.xplane.pb"
    capture.write_bytes(xspace(plane("/device:GPU:0", [line("Stream #1", kernels)])))
    return capture


def test_the_others_answer(path: Path) -> None:
    reports = fastprof.load(path).reports()
    errors = {name: [one.text for one in report.notices if one.severity == "error"] for name, report in reports.items()}
    assert list(reports) == list(ANALYSES)
    assert {name for name, texts in errors.items() if texts} == FAILED
    assert errors["kernel_stats"] == [f"The analysis kernel_stats has no answer: {path}: {WHY}"]
    assert errors["op_stats"] == [f"The analysis op_stats has no answer, because it needs kernel_stats: {path}: {WHY}"]
    alone = fastprof.load(path).gaps()
    assert reports["gaps"].tables["devices"].equals(alone.tables["devices"])
    assert reports["gaps"].tables["devices"].num_rows == 1


def test_a_report_without_an_answer_has_no_rows_and_unknown_figures(path: Path) -> None:
    report = fastprof.load(path).reports("kernel_stats", "gaps")["kernel_stats"]
    assert {name: table.num_rows for name, table in report.tables.items()} == dict.fromkeys(report.tables, 0)
    assert {(one.value, one.reason) for one in report.scalars.values()} == {(None, f"the analysis failed: {WHY}")}


def test_import_log_has_each_failure_once(path: Path) -> None:
    profile = fastprof.load(path)
    for _ in range(2):
        profile.reports()
    rows = [row for row in profile.import_log.to_pylist() if row["code"] == "failed_analysis"]
    assert rows == [
        {"severity": "error", "code": "failed_analysis", "count": 2, "first_offset": None, "path": str(path),
         "example": FIRST}
    ]  # fmt: skip


@pytest.mark.parametrize("asked_before", [False, True])
def test_alone_it_raises(path: Path, asked_before: bool) -> None:
    profile = fastprof.load(path)
    if asked_before:
        profile.reports()
    for names in (("kernel_stats",), ("kernel_stats", "op_stats")):
        with pytest.raises(fastprof.CaptureError, match=r"do not add up in 64 bits \(host vm\)$"):
            profile.reports(*names)


def test_the_command_writes_the_others(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(path), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    answers = json.loads(out)
    assert {name for name, one in answers.items() if any(n["severity"] == "error" for n in one["notices"])} == FAILED
    assert f"{FIRST} (2 times)" in err
    assert main(["report", str(path), "--format", "xprof"]) != 0  # its pages need what a failed analysis lacks


def test_the_overview_answers_without_a_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastprof.analyses import diagnosis

    def fails(*_: object) -> None:
        raise OverflowError

    capture = xspace(plane("/device:GPU:0", [line("Stream #1", [event("k1", 0, 50, KERNEL)])]))
    whole = fastprof.load(capture).overview()
    monkeypatch.setattr(diagnosis, "run", fails)
    report = fastprof.load(capture).overview()
    assert [one.text for one in report.notices if one.severity == "error"] == [
        "The analysis diagnosis has no answer: <bytes>: times or sizes are more than 64 bits can count (host unknown)"
    ]
    assert report.scalars["busy_ps"] == whole.scalars["busy_ps"]
    assert report.scalars["headline"].value is None
    assert report.tables["findings"].num_rows == 0
