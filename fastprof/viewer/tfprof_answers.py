"""Answers about tfprof's views: which there are, rows of them, what is known of a row, stacks, advice, and files.

Everything is in the request, by the names that profiler-ui's address has, so users do not disturb each other. An
answer has as many rows as it is asked for, at most some hundreds, of views of any size.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import Response

from fastprof.derive.tfprof.forest import Flags, Ints, NodeForest, get_text_buffers
from fastprof.derive.tfprof.options import (
    ORDERS,
    PRESETS,
    SELECTABLE,
    VIEWS,
    ViewOptions,
    check_choices,
    get_help,
    read_options,
)
from fastprof.derive.tfprof.recorded import BEYOND, FIGURES, RecordedGraph
from fastprof.derive.tfprof.view_tables import EXACT_TIMES, get_view_schema, make_member_table, make_view_table
from fastprof.derive.tfprof.views import VisibleTree, rank_names
from fastprof.errors import UsageError
from fastprof.render import as_json
from fastprof.schema.columns import sort_rows
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.answers import make_answer, make_body
from fastprof.viewer.query import RequestError, format_numbers
from fastprof.viewer.server_state import ApiCall
from fastprof.viewer.store import NAME_LETTERS, cut_name
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.tfprof.tfprof_views import TfprofView


BASE: Final = ViewOptions(max_depth=10_000, order_by="micros", account_displayed_op_only=True)
"""Options of the page, as profiler-ui has them."""
STACKS: Final = "pprof"
"""Fifth view of profiler-ui: the stacks of the view code."""
_OWN: Final = (
    *("run", "version", "host", "view", "preset", "sort", "filter", "find", "hit", "open", "flip", "row", "first"),
    "rows",
)
"""Arguments that are not options."""
_FIELDS: Final = {field.name: field for field in dataclasses.fields(ViewOptions) if field.name != "output"}
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")


def get_base_view(call: ApiCall) -> TfprofView:
    """Return the view of the request, whatever it selects, from the cache if it is there. UsageError, RequestError 400:
    the view is unknown, or an option is not valid."""
    options = dataclasses.replace(parse_options(call), select=BASE.select)
    key = (call.run.identity, call.given("host"), get_view_name(call), options)
    return call.state.views.of(key, lambda: _make_view(call, options))


def get_view(call: ApiCall) -> TfprofView:
    """Return the view of the request with what it selects."""
    return _make_view(call, parse_options(call))


def _make_view(call: ApiCall, options: ViewOptions) -> TfprofView:
    return call.run.profile.tfprof(get_view_name(call), host=call.given("host"), options=dataclasses.asdict(options))


def get_view_name(call: ApiCall) -> str:
    """Return the name that tfprof has for the view of the request."""
    view = call.text("view", VIEWS[1])
    return "code" if view == STACKS else view


def parse_options(call: ApiCall) -> ViewOptions:
    """Return the options of the request: those of its preset or of the page, then those that it names."""
    preset = call.given("preset")
    if preset is not None and preset not in PRESETS:
        raise RequestError(400, f"unknown preset {preset!r}{suggest_name(preset, PRESETS)} ({', '.join(PRESETS)})")
    base = BASE if preset is None else read_options(PRESETS[preset])
    given = {name: _parse_value(name, text) for name, text in call.items() if name not in _OWN}
    options = check_choices(base.replaced(**given))
    if not options.select:
        raise RequestError(400, "select names nothing to show: choose at least one attribute")
    return options


def _parse_value(name: str, text: str) -> Any:
    """Parse the value of an option; that of an unknown option is the text."""
    kind = str(_FIELDS[name].type) if name in _FIELDS else "str"
    if kind == "int":
        if re.fullmatch(r"[+-]?\d{1,20}", text.strip(), re.ASCII) is None:
            raise RequestError(400, f"{name} is an integer, not {text[:60]!r}")
        return int(text)
    if kind == "bool":
        if text.lower() not in (*_YES, *_NO):
            raise RequestError(400, f"{name} is true or false, not {text[:60]!r}")
        return text.lower() in _YES
    return text if kind == "str" else _parse_list(text)


def _parse_list(text: str) -> list[str]:
    if text.startswith("["):
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None  # an expression such as [ab]
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    return [name.strip() for name in text.split(",") if name.strip()]


def format_value(value: Any) -> str:
    """Format a value as addresses have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, tuple):
        return str(value)
    joined = ",".join(value)
    return joined if value and list(value) == _parse_list(joined) else json.dumps(list(value))


def describe_options() -> list[dict[str, Any]]:
    """Describe the options as the page needs them."""
    choices = {"order_by": ORDERS, "select": tuple(name for name in SELECTABLE if name != "tensor_value")}
    return [
        {
            "name": name,
            "kind": {"int": "number", "bool": "truth", "str": "text"}.get(str(field.type), "list"),
            "choices": list(choices.get(name, ())),
            "help": get_help(name),
        }
        for name, field in _FIELDS.items()
    ]


def list_bases() -> dict[str, dict[str, str]]:
    """Return the values of all options, as strings: of the page, whose name is empty, and of each preset."""
    presets: Iterable[tuple[str, ViewOptions]] = ((name, read_options(preset)) for name, preset in PRESETS.items())
    return {
        name: {option: format_value(getattr(options, option)) for option in _FIELDS}
        for name, options in (("", BASE), *presets)
    }


# ---- rows as a tree

_SUM: Final = "total_"
_BEYOND: Final = (*FIGURES[:3], *BEYOND)
"""Rows of ``VisibleTree.beyond``."""
_OPENED_ROWS: Final = 40
_OPENED_DEPTH: Final = 8
_FEW_ROWS: Final = 8
_AMOUNTS: Final = (*FIGURES, BEYOND[0])
SORT_COLUMNS: Final = ("name", *_AMOUNTS, *(_SUM + name for name in _AMOUNTS))
_LISTED: Final = 20
_LETTER_BYTES: Final = 4
_SLASH: Final = ord("/")


def get_amounts(shown: VisibleTree, figure: str, *, sums: bool) -> Ints:
    """Return a figure of each row, or its sums; times of captures in picoseconds."""
    if shown.beyond is not None and figure in _BEYOND:
        exact: Ints = (shown.beyond.totals if sums else shown.beyond.own)[_BEYOND.index(figure), shown.row]
        return exact
    if figure not in FIGURES:
        raise UsageError(f"profiles of tfprof do not record {figure}")
    values: Ints = (shown.totals if sums else shown.figures)[FIGURES.index(figure)]
    return values


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Order and filter of rows. ``by``: a column, with a minus before it if the largest come first, or empty for the
    order of the view. ``holds``: only rows whose names hold this text, and the rows above them."""

    by: str = ""
    holds: str = ""


class RowTree:
    """The rows of a view in an order, as a tree whose rows open and close. ``place``: of each its place among the rows
    of ``shown``; ``ids``: an id that does not depend on options.

    Rows are open down to a depth, and those of ``flipped`` the other way round, so a short text says what is open::

        depth 0  a              open=1: b is closed          shown: a, b, e
              1    b            open=1&flip=b: it is open    shown: a, b, c, d, e
              2      c
              2      d
              1    e
    """

    def __init__(self, shown: VisibleTree, view: str, order: RowOrder) -> None:
        self.shown = shown
        depth = np.minimum(shown.forest.depth, 1) if view == "op" else shown.forest.depth
        self.place = np.arange(len(depth))
        self.forest = NodeForest(depth)
        self.matches: int | None = None
        if order.holds:
            held = self._holding(order.holds)
            held[0] = False
            self.matches = int(np.count_nonzero(held))
            in_view = self.forest.below(held.astype(np.int64)) > 0
            in_view[0] = True
            self.place, self.forest = np.flatnonzero(in_view), self.forest.only(in_view)
        if order.by:
            name, largest_first = order.by.removeprefix("-"), order.by.startswith("-")
            if name not in SORT_COLUMNS:
                raise UsageError(f"rows are not sorted by {name!r}{suggest_name(name, SORT_COLUMNS)}")
            if name == "name":
                key = rank_names(shown.names)
            else:
                key = get_amounts(shown, name.removeprefix(_SUM), sums=name.startswith(_SUM))
            key = key[self.place]
            rows = self.forest.sorted(~key if largest_first else key)
            self.place, self.forest = self.place[rows], NodeForest(self.forest.depth[rows])
        self.is_filtered = bool(order.holds)
        self.ids = shown.row[self.place]

    def _holding(self, text: str) -> Flags:
        holds = pc.match_substring(self.shown.names, text, ignore_case=True)
        return np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_).copy()

    @cached_property
    def usual_depth(self) -> int:
        """Depth down to which rows are open at first: a screenful, more where that would be a few rows only, or all
        that a filter leaves."""
        if self.is_filtered:
            return len(self.place)
        reached = np.cumsum(np.bincount(self.forest.depth, minlength=_OPENED_DEPTH + 1))[1 : _OPENED_DEPTH + 1]
        depth = max(1, int(np.searchsorted(reached, _OPENED_ROWS, "right")))
        return depth if reached[depth - 1] >= _FEW_ROWS else depth + 1

    def is_open(self, depth: int, flipped: Ints | None) -> Flags:
        """Return whether each row is open, if it has rows below it. The root always is."""
        is_open: Flags = self.forest.depth < depth
        if flipped is not None and len(flipped):
            is_open ^= np.isin(self.ids, flipped)
        is_open[0] = True
        return is_open

    def lines(self, is_open: Flags) -> Ints:
        """Return the rows of the tree that show: all above them are open."""
        return np.flatnonzero(~self.forest.under(~is_open)).astype(np.int32)

    def is_leaf(self, rows: Ints) -> Flags:
        leaf: Flags = self.forest.end[rows] == rows + 1
        return leaf

    def row_of(self, id_: int) -> int:
        """Return the row of an id. RequestError 404: there is none."""
        rows = np.flatnonzero(self.ids == id_)
        if not len(rows):
            raise RequestError(404, f"the view has no row {id_} under these options")
        return int(rows[0])

    def above(self, row: int) -> Ints:
        """Return the rows above one, the root first."""
        return np.flatnonzero(self.forest.end[:row] > row)

    def holding(self, text: str) -> Ints:
        """Return the rows whose names hold a text, but the root."""
        rows = np.flatnonzero(self._holding(text)[self.place])
        return rows[rows > 0]


def cut_text(texts: pa.Array, place: int, begin: int = 0) -> str:
    """Return the text at a place from its byte ``begin`` on, at most 300 letters of it."""
    offsets, data = get_text_buffers(texts.slice(place, 1))
    text = data[begin : min(int(offsets[1]), begin + NAME_LETTERS * _LETTER_BYTES)].tobytes().decode(errors="ignore")
    rest = offsets[1] - begin > NAME_LETTERS * _LETTER_BYTES or len(text) > NAME_LETTERS
    return f"{text[: NAME_LETTERS - 1]}…" if rest else text


def make_label(view: str, tree: RowTree, row: int) -> str:
    """Return the name of a row of the tree; in the view scope without the name of the row above, which it continues."""
    names, place = tree.shown.names, int(tree.place[row])
    if view == "scope" and tree.forest.depth[row] > 1:
        above = int(tree.place[tree.forest.parent[row]])
        (_, end), before = get_text_buffers(names.slice(above, 1))
        (_, own_end), own = get_text_buffers(names.slice(place, 1))
        if own_end > end and own[end] == _SLASH and bytes(own[:end]) == bytes(before):
            return cut_text(names, place, int(end) + 1)
    return cut_text(names, place)


def describe_columns(table: pa.Table) -> list[dict[str, Any]]:
    """Describe the columns of a small table, as the page takes them; lists are strings."""
    columns = []
    for name, field in zip(table.column_names, table.schema, strict=True):
        values = table[name].to_pylist()
        described = as_json.describe_column(name, field)
        if pa.types.is_list(field.type):
            described["type"], values = "string", [_join_values(value) for value in values]
        elif pa.types.is_string(field.type):
            values = [value and cut_name(value) for value in values]
        columns.append({**described, "values": values})
    return columns


def _join_values(values: list[Any] | None) -> str | None:
    if values is None:
        return None
    more = [f"{len(values) - _LISTED:,} more"] if len(values) > _LISTED else []
    if values and isinstance(values[0], int):
        return cut_name("×".join(map(str, values[:_LISTED])))
    return cut_name(", ".join([*map(_format_value, values[:_LISTED]), *more]))


def _format_value(value: Any) -> str:
    """Format a text; or an input by number, with its shape."""
    if isinstance(value, str):
        return cut_name(value)
    return f"{value['slot']}: {'×'.join(map(str, value['shape'][:_LISTED])) or 'unknown'}"


# ---- stacks

_BOXES: Final = 4_000
_DEEPEST: Final = 100
_LINES: Final = 100
"""Number of lines, as many as the picture of profiler-ui has."""


def make_stacks_document(view: TfprofView, select: Sequence[str]) -> dict[str, Any]:
    """Return the stacks of one figure, the first one selected. ``boxes``: the rows that have most of it; ``left_out``:
    the number of others. ``lines``: sums of rows of one name, wherever they are called."""
    figure = next((name for name in select if name in FIGURES), None)
    if figure is None:
        raise UsageError("stacks show one figure: select micros, bytes, params or another number")
    if figure in view.recorded.unknown:
        raise UsageError(f"{figure}: {view.recorded.unknown[figure]}")
    shown = view.shown
    own, total = (get_amounts(shown, figure, sums=sums) for sums in (False, True))
    in_view = np.zeros(len(total), np.bool_)
    in_view[np.argsort(-total, kind="stable")[:_BOXES]] = True
    in_view &= (total > 0) & (shown.forest.depth <= _DEEPEST)
    in_view[0] = True
    forest, rows = shown.forest.only(in_view), np.flatnonzero(in_view)
    unit = "bytes" if figure.endswith("bytes") else None
    if figure.endswith("micros"):
        unit = "ps" if view.recorded.is_capture else "us"
    return {
        "figure": figure,
        "unit": unit,
        "total": str(total[0]),
        "left_out": int(np.count_nonzero(total > 0) - np.count_nonzero(total[rows] > 0)),
        "boxes": _make_columns(
            ("parent", forest.parent), ("depth", forest.depth), ("name", _take_names(shown.names, rows)),
            ("value", total[rows]), ("own", own[rows]),
        ),
        "lines": _list_lines(shown.names, shown.forest.end, own, total),
    }  # fmt: skip


def _list_lines(names: pa.Array, end: Ints, own: Ints, total: Ints) -> dict[str, Any]:
    """Sum rows of one name. A line that is called by itself counts once in the sum of what it calls."""
    encoded = names.slice(1).dictionary_encode()
    name = np.asarray(encoded.indices).astype(np.int64)
    order = np.argsort(name, kind="stable")
    rows, size = order + 1, len(names) + 1
    reached = np.maximum.accumulate(end[rows] + name[order] * size) - name[order] * size  # the end of an outer one
    outer = np.r_[True, (name[order][1:] != name[order][:-1]) | (rows[1:] >= reached[:-1])] if len(rows) else rows > 0
    own_sums, sums = (np.zeros(len(encoded.dictionary), np.int64) for _ in range(2))
    np.add.at(own_sums, name, own[1:])
    np.add.at(sums, name[order][outer], total[rows][outer])
    most = sort_rows(-own_sums, -sums)[:_LINES]
    most = most[(own_sums[most] > 0) | (sums[most] > 0)]
    listed = _take_names(encoded.dictionary, most)
    return _make_columns(("name", listed), ("own", own_sums[most]), ("total", sums[most]))


def _take_names(names: pa.Array, rows: Ints) -> list[str]:
    return [cut_text(names, row) for row in rows.tolist()]


def _make_columns(*columns: tuple[str, Any]) -> dict[str, Any]:
    return {name: values if isinstance(values, list) else values.tolist() for name, values in columns}


_USUAL_ROWS: Final = 200
_MOST_ROWS: Final = 1_000
_MOST_STEPS: Final = 10_000
_MOST_NODES: Final = 20
_MOST_LETTERS: Final = 20_000
"""Letters of a report of the advisor, and of a name in the details of a row."""
_PARTS: Final = {
    "micros": ("accelerator_micros", "cpu_micros"),
    "occurrence": ("run_count", "total_run_count", "definition_count", "total_definition_count"),
    "device": ("devices",),
    "op_types": ("types",),
    "input_shapes": ("input_shapes",),
}
"""Columns that an attribute brings, besides those of its name."""
_OF_CAPTURES: Final = {
    "float_ops": ("accessed_bytes", "total_accessed_bytes", "bound_by"),
    "op_types": ("source",),
}
"""Columns that an attribute brings of captures, too."""


def answer_about(call: ApiCall) -> Any:
    """Answer with what there is to choose from."""
    host, recorded = _find_recorded(call)
    return {
        "host": host,
        "capture": recorded.is_capture,
        "steps": [str(step) for step in recorded.steps[:_MOST_STEPS]],
        "unknown": dict(recorded.unknown),
        "absent": [] if recorded.without_graph is None else ["graph"],
        "options": describe_options(),
        "bases": list_bases(),
    }


def _find_recorded(call: ApiCall) -> tuple[str | None, RecordedGraph]:
    """Return the host of the request, else None for all hosts, else the first one with a profile, and what it recorded.
    UsageError: there are no views."""
    profile, host = call.run.profile, call.given("host")
    try:
        return host, profile.tfprof("op", host=host).recorded
    except UsageError as error:
        hosts = profile.tfprof_hosts
        if host is None and not hosts:
            call.run.empty_reports["tfprof"] = str(error)
        if host is not None or len(hosts) < 2:
            raise
        return hosts[0], profile.tfprof("op", host=hosts[0]).recorded


# ---- rows


def answer_rows(call: ApiCall) -> Any:
    """Answer with some of the rows that show. ``at``: the place of the row of the request among them, if it shows."""
    view, tree = get_base_view(call), _make_tree(call)
    depth = call.whole("open", tree.usual_depth, least=1)
    is_open = tree.is_open(depth, call.numbers("flip"))
    lines = tree.lines(is_open)
    first = call.whole("first", 0, least=0)
    wanted = lines[first : first + call.whole("rows", _USUAL_ROWS, least=0, most=_MOST_ROWS)].astype(np.int64)
    at = np.flatnonzero(tree.ids[lines] == call.whole("row")) if call.given("row") else lines[:0]
    root = {name: str(view.shown.totals[place, 0]) for place, name in enumerate(FIGURES)}
    if view.recorded.is_capture:  # times as rows have them
        root |= {name: str(get_amounts(view.shown, name, sums=True)[0]) for name in (*FIGURES[:3], BEYOND[0])}
    rows, columns = tree.shown.at(tree.place[wanted]), _choose_columns(view, parse_options(call).select)
    table = _rename_exact(make_view_table(rows, view.recorded, columns))
    state = np.where(tree.is_leaf(wanted), "", np.where(is_open[wanted], "open", "closed"))
    own: list[tuple[str, str, list[Any]]] = [
        ("id", "int64", tree.ids[wanted].tolist()),
        ("depth", "int64", tree.forest.depth[wanted].tolist()),
        ("state", "string", state.tolist()),
        ("label", "string", [make_label(view.view, tree, row) for row in wanted.tolist()]),
        ("name", "string", [cut_text(rows.names, place) for place in range(len(wanted))]),
    ]
    described = [
        {"name": name, "type": kind, "unit": None, "description": None, "values": values} for name, kind, values in own
    ]
    described += describe_columns(table)
    return {
        "open": depth,
        "lines": len(lines),
        "rows": len(tree.shown.row),
        "matches": tree.matches,
        "first": first,
        "at": int(at[0]) if len(at) else None,
        "root": root,
        "table": {"table": "tfprof_view", "length": len(wanted), "columns": described},
    }


def _make_tree(call: ApiCall) -> RowTree:
    order = RowOrder(call.given("sort") or "", call.given("filter") or "")
    view, name = get_base_view(call), get_view_name(call)
    key = (call.run.identity, call.given("host"), name, view.options, order)
    tree: RowTree = call.state.trees.of(key, lambda: RowTree(view.shown, name, order))
    return tree


def _rename_exact(table: pa.Table) -> pa.Table:
    """Return a table whose times have the names of tfprof, also if they are exact ones, in picoseconds."""
    names = dict(zip(EXACT_TIMES, FIGURES, strict=False))
    names |= {f"total_{exact}": f"total_{name}" for exact, name in names.items()}
    shown = [
        name for name in table.column_names if name not in names.values() or not set(names) & set(table.column_names)
    ]
    return table.select(shown).rename_columns([names.get(name, name) for name in shown])


def _choose_columns(view: TfprofView, select: Sequence[str]) -> list[str]:
    """Return the columns of the selected attributes; of captures, times are the exact ones."""
    there = get_view_schema(view.shown).names()
    wanted = {"is_accounted"}
    for name in select:
        wanted.update((name, f"total_{name}"), _PARTS.get(name, ()))
        wanted.update(f"total_{part}" for part in _PARTS.get(name, ()))
    if view.recorded.is_capture:
        wanted.update(*(_OF_CAPTURES.get(name, ()) for name in select))
        for name, exact in zip(FIGURES, EXACT_TIMES, strict=False):
            wanted.update(prefix + exact for prefix in ("", "total_") if prefix + name in wanted)
    return [name for name in there if name in wanted]


def answer_find(call: ApiCall) -> Any:
    """Answer with a row whose name holds a text: the one of number ``hit``, counted round. ``flip``: the closed rows
    above it."""
    tree = _make_tree(call)
    hits = tree.holding(call.text("find"))
    if not len(hits):
        return {"count": 0, "hit": 0, "row": None, "flip": ""}
    hit = call.whole("hit", 0) % len(hits)
    row = int(hits[hit])
    is_open = tree.is_open(call.whole("open", tree.usual_depth, least=1), call.numbers("flip"))
    above = tree.above(row)
    closed = np.sort(tree.ids[above[~is_open[above]]])
    return {"count": len(hits), "hit": hit, "row": int(tree.ids[row]), "flip": format_numbers(closed)}


# ---- one row


def answer_row(call: ApiCall) -> Any:
    """Answer with all that is known of a row, and its nodes that take the most time."""
    view, place = _get_row(call)
    part = view.shown.at(np.array([place]))
    exact = () if view.recorded.is_capture else (name for time in EXACT_TIMES for name in (time, f"total_{time}"))
    left_out = {"row", "parent", "depth", "name", *exact}
    known = make_view_table(
        part, view.recorded, [name for name in get_view_schema(part).names() if name not in left_out]
    )
    nodes = make_member_table(part, view.recorded, view.options.step)
    nodes = _rename_exact(nodes.drop_columns([name for name in nodes.column_names if name in left_out - {"name"}]))
    most = nodes.take(pc.sort_indices(nodes, [("micros", "descending")])[:_MOST_NODES])
    name = part.names[0].as_py()
    return {
        "name": name[:_MOST_LETTERS],
        "letters": len(name),
        "is_node": bool(part.node is not None and part.node[0] >= 0),
        "table": {"table": "tfprof_view", "length": 1, "columns": describe_columns(_rename_exact(known))},
        "nodes": {
            "table": "tfprof_view_nodes",
            "length": len(most),
            "of": len(nodes),
            "columns": describe_columns(most),
        },
    }


def answer_name(call: ApiCall) -> Response:
    """Answer with the entire name of a row."""
    view, place = _get_row(call)
    content = view.shown.names[place].as_py().encode("utf-8", "backslashreplace")
    return make_answer(call.request, make_body(content, "text/plain; charset=utf-8", version=call.run.version))


def _get_row(call: ApiCall) -> tuple[TfprofView, int]:
    tree = _make_tree(call)
    return get_base_view(call), int(tree.place[tree.row_of(call.whole("row"))])


# ---- stacks, advice, files


def answer_stacks(call: ApiCall) -> Any:
    return make_stacks_document(get_base_view(call), parse_options(call).select)


def answer_advice(call: ApiCall) -> Any:
    host = call.given("host")
    advice = call.state.advice.of((call.run.identity, host), lambda: call.run.profile.tfprof_advice(host=host).reports)
    return {"reports": {checker: [report[:_MOST_LETTERS] for report in some] for checker, some in advice.items()}}


def answer_save(call: ApiCall) -> Response:
    """Answer with a view as a file to save."""
    form = call.request.path_params["form"]
    if form not in _FILES:
        raise RequestError(404, f"a view is saved as {', '.join(_FILES)}, not {form[:60]!r}")
    media_type, made = _FILES[form]
    view = get_view(call)
    saved = f'attachment; filename="tfprof_{view.view}.{form}"'
    body = make_body(made(view), media_type, version=call.run.version)
    return make_answer(call.request, body, **{"content-disposition": saved})


def _write_csv(view: TfprofView) -> bytes:
    from fastprof.render.table_forms import Look, render_table

    return b"".join(render_table("csv", view.table, name="tfprof_view", look=Look(file=True)))


def _write_json(view: TfprofView) -> bytes:
    from fastprof.tfprof.tfprof_text import write_view_json

    return b"".join(write_view_json(view.view, view.options, view.unknown, view.table, view.nodes))


_FILES: Final[Mapping[str, tuple[str, Callable[[TfprofView], bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", _write_csv),
    "json": ("application/json", _write_json),
    "txt": ("text/plain; charset=utf-8", lambda view: view.text.encode("utf-8", "backslashreplace")),
    "trace.json": ("application/json", lambda view: view.timeline().encode("utf-8", "replace")),
    "pb.gz": ("application/gzip", lambda view: view.to_pprof()),
}
ANSWERS: Final[Mapping[str, Callable[[ApiCall], Any]]] = {
    "about": answer_about,
    "rows": answer_rows,
    "row": answer_row,
    "name": answer_name,
    "find": answer_find,
    "stacks": answer_stacks,
    "advice": answer_advice,
    "save/{form}": answer_save,
}
