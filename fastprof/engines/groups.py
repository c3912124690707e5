"""What was kept of many hosts, merged by workers: 32 hosts a task, then 32 groups a task.

Parts stay packed here. What is left over at each level, at most 32 parts, is not merged, as in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace

from fastprof.analyses import merging
from fastprof.engines.combine_hosts import combine_hosts
from fastprof.engines.engine import Engine
from fastprof.engines.gather import gather
from fastprof.engines.host_task import VERSIONS, Analyses, GroupTask, Kept, Packed
from fastprof.engines.payloads import Payloads
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """What was kept of ``hosts`` hosts. ``number``: that of one host in the session, if it was kept under another."""

    packed: Packed
    hosts: int = 1
    number: int | None = None


def in_groups(
    parts: Sequence[Part],
    work: Analyses,
    engine: Engine,
    payloads: Payloads,
    report: Callable[[int, int], None],
) -> list[Part]:
    """The parts, which are hosts, as few as one process has them, in their order. ``report``: how many groups of how
    many are merged. Raises as ``gather``."""
    counts, left, done = [*merging.groups(len(parts))], [], 0
    level = list(parts)

    def submitted(executor: Executor, task: GroupTask) -> Future[Kept]:
        return executor.submit(combine_hosts, replace(task, parts=tuple(_loaded(one, payloads) for one in task.parts)))

    for count in counts:
        some = [level[merging.GROUP * i : merging.GROUP * (i + 1)] for i in range(count)]
        left.append(level[merging.GROUP * count :])
        tasks = [_task(i, of_group, work) for i, of_group in enumerate(some)]
        before = done
        made = gather(
            engine,
            tasks,
            lambda now, before=before: report(before + now, sum(counts)),  # type: ignore[misc]
            payloads.stored,
            submitted,
        )
        level = [Part(packed(made[task.number]), task.hosts) for task in tasks]
        done += count
    return [part for parts in reversed([*left, level]) for part in parts]


def _task(number: int, parts: Sequence[Part], work: Analyses) -> GroupTask:
    given, numbers = tuple(one.packed for one in parts), tuple(one.number for one in parts)
    return GroupTask(VERSIONS, number, work, given, numbers, sum(one.hosts for one in parts))


def _loaded(one: Packed, payloads: Payloads) -> Packed:
    return replace(one, payload=payloads.read(one.payload), beside=payloads.read(one.beside))


def packed(kept: Kept) -> Packed:
    """What a worker returned."""
    assert kept.packed is not None
    return kept.packed
