"""What was kept of many hosts, each in memory only while it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Packed(Generic[T]):
    """A value that is packed. ``unpack``: makes it, each time that it is called."""

    __slots__ = ("unpack",)

    def __init__(self, unpack: Callable[[], T]) -> None:
        self.unpack = unpack


def _itself(value: Any) -> Any:
    return value


class OneByOne(Sequence[T]):
    """Values of hosts, in their order; those that are packed are unpacked each time that they are looked at."""

    def __init__(self, values: Sequence[Any], part: Callable[[Any], T] = _itself) -> None:
        """``part``: what is wanted of each."""
        self._values, self._part = values, part

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> OneByOne[T]: ...
    def __getitem__(self, at: int | slice) -> T | OneByOne[T]:
        if isinstance(at, slice):
            return OneByOne(self._values[at], self._part)
        value = self._values[at]
        return self._part(value.unpack() if isinstance(value, Packed) else value)

    def only(self, places: Sequence[int]) -> OneByOne[T]:
        """Some of them."""
        values = self._values
        return OneByOne(
            values.only(places) if isinstance(values, OneByOne) else [values[at] for at in places], self._part
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """With all values: what is packed stays where it is."""
        values = [one.unpack() if isinstance(one, Packed) else one for one in self._values]
        return type(self), (values, self._part)

    def __iter__(self) -> Iterator[T]:
        return (self[at] for at in range(len(self)))
