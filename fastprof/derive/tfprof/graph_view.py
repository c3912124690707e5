"""The graph view: below each node the nodes whose outputs it takes, each where it is met first.

A walk goes depth first from the nodes that no other takes an output of, in the order of names, to inputs in their
order. Nodes that only circles reach are not met.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        roots = np.bincount(producer, minlength=len(recorded)) == 0
        node, depth = _walked(np.flatnonzero(roots).tolist(), begins.tolist(), producer.tolist())
        self.node = np.array([-1, *node], np.int64)
        self.forest = Forest(np.array([0, *depth], np.int64))


def _walked(roots: list[int], begins: list[int], producer: list[int]) -> tuple[list[int], list[int]]:
    met = bytearray(len(begins))
    nodes: list[int] = []
    depths: list[int] = []
    waiting = [(root, 1) for root in reversed(roots)]
    while waiting:
        node, depth = waiting.pop()
        if met[node]:
            continue
        met[node] = 1
        nodes.append(node)
        depths.append(depth)
        inputs = producer[begins[node] : begins[node + 1]]
        if inputs:
            waiting.extend([(one, depth + 1) for one in reversed(inputs) if not met[one]])
    return nodes, depths


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
