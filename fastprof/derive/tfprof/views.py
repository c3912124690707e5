"""The four views: what is accounted, what is shown of it, in which order, and with which sums.

The scope view has nodes below the name scopes that their names begin with. The graph view has below each node the nodes
whose outputs it takes, each where it is met first: a walk goes depth first from the nodes that no other takes an output
of, in the order of names, to inputs in their order; nodes that only circles reach are not met. The op view has nodes by
their op, in one order; each row sums up itself and all rows after it.

The code view has lines of code below the lines that called them. A node is at the line that made it, the last of its
frames. Nodes of gradients have rows of their own, with the frames of the node that they belong to. Rows are in the
order in which nodes, by name, first have them; they are named as tfprof names frames: file without folder, number of
the line, and function, if long in part.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof._native.kernels import input_walk
from fastprof.derive.tfprof.forest import (
    EVERYTHING,
    ROOT,
    Flags,
    Ints,
    NameScopes,
    NodeForest,
    match_any,
    measure_depths,
    sort_preorder,
)
from fastprof.derive.tfprof.options import ViewOptions
from fastprof.derive.tfprof.recorded import DEFINED, FIGURES, RecordedGraph, get_coded, get_numbers, get_plain
from fastprof.schema.columns import find_group_bounds, find_runs, number_owners, sort_rows
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Nodes of each row: those of row r are ``node[begins[r]:begins[r + 1]]``, in the order of their names."""

    node: Ints
    begins: Ints

    @classmethod
    def of(cls, row: Ints, node: Ints, rows: int) -> NodeGroups:
        """Group pairs of a row and a node; a pair that comes twice counts once."""
        order = sort_rows(row, node)
        row, node = row[order], node[order]
        new = find_runs(row, node)
        return cls(node[new], find_group_bounds(row[new], rows))

    def __len__(self) -> int:
        return len(self.begins) - 1

    @property
    def row(self) -> Ints:
        return number_owners(np.diff(self.begins))

    def only(self, wanted: Flags) -> NodeGroups:
        """Return the groups of the wanted nodes; rows stay."""
        stays = wanted[self.node]
        return NodeGroups(self.node[stays], np.r_[0, np.cumsum(stays)][self.begins])

    def of_row(self, row: int) -> Ints:
        return self.node[self.begins[row] : self.begins[row + 1]]

    def sums(self, values: Ints) -> Ints:
        """Sum over the nodes of each row; ``values`` has one a node in the last axis."""
        total = np.zeros((*values.shape[:-1], len(self.node) + 1), np.int64)
        np.cumsum(values[..., self.node], axis=-1, out=total[..., 1:])
        return total[..., self.begins[1:]] - total[..., self.begins[:-1]]


@dataclass(frozen=True, slots=True)
class GroupAccounts:
    """Accounted nodes of groups, and their figures."""

    groups: NodeGroups
    """Groups of the accounted nodes only."""
    figures: Ints
    """Sums over the accounted nodes; a node that several expressions match counts as often."""
    accounted: Flags


def account_groups(recorded: RecordedGraph, groups: NodeGroups, options: ViewOptions) -> GroupAccounts:
    times = recorded.times_accounted(options.account_type_regexes)
    figures = groups.sums(recorded.ticks(options.step) * times)
    left = groups.only(times > 0)
    some = np.diff(left.begins) > 0
    if options.account_type_regexes == EVERYTHING:
        some[:] = True
    figures[FIGURES.index("run_count")] = left.sums(recorded.ticks(options.step)[FIGURES.index("run_count")])
    figures[FIGURES.index("definition_count")] = np.diff(left.begins)
    return GroupAccounts(left, figures, some)


_LEAST = {"run_count": "min_occurrence"} | {name: f"min_{name}" for name in FIGURES[:9]}
_LEAST_OF_SELF = ("params", "float_ops", "run_count")
"""Figures whose own value, not the sum, views of nodes compare with the least one."""


@dataclass(frozen=True, slots=True)
class ViewTree:
    """View before anything is hidden. Row 0 is the root, which has no figures of its own."""

    forest: NodeForest
    figures: Ints
    """Figures of each row, without the rows below: rows are FIGURES."""
    accounted: Flags
    in_view: Flags
    """Rows of the view; others leave what is below them to the nearest row above them."""
    names: Callable[[Ints], pa.Array]
    """Names of some rows."""
    node: Ints | None = None
    """Node of each row, -1 for a scope or the root. None if rows are lines of code, with several nodes each."""
    parent_type: str = ""
    """Type of rows that are no node."""
    groups: NodeGroups | None = None
    """Accounted nodes of each line of code."""
    by_name: bool = False
    """True if siblings are in the order of their names."""

    @property
    def of_nodes(self) -> bool:
        return self.node is not None


@dataclass(frozen=True, slots=True)
class ExactFigures:
    """Figures that only captures have, by row of the tree, the last for row -1: times in picoseconds, then those of
    recorded.BEYOND."""

    own: Ints
    totals: Ints


@dataclass(frozen=True, slots=True)
class VisibleTree:
    """View: its rows in the order of the report, the root first."""

    forest: NodeForest
    row: Ints
    """Row of the tree that each is."""
    figures: Ints
    totals: Ints
    accounted: Flags
    names: pa.Array
    node: Ints | None = None
    """Node of each row, as in ViewTree."""
    parent_type: str = ""
    """Type of rows that are no node."""
    groups: NodeGroups | None = None
    """Accounted nodes of each ``row``, where rows have several; row -1 has none."""
    beyond: ExactFigures | None = None
    """Exact figures of captures."""

    def at(self, places: Ints) -> VisibleTree:
        """Return some rows by their places in the report, each without what is above and below it."""
        alone, node = NodeForest(np.zeros(len(places), np.int64)), self.node
        return dataclasses.replace(
            self,
            forest=alone,
            row=self.row[places],
            figures=self.figures[:, places],
            totals=self.totals[:, places],
            accounted=self.accounted[places],
            names=self.names.take(pa.array(places)),
            node=None if node is None else node[places],
        )

    def members(self, place: int) -> Ints:
        """Return the nodes of the row at a place of the report."""
        if self.groups is None:
            return self.row[:0] if self.node is None or self.node[place] < 0 else self.node[place : place + 1]
        return self.of_row(int(self.row[place]))

    def of_row(self, row: int) -> Ints:
        """Return the accounted nodes of a row of the tree, shown or not."""
        assert self.groups is not None
        return self.groups.of_row(row) if row >= 0 else self.row[:0]


def make_empty_tree() -> VisibleTree:
    """Return a root without rows or figures."""
    zero = np.zeros((len(FIGURES), 1), np.int64)
    return VisibleTree(
        NodeForest(np.zeros(1, np.int64)), np.array([-1]), zero, zero, np.zeros(1, np.bool_), pa.array([ROOT])
    )


@dataclass(slots=True)
class AccountedRows:
    """Rows of a tree that are in view, the root first, with their sums."""

    forest: NodeForest
    rows: Ints
    figures: Ints
    totals: Ints
    names: pa.Array | None
    """None if the options use no names."""

    @classmethod
    def of(cls, tree: ViewTree, options: ViewOptions) -> AccountedRows:
        rows, forest, figures = np.arange(len(tree.in_view)), tree.forest, tree.figures
        if not tree.in_view.all():
            rows, forest, figures = np.flatnonzero(tree.in_view), forest.only(tree.in_view), figures[:, tree.in_view]
        uses_names = bool(
            options.start_name_regexes != EVERYTHING
            or options.show_name_regexes != EVERYTHING
            or options.hide_name_regexes
            or options.trim_name_regexes
        )
        return cls(forest, rows, figures, forest.below(figures), tree.names(rows) if uses_names else None)

    def narrow(self, chosen: Flags) -> None:
        """Keep only the chosen rows."""
        if not chosen.all():
            self.forest, self.rows = self.forest.only(chosen), self.rows[chosen]
            self.figures, self.totals = self.figures[:, chosen], self.totals[:, chosen]
            self.names = None if self.names is None else self.names.filter(pa.array(chosen))

    def begin(self, options: ViewOptions) -> None:
        """Keep only the start rows of the view, and the rows below them."""
        if options.start_name_regexes != EVERYTHING:
            assert self.names is not None
            starts = match_any(self.names, options.start_name_regexes)
            starts[0] = False
            inside = self.forest.under(starts) | starts
            inside[0] = True
            self.narrow(inside)

    def are_large_enough(self, tree: ViewTree, options: ViewOptions) -> Flags:
        return is_large_enough(self.totals, options, self.figures if tree.of_nodes else None)


def show_tree(tree: ViewTree, options: ViewOptions) -> VisibleTree:
    """Return the part of a tree that ``options`` show."""
    part = AccountedRows.of(tree, options)
    part.begin(options)
    wanted = (
        _find_reached(tree, part.forest, part.names, options)
        & part.are_large_enough(tree, options)
        & is_shown_name(part.names, options)
    )
    wanted &= part.forest.depth < options.max_depth
    wanted[0] = True
    moved = len(part.rows) < len(tree.in_view) or not wanted.all()
    part.narrow(wanted)
    forest, rows, figures, totals, names = part.forest, part.rows, part.figures, part.totals, part.names
    if options.account_displayed_op_only and tree.of_nodes:
        totals = forest.below(figures) if moved else totals
    elif tree.of_nodes:
        totals[DEFINED, 0] -= 1  # the root counts itself among what is shown, and else not
    order = _order_rows(tree, forest, rows, totals, names, options, moved)
    rows, totals, figures = rows[order], totals[:, order], figures[:, order]
    names = tree.names(rows) if names is None else names.take(pa.array(order))
    node = None if tree.node is None else tree.node[rows]
    accounted = tree.accounted[rows]
    return VisibleTree(
        NodeForest(forest.depth[order]), rows, figures, totals, accounted, names, node, tree.parent_type, tree.groups
    )


def _find_reached(tree: ViewTree, forest: NodeForest, names: pa.Array | None, options: ViewOptions) -> Flags:
    """Return whether each row is not hidden by a trimmed row. Views of nodes show a trimmed node, the view of code does
    not."""
    if not options.trim_name_regexes:
        return np.ones(len(forest), np.bool_)
    trimmed = match_any(names, options.trim_name_regexes)
    hidden = forest.under(trimmed)
    return ~hidden if tree.of_nodes else ~(hidden | trimmed)


def is_large_enough(totals: Ints, options: ViewOptions, own: Ints | None = None) -> Flags:
    """Return whether the figures of each row reach the least ones. ``own``: those of nodes themselves, or None if rows
    have several nodes."""
    large = np.ones(totals.shape[1], np.bool_)
    for name, option in _LEAST.items():
        compared = own if own is not None and name in _LEAST_OF_SELF else totals
        if own is not None or name != "run_count":
            large &= compared[FIGURES.index(name)] >= getattr(options, option)
    return large


def is_shown_name(names: pa.Array | None, options: ViewOptions) -> Flags | np.bool_:
    """Return whether each row is shown by its name. ``names`` may be None if all are."""
    wanted: Flags | np.bool_ = np.True_
    if options.show_name_regexes != EVERYTHING:
        wanted = match_any(names, options.show_name_regexes)
    if options.hide_name_regexes:
        wanted = wanted & ~match_any(names, options.hide_name_regexes)
    return wanted


def _order_rows(
    tree: ViewTree,
    forest: NodeForest,
    rows: Ints,
    totals: Ints,
    names: pa.Array | None,
    options: ViewOptions,
    moved: bool,
) -> Ints:
    """Return the order of the report; without ``order_by`` rows stay in place."""
    if options.order_by in FIGURES:
        return forest.sorted(~totals[FIGURES.index(options.order_by)])
    if options.order_by == "occurrence" and tree.groups is not None:
        return forest.sorted(-np.diff(tree.groups.begins)[rows])
    if not options.order_by or (tree.by_name and not moved):
        return np.arange(len(rows))
    return forest.sorted(rank_names(tree.names(rows) if names is None else names))


def rank_names(names: pa.Array) -> Ints:
    """Return the places of names in the order of their bytes; equal names share one."""
    return np.asarray(pc.rank(names, tiebreaker="dense")).astype(np.int64)


SCOPE_TYPE = "_kTFScopeParent"
"""Type by which scopes that are no nodes are accounted."""


def build_scope_tree(recorded: RecordedGraph, scopes: NameScopes, options: ViewOptions) -> ViewTree:
    """Return the tree of scopes and nodes. Rows that are not accounted stay if something below them is, and are summed
    up all the same."""
    is_node = scopes.node >= 0
    figures = np.zeros((len(recorded.rows), len(is_node)), np.int64)
    figures[DEFINED] = 1
    figures[:, is_node] = recorded.ticks(options.step)[:, scopes.node[is_node]]
    accounted = np.full(len(is_node), match_any(pa.array([SCOPE_TYPE]), options.account_type_regexes)[0])
    accounted[is_node] = (recorded.times_accounted(options.account_type_regexes) > 0)[scopes.node[is_node]]
    accounted[0] = False
    in_view = scopes.forest.below(accounted.astype(np.int64)) > 0
    in_view[0] = True
    return ViewTree(scopes.forest, figures, accounted, in_view, scopes.names, scopes.node, SCOPE_TYPE, by_name=True)


_ROOT_TYPE = "_TFGraphParent"


class InputWalk:
    """Nodes in the order in which the walk meets them, after the root."""

    def __init__(self, recorded: RecordedGraph) -> None:
        begins, producer = recorded.links
        size = len(recorded)
        roots = np.flatnonzero(np.bincount(producer, minlength=size) == 0)
        following, path, order, depth = (np.full(size, -1, np.int64) for _ in range(4))
        met = input_walk(begins, producer, roots, following, path, order, depth)
        self.node: Ints = np.append(-1, order[:met])
        self.forest = NodeForest(np.append(0, depth[:met]))


def build_graph_tree(recorded: RecordedGraph, walk: InputWalk, options: ViewOptions) -> ViewTree:
    """Return the tree of the accounted nodes; others leave their inputs to their consumers."""

    def names(rows: Ints) -> pa.Array:
        nodes = walk.node[rows]
        return pc.fill_null(recorded.names.take(pa.array(nodes, mask=nodes < 0)), ROOT)

    figures = np.zeros((len(recorded.rows), len(walk.node)), np.int64)
    figures[DEFINED, 0] = 1
    figures[:, 1:] = recorded.ticks(options.step)[:, walk.node[1:]]
    accounted = np.zeros(len(walk.node), np.bool_)
    accounted[1:] = (recorded.times_accounted(options.account_type_regexes) > 0)[walk.node[1:]]
    in_view = accounted.copy()
    in_view[0] = True
    return ViewTree(walk.forest, figures, accounted, in_view, names, walk.node, _ROOT_TYPE)


class OpNodes:
    """Ops in the order of their names, and their nodes."""

    def __init__(self, recorded: RecordedGraph) -> None:
        encoded = recorded.ops.dictionary_encode()
        order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
        place = np.argsort(order)
        self.names = encoded.dictionary.take(pa.array(order))
        row = place[np.asarray(encoded.indices).astype(np.int64)]
        self.groups = NodeGroups.of(row, np.arange(len(recorded)), len(order))


class AccountedOps:
    """Ops that are accounted, in the order of the report, with their sums."""

    def __init__(self, recorded: RecordedGraph, ops: OpNodes, options: ViewOptions) -> None:
        account = account_groups(recorded, ops.groups, options)
        by = "definition_count" if options.order_by == "occurrence" else options.order_by
        order = np.arange(len(ops.names))
        if by in FIGURES:
            order = np.argsort(~account.figures[FIGURES.index(by)], kind="stable")
        self.order: Ints = order[account.accounted[order]]
        self.groups = account.groups
        self.figures = account.figures[:, self.order]
        self.totals = _sum_suffixes(self.figures)
        self.names = ops.names.take(pa.array(self.order))

    def are_large_enough(self, options: ViewOptions) -> Flags:
        large: Flags = self.figures[FIGURES.index("definition_count")] >= options.min_occurrence
        return large & is_large_enough(self.totals, options)


def show_ops(recorded: RecordedGraph, ops: OpNodes, options: ViewOptions) -> VisibleTree:
    """Return the ops that are shown, below a root that has the sums of all."""
    part = AccountedOps(recorded, ops, options)
    order, figures, totals = part.order, part.figures, part.totals
    root = totals[:, 0] if len(order) else np.zeros(len(recorded.rows), np.int64)
    wanted = _select_range(part.names, options) & part.are_large_enough(options) & is_shown_name(part.names, options)
    order, figures, totals = order[wanted], figures[:, wanted], totals[:, wanted]
    if options.account_displayed_op_only:
        totals = _sum_suffixes(figures)
        root = totals[:, 0] if len(order) else np.zeros(len(recorded.rows), np.int64)
    figures = np.c_[np.zeros(len(recorded.rows), np.int64), figures]
    names = pa.concat_arrays([pa.array([ROOT]), ops.names.take(pa.array(order))])
    rows = np.r_[-1, order]
    accounted = np.ones(len(rows), np.bool_)
    accounted[0] = False
    chain = NodeForest(np.arange(len(rows)))
    return VisibleTree(chain, rows, figures, np.c_[root, totals], accounted, names, groups=part.groups)


def _sum_suffixes(figures: Ints) -> Ints:
    sums: Ints = np.cumsum(figures[:, ::-1], axis=1)[:, ::-1]
    return sums


def _select_range(names: pa.Array, options: ViewOptions) -> Flags:
    """Select the rows from the first that starts the view to the one before that which ends it."""
    begin = 0
    if options.start_name_regexes not in (EVERYTHING, ()):
        starts = np.flatnonzero(match_any(names, options.start_name_regexes))
        begin = int(starts[0]) if len(starts) else len(names)
    end = min(len(names), max(begin + options.max_depth + 1, begin))
    ends = np.flatnonzero(match_any(names, options.trim_name_regexes)[begin:end])
    wanted = np.zeros(len(names), np.bool_)
    wanted[begin : begin + int(ends[0]) if len(ends) else end] = True
    return wanted


GRADIENT = " (gradient)"
_BEFORE_NAME, _AFTER_NAME = "gradients/", "_grad/"
_LONG, _PART = 20, 17  # letters of a function
_LINE_BITS = 32
_LINE = (1 << _LINE_BITS) - 1


class CodeLines:
    """Tree of lines of code; row 0 is the root. ``frame``: the place of a row's first frame in ``frames``, -1 for the
    root."""

    def __init__(self, recorded: RecordedGraph) -> None:
        traces = get_plain(recorded.nodes["trace"])
        self.frames = pc.list_flatten(traces)
        lengths = get_numbers(pc.fill_null(pc.list_value_length(traces), 0))
        self.is_known = bool(lengths.any())
        begins = np.cumsum(lengths) - lengths
        made = _Made(recorded, np.flatnonzero(lengths))
        self.unmatched_gradients = made.unmatched
        """Nodes, without frames or absent, that have gradients with frames, which are in no row then."""
        labels, label_of = _make_labels(self.frames)
        parent, frame, label, leaf = _make_rows(made, begins, lengths, label_of, len(labels))
        order = sort_preorder(parent)
        place = np.argsort(order)
        self.forest = NodeForest(measure_depths(parent)[order])
        self.frame, label = frame[order], label[order]
        self.is_gradient = label >= len(labels)
        both = pa.concat_arrays([labels, pc.binary_join_element_wise(labels, GRADIENT, "")])
        self.names = pc.fill_null(both.take(pa.array(label, mask=label < 0)), ROOT)
        self.groups = NodeGroups.of(place[leaf[made.entry]], made.node, len(order))


class _Made:
    """Nodes whose frames become rows, and nodes that are put at the last of them, in the order of insertion."""

    def __init__(self, recorded: RecordedGraph, traced: Ints) -> None:
        names = recorded.names.take(pa.array(traced))
        gradients = defaultdict[str, list[int]](list)
        others = np.ones(len(traced), np.bool_)
        marked = (get_numbers(pc.find_substring(names, mark)) >= 0 for mark in (_BEFORE_NAME, _AFTER_NAME))
        for place in np.flatnonzero(np.logical_and(*marked)).tolist():
            of = find_forward_name(names[place].as_py())
            if of is not None:
                others[place] = False
                gradients[of].append(int(traced[place]))
        known = sorted(gradients, key=str.encode)
        forward = names.filter(pa.array(others))
        place_of = get_numbers(pc.fill_null(pc.index_in(pa.array(known, pa.string()), forward), -1))
        matched = [(gradients[name], place) for name, place in zip(known, place_of.tolist(), strict=True) if place >= 0]
        self.unmatched = len(known) - len(matched)
        self.gradients = len(matched)
        """Number of last entries that are of gradients."""
        forward_nodes = traced[others]
        self.path: Ints = np.r_[forward_nodes, forward_nodes[[place for _, place in matched]]]
        self.entry: Ints = np.r_[
            np.arange(len(forward_nodes)),
            np.repeat(len(forward_nodes) + np.arange(len(matched)), [len(nodes) for nodes, _ in matched]),
        ]
        self.node: Ints = np.r_[forward_nodes, [node for nodes, _ in matched for node in nodes]].astype(np.int64)


def find_forward_name(name: str) -> str | None:
    """Return the name of the node that a node of a gradient belongs to, or None for others.

    tfprof takes the text between the first ``gradients/`` and the first ``_grad/``, or all that follows the former if
    the latter comes before it.
    """
    before, after = name.find(_BEFORE_NAME), name.find(_AFTER_NAME)
    if before < 0 or after < 0:
        return None
    begin = before + len(_BEFORE_NAME)
    if after == begin:
        return None
    return name[begin:after] if after > begin else name[begin:]


def _make_labels(frames: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the different labels of frames, and the label of each frame. In damaged profiles some frames have no
    names."""
    files, functions = get_coded(frames.field("file")), get_coded(frames.field("function"))
    short_files = [(name or "").rpartition("/")[2] for name in files.dictionary.to_pylist()]
    short_functions = [_shorten(name or "") for name in functions.dictionary.to_pylist()]
    both = get_numbers(files.indices) * max(1, len(short_functions)) + get_numbers(functions.indices)
    places = pa.array(both).dictionary_encode()
    lines = get_numbers(pc.fill_null(frames.field("line"), 0)) & _LINE
    frames_of = pa.array((get_numbers(places.indices) << _LINE_BITS) + lines).dictionary_encode()
    place, line = get_numbers(frames_of.dictionary) >> _LINE_BITS, get_numbers(frames_of.dictionary) & _LINE
    file, function = np.divmod(get_numbers(places.dictionary)[place], max(1, len(short_functions)))
    rows = zip(file.tolist(), line.astype(np.uint32).view(np.int32).tolist(), function.tolist(), strict=True)
    encoded = pa.array([f"{short_files[a]}:{n}:{short_functions[b]}" for a, n, b in rows], pa.string())
    encoded = encoded.dictionary_encode()
    return encoded.dictionary, get_numbers(encoded.indices)[get_numbers(frames_of.indices)]


def _shorten(function: str) -> str:
    data = function.encode()
    return function if len(data) < _LONG else data[:_PART].decode(errors="replace") + "..."


def _make_rows(made: _Made, begins: Ints, lengths: Ints, label_of: Ints, labels: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Make rows level by level, in the order of insertion: parent, first frame, label (that of a gradient is ``labels``
    more); and the last row of each entry of ``made``."""
    path = made.path
    shift = np.zeros(len(path), np.int64)
    shift[len(path) - made.gradients :] = labels
    current = np.zeros(len(path), np.int64)
    parents, frames, names = [np.array([-1])], [np.array([-1])], [np.array([-1])]
    rows, level = 1, 0
    left = np.arange(len(path))
    while len(left := left[lengths[path[left]] > level]):
        frame = begins[path[left]] + level
        name = label_of[frame] + shift[left]
        distinct = pa.array(current[left] * (2 * labels) + name).dictionary_encode()  # in the order of insertion
        which = get_numbers(distinct.indices)
        parent, label = np.divmod(get_numbers(distinct.dictionary), 2 * labels)
        first = np.empty(len(parent), np.int64)
        first[which[::-1]] = frame[::-1]
        parents.append(parent)
        frames.append(first)
        names.append(label)
        current[left] = rows + which
        rows += len(parent)
        level += 1
    return np.concatenate(parents), np.concatenate(frames), np.concatenate(names), current


def build_code_tree(recorded: RecordedGraph, lines: CodeLines, options: ViewOptions) -> ViewTree:
    """Return the tree of lines of code. Lines that are not accounted stay if something below them is."""
    account = account_groups(recorded, lines.groups, options)
    accounted = account.accounted.copy()
    accounted[0] = False
    in_view = lines.forest.below(accounted.astype(np.int64)) > 0
    in_view[0] = True

    def names(rows: Ints) -> pa.Array:
        return lines.names.take(pa.array(rows))

    return ViewTree(lines.forest, account.figures, accounted, in_view, names, groups=account.groups)
