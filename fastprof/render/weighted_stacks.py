"""The trees of reports as stacks with weights, for the file formats of flame graph tools.

A stack is the path from the root of a tree to a node; its weight is the time of the node without its children. A stack
has no frame of the root, but that of the root itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastprof.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import Report

STACKED = ("op_profile", "python_time")
"""The analyses with stacks."""
Frame = tuple[str, str | None]
"""A name and its source location, ``file:line`` or None."""


class WeightedStacks(NamedTuple):
    """``weight_ps``: by node of the tree, if it has any. ``measure``: what the weights are, in one word."""

    title: str
    measure: str
    tree: pa.Table
    weight_ps: dict[int, int]

    def paths(self, nodes: list[int]) -> list[list[Frame]]:
        """The stack of each node, the outermost frame first."""
        parents, names = self.tree["parent"].to_pylist(), self.tree["name"].to_pylist()
        located = "source" in self.tree.column_names
        sources = self.tree["source"].to_pylist() if located else [None] * len(names)
        found = []
        for node in nodes:
            path = [node]
            while above := parents[path[-1]]:
                path.append(above)
            found.append([(names[one], sources[one]) for one in reversed(path)])
        return found


def stacks_of(report: Report, form: str) -> tuple[WeightedStacks, ...]:
    """All stacks of a report. UsageError: the analysis has none, so it has not this ``form``."""
    if report.analysis not in STACKED:
        raise UsageError(f"{report.analysis} has no stacks for {form}; these analyses have: {verbs()}")
    return tuple(
        WeightedStacks(title, measure, tree, _own(tree, column)) for title, measure, tree, column in _trees(report)
    )


def verbs() -> str:
    """The verbs of the analyses with stacks, separated by commas."""
    return ", ".join(name.replace("_", "-") for name in STACKED)


def located(source: str | None) -> tuple[str, int | None]:
    """File and line of a source location; the line may be unknown."""
    file, _, line = (source or "").rpartition(":")
    return (file, int(line)) if file and line.isdigit() else (source or "", None)


def _trees(report: Report) -> tuple[tuple[str, str, pa.Table, str], ...]:
    """Title and measure, the table of the tree, and the column with times of nodes and all below them."""
    if report.analysis == "python_time":
        stacks = report.tables["stacks"]
        return ("Time of threads", "time", stacks, "total_ps"), ("Time of devices", "device", stacks, "device_ps")
    from fastprof.analyses.op_profile import OpProfile

    group_by = report.detail_as(OpProfile).group_by
    tree, scopes = report.tables["tree"], report.tables["scopes"]
    return (
        (f"Device time by {group_by}", "time", tree, "self_ps"),
        ("Device time by scope of the model", "time", scopes, "self_ps"),
        (f"Wasted time by {group_by}", "wasted", tree, "lost_ps"),
    )


def _own(table: pa.Table, column: str) -> dict[int, int]:
    """The time of each node without its children, if there is any. Rounded parts may add up to more than the node."""
    times = [time or 0 for time in table[column].to_pylist()]
    own = list(times)
    for parent, time in zip(table["parent"].to_pylist()[1:], times[1:], strict=True):
        own[parent] -= time
    return {node: time for node, time in enumerate(own) if time > 0}
