"""Which groups of each host are the steps that are chosen by number.

A single host finds the groups itself, from its own steps. Of several hosts, the steps of all are needed to know which
group of each host is meant.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fastprof.decode.selection import Selection, Steps
from fastprof.derive.host import Choice, Host
from fastprof.derive.ops.impossible_events import without_impossible
from fastprof.derive.steps import step_numbers
from fastprof.derive.steps.step_numbers import are_chosen
from fastprof.derive.steps.step_source import AUTO
from fastprof.errors import UsageError
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet

if TYPE_CHECKING:
    from fastprof.derive.steps.of_host import HostSteps


class StepsOfHosts(Protocol):
    """Whose steps are chosen. ``alone``: whether there is one host, or none."""

    @property
    def alone(self) -> bool: ...

    def steps(self, source: str) -> list[HostSteps]: ...


def choices(hosts: StepsOfHosts, steps: Steps, source: str) -> list[Choice]:
    """Return the wanted groups of each host; a single host chooses them itself from ``steps``."""
    return [steps] if hosts.alone else [*groups_of_steps(hosts.steps(source), steps)]


def steps_of_hosts(tables: TableSet, hosts: Sequence[int], source: str = AUTO) -> list[HostSteps]:
    """The steps of hosts with all their events, whatever else is selected."""
    needs = importlib.import_module("fastprof.analyses.steps").READS
    every = TableSet(tables.session, Selection(tables.selection.hosts))
    found = []
    for number in hosts:
        events = read_host(every, number, needs.planes, needs.stats, needs.metadata_stats)
        host = Host(without_impossible(events, entire=True), tables.session.workers)
        found.append(host.steps_from(source))
    return found


def absence(hosts: StepsOfHosts, steps: Steps, source: str) -> str:
    """Of hosts that have none of these steps: a sentence with those that they have."""
    return _absence(hosts.steps(source), steps)


def _absence(hosts: Sequence[HostSteps], steps: Steps) -> str:
    from fastprof.derive.steps.across_hosts import paired

    database = paired(hosts)
    return step_numbers.absent(steps, database.number, database.label)


def groups_of_steps(hosts: Sequence[HostSteps], steps: Steps) -> list[Int64s]:
    """Return the groups of each host that are these steps. Steps that some hosts lack are chosen by their number on
    the host, unless hosts number steps differently."""
    from fastprof.derive.steps.across_hosts import paired

    database = paired(hosts)
    common = database.group[are_chosen(database.number, database.label, steps)]
    found = []
    for place, host in enumerate(hosts):
        groups, own = common[:, place], host.database
        if not database.differs:
            alone = are_chosen(own.number, own.label, steps) & ~np.isin(own.step, database.group[:, place])
            groups = np.concatenate([groups, own.step[alone]])
        found.append(groups[groups >= 0])
    return found


def times(tables: TableSet, steps: Steps) -> dict[str, tuple[int, int]]:
    """For each selected host with any of the steps: start of the first and end of the last one, in ps.

    A step on several cores or devices starts with the first of these and ends with the last. The selection of events
    does not change the steps of a host. UsageError: no host has any of the steps.
    """
    names, wanted_hosts = tables.session.hosts, tables.selection.hosts
    hosts = [number for number, name in enumerate(names) if wanted_hosts is None or name in wanted_hosts]
    return times_of([names[number] for number in hosts], steps_of_hosts(tables, hosts), steps)


def times_of(names: Sequence[str], every: Sequence[HostSteps], steps: Steps) -> dict[str, tuple[int, int]]:
    """Return begin and end of the chosen steps by host name. UsageError: no host has any of the steps."""
    from fastprof.schema.time_sums import ends_of  # with NumPy, late

    groups = groups_of_steps(every, steps)
    times: dict[str, tuple[int, int]] = {}
    for place, name in enumerate(names):
        database = every[place].database
        wanted = database.present & np.isin(database.step, groups[place])[:, np.newaxis]
        if wanted.any():
            begins = database.begin_ps[wanted]
            times[name] = int(begins.min()), int(ends_of(begins, database.duration_ps[wanted]).max())
    if every and not times:
        raise UsageError(_absence(every, steps))
    return times
