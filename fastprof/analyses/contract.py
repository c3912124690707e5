"""The contract of an analysis: what it reads, what it answers, and how the answer is laid out.

An analysis is a module of this package:

    \"\"\"Kernel statistics: …\"\"\"                  first line: help, title of its docs page
    NAME = "kernel_stats"                          its verb is kernel-stats
    TITLE = "Kernel stats"                         heading of its text and page; absent: this, made of NAME
    READS = Needs(planes=(…), stats=(…))           what the decoder must produce at least; with Host.GROUPING for
                                                   host.events, groups and steps
    AFTER = ("steps",)                             analyses whose reports it is given
    WITHOUT = ("diagnosis",)                       those of AFTER without whose answer it has one; absent: none
    OF_ALL_THREADS = True                          selected steps include everything in their time, also events
                                                   without a step; absent: False
    OPENING = Opening(("…",), ("…",))              what its page begins with; absent: its first figures
    OF_PROGRAMS = True                             selected steps change nothing: programs are of no step; absent: False
    OF_HOSTS = True                                what devices did changes nothing: missing records of devices are not
                                                   said; absent: False
    CONTENT = Evidence("…", planes=(…))            without which a capture has nothing for it; absent: unknown
    REMEDY = "…"                                   advice if a capture has nothing for it: what to record, or which
                                                   analysis to ask instead; absent: its notices have advice
    NOT_OF_TORCH = "…"                             why traces of PyTorch's profiler have nothing for it, and what shows
                                                   what is asked; absent: they may have
    @dataclass(frozen=True, slots=True)
    class Params: …                                flags, keyword arguments, docs
    TABLES = {"kernels": TableSchema(…)}           what it answers
    SCALARS = {"total_ps": ScalarSpec(…)}
    SECTIONS = (Section(…),)                       how the text shows it
    def of_host(host, params) -> Any               what is kept of one host, while its events are there
    def of_host_for_others(host, params) -> Any    the same if only analyses after this one are asked for: what these do
                                                   not take may be missing; absent: of_host
    def numbered(kept, number) -> Any              the same, of the host of another number in the session; absent: what
                                                   is kept has no number
    def merge(kept, params, shared) -> Any         one value that stands, in ``run``, for what was kept of hosts that
                                                   follow each other; absent: a value of each host stays
    ONE_BY_ONE = True                              run looks at what was kept of one host after the other, perhaps
                                                   several times, and holds on to none of it; absent: all is in memory
    def run(kept, params, after) -> Report         the answer, from what was kept of all hosts

Hosts are read one after the other, so memory is one host's events and what is kept of each. They may be read by other
processes: what is kept can be pickled, and refers to no capture, but for its programs (``hlo.programs.Program``).

Of more than 32 hosts, ``merge`` is given the values of 32, then what it returned of 32 groups: ``run`` of that is
``run`` of all values. Hosts stay in order, integers are exact, and floats are added up host by host, then group by
group, wherever hosts are read. ``shared`` is empty at first, and the same for all analyses while the same hosts are
merged: what several of them make of the same values is made once. What merges keeps no programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fastprof.decode.plane_kinds import DEVICE_PLANES
from fastprof.schema.tables import Need as Need
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs as Needs

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.derive.host import Host
    from fastprof.errors import FastprofError
    from fastprof.schema.tables import TableSchema
    from fastprof.wording.amounts import Steps


Value = int | float | str | bool | None
Known = Value | tuple[None, str]
"""A value, or None and the reason."""
Detail = TypeVar("Detail")
SEVERITIES = ("recommendation", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """Specification of a figure. ``unit``: ps, ms, %, bytes, … or None for counts, booleans and strings;
    ``definition``: formula in words; ``label``: display name, if it differs from the name; ``need``: records without
    which a 0 is unknown."""

    unit: str | None
    definition: str
    label: str = ""
    need: Need | None = None


def add_need(need: Need, specs: Mapping[str, ScalarSpec]) -> dict[str, ScalarSpec]:
    """Add a need to all specs."""
    return {name: replace(spec, need=need) for name, spec in specs.items()}


@dataclass(frozen=True, slots=True)
class Scalar:
    """Figure of a report. If ``value`` is None, ``reason`` says why it is unknown."""

    name: str
    value: Value
    unit: str | None
    definition: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Sentence for the user: a recommendation, or a remark about the capture. ``shared``: dependent reports show it,
    too."""

    severity: str
    text: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Alike:
    """Merging of similar rows: ``names`` differ by numbers only (``fusion.12`` and ``fusion.17``, ``layer_3/`` and
    ``layer_4/``), other columns are equal, and amounts differ by at most 10 %. ``summed``: columns that are added up;
    the others show the first row. ``by``: columns to compare; empty for the shown ones."""

    names: tuple[str, ...]
    summed: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Section of a report as text: ``columns`` of ``table``, at most ``rows`` rows, with a bar for the share (0 to 1)
    in the column ``bar``; without a table, the figures ``scalars``.

    ``shown``: whether a report has the section; None for always. ``nonzero``: a column whose rows with 0 are only
    listed by the name in the column before. ``only``: rows to show; None for all. ``kernels``: a column of kernel names
    to shorten. ``depth``: a column of tree depths in preorder, drawn as branches before the first column. ``parts``:
    columns to hide if they are always 0. ``by_worth``: hide the last column first if the text is too wide, instead of
    numbers before strings. ``alike``: how similar rows are merged; None for no merging. ``in_words``: a paragraph per
    row: the first column and the amounts, then a line for each other string. ``wraps``: a column whose strings are
    wrapped instead of cut. ``words``: display names of values, by column or figure; a cell may list several values.
    ``details``: columns that only verbose texts show. ``beside``: strings of a paragraph that share a line.
    ``summary``: a sentence that stands for the section unless the text is verbose.
    """

    title: str
    table: str | None = None
    columns: tuple[str, ...] = ()
    bar: str | None = None
    rows: int = 10
    scalars: tuple[str, ...] = ()
    shown: Callable[[AnalysisReport], bool] | None = None
    nonzero: str | None = None
    kernels: str | None = None
    depth: str | None = None
    only: Callable[[pa.Table], pa.Array] | None = None
    parts: tuple[str, ...] = ()
    by_worth: bool = False
    alike: Alike | None = None
    in_words: bool = False
    wraps: str = ""
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    summary: Callable[[AnalysisReport], str] | None = None


def has_rows(table: str, only: Callable[[pa.Table], Any] | None = None) -> Callable[[AnalysisReport], bool]:
    """Return a predicate for Section.shown: whether the table has rows that ``only``, a Section.only, selects."""
    return lambda report: (
        report.tables[table].num_rows > 0 and (only is None or any(only(report.tables[table]).tolist()))
    )


@dataclass(frozen=True, slots=True)
class Opening:
    """Opening of a page. ``headlines``: sentences with figure names in braces; the page uses the first one whose
    figures are all known and whose first figure is not 0. ``figures``: most important first; six are shown."""

    headlines: tuple[str, ...]
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Declarations of a capture. Any of them shows that it has something for an analysis; captures without them have
    nothing, which is known without reading their events. ``absent``: a sentence that says so; ``planes``, ``events``:
    regular expressions to search in names, ignoring case; ``stats``: names; ``programs``: whether compiled programs
    suffice."""

    absent: str
    planes: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    programs: bool = False


OF_OPS = Evidence(
    "No ops: the capture has no planes of devices, and no thread ran ops of compiled programs.",
    planes=(DEVICE_PLANES,),
    stats=("hlo_op",),
    programs=True,
)
"""Evidence for analyses of device ops."""

NO_PROGRAMS_OF_TORCH = "PyTorch's profiler records no compiled programs."
"""NOT_OF_TORCH of analyses of programs."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Host state that one report format needs in addition to that of analyses. It is computed only for that format.
    ``of_host`` takes the host and the parameters, and returns an object that can be pickled."""

    reads: Needs
    of_host: Callable[[Host, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """Answer of an analysis. ``after``: reports of its prerequisites; ``detail``: intermediate results for later
    analyses and renderers; ``kept``: host states by keeper; ``failure``: why the analysis has no answer, if others
    have; ``inapplicable``: why captures of this kind have neither rows nor figures; ``steps``: chosen steps, which may
    leave tables empty, or None for all."""

    analysis: str
    tables: Mapping[str, pa.Table]
    scalars: Mapping[str, Scalar]
    notices: tuple[Notice, ...] = ()
    after: Mapping[str, AnalysisReport] = field(default_factory=dict, repr=False)
    detail: object = field(default=None, repr=False)
    kept: Mapping[str, Sequence[Any]] = field(default_factory=dict, repr=False)
    failure: FastprofError | None = None
    inapplicable: str | None = None
    steps: Steps | None = None

    def detail_as(self, kind: type[Detail]) -> Detail:
        """Return ``detail``, which has the type that the analysis documents. TypeError: it has another type."""
        if not isinstance(self.detail, kind):
            raise TypeError(f"the detail of {self.analysis} is {type(self.detail).__name__}, not {kind.__name__}")
        return self.detail


def is_known(figure: str) -> Callable[[AnalysisReport], bool]:
    """Return a predicate for Section.shown: whether a figure has a value other than 0."""
    return lambda report: bool(report.scalars[figure].value)


class Analysis(Protocol):
    """Module of this package, as the runner and the renderers see it."""

    __doc__: str | None
    NAME: str
    READS: Needs
    AFTER: tuple[str, ...]
    Params: type[Any]
    TABLES: Mapping[str, TableSchema]
    SCALARS: Mapping[str, ScalarSpec]
    SECTIONS: tuple[Section, ...]

    def of_host(self, host: Host, params: Any) -> Any: ...

    def run(self, kept: Sequence[Any], params: Any, after: Mapping[str, AnalysisReport]) -> AnalysisReport: ...


def get_known(figure: Scalar) -> Known:
    """Return the value of a figure of another report, or None and the reason."""
    return (None, figure.reason or "not known") if figure.value is None else figure.value


def make_scalars(specs: Mapping[str, ScalarSpec], values: Mapping[str, Known]) -> dict[str, Scalar]:
    """Return figures with their definitions, all of ``specs`` in that order. A value may be ``(None, reason)``; a 0 is
    unknown without the records that it needs."""
    scalars: dict[str, Scalar] = {}
    for name, spec in specs.items():
        value, reason = _split_reason(values[name])
        if spec.need is not None and value == 0 and (why := explain_absence(spec.need, values[spec.need.count])):
            value, reason = None, why
        scalars[name] = Scalar(name, value, spec.unit, spec.definition, reason)
    return scalars


def explain_absence(need: Need, count: Known) -> str | None:
    """Return why values that need these records are unknown, or None if there are such records."""
    value, why = _split_reason(count)
    return None if value or (value is not None and not need.absent) else why or need.absent


def _split_reason(value: Known) -> tuple[Value, str | None]:
    return value if isinstance(value, tuple) else (value, None)


class LazyTables(Mapping[str, "pa.Table"]):
    """Tables that are made at first access. ``made``: tables, or functions that make them, by name."""

    def __init__(self, made: Mapping[str, pa.Table | Callable[[], pa.Table]]) -> None:
        self._made = dict(made)

    def __getitem__(self, name: str) -> pa.Table:
        table = self._made[name]
        if callable(table):
            table = self._made[name] = table()
        return table

    def make(self, *names: str) -> None:
        """Make these tables now, so that their sources can be freed."""
        for name in names:
            self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all tables."""
        return LazyTables, (dict(self),)

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
