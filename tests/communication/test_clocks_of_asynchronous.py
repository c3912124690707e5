"""Clocks from asynchronous collectives: their end counts if the host waited for it, and is a bound if not."""

from __future__ import annotations

from typing import Any

import numpy as np
from flight_spaces import AG_DONE, AG_START, AR, CATEGORIES, FUSION, PREFETCH_DONE, PREFETCH_START, Op, core, report_of
from reports import records
from step_captures import US, spaces

STEPS = 16
OFFSETS_US = (0.0, 3000.0, -2000.0)
NO_WAIT_US = 0.00125
AR_ALL = AR.replace("{{0,1}}", "[1,4]<=[4]")


def captures(waits: float, *, sync: bool = False, gathers: bool = True, seed: int = 5) -> list[bytes]:
    """A host each, whose clock shows what OFFSETS_US says at 0. Each step gathers what all hosts computed; a host that
    waits sees the end within a microsecond, another one whenever it looks. ``sync``: each step also sums, which takes
    90 microseconds."""
    rng = np.random.default_rng(seed)
    ops: list[list[Op]] = [[] for _ in OFFSETS_US]
    steps: list[list[tuple[float, float]]] = [[] for _ in OFFSETS_US]
    at = 10_000.0
    for _ in range(STEPS):
        begins = at + rng.uniform(100, 120, len(OFFSETS_US))
        done = begins.max() + 5
        for host, (offset, begin) in enumerate(zip(OFFSETS_US, begins.tolist(), strict=True)):
            waited = rng.random() < waits
            end = done + (rng.uniform(0, 1) if waited else rng.uniform(0.1, 40))
            last = rng.uniform(begin + 2, done) if waited else end - NO_WAIT_US
            own = [(FUSION, at, 90.0), (PREFETCH_START, at + 90, 1.0), (PREFETCH_DONE, at + 92, NO_WAIT_US)]
            if gathers:
                own += [(AG_START, begin, 1.0), (FUSION, begin + 1, last - begin - 1), (AG_DONE, last, end - last)]
            if sync:
                own.append((AR_ALL, done + 60, 90 + float(rng.uniform(0, 1))))
            ops[host] += [(text, start + offset, took) for text, start, took in own]
            steps[host].append((at + offset, 390.0))
        at += 400
    categories = {**CATEGORIES, AR_ALL: "all-reduce"}
    return [spaces(core(0, own, steps=of, categories=categories)) for own, of in zip(ops, steps, strict=True)]


def clocks(each: list[bytes]) -> list[dict[str, Any]]:
    return records(report_of(*each), "clocks")


def test_hosts_that_wait_in_some_of_them_have_clocks() -> None:
    rows = clocks(captures(0.7))
    assert len(rows) == 3
    for row, offset in zip(rows, OFFSETS_US, strict=True):
        wrong = abs(row["offset_ps"] + offset * US)
        assert wrong < 1.5 * US and wrong <= row["bound_ps"] < 40 * US and row["violated"] == 0
        assert row["meetings"] < STEPS


def test_hosts_that_never_wait_have_none() -> None:
    assert not clocks(captures(0.0))


def test_who_delays_others_is_not_found_from_them() -> None:
    report = report_of(*captures(0.9))
    assert not records(report, "blame") and "asynchronous collectives" in (
        report.scalars["straggler_host"].reason or ""
    )


def test_those_in_which_nobody_waits_bound_the_clocks() -> None:
    """A sum of 90 microseconds knows the clocks no better than that; a gathering of 5 to 45 does."""
    alone, with_others = (clocks(captures(0.0, sync=True, gathers=gathers)) for gathers in (False, True))
    for row, better, offset in zip(alone, with_others, OFFSETS_US, strict=True):
        assert row["offset_ps"] == better["offset_ps"] and row["error_ps"] == better["error_ps"]
        assert abs(row["offset_ps"] + offset * US) <= better["bound_ps"]
        assert better["bound_ps"] < 0.6 * row["bound_ps"] or not offset
