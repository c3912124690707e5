"""The graph view: below each node the nodes whose outputs it takes, each where it is met first.

A walk goes depth first from the nodes that no other takes an output of, in the order of names, to inputs in their
order. Nodes that only circles reach are not met.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof._native.kernels import input_walk
from fastprof.derive.tfprof.forest import Forest, Ints
from fastprof.derive.tfprof.name_scopes import ROOT
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import DEFINED, Recorded
from fastprof.derive.tfprof.views import Tree

_ROOT_TYPE = "_TFGraphParent"


class Walk:
    """The nodes in the order in which the walk meets them, after the root."""

    def __init__(self, recorded: Recorded) -> None:
        begins, producer = recorded.links
        size = len(recorded)
        roots = np.flatnonzero(np.bincount(producer, minlength=size) == 0)
        following, path, order, depth = (np.full(size, -1, np.int64) for _ in range(4))
        met = input_walk(begins, producer, roots, following, path, order, depth)
        self.node: Ints = np.append(-1, order[:met])
        self.forest = Forest(np.append(0, depth[:met]))


def tree(recorded: Recorded, walk: Walk, options: Options) -> Tree:
    """The nodes that are accounted; others leave their inputs to their consumers."""

    def names(rows: Ints) -> pa.Array:
        nodes = walk.node[rows]
        return pc.fill_null(recorded.names.take(pa.array(nodes, mask=nodes < 0)), ROOT)

    figures = np.zeros((len(recorded.rows), len(walk.node)), np.int64)
    figures[DEFINED, 0] = 1
    figures[:, 1:] = recorded.ticks(options.step)[:, walk.node[1:]]
    accounted = np.zeros(len(walk.node), np.bool_)
    accounted[1:] = (recorded.times_accounted(options.account_type_regexes) > 0)[walk.node[1:]]
    kept = accounted.copy()
    kept[0] = True
    return Tree(walk.forest, figures, accounted, kept, names, walk.node, _ROOT_TYPE)
