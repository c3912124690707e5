"""Runs by name, of a session or of a report of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn, TypeVar

from fastprof.errors import NotFoundError
from fastprof.wording.spelling import meant

T = TypeVar("T")


class Runs(dict[str, T]):
    """A name that is not there is a NotFoundError with those that are."""

    def __missing__(self, name: object) -> NoReturn:
        raise NotFoundError(no_run(name, self))


def no_run(name: object, there: Collection[str]) -> str:
    """A sentence: this run does not exist, and these do."""
    names = list(map(str, there))
    likely = meant(name, names) if isinstance(name, str) else ""
    return f"no run {name!r} in this session; there are: {', '.join(names)}{likely}"


def chosen_runs(known: Iterable[str], wanted: str | Iterable[str] | None) -> list[str]:
    """The runs that are wanted (None: all), in the order of the known ones. NotFoundError: one is unknown."""
    there = list(known)
    names = there if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if name not in there:
            raise NotFoundError(no_run(name, there))
    return [name for name in there if name in names]
