"""The cell magic %%fastprof of notebooks: the line names a profile, the cell is an SQL query."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa

from fastprof.decode.workers import count_cpus
from fastprof.errors import UsageError
from fastprof.profile import sql, sql_tables
from fastprof.profile.loading import load
from fastprof.wording.patterns import compile_late

_SHOWN_ROWS: Final = 50
_PARAM: Final = compile_late(r"\$([A-Za-z_]\w*)")


class Shell(Protocol):
    """IPython's shell as the magic needs it. ``user_ns``: variables of the notebook."""

    user_ns: dict[str, Any]

    def register_magic_function(self, func: Callable[..., Any], magic_kind: str, magic_name: str) -> object: ...


class QueryAnswer:
    """The answer to a query: ``table``, which a notebook shows with its first rows."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def _repr_html_(self) -> str:
        from fastprof.render import report_html

        shown = self.table.slice(0, _SHOWN_ROWS)
        count = f"{shown.num_rows:,} of {self.table.num_rows:,} rows"
        return report_html.make_element([report_html.make_table(shown), report_html.make_para(count)])

    def __repr__(self) -> str:
        return str(self.table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class _LineParser(argparse.ArgumentParser):
    """Parser of the line whose errors are UsageErrors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%fastprof: {message}; {self.format_usage().strip()}")


def register_magic(shell: Shell) -> None:
    """Make %%fastprof known to a notebook."""

    def run_cell(line: str, cell: str) -> QueryAnswer:
        return answer_cell(line, cell, shell.user_ns)

    shell.register_magic_function(run_cell, "cell", "fastprof")


def answer_cell(line: str, cell: str, variables: dict[str, Any]) -> QueryAnswer:
    """Answer the query of a cell. ``$name`` in it is the variable of that name. UsageError: the line or the query is
    wrong."""
    parser = _LineParser(prog="%%fastprof", add_help=False, allow_abbrev=False)
    parser.add_argument("profile", help="variable with a profile, or a path")
    parser.add_argument("-o", "--output", metavar="NAME", help="variable for the answer")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=sql.TIMEOUT)
    try:
        args = parser.parse_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"%%fastprof: {error}") from None
    if args.output is not None and not args.output.isidentifier():
        raise UsageError(f"%%fastprof: {args.output!r} is not a name of a variable")
    named = variables.get(args.profile, args.profile)
    params = {name: variables[name] for name in _PARAM.findall(cell) if name in variables} or None
    if isinstance(named, str) and sql_tables.is_export(named):
        sources = sql_tables.ExportedTables(named)
        table = sql.collect_table(
            sql.query_tables(sources, cell, params, sql.MEMORY, args.timeout, count_cpus()), sql.MEMORY
        )
    else:
        profile = named if isinstance(named, sql.SqlQueries) else load(named)
        table = profile.sql(cell, params, timeout=args.timeout)
    if args.output is not None:
        variables[args.output] = table
    return QueryAnswer(table)
