"""The op profile as stacks: by what its tree is grouped by, by scopes of the model, and what of the time was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.analyses.op_profile import OpProfile
from fastprof.render.stacks import Stacks

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report


def stacks(report: Report) -> list[Stacks]:
    found = report.detail_as(OpProfile)
    tree, scopes = report.tables["tree"], report.tables["scopes"]
    profiles = [
        _stacks(f"Device time by {found.group_by}", tree, "self_ps"),
        _stacks("Device time by scope of the model", scopes, "self_ps"),
        _stacks(f"Wasted time by {found.group_by}", tree, "lost_ps"),
    ]
    return [one for number, one in enumerate(profiles) if number == 0 or any(one.own_ps)]


def _stacks(title: str, table: pa.Table, column: str) -> Stacks:
    parent = np.asarray(pc.fill_null(table["parent"], -1)).astype(np.int64)
    source = table["source"].to_pylist() if "source" in table.column_names else [None] * len(parent)
    return Stacks(title, parent.tolist(), table["name"].to_pylist(), source, _own(table[column], parent).tolist())


def _own(times: pa.ChunkedArray, parent: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The time of each node that is not its children's; sums of parts that are rounded may be a little more."""
    whole = np.asarray(pc.fill_null(times, 0)).astype(np.int64)
    of_children = np.zeros_like(whole)
    np.add.at(of_children, parent[1:], whole[1:])
    own: npt.NDArray[np.int64] = np.maximum(whole - of_children, 0)
    return own
