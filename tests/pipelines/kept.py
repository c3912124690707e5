"""Captures, read as the analysis reads them."""

from __future__ import annotations

from pathlib import Path

import fastprof
from fastprof.decode.workers import Workers
from fastprof.derive.pipelines.iterators import STATS, KeptPipelines, keep_pipelines
from fastprof.tables.host_events import read_host


def kept_of(capture: bytes | Path) -> KeptPipelines:
    tables = fastprof.load(capture).table_set
    return keep_pipelines(read_host(tables, 0, (), STATS, ()), Workers(1))
