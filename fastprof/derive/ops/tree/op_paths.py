"""Where each op hangs in a tree: under its program, its category, or the name scopes of the framework op that it comes
from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastprof.derive.ops.tree.op_trees import CATEGORY, DUPLICATES, OP, PROGRAM, SCOPE, Growth

if TYPE_CHECKING:
    from fastprof.derive.ops.tables import OpTable

GROUPINGS: Final = ("program", "category", "provenance")
MOST_SCOPES: Final = 100
"""Name scopes above each other; deeper ones are one node, so that a tree has few levels."""
NO_PROGRAM: Final = "(no program)"
UNATTRIBUTED: Final = "(unattributed)"
"""Events of unknown ops."""
UNNAMED: Final = "(unnamed)"

Title = Callable[[int], str | None]
"""How the capture lists a program."""


def scopes_of(provenance: str) -> list[str]:
    """The parts of ``a/b/c:Type`` without the type; beyond MOST_SCOPES the last ones are one."""
    parts = [part for part in provenance.split("/") if part]
    if parts:
        parts[-1] = parts[-1].partition(":")[0]
        parts = parts if parts[-1] else parts[:-1]
    return limited(parts)


def limited(scopes: list[str]) -> list[str]:
    """At most MOST_SCOPES: beyond that the last ones are one."""
    if len(scopes) <= MOST_SCOPES:
        return scopes
    return [*scopes[: MOST_SCOPES - 1], "/".join(scopes[MOST_SCOPES - 1 :])]


def grown(table: OpTable, group_by: str, title: Title) -> tuple[Growth, list[int]]:
    """A tree of all ops of a table, and the node of each. Below each node, several ops that XLA marks as duplicates are
    together."""
    growth = Growth(f"by {group_by}")
    parents = []
    programs = {one: _program_name(one, title) for one in set(table.program_id.tolist())}
    scopes = {one: scopes_of(one) for one in set(table.provenance)} if group_by == "provenance" else {}
    rows = zip(table.program_id.tolist(), table.category, table.provenance, table.unattributed, strict=True)
    for program, category, provenance, why in rows:
        name = UNATTRIBUTED if why and not program else programs[program]
        node = 0 if group_by == "category" else growth.child(0, PROGRAM, name, (program, name))
        if group_by == "provenance":
            node = growth.path(node, SCOPE, scopes[provenance])
        else:
            node = growth.child(node, CATEGORY, category or UNNAMED, category)
        parents.append(node)
    names = [named or name for named, name in zip(table.deduplicated_name, table.name, strict=True)]
    groups = list(zip(parents, names, table.program_id.tolist(), strict=True))
    counts = Counter(groups)
    for row, (parent, name, program) in enumerate(groups):
        if (count := counts[parent, name, program]) > 1:
            title_of_all = f"{name} and its {count - 1:,} duplicate{'s' * (count > 2)}"
            parents[row] = growth.child(parent, DUPLICATES, title_of_all, (name, program))
    return growth, [
        growth.added(parent, OP, name or UNNAMED, row)
        for row, (parent, name) in enumerate(zip(parents, table.name, strict=True))
    ]


def _program_name(program_id: int, title: Title) -> str:
    """How the capture lists the program, else its number; ops of no program are together."""
    return title(program_id) or (f"program {program_id % (1 << 64)}" if program_id else NO_PROGRAM)
