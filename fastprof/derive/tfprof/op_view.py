"""The op view: nodes by their op, in one order; each row sums up itself and all rows after it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Flags, Forest, Ints
from fastprof.derive.tfprof.groups import Groups, accounts
from fastprof.derive.tfprof.matching import EVERYTHING, full_matches
from fastprof.derive.tfprof.name_scopes import ROOT
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import FIGURES, Recorded
from fastprof.derive.tfprof.views import Shown, large_enough, named


class Ops:
    """The ops in the order of their names, and their nodes."""

    def __init__(self, recorded: Recorded) -> None:
        encoded = recorded.ops.dictionary_encode()
        order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
        place = np.argsort(order)
        self.names = encoded.dictionary.take(pa.array(order))
        row = place[np.asarray(encoded.indices).astype(np.int64)]
        self.groups = Groups.of(row, np.arange(len(recorded)), len(order))


def shown(recorded: Recorded, ops: Ops, options: Options) -> Shown:
    """The ops that are shown, below a root that has the sums of all."""
    account = accounts(recorded, ops.groups, options)
    order = _order(ops.names, account.figures, options)
    order = order[account.accounted[order]]
    figures = account.figures[:, order]
    totals = _suffix_sums(figures)
    root = totals[:, 0] if len(order) else np.zeros(len(recorded.rows), np.int64)
    names = ops.names.take(pa.array(order))
    wanted = _stretch(names, options) & large_enough(totals, options) & named(names, options)
    wanted &= figures[FIGURES.index("definition_count")] >= options.min_occurrence
    order, figures, totals = order[wanted], figures[:, wanted], totals[:, wanted]
    if options.account_displayed_op_only:
        totals = _suffix_sums(figures)
        root = totals[:, 0] if len(order) else np.zeros(len(recorded.rows), np.int64)
    figures = np.c_[np.zeros(len(recorded.rows), np.int64), figures]
    names = pa.concat_arrays([pa.array([ROOT]), ops.names.take(pa.array(order))])
    rows = np.r_[-1, order]
    accounted = np.ones(len(rows), np.bool_)
    accounted[0] = False
    chain = Forest(np.arange(len(rows)))
    return Shown(chain, rows, figures, np.c_[root, totals], accounted, names, groups=account.groups)


def _order(names: pa.Array, figures: Ints, options: Options) -> Ints:
    if options.order_by == "name":
        return np.arange(len(names))
    by = "definition_count" if options.order_by == "occurrence" else options.order_by
    return np.argsort(~figures[FIGURES.index(by)], kind="stable")


def _suffix_sums(figures: Ints) -> Ints:
    sums: Ints = np.cumsum(figures[:, ::-1], axis=1)[:, ::-1]
    return sums


def _stretch(names: pa.Array, options: Options) -> Flags:
    """From the first row that starts the view to the one before that which ends it."""
    begin = 0
    if options.start_name_regexes not in (EVERYTHING, ()):
        starts = np.flatnonzero(full_matches(names, options.start_name_regexes))
        begin = int(starts[0]) if len(starts) else len(names)
    end = min(len(names), max(begin + options.max_depth + 1, begin))
    ends = np.flatnonzero(full_matches(names, options.trim_name_regexes)[begin:end])
    wanted = np.zeros(len(names), np.bool_)
    wanted[begin : begin + int(ends[0]) if len(ends) else end] = True
    return wanted
