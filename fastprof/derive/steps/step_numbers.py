"""The numbers of steps: those that the program recorded, and for steps without one their place, from 0.

Three integers belong to a step::

    number   what users see and choose: 7 of ``train 7``; several steps may have one number
    group    its group of events on a host, from 0: the stat group_id
    step     the key of the step in a session: the group on the first host, unique
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.steps.step_source import LAUNCHED, MARKERS
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.wording.patterns import pattern_of
from fastprof.wording.quantities import counted, shortened

if TYPE_CHECKING:
    from fastprof.derive.steps.database import StepDatabase
    from fastprof.derive.steps.step_source import StepSource
    from fastprof.wording.amounts import Steps

_NUMBERED: Final = pattern_of(r"(?:(.*)[ #])?(\d{1,18})", re.ASCII | re.DOTALL)
_MOST_LISTED: Final = 8


def split_label(label: str) -> tuple[str, int | None]:
    """Return the name of a step without its number, and the number, or None: ``train 7``, ``ProfilerStep#7`` and ``7``
    have 7."""
    match = _NUMBERED.fullmatch(label)
    return (label, None) if match is None else ((match[1] or "").strip(), int(match[2]))


def with_numbers(database: StepDatabase, source: StepSource) -> StepDatabase:
    """Return the steps of a host with their numbers. Steps that the program does not number count from 0,
    and a label that shows the number of its group shows this number instead. ``source.numbers``: numbers by group,
    which steps had before others were left out."""
    is_marked = source.source in (MARKERS, LAUNCHED)
    if not is_marked and source.numbers is None:
        return replace(database, number=np.arange(len(database)))
    recorded = [
        split_label(label)[1] if is_marked and numbered else None
        for label, numbered in zip(database.label, database.numbered.tolist(), strict=True)
    ]
    known, count = source.numbers or {}, 0
    numbers, labels = np.zeros(len(database), np.int64), list(database.label)
    for row, (group, own) in enumerate(zip(database.step.tolist(), recorded, strict=True)):
        if own is None:
            own = known.get(group, count)
            count += 1
            if is_marked and split_label(labels[row])[1] == group:
                labels[row] = labels[row].removesuffix(str(group)) + str(own)
        numbers[row] = own
    return replace(database, number=numbers, label=labels)


def of_groups(groups: Int32s, label: list[str], numbered: Bools) -> tuple[Int64s, Int64s, list[str]]:
    """Return the number, group and label of groups that may be steps; without a number of the program, it is the
    group's."""
    recorded = [split_label(one)[1] if known else None for one, known in zip(label, numbered.tolist(), strict=True)]
    numbers = [group if own is None else own for own, group in zip(recorded, groups.tolist(), strict=True)]
    return np.array(numbers, np.int64), groups.astype(np.int64), label


def are_chosen(number: Int64s, label: Sequence[str], steps: Steps) -> Bools:
    """Return which steps of these numbers and labels are wanted."""
    chosen: Bools = number >= max(0, steps.first or 0)
    if steps.last is not None:
        chosen &= number < steps.last
    if steps.name is not None:
        chosen &= np.array([split_label(one)[0] == steps.name for one in label], np.bool_)
    return chosen


def repeated(number: Int64s, label: Iterable[str]) -> str | None:
    """Return a notice if several of the chosen steps have one number, else None."""
    _, place, times = np.unique(number, return_inverse=True, return_counts=True)
    several = (times > 1)[place.reshape(-1)]
    if not several.any():
        return None
    many = counted(int(np.count_nonzero(times > 1)), "number belongs", "numbers belong")
    names = list(
        dict.fromkeys(split_label(one)[0] for one, twice in zip(label, several.tolist(), strict=True) if twice)
    )
    text = f"{many} to several of the chosen steps: all of them are selected."
    if len(names) > 1:
        return f"{text} To choose by name, write {shortened(names[0])}=A:B."
    return text


def listed(number: Int64s, label: Sequence[str]) -> str:
    """Return the existing steps, in at most a line: ``3:8, 10:12`` of one name, ``train=3:8, eval=2:4`` of several."""
    kinds = [split_label(one)[0] for one in label]
    names = list(dict.fromkeys(kinds)) if len({*kinds}) <= _MOST_LISTED and _is_distinct(kinds, number) else [None]
    found: list[str] = []
    for name in names:
        own = number if len(names) == 1 else number[np.array([kind == name for kind in kinds], np.bool_)]
        prefix = f"{shortened(name)}=" if len(names) > 1 and name else ""
        found += [f"{prefix}{part}" for part in _ranges(own)]
    more = len(found) - _MOST_LISTED
    return ", ".join(found[:_MOST_LISTED]) + (f" and {more:,} more ranges" if more > 0 else "")


def _is_distinct(kinds: Sequence[str], number: Int64s) -> bool:
    """Return whether names distinguish steps: some number has several."""
    return len({*zip(kinds, number.tolist(), strict=True)}) > len(np.unique(number))


def _ranges(number: Int64s) -> list[str]:
    """Return numbers in the form of a choice: ``3`` and ``5:8``, whose second bound is excluded."""
    distinct = np.unique(number)
    cuts = np.flatnonzero(np.diff(distinct) != 1) + 1
    parts = [part for part in np.split(distinct, cuts) if len(part)]
    return [str(part[0]) if len(part) == 1 else f"{part[0]}:{part[-1] + 1}" for part in parts]


def absent(steps: Steps, number: Int64s, label: Sequence[str]) -> str:
    """Return the message that ``steps`` are missing, with the steps that exist."""
    steps = steps._replace(name=shortened(steps.name)) if steps.name else steps
    missing = f"no step {'in ' if ':' in str(steps) else ''}{steps}"
    if not len(number):
        return f"{missing}; the session has no steps"
    if len(number) == 1:
        return f"{missing}; the only step is {listed(number, label)}"
    ranges = listed(number, label)
    return f"{missing}; choose from {ranges}{' (ends excluded)' if ':' in ranges else ''}"
