"""The tables of hosts that meet: how their clocks differ, and who makes whom wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.communication.blame import Blame
from fastprof.derive.communication.clocks import Clocks
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.links import numbered
from fastprof.schema.array_types import Int64s
from fastprof.schema.arrow_columns import shares, texts
from fastprof.schema.column_kinds import Count, Kind, Number, Picoseconds, Share, Text
from fastprof.schema.tables import Column, TableSchema

_HOST: Final = Text("host", "host, named after the file of its capture", lambda rows: texts(rows.names, rows.host))
_PART: Final = Count("part", "number of the part: hosts that met in collectives, directly or through others; clocks of "
                     "different parts are not compared", lambda rows: rows.part)  # fmt: skip


def _known(kind: Kind, name: str, description: str) -> Column:
    """A column of clocks, null: it is not known."""
    return kind(name, f"{description}; null: the clock is not known", lambda rows: getattr(rows, name),
                lambda rows: ~rows.known)  # fmt: skip


_CLOCKS: Final = TableSchema(
    "clocks",
    "a host that met others in collectives, and its clock against that of the reference of its part, by the ends of "
    "the collectives: nobody is done before the last one has begun, and all are done at nearly the same time",
    (
        _HOST,
        _PART,
        Text("reference", "host whose clock the others of the part are compared with",
             lambda rows: texts(rows.names, rows.reference)),
        _known(Picoseconds, "offset_ps", "time to add to the host's times to have those of the reference, at at_ps"),
        _known(Picoseconds, "at_ps", "time of the host, in the middle of its part's meetings"),
        _known(Number, "drift_ppm", "what the host's clock gains on the reference, in millionths; 0: too small to "
               "see, or too few meetings"),
        _known(Picoseconds, "error_ps", "standard error of the offset, at the worst of the host's meetings; with fewer "
               "than 8 meetings bound_ps. That a host is always done later than others is not seen, and not in it"),
        Picoseconds("bound_ps", "most that the offset can be off, because nobody is done before the last has begun, "
                    "widened by three residual_ps; null: no such meetings, or the clock is not known",
                    lambda rows: rows.bound_ps, lambda rows: ~rows.known | (rows.bound_ps < 0)),
        Count("meetings", "meetings of the host with other hosts, in collectives that nothing else hides, or for whose "
              "end it waited",
              lambda rows: rows.meetings),
        _known(Picoseconds, "residual_ps", "standard deviation of the ends of the host, after the fit"),
        Count("violated", "of the meetings, those that this host left before another one came, by more than three "
              "residual_ps, or with fewer than 8 meetings at all. If more than 1 % of a part's are, its hosts do not "
              "count collectives alike, and no clock of the part is known", lambda rows: rows.violated),
        Count("step_shift", "added to the numbers of the host's steps, because its collectives meet others only then",
              lambda rows: rows.step_shift),
        Picoseconds("ntp_error_ps", "how far the host is off if it is put where it recorded to have started; null: "
                    "that is not recorded, or the clock is not known", lambda rows: rows.ntp_error_ps),
    ),
    derived=True,
)  # fmt: skip
_BLAME: Final = TableSchema(
    "blame",
    "a host that met others in collectives, by what it delays, the most first",
    (
        _HOST,
        _PART,
        Count("meetings", "meetings of the host with other hosts", lambda rows: rows.meetings),
        Count("last_count", "meetings to which the host came last", lambda rows: rows.last_count),
        Picoseconds("waited_ps", "time that the host waited for the last one, summed over meetings",
                    lambda rows: rows.waited_ps),
        Picoseconds("caused_alone_ps", "time that the other hosts would have waited less, had this one come together "
                    "with the next to last one", lambda rows: rows.caused_alone_ps),
        Picoseconds("on_path_ps", "work of the host on the critical path: time between its collectives, where the path "
                    "goes through it", lambda rows: rows.on_path_ps),
        Picoseconds("excess_ps", "of on_path_ps, time beyond the median of the others at each meeting: what it delays "
                    "others, even those that then make others wait. Less than this is saved, as others may be late too",
                    lambda rows: rows.excess_ps),
        Share("excess_share", "excess_ps / time of the critical path of the part", lambda rows: shares(
            rows.excess_ps, rows.path_ps)),
        Picoseconds("saved_ps", "most time that is saved if the host works no longer than the median, each "
                    "time until the next to last host comes", lambda rows: rows.saved_ps),
        Count("steps", "steps in which the host has an excess on the path", lambda rows: rows.steps),
    ),
    derived=True,
)  # fmt: skip
_HOST_STEPS: Final = TableSchema(
    "host_steps",
    "a step of a host that met others in collectives",
    (
        Count("step", "number of the step, as in meetings; null: meetings outside of steps", lambda rows: rows.step,
              lambda rows: rows.step < 0),
        _HOST,
        Count("meetings", "meetings of the host in the step", lambda rows: rows.meetings),
        Picoseconds("work_ps", "time from each collective to the next, in which the host works",
                    lambda rows: rows.work_ps),
        Picoseconds("waited_ps", "time that the host waited for the last one, summed over meetings",
                    lambda rows: rows.waited_ps),
        Picoseconds("beyond_ps", "work_ps beyond the median of the hosts in the step; 0: it is below",
                    lambda rows: rows.beyond_ps),
    ),
    derived=True,
)  # fmt: skip
TABLES: Final = {table.name: table for table in (_CLOCKS, _BLAME, _HOST_STEPS)}


def clocks(names: Sequence[str], seen: Clocks | None, starts_unix_ns: Sequence[int | None]) -> pa.Table:
    """A row per host that met another."""
    if seen is None:
        return _CLOCKS.empty()
    host = np.flatnonzero(seen.fit.part >= 0)
    errors = seen.ntp_error_ps(starts_unix_ns)
    return _CLOCKS.of(SimpleNamespace(
        names=names,
        host=host,
        **{name: getattr(seen.fit, name)[host] for name in
           ("part", "reference", "offset_ps", "at_ps", "error_ps", "bound_ps", "residual_ps")},
        drift_ppm=seen.fit.drift[host] * 1e6,
        known=seen.known[host],
        meetings=seen.meetings[host],
        violated=seen.violated[host],
        step_shift=seen.shift[host],
        ntp_error_ps=[errors[one] for one in host.tolist()],
    ))  # fmt: skip


def blame(names: Sequence[str], seen: Clocks | None, found: Blame | None) -> pa.Table:
    if seen is None or found is None:
        return _BLAME.empty()
    host = np.flatnonzero(found.meetings)
    host = host[np.lexsort((-found.on_path_ps[host], -found.excess_ps[host]))]
    path = np.zeros(max(seen.parts, 1), np.int64)
    for one in found.paths:
        path[one.part] = one.time_ps
    columns = ("meetings", "last_count", "waited_ps", "caused_alone_ps", "on_path_ps", "excess_ps", "saved_ps", "steps")
    return _BLAME.of(SimpleNamespace(
        names=names,
        host=host,
        part=seen.fit.part[host],
        path_ps=path[seen.fit.part[host]],
        **{name: getattr(found, name)[host] for name in columns},
    ))  # fmt: skip


def host_steps(
    names: Sequence[str], found: Blame | None, step: Int64s, numbers: Callable[[Int64s], Int64s]
) -> pa.Table:
    """``step``: of each meeting; ``numbers``: those of steps."""
    if found is None or not len(found.rows):
        return _HOST_STEPS.empty()
    rows = found.rows
    cell, count = numbered([step[rows.meeting], rows.host])
    host, of = np.zeros(count, np.int64), np.zeros(count, np.int64)
    host[cell], of[cell] = rows.host, step[rows.meeting]
    work = sums_by(cell, np.maximum(found.work, 0), count)
    order = np.lexsort((work, of))
    many = np.unique(of[order], return_index=True, return_counts=True)
    usual = work[order][many[1] + (many[2] - 1) // 2]
    beyond = np.maximum(work - usual[np.searchsorted(many[0], of)], 0)
    shown = np.lexsort((host, of))
    return _HOST_STEPS.of(SimpleNamespace(
        names=names,
        host=host[shown],
        step=numbers(of[shown]),
        meetings=np.bincount(cell, minlength=count)[shown],
        work_ps=work[shown],
        waited_ps=sums_by(cell, found.wait, count)[shown],
        beyond_ps=beyond[shown],
    ))  # fmt: skip
