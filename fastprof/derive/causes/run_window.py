"""How long the run of a host lasts, as all analyses count it: what shares of the run are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.causes.gaps import window_of
from fastprof.derive.ops.device_time import Spans
from fastprof.derive.steps.event_origin import Origin
from fastprof.derive.steps.marked_spans import markers
from fastprof.schema.time_sums import ends_of

if TYPE_CHECKING:
    from fastprof.derive.host import Host

IN_WORDS: Final = (
    "from the first to the last step, device work, or host work for devices, as in the analysis gaps; without any of "
    "these, from the first to the last event of the host's threads"
)


def run_window(host: Host, source: str, ran: Sequence[Spans]) -> tuple[int, int]:
    """Return begin and end of the run, or 0 and 0 without any events. ``source``: of steps; ``ran``: device work."""
    events, causes = host.events, host.causes_from(source)
    periods = host.periods_from(source)
    begin, end = periods.and_spans(markers(events, host.groups_from(source), np.sort(periods.step)))
    found = window_of(events, (begin, end), ran, causes)
    if found is not None:
        return found
    has = begin < end
    if not has.any():
        rows = np.flatnonzero(causes.origins.origin != Origin.NONE)
        begin = events.start_ps[rows]
        end = ends_of(begin, np.maximum(events.duration_ps[rows], 0))
        has = begin < end
    return (int(begin[has].min()), int(end[has].max())) if has.any() else (0, 0)
