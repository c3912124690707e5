"""Which groups of each host are the steps that are chosen by number.

Of a single host the number of a step is that of its group. Hosts may number the same step differently: then the steps
of all are needed to know which group of each host is meant.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastprof.decode.selection import Selection, Steps, absent_steps, steps_text
from fastprof.derive.host import Choice, Host
from fastprof.derive.steps.step_source import AUTO
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet

if TYPE_CHECKING:
    from fastprof.derive.steps.of_host import HostSteps


def numbered(numbers: npt.NDArray[np.integer], steps: Steps) -> npt.NDArray[np.bool_]:
    """Which of these numbers of steps are wanted; below 0: none."""
    first, last = steps
    wanted = numbers >= max(0, first or 0)
    return wanted if last is None else wanted & (numbers < last)


def choices(tables: TableSet, hosts: Sequence[int], steps: Steps, source: str = AUTO) -> dict[int, Choice]:
    """By number of the host, which of its groups are wanted."""
    alike: dict[int, Choice] = dict.fromkeys(hosts, lambda groups: numbered(groups, steps))
    if len(hosts) == 1:
        return alike
    groups = groups_of_steps(steps_of_hosts(tables, hosts, source), steps)
    if groups is None:
        return alike
    return {host: partial(np.isin, test_elements=some) for host, some in zip(hosts, groups, strict=True)}


def steps_of_hosts(tables: TableSet, hosts: Sequence[int], source: str = AUTO) -> list[HostSteps]:
    """The steps of hosts with all their events, whatever else is selected."""
    needs = importlib.import_module("fastprof.analyses.steps").READS
    every = TableSet(tables.session, Selection(tables.selection.hosts))
    found = []
    for number in hosts:
        host = Host(read_host(every, number, needs.planes, needs.stats, needs.metadata_stats), tables.session.workers)
        found.append(host.steps_from(source))
    return found


def absence(tables: TableSet, hosts: Sequence[int], steps: Steps, source: str = AUTO) -> str:
    """Of a session that has none of these steps: a sentence with those that it has."""
    from fastprof.derive.steps.across_hosts import combined

    numbers = np.unique(combined(steps_of_hosts(tables, hosts, source)).step).tolist()
    return absent_steps(steps_text(steps), numbers)


def groups_of_steps(hosts: Sequence[HostSteps], steps: Steps) -> list[Int64s] | None:
    """Of each host the groups that are these steps; None: groups have the same numbers on all hosts."""
    from fastprof.derive.steps.across_hosts import combined, numbers_agree

    database = combined(hosts)
    if numbers_agree(database):
        return None
    groups = database.group[numbered(database.step, steps)]
    return [groups[:, place] for place in range(groups.shape[1])]
