"""Tables that are made when they are first looked at: of reports whose largest tables few ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class LateTables(Mapping[str, "pa.Table"]):
    """``made``: by name, in their order, a table or what makes it."""

    def __init__(self, made: Mapping[str, pa.Table | Callable[[], pa.Table]]) -> None:
        self._made = dict(made)

    def __getitem__(self, name: str) -> pa.Table:
        found = self._made[name]
        if callable(found):
            found = self._made[name] = found()
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
