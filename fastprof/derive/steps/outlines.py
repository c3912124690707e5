"""What is known of the steps of a host without their times on cores: enough to find which step of one host is which of
another, and little for each of many hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.of_host import HostSteps
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Spans(ArrayRows):
    """Extents of the steps of a host, over all of its cores; steps without cores last no time."""

    begin_ps: Int64s
    end_ps: Int64s

    def length_ps(self) -> int:
        """From the begin of the first to the end of the last."""
        some = self.end_ps > self.begin_ps
        return int(self.end_ps[some].max() - self.begin_ps[some].min()) if some.any() else 0


def spans_of(present: Bools, begin_ps: Int64s, duration_ps: Int64s) -> Spans:
    """Of [steps, cores]."""
    if not present.shape[1]:
        return Spans(*np.zeros((2, len(present)), np.int64))
    begin, end = spans_of_hosts(present, begin_ps, duration_ps, np.zeros(1, np.intp))
    return Spans(begin[:, 0], end[:, 0])


def spans_of_hosts(
    present: Bools, begin_ps: Int64s, duration_ps: Int64s, first: npt.NDArray[np.intp]
) -> tuple[Int64s, Int64s]:
    """Begin and end [steps, hosts] of [steps, cores]. ``first``: the first core of each host."""
    begin = np.minimum.reduceat(np.where(present, begin_ps, np.iinfo(np.int64).max), first, axis=1)
    ends = np.where(present, ends_of(begin_ps, duration_ps), np.iinfo(np.int64).min)
    some = np.logical_or.reduceat(present, first, axis=1)
    return np.where(some, begin, 0), np.where(some, np.maximum.reduceat(ends, first, axis=1), 0)


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
        rest = own.without_times()
        before = rest if before is None else _shared(rest, before)
        yield Outline(
            replace(host, database=before, marked=None),
            spans_of(own.present, own.extent_begin_ps, own.extent_ps),
        )


def _shared(one: StepDatabase, before: StepDatabase) -> StepDatabase:
    cores = replace(one.cores, **_same(one.cores, before.cores, _OF_CORES))
    return replace(one, cores=cores, **_same(one, before, _OF_STEPS))


_OF_STEPS: Final = ("step", "number", "name", "label", "numbered", "complete", "has_period", "group", "categories")
_OF_CORES: Final = ("id", "local_id", "host_number", "host", "name", "sparse", "has_details", "device")


def _same(one: Any, before: Any, names: Iterable[str]) -> dict[str, Any]:
    """The values of ``before`` that are equal to those of ``one``."""
    pairs = {name: (getattr(one, name), getattr(before, name)) for name in names}
    return {name: old for name, (new, old) in pairs.items() if _equal(new, old)}


def _equal(new: Any, old: Any) -> bool:
    return np.array_equal(new, old) if isinstance(new, np.ndarray) else new == old
