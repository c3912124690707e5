"""Which groups of each host are the steps that are chosen by number.

Of a single host the number of a step is that of its group. Hosts may number the same step differently: then the steps
of all are needed to know which group of each host is meant.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

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


class StepsOfHosts(Protocol):
    """Whose steps are chosen. ``alone``: whether there is one host, or none."""

    @property
    def alone(self) -> bool: ...

    def steps(self, source: str) -> list[HostSteps]: ...


def choices(hosts: StepsOfHosts, steps: Steps, source: str) -> list[Choice]:
    """Of each host, which of its groups are wanted."""
    alike: Choice = partial(numbered, steps=steps)
    if hosts.alone:
        return [alike]
    found = hosts.steps(source)
    groups = groups_of_steps(found, steps)
    return [alike] * len(found) if groups is None else [partial(np.isin, test_elements=some) for some in groups]


def steps_of_hosts(tables: TableSet, hosts: Sequence[int], source: str = AUTO) -> list[HostSteps]:
    """The steps of hosts with all their events, whatever else is selected."""
    needs = importlib.import_module("fastprof.analyses.steps").READS
    every = TableSet(tables.session, Selection(tables.selection.hosts))
    found = []
    for number in hosts:
        host = Host(read_host(every, number, needs.planes, needs.stats, needs.metadata_stats), tables.session.workers)
        found.append(host.steps_from(source))
    return found


def absence(hosts: StepsOfHosts, steps: Steps, source: str) -> str:
    """Of hosts that have none of these steps: a sentence with those that they have."""
    from fastprof.derive.steps.across_hosts import paired

    numbers = np.unique(paired(hosts.steps(source)).step).tolist()
    return absent_steps(steps_text(steps), numbers)


def groups_of_steps(hosts: Sequence[HostSteps], steps: Steps) -> list[Int64s] | None:
    """Of each host the groups that are these steps; None: groups have the same numbers on all hosts."""
    from fastprof.derive.steps.across_hosts import numbers_agree, paired

    database = paired(hosts)
    if numbers_agree(database):
        return None
    groups = database.group[numbered(database.step, steps)]
    return [groups[:, place] for place in range(groups.shape[1])]


def times(tables: TableSet, steps: Steps) -> dict[str, tuple[int, int]]:
    """For each selected host with any of the steps: start of the first and end of the last one, in ps.

    A step on several cores or devices starts with the first of these and ends with the last. The selection of events
    does not change the steps of a host.
    """
    names, wanted_hosts = tables.session.hosts, tables.selection.hosts
    hosts = [number for number, name in enumerate(names) if wanted_hosts is None or name in wanted_hosts]
    return times_of([names[number] for number in hosts], steps_of_hosts(tables, hosts), steps)


def times_of(names: Sequence[str], every: Sequence[HostSteps], steps: Steps) -> dict[str, tuple[int, int]]:
    """The same, of hosts of these names with these steps."""
    from fastprof.schema.time_sums import ends_of  # with NumPy, late

    groups = groups_of_steps(every, steps)
    times: dict[str, tuple[int, int]] = {}
    for place, name in enumerate(names):
        database = every[place].database
        some = numbered(database.step, steps) if groups is None else np.isin(database.step, groups[place])
        wanted = database.present & some[:, np.newaxis]
        if wanted.any():
            begins = database.begin_ps[wanted]
            times[name] = int(begins.min()), int(ends_of(begins, database.duration_ps[wanted]).max())
    return times
