"""Runs by name, of a session or of a report of it."""

from __future__ import annotations

from collections.abc import Collection
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
