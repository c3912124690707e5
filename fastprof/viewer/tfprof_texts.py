"""Texts of a view as the page shows them: cut, because a capture may have names of megabytes.

Names are cut where they are stored, so a long one is never copied.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from fastprof.derive.tfprof.name_scopes import text_buffers
from fastprof.render import as_json
from fastprof.viewer.tfprof_tree import RowTree

_LETTERS: Final = 300
_LISTED: Final = 20
_LETTER_BYTES: Final = 4
_SLASH: Final = ord("/")


def cut(texts: pa.Array, place: int, begin: int = 0) -> str:
    """The text at a place from its byte ``begin`` on, at most 300 letters of it."""
    offsets, data = text_buffers(texts.slice(place, 1))
    text = data[begin : min(int(offsets[1]), begin + _LETTERS * _LETTER_BYTES)].tobytes().decode(errors="ignore")
    rest = offsets[1] - begin > _LETTERS * _LETTER_BYTES or len(text) > _LETTERS
    return f"{text[: _LETTERS - 1]}…" if rest else text


def label_of(view: str, tree: RowTree, row: int) -> str:
    """The name of a row of the tree; of the view scope without the name of the row above, which it continues."""
    names, place = tree.shown.names, int(tree.place[row])
    if view == "scope" and tree.forest.depth[row] > 1:
        above = int(tree.place[tree.forest.parent[row]])
        (_, end), before = text_buffers(names.slice(above, 1))
        (_, own_end), own = text_buffers(names.slice(place, 1))
        if own_end > end and own[end] == _SLASH and bytes(own[:end]) == bytes(before):
            return cut(names, place, int(end) + 1)
    return cut(names, place)


def columns_of(table: pa.Table) -> list[dict[str, Any]]:
    """The columns of a small table, as the page takes them; lists are texts."""
    columns = []
    for name, field in zip(table.column_names, table.schema, strict=True):
        values = table[name].to_pylist()
        described = as_json.described(name, field)
        if pa.types.is_list(field.type):
            described["type"], values = "string", [_listed(one) for one in values]
        elif pa.types.is_string(field.type):
            values = [one and _short(one) for one in values]
        columns.append({**described, "values": values})
    return columns


def _listed(values: list[Any] | None) -> str | None:
    if values is None:
        return None
    more = [f"{len(values) - _LISTED:,} more"] if len(values) > _LISTED else []
    if values and isinstance(values[0], int):
        return _short("×".join(map(str, values[:_LISTED])))
    return _short(", ".join([*map(_spelt, values[:_LISTED]), *more]))


def _spelt(value: Any) -> str:
    """A text; or an input by number, with its shape."""
    if isinstance(value, str):
        return _short(value)
    return f"{value['slot']}: {'×'.join(map(str, value['shape'][:_LISTED])) or 'unknown'}"


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
