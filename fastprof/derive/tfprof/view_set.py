"""The views of one profile, which share what does not depend on options: trees of names, inputs, ops and lines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.decode.tfprof_profile import profile_of
from fastprof.derive.tfprof import code_view, graph_view, op_view, scope_view, views
from fastprof.derive.tfprof.code_view import CodeLines
from fastprof.derive.tfprof.graph_view import Walk
from fastprof.derive.tfprof.name_scopes import NameScopes
from fastprof.derive.tfprof.op_view import Ops
from fastprof.derive.tfprof.options import VIEWS, Options
from fastprof.derive.tfprof.recorded import Recorded, texts
from fastprof.derive.tfprof.views import Shown
from fastprof.errors import UsageError
from fastprof.tables.table_set import TableSet
from fastprof.wording.spelling import meant

if TYPE_CHECKING:
    from fastprof.decode.xspace_capture import Capture


class ViewSet:
    """Every view of what one host recorded."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded

    @cached_property
    def _scopes(self) -> NameScopes:
        return NameScopes(self.recorded.names)

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self.recorded)

    @cached_property
    def _ops(self) -> Ops:
        return Ops(self.recorded)

    @cached_property
    def lines(self) -> CodeLines:
        return CodeLines(self.recorded)

    def shown(self, view: str, options: Options) -> Shown:
        """A view under options. UsageError: an unknown view or step, or no code is recorded."""
        check_view(view)
        if not self.has_step(options.step):
            steps = ", ".join(map(str, self.recorded.steps)) or "none"
            raise UsageError(f"the profile has no step {options.step}; its steps: {steps}")
        if not self.recorded.is_capture:
            return self._shown(view, options)
        from fastprof.derive.tfprof.captured import Captured  # with all that finds ops in captures

        assert isinstance(self.recorded, Captured)
        return self.recorded.in_micros(self._shown(view, self.recorded.in_ticks(options)))

    def _shown(self, view: str, options: Options) -> Shown:
        if view == "op":
            return op_view.shown(self.recorded, self._ops, options)
        if view == "scope":
            return views.shown(scope_view.tree(self.recorded, self._scopes, options), options)
        if view == "graph":
            if self.recorded.without_graph is not None:
                raise UsageError(self.recorded.without_graph)
            return views.shown(graph_view.tree(self.recorded, self._walk, options), options)
        if not self.lines.is_known:
            raise UsageError(self.recorded.without_code)
        return views.shown(code_view.tree(self.recorded, self.lines, options), options)

    def has_step(self, step: int) -> bool:
        return step < 0 or step in self.recorded.steps


def hosts_of(tables: Mapping[str, pa.Table]) -> list[str]:
    """The hosts of a session that have a profile of tfprof."""
    hosts: list[str] = texts(tables["tfprof_profiles"]["host"]).to_pylist()
    return hosts


def view_set(tables: Mapping[str, pa.Table], host: str | None = None) -> ViewSet:
    """The views of a host's profile, from the tables of a session. UsageError: none of this host, or several."""
    hosts = hosts_of(tables)
    if not hosts:
        raise UsageError("the session has no profile of tfprof, and no graph")
    if host is None and len(hosts) > 1:
        raise UsageError(f"{len(hosts)} hosts have profiles of tfprof: {', '.join(hosts)}; choose one")
    if host is not None and host not in hosts:
        raise UsageError(f"host {host!r} has no profile of tfprof{meant(host, hosts)} (there are: {', '.join(hosts)})")
    place = 0 if host is None else hosts.index(host)
    (described,) = tables["tfprof_profiles"].slice(place, 1).to_pylist()
    names = ("tfprof_nodes", "tfprof_executions", "tfprof_memory")
    if isinstance(tables, TableSet):
        columns = tables.tfprof_columns(hosts[place])
        return ViewSet(Recorded(described, *(columns[name] for name in names)))
    own = [tables[name] for name in names]
    if len(hosts) > 1:
        own = [table.filter(pc.equal(texts(table["host"]), hosts[place])) for table in own]
    return ViewSet(Recorded(described, *own))


def views_of_profile(capture: Capture) -> ViewSet | None:
    """The views of the profile that a capture carries; None: it carries none. CaptureError: it is damaged."""
    profile = profile_of(capture)
    if profile is None:
        return None
    from fastprof.tables.tfprof_rows import LazyColumns

    described = {"steps": profile.steps.tolist(), "misses_accelerator_stream": profile.misses_accelerator_stream}
    names = ("tfprof_nodes", "tfprof_executions", "tfprof_memory")
    return ViewSet(Recorded(described, *(LazyColumns(name, capture.host, profile, capture.path) for name in names)))


def check_view(view: str) -> None:
    """UsageError: tfprof has no such view."""
    if view not in VIEWS:
        raise UsageError(f"unknown view {view!r}{meant(view, VIEWS)} (choose from {', '.join(VIEWS)})")
