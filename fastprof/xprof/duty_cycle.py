"""The duty cycle of chips as XProf is sure of it: it takes the work of ops for integers of 32 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof._native import records
from fastprof.analyses.contract import Keeper, Needs, Report
from fastprof.derive.ops import duty_cycle
from fastprof.derive.ops.duty_cycle import DutyCycle

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.schema.array_types import Bools
    from fastprof.tables.event_stats import Stat

_NAME: Final = "duty cycle"


def in_32_bits(stat: Stat, _name: str) -> Bools:
    """Doubles are no work, nor is what is 0 or less once it is cut to 32 bits."""
    is_integer = (stat.kind == records.INT64) | (stat.kind == records.UINT64)
    return np.asarray(is_integer & (stat.value.astype(np.int32) > 0))


def _of_host(host: Host, _params: Mapping[str, Any]) -> DutyCycle:
    return duty_cycle.duty_cycle(host.raw, host.workers, in_32_bits)


_READS: Final = Needs((), duty_cycle.EVENT_STATS, duty_cycle.METADATA_STATS)
KEEPS: Final = {_NAME: Keeper(_READS, _of_host)}


def sure_times(report: Report) -> tuple[int, int]:
    """Picoseconds in which chips of all hosts were surely active, and in which they were not."""
    found = sum(report.kept[_NAME], DutyCycle())
    return found.sure_busy_ps, found.sure_idle_ps
