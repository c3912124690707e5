"""Rows of several nodes: ops, and lines of code."""

from __future__ import annotations

import numpy as np

from fastprof.derive.tfprof.forest import Flags, Ints
from fastprof.derive.tfprof.matching import EVERYTHING
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Groups:
    """The nodes of each row: those of row r are ``node[begins[r]:begins[r + 1]]``, in the order of their names."""

    node: Ints
    begins: Ints

    @classmethod
    def of(cls, row: Ints, node: Ints, rows: int) -> Groups:
        """From pairs of a row and a node; a pair that comes twice counts once."""
        order = np.lexsort((node, row))
        row, node = row[order], node[order]
        new = np.r_[True, (row[1:] != row[:-1]) | (node[1:] != node[:-1])] if len(row) else np.zeros(0, np.bool_)
        row, node = row[new], node[new]
        return cls(node, np.searchsorted(row, np.arange(rows + 1)))

    def __len__(self) -> int:
        return len(self.begins) - 1

    @property
    def row(self) -> Ints:
        return np.repeat(np.arange(len(self)), np.diff(self.begins))

    def only(self, wanted: Flags) -> Groups:
        """The groups of the wanted nodes; rows stay."""
        kept = wanted[self.node]
        return Groups(self.node[kept], np.r_[0, np.cumsum(kept)][self.begins])

    def of_row(self, row: int) -> Ints:
        return self.node[self.begins[row] : self.begins[row + 1]]

    def sums(self, values: Ints) -> Ints:
        """Sums over the nodes of each row; ``values`` has one a node in the last axis."""
        total = np.zeros((*values.shape[:-1], len(self.node) + 1), np.int64)
        np.cumsum(values[..., self.node], axis=-1, out=total[..., 1:])
        return total[..., self.begins[1:]] - total[..., self.begins[:-1]]


@dataclass(frozen=True, slots=True)
class Accounts:
    """What is accounted of groups."""

    groups: Groups
    """With the accounted nodes only."""
    figures: Ints
    """Sums over them; a node that several expressions match counts as often."""
    accounted: Flags


def accounts(recorded: Recorded, groups: Groups, options: Options) -> Accounts:
    times = recorded.times_accounted(options.account_type_regexes)
    figures = groups.sums(recorded.ticks(options.step) * times)
    left = groups.only(times > 0)
    some = np.diff(left.begins) > 0
    if options.account_type_regexes == EVERYTHING:
        some[:] = True
    figures[FIGURES.index("run_count")] = left.sums(recorded.ticks(options.step)[FIGURES.index("run_count")])
    figures[FIGURES.index("definition_count")] = np.diff(left.begins)
    return Accounts(left, figures, some)
