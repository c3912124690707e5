"""The check of an SQL query before anything runs: one statement that only reads, of tables that exist.

Comments are removed, then DuckDB parses the query, and its syntax tree is searched; the text that was checked is what
runs. Functions that read files or settings, run text as SQL, or make huge values from small numbers are not called.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import UsageError
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LONGEST: Final = 1 << 20
"""Characters of a query."""
_MOST_TOKENS: Final = 100_000
_MOST_CONSTANT: Final = 10_000
_TABLE_FUNCTIONS: Final = ("range", "generate_series", "unnest", "json_each", "json_tree")
_REFUSED: Final = frozenset((
    "current_setting", "getenv", "getvariable", "query", "query_table", "json_execute_serialized_sql",
    "json_serialize_plan", "nextval", "currval", "setseed", "write_log", "sql_auto_complete",
))  # fmt: skip
_MAKERS: Final = {"repeat": 1, "lpad": 1, "rpad": 1, "bitstring": 0, "range": 0, "generate_series": 0,
                  "list_resize": 1, "array_resize": 1, "format": 0, "printf": 0,
                  "to_base": 1, "bar": 1, "equi_width_bins": 2, "approx_top_k": 1, "reservoir_quantile": 2,
                  "bitstring_agg": 1}  # fmt: skip
"""Functions whose value may be far larger than their arguments, and the first argument that decides it."""
_READS: Final = "a query is one SELECT, WITH, FROM, VALUES, EXPLAIN, DESCRIBE, SHOW or SUMMARIZE statement"
_WRITES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")
_DEEPEST: Final = 200
_DEEPEST_WITH: Final = 5
"""Depth of WITH in WITH."""
_LONGEST_PARSED: Final = 1 << 21
"""Characters that DuckDB's parser may read: it reads a wrong query five times again for each level of WITH."""
_EXPLAIN: Final = compile_late(
    r"(?i)explain\b[ \n]*(?:analyze\b[ \n]*)?(?:\([ \n]*(?:analyze|format[ \n]+[a-z]+)[ \n]*\))?"
)
_TOKEN: Final = compile_late(
    r"""(?isx) (?P<comment> --[^\r\n]* | /\* ) | (?P<dollar> \$(?:[^\W\d]\w*)?\$ ) | (?P<text> e'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*' | "(?:[^"]|"")*" ) | (?P<word> [\w$]+ ) | (?P<space> \s+ ) | (?P<sign> . )"""
)
_COMMENT_MARK: Final = compile_late(r"/\*|\*/")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_SHOW: Final = compile_late(r"(?is)(?:show|describe|desc)\b")
_ALL_TABLES: Final = ("", '"tables"', "__show_tables_expanded")
_WIDTH: Final = compile_late(r"\d{5}|\*|\{[^}]*\{")


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query that only reads. ``tables``: those that it names, as they are called in lower case; ``lists_tables``: it
    is SHOW TABLES."""

    text: str
    tables: tuple[str, ...] = ()
    lists_tables: bool = False


def check_query(connection: DuckDBPyConnection, query: str, known: Collection[str]) -> CheckedQuery:
    """Return the query with the tables that it names. ``known``: names of tables, in lower case. UsageError: it is not
    one statement that reads, it is not SQL, it names another table, or it calls a function that is not allowed."""
    if not isinstance(query, str):
        raise UsageError(f"a query is a text, not {type(query).__name__}")
    if len(query) > LONGEST:
        raise UsageError(f"the query has {len(query):,} characters; {LONGEST:,} are allowed")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise UsageError("the query holds characters that are not valid Unicode") from None
    if "\0" in query:
        raise UsageError("the query holds a character of code 0")
    statement = _clean_statement(query)
    prefix = _EXPLAIN.match(statement)
    plain = statement[prefix.end() :] if prefix else statement
    _check_kind(connection, statement)
    (row,) = connection.execute("select json_serialize_sql(?::varchar)", [plain]).fetchall()
    try:
        tree = json.loads(row[0])
    except RecursionError:
        raise UsageError("the query is nested too deeply") from None
    if tree["error"]:
        if tree.get("error_type") == "parser":
            raise UsageError(f"this is not valid SQL: {tree['error_message']}")
        raise UsageError(_READS)
    if len(tree["statements"]) != 1:
        raise UsageError(_READS)
    _check_growth(tree)
    return _check_tree(tree, statement, known)


def _split_tokens(query: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each token. UsageError: a text or a comment has no end."""
    start = 0
    while start < len(query):
        token = _TOKEN.match(query, start)
        assert token is not None  # a sign is any character
        kind, text, end = str(token.lastgroup), token[0], token.end()
        if kind == "dollar":
            kind, end = "text", query.find(text, end) + len(text)
        elif text == "/*":
            depth = 1
            while depth:
                mark = _COMMENT_MARK.search(query, end)
                if mark is None:
                    raise UsageError("this is not valid SQL: a comment has no end")
                depth, end = depth + (1 if mark[0] == "/*" else -1), mark.end()
        if end <= start or text in ("'", '"'):
            raise UsageError("this is not valid SQL: unterminated text")
        yield kind, query[start:end]
        start = end


def _clean_statement(query: str) -> str:
    """Return the one statement of a query without comments. UsageError: it has none or several, or is nested so that
    DuckDB's parser takes too long."""
    statements: list[list[str]] = [[]]
    opened: list[str] = []
    withs = deepest = count = 0
    last = ""
    for kind, text in _split_tokens(query):
        if kind in ("space", "comment"):
            statements[-1].append("\n" if "\n" in text and kind == "space" else " ")
            continue
        count += 1
        if count > _MOST_TOKENS:
            raise UsageError(f"the query has too many words and signs; {_MOST_TOKENS:,} are allowed")
        if kind == "sign" and text in _CLOSING:
            is_with = text == "(" and last in ("as", "materialized")
            withs += is_with
            deepest = max(deepest, withs)
            opened.append("with" if is_with else text)
            if len(opened) > _DEEPEST or withs > _DEEPEST_WITH:
                raise UsageError("the query is nested too deeply")
        elif kind == "sign" and text in ")]}":
            begin = opened.pop() if opened else ""
            withs -= begin == "with"
            if _CLOSING["(" if begin == "with" else begin or "{"] != text or not begin:
                raise UsageError(f"this is not valid SQL: {text!r} closes nothing")
        if kind == "sign" and text == ";":
            statements.append([])
        else:
            statements[-1].append(text)
        last = text.lower()
    if opened:
        raise UsageError(f"this is not valid SQL: {opened[-1].replace('with', '(')!r} is not closed")
    if len(query) * 5**deepest > _LONGEST_PARSED:
        raise UsageError(f"a query of {len(query):,} characters is too long for {deepest} levels of WITH")
    texts = [text for parts in statements if (text := "".join(parts).strip())]
    if len(texts) != 1:
        raise UsageError("the query is empty" if not texts else f"{_READS}, and this is {len(texts)} statements")
    return texts[0]


def _check_kind(connection: DuckDBPyConnection, statement: str) -> None:
    """Check that DuckDB sees one statement, which may read only."""
    import duckdb

    try:
        kinds = [part.type.name for part in connection.extract_statements(statement)]
    except (duckdb.ParserException, duckdb.NotImplementedException, duckdb.InvalidInputException) as error:
        text = " ".join(str(error).split("\n\n")[0].split()).partition(": ")[2]
        raise UsageError(f"this is not valid SQL: {text}") from None
    except (duckdb.Error, ValueError):  # statements that Python's side of DuckDB does not know
        raise UsageError(_READS) from None
    if kinds == ["MULTI"]:
        raise UsageError("PIVOT needs its columns: PIVOT table ON column IN ('a', 'b') USING sum(x)")
    if kinds not in (["SELECT"], ["EXPLAIN"]):
        raise UsageError(f"{_READS}, not {', '.join(kinds) or 'this'}")


def _check_tree(tree: Any, statement: str, known: Collection[str]) -> CheckedQuery:
    """Check the tables and functions of a syntax tree."""
    scoped = list(_list_scopes(tree))
    nodes = [node for node, _ in scoped]
    table_functions = {id(node["function"]) for node in nodes if node.get("type") == "TABLE_FUNCTION"}
    tables: dict[str, None] = {}
    lists_tables = False
    for node, defined in scoped:
        kind = str(node.get("type", ""))
        if kind.endswith("_QUERY_NODE") and kind.startswith(_WRITES):
            raise UsageError(f"{_READS}, without {kind.partition('_')[0]}")
        if kind == "SHOW_REF" and (node["table_name"] or node["show_type"] == "SHOW_FROM"):
            lists_tables = node["table_name"] in _ALL_TABLES and _SHOW.match(statement) is not None
            if not lists_tables:
                raise UsageError("SHOW TABLES lists all tables, DESCRIBE NAME the columns of one")
        elif kind == "BASE_TABLE":
            schema, name = node["schema_name"].lower(), node["table_name"].lower()
            if node.get("catalog_name"):
                name = f"{node['catalog_name']}.{schema}.{name}"
            elif schema not in ("", "main"):
                name = f"{schema}.{name}"
            if name in known:
                tables[name] = None
            elif name not in defined or schema:
                raise UsageError(explain_unknown_table(name, known))
        elif "function_name" in node:
            _check_function(node, id(node) in table_functions)
    return CheckedQuery(statement, tuple(tables), lists_tables)


def _list_scopes(tree: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield every object of a syntax tree with the names of the common table expressions that it sees."""
    left: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while left:
        node, names = left.pop()
        if isinstance(node, list):
            left += [(child, names) for child in node]
        elif isinstance(node, dict):
            yield node, names
            if "cte_name" in node:  # a recursive one sees itself
                names |= {str(node["cte_name"]).lower()}
            definitions = node.get("cte_map")
            for entry in definitions["map"] if isinstance(definitions, dict) else ():
                left.append((entry["value"], names))
                names |= {str(entry["key"]).lower()}
            left += [(child, names) for key, child in node.items() if key != "cte_map" or not definitions]


def _list_nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a JSON document."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += node.values()
        elif isinstance(node, list):
            left += node


def explain_unknown_table(name: str, known: Collection[str]) -> str:
    """Explain that this table does not exist, and list those that do."""
    analysis, dot, _ = name.partition(".")
    of_analysis = [table for table in known if dot and table.startswith(f"{analysis}.")]
    plain = of_analysis or [table for table in known if "." not in table]
    others = sorted({table.partition(".")[0] for table in known if "." in table}) if not of_analysis else []
    more = f"; reports, as REPORT.TABLE: {', '.join(others)}" if others else ""
    return f"no table {name!r}; there are: {', '.join(plain)}{more}{suggest_name(name, known)}"


def _check_function(node: dict[str, Any], is_table: bool) -> None:
    name = str(node["function_name"]).lower()
    if is_table and name not in _TABLE_FUNCTIONS:
        raise UsageError(f"{name}() cannot be read as a table; {', '.join(_TABLE_FUNCTIONS)} can, and the tables here")
    if name in _REFUSED:
        raise UsageError(f"the function {name}() is not allowed in queries")
    if name in _MAKERS and not is_table:
        for part in _list_nodes(node["arguments"][_MAKERS[name] :]):
            text = str((part.get("literal") or {}).get("text", "0"))
            try:
                is_large = abs(float(text)) > _MOST_CONSTANT
            except ValueError:  # timestamps, whose series may have any length, and text widths
                is_large = name in ("range", "generate_series") or (
                    name in ("format", "printf") and _WIDTH.search(text) is not None
                )
            if is_large:
                raise UsageError(f"{name}() with {text[:40]} would make a value that is too large")


# ---- what a query becomes before it runs, when nothing can stop DuckDB: it puts expressions in the place of columns,
# queries in the place of their names, and calls functions of constants

_MOST_PARTS: Final = 20_000
_MOST_TERMS: Final = 5_000
_MOST_NAMES: Final = 50
_MOST_SIZE: Final = 10**7
"""Largest size in bytes that a value may reach."""
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


def _check_growth(tree: Any) -> None:
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
        known = set(map(id, arguments))
        rest = [child for child in _list_parts(list(node.values())) if id(child) not in known]
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
    visible = {**seen, **made}
    for part in _list_parts(rest):
        extent = _measure(part, visible, names)
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
        return math.inf if "reduce" in name and _is_doubling(lambdas[0]) else math.prod(sizes)
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


def _is_doubling(function: Any) -> bool:
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
