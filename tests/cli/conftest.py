"""The command line over a stand-in for the engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ran import Ran, run_command

import fastprof


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_checked_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has no captures whose events could be checked."""
    monkeypatch.setattr("fastprof.cli.session_summary._MOST_CHECKED", -1)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """``command("events", "usual", …)`` runs the command in this process over the stand-in."""
    import stand_in

    stand_in.calls.clear()
    monkeypatch.setattr(fastprof, "load", stand_in.load, raising=False)

    def run(*argv: str) -> Ran:
        return run_command(capsys, *argv)

    return run
