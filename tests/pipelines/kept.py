"""Captures, read as the analysis reads them."""

from __future__ import annotations

from pathlib import Path

import fastprof
from fastprof.decode.workers import Workers
from fastprof.derive.pipelines.iterators import STATS, RecordedPipelines, read_pipelines
from fastprof.derive.pipelines.recorded_pipelines import IteratorRecords
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host
from fastprof.xprof.pipelines_as_xprof import read_as_xprof, record_links


def events_of(capture: bytes | Path) -> HostEvents:
    return read_host(fastprof.load(capture).table_set, 0, (), STATS, ())


def kept_of(capture: bytes | Path) -> RecordedPipelines:
    return read_pipelines(events_of(capture), Workers(1))


def read_by_xprof(capture: bytes | Path) -> list[IteratorRecords]:
    return list(read_as_xprof(record_links(events_of(capture), Workers(1))).records())
