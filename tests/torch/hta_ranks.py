"""Ranks as HolisticTraceAnalysis counts them, and its answers.

HTA drops the last of several steps by default: events of the host that begin before it count, and what these launched.
Sessions named ``-lastStep`` keep it. HTA rounds times that are not whole microseconds, begins up and ends down, but in
sessions named ``-exact``.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np

import fastprof
from fastprof.analyses.streams import READS, Params
from fastprof.derive.ops.stream_events import GpuStreams, HostStreams, StreamEvents, read_streams, sum_streams
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host

SESSIONS = {
    "a100": ("a100_rank-0", "a100_rank-1"),
    "a100-lastStep": ("a100_rank-0", "a100_rank-1"),
    "alexnet": ("alexnet",),
    "h100_qwen": ("h100_qwen",),
    "h100_qwen-exact": ("h100_qwen",),
    "large_integers": ("large_integers",),
    "resnet50_worker0": ("resnet50_worker0",),
    "resnet50_worker0-lastStep": ("resnet50_worker0",),
}
MICRO = 1_000_000
DIGITS, LAST_BIT = 5.001e-3, 5e-4
"""By how much figures of two digits may be off, and the last bit of a double of microseconds since 1970."""


@dataclass(frozen=True)
class Cell:
    """A figure of HTA, and ours. ``rounded``: by how much HTA's own figure may be off."""

    report: str
    what: str
    ours: float | str | None
    theirs: float | str | None
    rounded: float = 0.0

    @property
    def agrees(self) -> bool:
        if isinstance(self.ours, int | float) and isinstance(self.theirs, int | float):
            return abs(self.ours - self.theirs) <= 1e-6 * max(1.0, abs(self.theirs)) + self.rounded
        return self.ours == self.theirs


@dataclass(frozen=True)
class Rank:
    """What a rank's GPU ran, the tables of streams of that, and the number of each stream. ``until``: host events that
    begin before it count; None: all do. ``zero_ps``: since 1970, the time that others count from; ``first_ps``: that of
    the first event of all ranks."""

    number: int
    profile: fastprof.Profile
    host: HostEvents
    gpu: StreamEvents
    sums: HostStreams
    streams: list[int]
    until: int | None
    zero_ps: int
    first_ps: int

    def names(self, rows: np.ndarray) -> list[str]:
        """Of events; "": there is none."""
        return [self.host.names[meta] if row >= 0 else "" for row, meta in zip(rows, self.host.meta[rows], strict=True)]

    def since_first_us(self, time_ps: np.ndarray) -> np.ndarray:
        """Microseconds since the first event of all ranks."""
        since: np.ndarray = (time_ps + (self.zero_ps - self.first_ps)) / MICRO
        return since


def ranks_of(captures: Path, folder: Path) -> list[Rank]:
    """Of a session, whose name that of the folder of its answers is."""
    first_ps = int(json.loads((folder / "summary.json").read_text(), parse_float=Decimal)["min_ts"] * MICRO)
    names = enumerate(SESSIONS[folder.name])
    return [_rank(number, captures / f"{name}.json.gz", folder.name, first_ps) for number, name in names]


def rounded(path: Path) -> bytes:
    """The trace with the times that HTA gives it, if any is not whole: begins up and ends down to microseconds."""
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    timed = [event for event in document["traceEvents"] if "ts" in event and "dur" in event]
    if any(isinstance(event["ts"], Decimal) for event in timed):
        for event in timed:
            begin = math.ceil(event["ts"])
            event["dur"] = math.floor(event["ts"] + event["dur"]) - begin
            event["ts"] = begin
    return json.dumps(document, default=float).encode()


def _rank(number: int, path: Path, folder: str, first_ps: int) -> Rank:
    keeps_last = folder.endswith("-lastStep")
    profile = fastprof.load(path if folder.endswith("-exact") else rounded(path))
    (zero_ns,) = set(profile.table_set["lines"]["timestamp_ns"].to_pylist())
    host = read_host(profile.table_set, 0, READS.planes, (*READS.stats, "stream"), READS.metadata_stats)
    streams = read_streams(host)
    until = _until(host, keeps_last)
    gpu = streams.events
    gpu = gpu[np.isin(gpu.row, host.stat("stream").rows)]  # HTA has no other
    if until is not None:
        gpu = gpu[(gpu.call >= 0) & (gpu.call_ps < until)]
    numbers = [int(line.name.split()[-1]) for line in streams.lines]
    sums = sum_streams(host, GpuStreams(streams.lines, gpu), Params(queue_length=4).limits)
    return Rank(number, profile, host, gpu, sums, numbers, until, zero_ns * 1000, first_ps)


def _until(host: HostEvents, keeps_last: bool) -> int | None:
    """The begin of the last of several steps, or the moment after its end."""
    named = np.array([name.startswith("ProfilerStep") for name in host.names])
    rows = np.concatenate([np.arange(one.first, one.last) for one in host.planes if one.name == "/host:CPU"])
    steps = rows[named[host.meta[rows]]]
    if len(np.unique(host.meta[steps])) < 2:
        return None
    start, duration = host.start_ps[steps], host.duration_ps[steps]
    return int((start + duration).max() + 1 if keeps_last else start.max())


def answers(folder: Path, report: str, rank: int | None = None) -> list[dict[str, str]]:
    """Rows of a table of HTA's, those of a rank."""
    for path, opened in ((folder / f"{report}.csv", open), (folder / f"{report}.csv.gz", gzip.open)):
        if path.exists():
            with opened(path, "rt") as file:  # type: ignore[operator]
                rows = csv.DictReader(file)
                return [row for row in rows if rank is None or int(row["rank"]) == rank]
    return []


def by_kind(folder: Path, report: str, rank: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Rows of a rank's summary by name, which has three lines of headings."""
    path = folder / f"{report}.csv"
    if not path.exists():
        return
    with path.open() as file:
        lines = list(csv.reader(file))
    for line in lines[3:]:
        if int(line[0]) == rank:
            yield line[1], dict(zip(lines[1][2:], line[2:], strict=True))


def number_of(text: str) -> float | None:
    return None if text in ("", "nan") else float(text)


def summary(report: str, what: str, ours: Mapping[str, float | None], row: dict[str, str]) -> Iterator[Cell]:
    """What describes values: how many there are, their mean, deviation and quartiles, by HTA's names."""
    for name in ("count", "mean", "std", "min", "25%", "50%", "75%", "max"):
        yield Cell(report, f"{what} {name}", ours[name], number_of(row[name]), DIGITS)
