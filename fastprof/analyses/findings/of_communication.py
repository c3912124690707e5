"""Findings on collectives that no compute hides: what they take, and how long devices wait in them for the last one.

In each step, what the least waiting device spends in collectives is communication; what the others spend beyond that is
waiting for it. The run is longer by the mean of those that wait.

    device 0   |==compute==|....all-reduce....|      wait 4, communication 2
    device 1   |==compute==|....all-reduce....|      wait 4, communication 2
    device 2   |=======compute=======|...ar...|      the last: communication 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fastprof.analyses.findings.advice import advice
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, Finding
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES
from fastprof.derive.ops.tables import sums_by

COMMUNICATION: Final = "communication"
MOSTLY: Final = 0.5
"""One device is late if it causes this share of all waiting."""


@dataclass(frozen=True, slots=True)
class _Spent:
    """``common_ps``: what every device spends in collectives; ``waited_ps``: what those that wait spend beyond, on
    average; ``late``: by device that was last, the waiting for it."""

    common_ps: int
    waited_ps: int
    late: Counter[tuple[str, str]]

    def last(self) -> tuple[str | None, str | None]:
        """The host and the device that the others wait for most; None: it is not always the same."""
        hosts: Counter[str] = Counter()
        for (host, _), wait in self.late.items():
            hosts[host] += wait
        (host, device), most = self.late.most_common(1)[0]
        if most > MOSTLY * self.late.total():
            return host, device
        host, most = hosts.most_common(1)[0]
        return (host, None) if len(hosts) > 1 and most > MOSTLY * hosts.total() else (None, None)


def found(facts: Facts) -> Iterator[Finding]:
    spent = _spent(facts)
    if spent is None:
        return
    if spent.waited_ps:
        host, device = spent.last()
        yield Finding(
            "straggler",
            f"Devices wait in collectives for {device or host or 'the last of them'}",
            spent.waited_ps,
            CERTAIN if host else LIKELY,
            _shown(facts, "stragglers"),
            advice("straggler", facts.framework),
            host=host,
            device=device,
        )
    ops = [row for row in facts.table("communication", "operations").to_pylist() if row["scope"] == BETWEEN_DEVICES]
    first = ops[0] if ops else {"kind": COMMUNICATION, "name": None}
    yield Finding(
        COMMUNICATION,
        f"{facts.devices()} for {first['kind']} that nothing hides",
        spent.common_ps,
        CERTAIN,
        _shown(facts, "operations"),
        advice(COMMUNICATION, facts.framework),
        is_bound=True,
        op=first["name"],
    )


def _shown(facts: Facts, table: str) -> str:
    """That table as evidence, or what each device spends if the table has no rows."""
    return f"{COMMUNICATION}.{table if facts.table(COMMUNICATION, table).num_rows else 'devices'}"


def _spent(facts: Facts) -> _Spent | None:
    """None: no device waits for collectives."""
    every = facts.budget
    rows = every.budget[every.budget.cause == GAP_CAUSES.index(COMMUNICATION)]
    if not len(rows):
        return None
    devices, device = np.unique(rows.device, return_inverse=True)
    steps, step = np.unique(rows.step, return_inverse=True)
    cell = step.reshape(-1) * len(devices) + device.reshape(-1)
    time = sums_by(cell, rows.time_ps, len(steps) * len(devices)).reshape(len(steps), len(devices))
    beyond = time - time.min(axis=1, keepdims=True)
    waits = beyond * 2 > beyond.max(axis=1, keepdims=True)
    waited = np.where(waits, beyond, 0).sum(axis=1) // np.maximum(waits.sum(axis=1), 1)
    caused = np.where(waits, 0, waited[:, np.newaxis]).sum(axis=0)
    late: Counter[tuple[str, str]] = Counter()
    for one, wait in zip(devices.tolist(), caused.tolist(), strict=True):
        if wait:
            late[every.hosts[every.host_of[one]], every.devices[one]] += wait
    return _Spent(int(time.min(axis=1).sum()), int(waited.sum()), late)
