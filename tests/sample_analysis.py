"""How many events each host has, and what a report can hold besides.

An analysis as contract.py has it, for tests of what is made of reports: ``registered()`` puts it into the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fastprof.analyses import ANALYSES
from fastprof.analyses.contract import AnalysisReport, Notice, ScalarSpec, Section, make_scalars
from fastprof.schema.tables import TEXT, Column, TableSchema
from fastprof.tables.needs import Needs

NAME = "sample_analysis"
READS = Needs()
AFTER: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Params:
    least: int = field(default=0, metadata={"help": "hosts with fewer events are left out", "min": 0})
    order: str = field(default="host", metadata={"help": "order of the rows", "choices": ("host", "events")})
    loud: bool = field(default=False, metadata={"help": "say more than 100 % of it"})
    ratio: float | None = field(default=None, metadata={"help": "a ratio"})


TABLES = {
    "hosts": TableSchema(
        "hosts",
        "a host",
        (
            Column("host", TEXT, "host"),
            Column("events", pa.int64(), "events"),
            Column("duration_ps", pa.int64(), "sum of durations", unit="ps"),
            Column("event_share", pa.float64(), "events / events of all hosts; null: there are none", True, "share"),
        ),
        derived=True,
    ),
    "names": TableSchema("names", "a name of an event", (Column("name", pa.string(), "name"),), derived=True),
}
SCALARS = {
    "event_count": ScalarSpec(None, "events of all hosts"),
    "total_ps": ScalarSpec("ps", "sum of durations"),
    "mean_ps": ScalarSpec("ps", "total_ps / event_count"),
    "first_name": ScalarSpec(None, "the first name"),
    "loud": ScalarSpec(None, "whether it was to be loud"),
    "steps": ScalarSpec(None, "steps"),
}
SECTIONS = (
    Section("Figures", scalars=tuple(SCALARS)),
    Section("Hosts", "hosts", ("host", "events", "duration_ps", "event_share"), "event_share", 2),
    Section("Names", "names", ("name",), rows=3),
)


def of_host(host: Any, _params: Params) -> tuple[str, int, int, list[str]]:
    events = host.raw
    names = sorted({events.names[meta] for meta in events.meta.tolist()})
    return host.name, len(events.meta), int(events.duration_ps.sum()), names


def run(kept: Sequence[Any], params: Params, _after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    rows = [row for row in kept if row[1] >= params.least]
    if params.order == "events":
        rows.sort(key=lambda row: -row[1])
    count, total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    columns = ([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows],
               [row[1] / count if count else None for row in rows])  # fmt: skip
    names = sorted({name for row in rows for name in row[3]})
    tables = {
        "hosts": pa.table([pa.array(c, f.type) for c, f in zip(columns, TABLES["hosts"].arrow(), strict=True)],
                          schema=TABLES["hosts"].arrow()),
        "names": pa.table([pa.array(names, pa.string())], schema=TABLES["names"].arrow()),
    }  # fmt: skip
    unknown = (None, "nobody counts steps here")
    values = {
        "event_count": count, "total_ps": total, "mean_ps": total // count if count else (None, "there are no events"),
        "first_name": names[0] if names else unknown, "loud": params.loud, "steps": unknown,
    }  # fmt: skip
    notices = (Notice("info", "This is a sample."), Notice("recommendation", f"Look at {names[0] if names else '-'}."))
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), notices)


@contextmanager
def registered() -> Iterator[None]:
    """While this lasts the analysis is one of the registry."""
    path = f"fastprof.analyses.{NAME}"
    ANALYSES[NAME] = (__doc__ or "").partition("\n")[0]
    sys.modules[path] = sys.modules[__name__]
    try:
        yield
    finally:
        del ANALYSES[NAME], sys.modules[path]
