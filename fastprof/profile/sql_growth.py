"""How far a query may grow before it runs, when nothing can stop DuckDB: it puts expressions in the place of columns,
queries in the place of their names, and calls functions of constants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastprof.errors import UsageError
from fastprof.schema.value_classes import dataclass

_MOST_PARTS: Final = 20_000
_MOST_TERMS: Final = 5_000
_MOST_NAMES: Final = 50
_DEEPEST: Final = 200
_MOST_SIZE: Final = 10**7
"""Bytes of a value, of texts of which one character may be known."""
_UNKNOWN_TIMES: Final = 10**4
_ADDED: Final = frozenset((
    "||", "concat", "concat_ws", "format", "printf", "list_value", "array_value", "row", "struct_pack", "list_concat",
    "list_cat", "array_concat", "array_cat", "list_append", "array_append", "array_push_back", "list_prepend",
    "array_prepend", "array_push_front", "map", "list_zip", "array_zip", "flatten", "insert", "+",
))  # fmt: skip
"""Functions whose value is as large as their arguments together."""
_MULTIPLIED: Final = frozenset((
    "regexp_replace", "translate", "levenshtein", "editdist3", "damerau_levenshtein", "jaro_similarity", "hamming",
    "jaro_winkler_similarity", "jaccard", "mismatches", "array_to_string", "list_to_string", "list_aggregate",
))  # fmt: skip
"""Functions whose value, or work, is as large as their arguments multiplied."""
_WIDENED: Final = {"bin": 8, "to_binary": 8, "hex": 2, "to_hex": 2, "to_base64": 2, "base64": 2, "url_encode": 3,
                   "md5": 1, "json_quote": 6, "to_json": 6, "json_pretty": 8}  # fmt: skip
_RESIZED: Final = ("list_resize", "array_resize", "lpad", "rpad", "bitstring")
_SERIES: Final = ("range", "generate_series")
_PLAIN: Final = frozenset((
    "+", "-", "/", "//", "%", "round", "floor", "ceil",
    "len", "length", "array_length", "list_count", "abs", "least", "greatest", "min", "max", "count",
    "count_star",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Extent:
    """Number of parts of an expression or a query once it is expanded, and size of its largest value. ``columns``:
    those of a query, by name; that of "" may have any other name."""

    parts: int = 1
    size: float = 1
    columns: Mapping[str, _Extent] | None = None


def check_growth(tree: Any) -> None:
    """Check that a query is small, also when DuckDB has expanded it. UsageError: it is not."""
    parts = names = 0
    left: list[tuple[Any, int]] = [(tree, 0)]
    while left:
        node, depth = left.pop()
        if isinstance(node, list):
            left += [(child, depth) for child in node]
        elif isinstance(node, dict):
            if "class" in node or str(node.get("type", "")).endswith("_NODE"):
                parts, depth = parts + 1, depth + 1
            names += len((node.get("cte_map") or {}).get("map", ()))
            long = max(len(node.get("children") or ()), len(node.get("column_names") or ()) * 100)
            if depth > _DEEPEST or (long > _MOST_TERMS and node.get("class") in ("CONJUNCTION", "COLUMN_REF")):
                raise UsageError("the query is nested too deeply, or has too many conditions")
            left += [(child, depth) for child in node.values()]
    if parts > _MOST_PARTS or names > _MOST_NAMES:
        raise UsageError(f"the query has too many parts; {_MOST_PARTS:,} are allowed, and {_MOST_NAMES} in WITH")
    _measure(tree, {}, {})


def _measure(node: Any, columns: Mapping[str, _Extent], names: Mapping[str, _Extent]) -> _Extent:
    """Return the extent of a part of a query. ``columns``: those that it sees; ``names``: queries by name. UsageError:
    it is too large."""
    kind = node.get("class") or node.get("type")
    if kind == "TABLE_FUNCTION" and node["function"]["function_name"].lower() in _SERIES:  # rows, not a value
        node = {**node, "function": node["function"]["arguments"]}
    if kind == "COLUMN_REF":
        name = str(node["column_names"][-1]).lower()
        extent = columns.get(name) or (columns.get("") if not name.isidentifier() else None) or _Extent()
        extent = _Extent(extent.parts, extent.size)
    elif kind == "POSITIONAL_REFERENCE":
        extent = _join(columns.values())
    elif kind == "CONSTANT":
        extent = _Extent(1, max(1, len(str((node.get("literal") or {}).get("text", "")))))
    elif kind in ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"):
        extent = _measure_query(node, columns, names)
    elif kind == "BASE_TABLE":
        extent = _rename(names.get(str(node["table_name"]).lower(), _Extent()), node.get("column_name_alias") or ())
    else:
        arguments = [argument["expression"] for argument in node["arguments"]] if kind == "FUNCTION" else []
        rest = [child for child in _list_parts(list(node.values())) if not any(child is each for each in arguments)]
        children = [_measure(child, columns, names) for child in arguments + rest]
        sums = _Extent(1 + sum(child.parts for child in children), max((c.size for c in children), default=1))
        if kind == "TABLE_FUNCTION":
            extent = _Extent(sums.parts)
        elif kind == "FUNCTION":
            sizes = [child.size for child in children[: len(arguments)]]
            extent = _Extent(sums.parts, _size_function(str(node["function_name"]).lower(), arguments, sizes))
        else:
            seen: dict[str, _Extent] = {}
            for child in children:
                for name, column in (child.columns or {}).items():
                    seen[name] = _join((column, seen[name])) if name in seen else column
            extent = _rename(_Extent(sums.parts, sums.size, seen), node.get("column_name_alias") or ())
    if extent.parts > _MOST_PARTS:
        raise UsageError("the query has too many parts once its names are replaced by what they mean")
    if extent.size > _MOST_SIZE:
        raise UsageError("the query would make a value that is too large")
    return extent


def _measure_query(node: Any, columns: Mapping[str, _Extent], names: Mapping[str, _Extent]) -> _Extent:
    names = dict(names)
    parts = 1
    for entry in (node.get("cte_map") or {}).get("map", ()):
        query = entry["value"]
        names[str(entry["key"]).lower()] = _rename(
            _measure(query["query_node"], columns, names), query.get("aliases") or ()
        )
    if node["type"] == "RECURSIVE_CTE_NODE":
        start = _rename(_measure(node["left"], columns, names), node.get("aliases") or ())
        names[str(node["cte_name"]).lower()] = start
        again = _measure(node["right"], columns, names)
        return _Extent(start.parts + again.parts, max(start.size, again.size), start.columns)
    made: dict[str, _Extent] = {}
    seen = dict(columns)
    if node["type"] == "SELECT_NODE":
        source = _measure(node["from_table"], columns, names) if node.get("from_table") else _Extent()
        seen.update(source.columns or {})
        parts += source.parts
        for expression in node["select_list"]:
            extent = _measure(expression, seen, names)
            parts += extent.parts
            if expression.get("class") == "STAR":
                made = {**(source.columns or {}), **made}
                continue
            path = expression.get("column_names") or [""]
            name = str(expression.get("alias") or path[-1]).lower()
            made[name] = _join((extent, made[name])) if name in made else extent
            if expression.get("alias"):
                seen.setdefault(name, extent)
    rest = [value for key, value in node.items() if key not in ("cte_map", "select_list", "from_table")]
    for part in _list_parts(rest):
        extent = _measure(part, {**seen, **made}, names)
        parts += extent.parts
        for name, column in (extent.columns or {}).items():
            made[name] = _join((column, made[name])) if name in made else column
    return _Extent(parts, _join(made.values()).size, made)


def _list_parts(left: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the next objects below with a class or a type."""
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            if "class" in node or ("type" in node and "literal" not in node):
                yield node
            else:
                left += node.values()


def _join(extents: Any) -> _Extent:
    """Return an extent that none of these exceeds."""
    extents = list(extents)
    return _Extent(max((e.parts for e in extents), default=1), max((e.size for e in extents), default=1))


def _rename(extent: _Extent, aliases: Any) -> _Extent:
    """Return the extent of a query whose columns get other names, each as large as the largest."""
    if not extent.columns or not aliases:
        return extent
    largest = _join(extent.columns.values())
    return _Extent(extent.parts, extent.size, {**extent.columns, **{str(name).lower(): largest for name in aliases}})


def _size_function(name: str, arguments: list[Any], sizes: list[float]) -> float:
    """Return the size of the value of a function, from its arguments and their sizes."""
    if not sizes:
        return 1
    lambdas = [argument for argument in arguments if argument.get("class") == "LAMBDA"]
    if lambdas:
        return math.inf if "reduce" in name and _doubles(lambdas[0]) else math.prod(sizes)
    if name in _SERIES:
        return max(_count_times(argument) for argument in arguments)
    if name == "repeat" and len(arguments) == 2:
        return sizes[0] * _count_times(arguments[1], sizes[0] > 1000)
    if name in _RESIZED and len(arguments) > 1:
        return max(sizes[0], _count_times(arguments[1]))
    if name == "replace" and len(arguments) == 3:
        return sizes[0] * max(1, sizes[2] / (sizes[1] if arguments[1].get("class") == "CONSTANT" else 1))
    if name in _ADDED:
        return sum(sizes)
    return math.prod(sizes) if name in _MULTIPLIED else max(sizes) * _WIDENED.get(name, 1)


def _count_times(node: Any, is_nested: bool = False) -> float:
    """Return the number that an argument gives, about. Infinite: it may be any."""
    text = str((node.get("literal") or {}).get("text", ""))
    if node.get("class") == "CONSTANT":
        return min(float(text), math.inf) if text.replace(".", "", 1).isdigit() else math.inf
    parts = [node]
    while parts:
        part = parts.pop()
        name = str(part.get("function_name", "+")).lower()
        if part.get("class") not in ("FUNCTION", "COLUMN_REF", "CONSTANT", "CAST", "PARAMETER") or name not in _PLAIN:
            return math.inf
        parts += [child for child in _list_parts(list(part.values())) if child.get("class", "TYPE") != "TYPE"]
    return math.inf if is_nested else _UNKNOWN_TIMES


def _doubles(function: Any) -> bool:
    """Return whether the first name of a function is used several times, in a value that may grow."""
    first = next((part for part in _list_parts([function["lhs"]])), {})
    if first.get("class") == "FUNCTION":
        first = first["arguments"][0]["expression"]
    uses = 0
    grows = False
    left = [function["expr"]]
    while left:
        part = left.pop()
        uses += part.get("class") == "COLUMN_REF" and part["column_names"][0] == first["column_names"][0]
        grows |= str(part.get("function_name", "")).lower() in _ADDED - {"+"} | _MULTIPLIED | {"repeat", "replace"}
        left += _list_parts(list(part.values()))
    return grows and uses > 1
