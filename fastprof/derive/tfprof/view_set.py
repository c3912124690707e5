"""The views of one profile, which share what does not depend on options: trees of names, inputs, ops and lines."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

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

T = TypeVar("T")
_TABLES: Final = ("tfprof_nodes", "tfprof_executions", "tfprof_memory")


class ViewSet:
    """Every view of what one host recorded."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self._making: dict[Callable[[Recorded], Any], Lock] = {kind: Lock() for kind in (Walk, _scopes, CodeLines, Ops)}
        self._made: dict[Callable[[Recorded], Any], Any] = {}

    @property
    def lines(self) -> CodeLines:
        return self._of(CodeLines)

    def prepare(self) -> None:
        """Makes ahead what views share. CaptureError: the profile is damaged."""
        self.recorded.figures(-1)
        for kind in self._making:
            self._of(kind)

    def _of(self, kind: Callable[[Recorded], T]) -> T:
        """What views share of this kind, made once, whichever thread needs it first."""
        with self._making[kind]:
            if kind not in self._made:
                self._made[kind] = kind(self.recorded)
        made: T = self._made[kind]
        return made

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
            return op_view.shown(self.recorded, self._of(Ops), options)
        if view == "scope":
            return views.shown(scope_view.tree(self.recorded, self._of(_scopes), options), options)
        if view == "graph":
            if self.recorded.without_graph is not None:
                raise UsageError(self.recorded.without_graph)
            return views.shown(graph_view.tree(self.recorded, self._of(Walk), options), options)
        if not self.lines.is_known:
            raise UsageError(self.recorded.without_code)
        return views.shown(code_view.tree(self.recorded, self.lines, options), options)

    def has_step(self, step: int) -> bool:
        return step < 0 or step in self.recorded.steps


def _scopes(recorded: Recorded) -> NameScopes:
    return NameScopes(recorded.names)


def hosts_of(tables: TableSet) -> list[str]:
    """The hosts of a session that have a profile of tfprof."""
    hosts: list[str] = texts(tables["tfprof_profiles"]["host"]).to_pylist()
    return hosts


def view_set(tables: TableSet, host: str | None = None) -> ViewSet:
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
    columns = tables.tfprof_columns(hosts[place])
    return ViewSet(Recorded(described, *(columns[name] for name in _TABLES)))


def views_of_profile(capture: Capture) -> ViewSet | None:
    """The views of the profile that a capture carries; None: it carries none. CaptureError: it is damaged."""
    profile = profile_of(capture)
    if profile is None:
        return None
    from fastprof.tables.tfprof_rows import LazyColumns

    described = {"steps": profile.steps.tolist(), "misses_accelerator_stream": profile.misses_accelerator_stream}
    return ViewSet(Recorded(described, *(LazyColumns(name, capture.host, profile, capture.path) for name in _TABLES)))


def check_view(view: str) -> None:
    """UsageError: tfprof has no such view."""
    if view not in VIEWS:
        raise UsageError(f"unknown view {view!r}{meant(view, VIEWS)} (choose from {', '.join(VIEWS)})")
