"""A log directory whose newest run cannot be read: the error says how to read another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli.main import main

OLD, MIDDLE, NEW = "2026_01_01_00_00_00", "2026_01_02_00_00_00", "2026_01_03_00_00_00"
GOOD = xspace(plane("/host:CPU", [line("main", [event("a", 0, 10)])]))
HINT = f"{NEW} is the newest of 3 runs; read another: --run {MIDDLE}"


def write(logs: Path, run: str, data: bytes) -> Path:
    folder = logs / "plugins" / "profile" / run
    folder.mkdir(parents=True)
    path = folder / "vm.xplane.pb"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [b"", GOOD[:-3], b"\xff" * 40])
@pytest.mark.parametrize("verb", ["overview", "info", "events"])
def test_the_error_of_a_broken_newest_run_names_another(
    verb: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in (OLD, MIDDLE):
        write(tmp_path, run, GOOD)
    path = write(tmp_path, NEW, data)
    assert main([verb, str(tmp_path)]) == 4
    said = capsys.readouterr().err.splitlines()
    assert str(path) in said[0]
    assert said[-1] == f"fastprof: {HINT}"
    assert main([verb, str(tmp_path), "--run", MIDDLE, "-q"]) == 0


def test_a_run_that_was_chosen_or_is_the_only_one_gets_no_such_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, NEW, b"")
    assert main(["overview", str(tmp_path)]) == 4
    write(tmp_path, OLD, GOOD)
    assert main(["overview", str(tmp_path), "--run", NEW]) == 4
    assert main(["overview", str(path)]) == 4
    assert "read another" not in capsys.readouterr().err


def test_in_python_the_error_of_a_broken_newest_run_names_another(tmp_path: Path) -> None:
    write(tmp_path, OLD, GOOD)
    write(tmp_path, NEW, b"\xff" * 40)
    with pytest.raises(fastprof.CaptureError) as found:
        fastprof.load(tmp_path)
    assert found.value.__notes__ == [f"{NEW} is the newest of 2 runs; read another: run='{OLD}'"]
    with pytest.raises(fastprof.CaptureError) as chosen:
        fastprof.load(tmp_path, run=NEW)
    assert not hasattr(chosen.value, "__notes__")


def test_several_runs_may_be_named_with_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless a run has that very name."""
    for run in (OLD, NEW, f"{OLD},{MIDDLE}"):
        write(tmp_path, run, GOOD)
    assert main(["info", str(tmp_path), "--run", f"{OLD}, {NEW}", "--format", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["runs"]) == [OLD, NEW]
    assert main(["info", str(tmp_path), "--run", f"{OLD},{MIDDLE}", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["run"] == f"{OLD},{MIDDLE}"
    assert main(["info", str(tmp_path), "--run", f"{NEW},absent"]) == 3
    assert "run absent; runs, newest first: " in capsys.readouterr().err
