"""The ops of host threads as XProf counts them: without instructions of compiled programs, and without ops that cross
another one of their thread, or end together with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastprof.analyses.contract import Keeper, Needs, Report, union
from fastprof.derive.host import Host
from fastprof.derive.ops import host_ops
from fastprof.derive.ops.combine import combined
from fastprof.derive.ops.host_ops import ThreadOps
from fastprof.derive.ops.tables import Ops
from fastprof.tables.host_events import HOST_THREADS

_NAME: Final = "host ops"


def of_host(host: Host) -> Ops:
    threads = ThreadOps(host.events, host.is_eager, host.workers)
    if threads.lines:
        return threads.stacked()[0]
    plane = host.events.plane_named(HOST_THREADS)
    # to XProf there is a thread where there is a line, be it one that a profiler computed
    return replace(Ops.none(), parts=1) if plane is not None and plane.lines else Ops.none()


def _kept(host: Host, _params: Mapping[str, Any]) -> Ops:
    return of_host(host)


KEEPS: Final = {_NAME: Keeper(union([Host.GROUPING, Needs(stats=host_ops.EVENT_STATS)]), _kept)}


def of_session(report: Report) -> Ops:
    """The ops of all hosts."""
    found: Sequence[Ops] = report.kept[_NAME]
    return combined(found, add_cores=False)
