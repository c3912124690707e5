"""Names of traces and files that would steer a terminal: shown as escapes, in messages of one line."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.cli.main import main

STEERS = "\x9b31m\u202eturned\u2066\u200b\u2028\x85\x1b]0;t\x07\r"
SHOWN = r"\x9b31m\u202eturned\u2066\u200b\u2028\x85\x1b]0;t\x07\r"
TWO_LINES = f"a\nb{STEERS}"
ON_ONE_LINE = rf"a\nb{SHOWN}"
Run = Callable[..., tuple[int, str, str]]


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, with a terminal for both outputs: exit code, output, errors."""

    def run(*argv: str) -> tuple[int, str, str]:
        outputs = [Terminal(io.BytesIO(), encoding="utf-8") for _ in range(2)]
        with monkeypatch.context() as patch:
            for name, screen in zip(("stdout", "stderr"), outputs, strict=True):
                patch.setattr(sys, name, screen)
            code = main(argv)
        out, err = (_written(screen) for screen in outputs)
        return code, out, err

    return run


def _written(screen: io.TextIOWrapper) -> str:
    screen.flush()
    text = screen.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return str(text.replace("\x1b[1m", "").replace("\x1b[0m", ""))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    name = f"name{STEERS}."
    steps = [event(f"step{STEERS}", 100 * i, 90, {"step_num": i, "_r": 1, name: name}) for i in range(3)]
    ops = [event(name, 100 * i + 5, 50, {"hlo_op": name, "hlo_module": name, "tf_op": name}) for i in range(3)]
    host = plane("/host:CPU", [line(name, steps)])
    gpu = plane("/device:GPU:0", [line(f"Stream #1 {STEERS}", ops)], id=1)
    other = plane(name, [line(name, [event(name)])], id=2)
    path = tmp_path / f"{TWO_LINES.replace('/', '')}.xplane.pb"
    path.write_bytes(xspace(host, gpu, other, errors=[name], warnings=[name], hostnames=[name]))
    return path


def steers(text: str) -> set[str]:
    """The characters of a text that a terminal would obey, or not show."""
    return {one for one in text if one != "\n" and not one.isprintable()}


@pytest.mark.parametrize(
    "argv",
    [
        ["info"],
        ["info", "--format", "json"],
        ["events"],
        ["events", "--list", "--format", "csv", "--stats", f"name{STEERS}."],
        ["overview"],
        ["op-stats"],
        ["hlo-stats", "--format", "csv"],
        ["op-profile", "--format", "svg"],
        ["report", "--format", "xprof"],
        ["trace", "--format", "chrome"],
        ["trace", "--format", "xprof"],
        ["trace", "--format", "xprof-streaming"],
        ["hlo"],
    ],
    ids=" ".join,
)
def test_names_on_a_terminal_are_escaped(argv: list[str], hostile: Path, on_terminal: Run) -> None:
    verb, *flags = argv
    code, out, err = on_terminal(verb, str(hostile), *flags, "--progress", "none")
    assert code == 0
    assert steers(out) == set() and steers(err) == set()
    assert "9b31m" in out or verb == "hlo"


def test_a_file_gets_names_as_they_are(hostile: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert main(["events", str(hostile), "--list", "-o", str(out), "-q"]) == 0
    assert STEERS in out.read_bytes().decode()


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["info", f"absent{TWO_LINES}"], 3),
        (["info", "SESSION", "--host", f"x{TWO_LINES}"], 3),
        (["info", "SESSION", f"--{TWO_LINES}"], 2),
        (["info", "SESSION", "--format", TWO_LINES], 2),
        (["info", "SESSION", "--plane", TWO_LINES, "-v", "--progress", "none"], 0),
        (["info", "SESSION", "-o", f"absent{TWO_LINES}/x"], 3),
        (["info", "SESSION", "--format", "json", "-o", "SESSION"], 3),
        (["info", "FOLDER", "--run", TWO_LINES], 3),
        (["overview", "SESSION", "--table", TWO_LINES], 2),
        (["info", "SESSION", "--runs"], 2),
        ([f"info{TWO_LINES}"], 2),
    ],
)
def test_a_message_is_one_line(argv: list[str], code: int, hostile: Path, on_terminal: Run) -> None:
    """Two if it ends with advice."""
    places = {"SESSION": str(hostile), "FOLDER": str(hostile.parent)}
    got, _, err = on_terminal(*[places.get(word, word) for word in argv])
    assert (got, steers(err)) == (code, set())
    assert all(text.startswith(("fastprof", "Try 'fastprof")) for text in err.splitlines()), err
    assert len(err.splitlines()) >= 1 and ON_ONE_LINE in err.replace("\\\\", "\\")


def test_errors_logs_and_profiles_in_python_are_one_line(hostile: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(fastprof.NotFoundError) as caught:
        fastprof.load(f"{hostile}x")
    assert ON_ONE_LINE in str(caught.value) and steers(str(caught.value)) == set() and "\n" not in str(caught.value)
    assert caught.value.path == f"{hostile}x"
    folder: Any = hostile.parent / f"newer{TWO_LINES}"
    folder.mkdir()
    (folder / "vm.xplane.pb").write_bytes(hostile.read_bytes())
    with caplog.at_level(logging.INFO, "fastprof"):
        profile = fastprof.load([hostile, folder])
        fastprof.load(hostile.parent)
    assert caplog.messages and not any("\n" in text or steers(text) for text in caplog.messages)
    assert steers(repr(profile)) == set() and ON_ONE_LINE in repr(profile)
    assert all(line.startswith("  ") for line in repr(profile).split("\n")[1:])
