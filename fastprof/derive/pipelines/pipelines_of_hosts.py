"""What is known of the pipelines of many hosts after one look at each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastprof.derive.pipelines.kept_pipelines import KeptPipelinesOfHost, PipelineTotals

MOST: Final = 5
"""Slow pipelines that are known by their hosts."""


class PipelinesOfHosts:
    """``hosts``: how many there are; ``places``: of those with pipelines; ``record_count``: of these. ``slowest``: the
    place of the host, and the number, of the first of ``slow_count`` pipelines with slow calls: those of steps first,
    then those that calls take longest of. ``slow_outside``: calls of those outside of steps; ``slow_in_steps``: whether
    one is not. ``away``: calls outside of all steps, of ``of_steps`` of hosts with steps. The rest are sums of what
    PipelineTotals and InSteps have, and whether that is of any host; ``step_ps``, ``waited_ps``, ``has_calls``: of
    hosts with calls; ``ahead_known``: of all."""

    def __init__(self, kept: Iterable[KeptPipelinesOfHost]) -> None:
        self.hosts, self.places = 0, list[int]()
        self.event_count = self.unidentified = self.record_count = 0
        self.pipelines = self.iterators = self.calls = self.slow_calls = self.most_ps = 0
        self.step_ps = self.waited_ps = self.away = self.of_steps = 0
        self.slow_count = self.slow_outside = 0
        self.any_chosen = self.has_calls = self.devices_wait = self.slow_in_steps = False
        self.predicted = self.helps = False
        self.ahead_known = True
        self.cores = set[int]()
        self._slowest = list[tuple[bool, int, int, int]]()
        for place, one in enumerate(kept):
            totals = one.totals
            self.hosts += 1
            self.event_count, self.unidentified = (
                self.event_count + one.event_count,
                self.unidentified + one.unidentified,
            )
            self.any_chosen |= one.chosen
            if totals.pipelines:
                self.places.append(place)
                self.record_count += one.record_count
            self._add(totals)
            self._add_slow(place, totals)

    @property
    def slowest(self) -> list[tuple[int, int]]:
        return [(place, pipeline) for _, _, place, pipeline in self._slowest]

    def _add(self, totals: PipelineTotals) -> None:
        self.pipelines += totals.pipelines
        self.iterators += totals.iterators
        self.calls += totals.calls
        self.slow_calls += totals.slow_calls
        self.most_ps = max(self.most_ps, totals.most_ps)
        steps = totals.in_steps
        if totals.calls:
            self.step_ps += steps.step_ps
            self.waited_ps += steps.waited_ps
            self.has_calls |= steps.has_calls
        if steps.step_count:
            self.away += sum(steps.outside)
            self.of_steps += totals.calls
        self.devices_wait |= totals.of_devices and steps.waits
        self.ahead_known &= steps.ahead_known
        self.predicted |= totals.predicted
        self.helps |= totals.predicted and totals.helps
        self.cores.update(totals.cores)

    def _add_slow(self, place: int, totals: PipelineTotals) -> None:
        self.slow_count += len(totals.slow)
        self.slow_outside += sum(count for outside, *_, count in totals.slow if outside)
        self.slow_in_steps |= not all(outside for outside, *_ in totals.slow)
        slow = [(outside, time, place, pipeline) for outside, time, pipeline, _ in totals.slow]
        self._slowest = sorted([*self._slowest, *slow])[:MOST]
