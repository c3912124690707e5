"""Starting; the docstring of a benchmark is its title on the results page."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import Timed


@pytest.mark.parametrize("code", ["pass", "import fastprof"])
def bench_import(timed: Timed, code: str) -> None:
    """a fresh Python"""
    timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))
