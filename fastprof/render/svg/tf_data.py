"""Input pipelines as a drawing: the iterators from the program down to the sources, what share of call time
each has, how the slowest call went, and what would make batches faster."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.pipelines.pipelines_of_hosts import WORTH_SAYING
from fastprof.render.svg.drawing import COLOURS, LEFT, Row, SvgDrawing, fit_label, format_duration
from fastprof.schema.columns import Int64s, count_bounds, find_last_started, find_runs, sort_rows
from fastprof.wording.quantities import format_time

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import AnalysisReport

WIDTH: Final = 980
MOST_PIPELINES: Final = 6
MOST_ITERATORS: Final = 40
MOST_CHANGES: Final = 4

_RIGHT: Final = WIDTH - LEFT
_BOX_END, _ROW, _BOX, _INDENT, _DEEPEST = 338, 38, 26, 20, 8
_BAR, _BAR_END, _TIME_END, _SHARE_END, _NOTES = 356, 546, 630, 690, 708
_PATH_HEIGHT = 26
_COLUMNS: Final = 900
"""Columns of the critical path, each in the colour of its longest part; shorter parts of a call are not seen."""


def draw(report: AnalysisReport) -> str:
    """Draw the pipelines whose calls take longest as an SVG document."""
    pipelines = report.tables["pipelines"]
    drawing = SvgDrawing(WIDTH)
    drawing.text(LEFT, 36, "Input pipelines of tf.data", "title")
    y = 60.0
    if not pipelines.num_rows:
        why = report.notices[0].text if report.notices else "There are none."
        return drawing.document(drawing.paragraph(y, why) + 12, "Input pipelines of tf.data: none")
    several = len(pipelines["host"].unique()) > 1
    order = np.argsort(-np.asarray(pipelines["total_ps"]), kind="stable")
    for row in pipelines.take(order[:MOST_PIPELINES]).to_pylist():
        y = _draw_pipeline(drawing, report, row, y, several=several)
    if len(order) > MOST_PIPELINES:
        drawing.text(LEFT, y, f"and {len(order) - MOST_PIPELINES:,} more pipelines, less waited for", "quiet")
        y += 24
    return drawing.document(_draw_legend(drawing, y), "Input pipelines of tf.data")


def _draw_pipeline(drawing: SvgDrawing, report: AnalysisReport, row: Row, y: float, *, several: bool) -> float:
    """Draw a pipeline below ``y``. Return where it ends."""
    drawing.rule(y - 10)
    y = _draw_heading(drawing, row, y + 14, several=several)
    iterators = _select_pipeline(report.tables["iterators"], row)
    y, colours, names = _draw_tree(drawing, iterators, row, y)
    y = _draw_critical_path(drawing, _select_pipeline(report.tables["critical_path"], row), colours, names, y)
    return _draw_changes(drawing, _select_pipeline(report.tables["what_if"], row), row["cpu_budget"], y) + 22


def _select_pipeline(table: pa.Table, row: Row) -> pa.Table:
    """Return the rows of a pipeline, in table order."""
    host, pipeline = (table[name].combine_chunks() for name in ("host", "pipeline"))
    wanted = np.ones(table.num_rows, np.bool_)
    for column, value in ((host, row["host"]), (pipeline, row["pipeline"])):
        codes = column.indices.to_numpy()
        texts = column.dictionary.to_pylist()
        wanted &= codes == (texts.index(value) if value in texts else -1)
    return table.take(np.flatnonzero(wanted))


def _draw_heading(drawing: SvgDrawing, row: Row, y: float, *, several: bool) -> float:
    name = f"{row['pipeline']} of {row['host']}" if several else row["pipeline"]
    drawing.text(LEFT, y, fit_label(name, 500, 14), "head")
    calls, slow = row["call_count"], row["slow_call_count"]
    times = f"{format_duration(row['mean_ps'])} on average, {format_duration(row['max_ps'])} at most"
    many = f"{calls:,} calls, {f'{slow:,}' if slow else 'none'} of them slow: {times}"
    single = f"1 call, {'slow' if slow else 'not slow'}: {format_duration(row['max_ps'])}"
    drawing.text(LEFT, y + 20, many if calls > 1 else single, "quiet")
    return y + 48


# ---- the tree -------------------------------------------------------------------------------------------


def _draw_tree(
    drawing: SvgDrawing, iterators: pa.Table, row: Row, y: float
) -> tuple[float, dict[str, str], dict[str, str]]:
    """Draw iterators as boxes with bars beside them. Return where they end, and their colours and names by id."""
    shown, parent = _choose_rows(iterators)
    rows: list[Row] = iterators.take(shown).to_pylist()
    # The iterators that calls wait for most have colours.
    ordered = sorted((row for row in rows if row["critical_ps"] > 0), key=lambda row: -row["critical_ps"])
    colours = {row["iterator_id"]: colour for row, colour in zip(ordered, COLOURS, strict=False)}
    level = _find_levels(parent)
    for x, text in ((LEFT, "iterator"), (_BAR, "share of call time"), (_NOTES, "set up")):
        drawing.text(x, y - 8, text, "small quiet")
    for x, text in ((_TIME_END, "per call"), (_SHARE_END, "share")):
        drawing.text(x, y - 8, text, "small quiet", end=True)
    corners = [(LEFT + _INDENT * level[place], y + _ROW * place) for place in range(len(rows))]
    for place, above in enumerate(parent):  # below all boxes
        if above >= 0:
            _draw_arrow(drawing, corners[place], corners[above], "line buffered" if rows[above]["is_async"] else "line")
    for iterator, (left, top) in zip(rows, corners, strict=True):
        _draw_iterator(drawing, iterator, left, top, colours, row["call_count"])
    y += _ROW * len(rows)
    left_out = iterators.num_rows - len(rows)
    if left_out:
        drawing.text(LEFT, y + 6, f"and {left_out:,} more iterators, less waited for", "small quiet")
        y += 20
    return y, colours, {iterator["iterator_id"]: iterator["name"] for iterator in rows}


def _choose_rows(iterators: pa.Table) -> tuple[Int64s, list[int]]:
    """Return the rows to draw, all or the first one and those that calls wait for most, and for each the place among
    them of the nearest row above it, or -1."""
    depth = np.asarray(iterators["depth"]).astype(np.int64)
    rows: Int64s = np.arange(len(depth))
    if len(rows) > MOST_ITERATORS:
        critical = np.asarray(iterators["critical_ps"])
        rows = np.sort(sort_rows(rows > 0, -critical, rows)[:MOST_ITERATORS])
    if not len(rows):
        return rows, []
    least = np.minimum.reduceat(depth, rows + 1 - (rows + 1 == len(depth)))  # up to the next one that is drawn
    parent, open_rows = [-1], [0]
    for place in range(1, len(rows)):
        while open_rows and depth[rows[open_rows[-1]]] >= least[place - 1]:
            open_rows.pop()
        parent.append(open_rows[-1] if open_rows else -1)
        open_rows.append(place)
    return rows, parent


def _find_levels(parent: list[int]) -> list[int]:
    """Return the indentation of each box: inputs are indented if there are several."""
    inputs = np.bincount([above for above in parent if above >= 0], minlength=len(parent)).tolist()
    level = [0] * len(parent)
    for place, above in enumerate(parent):
        if above >= 0:
            level[place] = min(level[above] + (inputs[above] > 1), _DEEPEST)
    return level


def _draw_arrow(drawing: SvgDrawing, own: tuple[float, float], above: tuple[float, float], kind: str) -> None:
    """Draw an arrow from an iterator to its consumer, given the upper left corners of their boxes."""
    (x, y), (x_above, y_above) = own, above
    middle = x_above + _INDENT / 2
    if x == x_above:
        drawing.line([(middle, y), (middle, y_above + _BOX + 7)], kind)
    else:
        drawing.line([(x, y + _BOX / 2), (middle, y + _BOX / 2), (middle, y_above + _BOX + 7)], kind)
    drawing.tip(middle, y_above + _BOX + 2)


def _draw_iterator(
    drawing: SvgDrawing, iterator: Row, left: float, y: float, colours: dict[str, str], calls: int
) -> None:
    share, wide = iterator["critical_share"] or 0.0, _BOX_END - left
    lines = [fit_label(iterator["long_name"], 1600), f"id {iterator['iterator_id']}"]
    lines.append(f"{iterator['call_count']:,} events in calls, {format_time(iterator['self_ps'])} self time")
    with drawing.hint("\n".join(lines)):
        if iterator["is_async"]:
            drawing.rect(left + 3, y + 3, wide, _BOX, "box", round_by=5)
        drawing.rect(left, y, wide, _BOX, "box", round_by=5)
        if iterator["is_bottleneck"]:
            drawing.rect(left, y, wide, _BOX, "marked", round_by=5)
            drawing.text(left + 9, y + 17, fit_label(iterator["name"], wide - 96), "name strong")
            drawing.text(_BOX_END - 8, y + 17, "bottleneck", "small quiet", end=True)
        else:
            drawing.text(left + 9, y + 17, fit_label(iterator["name"], wide - 18), "name")
        drawing.rect(_BAR, y + 6, _BAR_END - _BAR, _BOX - 12, "track", round_by=3)
        if share > 0:
            colour = colours.get(iterator["iterator_id"], "rest")
            drawing.rect(_BAR, y + 6, max((_BAR_END - _BAR) * min(share, 1.0), 1.5), _BOX - 12, colour, round_by=3)
        drawing.text(_TIME_END, y + 17, format_duration(iterator["critical_ps"] // max(calls, 1)), end=True)
        drawing.text(_SHARE_END, y + 17, f"{100 * share:.1f} %", end=True)
        forms = (("parallelism", "{:,} at a time"), ("buffer_size", "buffer {:,}"), ("batch_size", "batches of {:,}"))
        settings = [form.format(iterator[name]) for name, form in forms if iterator[name] is not None]
        notes = ", ".join([*settings, "autotuned"] if iterator["autotune"] else settings)
        drawing.text(_NOTES, y + 17, fit_label(notes, _RIGHT - _NOTES, 10), "small quiet")


# ---- the slowest call -----------------------------------------------------------------------------------


def _draw_critical_path(
    drawing: SvgDrawing, path: pa.Table, colours: dict[str, str], names: dict[str, str], y: float
) -> float:
    """Draw a bar of the iterators that the slowest call waited for. ``colours``, ``names``: by id; iterators without a
    colour share one."""
    if not path.num_rows:
        return y
    ids = path["iterator_id"].combine_chunks()
    coloured = [id for id in ids.dictionary.to_pylist() if id in colours]
    code_of = {id: code for code, id in enumerate(coloured)}
    codes = np.array([code_of.get(id, len(coloured)) for id in ids.dictionary.to_pylist()])
    shown = [*((names[id], colours[id]) for id in coloured), ("others", "rest")]
    start, duration = (np.asarray(path[name]) for name in ("start_ps", "duration_ps"))
    begin, end = int(start[0]), int(start[-1] + duration[-1])
    drawing.text(LEFT, y + 18, f"The slowest call, {format_time(end - begin)}, and its waits", "strong")
    y += 30
    width = _RIGHT - LEFT
    for first, last, code in _split_path(start - begin, duration, codes[ids.indices.to_numpy()], end - begin):
        name, colour = shown[code]
        x, wide = LEFT + width * first / _COLUMNS, width * (last - first) / _COLUMNS
        with drawing.hint(fit_label(name, 600)):
            drawing.rect(x, y, wide, _PATH_HEIGHT, colour)
            if wide > 40:
                drawing.text(x + wide / 2, y + 17, fit_label(name, wide - 12, 11), "name small inside", middle=True)
    for tick in range(5):
        x = LEFT + width * tick / 4
        text = format_duration((end - begin) * tick // 4)
        drawing.text(x, y + _PATH_HEIGHT + 15, text, "small quiet", middle=0 < tick < 4, end=tick == 4)
    return y + _PATH_HEIGHT + 28


def _split_path(start: Int64s, duration: Int64s, code: Int64s, total: int) -> list[tuple[int, int, int]]:
    """Return spans of the bar as (first, last, code) in columns. A column has the code of its longest part."""
    ends = start + duration
    edges = np.arange(_COLUMNS + 1) * (total / _COLUMNS)
    most = np.zeros(_COLUMNS)
    code_at = np.full(_COLUMNS, -1, np.int64)
    for number in np.unique(code).tolist():
        mine = code == number
        filled = count_bounds(duration[mine])
        last = find_last_started(start[mine], edges)
        at = np.maximum(last, 0)
        inside = np.minimum(edges, ends[mine][at]) - start[mine][at]
        here = np.diff(np.where(last >= 0, filled[at] + inside, 0))
        better = here > most
        most[better], code_at[better] = here[better], number
    bounds = pairwise([*find_runs(code_at).tolist(), _COLUMNS])
    return [(first, last, int(code_at[first])) for first, last in bounds if code_at[first] >= 0]


# ---- what if, legend ------------------------------------------------------------------------------------


def _draw_changes(drawing: SvgDrawing, table: pa.Table, cores: int | None, y: float) -> float:
    """Draw bars of the time per batch: now, and after the best changes. ``cores``: None if there are enough."""
    distinct: dict[tuple[str, int], Row] = {}  # the first of those with equal change and time
    for row in table.slice(0, 100).to_pylist():
        if row["then_ps"] is not None and row["now_ps"] >= WORTH_SAYING * row["then_ps"]:
            distinct.setdefault((row["change"], row["then_ps"]), row)
    changes = list(distinct.values())[:MOST_CHANGES]
    if not changes:
        return y
    on = "with a core for each thread" if cores is None else f"on {cores:,} core{'s' * (cores != 1)}"
    drawing.text(LEFT, y + 18, f"Batch time now, and after a change {on}", "strong")
    y += 32
    now = max(changes[0]["now_ps"], 1)
    bars = [
        ("now", now, now),
        *((f"{row['name']} {row['change']}", row["then_ps"], row["least_then_ps"]) for row in changes),
    ]
    for label, then, least in bars:
        drawing.text(LEFT, y + 12, fit_label(label, _BAR - LEFT - 14), "name")
        drawing.rect(_BAR, y + 2, _BAR_END - _BAR, 12, "track", round_by=3)
        colour = "rest" if label == "now" else COLOURS[3]
        drawing.rect(_BAR, y + 2, max((_BAR_END - _BAR) * then / now, 1.5), 12, colour, round_by=3)
        drawing.text(_TIME_END, y + 12, format_duration(then), end=True)
        if label != "now" and then:
            drawing.text(_SHARE_END, y + 12, f"{now / then:,.2f} ×", end=True)
        if least < then:
            drawing.text(_NOTES, y + 12, f"if CPU-bound; {format_duration(least)} if I/O-bound", "small quiet")
        y += 21
    return y + 6


def _draw_legend(drawing: SvgDrawing, y: float) -> float:
    drawing.rule(y - 10)
    drawing.rect(LEFT + 3, y + 5, 20, 12, "box", round_by=3)
    drawing.rect(LEFT, y + 2, 20, 12, "box", round_by=3)
    drawing.text(LEFT + 30, y + 13, "runs ahead on its own threads", "small quiet")
    drawing.rect(LEFT + 230, y + 2, 20, 12, "marked", round_by=3)
    drawing.text(LEFT + 258, y + 13, "waited for most", "small quiet")
    drawing.rect(LEFT + 370, y + 3, 20, 10, COLOURS[0], round_by=2)
    drawing.text(LEFT + 398, y + 13, "time that calls waited for the iterator itself, of one colour above and below",
                 "small quiet")  # fmt: skip
    return y + 34
