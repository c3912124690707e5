"""Tables that are made at first use, for reports whose largest tables are seldom read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class LateTables(Mapping[str, "pa.Table"]):
    """``made``: by name, in order, a table or a function that makes it."""

    def __init__(self, made: Mapping[str, pa.Table | Callable[[], pa.Table]]) -> None:
        self._made = dict(made)

    def __getitem__(self, name: str) -> pa.Table:
        table = self._made[name]
        if callable(table):
            table = self._made[name] = table()
        return table

    def make(self, *names: str) -> None:
        """Makes these now, so that what they are made of is forgotten."""
        for name in names:
            self[name]

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled report has all its tables."""
        return LateTables, (dict(self),)

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
