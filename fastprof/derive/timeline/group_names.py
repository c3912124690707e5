"""The group and the name that events of a host have: those of its steps, batches and requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.host import Host
from fastprof.schema.array_types import Int32s


class GroupTitles:
    """What some groups are called. It takes as long for one as for many, so they are looked up once. ``steps``: those
    without a name by the line of steps of TPUs, else by their number."""

    def __init__(self, host: Host, groups: Iterable[npt.NDArray[Any]], *, steps: bool = False) -> None:
        self.numbers = np.unique(np.concatenate([np.zeros(0, np.int32), *groups]))
        names = host.groups.step_names if steps else host.groups.names_of
        found = names(self.numbers) if len(self.numbers) else []
        self.titles = found[0] if isinstance(found, tuple) else found

    def of(self, groups: npt.NDArray[Any]) -> list[str]:
        return [self.titles[place] for place in np.searchsorted(self.numbers, groups).tolist()]


def group_of(host: Host, rows: npt.NDArray[Any]) -> list[str | None]:
    """What the group of each event is called; None: it has none."""
    groups = host.groups.group_id[rows]
    numbers, place = np.unique(groups, return_inverse=True)
    known = numbers >= 0
    names: list[str | None] = [None] * int((~known).sum())
    names += host.groups.names_of(numbers[known])
    return [names[one] for one in place.reshape(-1).tolist()]


def name_overrides(host: Host) -> tuple[Int32s, list[str]]:
    """Events that trace viewers call by the name of the step that they are the root of: rows, ascending, and names."""
    groups = host.groups
    order = np.argsort(groups.step_rows, kind="stable")
    numbers, place = np.unique(groups.step_groups[order], return_inverse=True)
    names = groups.names_of(numbers)
    titles = [names[one] for one in place.reshape(-1).tolist()]
    rows = groups.step_rows[order]
    named = np.array([bool(title) for title in titles], bool)
    return rows[named], [title for title in titles if title]
