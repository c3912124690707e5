"""Export, in process; the docstring of a benchmark is its title on the results page."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from captures import Capture
from conftest import Timed

import fastprof


def bench_to_parquet(timed: Timed, taken: Capture, tmp_path: Path) -> None:
    """`to_parquet` of all tables"""
    timed(lambda: fastprof.load(taken.path).to_parquet(tmp_path / uuid4().hex))


def bench_events_to_parquet(timed: Timed, taken: Capture, tmp_path: Path) -> None:
    """`to_parquet` of `events` alone"""
    timed(lambda: fastprof.load(taken.path).to_parquet(tmp_path / uuid4().hex, tables=["events"]))
