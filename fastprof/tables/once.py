"""Values that several analyses compute from the same events: each computed once, and kept with the events."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

KeptValues = dict[tuple[object, ...], Any]
"""By function and arguments; only ``once`` reads and writes it."""


class KeepsValues(Protocol):
    """What values can be kept with."""

    @property
    def kept(self) -> KeptValues: ...


E = TypeVar("E", bound=KeepsValues)
P = ParamSpec("P")
T = TypeVar("T")


def once(compute: Callable[Concatenate[E, P], T]) -> Callable[Concatenate[E, P], T]:
    """A function of events that is called once for the same events and arguments, which must be hashable. Its value is
    shared by all callers: nobody changes it."""

    @wraps(compute)
    def kept(events: E, /, *args: P.args, **named: P.kwargs) -> T:
        assert not named, "arguments are given by position"
        key = (compute, *args)
        if key not in events.kept:
            events.kept[key] = compute(events, *args, **named)
        value: T = events.kept[key]
        return value

    return kept
