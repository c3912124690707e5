"""Profile: what users of the API hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastprof.analyses import ANALYSES, contract
from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.decode.selection import ChosenSteps, Interval, Patterns, Selection, narrow_steps
from fastprof.decode.workers import Progress, Workers, count_cpus
from fastprof.errors import FastprofError, MemoryLimitError, UnreadableError, UsageError
from fastprof.inputs import open_files
from fastprof.inputs.directory_content import GraphFiles
from fastprof.inputs.resolve import Named, Run, Session, resolve_runs
from fastprof.profile.analysis_methods import AnalysisMethods
from fastprof.profile.report import ForXprof, Report, Runs, choose_runs
from fastprof.profile.sql import SqlQueries
from fastprof.tables.event_summary import make_event_summary
from fastprof.tables.table_set import BATCH_ROWS, TABLES, OpenSession, TableSet
from fastprof.wording.amounts import Steps
from fastprof.wording.quantities import count_noun, format_size, format_time, list_few
from fastprof.wording.screen import escape_text, wrap_text

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

    from fastprof.decode.xspace_capture import Capture
    from fastprof.export.by_workers import RunOfWorkers
    from fastprof.hlo.program_graph import ProgramGraph
    from fastprof.profile.exported_reports import ExportedReports
    from fastprof.tables.tables_of_runs import TablesOfRuns
    from fastprof.tfprof.tfprof_answer import TfprofAnswer
    from fastprof.tfprof.tfprof_views import TfprofAdvice, TfprofView, ViewSets

_Reports = Callable[[str], Mapping[str, Report]]
_REPR_WIDTH = 88  # of the names of tables and analyses


def _make_table_property(name: str) -> Any:
    """Return a property of a profile that holds the table."""

    def read(profile: Profile) -> pa.Table:
        return profile.tables[name]

    return property(read, doc=f"The table ``{name}``: one row is {TABLES[name].row}.")


def check_batch_rows(rows: int) -> None:
    if not 1 <= rows < 2**63:
        raise UsageError("batch_rows must be an integer of at least 1")


class Profile(AnalysisMethods, SqlQueries):
    """A session: its captures as Arrow tables, decoded on first use, and its analyses. Immutable; made by ``load``.

    ``tables`` holds the tables by name, and each table is an attribute: ``p.events`` is ``p.tables["events"]``.
    docs/tables.md describes their columns. Each analysis is a method that returns a Report: ``p.overview()``.
    """

    def __init__(
        self, tables: TableSet, source: Any, how: dict[str, Any], steps: Steps | None = None, part: str | None = None
    ) -> None:
        """``part``: name of this run if ``source`` has several."""
        self._of_all_steps = tables
        self._part = part
        self._steps = steps
        self._source = source
        self._how = how
        self._reports: dict[tuple[Any, ...], Report] = {}

    @cached_property
    def _tables(self) -> TableSet:
        """Tables of the selection. If steps are selected, of the time that these take on each host."""
        if self._steps is None:
            return self._of_all_steps
        from fastprof.analyses import accumulation

        every = self._of_all_steps
        return TableSet(every.session, every.selection.within(accumulation.read_step_times(every, self._steps)))

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> Any:
            known = dir(type(self))
            if name in known:  # a property, whose own error is what a user wants to see
                return object.__getattribute__(self, name)
            from fastprof.wording.spelling import suggest_name

            public = [known_name for known_name in known if not known_name.startswith("_")]
            hint = "" if name.startswith("_") else suggest_name(name, public)
            raise AttributeError(f"a profile has no attribute {name!r}{hint}", name=name, obj=self)

    # ---- tables

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Tables by name. Each is decoded on first use and then cached."""
        return self._tables

    hosts: pa.Table = _make_table_property("hosts")
    planes: pa.Table = _make_table_property("planes")
    plane_stats: pa.Table = _make_table_property("plane_stats")
    lines: pa.Table = _make_table_property("lines")
    events: pa.Table = _make_table_property("events")
    event_stats: pa.Table = _make_table_property("event_stats")
    event_metadata: pa.Table = _make_table_property("event_metadata")
    event_metadata_stats: pa.Table = _make_table_property("event_metadata_stats")
    stat_metadata: pa.Table = _make_table_property("stat_metadata")
    hlo_modules: pa.Table = _make_table_property("hlo_modules")
    hlo_computations: pa.Table = _make_table_property("hlo_computations")
    hlo_instructions: pa.Table = _make_table_property("hlo_instructions")
    hlo_costs: pa.Table = _make_table_property("hlo_costs")
    hlo_allocations: pa.Table = _make_table_property("hlo_allocations")
    hlo_buffers: pa.Table = _make_table_property("hlo_buffers")
    hlo_heap_events: pa.Table = _make_table_property("hlo_heap_events")
    tfprof_profiles: pa.Table = _make_table_property("tfprof_profiles")
    tfprof_nodes: pa.Table = _make_table_property("tfprof_nodes")
    tfprof_executions: pa.Table = _make_table_property("tfprof_executions")
    tfprof_memory: pa.Table = _make_table_property("tfprof_memory")
    graph_nodes: pa.Table = _make_table_property("graph_nodes")
    import_log: pa.Table = _make_table_property("import_log")
    nesting: pa.Table = _make_table_property("nesting")
    flows: pa.Table = _make_table_property("flows")

    def read(self, *names: str) -> dict[str, pa.Table]:
        """Return several tables from one pass over the capture: ``read("events", "event_stats")``."""
        return self._tables.read(*names)

    def event_table(self, columns: Sequence[str] | None = None, stats: Sequence[str] = ()) -> pa.Table:
        """Return columns of ``events`` (None: all), and one typed column per named stat.

        The value of a stat is the event's own, else from its event metadata; the first if there are several; null if
        there is none. Integers are int64 (uint64 as two's complement), doubles float64, texts a dictionary, bytes
        large_binary. A stat with both integers and doubles is float64 if that is exact; other mixtures are text.
        UsageError: no capture of the session has a stat of this name.
        """
        return self._tables.event_table(columns, stats)

    def scan(
        self, columns: Sequence[str] | None = None, stats: Sequence[str] = (), batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``event_table`` as record batches of about ``batch_rows`` rows, in bounded memory.

        All batches have one schema; each has its own dictionaries, with int32 indices. If there are no events, there is
        one empty batch. The type of a stat follows from its values in the part of the session that has been read.
        Raises UsageError, at the batch, if a stat with doubles has an integer beyond 2**53.
        """
        check_batch_rows(batch_rows)
        return self._tables.batches(self._tables.event_request(columns, stats), batch_rows)

    def dataset(self, table: str = "events", *, stats: Sequence[str] = (), plain_texts: bool = False) -> Dataset:
        """Return a table as a ``pyarrow.dataset.Dataset``: DuckDB, Polars, pyarrow and others read only the columns and
        rows that a query needs. Planes and lines that a condition excludes are not decoded.

        ``stats``: additional columns of events, as in ``event_table``. ``plain_texts``: texts as large_string, for
        readers without dictionary support. It pickles as the profile does. UsageError: no such table or stat.
        """
        from fastprof.profile.table_dataset import TableDataset

        return TableDataset(self, table, stats, plain_texts)

    def stat_names(self) -> list[str]:
        """Return the stats that ``event_table`` accepts: those of selected events, and of metadata in their planes."""
        return self._tables.stat_names()

    def event_summary(self, percentiles: Sequence[int] = ()) -> pa.Table:
        """Return events by name: count, total, self, mean, min and max time; largest self time first, then by name.
        ``percentiles``: of the durations, such as (50, 99) for the columns p50_ps and p99_ps."""
        return make_event_summary(self._tables, percentiles)

    def remarks(self) -> pa.Table:
        """Return the rows of ``import_log`` so far. Reads nothing further to complete them."""
        return self._session.log.table()

    # ---- analyses

    def report(self, name: str, **params: Any) -> Report:
        """Return the report of the analysis ``name``, computed once. docs/analyses lists names and parameters.
        UsageError: no such analysis or parameter."""
        (report,) = self.reports(name, **params).values()
        return report

    def reports(self, *names: str, **params: Any) -> dict[str, Report]:
        """Return several reports (without names: all) from one pass over the capture. A parameter is passed to all
        analyses that have it. If some fail, for example on damaged numbers, the others still run; failed reports have
        no rows and a notice of the severity "error". With several jobs, reports are of several runs: see ``by_job``."""
        return self.by_job.reports_together(*names, **params)

    @property
    def by_job(self) -> Profile:
        """This profile, or a profile of several runs if its traces cannot belong to one job: see docs/sessions.md."""
        return self

    def reports_together(self, *names: str, **params: Any) -> dict[str, Report]:
        """Return several reports of all hosts together, even if they are not of one job; see ``reports``."""
        from fastprof.analyses import runner

        for name in names:
            if not isinstance(name, str):
                raise UsageError(f"names of analyses are strings, not {type(name).__name__}")
        chosen = choose_analyses(names)
        given = tuple(sorted(params.items()))
        if not all(isinstance(value, Hashable) for value in params.values()):
            runner.make_params(runner.add_prerequisites(chosen), params)  # raises UsageError with the valid values
        missing = [name for name in chosen if (name, given) not in self._reports]
        if missing:
            compute, run = self._computing(), self.run or ""
            again: ForXprof = lambda names: compute(names, params, "xprof")  # noqa: E731  without this profile
            answers = compute(missing, params, "")
            self._reports.update({(name, given): Report(answer, again, run) for name, answer in answers.items()})
        reports = {name: self._reports[name, given] for name in chosen}
        failures = [report.answer.failure for report in reports.values()]
        if failures[0] is not None and None not in failures:
            raise failures[0]
        return reports

    def answers(self, names: Sequence[str], params: Mapping[str, Any], form: str) -> dict[str, contract.AnalysisReport]:
        """Return the reports for the renderers of a format. For ``xprof``, they also have the host values that
        XProf's pages need."""
        if form != "xprof":
            return {name: report.answer for name, report in self.reports_together(*names, **params).items()}
        return self._computing()(names, params, form)

    def _computing(self) -> Computing:
        """Return the function that computes reports."""
        return partial(compute_reports, self._session, self._selection, self._steps)

    # ---- tfprof

    def tfprof(
        self,
        view: str,
        *,
        host: str | None = None,
        preset: str | None = None,
        options: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> TfprofView:
        """Return a view of tfprof: "scope", "graph", "op" or "code"; see docs/tfprof.md for the options. It is of a
        profile of tfprof, or of the ops of a capture.

        ``given``: options by tfprof's names, ``select=["micros"]``. Other options have the defaults of tfprof's command
        line, of ``preset``, or of ``options``, a dictionary as tfprof's Python interface takes it. ``host``: whose
        profile, if several have one. UsageError: an unknown view, option or step, or no such profile.
        """
        from fastprof.tfprof.tfprof_views import TfprofView, choose_options

        chosen = choose_options(preset, options, given)
        return TfprofView(self._view_sets.of(host, chosen.step), view, chosen)

    def tfprof_answer(
        self, view: str, options: Mapping[str, Any], *, host: str | None = None, of_graph: bool = False, **given: Any
    ) -> TfprofAnswer:
        """Return the answer of tfprof's Python interface: a report or files, printed text, and a proto. No file is
        written. ``options``, ``given``, ``host``: as in ``tfprof``; ``of_graph``: tfprof reads the graph and its runs
        instead of a profile. UsageError: an unknown view or option."""
        from fastprof.derive.tfprof.options import DUMP, read_options
        from fastprof.tfprof.tfprof_answer import make_answer

        chosen = read_options(options).replaced(**given)
        views, dump = self._view_sets.of(host, chosen.step), options.get(DUMP, "")
        return make_answer(views, view, chosen, of_graph=of_graph, dump_to_file=dump)

    @property
    def tfprof_hosts(self) -> list[str]:
        """Hosts that have a profile of tfprof."""
        from fastprof.derive.tfprof.view_set import list_profiled_hosts

        return list_profiled_hosts(self._tables)

    def prepare_tfprof(self) -> None:
        """Make ahead what views of tfprof profiles share, so that the first view does not wait. Does nothing without
        such profiles. CaptureError: one is damaged."""
        for host in self.tfprof_hosts:
            self._view_sets.of(host).prepare()

    def tfprof_advice(self, checkers: Sequence[str] | None = None, *, host: str | None = None) -> TfprofAdvice:
        """Return the report of tfprof's advisor; ``checkers``: names of some of its checkers. UsageError: an unknown
        one."""
        from fastprof.tfprof.tfprof_views import TfprofAdvice

        return TfprofAdvice(self._view_sets.of(host), checkers)

    @cached_property
    def _view_sets(self) -> ViewSets:
        from fastprof.tfprof.tfprof_views import ViewSets

        def of_host(host: str | None) -> TableSet:
            return (self if host is None else self.select(hosts=host))._of_all_steps

        return ViewSets(self._tables, of_host, self._steps)

    # ---- programs

    def hlo_text(self, module: str | int, form: str = "short-txt", *, metadata: bool = False) -> str:
        """Return the text of a compiled program: "short-txt" or "long-txt", as XLA prints it, or "json" (docs/hlo.md).

        ``module``: its title ``jit_f(12)``, literally, the name before the parentheses, or the program id.
        ``metadata``: add the origin of instructions. UsageError: no program matches, or several do.
        """
        from fastprof.tables.program_choice import choose_program

        return "".join(choose_program(self._tables, module).text(form, metadata))

    def program_graph(self, module: str | int) -> ProgramGraph:
        """Return a compiled program, named as in ``hlo_text``, as a graph; docs/hlo.md has its tables."""
        from fastprof.hlo.program_graph import ProgramGraph
        from fastprof.tables.program_choice import choose_program

        return ProgramGraph(choose_program(self._tables, module).module)

    # ---- narrower profiles

    def select(
        self,
        *,
        hosts: str | Iterable[str] | None = None,
        planes: Patterns = None,
        lines: Patterns = None,
        names: Patterns = None,
        time_ps: Interval | None = None,
        steps: ChosenSteps | None = None,
        runs: str | Iterable[str] | None = None,
    ) -> Profile:
        """Return a profile of fewer events. Nothing is copied, and ids stay the same.

        ``hosts``: exact names. ``planes``, ``lines``, ``names`` (of events): a regular expression that matches anywhere
        in the name, or several as alternatives. ``time_ps=(a, b)``: events that overlap the time from a to b, b
        excluded; None leaves an end open. ``steps=(a, b)``: steps with numbers from a to b, b excluded, as the table of
        ``p.steps()`` numbers them; ``steps=a`` is one step; ``steps="train=8:12"``: steps called train. Analyses then
        use the events that belong to these steps; tables hold the events that overlap their time on each host;
        UsageError if no host has any of them. ``runs``: exact names, of several loaded runs. Selections of a selection
        narrow it further.
        """
        choose_runs(self.runs, runs)
        wanted = Selection().narrowed(hosts)
        wanted.check_hosts(self.host_names)
        selection = self._selection.narrowed(wanted.hosts, planes, lines, names, time_ps)
        return self._narrower(selection, narrow_steps(self._steps, steps))

    def _narrower(self, selection: Selection, steps: Steps | None) -> Profile:
        return Profile(TableSet(self._session, selection), self._source, self._how, steps, self._part)

    # ---- out

    def to_parquet(
        self, out: str | Path, *, tables: Sequence[str] | None = None, reports: Sequence[str] = (),
        replace: bool = False, force: bool = False, flat: bool = False, layout: str = "dataset",
        storage_options: Mapping[str, Any] | None = None, filesystem: Any = None,
    ) -> None:  # fmt: skip
        """Add the runs to the dataset ``out`` of Parquet files, a path or a URL, in bounded memory; see
        ``fastprof.export.write`` and docs/export.md."""
        from fastprof.export.exports import write

        write(
            self, out, layout=layout, tables=tables, reports=reports, replace=replace, force=force, flat=flat,
            storage_options=storage_options, filesystem=filesystem,
        )  # fmt: skip

    def to_trace(
        self, out: str | Path, *, format: str | None = None, derived: bool = True, stats: str = "all",
        resolution: float = 8000, max_text: int = 10_000, align_clocks: bool = False, force: bool = False,
    ) -> None:  # fmt: skip
        """Write the selected events for a trace viewer; see docs/trace.md. ``format``: "chrome", "perfetto", "xprof" or
        "xprof-streaming"; None: by the suffix of ``out``. Compressed if ``out`` ends in .gz. ``max_text``: in XProf's
        formats, bytes of a text that several events may repeat; 0: no limit. ``align_clocks``: align hosts by the clock
        offsets of the report ``communication``. ``force``: replace an existing file."""
        from fastprof.profile.trace_out import Trace, find_trace_form, get_clock_offsets

        form = find_trace_form(str(out)) if format is None else format
        if form is None:
            raise UsageError(f"the suffix of {out} does not name a trace format; give format")
        offsets = get_clock_offsets(self.reports_together("communication")["communication"]) if align_clocks else None
        trace = Trace(
            self._tables, form, derived=derived, stats=stats, resolution=resolution, max_text=max_text, offsets=offsets
        )
        trace.write(out, force)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.events.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.events.schema.__arrow_c_schema__()

    # ---- properties

    @property
    def table_set(self) -> TableSet:
        """Tables as analyses receive them: of one run."""
        return self._tables

    @property
    def exported(self) -> TableSet | TablesOfRuns:
        """Tables as exports receive them: of one run or of several."""
        return self._tables

    @property
    def by_workers(self) -> Sequence[RunOfWorkers]:
        """Runs whose hosts workers export, if the profile has an executor."""
        return ()

    def exported_reports(self, names: Sequence[str]) -> ExportedReports:
        """Reports as exports receive them."""
        from fastprof.profile.exported_reports import ExportedReports

        return ExportedReports(names, self.reports)

    @property
    def sources(self) -> list[str]:
        """Paths of the captures."""
        return [capture.path for capture in self._session.captures]

    @property
    def size_bytes(self) -> int:
        """Bytes of the captures, unpacked, selected or not."""
        return sum(capture.size_bytes for capture in self._session.captures)

    @property
    def host_names(self) -> list[str]:
        """Hosts of the session, selected or not."""
        return self._session.hosts

    @property
    def run(self) -> str | None:
        """Name of the loaded run of a log directory."""
        return self._session.run

    @property
    def has_runs(self) -> bool:
        """Return whether several runs were loaded. Tables then have the column ``run``, even if one run is selected."""
        return False

    @property
    def runs(self) -> Mapping[str, Profile]:
        """Loaded runs by name, each a profile of its own. A single run without a name is called ""."""
        return Runs({self.run or "": self})

    @property
    def threads(self) -> int:
        return self._session.workers.threads

    @property
    def _session(self) -> OpenSession:
        return self._of_all_steps.session

    @property
    def _selection(self) -> Selection:
        """Selection without the steps that are selected."""
        return self._of_all_steps.selection

    def _selected_captures(self) -> list[Capture]:
        selected = self._of_all_steps._wanted_hosts()
        return [capture for capture, wanted in zip(self._session.captures, selected, strict=True) if wanted]

    def _selected(self) -> str:
        """Return the selection as text; empty if it is everything."""
        steps = "" if self._steps is None else f"steps {self._steps}"
        return "; ".join(filter(None, (str(self._of_all_steps.selection), steps)))

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: hosts, devices, times and steps, and the names of tables and analyses."""
        return _render_notebook(self._tables, self._selected_captures(), self._selected(), self.reports_together)

    def __repr__(self) -> str:
        captures = self._selected_captures()
        hosts = [capture.host for capture in captures]
        size = sum(capture.size_bytes for capture in captures)
        shown = ", ".join(hosts[:4]) + (f", … {len(hosts) - 4} more" if len(hosts) > 4 else "")
        lines = [f"<fastprof.Profile: {len(hosts)} host{'s' * (len(hosts) != 1)} ({shown}), {format_size(size)}"]
        if self.run:
            lines.append(f"  run      {self.run}")
        if self._selected():
            lines.append(f"  selected {self._selected()}")
        lines.append(f"  devices  {_count_devices(captures) or 'none'}")
        for kind, names in (("tables", self.tables), ("analyses", ANALYSES)):
            first, *rest = wrap_text(", ".join(names), _REPR_WIDTH)
            lines += [f"  {kind:<8} {first}", *(f"           {line}" for line in rest)]
        for name, table in self._tables.decoded().items():
            lines.append(f"  {name:<8} {table.num_rows:,} rows")
        return "\n".join(map(escape_text, lines)) + ">"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reload, (self._source_again(), self._how, self._selection, self._steps, self._part)

    def _source_again(self) -> Any:
        """Return the source in a form that can be pickled."""
        items = self._source if isinstance(self._source, (list, tuple)) else [self._source]
        if any(hasattr(item, "read") and not isinstance(item, GraphFiles) for item in items):
            raise FastprofError("a profile of a stream cannot be pickled: save the stream to a file and load that file")
        items = [bytes(item) if isinstance(item, memoryview) else item for item in items]
        return items if isinstance(self._source, (list, tuple)) else items[0]


def get_method_name(name: str) -> str:
    """Return the name of an analysis as methods have it; any other name as it is."""
    plain = name.replace("-", "_")
    return plain if plain in ANALYSES else name


def choose_analyses(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the analyses, each once; without names, all."""
    return tuple(dict.fromkeys(map(get_method_name, names))) or tuple(ANALYSES)


def check_names(analyses: Iterable[str]) -> None:
    """Raise TypeError if an analysis has the name of something that a profile has itself."""
    taken = sorted(set(analyses) & set(vars(Profile)))
    if taken:
        raise TypeError(
            f"an analysis cannot be called {taken[0]!r}, because Profile.{taken[0]} exists and would hide its method; "
            "choose another NAME"
        )


check_names(ANALYSES)


def _reload(source: Any, how: dict[str, Any], selection: Selection, steps: Steps | None, part: str | None) -> Profile:
    opened, _ = open_runs(source, **how, again=True)
    tables = next(iter(opened.values())) if part is None else opened[part]
    return Profile(TableSet(tables.session, selection), source, how, steps, part)


Computing = Callable[[Sequence[str], Mapping[str, Any], str], dict[str, contract.AnalysisReport]]
"""Function from names of analyses, their parameters and a format to the reports."""


def compute_reports(
    session: OpenSession,
    selection: Selection,
    steps: Steps | None,
    names: Sequence[str],
    params: Mapping[str, Any],
    form: str,
) -> dict[str, contract.AnalysisReport]:
    """Return the reports of an open session."""
    from fastprof.analyses import runner

    session.jobs()
    return runner.run(TableSet(session, selection), names, params, steps, get_host_readers(names, form))


def get_host_readers(names: Sequence[str], form: str) -> Mapping[str, contract.Keeper]:
    """Return the host values that a format needs in addition to the reports: XProf's pages need more."""
    if form != "xprof":
        return {}
    from fastprof.xprof import report_xprof

    return report_xprof.list_keepers(names)


ON_ERROR = ("raise", "skip", "salvage")


def open_runs(
    path: Named | Sequence[Named],
    *,
    run: str | Run | Sequence[str | Run] | None = None,
    as_hosts: bool = False,
    on_error: str = "raise",
    threads: int | None = None,
    max_unpacked: int | None = None,
    progress: Progress | None = None,
    again: bool = False,
) -> tuple[dict[str, TableSet], bool]:
    """Return the tables of each run by its name, and whether several runs were named; arguments and errors as of
    ``load``. ``again``: they were open before, so each is a file; UnreadableError: a pipe or a device is in its
    place."""
    most = check_reading(on_error, threads, max_unpacked)
    sessions = resolve_runs(path, name_runs(run), missing_ok=on_error != "raise", as_hosts=as_hosts)
    for file in [file for session in sessions.values() for file in session.files if again and file.pipe]:
        raise UnreadableError("is now a pipe or a device; a file was expected", path=file.path)
    workers = Workers(threads or count_cpus(), progress, if_large=threads is None)
    if len(sessions) == 1:
        return {name: _open_session(session, on_error, workers, most) for name, session in sessions.items()}, False
    return _open_each(sessions, on_error, workers, most), True


def check_reading(on_error: str, threads: int | None, max_unpacked: int | None) -> int:
    """Return the number of bytes that a compressed capture may unpack to. UsageError: an argument has another type or
    an unknown value."""
    if on_error not in ON_ERROR:
        raise UsageError(f"on_error must be one of {', '.join(ON_ERROR)}, not {on_error!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise UsageError("threads must be an integer of at least 1")
    return open_files.check_limit(max_unpacked)


def name_runs(run: str | Run | Sequence[str | Run] | None) -> str | list[str] | None:
    listed = [run] if run is None or isinstance(run, (str, Run)) else list(run) if isinstance(run, Sequence) else [run]
    names = [named.name if isinstance(named, Run) else named for named in listed]
    for name in names:
        if name is not None and not isinstance(name, str):
            raise UsageError(f"run must be the name of a run, or a list of names, not {type(name).__name__}")
    if isinstance(run, Sequence) and not isinstance(run, str):
        return [str(name) for name in names]
    return names[0]


def _open_session(session: Session, on_error: str, workers: Workers, max_unpacked: int) -> TableSet:
    for remark in session.remarks:
        import logging  # few sessions have remarks

        logging.getLogger("fastprof").info("%s", escape_text(remark.message))
    return TableSet(OpenSession(session, on_error, workers, max_unpacked), Selection())


def _open_each(
    sessions: Mapping[str, Session], on_error: str, workers: Workers, max_unpacked: int
) -> dict[str, TableSet]:
    """Open the runs. If damaged hosts may be left out, so may runs without any other; the log of the first reports
    them."""
    opened: dict[str, TableSet] = {}
    faults: list[FastprofError] = []
    for name, session in sessions.items():
        try:
            opened[name] = _open_session(session, on_error, workers, max_unpacked)
        except MemoryLimitError:
            raise
        except FastprofError as error:
            if on_error == "raise":
                raise
            faults.append(error)
    if not opened:
        raise faults[0]
    for fault in faults:
        text = f"a run without a host that can be read: {fault.message}"
        next(iter(opened.values())).session.log.add("error", "skipped_run", text, fault.path)
    return opened


# ---- notebooks


_READ_BYTES = 32 << 20
"""Sessions up to this size are read for their times and steps; larger ones would keep the notebook waiting."""


def _render_notebook(tables: TableSet, captures: list[Capture], selected: str, reports: _Reports) -> str:
    """Return the HTML of a session. ``captures``: those of the selected hosts. ``selected``: the selection as text.
    ``reports`` computes them."""
    from fastprof.render import report_html

    rows = [
        ("Hosts", f"{len(captures):,}: {list_few((capture.host for capture in captures), 8)}"),
        ("Run", tables.session.run or ""),
        ("Selected", selected),
    ]
    size = sum(capture.size_bytes for capture in captures)
    rows += [("Size", format_size(size)), ("Devices", _count_devices(captures)), *_format_read(tables, reports, size)]
    rows += [("Tables", ", ".join(tables)), ("Analyses", ", ".join(f"{name}()" for name in ANALYSES))]
    shown = [list(row) for row in rows if row[1]]
    lines = [report_html.make_heading("Profile", 3), report_html.make_fact_list(shown)]
    return report_html.make_element(lines)


def _count_devices(captures: list[Capture]) -> str:
    """Count the devices by type, from the names of planes: ``4 TPU, 2 CPU``."""
    kinds = (find_device_of_plane(name)[0] for capture in captures for name, _ in capture.plane_keys)
    counts = Counter(kind for kind in kinds if kind not in (None, "CUSTOM", "CHIP"))
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def _format_read(tables: TableSet, reports: _Reports, size: int) -> Iterator[tuple[str, str]]:
    """Yield what needs events to be read, or their fault."""
    if size > _READ_BYTES:
        yield "Steps", "steps() reads them"
        return
    try:
        yield from _format_times(tables)
        steps = reports("steps")["steps"].scalars["step_count"].value
        yield "Steps", f"{steps:,}" if isinstance(steps, int) else "none"
    except FastprofError as error:
        yield "Fault", str(error)


def _format_times(tables: TableSet) -> Iterator[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = tables.event_table(["start_ps", "duration_ps"], ())
    lines, planes = tables["lines"].num_rows, tables["planes"].num_rows
    yield (
        "Events",
        f"{table.num_rows:,} on {count_noun(lines, 'line', 'lines')} of {count_noun(planes, 'plane', 'planes')}",
    )
    first = pc.min(table["start_ps"]).as_py()
    try:
        last = pc.max(pc.add_checked(table["start_ps"], table["duration_ps"])).as_py()
    except pa.ArrowInvalid:  # beyond 64 bits, which is damage
        last = None
    if first is not None and last is not None:
        yield "Time", f"{format_time(last - first)}, from {format_time(first)} to {format_time(last)}"
