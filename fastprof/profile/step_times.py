"""Which time some steps take, host by host."""

from __future__ import annotations

import numpy as np

from fastprof.decode.selection import Steps
from fastprof.tables.table_set import TableSet


def step_times(tables: TableSet, steps: Steps) -> dict[str, tuple[int, int]]:
    """For each selected host that has any of the steps: when the first of them starts and the last ends, in ps.

    Steps of several cores or devices of a host start where the first of these starts, and end with the last. Which
    events of a host are selected makes no difference to its steps.
    """
    from fastprof.analyses import step_choice

    names, wanted_hosts = tables.session.hosts, tables.selection.hosts
    hosts = [number for number, name in enumerate(names) if wanted_hosts is None or name in wanted_hosts]
    every = step_choice.steps_of_hosts(tables, hosts)
    groups = step_choice.groups_of_steps(every, steps)
    found: dict[str, tuple[int, int]] = {}
    for place, number in enumerate(hosts):
        database = every[place].database
        some = step_choice.numbered(database.step, steps) if groups is None else np.isin(database.step, groups[place])
        wanted = database.present & some[:, np.newaxis]
        if wanted.any():
            begins = database.begin_ps[wanted]
            found[names[number]] = int(begins.min()), int((begins + database.duration_ps[wanted]).max())
    return found
