"""A view of tfprof, and its advice, as users hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from fastprof.decode.selection import narrow_steps
from fastprof.derive.tfprof.options import PRESETS, ViewOptions, check_choices, read_options
from fastprof.errors import UsageError
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from fastprof.derive.tfprof.view_set import ViewSet
    from fastprof.tables.table_set import TableSet
    from fastprof.wording.amounts import Steps

_KEPT = 4  # views of captures: there is one a step


def choose_options(preset: str | None, options: Mapping[str, Any] | None, given: Mapping[str, Any]) -> ViewOptions:
    """Return the options of a request: of tfprof's command line, of a preset or of a dictionary, then those given by
    name."""
    if preset is not None and options is not None:
        raise UsageError("preset and options exclude each other")
    if preset is not None:
        if preset not in PRESETS:
            raise UsageError(
                f"unknown preset {preset!r}{suggest_name(preset, PRESETS)} (choose from {', '.join(PRESETS)})"
            )
        options = PRESETS[preset]
    return check_choices((ViewOptions() if options is None else read_options(options)).replaced(**given))


def build_views(tables: TableSet, steps: Steps | None, step: int) -> ViewSet:
    """Build the views of what the selected hosts ran, in the chosen steps. UsageError: they ran no op, or have no such
    step."""
    from fastprof.analyses import runner
    from fastprof.derive.host import Host
    from fastprof.derive.ops import op_nodes
    from fastprof.derive.tfprof.captured import CapturedGraph
    from fastprof.derive.tfprof.view_set import ViewSet
    from fastprof.tables.needs import unite_needs

    needs = unite_needs([Host.GROUPING, op_nodes.READS])
    nodes = op_nodes.merge_nodes(runner.map_hosts(tables, needs, op_nodes.list_host_op_nodes, steps))
    if not nodes:
        raise UsageError("the session has no profile of tfprof, and no ops that ran")
    of_torch = bool(runner.find_inapplicable(tables.session))
    return ViewSet(CapturedGraph(nodes, step, of_torch=of_torch))


class ViewSets:
    """Views of a session's hosts, and of steps of its captures, which share what they can. ``tables_of``: returns the
    tables of one host, or of all, with all steps."""

    def __init__(self, tables: TableSet, tables_of: Callable[[str | None], TableSet], steps: Steps | None) -> None:
        self._tables, self._tables_of, self._steps = tables, tables_of, steps
        self._made: dict[tuple[str | None, int], ViewSet] = {}
        self._making = Lock()

    def of(self, host: str | None, step: int = -1) -> ViewSet:
        """Return the views of a host's profile, or else of its capture."""
        from fastprof.derive.tfprof.view_set import list_profiled_hosts, make_view_set

        profiles = list_profiled_hosts(self._tables)
        if profiles and (host is None or host in profiles or host not in self._tables.selected_hosts()):
            key = profiles[0] if host is None and len(profiles) == 1 else host, -1
            with self._making:
                if key not in self._made:
                    self._made[key] = make_view_set(self._tables, host)
                return self._made[key]
        key = host, max(step, -1)
        made = self._made.get(key)
        if made is None:
            for old in list(self._made)[: 1 - _KEPT]:
                self._made.pop(old, None)
            steps = narrow_steps(self._steps, None if step < 0 else step)
            made = self._made[key] = build_views(self._tables_of(host), steps, step)
        return made


class TfprofView:
    """A view: its rows as a table, the report as tfprof prints it, and its other outputs."""

    def __init__(self, views: ViewSet, view: str, options: ViewOptions) -> None:
        self.view = view
        self.options = options
        self.recorded = views.recorded
        self.shown = views.shown(view, options)
        self._views = views

    @cached_property
    def table(self) -> pa.Table:
        """The rows in the order of the report, the root first; numbers are complete and not rounded."""
        from fastprof.derive.tfprof.view_tables import make_view_table

        return make_view_table(self.shown, self.recorded)

    @cached_property
    def nodes(self) -> pa.Table:
        """The accounted nodes of each row."""
        from fastprof.derive.tfprof.view_tables import make_member_table

        return make_member_table(self.shown, self.recorded, self.options.step)

    @property
    def unknown(self) -> Mapping[str, str]:
        """Figures that are not recorded, and why: their columns are null."""
        return self.recorded.unknown

    def pieces(self) -> Iterator[str]:
        """Return the report, byte for byte as tfprof writes it to a file, in pieces; without unknown figures."""
        from fastprof.tfprof.tfprof_text import write_report

        options = self.options
        if self.recorded.is_capture:
            options = options.replaced(select=[name for name in options.select if name not in self.unknown])
        return write_report(self.shown, self.view, self.recorded, options)

    @property
    def text(self) -> str:
        """Report as one text."""
        return "".join(self.pieces())

    @property
    def complaints(self) -> list[str]:
        """Lines that tfprof writes to standard error beside the view: gradients of absent nodes, ignored options."""
        from fastprof.tfprof.tfprof_answer import list_complaints

        return list_complaints(self._views, self.view, self.options).splitlines()

    def timeline(self) -> str:
        """Return the view as a Chrome trace, as tfprof writes it. The graph view shows one step: choose it by
        ``step``."""
        from fastprof.tfprof.tfprof_answer import make_trace

        if self.view == "graph" and self.recorded.is_capture:
            raise UsageError("for the timeline of a capture, use 'fastprof export trace' or Profile.to_trace")
        return make_trace(self.shown, self.view, self.recorded, self.options)

    def to_pprof(self) -> bytes:
        """Return the code view as a compressed file of pprof; ``select`` names what its samples count."""
        from fastprof.tfprof.tfprof_answer import compress_stacks

        if self.view != "code":
            raise UsageError("pprof files need stacks, which only the view code has")
        return compress_stacks(self.shown, self._views, self.options)

    def to_pandas(self) -> pd.DataFrame:
        return self.table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<fastprof view {self.view} of tfprof: {len(self.shown.row):,} rows; .table, .nodes, .text>"


class TfprofAdvice:
    """The reports of tfprof's advisor, by the names of its checkers."""

    def __init__(self, views: ViewSet, checkers: Sequence[str] | None) -> None:
        from fastprof.derive.tfprof.view_set import CHECKERS
        from fastprof.tfprof.tfprof_text import list_advice, list_advice_complaints

        if views.recorded.is_capture:
            raise UsageError("the advisor is for profiles of tfprof; 'fastprof diagnosis' examines a capture")
        for name in checkers or ():
            if name not in CHECKERS:
                raise UsageError(
                    f"unknown checker {name!r}{suggest_name(name, CHECKERS)} (choose from {', '.join(CHECKERS)})"
                )
        wanted = CHECKERS if checkers is None else checkers
        self.reports: Mapping[str, list[str]] = list_advice(views, wanted)
        self.complaints: list[str] = list_advice_complaints(views, wanted).splitlines()
        """Lines that tfprof writes to standard error if something is not recorded."""

    @cached_property
    def table(self) -> pa.Table:
        """Table of reports, one a row: checker, report."""
        from fastprof.tfprof.tfprof_text import make_advice_table

        return make_advice_table(self.reports)

    def by_line(self) -> pa.Table:
        """Return the table with one row a line of a report, for people."""
        from fastprof.tfprof.tfprof_text import make_advice_table

        return make_advice_table({name: "\n".join(some).splitlines() for name, some in self.reports.items()})

    @cached_property
    def text(self) -> str:
        """Reports as tfprof prints them."""
        from fastprof.tfprof.tfprof_text import format_advice

        return format_advice(self.reports)

    def __repr__(self) -> str:
        return f"<fastprof advice of tfprof: {sum(map(len, self.reports.values()))} reports; .reports, .table, .text>"
