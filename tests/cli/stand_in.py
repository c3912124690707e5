"""A profile made of literal rows, which the command line takes for a real one.

``install()`` makes ``fastprof.load`` give it, whatever the path; the path's name picks its behaviour:
``empty`` has no events, ``long`` has very many, ``hangs`` never ends, ``broken`` and the like raise.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import fastprof
from fastprof import errors, schema

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


def _rows(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema.TABLES[table].arrow())


class StandIn:
    """Immutable, as a profile is; ``select`` gives another."""

    def __init__(self, kind: str = "usual", events: list[Any] | None = None, planes: list[Any] | None = None) -> None:
        self.kind = kind
        self._events = ([] if kind == "empty" else EVENTS) if events is None else events
        self._planes = PLANES if planes is None else planes
        self.tables = _Tables(self)
        self.threads = 1

    def __getattr__(self, name: str) -> pa.Table:
        if name in schema.TABLES:
            return self.tables[name]
        raise AttributeError(name)

    def read(self, *names: str) -> dict[str, pa.Table]:
        return {name: self.tables[name] for name in names}

    def select(
        self, hosts: Any = None, planes: Any = None, lines: Any = None, names: Any = None, time_ps: Any = None
    ) -> StandIn:
        for host in hosts or ():
            if host not in [row[0] for row in HOSTS]:
                raise errors.NotFoundError(f"no host {host!r}; there are alpha, beta")

        def found(patterns: Any, text: str) -> bool:
            return patterns is None or any(re.search(pattern, text) for pattern in patterns)

        first, last = time_ps or (None, None)
        kept_planes = [row for row in self._planes if (not hosts or row[1] in hosts) and found(planes, row[3])]
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

    def scan(self, columns: Any = None, stats: Any = (), batch_rows: int = 3) -> Iterator[pa.RecordBatch]:
        table = self._event_table(columns or schema.TABLES["events"].names(), stats)
        yield table.slice(0, 0).combine_chunks().to_batches()[0] if table.num_rows == 0 else table.to_batches()[0]
        if self.kind == "long":
            for _ in range(2_000):
                yield from table.to_batches()
        if self.kind == "hangs":
            time.sleep(60)
        if self.kind == "breaks":
            raise errors.CaptureError("the event ends past its line", path="breaks", offset=1234)

    def event_summary(self) -> pa.Table:
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
        types = (schema.TEXT, *[pa.int64()] * 6)
        return pa.table(
            [pa.array([row[at] for row in rows]).cast(kind) if rows else pa.array([], kind) for at, kind in enumerate(types)],
            schema=pa.schema(list(zip(columns, types, strict=True))),
        )

    def _event_table(self, columns: list[str], stats: Any) -> pa.Table:
        planes = {row[0]: row[3] for row in PLANES}
        rows = [
            {
                "event_id": row[0], "host": row[1], "plane_id": row[2], "line_id": row[3], "metadata_id": row[4],
                "name": row[5], "start_ps": row[6], "duration_ps": row[7], "num_occurrences": row[8],
                "plane": planes[row[2]], "line": LINES[row[3]][3],
            }
            for row in self._events
        ]
        table = _rows("events", rows).select(columns)
        for stat in stats:
            values = [STATS.get(stat, {}).get(row[0]) for row in self._events]
            table = table.append_column(stat, pa.array(values))
        return table.combine_chunks()

    def _table(self, name: str) -> pa.Table:
        if name == "hosts":
            keys = ("host", "path", "size_bytes", "start_unix_ns", "stop_unix_ns")
            hosts = {row[1] for row in self._planes}
            rows = [
                {**dict(zip(keys, row, strict=True)), "hostnames": [row[0]], "errors": [], "task_environment": [],
                 "warnings": ["dropped\n12 events"] if row[0] == "beta" else []}
                for row in HOSTS if row[0] in hosts
            ]
        elif name == "planes":
            keys = ("plane_id", "host", "xplane_id", "name", "device_type", "device_ordinal", "line_count", "event_count")
            rows = [dict(zip(keys, row, strict=True)) for row in self._planes]
        elif name == "lines":
            rows = [
                {"line_id": row[0], "plane_id": row[1], "xline_id": row[2], "name": row[3], "timestamp_ns": 0, "event_count": 1}
                for row in LINES
            ]
        elif name == "plane_stats":
            rows = [{"plane_id": 0, "stat_id": 1, "stat": "device_vendor", "kind": "str", "str_value": "AMD"}]
        elif name == "event_metadata":
            rows = [{"plane_id": 0, "metadata_id": n, "name": e[5], "child_ids": []} for n, e in enumerate(EVENTS)]
        elif name == "stat_metadata":
            rows = [{"plane_id": 0, "stat_id": n, "name": stat} for n, stat in enumerate(STATS)]
        elif name == "import_log" and self.kind == "salvaged":
            rows = [
                {"severity": "data_loss", "code": "bad_event", "count": 3, "first_offset": 4_096,
                 "path": "logs/run1/alpha.xplane.pb", "example": "the event ends past its line"}
            ]
        else:
            rows = []
        return _rows(name, rows)


class _Tables:
    def __init__(self, profile: StandIn) -> None:
        self._profile = profile

    def __getitem__(self, name: str) -> pa.Table:
        return self._profile._table(name)


def load(path: Any, *, run: str | None = None, on_error: str = "raise", threads: int | None = None) -> StandIn:
    calls.append({"path": path, "run": run, "on_error": on_error, "threads": threads})
    kind = "usual" if isinstance(path, list) or hasattr(path, "read") else str(path)
    if kind == "absent":
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
    fastprof.load = load
