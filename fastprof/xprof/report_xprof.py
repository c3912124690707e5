"""Reports as XProf answers them: the JSON that its page of the same tool reads."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any

from fastprof.errors import MemoryLimitError, UsageError
from fastprof.xprof.pages.data_table import LazyRows

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport, Keeper

_PAGES = "fastprof.xprof.pages"
_PIECE_ROWS = 1000
_NO_MEMORY = "out of memory while writing the xprof form"
_INSTEAD = ": write it with the command line, which holds only parts of it, or use the tables of the report"
NO_PAGE = {
    "annotations": "XProf shows annotations in its trace viewer only",
    "python_time": "XProf shows frames of Python in its trace viewer only",
    "communication": "XProf shows collectives only as ops, and says nothing of what hides them",
    "diagnosis": "XProf has verdicts on shares of step time, in its overview page, and no list of causes",
    "gaps": "XProf shows idle time only as a sum, and says nothing of its causes",
    "critical_path": "XProf has no path through launches and kernels",
    "streams": "XProf has kernels and their launches in its kernel stats, and no streams, queues or overlap",
    "hardware_units": "XProf shows samples of hardware units only as graphs in its trace viewer",
    "steps": "XProf shows steps only within its overview page and input pipeline analyzer",
}
"""Analyses that XProf has no page of, and why."""


def list_keepers(names: Iterable[str]) -> dict[str, Keeper]:
    """List what the pages of these analyses need of each host beyond the reports."""
    keepers: dict[str, Keeper] = {}
    for name in names:
        if name not in NO_PAGE and importlib.util.find_spec(f"{_PAGES}.{name}"):
            keepers |= getattr(_import_page(name), "KEEPS", {})
    return keepers


def get_text(report: AnalysisReport) -> str:
    """Return the page's JSON, keys sorted. UsageError: XProf has no such page. MemoryLimitError: it does not fit
    memory."""
    try:
        return "".join(write_report(report))
    except MemoryError as error:
        if isinstance(error, MemoryLimitError):
            raise
        raise MemoryLimitError(f"{_NO_MEMORY} of {report.analysis}{_INSTEAD}") from error


def write_report(report: AnalysisReport) -> Iterator[str]:
    """Yield the page's JSON in pieces; of tables with ``LazyRows``, only some rows are in memory."""
    if report.analysis in NO_PAGE:
        raise UsageError(f"{report.analysis} has no form xprof: {NO_PAGE[report.analysis]}")
    return _write_pieces(_import_page(report.analysis).answer(report))


def write_reports(reports: Mapping[str, AnalysisReport]) -> Iterator[str]:
    """Yield, in pieces, an object with the answers of all reports that XProf has pages of, by name."""
    lead = "{"
    for name, report in sorted(reports.items()):
        if name not in NO_PAGE:
            yield f"{lead}{json.dumps(name)}: "
            yield from write_report(report)
            lead = ", "
    yield "{}" if lead == "{" else "}"


def _import_page(analysis: str) -> Any:
    return importlib.import_module(f"{_PAGES}.{analysis}")


def _write_pieces(answer: Any) -> Iterator[str]:
    tables = answer if isinstance(answer, list) else ()
    if not any(isinstance(table, dict) and isinstance(table.get("rows"), LazyRows) for table in tables):
        yield _dump(answer)
        return
    lead = "["
    for table in tables:
        for key, value in sorted(table.items()):
            yield f"{lead}{{{_dump(key)}: " if key == min(table) else f", {_dump(key)}: "
            yield from _write_rows(value) if isinstance(value, LazyRows) else (_dump(value),)
        yield "}"
        lead = ", "
    yield "]"


def _write_rows(rows: LazyRows) -> Iterator[str]:
    lead, coming = "[", iter(rows)
    while some := list(islice(coming, _PIECE_ROWS)):
        yield lead + _dump(some)[1:-1]
        lead = ", "
    yield "[]" if lead == "[" else "]"


def _dump(answer: Any) -> str:
    """Encode a value. Few pages have numbers without a JSON form, and looking for them in a large page takes longer
    than writing it. MemoryLimitError: there is not enough memory, for which json raises a SystemError."""
    try:
        return json.dumps(answer, sort_keys=True, allow_nan=False)
    except ValueError:
        return json.dumps(_drop_infinite(answer), sort_keys=True, allow_nan=False)
    except SystemError as error:
        raise MemoryLimitError(f"{_NO_MEMORY}{_INSTEAD}") from error


def _drop_infinite(value: Any) -> Any:
    """Replace NaN and the infinities by None, recursively."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _drop_infinite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, LazyRows)):
        return [_drop_infinite(item) for item in value]
    return value
