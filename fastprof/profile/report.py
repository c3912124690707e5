"""The report of an analysis, as users see it: tables, figures and notices, and their conversion to other formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import pyarrow as pa

from fastprof.analyses import contract
from fastprof.errors import NotFoundError, UsageError
from fastprof.wording.spelling import suggest_name, translate_flags

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
ForXprof = Callable[[Sequence[str]], Mapping[str, contract.AnalysisReport]]

_LEAST_WIDTH = 40


class Named(Mapping[str, T]):
    """Tables or figures by name. Its repr is one line per item; a KeyError lists the names that exist."""

    def __init__(self, kind: str, analysis: str, items: Mapping[str, T], line: Callable[[T], str]) -> None:
        self._kind = kind
        self._analysis = analysis
        self._items = items
        self._line = line

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            raise KeyError(self.absence(name))
        return self._items[name]

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            known = f"write [{name!r}]" if name in self._items else self.absence(name)
            text = f"{self._kind}s are items, not attributes: {known}"
            raise AttributeError(text, name=name, obj=self)

    def absence(self, name: object) -> str:
        """Return a sentence that this name does not exist, and which do."""
        there = ", ".join(self._items) or "none"
        likely = suggest_name(name, self._items) if isinstance(name, str) else ""
        return f"{self._analysis} has no {self._kind} {name!r}; there are: {there}{likely}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        column = max(map(len, self._items), default=0)
        lines = [f"  {name:<{column}}  {self._line(item)}".rstrip() for name, item in self._items.items()]
        return "\n".join([f"<{len(lines)} {self._kind}{'s' * (len(lines) != 1)} of {self._analysis}", *lines]) + ">"


def _format_table_line(table: pa.Table) -> str:
    return f"{table.num_rows:,} rows, {table.num_columns} columns"


def _format_scalar_line(scalar: contract.Scalar) -> str:
    from fastprof.render.report_text import format_value

    return f"unknown: {scalar.reason}" if scalar.value is None else format_value(scalar)


class Drawing(str):
    """SVG document as text. A notebook shows the drawing."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


class Report:
    """The report of one analysis. Its repr is the text that the command line shows.

    ``tables``: pyarrow.Tables by name. ``scalars``: figures by name, each with ``value`` (None if unknown), ``unit``,
    ``definition`` and ``reason`` (why it is unknown). ``notices``: sentences, each with ``severity``
    ("recommendation", "info", "warning", "error") and ``text``. A notebook shows tables and the drawing.
    """

    def __init__(self, answer: contract.AnalysisReport, for_xprof: ForXprof | None = None, run: str = "") -> None:
        """``for_xprof``: computes reports again, by name, with what XProf's pages need of each host. ``run``: its name,
        "" if it has none."""
        self._run = run
        self._answer = answer
        self._for_xprof = for_xprof

    @property
    def analysis(self) -> str:
        return self._answer.analysis

    @property
    def runs(self) -> Mapping[str, Report]:
        """Reports of each run by its name, as of ``Profile.runs``: here this one alone."""
        return Runs({self._run: self})

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return Named("table", self.analysis, self._answer.tables, _format_table_line)

    @property
    def scalars(self) -> Mapping[str, contract.Scalar]:
        """Figures by name. Reasons and notices name parameters, where those of the command line name flags."""
        figures = {
            name: replace(figure, reason=translate_flags(figure.reason)) if figure.reason else figure
            for name, figure in self._answer.scalars.items()
        }
        return Named("figure", self.analysis, figures, _format_scalar_line)

    @property
    def notices(self) -> tuple[contract.Notice, ...]:
        return tuple(replace(notice, text=translate_flags(notice.text)) for notice in self._answer.notices)

    @property
    def answer(self) -> contract.AnalysisReport:
        """Report in the form that renderers take."""
        return self._answer

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """Return a table by name; without a name the first one, the main table of the analysis."""
        if table is None:
            return next(iter(self._answer.tables.values()))
        tables = Named("table", self.analysis, self._answer.tables, _format_table_line)
        if table not in tables:
            raise UsageError(tables.absence(table))
        return tables[table]

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """Return a table by name as a pandas.DataFrame; without a name the first one. Needs pandas."""
        frame: pd.DataFrame = self.to_arrow(table).to_pandas()
        return frame

    def to_json(self, *, brief: bool = False) -> str:
        """Return the entire report as JSON text, or with ``brief`` its answer in at most 4,096 bytes; docs/cli.md
        describes the shapes."""
        if brief:
            from fastprof.render.brief import Question, summarise_report, write_document

            document = summarise_report(self._answer, Question(self.analysis.replace("_", "-"), run=self._run or None))
            return b"".join(write_document(document)).decode("ascii")
        from fastprof.render import report_json

        return b"".join(report_json.chunks(self._answer)).decode("ascii")

    def to_xprof(self) -> str:
        """Return the JSON text that XProf's page reads. UsageError: XProf has no such page. If the page needs more than
        the report, the hosts are read again, once."""
        from fastprof.xprof import report_xprof

        self._complete()
        return report_xprof.get_text(self._answer)

    def _complete(self) -> None:
        """Read the hosts again for the values that XProf's page needs."""
        from fastprof.xprof import report_xprof

        if self._for_xprof is not None and report_xprof.list_keepers([self.analysis]):
            again = self._for_xprof([self.analysis])[self.analysis]
            self._answer = replace(self._answer, kept=again.kept, after=again.after)
        self._for_xprof = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the report with all its formats, because the hosts cannot be read again after it is loaded."""
        self._complete()
        return Report, (self._answer, None, self._run)

    def to_svg(self) -> Drawing:
        """Return the drawing as an SVG document, which a notebook shows. UsageError: this analysis has no drawing."""
        from fastprof.render import report_graphics

        return Drawing(report_graphics.draw_report(self._answer))

    def to_speedscope(self) -> str:
        """Return the stacks as a speedscope document. UsageError: this analysis has no stacks."""
        from fastprof.render import report_graphics

        return b"".join(report_graphics.write_speedscope(self._answer)).decode("ascii")

    def to_pprof(self) -> bytes:
        """Return the stacks as a file of pprof, gzipped: times in nanoseconds, rounded. UsageError: this analysis has
        no stacks."""
        from fastprof.render import report_graphics

        return b"".join(report_graphics.encode_pprof(self._answer))

    def to_text(
        self,
        *,
        width: int = 100,
        limit: int | Literal["all"] | None = None,
        wide: bool = False,
        verbose: bool = False,
    ) -> str:
        """Return the text for people, ``width`` columns wide. ``limit``: rows per table, or None as the analysis lays
        it out. ``wide``: full names and all columns, regardless of line length. ``verbose``: also checks without a
        finding, unknown causes, the ranking of findings, and inherited remarks."""
        from fastprof.render import report_text
        from fastprof.render.table_forms import Look

        if limit is not None and limit != "all" and not (isinstance(limit, int) and limit >= 0):
            raise UsageError(f"limit must be a number of rows or 'all', not {limit!r}")
        if not isinstance(width, int) or width < _LEAST_WIDTH:
            raise UsageError(f"width must be a number of columns of at least {_LEAST_WIDTH}, not {width!r}")
        rows = report_text.ALL if limit == "all" else limit
        look = Look(width=None if wide else width, python=True, verbose=verbose)
        return "\n".join(report_text.lines(self._answer, look, rows))

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the notices, figures and tables of the text, and the drawing if there is one."""
        from fastprof.render import report_html

        return report_html.render_html(self._answer)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Runs(dict[str, T]):
    """Runs by name. A missing name is a NotFoundError that lists the names."""

    def __missing__(self, name: object) -> NoReturn:
        raise NotFoundError(explain_missing_run(name, self))


def explain_missing_run(name: object, there: Collection[str]) -> str:
    """Return a sentence that this run does not exist, and which do."""
    names = list(map(str, there))
    likely = suggest_name(name, names) if isinstance(name, str) else ""
    return f"no run {name!r} in this session; there are: {', '.join(names)}{likely}"


def choose_runs(known: Iterable[str], wanted: str | Iterable[str] | None) -> list[str]:
    """Return the runs that are wanted (None: all), in the order of the known ones. NotFoundError: one is unknown."""
    there = list(known)
    names = there if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if name not in there:
            raise NotFoundError(explain_missing_run(name, there))
    return [name for name in there if name in names]
