"""Step times with and without recording. If a program marks no steps, calls of a compiled function count as steps.
Times are seconds of the monotonic clock."""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_left
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
_LATE: Final = 4
"""A loop has paused if its last step began this many step times ago."""
_SHORT_S: Final = 0.5
"""A loop with shorter steps has not paused."""
_MOST_INTERVALS: Final = 200
_MOST_TIMES: Final = 50_000
_MOST_FUNCTIONS: Final = 200
_JAX_API: Final = "jax._src.api"
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RecordingCost:
    """``unit``: "steps", or "calls of NAME"; ``without_s``, ``with_s``: median time of a step or call, without and with
    recording; ``cpu_s``: processor time that recording adds to it. All are None if the cost is unknown; ``why`` is the
    reason. ``noise``: uncertainty of ``share`` from varying steps and other programs."""

    unit: str | None = None
    without_s: float | None = None
    with_s: float | None = None
    why: str | None = None
    cpu_s: float = 0.0
    noise: float = 0.0

    @property
    def share(self) -> float | None:
        """Time that recording adds / unrecorded time; negative if recorded steps were faster."""
        return None if not self.without_s or self.with_s is None else self.with_s / self.without_s - 1

    @property
    def is_high(self) -> bool:
        """Return whether the cost is above the limit, or unknown. Processor time decides if noise hides this."""
        if self.share is None or not self.without_s:
            return True
        is_certain = abs(self.share - LIMIT) > self.noise
        return (self.share if is_certain else self.cpu_s / self.without_s) > LIMIT

    def __str__(self) -> str:
        if self.share is None or not self.without_s or not self.with_s:
            return f"cost not measured: {self.why}"
        change = f"{abs(self.share):.1%} {'slower' if self.share >= 0 else 'faster'}"
        if self.share < 0:
            change += ", no measurable cost"
        if self.noise > LIMIT:
            change += f", with a noise of ±{self.noise:.0%}; {self.cpu_s / self.without_s:+.1%} by processor time"
        return (
            f"{1 / self.without_s:.4g} {self.unit}/s without recording, {1 / self.with_s:.4g} with: "
            f"{change.replace('%', ' %')} (medians)"
        )


class StepTimes:
    """Start times of steps, and of calls of compiled functions, each with the processor time of the program."""

    def __init__(self) -> None:
        self._times: dict[str, deque[tuple[float, float]]] = {}
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
        times.append((time.monotonic(), time.process_time()))

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

    def count_since(self, since_s: float) -> int | None:
        """Return the number of steps since then, or of calls of the most called function. None: nothing has been noted
        so far."""
        every = [list(self._times[key]) for key in self._list_keys()]
        return max((len(times) - bisect_left(times, (since_s, 0.0)) for times in every), default=None)

    def is_steady(self) -> bool:
        """Return whether steps, or calls of a function, follow each other at present."""
        now = time.monotonic()
        for key in self._list_keys():
            last = [at for at, _ in list(self._times[key])[-FEWEST - 1 :]]
            if len(last) > FEWEST:
                usual = median(after - before for before, after in pairwise(last))
                if now - last[-1] < max(_LATE * usual, _SHORT_S):
                    return True
        return False

    def measure_cost(self, recorded: Span, unrecorded: Sequence[Span]) -> RecordingCost:
        """Compare steps in the recorded span with those in the unrecorded spans. Without steps, compare the calls of
        the function with the most calls at regular intervals."""
        best, why = RecordingCost(why="no step markers and no calls of compiled functions"), ""
        most = (False, 0)
        for key in self._list_keys():
            unit = key if key == STEPS else f"calls of {key}"
            during = self._list_intervals(key, recorded)
            parts = [self._list_intervals(key, span) for span in unrecorded]
            usual = [interval for part in parts for interval in part]
            if len(during) < FEWEST or len(usual) < FEWEST:
                few, where = (during, "recorded") if len(during) < FEWEST else (usual, "unrecorded")
                why = why or f"too few {where} {unit} to compare: {len(few)} of at least {FEWEST}"
                continue
            # Most intervals are similar, unless a step has several calls.
            intervals = [took for took, _ in usual]
            ordered, tenth = sorted(intervals), len(intervals) // 10
            rank = (0 < ordered[-1 - tenth] < 4 * ordered[tenth], len(usual))
            if rank > most:
                best, most = _compare(unit, during, [part for part in parts if len(part) >= FEWEST] or [usual]), rank
        return best if most[1] or not why else RecordingCost(why=why)

    def _list_keys(self) -> list[str]:
        return [STEPS] if STEPS in self._times else list(self._times)

    def _list_intervals(self, key: str, span: Span) -> list[Span]:
        """Return the wall and processor times of the last steps within the span."""
        times = [both for both in list(self._times[key]) if span[0] <= both[0] <= span[1]][-_MOST_INTERVALS:]
        return [(after - before, ran - had_run) for (before, had_run), (after, ran) in pairwise(times)]


def _compare(unit: str, during: Sequence[Span], parts: Sequence[Sequence[Span]]) -> RecordingCost:
    """Compare medians. The mean of the medians before and after recording cancels a steady change of the program."""
    ends = [_find_median(part) for part in parts]
    without, cpu = (sum(values) / len(ends) for values in zip(*ends, strict=True))
    with_s, with_cpu = _find_median(during)
    errors = [_estimate_error(during), *(_estimate_error(part) / len(parts) for part in parts)]
    change = (max(ends)[0] - min(ends)[0]) / 2
    noise = (change + 2 * math.hypot(*errors)) / without if without else 0.0
    return RecordingCost(unit, without, with_s, None, with_cpu - cpu, noise)


def _find_median(intervals: Sequence[Span]) -> Span:
    return median(took for took, _ in intervals), median(ran for _, ran in intervals)


def _estimate_error(intervals: Sequence[Span]) -> float:
    """Return the standard error of the median wall time, from the median deviation, as for a normal distribution."""
    middle, _ = _find_median(intervals)
    return 1.86 * median(abs(took - middle) for took, _ in intervals) / math.sqrt(len(intervals))
