"""Where each op hangs in a tree: under its program, its category, or the name scopes of the framework op that it comes
from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from fastprof.derive.ops.tree.op_trees import CATEGORY, DUPLICATES, OP, PROGRAM, SCOPE, Growth

if TYPE_CHECKING:
    from fastprof.derive.ops.tables import OpTable

GROUPINGS: Final = ("program", "category", "provenance")
MOST_SCOPES: Final = 100
"""Name scopes above each other; those below are one node, so that a tree has few levels."""
NO_PROGRAM: Final = "(no program)"
UNATTRIBUTED: Final = "(unattributed)"
"""Events whose op is not known."""
UNNAMED: Final = "(unnamed)"

Title = Callable[[int], str | None]
"""How the capture lists a program."""


def scopes_of(provenance: str) -> list[str]:
    """The parts of ``a/b/c:Type``, without the type; of more than MOST_SCOPES the last ones together."""
    parts = [part for part in provenance.split("/") if part]
    if parts:
        parts[-1] = parts[-1].partition(":")[0]
        parts = parts if parts[-1] else parts[:-1]
    return limited(parts)


def limited(scopes: list[str]) -> list[str]:
    """At most MOST_SCOPES, of more the last ones as one."""
    if len(scopes) <= MOST_SCOPES:
        return scopes
    return [*scopes[: MOST_SCOPES - 1], "/".join(scopes[MOST_SCOPES - 1 :])]


class ScopePaths:
    """Nodes of name scopes under a node; provenances repeat, and are taken apart once."""

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self._nodes: dict[tuple[int, str], int] = {}

    def node(self, parent: int, provenance: str) -> int:
        found = self._nodes.get((parent, provenance))
        if found is None:
            found = parent
            for part in scopes_of(provenance):
                found = self._growth.child(found, SCOPE, part)
            self._nodes[parent, provenance] = found
        return found


def program_name(program_id: int, title: Title) -> str:
    """How the capture lists the program, else its number; ops that are of none are together."""
    return title(program_id) or (f"program {program_id % (1 << 64)}" if program_id else NO_PROGRAM)


def grown(table: OpTable, group_by: str, title: Title) -> tuple[Growth, list[int]]:
    """A tree of all ops of a table, and the node of each. Ops of which XLA says that they are duplicates of one are
    together, where there are several below one node."""
    growth = Growth(f"by {group_by}")
    scopes = ScopePaths(growth)
    parents = []
    programs = {one: program_name(one, title) for one in set(table.program_id.tolist())}
    rows = zip(table.program_id.tolist(), table.category, table.provenance, table.unattributed, strict=True)
    for program, category, provenance, why in rows:
        name = UNATTRIBUTED if why and not program else programs[program]
        node = 0 if group_by == "category" else growth.child(0, PROGRAM, name, (program, name))
        if group_by == "provenance":
            node = scopes.node(node, provenance)
        else:
            node = growth.child(node, CATEGORY, category or UNNAMED, category)
        parents.append(node)
    names = [named or name for named, name in zip(table.deduplicated_name, table.name, strict=True)]
    groups = _with_duplicates(growth, parents, names, table)
    return growth, [
        growth.added(parent, OP, name or UNNAMED, row)
        for row, (parent, name) in enumerate(zip(groups, table.name, strict=True))
    ]


def _with_duplicates(growth: Growth, parents: Sequence[int], names: Sequence[str], table: OpTable) -> list[int]:
    """The nodes that ops hang under: their parents, or nodes for ops that are duplicates of one."""
    groups = list(zip(parents, names, table.program_id.tolist(), strict=True))
    counts = Counter(groups)
    found = []
    for parent, name, program in groups:
        count = counts[parent, name, program]
        if count > 1:
            title = f"{name} and its {count - 1:,} duplicate{'s' * (count > 2)}"
            parent = growth.child(parent, DUPLICATES, title, (name, program))
        found.append(parent)
    return found
