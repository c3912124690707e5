"""What is kept of many hosts is merged while it comes: reports are those of all hosts."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

import pytest
from equal_reports import DEMO, POD, TF_DATA, XLA, check_equal

import fastprof
from fastprof.analyses import ANALYSES, merging, runner
from fastprof.analyses.contract import Report
from fastprof.analyses.keeping import KeptOfHosts, Plan, keep
from fastprof.analyses.session_hosts import SessionHosts
from fastprof.derive.host import Choice

KERNEL = DEMO / "kernel"
MERGING = [name for name in ANALYSES if hasattr(runner.module(name), "merge")]


class Held(SessionHosts):
    """What was kept of hosts before, in a given order, as often as that has them."""

    def __init__(self, plan: Plan, captures: Sequence[str]) -> None:
        profile = fastprof.load(list(captures), threads=1, as_hosts=True)
        super().__init__(profile.table_set)
        self.held = [keep(self.tables, number, plan) for number in self.numbers]
        self.order = list(range(len(self.held)))

    def kept(self, plan: Plan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[KeptOfHosts]:  # noqa: ARG002
        for number in self.order:
            one = copy(self.held[number])
            one.kept = dict(one.kept)
            yield one


def captures() -> list[str]:
    """Different hosts: of a pod of TPUs, with kernels of GPUs, with programs of the CPU, and one of tf.data."""
    return [str(path) for root in (POD, KERNEL, XLA, TF_DATA) for path in sorted(Path(root).rglob("*.xplane.pb"))]


def plan_of(*names: str) -> Plan:
    return runner.plan_of(runner.closure(names), names)


def answers(hosts: Held, plan: Plan, group: int) -> Mapping[str, Report]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "GROUP", group)
        return runner.answered(hosts, plan)


def test_reports_of_merged_hosts_are_those_of_all_hosts() -> None:
    plan = plan_of(*MERGING, "overview")
    hosts = Held(plan, captures())
    chosen = random.Random(5)
    for count, group in ((5, 2), (9, 2), (7, 3)):
        hosts.order = [chosen.randrange(len(hosts.held)) for _ in range(count)]
        check_equal(answers(hosts, plan, group), answers(hosts, plan, count))


def test_groups_of_hosts() -> None:
    assert [[*merging.groups(hosts)] for hosts in (1, 32, 33, 64, 65, 1056, 1057)] == [
        [], [], [1], [1], [2], [32], [33, 1],
    ]  # fmt: skip
