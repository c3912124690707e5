"""The roofline as a drawing: flops per second over flops per byte of HBM, both by decades. A dot is an op, its area the
self time. The lines above are the limits of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.render.svg.drawing import COLOURS, Row, SvgDrawing, fit_label
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_measure, format_time

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport

WIDTH: Final = 980
MOST_DOTS: Final = 400
MOST_NAMED: Final = 12
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 636, 84, 484
_LIST, _END = 664, WIDTH - 24
_LARGEST = 15.0
"""Radius of the dot of the op with the most self time."""
_MOST_DECADES = 14


@dataclass(frozen=True, slots=True)
class _Axis:
    """Axis with the decades ``first`` to ``last`` from ``begin`` to ``end``."""

    first: int
    last: int
    begin: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0)


def draw(report: AnalysisReport) -> str:
    """Draw the ops beneath the roofline as an SVG document."""
    drawing = SvgDrawing(WIDTH)
    drawing.text(24, 36, "Roofline", "title")
    device = report.scalars["device_type"].value or "device not named"
    drawing.text(24, 58, fit_label(str(device), 600), "quiet")
    ops = report.tables["ops"]
    chosen = [np.nan_to_num(ops[name].to_numpy(), posinf=0.0) > 0 for name in ("flops_per_s", "flops_per_hbm_byte")]
    dots: list[Row] = ops.select(_SHOWN).take(np.flatnonzero(chosen[0] & chosen[1])[:MOST_DOTS]).to_pylist()
    peaks = {row["resource"]: row["peak"] for row in report.tables["device"].to_pylist() if row["peak"]}
    if not dots:
        if not report.tables["ops"].num_rows:
            why = report.notices[0].text if report.notices else "There are no ops."
        else:
            why = "No op of this capture has both its flops and its bytes recorded: no op can be drawn."
        return drawing.document(drawing.paragraph(92, why) + 12, "Roofline: no op to draw")
    # Whole decades hold the dots, peak arithmetic, and its ridge with HBM.
    intensity = [row["flops_per_hbm_byte"] for row in dots]
    rate = [row["flops_per_s"] for row in dots]
    if "Compute" in peaks:
        rate.append(peaks["Compute"] * 1.5)
        if "HBM" in peaks:
            intensity += [peaks["Compute"] / peaks["HBM"] * 8]
    across, up = _make_axis(intensity, _LEFT, _RIGHT), _make_axis(rate, _BOTTOM, _TOP)
    _draw_grid(drawing, across, up)
    _draw_roof(drawing, peaks, across, up)
    # The categories with the most time have colours.
    time: dict[str, int] = {}
    for row in dots:
        time[row["category"]] = time.get(row["category"], 0) + row["self_ps"]
    ordered = sorted(time, key=lambda name: -time[name])
    colours = dict(zip(ordered, COLOURS, strict=False))
    _draw_dots(drawing, dots, colours, across, up)
    _list_ops(drawing, dots, colours)
    return drawing.document(_draw_foot(drawing, report, dots), "Roofline")


_SHOWN: Final = (
    "name", "category", "self_ps", "flops_per_s", "flops_per_hbm_byte", "roofline_percent", "bound_by",
)  # fmt: skip


def _make_axis(values: list[float], begin: float, end: float) -> _Axis:
    last = math.ceil(math.log10(max(values)))
    first = max(math.floor(math.log10(min(values))), last - _MOST_DECADES)
    return _Axis(min(first, last - 2), last, begin, end)


def _draw_grid(drawing: SvgDrawing, across: _Axis, up: _Axis) -> None:
    for decade in range(across.first, across.last + 1):
        x = across.at(10.0**decade)
        drawing.line([(x, _TOP), (x, _BOTTOM)], "rule")
        drawing.text(x, _BOTTOM + 16, _format_decade(decade), "small quiet", middle=True)
    for decade in range(up.first, up.last + 1):
        y = up.at(10.0**decade)
        drawing.line([(_LEFT, y), (_RIGHT, y)], "rule")
        drawing.text(_LEFT - 8, y + 4, _format_decade(decade, "FLOP/s"), "small quiet", end=True)
    drawing.text((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "flops per byte of HBM", "small quiet", middle=True)


def _format_decade(power: int, unit: str = "") -> str:
    if unit and 0 <= power < 21:
        return f"{10 ** (power % 3)} {' kMGTPE'[power // 3].strip()}{unit}"
    return f"{10**power:,}" if 0 <= power < 6 else f"{10.0**power:.{-power}f}" if -4 <= power < 0 else f"1e{power}"


def _draw_roof(drawing: SvgDrawing, peaks: dict[str, float], across: _Axis, up: _Axis) -> None:
    """Draw the known peaks, also of on-chip memories, which an op could reach if all its bytes went there."""
    flat = peaks.get("Compute")
    least, most = 10.0**across.first, 10.0**across.last
    for place, (name, peak) in enumerate(pair for pair in peaks.items() if pair[0] != "Compute"):
        kind = "marked" if name == "HBM" else "line buffered"
        begin = max(least, 10.0**up.first / peak)
        end = min(most, (flat or 10.0**up.last) / peak)
        if begin >= end:
            continue
        drawing.line([(across.at(begin), up.at(begin * peak)), (across.at(end), up.at(end * peak))], kind)
        at = begin * (end / begin) ** (0.3 + 0.25 * (place % 3))
        drawing.text(across.at(at) - 6, up.at(at * peak) - 4, name, "small quiet", end=True)
    if flat:
        ridge = flat / max(peaks[name] for name in peaks if name != "Compute") if len(peaks) > 1 else least
        drawing.line([(across.at(max(ridge, least)), up.at(flat)), (_RIGHT, up.at(flat))], "marked")
        drawing.text(_RIGHT - 4, up.at(flat) - 7, "Compute", "small quiet", end=True)


def _draw_dots(drawing: SvgDrawing, dots: list[Row], colours: dict[str, str], across: _Axis, up: _Axis) -> None:
    most = max(dots[0]["self_ps"], 1)
    named: list[tuple[float, float, float]] = []
    for number, row in enumerate(dots, 1):
        radius = max(_LARGEST * math.sqrt(row["self_ps"] / most), 2.0)
        x, y = across.at(row["flops_per_hbm_byte"]), up.at(row["flops_per_s"])
        colour = colours.get(row["category"], "rest")
        with drawing.hint(_make_hint(row)):
            drawing.rect(x - radius, y - radius, 2 * radius, 2 * radius, colour, round_by=radius)
        if number <= MOST_NAMED:
            named.append((x, y, radius))
    _number_dots(drawing, named)


def _number_dots(drawing: SvgDrawing, dots: Sequence[tuple[float, float, float]]) -> None:
    """Number the first dots, inside if there is room, else beside; a line leads to numbers far away."""
    taken: list[tuple[float, float]] = []
    for number, (x, y, radius) in enumerate(dots, 1):
        places = [(x, y)] if radius >= 8 and not any(math.hypot(x - a, y - b) < r for a, b, r in dots[number:]) else []
        for away in (radius + 9, radius + 24, radius + 40, radius + 58):
            places += [(x + away * math.cos(turn), y - away * math.sin(turn)) for turn in _TURNS]
        free = [place for place in places if _is_free(place, taken, dots)]
        at = free[0] if free else (x, y)
        taken.append(at)
        if math.hypot(at[0] - x, at[1] - y) > radius + 10:
            drawing.line([(x, y), at], "rule")
        drawing.text(at[0], at[1] + 4, str(number), "small inside" if at == (x, y) else "small", middle=True)


_TURNS: Final = tuple(math.radians(angle) for angle in (20, -20, 160, -160, 60, -60, 120, -120))


def _is_free(
    place: tuple[float, float], taken: Sequence[tuple[float, float]], dots: Sequence[tuple[float, float, float]]
) -> bool:
    """Return whether a number has room: within the axes, on no other number, and on no other numbered dot."""
    x, y = place
    inside = _LEFT < x < _RIGHT - 8 and _TOP - 4 < y < _BOTTOM - 6
    on_number = any(abs(x - a) < 15 and abs(y - b) < 12 for a, b in taken)
    on_dot = any(0 < math.hypot(x - a, y - b) < radius + 6 for a, b, radius in dots)
    return inside and not on_number and not on_dot


def _make_hint(row: Row) -> str:
    bound = f", bound by {row['bound_by']}" if row["bound_by"] else ""
    known = row["roofline_percent"] is not None
    used = f"{row['roofline_percent']:.1f} % of the roofline{bound}" if known else "distance from the roofline unknown"
    return (
        f"{fit_label(row['name'], 600)}\n{fit_label(row['category'], 300)}\n{format_time(row['self_ps'])} self time\n"
        f"{format_measure(row['flops_per_s'], 'flop/s')} at {row['flops_per_hbm_byte']:,.3g} flops per byte "
        f"of HBM\n{used}"
    )


def _list_ops(drawing: SvgDrawing, dots: list[Row], colours: dict[str, str]) -> None:
    """List the ops of the largest dots, and the colours."""
    drawing.text(_LIST, _TOP + 4, "most self time", "small quiet")
    drawing.text(_END, _TOP + 4, "of roofline", "small quiet", end=True)
    y = _TOP + 24.0
    for number, row in enumerate(dots[:MOST_NAMED], 1):
        share = "" if row["roofline_percent"] is None else f"{row['roofline_percent']:.1f} %"
        with drawing.hint(_make_hint(row)):
            drawing.rect(_LIST, y - 10, 20, 13, colours.get(row["category"], "rest"), round_by=3)
            drawing.text(_LIST + 10, y, str(number), "small inside", middle=True)
            drawing.text(_LIST + 27, y, fit_label(row["name"], _END - _LIST - 85), "name")
            drawing.text(_END, y, share, end=True)
        y += 21
    y += 12
    for name, colour in colours.items():
        drawing.rect(_LIST, y - 9, 20, 10, colour, round_by=5)
        drawing.text(_LIST + 27, y, fit_label(name, _END - _LIST - 30, 11), "small")
        y += 17


def _draw_foot(drawing: SvgDrawing, report: AnalysisReport, dots: list[Row]) -> float:
    """Write what is not drawn. Return where the drawing ends."""
    ops = report.tables["ops"]
    left_out = ops.num_rows - len(dots)
    y = _BOTTOM + 60.0
    if left_out:
        total = sum(ops["self_ps"].to_pylist()) or 1
        share = 100 * (1 - sum(row["self_ps"] for row in dots) / total)
        why = f"their flops or bytes of HBM are unknown or 0, or they are not among the first {MOST_DOTS}"
        drawing.text(
            24,
            y,
            f"Not drawn: {count_noun(left_out, 'op', 'ops')} with {share:.1f} % of the self time; {why}",
            "small quiet",
        )
        y += 18
    return y + 8
