"""Answers about tfprof's views: which there are, rows of them, what is known of a row, stacks, advice, and files.

An answer has as many rows as it is asked for, at most some hundreds, of views of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import Response

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.recorded import BEYOND, FIGURES, Recorded
from fastprof.derive.tfprof.view_tables import EXACT_TIMES, member_table, schema_of, view_table
from fastprof.errors import UsageError
from fastprof.viewer import tfprof_stacks
from fastprof.viewer.answers import answer, body
from fastprof.viewer.query import RequestError, spelled
from fastprof.viewer.server_state import Call
from fastprof.viewer.tfprof_request import bases, described, made_view, options_of, view_name, view_of
from fastprof.viewer.tfprof_texts import columns_of, cut, label_of
from fastprof.viewer.tfprof_tree import Order, RowTree, amounts

if TYPE_CHECKING:
    from fastprof.profile.tfprof_views import TfprofView

_USUAL_ROWS: Final = 200
_MOST_ROWS: Final = 1_000
_MOST_STEPS: Final = 10_000
_MOST_NODES: Final = 20
_MOST_LETTERS: Final = 20_000
"""Of a report of the advisor, and of a name in the details of a row."""
_PARTS: Final = {
    "micros": ("accelerator_micros", "cpu_micros"),
    "occurrence": ("run_count", "total_run_count", "definition_count", "total_definition_count"),
    "device": ("devices",),
    "op_types": ("types",),
    "input_shapes": ("input_shapes",),
}
"""The columns that an attribute brings, besides those of its name."""
_OF_CAPTURES: Final = {
    "float_ops": ("accessed_bytes", "total_accessed_bytes", "bound_by"),
    "op_types": ("source",),
}
"""Those that it brings of captures, too."""


def about(call: Call) -> Any:
    """What there is to choose from."""
    host, recorded = _recorded(call)
    return {
        "host": host,
        "capture": recorded.is_capture,
        "steps": [str(step) for step in recorded.steps[:_MOST_STEPS]],
        "unknown": dict(recorded.unknown),
        "absent": [] if recorded.without_graph is None else ["graph"],
        "options": described(),
        "bases": bases(),
    }


def _recorded(call: Call) -> tuple[str | None, Recorded]:
    """The host of the request, else all hosts, else the first one with a profile. UsageError: there are no views."""
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


def rows(call: Call) -> Any:
    """Some of the rows that show. ``at``: the place of the row of the request among them, if it shows."""
    view, tree = view_of(call), _tree(call)
    depth = call.whole("open", tree.usual_depth, least=1)
    is_open = tree.is_open(depth, call.numbers("flip"))
    lines = tree.lines(is_open)
    first = call.whole("first", 0, least=0)
    wanted = lines[first : first + call.whole("rows", _USUAL_ROWS, least=0, most=_MOST_ROWS)].astype(np.int64)
    at = np.flatnonzero(tree.ids[lines] == call.whole("row")) if call.given("row") else lines[:0]
    return {
        "open": depth,
        "lines": len(lines),
        "rows": len(tree.shown.row),
        "matches": tree.matches,
        "first": first,
        "at": int(at[0]) if len(at) else None,
        "root": _root(view),
        "table": _table(view, tree, wanted, is_open[wanted], options_of(call).select),
    }


def _tree(call: Call) -> RowTree:
    order = Order(call.given("sort") or "", call.given("filter") or "")
    view, name = view_of(call), view_name(call)
    key = (call.run.identity, call.given("host"), name, view.options, order)
    return call.state.trees.of(key, lambda: RowTree(view.shown, name, order))


def _table(view: TfprofView, tree: RowTree, rows: Ints, is_open: Any, select: Sequence[str]) -> dict[str, Any]:
    """Rows of the tree, by column."""
    part = view.shown.at(tree.place[rows])
    table = _exact(view_table(part, view.recorded, _columns(view, select)))
    state = np.where(tree.is_leaf(rows), "", np.where(is_open, "open", "closed"))
    own: list[tuple[str, str, list[Any]]] = [
        ("id", "int64", tree.ids[rows].tolist()),
        ("depth", "int64", tree.forest.depth[rows].tolist()),
        ("state", "string", state.tolist()),
        ("label", "string", [label_of(view.view, tree, row) for row in rows.tolist()]),
        ("name", "string", [cut(part.names, place) for place in range(len(rows))]),
    ]
    columns = [
        {"name": name, "type": kind, "unit": None, "description": None, "values": values} for name, kind, values in own
    ]
    return {"table": "tfprof_view", "length": len(rows), "columns": [*columns, *columns_of(table)]}


def _root(view: TfprofView) -> dict[str, str]:
    """The sums of all, times as rows have them."""
    sums = {name: str(view.shown.totals[place, 0]) for place, name in enumerate(FIGURES)}
    if view.recorded.is_capture:
        sums |= {name: str(amounts(view.shown, name, sums=True)[0]) for name in (*FIGURES[:3], BEYOND[0])}
    return sums


def _exact(table: pa.Table) -> pa.Table:
    """A table whose times have the names of tfprof, also if they are exact ones, in picoseconds."""
    names = dict(zip(EXACT_TIMES, FIGURES, strict=False))
    names |= {f"total_{exact}": f"total_{name}" for exact, name in names.items()}
    kept = [
        name for name in table.column_names if name not in names.values() or not set(names) & set(table.column_names)
    ]
    return table.select(kept).rename_columns([names.get(name, name) for name in kept])


def _columns(view: TfprofView, select: Sequence[str]) -> list[str]:
    """The columns of the selected attributes; of captures, times are the exact ones."""
    there = schema_of(view.shown).names()
    wanted = {"is_accounted"}
    for name in select:
        wanted.update((name, f"total_{name}"), _PARTS.get(name, ()))
        wanted.update(f"total_{part}" for part in _PARTS.get(name, ()))
    if view.recorded.is_capture:
        wanted.update(*(_OF_CAPTURES.get(name, ()) for name in select))
        for name, exact in zip(FIGURES, EXACT_TIMES, strict=False):
            wanted.update(prefix + exact for prefix in ("", "total_") if prefix + name in wanted)
    return [name for name in there if name in wanted]


def find(call: Call) -> Any:
    """A row whose name holds a text: the one of number ``hit``, counted round. ``flip``: the closed rows above it."""
    tree = _tree(call)
    hits = tree.holding(call.text("find"))
    if not len(hits):
        return {"count": 0, "hit": 0, "row": None, "flip": ""}
    hit = call.whole("hit", 0) % len(hits)
    row = int(hits[hit])
    is_open = tree.is_open(call.whole("open", tree.usual_depth, least=1), call.numbers("flip"))
    above = tree.above(row)
    closed = np.sort(tree.ids[above[~is_open[above]]])
    return {"count": len(hits), "hit": hit, "row": int(tree.ids[row]), "flip": spelled(closed)}


# ---- one row


def row(call: Call) -> Any:
    """All that is known of a row, and its nodes that take the most time."""
    view, place = _row(call)
    part = view.shown.at(np.array([place]))
    exact = () if view.recorded.is_capture else (name for one in EXACT_TIMES for name in (one, f"total_{one}"))
    left_out = {"row", "parent", "depth", "name", *exact}
    known = view_table(part, view.recorded, [name for name in schema_of(part).names() if name not in left_out])
    nodes = member_table(part, view.recorded, view.options.step)
    nodes = _exact(nodes.drop_columns([name for name in nodes.column_names if name in left_out - {"name"}]))
    most = nodes.take(pc.sort_indices(nodes, [("micros", "descending")])[:_MOST_NODES])
    name = part.names[0].as_py()
    return {
        "name": name[:_MOST_LETTERS],
        "letters": len(name),
        "is_node": bool(part.node is not None and part.node[0] >= 0),
        "table": {"table": "tfprof_view", "length": 1, "columns": columns_of(_exact(known))},
        "nodes": {"table": "tfprof_view_nodes", "length": len(most), "of": len(nodes), "columns": columns_of(most)},
    }


def name(call: Call) -> Response:
    """The entire name of a row."""
    view, place = _row(call)
    content = view.shown.names[place].as_py().encode("utf-8", "backslashreplace")
    return answer(call.request, body(content, "text/plain; charset=utf-8", version=call.run.version))


def _row(call: Call) -> tuple[TfprofView, int]:
    tree = _tree(call)
    return view_of(call), int(tree.place[tree.row_of(call.whole("row"))])


# ---- stacks, advice, files


def stacks(call: Call) -> Any:
    return tfprof_stacks.document(view_of(call), options_of(call).select)


def advice(call: Call) -> Any:
    host = call.given("host")
    found = call.state.advice.of((call.run.identity, host), lambda: call.run.profile.tfprof_advice(host=host).reports)
    return {"reports": {checker: [one[:_MOST_LETTERS] for one in some] for checker, some in found.items()}}


def save(call: Call) -> Response:
    """A view as a file to save."""
    form = call.request.path_params["form"]
    if form not in _FILES:
        raise RequestError(404, f"a view is saved as {', '.join(_FILES)}, not {form[:60]!r}")
    media_type, made = _FILES[form]
    view = made_view(call)
    saved = f'attachment; filename="tfprof_{view.view}.{form}"'
    found = body(made(view), media_type, version=call.run.version)
    return answer(call.request, found, **{"content-disposition": saved})


def _csv(view: TfprofView) -> bytes:
    from fastprof.render.look import Look
    from fastprof.render.table_forms import chunks

    return b"".join(chunks("csv", view.table, name="tfprof_view", look=Look(file=True)))


def _json(view: TfprofView) -> bytes:
    from fastprof.render.tfprof_json import chunks

    return b"".join(chunks(view.view, view.options, view.unknown, view.table, view.nodes))


_FILES: Final[Mapping[str, tuple[str, Callable[[TfprofView], bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", _csv),
    "json": ("application/json", _json),
    "txt": ("text/plain; charset=utf-8", lambda view: view.text.encode("utf-8", "backslashreplace")),
    "trace.json": ("application/json", lambda view: view.timeline().encode("utf-8", "replace")),
    "pb.gz": ("application/gzip", lambda view: view.to_pprof()),
}
ANSWERS: Final[Mapping[str, Callable[[Call], Any]]] = {
    "about": about,
    "rows": rows,
    "row": row,
    "name": name,
    "find": find,
    "stacks": stacks,
    "advice": advice,
    "save/{form}": save,
}
