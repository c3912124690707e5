"""A session as a notebook shows it: hosts, devices, times, steps, and the names of its tables and analyses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from fastprof.analyses import ANALYSES
from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.errors import FastprofError
from fastprof.wording.quantities import count_noun, format_size, format_time, list_few

if TYPE_CHECKING:
    from fastprof.decode.xspace_capture import Capture
    from fastprof.profile.report import Report
    from fastprof.tables.table_set import TableSet

    Reports = Callable[[str], Mapping[str, Report]]

_READ_BYTES = 32 << 20
"""Sessions up to this size are read for their times and steps; larger ones would keep the notebook waiting."""


def render_notebook(tables: TableSet, captures: list[Capture], selected: str, reports: Reports) -> str:
    """``captures``: those of the selected hosts. ``selected``: the selection as text. ``reports`` computes them."""
    from fastprof.render import report_html

    rows = [
        ("Hosts", f"{len(captures):,}: {list_few((capture.host for capture in captures), 8)}"),
        ("Run", tables.session.run or ""),
        ("Selected", selected),
    ]
    size = sum(capture.size_bytes for capture in captures)
    rows += [("Size", format_size(size)), ("Devices", count_devices(captures)), *_format_read(tables, reports, size)]
    rows += [("Tables", ", ".join(tables)), ("Analyses", ", ".join(f"{name}()" for name in ANALYSES))]
    shown = [list(row) for row in rows if row[1]]
    lines = [report_html.make_heading("Profile", 3), report_html.make_fact_list(shown)]
    return report_html.make_element(lines)


def count_devices(captures: list[Capture]) -> str:
    """The devices by type, from the names of planes: ``4 TPU, 2 CPU``."""
    kinds = (find_device_of_plane(name)[0] for capture in captures for name, _ in capture.plane_keys)
    counts = Counter(kind for kind in kinds if kind not in (None, "CUSTOM", "CHIP"))
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def _format_read(tables: TableSet, reports: Reports, size: int) -> Iterator[tuple[str, str]]:
    """What events have to be read for, or the fault that they have."""
    if size > _READ_BYTES:
        yield "Steps", "steps() reads them"
        return
    try:
        yield from _format_times(tables)
        steps = reports("steps")["steps"].scalars["step_count"].value
        yield "Steps", f"{steps:,}" if isinstance(steps, int) else "none"
    except FastprofError as error:
        yield "Fault", str(error)


def _format_times(tables: TableSet) -> Iterator[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = tables.event_table(["start_ps", "duration_ps"], ())
    lines, planes = tables["lines"].num_rows, tables["planes"].num_rows
    yield (
        "Events",
        f"{table.num_rows:,} on {count_noun(lines, 'line', 'lines')} of {count_noun(planes, 'plane', 'planes')}",
    )
    first = pc.min(table["start_ps"]).as_py()
    try:
        last = pc.max(pc.add_checked(table["start_ps"], table["duration_ps"])).as_py()
    except pa.ArrowInvalid:  # beyond 64 bits, which is damage
        last = None
    if first is not None and last is not None:
        yield "Time", f"{format_time(last - first)}, from {format_time(first)} to {format_time(last)}"
