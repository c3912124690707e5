"""Communication as a drawing: what devices and steps spend their time on, and which operations are exposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fastprof.render.svg.drawing import COLOURS, LEFT, Row, SvgDrawing, fit_label
from fastprof.schema.columns import find_runs, sort_rows
from fastprof.wording.quantities import format_time

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import AnalysisReport

WIDTH: Final = 980
MOST_DEVICES: Final = 32
MOST_STEPS: Final = 40
MOST_OPERATIONS: Final = 16
MOST_HOSTS: Final = 10

_TITLE: Final = "Exposed communication"
_ROW, _BAR_HEIGHT = 22, 14
_BAR, _BAR_END, _VALUE_END = 300, 830, WIDTH - 24
_PARTS: Final = (
    ("compute_ps", COLOURS[1], "compute"),
    ("exposed_between_devices_ps", COLOURS[0], "exposed: between devices"),
    ("exposed_with_host_ps", COLOURS[2], "exposed: with the host"),
    ("exposed_within_device_ps", COLOURS[4], "exposed: within the device"),
    ("idle_ps", "track", "idle"),
)
_HIDDEN: Final = COLOURS[3]


def draw(report: AnalysisReport) -> str:
    """Draw a report as an SVG document."""
    drawing = SvgDrawing(WIDTH)
    drawing.text(LEFT, 36, _TITLE, "title")
    y = drawing.paragraph(62, report.notices[0].text, 130) if report.notices else 62
    devices = report.tables["devices"]
    if not devices.num_rows:
        return drawing.document(y + 12, f"{_TITLE}: no devices")
    y = _draw_legend(drawing, y + 6)
    several = len(devices["host"].unique()) > 1
    y = _draw_bars(drawing, "Devices, over the capture", devices, MOST_DEVICES, y, several=several)
    steps = report.tables["steps"]
    step = np.array([-1 if number is None else number for number in steps["step"].to_pylist()], np.int64)
    order = sort_rows(step, -np.asarray(steps["duration_ps"]))
    order = order[step[order] >= 0]
    steps = steps.take(order[find_runs(step[order])])
    if steps.num_rows:
        y = _draw_bars(drawing, "Steps, each on its slowest device", steps, MOST_STEPS, y, several=several)
    y = _draw_operations(drawing, report.tables["operations"], y)
    return drawing.document(_draw_hosts(drawing, report.tables["blame"], y + 8) + 8, _TITLE)


def _draw_legend(drawing: SvgDrawing, y: float) -> float:
    x = float(LEFT)
    for _, colour, name in (*_PARTS, ("", _HIDDEN, "hidden")):
        drawing.rect(x, y, 12, 12, colour)
        drawing.text(x + 17, y + 10, name, "small")
        x += 34 + 6.5 * len(name)
    return y + 44


def _draw_bars(drawing: SvgDrawing, title: str, table: pa.Table, most: int, y: float, *, several: bool) -> float:
    """Draw a bar for each row, as long as its time. Return where they end."""
    drawing.text(LEFT, y, title, "head")
    y += 12
    longest = max(max(table["duration_ps"].to_pylist()), 1)
    for row in table.slice(0, most).to_pylist():
        share = "" if row["exposed_share"] is None else f", {100 * row['exposed_share']:.1f}%"
        with drawing.hint("\n".join(_make_hint(row))):
            device = f"{row['host']} {row['device']}" if several else row["device"]
            label = f"{row['step']} {device}" if row.get("step") is not None else str(device)
            drawing.text(LEFT, y + 11, fit_label(label, _BAR - LEFT - 8), "name")
            _draw_bar(drawing, row, y, (_BAR_END - _BAR) / longest)
            drawing.text(_VALUE_END, y + 11, format_time(row["duration_ps"]) + share, end=True)
        y += _ROW
    return _draw_rest(drawing, table.num_rows - most, y) + 22


def _draw_rest(drawing: SvgDrawing, more: int, y: float) -> float:
    if more <= 0:
        return y
    drawing.text(LEFT, y + 11, f"and {more:,} more", "quiet")
    return y + _ROW


def _make_hint(row: Row) -> Iterable[str]:
    yield f"{row['host']}: {row['device']}"
    for column, _, name in _PARTS:
        yield f"{name}: {format_time(row[column])}"
    yield f"hidden: {format_time(row['hidden_ps'])}"


def _draw_bar(drawing: SvgDrawing, row: Row, y: float, scale: float) -> None:
    """Draw the parts of a bar in turn; hidden time is a line at the foot of the compute."""
    x = float(_BAR)
    for column, colour, _ in _PARTS:
        width = row[column] * scale
        if width > 0:
            drawing.rect(x, y, width, _BAR_HEIGHT, colour)
        x += width
    if row["hidden_ps"] * scale > 0:
        drawing.rect(_BAR, y + _BAR_HEIGHT - 4, row["hidden_ps"] * scale, 4, _HIDDEN)


def _draw_operations(drawing: SvgDrawing, table: pa.Table, y: float) -> float:
    colours = {name.removeprefix("exposed: "): colour for _, colour, name in _PARTS}
    bars = []
    for row in table.slice(0, MOST_OPERATIONS).to_pylist():
        hint = f"{row['name']}\n{row['kind']}, {row['occurrences']:,} times\n{row['text'] or ''}".strip()
        parts = ((row["exposed_ps"], colours[row["scope"]]), (row["hidden_ps"], _HIDDEN))
        bars.append(_PairedBar(row["name"], hint, parts))
    return _draw_paired_bars(drawing, "Operations, most exposed time first", bars, table.num_rows, y)


def _draw_hosts(drawing: SvgDrawing, table: pa.Table, y: float) -> float:
    """Draw the hosts that delay others most: their excess on the critical path, then their waits for others."""
    bars = []
    for row in table.slice(0, MOST_HOSTS).to_pylist():
        excess, waited = format_time(row["excess_ps"]), format_time(row["waited_ps"])
        hint = f"{row['host']}\nexcess on the critical path: {excess}\nwaited for others: {waited}"
        bars.append(_PairedBar(row["host"], hint, ((row["excess_ps"], COLOURS[0]), (row["waited_ps"], "track"))))
    title = "Hosts, longest delay of others first: excess on the critical path, then waiting"
    return _draw_paired_bars(drawing, title, bars, table.num_rows, y)


class _PairedBar(NamedTuple):
    """Bar of two parts, each with its time and colour."""

    name: str
    hint: str
    parts: tuple[tuple[int, str], tuple[int, str]]


def _draw_paired_bars(drawing: SvgDrawing, title: str, bars: Sequence[_PairedBar], count: int, y: float) -> float:
    """Draw bars with the time of their first part. ``count``: number of rows, at least that of bars."""
    if not bars:
        return y
    drawing.text(LEFT, y, title, "head")
    y += 12
    scale = (_BAR_END - _BAR) / max(*(first[0] + second[0] for _, _, (first, second) in bars), 1)
    for name, hint, ((first, colour), (second, second_colour)) in bars:
        with drawing.hint(hint):
            drawing.text(LEFT, y + 11, fit_label(name, _BAR - LEFT - 8), "name")
            drawing.rect(_BAR, y, first * scale, _BAR_HEIGHT, colour)
            drawing.rect(_BAR + first * scale, y, second * scale, _BAR_HEIGHT, second_colour)
            drawing.text(_VALUE_END, y + 11, format_time(first), end=True)
        y += _ROW
    return _draw_rest(drawing, count - len(bars), y) + 14
