"""What is kept of many hosts is merged while it comes: reports are those of all hosts."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from equal_reports import DEMO, POD, TF_DATA, XLA, check_equal
from faulty_executors import Hang, Made, TestExecutor

import fastprof
from fastprof import EngineError
from fastprof.analyses import ANALYSES, accumulation, runner
from fastprof.analyses.accumulation import HostPlan, HostStates, SessionHosts, keep_host
from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.host import Choice
from fastprof.engines.host_task import GroupTask, Payloads

KERNEL = DEMO / "kernel"
MERGING = [name for name in ANALYSES if hasattr(runner.get_analysis(name), "merge")]


class Held(SessionHosts):
    """What was kept of hosts before, in a given order, as often as that has them."""

    def __init__(self, plan: HostPlan, captures: Sequence[str]) -> None:
        profile = fastprof.load(list(captures), threads=1, as_hosts=True)
        super().__init__(profile.table_set)
        self.held = [keep_host(self.tables, number, plan) for number in self.numbers]
        self.order = list(range(len(self.held)))

    def kept(self, plan: HostPlan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[HostStates]:  # noqa: ARG002
        for number in self.order:
            one = copy(self.held[number])
            one.kept = dict(one.kept)
            yield one


def captures() -> list[str]:
    """Different hosts: of a pod of TPUs, with kernels of GPUs, with programs of the CPU, and one of tf.data."""
    return [str(path) for root in (POD, KERNEL, XLA, TF_DATA) for path in sorted(Path(root).rglob("*.xplane.pb"))]


def plan_of(*names: str) -> HostPlan:
    return runner.make_plan(runner.add_prerequisites(names), names)


def answers(hosts: Held, plan: HostPlan, group: int) -> Mapping[str, AnalysisReport]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(accumulation, "GROUP", group)
        return runner.build_reports(hosts, plan)


def test_reports_of_merged_hosts_are_those_of_all_hosts() -> None:
    plan = plan_of(*MERGING, "overview")
    hosts = Held(plan, captures())
    chosen = random.Random(5)
    for count, group in ((5, 2), (9, 2), (7, 3)):
        hosts.order = [chosen.randrange(len(hosts.held)) for _ in range(count)]
        check_equal(answers(hosts, plan, group), answers(hosts, plan, count))


def test_what_is_kept_of_ops_hardly_grows_with_hosts() -> None:
    plan = plan_of("op_stats", "hlo_stats", "roofline")
    hosts = Held(plan, captures())
    one = max(hosts.held, key=lambda kept: len(pickle.dumps(kept)))
    sizes = []
    for count in (64, 192):
        parts = accumulation.HostMerger(lambda some: accumulation.merge_states(some, plan))
        for _ in range(count):
            parts.add(replace(one, kept=dict(one.kept)))
        sizes.append(sum(len(pickle.dumps(part)) for part in parts.parts()))
    assert 128 * 1_000 < sizes[1] - sizes[0] < 128 * len(pickle.dumps(one)) / 12


def test_groups_of_hosts() -> None:
    assert [[*accumulation.count_groups(hosts)] for hosts in (1, 32, 33, 64, 65, 1056, 1057)] == [
        [], [], [1], [1], [2], [32], [33, 1],
    ]  # fmt: skip


# ---- by workers


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """Seven hosts, in turn those of the demo."""
    (source,) = (Path(POD) / "plugins/profile").iterdir()
    for number in range(7):
        (tmp_path / f"host{number}.xplane.pb").symlink_to(source / f"host{number % 2}.xplane.pb")
    return tmp_path


@pytest.fixture
def _by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulation, "GROUP", 2)


def of_groups(*numbers: int, times: int = 1000) -> Callable[[Any], bool]:
    """Whether a task merges one of these groups, the first ``times`` times."""
    left = [times]

    def chosen(task: Any) -> bool:
        is_chosen = isinstance(task, GroupTask) and task.number in numbers and left[0] > 0
        left[0] -= is_chosen
        return is_chosen

    return chosen


NAMES = ("op_stats", "pod_viewer", "op_profile")


@pytest.mark.usefixtures("_by_two")
@pytest.mark.parametrize("how", ["reversed", "late", "killed", "fails once"])
def test_workers_merge_hosts_whatever_becomes_of_them(pod: Path, how: str) -> None:
    chosen = of_groups(0, times=1)

    def before(task: Any) -> None:
        if how == "late" and chosen(task):
            raise Hang
        if how == "killed" and chosen(task):
            raise BrokenExecutor("a process ended")
        if how == "fails once" and chosen(task):
            raise RuntimeError("out of threads")

    seen: list[tuple[str, int, int]] = []
    made = Made(before=before, order=(lambda held: held[::-1]) if how == "reversed" else list)
    timeout = 0.4 if how == "late" else None
    profile = fastprof.load(pod, executor=made, host_timeout=timeout, progress=lambda *one: seen.append(one))
    check_equal(profile.answers(NAMES, {}, "json"), fastprof.load(pod).answers(NAMES, {}, "json"))
    assert [one for one in seen if one[0] == "combining hosts"] == [("combining hosts", i + 1, 4) for i in range(4)]
    assert len(made.made) == (2 if how in ("late", "killed") else 1)


@pytest.mark.usefixtures("_by_two")
def test_hosts_that_are_left_out_change_the_numbers_of_others(pod: Path) -> None:
    (pod / "host0.xplane.pb").unlink()
    (pod / "host0.xplane.pb").write_bytes(b"\x0a\xff")
    profile = fastprof.load(pod, executor=TestExecutor(), on_error="skip")
    check_equal(profile.answers(NAMES, {}, "json"), fastprof.load(pod, on_error="skip").answers(NAMES, {}, "json"))


@pytest.mark.usefixtures("_by_two")
def test_a_group_that_kills_workers_is_an_error(pod: Path) -> None:
    def before(task: Any) -> None:
        if of_groups(1)(task):
            raise BrokenExecutor("a process ended")

    with pytest.raises(
        EngineError, match="the worker of a group of 2 hosts was killed 1 time, possibly because it ran out of memory"
    ):
        fastprof.load(pod, executor=Made(before=before), retries=0, on_error="skip").report("op_stats")


def test_what_workers_return_is_stored_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bytes in memory, the others in a file."""
    monkeypatch.setattr("fastprof.engines.host_task._IN_MEMORY", 10)
    payloads = Payloads()
    pieces = [payloads.put(data) for data in (b"12345", b"6789", b"abcdef", b"0")]
    assert [piece.offset < 0 for piece in pieces] == [True, True, False, True]
    assert [payloads.read(piece) for piece in pieces] == [b"12345", b"6789", b"abcdef", b"0"]
    assert payloads.take(pieces[0]) == b"12345"
    with pytest.raises(KeyError):
        payloads.read(pieces[0])
