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
from fastprof.derive.communication.kinds import BETWEEN_DEVICES
from fastprof.schema.array_types import Int64s

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
    columns = (
        facts.table("gaps", "by_step")[name].to_pylist() for name in ("cause", "host", "device", "step", "time_ps")
    )
    rows = [row[1:] for row in zip(*columns, strict=True) if row[0] == COMMUNICATION]
    if not rows:
        return None
    names = list(dict.fromkeys((host, device) for host, device, _, _ in rows))
    place = {name: number for number, name in enumerate(names)}
    steps = {step: number for number, step in enumerate(dict.fromkeys(step for _, _, step, _ in rows))}
    time: Int64s = np.zeros((len(steps), len(names)), np.int64)
    for host, device, step, time_ps in rows:
        time[steps[step], place[host, device]] += time_ps
    beyond = time - time.min(axis=1, keepdims=True)
    waits = beyond * 2 > beyond.max(axis=1, keepdims=True)
    waited = np.where(waits, beyond, 0).sum(axis=1) // np.maximum(waits.sum(axis=1), 1)
    late: Counter[tuple[str, str]] = Counter()
    for step, wait in enumerate(waited.tolist()):
        for device in np.flatnonzero(~waits[step]).tolist() if wait else ():
            late[names[device]] += wait
    return _Spent(int(time.min(axis=1).sum()), int(waited.sum()), late)
