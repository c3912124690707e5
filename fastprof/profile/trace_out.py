"""Trace files: their formats, and which of them a file name stands for."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastprof.decode.array_memory import adopt_thread
from fastprof.decode.selection import Selection
from fastprof.errors import UsageError
from fastprof.export.new_files import open_new_file, wrap_output_errors
from fastprof.export.trace_batches import ALL, STATS
from fastprof.export.trace_files import CHROME, PERFETTO, TraceFile
from fastprof.inputs.open_files import prefetch
from fastprof.tables.host_clocks import Offset, Offsets
from fastprof.tables.table_set import TableSet
from fastprof.wording.quantities import format_moment, list_few
from fastprof.wording.spelling import suggest_name
from fastprof.xprof.trace.trace_forms import DEFAULT_RESOLUTION, MOST_TEXT
from fastprof.xprof.trace.trace_forms import write_trace as xprof_chunks

if TYPE_CHECKING:
    from fastprof.profile.report import Report

XPROF, STREAMING = "xprof", "xprof-streaming"
FORMS = (CHROME, PERFETTO, XPROF, STREAMING)
GZIP = ".gz"
_SUFFIXES = {
    ".json": CHROME,
    ".pftrace": PERFETTO,
    ".perfetto-trace": PERFETTO,
    ".perfetto": PERFETTO,
}
_GZIP_WINDOW, _GZIP_LEVEL = 31, 4
_PS_IN_MS = 10**9


def find_trace_form(path: str) -> str | None:
    """Return the format that the suffix of a file names, or None."""
    return _SUFFIXES.get(Path(path.removesuffix(GZIP)).suffix.lower())


def get_clock_offsets(communication: Report) -> Offsets:
    """Return the known clock offsets of hosts that met in collectives, relative to their references."""
    rows = communication.tables["clocks"].select(["host", "reference", "offset_ps", "at_ps", "drift_ppm"]).to_pylist()
    return {
        row["host"]: Offset(row["reference"], row["offset_ps"], row["at_ps"], row["drift_ppm"] / 1e6)
        for row in rows
        if row["offset_ps"] is not None
    }


def describe_alignment(communication: Report, hosts: Sequence[str]) -> str:
    """Say which of the session's hosts have aligned clocks, how exact that is, and why others have not."""
    rows = communication.tables["clocks"].to_pylist()
    moved = [row for row in rows if row["offset_ps"] is not None and row["host"] != row["reference"]]
    aligned = {row["host"] for row in moved} | {row["reference"] for row in moved}
    left = [host for host in hosts if host not in aligned]
    met = [row for row in rows if row["host"] not in aligned]
    why = "no collectives show how they differ"
    if any(row["violated"] for row in met):
        why = "in some collectives, one host finished before another began, so hosts number collectives differently"
    elif met:
        why = "too few collectives show how they differ"
    if not moved:
        return f"clocks are not aligned, because {why}"
    worst = max(moved, key=lambda row: int(row["error_ps"]))
    parts = len({row["reference"] for row in moved})
    apart = f" in {parts} parts, which are not aligned with each other" if parts > 1 else ""
    text = (
        f"clocks of {len(aligned):,} hosts are aligned{apart}, to a standard error of at most "
        f"{format_moment(worst['error_ps'])} ({worst['host']})"
    )
    return f"{text}; not that of {list_few(left)}, because {why}" if left else text


class Trace:
    """Selected events of a session in one of ``FORMS``. UsageError: no such format, stats or resolution.

    ``derived``, ``stats``, ``offsets``: as in TraceFile, for chrome and perfetto. ``resolution``, for xprof-streaming:
    the number of events that fit in a row, 0 for all. ``max_text``, for xprof and xprof-streaming: bytes of a text that
    several events may repeat, 0 for no limit.
    """

    def __init__(
        self,
        tables: TableSet,
        form: str,
        *,
        derived: bool = True,
        stats: str = ALL,
        resolution: float = DEFAULT_RESOLUTION,
        max_text: int = MOST_TEXT,
        offsets: Offsets | None = None,
    ) -> None:
        if form not in FORMS:
            raise UsageError(
                f"there is no trace format {form!r}; there are: {', '.join(FORMS)}{suggest_name(form, FORMS)}"
            )
        if stats not in STATS:
            raise UsageError(f"stats must be one of {', '.join(STATS)}, not {stats!r}")
        if not math.isfinite(resolution) or resolution < 0:
            raise UsageError("resolution must be a number of events, or 0 for all")
        self.file = TraceFile(tables, form, derived, stats, offsets) if form in (CHROME, PERFETTO) else None
        if offsets is not None and self.file is None:
            raise UsageError("clocks are aligned only in the formats chrome and perfetto")
        if not isinstance(max_text, int) or max_text < 0:
            raise UsageError("max_text must be a number of bytes, or 0 for no limit")
        self._tables, self._form, self._resolution, self._max_text = tables, form, resolution, max_text

    def chunks(self, gzip: bool = False) -> Iterator[bytes]:
        """Return the bytes of the file; ``gzip``: compressed."""
        return _compress_chunks(self._plain()) if gzip else self._plain()

    def write(self, out: str | os.PathLike[str], force: bool = False) -> None:
        """Write the file, compressed if its name ends in .gz. OutputError: it exists and ``force`` is not given, or it
        cannot be written."""
        path = os.fspath(out)
        with wrap_output_errors(path), open_new_file(path, force, "force=True") as write:
            for chunk in self.chunks(path.endswith(GZIP)):
                write(chunk)

    def _plain(self) -> Iterator[bytes]:
        if self.file is not None:
            return prefetch(self.file.chunks(), adopt_thread)
        if self._form == XPROF:
            return prefetch(xprof_chunks(self._tables, XPROF, max_text=self._max_text), adopt_thread)
        selection: Selection = self._tables.selection
        hosts = [host for host in self._tables.session.hosts if selection.hosts is None or host in selection.hosts]
        windows = [window for host in hosts if (window := selection.window(host)) is not None and window[0] < window[1]]
        if not windows:
            start, end = 0.0, 0.0  # an end of 0 is the end of the capture
        else:
            first, last = min(window[0] for window in windows), max(window[1] for window in windows)
            start, end = max(first, 0) / _PS_IN_MS, 0.0 if last >= 2**63 - 1 else max(last, 1) / _PS_IN_MS
        all_times = TableSet(self._tables.session, replace(selection, time_ps=None, host_times=None))
        pieces = xprof_chunks(
            all_times,
            STREAMING,
            resolution=self._resolution,
            start_ms=start,
            end_ms=end,
            max_text=self._max_text,
        )
        return prefetch(pieces, adopt_thread)


def _compress_chunks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for chunk in chunks:
        packed = packer.compress(chunk)
        if packed:
            yield packed
    yield packer.flush()
