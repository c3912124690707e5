"""What is kept of many hosts, merged while it comes: 32 hosts become one value of each analysis that merges.

hosts   0 … 31 ──► a group ──┐
hosts  32 … 63 ──► a group ──┼──► 32 groups ──► a group of groups
hosts  64 … 95 ──► a group ──┘
hosts  96 … 127    the last ones, at most 32, stay as they are

A group is merged when a host comes after it, so up to 32 hosts are as they were kept. Wherever hosts are read, groups
are the same: sums of floats, which depend on the order, are equal too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from fastprof.analyses.keeping import KeptOfHosts, Plan, faults_named
from fastprof.errors import CaptureError

GROUP: Final = 32


class Merging:
    """``together``: makes one of what is kept of 32 hosts, or of 32 groups of hosts."""

    def __init__(self, together: Callable[[Sequence[KeptOfHosts]], KeptOfHosts]) -> None:
        self._together = together
        self._levels: list[list[KeptOfHosts]] = []

    def add(self, one: KeptOfHosts) -> None:
        """Hosts come in the order of the session."""
        while len(self._levels) <= one.level:
            self._levels.append([])
        level = self._levels[one.level]
        if len(level) == GROUP:
            self._levels[one.level] = []
            self.add(self._together(level))
        self._levels[one.level].append(one)

    def parts(self) -> Iterator[KeptOfHosts]:
        """All, in the order of the session, each forgotten when the next one is taken."""
        for level in reversed(self._levels):
            level.reverse()
            while level:
                yield level.pop()


def groups(hosts: int) -> Iterator[int]:
    """How many groups of 32 there are at each level above single hosts."""
    while hosts > GROUP:
        hosts = (hosts - 1) // GROUP
        yield hosts


def merges(plan: Plan, name: str) -> bool:
    """Whether an analysis merges. Pages of XProf show each host, so for them none does."""
    return not plan.keepers and hasattr(plan.analyses[name], "merge")


def one_by_one(plan: Plan, name: str) -> bool:
    """Whether an analysis looks at what was kept of one host after the other. Pages of XProf take all at once."""
    return not plan.keepers and getattr(plan.analyses[name], "ONE_BY_ONE", False)


def together(parts: Sequence[KeptOfHosts], plan: Plan, without: Collection[str] = ()) -> KeptOfHosts:
    """One of what is kept of hosts that follow each other. ``without``: analyses that keep nothing."""
    found = joined(parts)
    found.level = parts[0].level + 1
    shared: dict[Any, Any] = {}
    for name, values in [*found.kept.items()]:
        if name in without or name in found.errors:
            del found.kept[name]
        elif merges(plan, name):
            merge: Any = plan.analyses[name].merge  # type: ignore[attr-defined]
            try:
                with faults_named(None, None):
                    found.kept[name] = [merge(values, plan.params[name], shared)]
            except CaptureError as error:
                found.errors[name] = error
                del found.kept[name]
    return found


def joined(parts: Iterable[KeptOfHosts]) -> KeptOfHosts:
    """All values in one, in their order."""
    found = KeptOfHosts("", "", 0)
    for one in parts:
        if not found.hosts:
            found.host, found.path, found.unnamed = one.host, one.path, one.unnamed
        found.hosts, found.of_no_step = found.hosts + one.hosts, found.of_no_step + one.of_no_step
        found.of_steps, found.repeated = found.of_steps + one.of_steps, found.repeated or one.repeated
        found.unnamed = found.unnamed and one.unnamed
        found.records += one.records
        for into, values in ((found.kept, one.kept), (found.of_form, one.of_form)):
            for name in values:
                into.setdefault(name, []).extend(values[name])
        found.errors |= {name: error for name, error in one.errors.items() if name not in found.errors}
    return found
