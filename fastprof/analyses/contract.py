"""What an analysis is: what it reads, what it answers, and how the answer is laid out.

An analysis is a module of this package:

    \"\"\"Kernel statistics: …\"\"\"                  first line: help, title of its docs page
    NAME = "kernel_stats"                          its verb is kernel-stats
    TITLE = "Kernel stats"                         heading of its text and page; absent: this, made of NAME
    READS = Needs(planes=(…), stats=(…))           what the decoder must produce
    AFTER = ("steps",)                             analyses whose reports it is given
    OF_ALL_THREADS = True                          of chosen steps it tells all that happens in their time, also what
                                                   is of no step; absent: False
    @dataclass(frozen=True, slots=True)
    class Params: …                                flags, keyword arguments, docs
    TABLES = {"kernels": TableSchema(…)}           what it answers
    SCALARS = {"total_ps": ScalarSpec(…)}
    SECTIONS = (Section(…),)                       how the text shows it
    def of_host(host, params) -> Any               what is kept of one host, while its events are there
    def run(kept, params, after) -> Report         the answer, from what was kept of all hosts

Hosts are read one after the other, so memory is one host's events and what is kept of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fastprof.tables.needs import Needs as Needs
from fastprof.tables.needs import union as union

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.derive.host import Host
    from fastprof.schema.tables import TableSchema

Value = int | float | str | bool | None
Detail = TypeVar("Detail")
SEVERITIES = ("recommendation", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """``unit``: ps, ms, %, bytes, … or None for counts, truths and texts; ``definition``: the formula, in words;
    ``label``: what the text calls it, if not by its name."""

    unit: str | None
    definition: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One figure. Where ``value`` is None, ``reason`` says in words why it is not known."""

    name: str
    value: Value
    unit: str | None
    definition: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence to the user: a recommendation, or what to know about the capture."""

    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text. ``table``: shows ``columns`` of it, at most ``rows`` rows, with a bar for the share in column
    ``bar``, a number from 0 to 1; ``sort``: as the table is. Without a table: the ``scalars`` named.

    ``shown``: whether it applies to a report; None: always. ``nonzero``: what is 0 in this column is only named, by the
    column before. ``only``: which rows are worth showing; None: all. ``kernels``: a column of names of kernels, which
    are shortened. ``depth``: a column that tells how deep a row lies in a tree, of which the rows are in preorder:
    drawn as branches before the first column shown. ``parts``: of ``columns``, those left out where they are 0
    throughout. ``by_worth``: where there is little room the last column is left out first, else numbers before texts.
    """

    title: str
    table: str | None = None
    columns: tuple[str, ...] = ()
    bar: str | None = None
    rows: int = 10
    scalars: tuple[str, ...] = ()
    shown: Callable[[Report], bool] | None = None
    nonzero: str | None = None
    kernels: str | None = None
    depth: str | None = None
    only: Callable[[pa.Table], pa.Array] | None = None
    parts: tuple[str, ...] = ()
    by_worth: bool = False


def has_rows(table: str) -> Callable[[Report], bool]:
    """For Section.shown: whether there is anything in the table."""
    return lambda report: report.tables[table].num_rows > 0


@dataclass(frozen=True, slots=True)
class Keeper:
    """What one form of reports needs of each host beside what analyses keep: it is computed only for that form.
    ``of_host`` takes the host and the parameters given, and returns what can be pickled."""

    reads: Needs
    of_host: Callable[[Host, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Report:
    """What an analysis answers. ``after``: the reports that it was given; ``detail``: what it computed with, for
    analyses and renderers that come after it; ``kept``: by name of a keeper what it returned, host by host."""

    analysis: str
    tables: Mapping[str, pa.Table]
    scalars: Mapping[str, Scalar]
    notices: tuple[Notice, ...] = ()
    after: Mapping[str, Report] = field(default_factory=dict, repr=False)
    detail: Any = field(default=None, repr=False)
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False)

    def detail_as(self, kind: type[Detail]) -> Detail:
        """``detail``, of the type that the analysis documents. Raises TypeError where it is of another."""
        if not isinstance(self.detail, kind):
            raise TypeError(f"the detail of {self.analysis} is {type(self.detail).__name__}, not {kind.__name__}")
        return self.detail


def is_known(figure: str) -> Callable[[Report], bool]:
    """For Section.shown: whether a figure has a value other than 0."""
    return lambda report: bool(report.scalars[figure].value)


class Analysis(Protocol):
    """A module of this package, as the runner and the renderers see it."""

    __doc__: str | None
    NAME: str
    READS: Needs
    AFTER: tuple[str, ...]
    Params: type[Any]
    TABLES: Mapping[str, TableSchema]
    SCALARS: Mapping[str, ScalarSpec]
    SECTIONS: tuple[Section, ...]

    def of_host(self, host: Host, params: Any) -> Any: ...

    def run(self, kept: Sequence[Any], params: Any, after: Mapping[str, Report]) -> Report: ...


def scalars(specs: Mapping[str, ScalarSpec], values: Mapping[str, Value | tuple[None, str]]) -> dict[str, Scalar]:
    """Figures with their definitions, all of ``specs`` in that order; a value may be ``(None, reason)``."""
    found: dict[str, Scalar] = {}
    for name, spec in specs.items():
        value = values[name]
        value, reason = value if isinstance(value, tuple) else (value, None)
        found[name] = Scalar(name, value, spec.unit, spec.definition, reason)
    return found
