"""Files that appear whole or not at all, and error exits."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from trace_builder import event, line, plane, xspace

from fastprof.cli import output
from fastprof.cli.main import main
from fastprof.cli.output import Messages
from fastprof.render.table_forms import Look


def test_a_file_is_not_overwritten_without_force(command: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    ran = command("events", "usual", "-o", str(out))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"fastprof: {out}: already exists; use --force to overwrite it\n"
    assert out.read_text() == "mine"
    assert command("events", "usual", "-o", str(out), "--force").code == 0
    assert out.read_text().startswith("name,count,")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("verb", ["info", "events", "steps", "report"])
def test_a_capture_that_is_read_is_never_overwritten(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture, link = tmp_path / "vm.xplane.pb", tmp_path / "link.json"
    capture.write_bytes(xspace(plane("/host:CPU", [line("main", [event("a", 0, 5)])])))
    link.symlink_to(capture)
    before = capture.read_bytes()
    assert main([verb, str(tmp_path), "-o", str(link), "--force", "--format", "json"]) == 3
    assert capsys.readouterr().err == f"fastprof: {link}: is one of the captures; a capture is never overwritten\n"
    assert capture.read_bytes() == before
    assert main([verb, str(capture), "-o", str(tmp_path / "out.json"), "--format", "json"]) == 0


def opened(out: Path) -> AbstractContextManager[output.Sink]:
    talk = Messages()
    args = argparse.Namespace(output=str(out), force=False, wide=False, talk=talk)
    return output.open_sink(args, "csv")


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with (
        pytest.raises(output.OutputError, match="was created in the meantime"),
        opened(out) as sink,
    ):
        sink.send([b"ours"])
        out.write_text("theirs")
    assert out.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_a_file_half_written_is_removed(tmp_path: Path, stop: type[BaseException]) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(stop), opened(out) as sink:
        sink.send([b"half"])
        assert not out.exists()
        raise stop
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_leading_to_its_file(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "out.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    assert command("events", "usual", "-o", str(link), "--force").code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("name,")


def test_a_file_gets_the_usual_permissions(command: Callable[..., Any], tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert command("events", "usual", "-o", str(tmp_path / "x.csv")).code == 0
    finally:
        os.umask(before)
    assert (tmp_path / "x.csv").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("out", "complaint"), [("", "is a directory"), ("none/x.csv", "cannot write: No such file or directory")]
)
def test_a_place_that_takes_no_file(command: Callable[..., Any], tmp_path: Path, out: str, complaint: str) -> None:
    path = str(tmp_path / out)
    ran = command("events", "usual", "-o", path)
    assert (ran.code, ran.err) == (3, f"fastprof: {path}: {complaint}\n")


@pytest.mark.parametrize("flags", [[], ["--list"], ["--format", "arrow"]])
def test_a_full_disk(command: Callable[..., Any], flags: list[str]) -> None:
    ran = command("events", "usual", "-o", "/dev/full", *flags)
    assert (ran.code, ran.err) == (3, "fastprof: /dev/full: cannot write: No space left on device\n")
    assert command("events", "usual", "-o", os.devnull, *flags).code == 0


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.csv", "csv"), ("a.JSON", "json"), ("a.arrow", "arrow"), ("a.feather", "arrow"), ("a", "table")],
)
def test_a_file_name_records_the_form(name: str, form: str) -> None:
    assert output.choose_format(None, name) == form
    assert output.choose_format("json", name) == "json"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def on_terminal(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``command``, with a terminal for its standard output."""

    def run(*argv: str) -> Any:
        screen = Terminal(io.BytesIO(), encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            ran = command(*argv)
        screen.flush()
        return ran._replace(out=screen.buffer.getvalue().decode())

    return run


def test_a_terminal_gets_colour_and_its_width(on_terminal: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\n\x1b[1mPlanes\x1b[0m\n" in on_terminal("info", "usual").out
    monkeypatch.setenv("COLUMNS", "60")
    assert max(len(line) for line in on_terminal("events", "usual", "--list").out.splitlines()[1:]) <= 60
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
        assert "\x1b" not in on_terminal("info", "usual").out
        monkeypatch.delenv(name)


def test_a_terminal_never_gets_what_steers_it(on_terminal: Callable[..., Any]) -> None:
    for form in ("csv", "json", "table"):
        ran = on_terminal("events", "usual", "--list", "--format", form)
        assert (ran.code, ran.out.count("step")) == (0, 1)
        assert "\x1b[31m" not in ran.out


def test_a_terminal_gets_no_arrow(on_terminal: Callable[..., Any]) -> None:
    ran = on_terminal("events", "usual", "--format", "arrow")
    assert (ran.code, ran.out) == (2, "")
    assert "Arrow data are binary" in ran.err


@pytest.mark.parametrize(
    ("session", "code", "message"),
    [
        ("absent", 3, "absent: no such file or directory"),
        ("unreadable", 3, "unreadable: permission denied"),
        ("broken", 4, "broken: not an XSpace: field 0 (at byte 12,345)"),
        ("changed", 4, "changed: the file shrank while it was read"),
        ("memory", 70, "out of memory: 4 GiB are too many"),
        ("bug", 70, "internal error: KeyError: 'no\\x1bsuch'; -v shows where"),
    ],
)
def test_an_error_is_one_line_and_a_code_with_advice_where_a_capture_is_broken(
    command: Callable[..., Any], session: str, code: int, message: str
) -> None:
    advice = "--on-error salvage keeps what can be decoded of a damaged file; --on-error skip leaves the file out"
    expected = f"fastprof: {message}\n" + (f"fastprof: {advice}\n" if session == "broken" else "")
    assert command("events", session) == (code, "", expected)
    assert command("events", session, "--on-error", "skip") == (code, "", f"fastprof: {message}\n")
    assert command("events", session, "-q") == (code, "", f"fastprof: {message}\n")


def test_verbose_shows_the_traceback(command: Callable[..., Any]) -> None:
    shown = command("events", "bug", "-v").err
    assert "Traceback (most recent call last)" in shown
    assert shown.endswith("fastprof: internal error: KeyError: 'no\\x1bsuch'\n")


def test_an_output_that_takes_a_part_at_a_time_gets_all() -> None:
    taken = bytearray()

    def write(piece: bytes | memoryview) -> int:
        taken.extend(piece[:3])
        return len(piece[:3])

    output.Sink(write, Look(), "output", lambda: None, data=True).send([b"0123456789", b"", b"abc"])
    assert taken == b"0123456789abc"
