"""Findings on collectives that no compute hides: what they take, and how long devices wait in them for the last one.

In each step, what the least waiting device spends in collectives is communication; what the others spend beyond that is
waiting for it. The run is longer by the mean of those that wait.

    device 0   |==compute==|....all-reduce....|      wait 4, communication 2
    device 1   |==compute==|....all-reduce....|      wait 4, communication 2
    device 2   |=======compute=======|...ar...|      the last: communication 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.findings.advice import on_collectives
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, POSSIBLE, Finding
from fastprof.derive.communication.clock_remarks import in_words, saving_of
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.database import at_once
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import measured

COMMUNICATION: Final = "communication"
NEARLY_ALL: Final = 0.9
"""The finding is named after a kind of this share of what nothing hides."""
NOTABLE: Final = 0.25
"""Kinds of this share have advice of their own."""
MOSTLY: Final = 0.5
"""One device is late if it causes this share of all waiting."""


_BY_STEP: Final = f"gaps.by_step?cause={COMMUNICATION}"
_HOW: Final = "It is what devices that wait spend in collectives beyond the one that spends least, step by step."


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
        yield _straggler(facts, spent)
    ops = [row for row in facts.table(COMMUNICATION, "operations").to_pylist() if row["scope"] == BETWEEN_DEVICES]
    kinds = _exposed(facts)
    yield Finding(
        COMMUNICATION,
        f"{facts.devices()} for {_collectives(kinds)}",
        spent.common_ps,
        CERTAIN,
        f"{COMMUNICATION}.operations" if ops else f"{COMMUNICATION}.devices",
        on_collectives(_of_share(kinds, NOTABLE), facts.framework, on_gpus=facts.on_gpus),
        is_bound=True,
        op=ops[0]["name"] if ops else None,
        detail=_by_kind(facts, kinds),
    )


def _straggler(facts: Facts, spent: _Spent) -> Finding:
    """Of several hosts, the one that delays the others on the critical path, which need not be the last; of one, or if
    their clocks are not known, the device that is last."""
    missing, delays = _ranks_missing(facts), facts.table(COMMUNICATION, "blame")
    of_path = bool(delays.num_rows) and not missing
    host, device = (None, None) if missing or of_path else spent.last()
    met = bool(facts.table(COMMUNICATION, "stragglers").num_rows)
    detail = missing if missing or met else "No collective was seen on several devices."
    cost, is_bound = spent.waited_ps, bool(missing)
    evidence = f"{COMMUNICATION}.stragglers" if met and (device or host) else _BY_STEP
    if of_path:
        straggler = facts.scalar(COMMUNICATION, "straggler_host")
        host = None if straggler.value is None else str(straggler.value)
        before = int(facts.figure(COMMUNICATION, "straggler_before_ps") or 0)
        text = str(straggler.reason) if host is None else in_words(delays, host, before)
        detail = f"{text[0].upper()}{text[1:]}."
        if host is not None:
            own, is_bound = _cost_of(facts, delays, host, before)
            if 2 * own < spent.waited_ps:
                host, is_bound = None, True
                detail = f"{detail} That is less than half of what devices wait: other hosts are late, too."
            else:
                cost, evidence = own, f"{COMMUNICATION}.blame"
    return Finding(
        "straggler",
        f"Devices wait in collectives for {device or host or 'the last of them'}",
        cost,
        POSSIBLE if missing or not met else CERTAIN if host else LIKELY,
        evidence,
        facts.advise("straggler"),
        is_bound=is_bound,
        detail=" ".join([*([detail] if detail else []), *([_HOW] if evidence == _BY_STEP else [])]) or None,
        host=host,
        device=device,
    )


def _cost_of(facts: Facts, delays: pa.Table, host: str, before_ps: int) -> tuple[int, bool]:
    """What a host that delays the others costs, and whether that is the most that it may."""
    saved, is_bound = saving_of(delays, host)
    cost = saved + before_ps
    steps, compared = (facts.figure(COMMUNICATION, name) for name in ("step_count", "compared_step_count"))
    if isinstance(steps, int) and isinstance(compared, int) and 0 < compared < steps:
        return cost * steps // compared, True  # if the other steps are like these
    return cost, is_bound


def _ranks_missing(facts: Facts) -> str | None:
    """How many ranks are recorded, if not all are."""
    count, recorded = facts.figure("communication", "rank_count"), len(facts.gaps.hosts)
    if not isinstance(count, int) or recorded >= count:
        return None
    return f"{recorded} of {count:,} ranks are recorded: those that come last may be others."


def _exposed(facts: Facts) -> dict[str, int]:
    """By kind of what is exchanged between devices, the time that nothing hides, the longest first."""
    rows = [row for row in facts.table(COMMUNICATION, "kinds").to_pylist() if row["scope"] == BETWEEN_DEVICES]
    return {row["kind"]: row["exposed_ps"] for row in rows if row["exposed_ps"]}


def _of_share(kinds: Mapping[str, int], least: float) -> list[str]:
    return [kind for kind, exposed_ps in kinds.items() if exposed_ps >= least * sum(kinds.values())]


def _collectives(kinds: Mapping[str, int]) -> str:
    """What devices wait for, in words."""
    if not kinds:
        return f"{COMMUNICATION} that nothing hides"
    first = next(iter(kinds))
    nearly = bool(_of_share(kinds, NEARLY_ALL))
    return f"{first} that nothing hides" if nearly else f"collectives that nothing hides, longest for {first}"


def _by_kind(facts: Facts, kinds: Mapping[str, int]) -> str | None:
    """The kinds with their times, if there are several."""
    if len(kinds) < 2:
        return None
    times = [f"{kind} {measured(facts.per_device(exposed_ps), 'ps')}" for kind, exposed_ps in kinds.items()]
    return f"By kind, with waiting for the last device: {', '.join(times)}."


def _spent(facts: Facts) -> _Spent | None:
    """None: no device waits for collectives."""
    every, parts = facts.gaps, []
    steps = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows.step for rows in facts.budgets(COMMUNICATION))]))
    for rows in facts.budgets(COMMUNICATION):
        own, device = np.unique(rows.device, return_inverse=True)
        cell = np.searchsorted(steps, rows.step) * len(own) + device.reshape(-1)
        parts.append((own, sums_by(cell, rows.time_ps, len(steps) * len(own)).reshape(len(steps), len(own))))
    devices = np.concatenate([np.zeros(0, np.int32), *(own for own, _ in parts)])
    if not len(devices):
        return None
    common_ps = waited_ps = 0
    caused = np.zeros(len(devices), np.int64)
    many = at_once(len(devices))
    for first in range(0, len(steps), many):
        time = np.concatenate([time[first : first + many] for _, time in parts], axis=1)
        least = time.min(axis=1, keepdims=True)
        beyond = time - least
        waits = beyond * 2 > beyond.max(axis=1, keepdims=True)
        waited = np.where(waits, beyond, 0).sum(axis=1) // np.maximum(waits.sum(axis=1), 1)
        caused += np.where(waits, 0, waited[:, np.newaxis]).sum(axis=0)
        common_ps, waited_ps = common_ps + int(least.sum()), waited_ps + int(waited.sum())
    late: Counter[tuple[str, str]] = Counter()
    for one, wait in zip(devices.tolist(), caused.tolist(), strict=True):
        if wait:
            late[every.hosts[every.host_of[one]], every.devices[one]] += wait
    return _Spent(common_ps, waited_ps, late)
