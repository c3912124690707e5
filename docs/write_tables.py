"""Writes docs/tables.md, the reference of tables, from their schemas. A test compares the two."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fastprof.export.dataset import RUNS
from fastprof.export.dataset_files import FIGURES, NOTICES
from fastprof.schema.tables import VERSION, TableSchema
from fastprof.tables.event_summary import SUMMARY
from fastprof.tables.table_set import TABLES

PAGE = Path(__file__).parent / "tables.md"

HEAD = f"""# Tables

Schema version {VERSION}. Generated from the schemas of tables by `make docs`.

Integers are signed, 64-bit or narrower. The name of a column ends in its unit. Repeated text is dictionary-encoded,
with indices as narrow as the dictionary allows (int8, int16, int32). Every field has its description as Arrow metadata;
every table has `fastprof.schema_version`, `fastprof.version`, `session_start_unix_ns` and `sources`, the
files of its hosts.

**Time.** `start_ps` is the line's `timestamp_ns` × 1000 plus the offset of the event, as its host recorded them. It
counts from the start of profiling on that host (`hosts.start_unix_ns`) and may be negative. Lines in Unix time are
converted to the same start, with a row in `import_log`. Aggregated events have no start.

**Ids.** Planes, lines and events are numbered across the session, by host, plane, line and start. For equal starts
longer events come first, then the order of the file decides; aggregated events come last. Ids are the same in every
selection.

**Runs.** If several runs are loaded, every table starts with the column `run` (text, dictionary), and has the rows of
one run after the rows of another; ids are unique over all runs. The table `hosts` always has `run`, at its own
position. With a single run, no other table has this column. [sessions.md](sessions.md#several-runs) defines runs.

**Counts** in `planes` and `lines` cover the entire capture, regardless of the selection.

**A stat of an event by name** (`event_table(stats=[…])`) is the event's own stat, else that of its event metadata. If
there are several, the first one counts.

**Compiled programs** (`hlo_…`) belong to the selected hosts; other selections do not affect them. They come from
the plane `/host:metadata` of a capture, and from [files](sessions.md#compiled-programs) beside it. Programs are decoded
when a table needs them. A program that does not decode has a row in `hlo_modules` with its `problem`, and a row in
`import_log`. If two programs have one id, the first one counts, and `import_log` reports the other. Join rows to events
by host, program id and name: [examples](hlo.md#joined-to-events).

**Graphs of tfprof** (`tfprof_…`) belong to the selected hosts; other selections do not affect them. They are decoded
when a table needs them. `name` joins nodes to their executions and memory: it is unique on a host. Executions are also
events, with the same `start_ps` and `duration_ps`: [traces.md](traces.md#profiles-of-tfprof).
"""

SUMMARY_NOTE = "From `profile.event_summary()` and `fastprof events`; neither in `profile.tables` nor exported. "


DATASETS = """[Datasets](export.md) have these additional tables. In a dataset, each capture table begins with `run` and
`host`, ids begin at 0 on each host, and `hosts` has `start_time` at its end.
"""


def type_text(kind: pa.DataType) -> str:
    """The name of a type on the page."""
    if pa.types.is_dictionary(kind):
        return "text (dictionary)"
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_list(kind):
        return f"list of {type_text(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(f'`{one.name}` {type_text(one.type)}' for one in kind)})"
    if pa.types.is_map(kind):
        return "map of text to text"
    return "bytes" if pa.types.is_large_binary(kind) else str(kind)


def _describe_row(row: str) -> str:
    """Say what a row is: "One row per step." for "a step"."""
    article, _, noun = row.partition(" ")
    return f"One row per {noun}." if article in ("a", "an") else f"One row is {row}."


def section(table: TableSchema) -> str:
    rows = "\n".join(
        f"| `{column.name}` | {type_text(column.type)} | {'yes' if column.nullable else ''} | {column.description} |"
        for column in table.columns
    )
    head = "| column | type | null | meaning |\n|---|---|---|---|"
    return f"## {table.name}\n\n{_describe_row(table.row)}\n\n{head}\n{rows}\n"


def page() -> str:
    read = "\n".join(section(table) for table in TABLES.values() if not table.derived)
    derived = "\n".join(section(table) for table in TABLES.values() if table.derived)
    summary = section(SUMMARY).replace("\n\n", f"\n\n{SUMMARY_NOTE}", 1)
    exported = "\n".join(section(table) for table in (RUNS, FIGURES, NOTICES))
    return (
        f"{HEAD}\n# Read from a capture\n\n{read}\n# Derived\n\n{derived}\n{summary}\n"
        f"# Exported datasets\n\n{DATASETS}\n{exported}"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
