"""Findings on slow steps, the slowest host, and collectives that no compute hides.

A step that is long for a known cause, such as a checkpoint, is a finding of that cause. In each step, the collective
time of the device that waits least is communication; what the other devices spend beyond that is waiting for it. The
run is longer by the mean wait of the devices that wait.

    device 0   |==compute==|....all-reduce....|      wait 4, communication 2
    device 1   |==compute==|....all-reduce....|      wait 4, communication 2
    device 2   |=======compute=======|...ar...|      the last: communication 2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from fastprof.analyses.findings import reports
from fastprof.analyses.findings.advice import REGULAR_STEPS, advise_on_collectives
from fastprof.analyses.findings.facts import CERTAIN, LIKELY, POSSIBLE, DiagnosisFacts, Finding, sum_by_key
from fastprof.derive.causes.slow_steps import choose_explanation, format_slow_kind
from fastprof.derive.causes.time_by_cause import BETWEEN_STEPS, CAUSE_NAMES
from fastprof.derive.communication.communication_remarks import describe_delay, measure_saving
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES
from fastprof.derive.steps.step_database import count_steps_per_batch
from fastprof.derive.steps.stragglers import count_as_slow, describe_median
from fastprof.schema.columns import number_values, sum_by
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_measure, format_step_category, format_time

RARE: Final = 0.3
"""Share of long steps beyond which steps are of two kinds."""
DISPATCHED: Final = 50
"""Median steps beyond which a computing step waits for work that other steps started: their markers hold only the
dispatch."""
UNNAMED: Final = (None, "python", "idle", "launch")
"""Causes that do not say why a step is long; None: compute."""
ONCE: Final = "logging"
"""A cause that does not explain a step if no other step has it: that step is a finding, not how often it is done."""

SlowStepRow = reports.Steps.slow_steps
HostRow = reports.Steps.hosts


def find_slow_host(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find the host that is slowest in most steps. Others wait for it, as far as the program keeps them together."""
    hosts = facts.rows(reports.Steps.hosts)
    rows = [row for row in hosts if row.excess_share]
    worst = _choose_slowest(rows)
    if worst is None:
        return
    share, host = format_measure(worst.excess_share, "share"), worst.host
    steps = count_noun(worst.compared_count, "step", "steps")
    similar = count_as_slow(worst.excess_share, [row.excess_share for row in rows if row is not worst])
    title = f"{host} is the slowest host: its steps take {share} longer than {describe_median(len(hosts))}"
    if similar:
        others = count_noun(similar, "other host is slow", "other hosts are slow")
        title = f"{host} is the slowest host, with steps {share} longer than the median, and {others}, too"
    waited = facts.per_device(facts.waited_between_ps)
    others_wait = f" Between steps, hosts wait {format_time(waited)} on average for slower ones." if waited else ""
    most = f"; largest difference: {format_step_category(worst.category)}" if worst.category else ""
    yield Finding(
        "straggler",
        title,
        round(worst.excess_ps * worst.compared_count),
        LIKELY,
        f"steps.hosts?host={quote(host)}",
        f"{facts.advise('slowest host')}{_SHOWS_DELAYS if facts.table(reports.Communication.blame).num_rows else ''}",
        is_bound=True,
        host=host,
        detail=f"It is the slowest in {worst.slowest_count:,} of {steps}{most}.{others_wait}",
    )


def _choose_slowest(rows: Sequence[HostRow]) -> HostRow | None:
    """Return the host that is slowest in most steps, or None."""
    worst = max(rows, key=lambda row: int(row.slowest_count), default=None)
    return None if worst is None or 2 * worst.slowest_count <= worst.compared_count else worst


_SHOWS_DELAYS: Final = (
    " If collectives synchronize the hosts, communication.blame shows the host that delays the others."
)


@dataclass(frozen=True, slots=True)
class _SlowSteps:
    """Slow outlier steps that no named cause explains.

    ``rows``: evidence of longer work by step; ``causes``: by step, time of each cause beyond its median, over all
    devices; ``unnamed``: causes that give no reason."""

    rows: dict[int, list[SlowStepRow]]
    causes: dict[int, Counter[str | None]]
    unnamed: tuple[str | None, ...]


def sum_slow_step_time(facts: DiagnosisFacts, cause: str) -> Counter[str | None]:
    """Return the time of a cause of gaps that the finding on slow steps counts, over all devices.

    Each step's time counts for what explains most of it."""
    slow, time = _find_unexplained_steps(facts), Counter[str | None]()
    if cause not in slow.unnamed or not slow.rows:
        return time
    for step in slow.rows:
        beyond = slow.causes[step]
        of_step = _measure_own_excess(facts, slow, step) * facts.device_count
        every = sum(beyond[unnamed] for unnamed in slow.unnamed)
        if counted_ps := min(beyond[cause], of_step * beyond[cause] // max(every, 1)):
            time[_find_step_event(facts, step, cause)] += counted_ps
    return time


def _find_step_event(facts: DiagnosisFacts, step: int, cause: str) -> str | None:
    """Return the event of the host that explains most of the longest waits for a cause in a step, or None."""
    pieces = facts.gaps.pieces(cause)
    here = pieces.step == step
    time = sum_by_key(pieces.event[here].tolist(), pieces.duration_ps[here])
    return max(time, key=lambda event: time[event], default=None)


def _measure_own_excess(facts: DiagnosisFacts, slow: _SlowSteps, step: int) -> int:
    """Return what a step takes beyond the median without the time of causes that are findings of their own."""
    named = sum(time_ps for cause, time_ps in slow.causes[step].items() if cause not in slow.unnamed)
    return max(int(slow.rows[step][0].excess_ps) - facts.per_device(named), 0)


def _find_unexplained_steps(facts: DiagnosisFacts) -> _SlowSteps:
    """Return the slow outlier steps that make a finding of their own; none if long steps are usual."""
    known: _SlowSteps | None = facts.memo.get("slow")
    if known is not None:
        return known
    by_host: dict[int, dict[str, list[SlowStepRow]]] = {}
    slower_from = {row.host: row.step for row in facts.rows(reports.Steps.slowdowns)}  # a finding of its own
    for row in facts.rows(reports.Steps.slow_steps):
        first = slower_from.get(row.host)
        if row.step is not None and (first is None or row.step < first):
            by_host.setdefault(row.step, {}).setdefault(row.host, []).append(row)
    causes = _sum_excess_causes(facts, list(by_host))
    steps, time = facts.time_by_step
    once_ps = time[steps != BETWEEN_STEPS, CAUSE_NAMES.index(ONCE)]
    is_once = int(np.count_nonzero(10 * once_ps > once_ps.max(initial=0))) == 1 and len(steps) > 1
    unnamed = (*UNNAMED, ONCE) if is_once else UNNAMED
    slow: dict[int, list[SlowStepRow]] = {}
    for step, hosts in by_host.items():
        rows = max(hosts.values(), key=lambda rows: int(rows[0].excess_ps))  # of the host furthest above the median
        beyond = causes[step]
        is_named = 2 * sum(beyond[cause] for cause in unnamed) <= beyond.total()  # they explain half of the excess
        if not is_named and not is_waiting(causes, rows, step):
            slow[step] = rows
    is_rare = len(slow) <= RARE * (facts.figures(reports.Steps).step_count or 0)
    unexplained = _SlowSteps(slow if is_rare else {}, causes, unnamed)
    facts.memo["slow"] = unexplained
    return unexplained


def find_long_steps(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find slow outlier steps, with what took longer in the slowest."""
    slow_steps = _find_unexplained_steps(facts)
    slow = slow_steps.rows
    if not slow:
        return
    worst = max(slow, key=lambda step: int(slow[step][0].excess_ps))
    rows = slow[worst]
    first = rows[0]
    named = f" (called {first.name})" if first.name.isdigit() and first.name != str(worst) else ""
    several = f"{len(slow)} steps take" if len(slow) > 1 else f"Step {worst}{named} takes"
    places = np.flatnonzero(np.isin(facts.time_by_step[0], list(slow)))
    apart = {after - before for before, after in pairwise(places.tolist())}
    is_regular = len(slow) > 2 and len(apart) == 1 and apart != {1}
    if is_regular:
        several = f"One in {max(apart)} steps takes"
    times = first.duration_ps / max(first.median_ps, 1)
    known, event, time_ps = _explain_step(facts, rows, slow_steps.causes[worst], worst)
    detail = f"In step {worst}, {event} explains {format_time(time_ps)} more than usual." if event else None
    if known is not None:
        what, took = format_slow_kind(known.kind, known.what), format_time(known.time_ps)
        usual = f" instead of {format_time(known.usual_ps)}" if known.usual_ps else "; typical steps have none"
        detail = f"In step {worst}, {what} takes {took}{usual}."
    yield Finding(
        "slow_step",
        f"{several} up to {times:.1f} times the median",
        sum(_measure_own_excess(facts, slow_steps, step) for step in slow),
        CERTAIN,
        f"steps.slow_steps?step={worst}",
        facts.advise(REGULAR_STEPS if is_regular else "slow_step"),
        host=first.host,
        step=worst,
        op=known.what if known and known.kind == "op" else None,
        annotation=known.what if known and known.kind in ("annotation", "python", "event") else event,
        detail=detail,
    )


def find_slowdowns(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find the host whose devices lose most time because they compute longer from some step on."""
    rows = [row for row in facts.rows(reports.Steps.slowdowns) if row.step is not None]
    worst = max(rows, key=lambda row: int(row.excess_ps), default=None)
    if worst is None:
        return
    times, are_alike = worst.after_ps / max(worst.before_ps, 1), worst.longer_share >= _ALIKE
    before, after = format_time(worst.before_ps), format_time(worst.after_ps)
    detail = f"{worst.step_count:,} steps compute for {after} instead of {before} each."
    if worst.op is not None:
        what = "Nearly all ops take longer" if are_alike else "Most of it"
        op_before, op_after = format_time(worst.op_before_ps), format_time(worst.op_after_ps)
        detail += f" {what}: {worst.op} takes {op_after} a step instead of {op_before}."
    if others := len(rows) - 1:
        detail += f" {count_noun(others, 'other host slows', 'other hosts slow')} down, too."
    yield Finding(
        "slowdown",
        f"{'Ops take' if are_alike else 'Steps compute for'} {times:.1f} times as long from step {worst.step} on",
        worst.excess_ps,
        CERTAIN if are_alike else LIKELY,
        f"steps.slowdowns?host={quote(worst.host)}",
        facts.advise("slowdown"),
        is_bound=bool(others),
        host=worst.host,
        step=worst.step,
        op=worst.op,
        detail=detail,
    )


_ALIKE: Final = 0.8
"""Share of op time in ops that take longer from which on the device is slower, rather than some ops."""


def _explain_step(
    facts: DiagnosisFacts, rows: list[SlowStepRow], beyond: Counter[str | None], step: int
) -> tuple[SlowStepRow | None, str | None, int]:
    """Return what made the step long on its critical path: what its devices computed, or waited for, longer than usual.

    It is a row of what took longer, or without a row of its name, a host event and its time. Threads beside the path
    may take longer, too."""
    place = choose_explanation([row.kind for row in rows], [row.difference_ps for row in rows], rows[0].excess_ps)
    known = None if place is None else rows[place]
    cause = max(beyond, key=lambda cause_name: beyond[cause_name], default=None)
    if cause is None:
        op = next((row for row in rows if row.kind == "op" and 2 * row.difference_ps >= row.excess_ps), None)
        return op or known, None, 0
    event = _find_step_event(facts, step, cause)
    if event is None:
        return known, None, 0
    named = next((row for row in rows if row.what == event), None)
    if named is not None or (known is not None and known.kind == "annotation"):
        return named or known, None, 0
    return None, event, facts.per_device(beyond[cause])


def _sum_excess_causes(facts: DiagnosisFacts, slow: Iterable[int]) -> dict[int, Counter[str | None]]:
    """Measure the time of each cause above its median over all steps, by outlier step."""
    steps, time = facts.time_by_step
    steps, time = steps[steps != BETWEEN_STEPS], time[steps != BETWEEN_STEPS]
    beyond = np.maximum(time - np.median(time, axis=0).astype(np.int64), 0) if len(steps) else time
    of_step: dict[int, Counter[str | None]] = {step: Counter() for step in slow}
    rows = np.flatnonzero(np.isin(steps, list(of_step)))  # few of very many
    for step, row in zip(steps[rows].tolist(), beyond[rows].tolist(), strict=True):
        of_step[step].update(dict(zip(CAUSE_NAMES, row, strict=True)))
    return of_step


def is_waiting(causes: Mapping[int, Counter[str | None]], rows: list[SlowStepRow], step: int) -> bool:
    """Return whether the step only waits until devices have done what earlier steps started."""
    computes = 2 * causes[step][None] > causes[step].total()
    return computes and rows[0].duration_ps > DISPATCHED * rows[0].median_ps


COMMUNICATION: Final = "communication"
NEARLY_ALL: Final = 0.9
"""Share of exposed collective time from which a kind names the finding."""
NOTABLE: Final = 0.25
"""Share of exposed collective time from which a kind has advice of its own."""
MOSTLY: Final = 0.5
"""Share of all waiting beyond which a device or host is late."""


_UNDECIDED: Final = "without a common clock, the host that delays the others is unknown."
_BY_STEP: Final = f"gaps.by_step?cause={COMMUNICATION}"
_HOW: Final = "Per step: each device's collective time minus the minimum."


@dataclass(frozen=True, slots=True)
class _CollectiveTime:
    """Time that devices spend in collectives.

    ``common_ps``: time that every device spends; ``waited_ps``: what devices that wait spend beyond that, on average;
    ``late``: waiting by host and device that was last."""

    common_ps: int
    waited_ps: int
    late: Counter[tuple[str, str]]

    def find_last(self) -> tuple[str | None, str | None]:
        """Return the host and device that the others wait for most, or None where they differ."""
        hosts: Counter[str] = Counter()
        for (host, _), wait in self.late.items():
            hosts[host] += wait
        (host, device), most = self.late.most_common(1)[0]
        if most > MOSTLY * self.late.total():
            return host, device
        host, most = hosts.most_common(1)[0]
        return (host, None) if len(hosts) > 1 and most > MOSTLY * hosts.total() else (None, None)


def find_collective_waits(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find exposed collective time, and waits for the slowest device or host in collectives."""
    spent = _measure_collectives(facts)
    if spent is None:
        return
    if spent.waited_ps:
        yield _make_straggler(facts, spent)
    ops = [row for row in facts.rows(reports.Communication.operations) if row.scope == BETWEEN_DEVICES]
    between = [row for row in facts.rows(reports.Communication.kinds) if row.scope == BETWEEN_DEVICES]
    kinds = {row.kind: row.exposed_ps for row in between if row.exposed_ps}  # the longest first
    what = f"exposed {COMMUNICATION}"
    if kinds:
        first = next(iter(kinds))
        is_alone = bool(_filter_kinds(kinds, NEARLY_ALL))
        what = f"exposed {first}" if is_alone else f"exposed collectives, most for {first}"
    details = []
    others = any(row.scope != BETWEEN_DEVICES and row.exposed_ps for row in facts.rows(reports.Communication.kinds))
    if others or spent.waited_ps:  # the report communication counts more than the cost
        waited = format_time(spent.waited_ps)
        waits = f"; {waited} of waits for the slowest device count apart" if spent.waited_ps else ""
        details.append(f"Collectives without copies and feeds, share of the run{waits}.")
    if len(kinds) > 1:
        times = [f"{kind} {format_measure(facts.per_device(exposed_ps), 'ps')}" for kind, exposed_ps in kinds.items()]
        details.append(f"By kind, with waits for the slowest device: {', '.join(times)}.")
    yield Finding(
        COMMUNICATION,
        f"{facts.name_devices()} for {what}",
        spent.common_ps,
        CERTAIN,
        f"{COMMUNICATION}.operations" if ops else f"{COMMUNICATION}.devices",
        advise_on_collectives(_filter_kinds(kinds, NOTABLE), facts.framework, on_gpus=facts.on_gpus),
        is_bound=True,
        op=ops[0].name if ops else None,
        detail=" ".join(details) or None,
    )


def _make_straggler(facts: DiagnosisFacts, spent: _CollectiveTime) -> Finding:
    """Make the finding on the host that delays the others on the critical path, which need not be the last.

    Of a single host, or of hosts without known clocks, it is on the device that is last, unless another host has the
    longest steps."""
    count, recorded = facts.figures(reports.Communication).rank_count, len(facts.gaps.hosts)
    missing = None
    if isinstance(count, int) and recorded < count:
        missing = f"{recorded} of {count:,} ranks are recorded: other ranks may be slower."
    delays = facts.table(reports.Communication.blame)
    of_path = bool(delays.num_rows) and not missing
    host, device = (None, None) if missing or of_path else spent.find_last()
    met = bool(facts.table(reports.Communication.stragglers).num_rows)
    detail = missing if missing or met else "No collective has records of several devices."
    slowest = _choose_slowest([row for row in facts.rows(reports.Steps.hosts) if row.excess_share])
    if host is not None and slowest is not None and slowest.host != host:
        detail = f"{host} spends least time in collectives, but steps of {slowest.host} take longest: {_UNDECIDED}"
        host, device, met = None, None, False
    cost, is_bound = spent.waited_ps, bool(missing)
    is_known = met and any(row.caused_ps for row in facts.rows(reports.Communication.stragglers))
    evidence = f"{COMMUNICATION}.stragglers" if is_known and (device or host) else _BY_STEP
    if of_path:
        straggler = facts.scalars(reports.Communication).straggler_host
        host = None if straggler.value is None else str(straggler.value)
        before = facts.figures(reports.Communication).straggler_before_ps or 0
        text = str(straggler.reason) if host is None else describe_delay(delays, host, before)
        detail = f"{text[0].upper()}{text[1:]}."
        if host is not None:
            own, is_bound = _estimate_cost(facts, delays, host, before)
            if 2 * own < spent.waited_ps:
                host, is_bound = None, True
                detail = f"{detail} That is less than half of the wait time, because other hosts are late too."
            else:
                cost, evidence = own, f"{COMMUNICATION}.blame"
    return Finding(
        "straggler",
        f"Devices wait in collectives for {device or host or 'the slowest device'}",
        cost,
        POSSIBLE if missing or not met else CERTAIN if host else LIKELY,
        evidence,
        facts.advise("straggler"),
        is_bound=is_bound,
        detail=" ".join([*([detail] if detail else []), *([_HOW] if evidence == _BY_STEP else [])]) or None,
        host=host,
        device=device,
    )


def _estimate_cost(facts: DiagnosisFacts, delays: pa.Table, host: str, before_ps: int) -> tuple[int, bool]:
    """Return what a host that delays the others costs, and whether that is an upper bound."""
    saved, is_bound = measure_saving(delays, host)
    cost = saved + before_ps
    figures = facts.figures(reports.Communication)
    steps, compared = figures.step_count, figures.compared_step_count
    if isinstance(steps, int) and isinstance(compared, int) and 0 < compared < steps:
        return cost * steps // compared, True  # if the other steps are like these
    return cost, is_bound


def _filter_kinds(kinds: Mapping[str, int], least: float) -> list[str]:
    return [kind for kind, exposed_ps in kinds.items() if exposed_ps >= least * sum(kinds.values())]


def _measure_collectives(facts: DiagnosisFacts) -> _CollectiveTime | None:
    """Measure collective time and its waits; None if no device waits for collectives."""
    every, parts = facts.gaps, []
    steps = np.unique(
        np.concatenate([np.zeros(0, np.int64), *(rows.step for rows in facts.list_budgets(COMMUNICATION))])
    )
    for rows in facts.list_budgets(COMMUNICATION):
        own, device = number_values(rows.device)
        cell = np.searchsorted(steps, rows.step) * len(own) + device
        parts.append((own, sum_by(cell, rows.time_ps, len(steps) * len(own)).reshape(len(steps), len(own))))
    devices = np.concatenate([np.zeros(0, np.int32), *(own for own, _ in parts)])
    if not len(devices):
        return None
    common_ps = waited_ps = 0
    caused = np.zeros(len(devices), np.int64)
    many = count_steps_per_batch(len(devices))
    for first in range(0, len(steps), many):
        time = np.concatenate([time[first : first + many] for _, time in parts], axis=1)
        least = time.min(axis=1, keepdims=True)
        beyond = time - least
        waits = beyond * 2 > beyond.max(axis=1, keepdims=True)
        waited = np.where(waits, beyond, 0).sum(axis=1) // np.maximum(waits.sum(axis=1), 1)
        caused += np.where(waits, 0, waited[:, np.newaxis]).sum(axis=0)
        common_ps, waited_ps = common_ps + int(least.sum()), waited_ps + int(waited.sum())
    late: Counter[tuple[str, str]] = Counter()
    for place, wait in zip(devices.tolist(), caused.tolist(), strict=True):
        if wait:
            late[every.hosts[every.host_of[place]], every.devices[place]] += wait
    return _CollectiveTime(common_ps, waited_ps, late)
