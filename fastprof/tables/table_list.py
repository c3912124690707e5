"""All tables of a session, in the order in which they are listed."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.hlo.program_tables import PROGRAM_TABLES
from fastprof.schema.capture_tables import CAPTURE_TABLES, EVENT_ID
from fastprof.schema.column_kinds import Count, Kind, Picoseconds
from fastprof.schema.tables import TableSchema

NESTING: Final = TableSchema("nesting", "an event and its place among the events of its line", (
    EVENT_ID,
    Kind(pa.int32())("depth", "levels of events above it on its line, 0: none; null: aggregated event"),
    Count("parent_id", "innermost event that encloses it; null: none"),
    Picoseconds("self_time_ps", "duration minus the time that its children cover; null: aggregated event"),
), derived=True)  # fmt: skip

TABLES: Final = CAPTURE_TABLES | PROGRAM_TABLES | {NESTING.name: NESTING}
