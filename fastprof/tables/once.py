"""Values that several analyses compute from the same events: each computed once, and kept with the events."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

KeptValues = dict[tuple[object, ...], Any]
"""By function and arguments; only ``once`` reads and writes it."""

E = TypeVar("E")
P = ParamSpec("P")
T = TypeVar("T")


def once(compute: Callable[Concatenate[E, P], T]) -> Callable[Concatenate[E, P], T]:
    """A function of events, whose values it keeps in their attribute ``kept``: called once for the same events and
    arguments, which must be hashable and are given by position. All callers share the value: nobody changes it."""

    @wraps(compute)
    def lookup(events: E, /, *args: P.args, **named: P.kwargs) -> T:
        assert not named, "arguments are given by position"
        kept: KeptValues = events.kept  # type: ignore[attr-defined]
        key = (compute, *args)
        if key not in kept:
            kept[key] = compute(events, *args, **named)
        value: T = kept[key]
        return value

    return lookup
