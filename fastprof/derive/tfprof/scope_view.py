"""The scope view: nodes below the name scopes that their names begin with."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastprof.derive.tfprof.matching import full_matches
from fastprof.derive.tfprof.name_scopes import NameScopes
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import DEFINED, Recorded
from fastprof.derive.tfprof.views import Tree

SCOPE_TYPE = "_kTFScopeParent"
"""The type by which scopes that are no nodes are accounted."""


def tree(recorded: Recorded, scopes: NameScopes, options: Options) -> Tree:
    """Scopes and nodes. Rows that are not accounted stay if something below them is, and are summed up all the same."""
    is_node = scopes.node >= 0
    figures = np.zeros((len(recorded.rows), len(is_node)), np.int64)
    figures[DEFINED] = 1
    figures[:, is_node] = recorded.ticks(options.step)[:, scopes.node[is_node]]
    accounted = np.full(len(is_node), full_matches(pa.array([SCOPE_TYPE]), options.account_type_regexes)[0])
    accounted[is_node] = (recorded.times_accounted(options.account_type_regexes) > 0)[scopes.node[is_node]]
    accounted[0] = False
    kept = scopes.forest.below(accounted.astype(np.int64)) > 0
    kept[0] = True
    return Tree(scopes.forest, figures, accounted, kept, scopes.names, scopes.node, SCOPE_TYPE, by_name=True)
