"""Progress on standard error."""

from __future__ import annotations

import io

import pytest

from fastprof.cli import output as module
from fastprof.cli.output import ProgressLine


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_terminal_has_one_line_ten_times_a_second(clock: Clock) -> None:
    stream = Terminal()
    progress = ProgressLine(stream)
    for step in range(100):
        clock.now = step / 100
        progress("writing events", step, 100)
    assert stream.getvalue().count("\r") == 9
    assert "\n" not in stream.getvalue()
    clock.now = 5
    progress("short", 1_234, 0)
    progress.clear()
    before, _, cleared = stream.getvalue().rpartition("short: 1,234")
    assert cleared.strip(" \r") == ""
    assert cleared.endswith("\r")
    assert before


def test_plain_is_lines(clock: Clock) -> None:
    stream = io.StringIO()
    progress = ProgressLine(stream, "plain")
    for step in range(0, 401, 10):
        clock.now = step / 100
        progress("a", step, 400)
    progress("b", 7, 0)
    progress.clear()
    assert stream.getvalue() == ("fastprof: a:   0%\nfastprof: a:  50%\nfastprof: a: 100%\nfastprof: b: 7\n")


@pytest.mark.parametrize("stream", [Terminal(), None])
def test_none_is_silent(clock: Clock, stream: io.StringIO | None) -> None:
    clock.now = 9
    progress = ProgressLine(stream, "none")
    progress("a", 1, 2)
    progress.clear()
    assert not progress.wanted
    assert stream is None or stream.getvalue() == ""


def test_auto_is_silent_off_a_terminal_and_on_a_dumb_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ProgressLine(io.StringIO(), "auto").wanted
    assert ProgressLine(Terminal(), "auto").wanted
    monkeypatch.setenv("TERM", "dumb")
    assert not ProgressLine(Terminal(), "auto").wanted


def test_a_closed_stream_is_not_an_error(clock: Clock) -> None:
    stream = Terminal()
    progress = ProgressLine(stream)
    stream.isatty = lambda: True  # type: ignore[method-assign]
    stream.close()
    clock.now = 9
    progress("a", 1, 2)
    assert not progress.wanted
