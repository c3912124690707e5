"""The four views: what is accounted, what is shown of it, in which order, and with which sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Flags, Forest, Ints
from fastprof.derive.tfprof.groups import Groups
from fastprof.derive.tfprof.matching import EVERYTHING, full_matches
from fastprof.derive.tfprof.name_scopes import ROOT
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import DEFINED, FIGURES
from fastprof.schema.value_classes import dataclass

_LEAST = {"run_count": "min_occurrence"} | {name: f"min_{name}" for name in FIGURES[:9]}
_LEAST_OF_SELF = ("params", "float_ops", "run_count")
"""Views of nodes compare a node's own figure with the least one, not the sum."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A view before anything is hidden. Row 0 is the root, which has no figures of its own."""

    forest: Forest
    figures: Ints
    """Of each row, without those below: rows are FIGURES."""
    accounted: Flags
    kept: Flags
    """Rows of the view; others leave what is below them to the nearest row above them."""
    names: Callable[[Ints], pa.Array]
    """The names of some rows."""
    node: Ints | None = None
    """The node of each row; -1: a scope, or the root. None: rows are lines of code, with several nodes each."""
    parent_type: str = ""
    """The type of rows that are no node."""
    groups: Groups | None = None
    """The accounted nodes of each line of code."""
    by_name: bool = False
    """Whether siblings are in the order of their names."""

    @property
    def of_nodes(self) -> bool:
        return self.node is not None


@dataclass(frozen=True, slots=True)
class Beyond:
    """What captures have beyond the figures of tfprof, by row of the tree, the last for row -1: times in picoseconds,
    then those of captured.BEYOND."""

    own: Ints
    totals: Ints


@dataclass(frozen=True, slots=True)
class Shown:
    """A view: its rows in the order of the report, the root first."""

    forest: Forest
    row: Ints
    """Which row of the tree each is."""
    figures: Ints
    totals: Ints
    accounted: Flags
    names: pa.Array
    node: Ints | None = None
    """The node of each row, as in Tree."""
    parent_type: str = ""
    """The type of rows that are no node."""
    groups: Groups | None = None
    """The accounted nodes of each ``row``, where rows have several; row -1 has none."""
    beyond: Beyond | None = None
    """Of captures."""

    def at(self, places: Ints) -> Shown:
        """Some rows by their places in the report, each without what is above and below it."""
        alone, node = Forest(np.zeros(len(places), np.int64)), self.node
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
        """The nodes of the row at a place of the report."""
        if self.groups is None:
            return self.row[:0] if self.node is None or self.node[place] < 0 else self.node[place : place + 1]
        return self.of_row(int(self.row[place]))

    def of_row(self, row: int) -> Ints:
        """The accounted nodes of a row of the tree, shown or not."""
        assert self.groups is not None
        return self.groups.of_row(row) if row >= 0 else self.row[:0]


def nothing() -> Shown:
    """A root without rows or figures."""
    zero = np.zeros((len(FIGURES), 1), np.int64)
    return Shown(Forest(np.zeros(1, np.int64)), np.array([-1]), zero, zero, np.zeros(1, np.bool_), pa.array([ROOT]))


def shown(tree: Tree, options: Options) -> Shown:
    """What ``options`` show of a tree."""
    rows, forest, figures = np.arange(len(tree.kept)), tree.forest, tree.figures
    if not tree.kept.all():
        rows, forest, figures = np.flatnonzero(tree.kept), forest.only(tree.kept), figures[:, tree.kept]
    totals = forest.below(figures)
    names = tree.names(rows) if _uses_names(options) else None

    def narrowed(chosen: Flags) -> None:
        nonlocal forest, rows, figures, totals, names
        if chosen.all():
            return
        forest, rows = forest.only(chosen), rows[chosen]
        figures, totals = figures[:, chosen], totals[:, chosen]
        names = None if names is None else names.filter(pa.array(chosen))

    if options.start_name_regexes != EVERYTHING:
        assert names is not None
        starts = full_matches(names, options.start_name_regexes)
        starts[0] = False
        inside = forest.under(starts) | starts
        inside[0] = True
        narrowed(inside)
    own = figures if tree.of_nodes else None
    wanted = _reached(tree, forest, names, options) & large_enough(totals, options, own) & named(names, options)
    wanted &= forest.depth < options.max_depth
    wanted[0] = True
    moved = len(rows) < len(tree.kept) or not wanted.all()
    narrowed(wanted)
    if options.account_displayed_op_only and tree.of_nodes:
        totals = forest.below(figures) if moved else totals
    elif tree.of_nodes:
        totals[DEFINED, 0] -= 1  # the root counts itself among what is shown, and else not
    order = _order(tree, forest, rows, totals, names, options, moved)
    rows, totals, figures = rows[order], totals[:, order], figures[:, order]
    names = tree.names(rows) if names is None else names.take(pa.array(order))
    node = None if tree.node is None else tree.node[rows]
    accounted = tree.accounted[rows]
    return Shown(
        Forest(forest.depth[order]), rows, figures, totals, accounted, names, node, tree.parent_type, tree.groups
    )


def _uses_names(options: Options) -> bool:
    return bool(
        options.start_name_regexes != EVERYTHING
        or options.show_name_regexes != EVERYTHING
        or options.hide_name_regexes
        or options.trim_name_regexes
    )


def _reached(tree: Tree, forest: Forest, names: pa.Array | None, options: Options) -> Flags:
    """Rows that no trimmed row hides. Views of nodes show a trimmed node, that of code does not."""
    if not options.trim_name_regexes:
        return np.ones(len(forest), np.bool_)
    trimmed = full_matches(names, options.trim_name_regexes)
    hidden = forest.under(trimmed)
    return ~hidden if tree.of_nodes else ~(hidden | trimmed)


def large_enough(totals: Ints, options: Options, own: Ints | None = None) -> Flags:
    """Rows whose figures reach the least ones. ``own``: those of nodes themselves; None: rows have several."""
    large = np.ones(totals.shape[1], np.bool_)
    for name, option in _LEAST.items():
        compared = own if own is not None and name in _LEAST_OF_SELF else totals
        if own is not None or name != "run_count":
            large &= compared[FIGURES.index(name)] >= getattr(options, option)
    return large


def named(names: pa.Array | None, options: Options) -> Flags | np.bool_:
    """Rows that are shown by their names. ``names`` may be None if all are."""
    wanted: Flags | np.bool_ = np.True_
    if options.show_name_regexes != EVERYTHING:
        wanted = full_matches(names, options.show_name_regexes)
    if options.hide_name_regexes:
        wanted = wanted & ~full_matches(names, options.hide_name_regexes)
    return wanted


def _order(
    tree: Tree, forest: Forest, rows: Ints, totals: Ints, names: pa.Array | None, options: Options, moved: bool
) -> Ints:
    """The order of the report."""
    if options.order_by in FIGURES:
        return forest.sorted(~totals[FIGURES.index(options.order_by)])
    if options.order_by == "occurrence" and tree.groups is not None:
        return forest.sorted(-np.diff(tree.groups.begins)[rows])
    if tree.by_name and not moved:
        return np.arange(len(rows))
    return forest.sorted(name_ranks(tree.names(rows) if names is None else names))


def name_ranks(names: pa.Array) -> Ints:
    """The places of names in the order of their bytes; equal names share one."""
    return np.asarray(pc.rank(names, tiebreaker="dense")).astype(np.int64)
