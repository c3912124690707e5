"""Time between steps in which hosts wait for a slower one: hosts that collectives keep together, and others."""

from __future__ import annotations

import numpy as np
from flight_spaces import FUSION, core
from reports import record, records, session_of
from step_captures import US, spaces

STEPS, BETWEEN_US = 12, 20.0
CLOCKS_US = (0.0, 7_000.0, -3_000.0)


def capture(begins: list[float], took: list[float], clock: float) -> bytes:
    """A TPU that computes in its steps only."""
    spans = [(begin + clock + 10_000, time) for begin, time in zip(begins, took, strict=True)]
    return spaces(core(0, [(FUSION, begin, time) for begin, time in spans], steps=spans))


def pod(seed: int, *, together: bool) -> tuple[list[bytes], list[int]]:
    """Three hosts, and how long each waits for the slowest one. ``together``: steps begin at once on all of them, when
    the slowest has been done with the last for a while; else each goes on by itself."""
    rng = np.random.default_rng(seed)
    took = rng.uniform(300, 400, (STEPS, 3)) + np.array([0, 100, 0])
    slowest = took.max(axis=1, keepdims=True)
    period = (slowest if together else took) + BETWEEN_US
    begins = np.cumsum(np.vstack([np.zeros((1, 3)), period[:-1] + np.zeros((STEPS - 1, 3))]), axis=0)
    waits = np.rint((slowest - took)[:-1].sum(axis=0) * US).astype(int).tolist()
    return [capture(begins[:, n].tolist(), took[:, n].tolist(), CLOCKS_US[n]) for n in range(3)], waits


def test_quick_hosts_wait_for_the_slow_one() -> None:
    captures, waits = pod(1, together=True)
    rows = records(session_of(*captures).report("steps"), "hosts")
    assert rows[1]["waited_between_ps"] is None and waits[1] == 0
    for row, wait in zip((rows[0], rows[2]), (waits[0], waits[2]), strict=True):
        assert wait * 0.95 < row["waited_between_ps"] < wait + 100


def test_hosts_that_go_on_by_themselves_wait_for_nobody() -> None:
    rows = records(session_of(*pod(1, together=False)[0]).report("steps"), "hosts")
    assert [row["waited_between_ps"] for row in rows] == [None] * 3


def test_the_diagnosis_counts_the_wait_for_the_slow_host_only() -> None:
    """What nothing explains is the 20 microseconds between steps that all hosts have."""
    captures, waits = pod(1, together=True)
    report = session_of(*captures).report("diagnosis")
    slow = record(report, "findings", cause="straggler")
    assert slow["host"] and "Between steps, hosts wait" in slow["detail"] and "for slower ones" in slow["detail"]
    idle = record(report, "findings", cause="idle")
    assert idle["cost_ps"] < (STEPS * BETWEEN_US + 0.1 * sum(waits) / US / 3) * US
