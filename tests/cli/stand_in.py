"""A profile made of literal rows, which the command line takes for a real one.

``install()`` makes ``fastprof.load`` give it, whatever the path; the path's name picks its behaviour:
``empty`` has no events, ``long`` has very many, ``hangs`` never ends, ``broken`` and the like raise.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

import fastprof
from fastprof import errors
from fastprof.schema.tables import TEXT
from fastprof.tables.table_set import TABLES

HOSTS = [
    ("alpha", "logs/run1/alpha.xplane.pb", 2_500_000, 1_763_716_800_000_000_000, 1_763_716_801_500_000_000),
    ("beta", "logs/run1/beta.xplane.pb", 1_000, None, None),
]
PLANES = [
    (0, "alpha", 1, "/device:GPU:0", "GPU", 0, 1, 4),
    (1, "alpha", 2, "/host:CPU", None, None, 1, 2),
    (2, "beta", 1, "/device:GPU:0", "GPU", 0, 1, 1),
]
LINES = [(0, 0, 7, "Stream #7"), (1, 1, 11, "main"), (2, 2, 7, "Stream #7")]
EVENTS = [
    (0, "alpha", 0, 0, 1, "matmul", 1_000_000_000, 2_500_000_000, None),
    (1, "alpha", 0, 0, 2, "copy, async", 4_000_000_000, 500_000_000, None),
    (2, "alpha", 0, 0, 1, "matmul", 5_000_000_000, 1_500_000_000, None),
    (3, "alpha", 0, 0, 3, "agg", None, 40_000_000, 4),
    (4, "alpha", 1, 1, 1, "step\x1b[31m", -1_000_000_000, 9_000_000_000, None),
    (5, "alpha", 1, 1, 2, "été 中文", 0, 1_000, None),
    (6, "beta", 2, 2, 1, "matmul", 0, 3_000_000_000, None),
]
STATS = {"flops": {0: 10, 2: 20}, "shape": {0: "f32[2]", 6: "f32[3]"}}
SELF_PS = {4: 1_000}

_HOST_KEYS = ("host", "path", "size_bytes", "start_unix_ns", "stop_unix_ns")
_PLANE_KEYS = (
    "plane_id",
    "host",
    "xplane_id",
    "name",
    "device_type",
    "device_ordinal",
    "line_count",
    "event_count",
)
_LINE_KEYS = ("line_id", "plane_id", "xline_id", "name")
_EVENT_KEYS = (
    "event_id",
    "host",
    "plane_id",
    "line_id",
    "metadata_id",
    "name",
    "start_ps",
    "duration_ps",
    "num_occurrences",
)


def _rows(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TABLES[table].arrow())


class StandIn:
    """Immutable, as a profile is; ``select`` gives another."""

    size_bytes = 2_501_000

    def __init__(self, kind: str = "usual", events: Any = None, planes: Any = None) -> None:
        self.kind = kind
        self._events = ([] if kind == "empty" else EVENTS) if events is None else events
        self._planes = PLANES if planes is None else planes
        self.tables = _Tables(self)
        self.run = "run1"
        self.runs = {self.run: self}
        self.has_runs = False
        self.by_job = self
        self.sources = [row[1] for row in HOSTS]

    def __getattr__(self, name: str) -> pa.Table:
        if name in TABLES:
            return self.tables[name]
        raise AttributeError(name)

    @property
    def exported(self) -> None:
        """Its tables are of one run."""

    def remarks(self) -> pa.Table:
        """The import log so far."""
        return self.import_log

    def read(self, *names: str) -> dict[str, pa.Table]:
        return {name: self.tables[name] for name in names}

    def select(
        self, hosts: Any = None, planes: Any = None, lines: Any = None, names: Any = None, time_ps: Any = None,
        steps: Any = None,
    ) -> StandIn:  # fmt: skip
        assert steps is None
        for host in hosts or ():
            if host not in [row[0] for row in HOSTS]:
                raise errors.NotFoundError(f"no host {host!r}; there are alpha, beta")

        def found(patterns: Any, text: str) -> bool:
            return patterns is None or any(re.search(pattern, text) for pattern in patterns)

        first, last = time_ps or (None, None)
        of_hosts = [row for row in self._planes if not hosts or row[1] in hosts]
        kept_planes = [row for row in of_hosts if found(planes, row[3])]
        ids = {row[0] for row in kept_planes}
        events = [
            row
            for row in self._events
            if row[2] in ids
            and found(lines, LINES[row[3]][3])
            and found(names, row[5])
            and (time_ps is None or row[6] is not None)
            and (first is None or row[6] + row[7] > first)
            and (last is None or row[6] < last)
        ]
        return StandIn(self.kind, events, kept_planes)

    def scan(self, columns: Any = None, stats: Any = (), batch_rows: int = 1 << 16) -> Iterator[pa.RecordBatch]:
        table = self.event_table(columns or TABLES["events"].names(), stats)
        yield from table.to_batches(max_chunksize=batch_rows) or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        if self.kind == "long":
            for _ in range(2_000):
                yield from table.to_batches()
        if self.kind == "hangs":
            time.sleep(60)
        if self.kind == "breaks":
            raise errors.CaptureError("the event ends past its line", path="breaks", offset=1234)

    def stat_names(self) -> list[str]:
        return sorted(STATS)

    def event_summary(self, percentiles: Sequence[int] = ()) -> pa.Table:
        assert not percentiles
        if self.kind == "bug":
            raise KeyError("no\x1bsuch")
        if self.kind == "memory":
            raise errors.MemoryLimitError("4 GiB are too many")
        sums: dict[str, list[int]] = defaultdict(list)
        for row in self._events:
            sums[row[5]].append(row[0])
        rows = []
        for name, ids in sums.items():
            times = [EVENTS[event][7] for event in ids]
            own = sum(SELF_PS.get(event, EVENTS[event][7]) for event in ids)
            rows.append((name, len(ids), sum(times), own, sum(times) // len(ids), min(times), max(times)))
        rows.sort(key=lambda row: (-row[3], row[0]))
        columns = ("name", "count", "total_ps", "self_ps", "mean_ps", "min_ps", "max_ps")
        types = (TEXT, *[pa.int64()] * 6)
        values = [[row[at] for row in rows] for at in range(len(columns))]
        arrays = [pa.array(column, kind) for column, kind in zip(values, types, strict=True)]
        return pa.table(arrays, names=list(columns))

    def event_table(self, columns: list[str], stats: Any) -> pa.Table:
        planes = {row[0]: row[3] for row in PLANES}
        rows = [
            {
                **dict(zip(_EVENT_KEYS, row, strict=True)),
                "plane": planes[row[2]],
                "line": LINES[row[3]][3],
            }
            for row in self._events
        ]
        table = _rows("events", rows).select(columns)
        for stat in stats:
            values = [STATS.get(stat, {}).get(row[0]) for row in self._events]
            table = table.append_column(stat, pa.array(values))
        return table.combine_chunks()

    def _table(self, name: str) -> pa.Table:
        rows: list[dict[str, Any]]
        if name == "hosts":
            hosts = {row[1] for row in self._planes}
            rows = [dict(zip(_HOST_KEYS, row, strict=True)) for row in HOSTS if row[0] in hosts]
            for row in rows:
                row |= {"hostnames": [row["host"]], "errors": [], "warnings": [], "task_environment": []}
                if row["host"] == "beta":
                    row["warnings"] = ["dropped\n12 events"]
        elif name == "planes":
            rows = [dict(zip(_PLANE_KEYS, row, strict=True)) for row in self._planes]
        elif name == "lines":
            kept = {row[0] for row in self._planes}
            rows = [dict(zip(_LINE_KEYS, row, strict=True)) for row in LINES if row[1] in kept]
            for row in rows:
                row |= {"timestamp_ns": 0, "event_count": 1}
        elif name == "plane_stats":
            rows = [{"plane_id": 0, "stat_id": 1, "stat": "device_vendor", "kind": "str", "str_value": "AMD"}]
        elif name == "event_metadata":
            names = [event[5] for event in EVENTS]
            rows = [
                {"plane_id": 0, "metadata_id": number, "name": name, "child_ids": []}
                for number, name in enumerate(names)
            ]
        elif name == "stat_metadata":
            rows = [{"plane_id": 0, "stat_id": n, "name": stat} for n, stat in enumerate(STATS)]
        elif name == "import_log" and self.kind == "salvaged":
            rows = [
                {
                    "severity": "data_loss",
                    "code": "bad_event",
                    "count": 3,
                    "first_offset": 4_096,
                    "path": "logs/run1/alpha.xplane.pb",
                    "example": "the event ends past its line",
                }
            ]
        else:
            rows = []
        return _rows(name, rows)


class _Tables:
    def __init__(self, profile: StandIn) -> None:
        self._profile = profile

    def __getitem__(self, name: str) -> pa.Table:
        return self._profile._table(name)


def load(
    path: Any,
    *,
    run: str | None = None,
    as_hosts: bool = False,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    progress: Any = None,
) -> StandIn:
    assert progress is None or callable(progress)
    assert not as_hosts
    calls.append({"path": path, "run": run, "on_error": on_error, "threads": threads, "max_unpacked": max_unpacked})
    kind = "usual" if isinstance(path, list) or hasattr(path, "read") else str(path)
    if kind.startswith("absent"):
        raise errors.NotFoundError("no such file or directory", path=kind)
    if kind == "unreadable":
        raise errors.UnreadableError("permission denied", path=kind)
    if kind == "broken":
        raise errors.CaptureError("not an XSpace: field 0", path=kind, offset=12_345)
    if kind == "changed":
        raise errors.ChangedError("the file shrank while it was read", path=kind)
    return StandIn(kind)


calls: list[dict[str, Any]] = []
"""The arguments of each call of ``load``."""


def install() -> None:
    from fastprof.cli import session_summary

    fastprof.load = load
    session_summary._MOST_CHECKED = -1  # there are no captures whose events could be checked
