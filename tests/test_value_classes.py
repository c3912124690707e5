"""Dataclasses that are quick to define do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from fastprof.schema import value_classes


def _made(decorator: Callable[..., Any], **flags: bool) -> Any:
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False, kw_only=True)

    return decorator(slots=True, **flags)(Point)


@value_classes.dataclass(frozen=True, slots=True)
class One:
    first: int


@value_classes.dataclass(frozen=True, slots=True)
class Pair(One):
    second: int = 0
    sum: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sum", self.first + self.second)


CALLS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((1,), {}), ((1, 3), {}), ((1, 3, ["a"]), {}), ((), {"y": 3, "x": 1}), ((1,), {"note": "n"}),
    ((), {}), ((1, 2, [], ""), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((1, 2), {"y": 2, "names": []}),
)  # fmt: skip


@pytest.mark.parametrize("flags", [{"frozen": True}, {}, {"frozen": True, "eq": False}], ids=str)
def test_they_are_those_of_the_standard_library(flags: dict[str, bool]) -> None:
    ours, theirs = _made(value_classes.dataclass, **flags), _made(dataclasses.dataclass, **flags)
    for values, named in CALLS:
        assert _described(ours, values, named) == _described(theirs, values, named)
    assert str(inspect.signature(ours)).replace("<class 'list'>", "<factory>") + " -> None" == str(
        inspect.signature(theirs)
    )
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    assert [one.name for one in dataclasses.fields(ours)] == ["x", "y", "names", "note"]
    assert (ours(1) == ours(1, note="other"), ours(1) == ours(2)) == (flags.get("eq", True), False)
    with pytest.raises(AttributeError):
        ours(1).z = 1


def _described(made: Any, values: tuple[Any, ...], named: dict[str, Any]) -> object:
    try:
        one = made(*values, **named)
    except TypeError:
        return TypeError
    return repr(one).replace(" object at ", "").partition("0x")[0], dataclasses.asdict(one), one.__match_args__


def test_frozen_ones_keep_their_values_and_hash_by_them() -> None:
    pair = Pair(1, 2)
    assert (pair.sum, hash(pair) == hash(Pair(1, 2)), {pair: 3}[Pair(1, 2)]) == (3, True, 3)
    with pytest.raises(FrozenInstanceError):
        pair.first = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del pair.first
    assert dataclasses.replace(pair, first=5).sum == 7
    assert pickle.loads(pickle.dumps(pair)) == copy.copy(pair) == copy.deepcopy(pair) == pair
