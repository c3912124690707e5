"""Writes docs/tables.md, the reference of tables, from fastprof/schema/tables.py. A test compares the two."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fastprof.schema.tables import TABLES, VERSION, TableSchema
from fastprof.tables.event_summary import SUMMARY

PAGE = Path(__file__).parent / "tables.md"

HEAD = f"""# Tables

Schema version {VERSION}. Made from `fastprof/schema/tables.py` by `make docs`.

Integers are signed, 64-bit or narrower. A column's unit ends its name. Text that repeats is dictionary-encoded, with
indices as narrow as the dictionary allows (int8, int16, int32). Every field carries its description as Arrow metadata,
every table `fastprof.schema_version`, `fastprof.version`, `session_start_unix_ns` and its `sources`.

**Time.** `start_ps` is the line's `timestamp_ns` × 1000 plus the event's offset, as its host recorded it: it counts
from that host's own start (`hosts.start_unix_ns`) and may be negative. Lines in Unix time are counted from that start
too, with a row in `import_log`. Aggregated events have no start.

**Ids.** Planes, lines and events are numbered over the session, by host, plane, line and start (equal starts: longer
first, then as in the file; aggregated events last), and keep their numbers in every selection.

**Counts** in `planes` and `lines` are those of the capture, whichever events are selected.

**A stat of an event by name** (`event_table(stats=[…])`) is the event's own, else its metadata's; of several the first.

**Compiled programs** (`hlo_…`) are those of the selected hosts, whatever else is selected: those that a capture has in
its plane `/host:metadata`, and those of [files](sessions.md#compiled-programs) beside it. Each is decoded when a table
is asked for; one that does not decode has its row in `hlo_modules` with the `problem`, and one in `import_log`; of two
of one id the first counts, and `import_log` has a row about the other. Rows are joined to events by host, program id
and name: [how](hlo.md#joined-to-events), with examples.
"""

ASKED = "From `profile.event_summary()` and `fastprof events`; not among `profile.tables`, nor exported. "


def type_text(kind: pa.DataType) -> str:
    """A type as the page shows it."""
    if pa.types.is_dictionary(kind):
        return "text (dictionary)"
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_list(kind):
        return f"list of {type_text(kind.value_type)}"
    if pa.types.is_map(kind):
        return "map of text to text"
    return "bytes" if pa.types.is_large_binary(kind) else str(kind)


def section(table: TableSchema) -> str:
    rows = "\n".join(
        f"| `{column.name}` | {type_text(column.type)} | {'yes' if column.nullable else ''} | {column.description} |"
        for column in table.columns
    )
    return f"## {table.name}\n\nOne row is {table.row}.\n\n| column | type | null | what |\n|---|---|---|---|\n{rows}\n"


def page() -> str:
    read = "\n".join(section(table) for table in TABLES.values() if not table.derived)
    derived = "\n".join(section(table) for table in TABLES.values() if table.derived)
    summary = section(SUMMARY).replace("\n\n", f"\n\n{ASKED}", 1)
    return f"{HEAD}\n# Read from a capture\n\n{read}\n# Derived\n\n{derived}\n{summary}"


if __name__ == "__main__":
    PAGE.write_text(page())
