"""fastprof export trace, over a small capture."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from ran import Command, Ran, run_command
from trace_builder import aggregated, event, line, plane, xspace
from trace_readers import read_chrome, read_perfetto

from fastprof.cli.main import main


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """``command("--format", "chrome")`` runs the verb over a capture."""
    events = [event("a", 0, 1_000), event("b", 5_000_000, 1_000), aggregated("c", 2)]
    source = tmp_path / "vm.xplane.pb"
    source.write_bytes(xspace(plane("/host:CPU", [line("main", events), line("other", [event("d", 0, 9)])])))

    def run(*argv: str) -> Ran:
        return run_command(capsys, "trace", str(source), *argv)

    return run


def names(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    return [one.name for one in read_chrome(data).slices]


def test_to_standard_output(command: Command) -> None:
    ran = command("--format", "chrome")
    assert (ran.code, names(ran.out)) == (0, ["a", "b", "d"])
    assert ran.err == "fastprof: left out 1 event without a start\n"


def test_filters(command: Command) -> None:
    assert names(command("--format", "chrome", "--time", "1us:").out) == ["b"]
    assert names(command("--format", "chrome", "--line", "^other$", "--raw").out) == ["d"]
    assert names(command("--format", "chrome", "--name", "a|d").out) == ["a", "d"]


def test_files_are_named_for_their_form(command: Command, tmp_path: Path) -> None:
    assert command("-o", str(tmp_path / "t.json.gz")).code == 0
    assert names(gzip.decompress((tmp_path / "t.json.gz").read_bytes())) == ["a", "b", "d"]
    assert command("-o", str(tmp_path / "t.pftrace")).code == 0
    assert [one.name for one in read_perfetto((tmp_path / "t.pftrace").read_bytes()).slices] == ["a", "b", "d"]
    again = command("-o", str(tmp_path / "t.pftrace"))
    assert (again.code, "use --force" in again.err) == (3, True)
    assert command("-o", str(tmp_path / "t.pftrace"), "--force").code == 0


@pytest.mark.parametrize("form", ["xprof", "xprof-streaming"])
def test_xprofs_forms(command: Command, form: str) -> None:
    events: list[Any] = json.loads(command("--format", form).out)["traceEvents"]
    assert {one["name"] for one in events if one.get("ph") in ("X", "i")} == {"a", "b", "d"}


def test_a_selection_without_events_says_so(command: Command) -> None:
    ran = command("--format", "chrome", "--name", "mian")
    assert (ran.code, names(ran.out)) == (0, [])
    assert "no event matches 'mian'" in ran.err


def test_a_file_without_events_is_not_written(command: Command, tmp_path: Path) -> None:
    ran = command("-o", str(tmp_path / "t.json"), "--name", "mian")
    assert (ran.code, ran.out) == (3, "")
    assert "no event matches 'mian'" in ran.err and "t.json: not written, because there are no events" in ran.err
    assert not (tmp_path / "t.json").exists()


def test_steps_that_do_not_exist_are_met_with_those_that_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        one
        for n in range(9)
        for one in (event("train", 1_000 * n, 900, {"_r": 1, "step_num": n}), event("op", 1_000 * n + 1, 9))
    ]
    for first, listed in ((steps, "choose from 0:9 (ends excluded)"), (steps[:2], "the only step is 0")):
        source = tmp_path / "steps.xplane.pb"
        source.write_bytes(xspace(plane("/host:CPU", [line("main", first)])))
        for argv in (["trace", "--format", "chrome"], ["events"]):
            assert main([*argv, str(source), "--steps", "100"]) == 2
            assert capsys.readouterr().err == f"fastprof: no step 100; {listed}\n"
    source.write_bytes(xspace(plane("/host:CPU", [line("main", [event("a", 0, 9)])])))
    assert main(["events", str(source), "--steps", "100"]) == 2
    assert capsys.readouterr().err == "fastprof: no step 100; the session has no steps\n"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "give --format"),
        (["-o", "t.txt"], "give --format"),
        (["--format", "xprof", "--raw"], "--raw applies only to"),
        (["--format", "xprof", "--stats", "none"], "--stats applies only to"),
        (["--format", "chrome", "--resolution", "9"], "--resolution applies only to"),
        (["--format", "chrome", "--max-text", "9"], "--max-text applies only to"),
        (["--format", "pdf"], "invalid choice"),
    ],
)
def test_flags_that_make_no_sense(command: Command, flags: list[str], complaint: str) -> None:
    ran = command(*flags)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
