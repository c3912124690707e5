"""What is known of the steps of a host without their times on cores: enough to find which step of one host is which of
another, and little for each of many hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.derive.steps.database import BY_CORE, StepDatabase
from fastprof.derive.steps.of_host import HostSteps
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Spans(ArrayRows):
    """When the steps of a host were, over all of its cores; steps without cores last no time."""

    begin_ps: Int64s
    end_ps: Int64s

    def length_ps(self) -> int:
        """From the begin of the first to the end of the last."""
        some = self.end_ps > self.begin_ps
        return int(self.end_ps[some].max() - self.begin_ps[some].min()) if some.any() else 0


def spans_of(present: Bools, begin_ps: Int64s, duration_ps: Int64s) -> Spans:
    """Of [steps, cores]."""
    begin = np.where(present, begin_ps, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    end = np.where(present, ends_of(begin_ps, duration_ps), np.iinfo(np.int64).min)
    some = present.any(axis=1)
    return Spans(np.where(some, begin, 0), np.where(some, end.max(axis=1, initial=np.iinfo(np.int64).min), 0))


@dataclass(frozen=True, slots=True)
class Outline:
    """``steps``: of a host, whose database has no times on cores."""

    steps: HostSteps
    spans: Spans


def outlines(hosts: Iterable[HostSteps]) -> Iterator[Outline]:
    """Of each host. What it has in common with the host before is in memory once."""
    before: StepDatabase | None = None
    for host in hosts:
        own = host.database
        rest = _without_times(own)
        before = rest if before is None else _shared(rest, before)
        yield Outline(
            replace(host, database=before, host_ps=None, marked=None),
            spans_of(own.present, own.begin_ps, own.duration_ps),
        )


def _without_times(database: StepDatabase) -> StepDatabase:
    none: dict[str, Any] = {name: _NONE[getattr(database, name).ndim] for name in BY_CORE}
    return replace(database, **none)


_NONE: Final = {2: np.zeros((0, 0), np.int64), 3: np.zeros((0, 0, 0), np.int64)}


def _shared(one: StepDatabase, before: StepDatabase) -> StepDatabase:
    cores = replace(one.cores, **_same(one.cores, before.cores, _OF_CORES))
    return replace(one, cores=cores, **_same(one, before, _OF_STEPS))


_OF_STEPS: Final = ("step", "name", "label", "numbered", "complete", "group", "categories")
_OF_CORES: Final = ("id", "local_id", "host_number", "host", "name", "sparse", "has_details", "device")


def _same(one: Any, before: Any, names: Iterable[str]) -> dict[str, Any]:
    """The values of ``before`` that are equal to those of ``one``."""
    pairs = {name: (getattr(one, name), getattr(before, name)) for name in names}
    return {name: old for name, (new, old) in pairs.items() if _equal(new, old)}


def _equal(new: Any, old: Any) -> bool:
    return np.array_equal(new, old) if isinstance(new, np.ndarray) else new == old
