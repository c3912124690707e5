"""What events and their metadata tell of the ops of devices that can be no figure, and so counts as not told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastprof.derive.ops.tables import is_work
from fastprof.derive.ops.tpu import MOST_TIMES

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

_WORK: Final = ("flops", "model_flops", "bytes_accessed")
_WORK_OF_EVENTS: Final = ("flops", "bytes_accessed")
_TIMES: Final = ("min_duration_ps", "dma_stall_duration_ps")
_CLOCK: Final = "Time Scale Multiplier"


def of_gpus(events: HostEvents) -> Iterator[str]:
    """In words, without a dot at the end."""
    yield from _of_work(sum(int((events.ints(stat)[1] < 0).sum()) for stat in _WORK_OF_EVENTS))


def of_tpus(events: HostEvents) -> Iterator[str]:
    """The same."""
    yield from _of_work(sum(int((~is_work(events.meta_stat(stat).numbers)).sum()) for stat in _WORK))
    times = sum(int((events.ints(stat)[1] < 0).sum()) for stat in _TIMES)
    if times:
        yield f"a time below 0 is told {_times(times)} (min_duration_ps, dma_stall_duration_ps): it counts as not told"
    ratios = events.stat(_CLOCK).numbers
    odd = int((~((ratios >= 0) & (ratios <= MOST_TIMES))).sum())
    if odd:
        yield f"a ratio of clocks that can be none is told {_times(odd)} ({_CLOCK}): it counts as 1"


def _of_work(count: int) -> Iterator[str]:
    if count:
        yield f"work that can be none, below 0 or beyond measure, is told {_times(count)}: it counts as not known"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
