"""The time that selected steps take on each host."""

from __future__ import annotations

import numpy as np

from fastprof.decode.selection import Steps
from fastprof.tables.table_set import TableSet


def step_times(tables: TableSet, steps: Steps) -> dict[str, tuple[int, int]]:
    """For each selected host with any of the steps: start of the first and end of the last one, in ps.

    A step on several cores or devices starts with the first of these and ends with the last. The selection of events
    does not change the steps of a host.
    """
    from fastprof.analyses import step_choice

    names, wanted_hosts = tables.session.hosts, tables.selection.hosts
    hosts = [number for number, name in enumerate(names) if wanted_hosts is None or name in wanted_hosts]
    every = step_choice.steps_of_hosts(tables, hosts)
    groups = step_choice.groups_of_steps(every, steps)
    times: dict[str, tuple[int, int]] = {}
    for place, number in enumerate(hosts):
        database = every[place].database
        some = step_choice.numbered(database.step, steps) if groups is None else np.isin(database.step, groups[place])
        wanted = database.present & some[:, np.newaxis]
        if wanted.any():
            begins = database.begin_ps[wanted]
            times[names[number]] = int(begins.min()), int((begins + database.duration_ps[wanted]).max())
    return times
