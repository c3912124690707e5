"""The views of one profile, which share what does not depend on options: trees of names, inputs, ops and lines; and
what tfprof's advisor examines by them: the use of accelerators, slow kinds of ops, and where most of the time goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow.compute as pc

from fastprof.decode.span_stats import read_tfprof_profile
from fastprof.derive.tfprof import views
from fastprof.derive.tfprof.forest import Ints, NameScopes
from fastprof.derive.tfprof.options import VIEWS, ViewOptions
from fastprof.derive.tfprof.recorded import FIGURES, RecordedGraph, get_flags, get_numbers, get_plain, get_texts
from fastprof.derive.tfprof.views import CodeLines, InputWalk, OpNodes, ViewTree, VisibleTree
from fastprof.errors import UsageError
from fastprof.schema.columns import find_runs, reduce_runs
from fastprof.schema.value_classes import dataclass
from fastprof.tables.table_set import TableSet
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.decode.xspace_capture import Capture


T = TypeVar("T")
_TABLES: Final = ("tfprof_nodes", "tfprof_executions", "tfprof_memory")


class ViewSet:
    """Every view of what one host recorded."""

    def __init__(self, recorded: RecordedGraph) -> None:
        self.recorded = recorded
        self._making: dict[Callable[[RecordedGraph], Any], Lock] = {
            kind: Lock() for kind in (InputWalk, _build_scopes, CodeLines, OpNodes)
        }
        self._made: dict[Callable[[RecordedGraph], Any], Any] = {}

    @property
    def lines(self) -> CodeLines:
        return self._of(CodeLines)

    def prepare(self) -> None:
        """Make ahead what views share. CaptureError: the profile is damaged."""
        self.recorded.figures(-1)
        for kind in self._making:
            self._of(kind)

    def _of(self, kind: Callable[[RecordedGraph], T]) -> T:
        """Return what views share of this kind, made once, whichever thread needs it first."""
        with self._making[kind]:
            if kind not in self._made:
                self._made[kind] = kind(self.recorded)
        made: T = self._made[kind]
        return made

    def shown(self, view: str, options: ViewOptions) -> VisibleTree:
        """Return a view under options. UsageError: an unknown view or step, or no code is recorded."""
        check_view(view)
        if not self.has_step(options.step):
            steps = ", ".join(map(str, self.recorded.steps)) or "none"
            raise UsageError(f"the profile has no step {options.step}; its steps: {steps}")
        if not self.recorded.is_capture:
            return self._shown(view, options)
        from fastprof.derive.tfprof.captured import CapturedGraph  # with all that finds ops in captures

        assert isinstance(self.recorded, CapturedGraph)
        return self.recorded.in_micros(self._shown(view, self.recorded.in_ticks(options)))

    def _shown(self, view: str, options: ViewOptions) -> VisibleTree:
        if view == "op":
            return views.show_ops(self.recorded, self.ops, options)
        return views.show_tree(self.tree(view, options), options)

    @property
    def ops(self) -> OpNodes:
        return self._of(OpNodes)

    def tree(self, view: str, options: ViewOptions) -> ViewTree:
        """Return the tree of scope, graph or code before rows are hidden. UsageError: the tree is not recorded."""
        if view == "scope":
            return views.build_scope_tree(self.recorded, self._of(_build_scopes), options)
        if view == "graph":
            if self.recorded.without_graph is not None:
                raise UsageError(self.recorded.without_graph)
            return views.build_graph_tree(self.recorded, self._of(InputWalk), options)
        if not self.lines.is_known:
            raise UsageError(self.recorded.without_code)
        return views.build_code_tree(self.recorded, self.lines, options)

    def has_step(self, step: int) -> bool:
        return step < 0 or step in self.recorded.steps


def _build_scopes(recorded: RecordedGraph) -> NameScopes:
    return NameScopes(recorded.names)


def list_profiled_hosts(tables: TableSet) -> list[str]:
    """List the hosts of a session that have a profile of tfprof."""
    hosts: list[str] = get_texts(tables["tfprof_profiles"]["host"]).to_pylist()
    return hosts


def make_view_set(tables: TableSet, host: str | None = None) -> ViewSet:
    """Make the views of a host's profile, from the tables of a session. UsageError: none of this host, or several."""
    hosts = list_profiled_hosts(tables)
    if not hosts:
        raise UsageError("the session has no profile of tfprof, and no graph")
    if host is None and len(hosts) > 1:
        raise UsageError(f"{len(hosts)} hosts have profiles of tfprof: {', '.join(hosts)}; choose one")
    if host is not None and host not in hosts:
        raise UsageError(
            f"host {host!r} has no profile of tfprof{suggest_name(host, hosts)} (there are: {', '.join(hosts)})"
        )
    place = 0 if host is None else hosts.index(host)
    (described,) = tables["tfprof_profiles"].slice(place, 1).to_pylist()
    columns = tables.tfprof_columns(hosts[place])
    return ViewSet(RecordedGraph(described, *(columns[name] for name in _TABLES)))


def read_views(capture: Capture) -> ViewSet | None:
    """Read the views of the profile that a capture carries, or return None. CaptureError: the profile is damaged."""
    profile = read_tfprof_profile(capture)
    if profile is None:
        return None
    from fastprof.tables.tfprof_rows import LazyColumns

    described = {"steps": profile.steps.tolist(), "misses_accelerator_stream": profile.misses_accelerator_stream}
    return ViewSet(
        RecordedGraph(described, *(LazyColumns(name, capture.host, profile, capture.path) for name in _TABLES))
    )


def check_view(view: str) -> None:
    """Raise UsageError if tfprof has no such view."""
    if view not in VIEWS:
        raise UsageError(f"unknown view {view!r}{suggest_name(view, VIEWS)} (choose from {', '.join(VIEWS)})")


CHECKERS: Final = ("AcceleratorUtilizationChecker", "OperationChecker", "ExpensiveOperationChecker", "JobChecker")
_TOP: Final = 3
_OPS: Final = ViewOptions(max_depth=3, min_micros=1, order_by="micros")
_SCOPES: Final = ViewOptions(max_depth=100, min_micros=100, order_by="micros")
_LINES: Final = ViewOptions(max_depth=100, min_micros=1, order_by="micros")
_LONG_US: Final = 1000
_DEEPEST: Final = 3
_LATEST: Final = 2**63 - 1


class AcceleratorUse(NamedTuple):
    """Share of the time between its first start and last end that an accelerator computed, in the last step."""

    device: str
    share: float


def measure_uses(recorded: RecordedGraph) -> list[AcceleratorUse]:
    """Return the use of each accelerator that ran anything, by name."""
    node, step, start, end = _find_last_runs(recorded)
    if not len(node):
        return []
    devices = recorded.devices.dictionary_encode()
    device_of = get_numbers(devices.indices)
    order = np.argsort(device_of[node], kind="stable")
    device = device_of[node][order]
    first = find_runs(device)
    begins = reduce_runs(np.minimum, np.where(start == 0, _LATEST, start)[order], first)
    ends = reduce_runs(np.maximum, end[order], first)
    busy_of, busy = _list_accelerator_times(recorded, node, step)
    by_device = np.argsort(device_of[busy_of], kind="stable")
    bounds = np.searchsorted(device_of[busy_of][by_device], np.append(device[first], len(devices.dictionary)))
    uses = []
    for place, number in enumerate(device[first].tolist()):
        name = devices.dictionary[number].as_py()
        begin = int(begins[place])
        span = max(0, int(ends[place])) - (begin if begin != _LATEST else 0)
        if "gpu" in name and span > 0:
            computed = busy[by_device[bounds[place] : bounds[place + 1]]]
            uses.append(AcceleratorUse(name, sum(computed.tolist()) / span))
    return sorted(uses, key=lambda use: use.device.encode())


def _find_last_runs(recorded: RecordedGraph) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the nodes that ran, the last step of each, and its start and end in that step."""
    runs = get_plain(recorded.nodes["run_times"])
    each, node = pc.list_flatten(runs), get_numbers(pc.list_parent_indices(runs))
    last = np.flatnonzero(np.diff(node, append=-1))
    step, start, end = (get_numbers(each.field(name))[last] for name in ("step", "start_us", "end_us"))
    return node[last], step, start, end


def _list_accelerator_times(recorded: RecordedGraph, node: Ints, step: Ints) -> tuple[Ints, Ints]:
    """Return the nodes and durations of what accelerators ran in these steps of nodes."""
    every = recorded.executions
    last, ran = np.zeros(len(recorded), np.int64), np.zeros(len(recorded), np.bool_)
    last[node], ran[node] = step, True
    rows = recorded.rows_of(every["name"])
    chosen = get_flags(every["is_accelerator"]) & ran[rows] & (last[rows] == get_numbers(every["step"]))
    return rows[chosen], get_numbers(every["duration_us"])[chosen]


def could_fuse_norms(recorded: RecordedGraph) -> bool:
    """Return whether nodes are called after batch normalisation, and none is the fused op."""
    if not pc.any(pc.match_substring(recorded.names, "BatchNorm")).as_py():
        return False
    types = get_texts(pc.list_flatten(get_plain(recorded.nodes["types"])))
    return not pc.any(pc.equal(types, "FusedBatchNorm")).as_py()


def find_channels_last(recorded: RecordedGraph) -> Ints:
    """Return the nodes of accelerators that have their channels last."""
    attrs = get_plain(recorded.nodes["attrs"])
    each = pc.list_flatten(attrs)
    values = pc.utf8_trim(get_texts(each.field("value")), '"')
    are_last = pc.and_(pc.equal(get_texts(each.field("name")), "data_format"), pc.equal(values, "NHWC"))
    nodes = get_numbers(pc.list_parent_indices(attrs))[get_flags(are_last)]
    on_gpu: Ints = nodes[get_flags(pc.match_substring(recorded.devices.take(nodes), "gpu"))]
    return np.unique(on_gpu)


class CostlyRow(NamedTuple):
    """Row of a view that takes long. ``figures`` are its own or its sums, in the order of FIGURES."""

    name: str
    depth: int
    figures: Ints


def find_costly_ops(views: ViewSet) -> tuple[list[CostlyRow], int]:
    """Return the ops that take longest, and the time of all. Without a row, nothing ran."""
    shown = views.shown("op", _OPS)
    names = shown.names.slice(1, _TOP).to_pylist()
    rows = [CostlyRow(name, 0, shown.figures[:, place]) for place, name in enumerate(names, 1)]
    return rows, int(shown.totals[FIGURES.index("micros"), 0])


def find_costly_scopes(views: ViewSet) -> list[CostlyRow]:
    """Return the top scopes by the time of all in them, with their own figures."""
    shown = views.shown("scope", _SCOPES)
    places = _list_below(shown, 0)[:_TOP]
    return [CostlyRow(shown.names[place].as_py(), 0, shown.figures[:, place]) for place in places]


def find_costly_lines(views: ViewSet) -> list[CostlyRow] | None:
    """Return the lines that take longest from the first branch of the code on, or None if it does not branch."""
    shown = views.shown("code", _LINES)
    below, place = _list_below(shown, 0), 0
    while len(below) == 1:
        (place,) = below
        below = _list_below(shown, place)
    return None if not below else list(_list_branches(shown, place, 0))


def _list_branches(shown: VisibleTree, place: int, depth: int) -> Iterator[CostlyRow]:
    below = _list_below(shown, place)
    if len(below) <= 1 or depth > _DEEPEST:
        return
    for row in below[:_TOP]:
        if shown.totals[FIGURES.index("micros"), row] >= _LONG_US:
            yield CostlyRow(shown.names[row].as_py(), depth, shown.totals[:, row])
            yield from _list_branches(shown, row, depth + 1)


class SlowNodes(NamedTuple):
    """Nodes that may take longer than they need: their count, their time in all steps, and the name and op of the
    longest. Time is that on accelerators, or on the host if there is none."""

    node_count: int
    time_us: int
    longest: str
    op: str


@dataclass(frozen=True, slots=True)
class AdvisorResult:
    """Findings of the advisor on one host, None for each kind that it has none of. ``costly``: the ops that take
    longest with their time, and ``total_us`` the time of all, in an average step; ``line``: the line of code that takes
    longest where the code first branches."""

    host: str
    uses: list[AcceleratorUse]
    unfused_norms: SlowNodes | None
    channels_last: SlowNodes | None
    costly: list[tuple[str, int]]
    total_us: int
    line: str | None


def examine_host(host: str, views: ViewSet) -> AdvisorResult:
    """Return what the advisor finds on a host. CaptureError: the profile is damaged."""
    recorded = views.recorded
    norms = get_flags(pc.match_substring(recorded.names, "BatchNorm")) if could_fuse_norms(recorded) else None
    lines = find_costly_lines(views) if views.lines.is_known else None
    ops, total_us = find_costly_ops(views) if recorded.steps else ([], 0)
    return AdvisorResult(
        host,
        measure_uses(recorded),
        None if norms is None else _sum_suspects(recorded, np.flatnonzero(norms)),
        _sum_suspects(recorded, find_channels_last(recorded)),
        [(op.name, int(op.figures[FIGURES.index("micros")])) for op in ops],
        total_us,
        lines[0].name if lines else None,
    )


def _sum_suspects(recorded: RecordedGraph, nodes: Ints) -> SlowNodes | None:
    every = recorded.executions
    rows, is_accelerator = recorded.rows_of(every["name"]), get_flags(every["is_accelerator"])
    times = np.zeros((2, len(recorded)), np.int64)
    for place, chosen in enumerate((is_accelerator, ~is_accelerator)):
        chosen = chosen & (rows >= 0)
        np.add.at(times[place], rows[chosen], np.maximum(get_numbers(every["duration_us"])[chosen], 0))
    of_nodes = times[0 if times[0, nodes].any() else 1, nodes]
    if not len(nodes):
        return None
    longest = int(nodes[int(np.argmax(of_nodes))])
    names, ops = recorded.names, recorded.ops
    return SlowNodes(len(nodes), sum(of_nodes.tolist()), names[longest].as_py(), ops[longest].as_py() or "")


def _list_below(shown: VisibleTree, place: int) -> list[int]:
    """Return the rows right below one."""
    end, last = shown.forest.end, int(shown.forest.end[place])
    rows, row = [], place + 1
    while row < last:
        rows.append(row)
        row = int(end[row])
    return rows
