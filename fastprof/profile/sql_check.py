"""The check of an SQL query before anything runs: one statement that only reads, of tables that exist.

Comments are removed, then DuckDB parses the query, and its syntax tree is searched; the text that was checked is what
runs. Functions that read files or settings, run text as SQL, or make huge values from small numbers are not called.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import UsageError
from fastprof.profile import sql_growth
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
    sql_growth.check_growth(tree)
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
            except ValueError:  # times, of which a series is a table, and widths of texts
                is_large = name in ("range", "generate_series") or (
                    name in ("format", "printf") and _WIDTH.search(text) is not None
                )
            if is_large:
                raise UsageError(f"{name}() with {text[:40]} would make a value that is too large")
