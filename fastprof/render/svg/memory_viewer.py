"""The memory of a program as a drawing: how much is in use on the way through it, where each buffer lies and how long,
and what is alive at the peak."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.analyses.memory_viewer import ShownProgram
from fastprof.hlo.program_memory import format_space
from fastprof.render.svg.drawing import COLOURS, LEFT, Row, SvgDrawing, fit_label
from fastprof.schema.columns import find_runs
from fastprof.wording.quantities import format_size

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport
    from fastprof.hlo.program_memory import Heap, ProgramMemory

WIDTH: Final = 980
MOST_HEAPS: Final = 3
MOST_BLOCKS: Final = 4000
MOST_BUFFERS: Final = 24

_RIGHT: Final = WIDTH - LEFT
_PLOT, _COLUMNS = 96, 850
"""Left end of plots, and their width in columns."""
_USE_HEIGHT, _MAP_HEIGHT = 150, 320
_NAME_END, _BAR_END, _SIZE_END = 330, 640, 730
_ROW = 21
_FIGURES: Final = (
    ("peak_bytes", "at the peak"),
    ("padding_bytes", "padding of it"),
    ("whole_run_bytes", "alive throughout"),
    ("allocated_bytes", "allocated"),
)


def draw(report: AnalysisReport) -> str:
    """Draw a report as an SVG document."""
    drawing = SvgDrawing(WIDTH)
    shown = None if report.detail is None else report.detail_as(ShownProgram)
    if shown is None:
        drawing.text(LEFT, 36, "Memory of programs", "title")
        why = report.notices[0].text if report.notices else "There are none."
        return drawing.document(drawing.paragraph(64, why) + 12, "Memory of programs: none")
    space = format_space(shown.space.number, shown.program.hardware)
    title = f"Memory of {shown.program.title}: {space}"
    drawing.text(LEFT, 36, fit_label(title, 900, 15), "title")
    y = _draw_figures(drawing, report, 58)
    rows = report.tables["buffers_at_peak"].to_pylist()
    # The largest temporaries at the peak have colours.
    largest = [row["buffer_id"] for row in rows if row["start"] is not None and row["buffer_id"] is not None]
    colours = dict(zip(largest, COLOURS, strict=False))
    traced = [] if shown.memory.unknown else shown.space.traced
    if not traced or (len(traced) == 1 and not len(traced[0][1].events)):
        drawing.text(
            LEFT, y + 8, "The program records no heap in this memory space, so there is nothing to draw.", "quiet"
        )
        y += 30
    for allocation, heap in traced[:MOST_HEAPS]:
        if len(heap.events):
            y = _draw_heap(drawing, shown, allocation, heap, colours, y, alone=len(traced) == 1)
    left_out = len(traced) - MOST_HEAPS
    if left_out > 0:
        drawing.text(LEFT, y, f"and {left_out:,} more heaps", "quiet")
        y += 24
    return drawing.document(_draw_alive(drawing, rows, colours, y), title)


def _draw_figures(drawing: SvgDrawing, report: AnalysisReport, y: float) -> float:
    values = [(report.scalars[name].value, words) for name, words in _FIGURES]
    known = ", ".join(f"{format_size(value)} {words}" for value, words in values if isinstance(value, int))
    at = report.scalars["peak_instruction"].value
    drawing.text(LEFT, y, known or str(report.scalars["peak_bytes"].reason), "quiet")
    if at:
        drawing.text(LEFT, y + 18, fit_label(f"the peak is at {at}", 900), "quiet")
    return y + 42


# ---- one heap -------------------------------------------------------------------------------------------


def _draw_heap(
    drawing: SvgDrawing,
    shown: ShownProgram,
    allocation: int,
    heap: Heap,
    colours: dict[int, str],
    y: float,
    *,
    alone: bool,
) -> float:
    """Draw how much is in use, and below it where the buffers lie. Return where that ends."""
    drawing.rule(y - 8)
    throughout = shown.space.whole_run_bytes if alone else 0
    drawing.text(LEFT, y + 14, "Memory in use over the program", "strong")
    y = _draw_use(drawing, heap, throughout, y + 26)
    size = int(shown.memory.buffers.allocations["size"][allocation])
    text = f"Placement of temporaries in {format_size(size)}, and their lifetimes"
    drawing.text(LEFT, y + 14, text, "strong")
    return _draw_map(drawing, shown, allocation, heap, colours, y + 26)


def _draw_use(drawing: SvgDrawing, heap: Heap, throughout: int, y: float) -> float:
    event_count = len(heap.events)
    column_count = min(max(event_count, 1), _COLUMNS)
    edges = (np.arange(column_count + 1) * event_count) // column_count  # first events, then the last column's end
    most = np.maximum.reduceat(heap.bytes[1:], edges[:-1]) + throughout
    top = max(int(most.max()), throughout, 1)
    bottom = y + _USE_HEIGHT
    drawing.rect(_PLOT, y, _COLUMNS, _USE_HEIGHT, "track")
    wide = _COLUMNS / len(most)
    for first, last in pairwise([*find_runs(most).tolist(), len(most)]):
        value = int(most[first])
        height = _USE_HEIGHT * value / top
        with drawing.hint(f"{format_size(value)} in use, events {edges[first]:,} to {edges[last] - 1:,}"):
            drawing.rect(_PLOT + first * wide, bottom - height, (last - first) * wide, height, COLOURS[1])
    if throughout:
        height = _USE_HEIGHT * throughout / top
        with drawing.hint(f"{format_size(throughout)}: parameters, outputs and constants"):
            drawing.rect(_PLOT, bottom - height, _COLUMNS, height, "rest")
        if height > 16:
            drawing.text(_PLOT + 8, bottom - height / 2 + 4, "parameters, outputs, constants", "small inside")
    return _draw_axes(drawing, heap, top, y, bottom)


def _draw_axes(drawing: SvgDrawing, heap: Heap, top: int, y: float, bottom: float) -> float:
    """Draw the bytes beside a plot, a line at the peak, and event numbers below. Return where these end."""
    drawing.text(_PLOT - 8, y + 10, format_size(top), "small", end=True)
    drawing.text(_PLOT - 8, bottom, "0", "small", end=True)
    count = len(heap.events)
    x = _PLOT + _COLUMNS * (heap.peak_event + 0.5) / max(count, 1)
    drawing.line([(x, y), (x, bottom)], "line buffered")
    for tick in range(5):
        drawing.text(_PLOT + _COLUMNS * tick / 4, bottom + 15, f"{count * tick // 4:,}", "small quiet", middle=tick < 4,
                     end=tick == 4)  # fmt: skip
    return bottom + 30


def _draw_map(
    drawing: SvgDrawing, shown: ShownProgram, allocation: int, heap: Heap, colours: dict[int, str], y: float
) -> float:  # fmt: skip
    """Draw a rectangle for each buffer that owns memory: its lifetime and its place."""
    plan = shown.memory.buffers
    count, height = max(len(heap.events), 1), max(int(plan.allocations["size"][allocation]), 1)
    bottom = y + _MAP_HEIGHT
    drawing.rect(_PLOT, y, _COLUMNS, _MAP_HEIGHT, "track")
    rows = heap.rows[(heap.held >= 0) & (plan.allocation_of[heap.rows] == allocation)]
    held, freed = heap.spans(rows)
    wide = (freed - held) * (_COLUMNS / count)
    tall = plan.buffers["size"][rows] * (_MAP_HEIGHT / height)
    seen = np.flatnonzero((wide >= 0.5) & (tall >= 0.5))
    area = (freed - held)[seen].astype(np.float64) * plan.buffers["size"][rows[seen]]
    drawn = seen[np.argsort(-area, kind="stable")][:MOST_BLOCKS]
    at_peak = set(heap.shown.tolist())
    for row, begin, end in zip(*(column[drawn].tolist() for column in (rows, held, freed)), strict=True):
        size, offset = int(plan.buffers["size"][row]), int(plan.offset_of[row])
        box = (
            _PLOT + _COLUMNS * begin / count,
            bottom - _MAP_HEIGHT * (offset + size) / height,
            _COLUMNS * (end - begin) / count,
            _MAP_HEIGHT * size / height,
        )
        hint = f"{format_size(size)} at {offset:,}, events {begin:,} to {end:,}"
        colour = colours.get(int(plan.buffers["id"][row]), "rest" if row in at_peak else None)
        _draw_block(drawing, shown.memory, row, box, colour, hint)
    y = _draw_axes(drawing, heap, height, y, bottom)
    if len(rows) > len(drawn):
        text = f"{len(rows) - len(drawn):,} of {len(rows):,} buffers are too small or too short to be visible"
        drawing.text(_PLOT, y + 4, text, "small quiet")
        y += 18
    return y + 14


def _draw_block(
    drawing: SvgDrawing, memory: ProgramMemory, row: int, box: tuple[float, float, float, float], colour: str | None,
    hint: str,
) -> None:  # fmt: skip
    """Draw the buffer of a row in ``box``: x, y, width and height."""
    x, y, wide, tall = box
    name = memory.name(row)
    with drawing.hint(fit_label(f"{name}: {memory.shape_text(memory.shape(row))}, {hint}", 4000)):
        for kind in ("box", *filter(None, [colour])):
            drawing.rect(x, y, max(wide, 0.8), max(tall, 0.8), kind)
        if tall > 14 and wide > 40:
            kind = "name small inside" if colour else "name small"
            drawing.text(x + wide / 2, y + tall / 2 + 4, fit_label(name, wide - 8, 11), kind, middle=True)


# ---- what is alive at the peak ----------------------------------------------------------------------------


def _draw_alive(drawing: SvgDrawing, rows: list[Row], colours: dict[int, str], y: float) -> float:
    if not rows:
        return y + 10
    drawing.rule(y - 8)
    drawing.text(LEFT, y + 14, "Alive at the peak, largest first", "strong")
    drawing.text(_BAR_END + 104, y + 14, "without padding in full colour", "small quiet")
    y += 26
    largest = max(rows[0]["bytes"], 1)
    for row in rows[:MOST_BUFFERS]:
        y = _draw_buffer(drawing, row, largest, colours.get(row["buffer_id"], "rest"), y)
    if len(rows) > MOST_BUFFERS:
        rest = sum(row["bytes"] for row in rows[MOST_BUFFERS:])
        text = f"and {len(rows) - MOST_BUFFERS:,} more, {format_size(rest)} together"
        drawing.text(LEFT, y + 12, text, "quiet")
        y += _ROW
    return y + 14


def _draw_buffer(drawing: SvgDrawing, row: Row, largest: int, colour: str, y: float) -> float:
    label = row["op_name"] or row["buffer"] or f"allocation {row['allocation']}"
    hints = [row["buffer"], row["category"], row["shape"], row["op_name"], row["source"]]
    wide = (_BAR_END - _NAME_END) * row["bytes"] / largest
    used = row["bytes"] if row["unpadded_bytes"] is None else row["unpadded_bytes"]
    what = f"{row['category']}  {row['shape'] or ''}"
    with drawing.hint(fit_label(", ".join(hint for hint in hints if hint), 6000)):
        drawing.text(LEFT, y + 12, fit_label(label, _NAME_END - LEFT), "name")
        drawing.rect(_NAME_END + 8, y + 2, max(wide, 1), 12, "box", round_by=2)
        drawing.rect(_NAME_END + 8, y + 2, max(wide * used / max(row["bytes"], 1), 0.5), 12, colour, round_by=2)
        drawing.text(_SIZE_END, y + 12, format_size(row["bytes"]), end=True)
        drawing.text(_SIZE_END + 14, y + 12, fit_label(what, _RIGHT - _SIZE_END - 14, 11), "name small quiet")
    return y + _ROW
