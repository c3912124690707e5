"""Commands run in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from fastprof.cli.main import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


def run_command(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    """Return the exit code and the output of a command."""
    code = main(argv)
    captured = capsys.readouterr()
    return Ran(code, captured.out, captured.err)
