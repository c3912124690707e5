"""The table import_log: tolerated faults, remarks, and choices made while reading."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from fastprof.schema.capture_tables import CAPTURE_TABLES, SEVERITIES
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class LogRow:
    severity: str
    code: str
    count: int
    first_offset: int | None
    path: str | None
    example: str


_REMARKS = {"duplicate_node", "late_end", "no_metadata", "no_text"}
Faults = list[tuple[str, str, str, int, int]]


class ImportLog:
    """Rows of one session, one per kind of fault and file. Threads may add to it. Pickled it is empty: what another
    process finds is not of this session, unless its rows are taken over."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str | None, str], LogRow] = {}
        self._seen: set[tuple[str, str, str, int, int]] = set()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ImportLog, ()

    def add(
        self, severity: str, code: str, example: str, path: str | None, count: int = 1, offset: int | None = None
    ) -> None:
        """Count a fault. The example of the lowest offset is kept."""
        assert severity in SEVERITIES, severity
        key = (code, path, severity)
        with self._lock:
            known = self._rows.get(key)
            if known is None:
                self._rows[key] = LogRow(severity, code, count, offset, path, example)
                return
            earlier = offset is not None and (known.first_offset is None or offset < known.first_offset)
            first, text = (offset, example) if earlier else (known.first_offset, known.example)
            self._rows[key] = LogRow(severity, code, known.count + count, first, path, text)

    def add_faults(self, faults: Faults, path: str) -> None:
        """Add faults counted by the C core: code, sentence, message being read, count, first offset.

        Names and stats are read for entire captures, so reading them again gives the same faults, which count once.
        """
        for code, sentence, what, count, offset in faults:
            seen = (path, code, what, count, offset)
            with self._lock:
                if seen in self._seen:
                    continue
                self._seen.add(seen)
            severity = "notice" if code in _REMARKS else "data_loss"
            self.add(severity, code, f"{sentence}, reading {what}", path, count, offset)

    def paths(self) -> set[str]:
        """Return the files that rows are about."""
        return {row.path for row in list(self._rows.values()) if row.path is not None}

    def rows(self) -> list[LogRow]:
        return list(self._rows.values())

    def take(self, rows: Iterable[LogRow]) -> None:
        """Take over rows of another process, which may have read the same file more than once."""
        for row in rows:
            key = (row.code, row.path, row.severity)
            with self._lock:
                known = self._rows.get(key)
                if known is None or known.count < row.count:
                    self._rows[key] = row

    def table(self) -> pa.Table:
        """Worst first, then in the order of paths and offsets."""
        rows = sorted(
            self._rows.values(),
            key=lambda row: (-SEVERITIES.index(row.severity), row.path or "", row.first_offset or 0, row.code),
        )
        schema = CAPTURE_TABLES["import_log"].arrow()
        columns = [[getattr(row, name) for row in rows] for name in schema.names]
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
