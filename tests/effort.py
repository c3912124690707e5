"""How time grows with the size of what is worked on."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

Work = Callable[[], object]

RUNS = 3


def seconds(work: Work) -> float:
    """Of the processor, in one run."""
    begun = process_time()
    work()
    return process_time() - begun


def takes_less(large: Work, times: float, small: Work, noise_s: float = 0.0) -> bool:
    """Whether ``large`` takes less than ``times`` the time of ``small``, by the shortest of three runs of each, or less
    than ``noise_s``. A run of ``large`` that is short enough is its last."""
    limit = max(times * min(seconds(small) for _ in range(RUNS)), noise_s)
    return any(seconds(large) < limit for _ in range(RUNS))
