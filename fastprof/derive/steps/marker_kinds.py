"""Markers of several kinds, such as those of training steps and of eager kernels: one kind makes the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.grouping import Groups
from fastprof.schema.array_types import Bools, Int64s
from fastprof.wording.patterns import pattern_of

_NUMBER: Final = pattern_of(r"\d+")
_LEAST: Final = 2
"""A kind occurs at least so often: names that never repeat are no kinds."""


def kinds(database: StepDatabase) -> list[str]:
    """Return the kind of each step: its name without numbers, ``ProfilerStep`` of ``ProfilerStep#7``."""
    return [_NUMBER.sub("", label).strip(" #") for label in database.label]


def one_kind(database: StepDatabase) -> tuple[Bools, str]:
    """Which steps are of the kind that counts: of those that the program numbers, else of all, the one that takes most
    time. And the names in words, "" if all steps are of one kind."""
    of_steps = kinds(database)
    duration = database.duration_ps.max(axis=1, initial=0).tolist()
    weight: dict[str, list[int]] = {}
    for kind, numbered, time in zip(of_steps, database.numbered.tolist(), duration, strict=True):
        found = weight.setdefault(kind, [0, 0, 0])
        found[0], found[1], found[2] = max(found[0], int(numbered)), found[1] + time, found[2] + 1
    every = np.ones(len(of_steps), np.bool_)
    repeated = {kind: found for kind, found in weight.items() if found[2] >= _LEAST}
    if len(weight) < 2 or not repeated:
        return every, ""
    best = max(repeated, key=lambda kind: repeated[kind])
    others = [f"{count} {_called(kind)}" for kind, (_, _, count) in weight.items() if kind != best]
    chosen = np.array([kind == best for kind in of_steps], np.bool_)
    return chosen, f"markers {_called(best)} make the steps; others are left out: {', '.join(others)}"


def _called(kind: str) -> str:
    return f"called {kind}" if kind else "without a name"


def without(groups: Groups, steps: Int64s) -> Groups:
    """The groups without these steps: their events belong to none."""
    dropped = np.zeros(groups.count + 1, np.bool_)  # the last is for events of no group
    dropped[steps] = True
    rows = ~dropped[groups.step_groups]
    return replace(
        groups,
        group_id=np.where(dropped[groups.group_id], -1, groups.group_id).astype(np.int32),
        step_rows=groups.step_rows[rows],
        step_groups=groups.step_groups[rows],
        device_steps={number: one[~dropped[one.group_id]] for number, one in groups.device_steps.items()},
    )
