"""Step times with and without recording. If a program marks no steps, calls of a compiled function count as steps.
Times are seconds of the monotonic clock."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from fastprof.schema.value_classes import dataclass

STEPS: Final = "steps"
LIMIT: Final = 0.05
"""If recording slows steps by a larger share, they are recorded again without Python functions."""
FEWEST: Final = 3
"""Fewest steps for a comparison."""
_MOST_INTERVALS: Final = 200
_MOST_TIMES: Final = 50_000
_MOST_FUNCTIONS: Final = 200
_JAX_API: Final = "jax._src.api"
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RecordingCost:
    """``unit``: "steps", or "calls of NAME"; ``without_s``, ``with_s``: median time of a step or call, without and with
    recording. All are None if the cost is unknown; ``why`` is the reason. ``drift``: relative difference of the
    unrecorded medians before and after, or None if one is unknown."""

    unit: str | None = None
    without_s: float | None = None
    with_s: float | None = None
    why: str | None = None
    drift: float | None = None

    @property
    def share(self) -> float | None:
        """Time that recording adds / unrecorded time; negative if recorded steps were faster."""
        return None if not self.without_s or self.with_s is None else self.with_s / self.without_s - 1

    @property
    def is_high(self) -> bool:
        """Return whether the cost is above the limit, or unknown."""
        return self.share is None or self.share > LIMIT

    def __str__(self) -> str:
        if self.share is None or not self.without_s or not self.with_s:
            return f"cost not measured: {self.why}"
        share = f"{self.share:.1%} slower" if self.share >= 0 else f"{-self.share:.1%} faster, no measurable cost"
        drift = ""
        if self.drift is not None and self.drift > LIMIT:
            drift = f"; rough, as unrecorded {self.unit} before and after differ by {self.drift:.1%}".replace("%", " %")
        return (
            f"{1 / self.without_s:.4g} {self.unit}/s without recording, {1 / self.with_s:.4g} with: "
            f"{share.replace('%', ' %')} (medians){drift}"
        )


class StepTimes:
    """Start times of steps, and of calls of compiled functions."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}
        self._unhook: Callable[[], None] | None = None
        self.is_on = True

    def note(self, key: str) -> None:
        """Note that a step or a call begins now."""
        if not self.is_on:
            return
        times = self._times.get(key)
        if times is None:
            if len(self._times) >= _MOST_FUNCTIONS:
                return
            times = self._times[key] = deque(maxlen=_MOST_TIMES)
        times.append(time.monotonic())

    def count_calls(self) -> None:
        """Count calls of JAX's compiled functions from now on, if nothing marks steps and JAX's hook is free. Its NaN
        checks use the same hook."""
        state = getattr(sys.modules.get(_JAX_API), "_post_hook_state", None)
        if STEPS in self._times or state is None or state.value is not None:
            return

        def note_call(function: Any, *_call: object) -> None:
            self.note(getattr(function, "__name__", "a function"))

        def remove_hook() -> None:
            if state.value is note_call:
                state.set_global(None)

        state.set_global(note_call)
        self._unhook = remove_hook

    def stop(self) -> None:
        """Stop noting times, and free the hook."""
        self.is_on = False
        if self._unhook is not None:
            self._unhook()
            self._unhook = None

    def measure_cost(self, recorded: Span, unrecorded: Sequence[Span]) -> RecordingCost:
        """Compare steps in the recorded span with those in the unrecorded spans. Without steps, compare the calls of
        the function with the most calls at regular intervals."""
        every = list(self._times)
        best, why = RecordingCost(why="no step markers and no calls of compiled functions"), ""
        most = (False, 0)
        for key in [STEPS] if STEPS in every else every:
            unit = key if key == STEPS else f"calls of {key}"
            during = self._list_intervals(key, recorded)
            parts = [self._list_intervals(key, span) for span in unrecorded]
            usual = [interval for part in parts for interval in part]
            if len(during) < FEWEST or len(usual) < FEWEST:
                few, where = (during, "recorded") if len(during) < FEWEST else (usual, "unrecorded")
                why = why or f"too few {where} {unit} to compare: {len(few)} of at least {FEWEST}"
                continue
            rank = (_is_regular(usual), len(usual))
            if rank > most:
                ends = [median(part) for part in parts if len(part) >= FEWEST]
                drift = max(ends) / min(ends) - 1 if len(ends) > 1 and min(ends) else None
                best, most = RecordingCost(unit, median(usual), median(during), None, drift), rank
        return best if most[1] or not why else RecordingCost(why=why)

    def _list_intervals(self, key: str, span: Span) -> list[float]:
        times = [at for at in list(self._times[key]) if span[0] <= at <= span[1]][-_MOST_INTERVALS:]
        return [after - before for before, after in pairwise(times)]


def _is_regular(intervals: Sequence[float]) -> bool:
    """Return whether most intervals are similar. They are not if a step has several calls."""
    ordered, tenth = sorted(intervals), len(intervals) // 10
    return 0 < ordered[-1 - tenth] < 4 * ordered[tenth]
