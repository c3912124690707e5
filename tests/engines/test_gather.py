"""Hosts read by executors: whatever these do with their workers, reports are those of one process."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from equal_reports import DEMO, check_equal, of_others
from faulty_executors import Hang, Made, TestExecutor
from gate import few

import fastprof
from fastprof import CaptureError, ChangedError, EngineError, NotFoundError, UsageError
from fastprof.engines import host_task
from fastprof.profile.profile import Profile

HOSTS = 5
NAMES = ("pod_viewer", "op_profile")
ORDERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "in order": list,
    "reversed": lambda held: held[::-1],
    "shuffled": lambda held: random.Random(7).sample(held, len(held)),
}


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A run of several hosts, in turn those of the demo."""
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    for number in range(HOSTS):
        shutil.copy(source / f"host{number % 2}.xplane.pb", tmp_path / f"host{number}.xplane.pb")
    return tmp_path


def check_as_one(profile: Profile, other: Profile, names: tuple[str, ...] = NAMES) -> None:
    check_equal(profile.answers(names, {}, "json"), other.answers(names, {}, "json"))
    assert profile.remarks().equals(other.remarks())
    assert "_of_all_steps" not in profile.__dict__, "the session was opened here"


def broken(pod: Path, number: int) -> Path:
    path = pod / f"host{number}.xplane.pb"
    path.write_bytes(path.read_bytes()[:5_000])
    return path


def killed_by(*numbers: int, times: int = 1000) -> Callable[[Any], None]:
    """Breaks the executor when it runs one of these hosts, the first ``times`` times."""
    left = [times]

    def before(task: Any) -> None:
        if task.number in numbers and left[0]:
            left[0] -= 1
            raise BrokenExecutor("a process ended")

    return before


# ---- answers


def test_a_host_of_a_name_that_another_file_holds_is_read_under_the_name_of_the_session(pod: Path) -> None:
    """Only who has opened a trace of several hosts knows their names."""
    host0, trace = pod / "host0.xplane.pb", pod / "both.json.gz"
    fastprof.load(DEMO / "pod").to_trace(trace, format="chrome")
    files = [trace, host0]
    found = fastprof.load(files, as_hosts=True, executor=TestExecutor())
    check_as_one(found, fastprof.load(files, as_hosts=True), ("steps", "communication"))
    assert found.steps().tables["hosts"]["host"].to_pylist() == ["host0", "host1", "host0#2"]


@pytest.mark.parametrize("order", few(ORDERS, 1))
def test_the_order_of_answers_does_not_matter(pod: Path, order: str) -> None:
    executor = TestExecutor(ORDERS[order])
    names = ("overview", *NAMES) if order == "reversed" else NAMES
    check_as_one(fastprof.load(pod, executor=executor), fastprof.load(pod), names)
    assert sorted(set(executor.given)) == list(range(HOSTS)) and executor.alive


def test_chosen_steps_and_hosts_take_two_rounds(pod: Path) -> None:
    executor = TestExecutor()
    chosen = fastprof.load(pod, executor=executor).select(steps=(1, 3), hosts=["host1", "host3"])
    check_as_one(chosen, fastprof.load(pod).select(steps=(1, 3), hosts=["host1", "host3"]), ("op_stats", "pod_viewer"))
    assert sorted(executor.given) == sorted([*range(HOSTS)] * 2)
    for profile in (fastprof.load(pod, executor=executor), fastprof.load(pod)):
        with pytest.raises(UsageError, match=r"^no step 900; choose from 0:8 \(ends excluded\)$"):
            profile.select(steps=900).steps()


def test_few_hosts_are_given_at_a_time_and_progress_counts_them(pod: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    most: list[int] = []

    class Counting(TestExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            future = super().submit(*args, **kwargs)
            most.append(len(self._held))
            return future

    profile = fastprof.load(pod, executor=Counting(), in_flight=2, progress=lambda *one: seen.append(one))
    profile.steps()
    assert max(most) == 2 and [one for one in seen if one[0] == "analysing hosts"] == [
        ("analysing hosts", done + 1, HOSTS) for done in range(HOSTS)
    ]


def test_pages_of_xprof_and_several_runs(tmp_path: Path) -> None:
    logdir = tmp_path / "logs/plugins/profile"
    for run in ("a", "b"):
        shutil.copytree(DEMO / "pod/plugins/profile/2026_11_21_12_00_00", logdir / run)
    profile = fastprof.load(tmp_path / "logs", run=["a", "b"], executor=TestExecutor())
    other = fastprof.load(tmp_path / "logs", run=["a", "b"])
    assert profile.pod_viewer().to_arrow().equals(other.pod_viewer().to_arrow())
    assert profile.runs["a"].pod_viewer().to_xprof() == other.runs["a"].pod_viewer().to_xprof()
    assert profile.events.equals(other.events)  # decoded here
    assert profile.select(hosts="host1").hosts.equals(other.select(hosts="host1").hosts)


def test_hosts_are_ordered_by_rank_and_named_apart(tmp_path: Path) -> None:
    for name, rank in (("a", 10), ("b", 2), ("c", 0)):
        events = [{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 5}]
        document = {"schemaVersion": 1, "traceEvents": events, "distributedInfo": {"rank": rank, "world_size": 11}}
        (tmp_path / f"{name}.pt.trace.json").write_text(json.dumps(document))
    check_as_one(fastprof.load(tmp_path, executor=TestExecutor()), fastprof.load(tmp_path), ("op_stats",))
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    same = [(source / "host0.xplane.pb").read_bytes()] * 2
    check_as_one(fastprof.load(same, executor=TestExecutor()), fastprof.load(same))


# ---- broken hosts


def test_a_broken_host_is_raised_the_lowest_number_first(pod: Path) -> None:
    broken(pod, 3)
    path = broken(pod, 1)
    with pytest.raises(CaptureError) as found:
        fastprof.load(pod, executor=TestExecutor(ORDERS["reversed"])).steps()
    assert found.value.path == str(path) and found.value.offset is not None


@pytest.mark.parametrize("on_error", ["skip", "salvage"])
def test_a_broken_host_is_left_out_or_salvaged(pod: Path, on_error: str) -> None:
    broken(pod, 0)
    executor = TestExecutor()
    profile = fastprof.load(pod, executor=executor, on_error=on_error)
    check_as_one(profile, fastprof.load(pod, on_error=on_error))
    assert sorted(set(executor.given)) == list(range(HOSTS))


def test_files_that_change_or_that_workers_do_not_see(pod: Path) -> None:
    profile = fastprof.load(pod, executor=TestExecutor())
    (pod / "host2.xplane.pb").write_bytes((pod / "host1.xplane.pb").read_bytes() + b"\0")
    with pytest.raises(ChangedError, match="changed after it was listed"):
        profile.steps()
    profile = fastprof.load(pod, executor=TestExecutor(), on_error="skip")
    for path in pod.iterdir():
        path.unlink()
    with pytest.raises(EngineError, match="workers cannot see this file"):
        profile.steps()


def test_what_cannot_travel_is_refused(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (pod / "host0.xplane.pb").open("rb") as stream, pytest.raises(UsageError, match="save it to a file"):
        fastprof.load(stream, executor=TestExecutor())
    with pytest.raises(UsageError, match="must be a concurrent"):
        fastprof.load(pod, executor=7)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="no host 'other'"):
        fastprof.load(pod, executor=TestExecutor()).select(hosts="other")
    monkeypatch.setattr("fastprof.engines.engine_hosts.VERSIONS", "fastprof 0.0")
    with pytest.raises(UsageError, match="other versions") as found:
        fastprof.load(pod, executor=TestExecutor()).steps()
    assert "fastprof 0.0" in str(found.value) and host_task.VERSIONS in str(found.value)


# ---- lost workers


def test_an_executor_that_breaks_is_made_again_and_no_host_is_lost(pod: Path) -> None:
    made = Made(before=killed_by(2, times=2))
    check_as_one(fastprof.load(pod, executor=made, in_flight=3), fastprof.load(pod))
    assert len(made.made) == 3 and [one.alive for one in made.made] == [False, False, True]


def test_the_host_that_kills_workers_is_found_and_no_other_blamed(pod: Path) -> None:
    made = Made(before=killed_by(2))
    profile = fastprof.load(pod, executor=made, in_flight=3, retries=1, on_error="skip")
    others = [pod / f"host{number}.xplane.pb" for number in (0, 1, 3, 4)]
    check_equal(
        of_others(profile.answers(NAMES, {}, "json"), "host2"), fastprof.load(others).answers(NAMES, {}, "json")
    )
    (row,) = profile.remarks().to_pylist()
    assert row["code"] == "skipped_host" and row["path"].endswith("host2.xplane.pb")
    assert row["example"].startswith(
        "the worker of the host was killed 2 times, possibly because it ran out of memory (its file has"
    )
    with pytest.raises(EngineError, match=r"host2.*killed 1 time"):
        fastprof.load(pod, executor=Made(before=killed_by(2)), retries=0).steps()


def test_an_executor_that_was_given_is_not_made_again(pod: Path) -> None:
    with pytest.raises(EngineError, match=r"pass load.* a function that creates one"):
        fastprof.load(pod, executor=TestExecutor(before=killed_by(0))).steps()


def test_other_errors_of_workers_are_tried_once_more(pod: Path) -> None:
    left = {1: 1, 3: 1000}

    def before(task: Any) -> None:
        if left.get(task.number, 0):
            left[task.number] -= 1
            raise RuntimeError("out of threads")

    with pytest.raises(EngineError, match="out of threads") as found:
        fastprof.load(pod, executor=TestExecutor(before=before)).steps()
    assert found.value.path is not None and found.value.path.endswith("host3.xplane.pb")
    assert left == {1: 0, 3: 998}


def test_what_engines_raise_after_their_own_retries_is_not_tried_again(pod: Path) -> None:
    class KilledWorker(Exception):  # noqa: N818  as Dask calls it
        pass

    def before(task: Any) -> None:
        if task.number == 1:
            raise KilledWorker("four times")

    executor = TestExecutor(before=before)
    with pytest.raises(EngineError, match="KilledWorker: four times"):
        fastprof.load(pod, executor=executor).steps()
    assert sorted(executor.given) == list(range(HOSTS))


def test_a_host_that_hangs_is_given_again(pod: Path) -> None:
    def once() -> Iterator[bool]:
        yield True
        while True:
            yield False

    hangs = once()

    def before(task: Any) -> None:
        if task.number == 4 and next(hangs):
            raise Hang

    made = Made(before=before)
    check_as_one(fastprof.load(pod, executor=made, host_timeout=0.4), fastprof.load(pod))
    assert made.given.count(4) >= 2 and len(made.made) == 2


def test_a_host_that_takes_much_longer_than_others_is_given_twice(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastprof.engines.gather._SLACK_S", 0.1)
    hung: list[int] = []

    def before(task: Any) -> None:
        if task.number == 2 and not hung:
            hung.append(2)
            raise Hang

    executor = TestExecutor(before=before)
    check_as_one(fastprof.load(pod, executor=executor), fastprof.load(pod))
    assert executor.given.count(2) >= 2 and all(executor.given.count(number) < 3 for number in (0, 1, 3, 4))


def test_forked_workers_are_a_remark(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class ForkProcess:
        """As the start method fork has it."""

    monkeypatch.setattr("multiprocessing.current_process", ForkProcess)
    profile = fastprof.load(pod, executor=TestExecutor())
    profile.steps()
    (row,) = profile.remarks().to_pylist()
    assert (row["code"], row["count"], row["severity"]) == ("forked_workers", 1, "notice")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_an_interrupt_ends_executors_that_were_made_and_no_others(pod: Path, kind: type[BaseException]) -> None:
    """Also an error of ``progress``, which is none of the worker's."""

    def interrupt(*_: object) -> None:
        raise kind

    made, given = Made(), TestExecutor()
    for executor in (made, given):
        with pytest.raises(kind):
            fastprof.load(pod, executor=executor, progress=interrupt, in_flight=2).steps()
    assert [one.alive for one in made.made] == [False] and given.alive
    assert len(made.given) < HOSTS + 1


# ---- profiles


def test_a_pickled_profile_has_no_executor(pod: Path) -> None:
    profile = fastprof.load(pod, executor=TestExecutor()).select(hosts="host1")
    again = pickle.loads(pickle.dumps(profile))
    assert type(again) is Profile
    check_equal(again.answers(NAMES, {}, "json"), profile.answers(NAMES, {}, "json"))


def test_executors_are_checked(pod: Path) -> None:
    for wrong in ({"retries": -1}, {"host_timeout": 0}, {"in_flight": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            fastprof.load(pod, executor=TestExecutor(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="makes no Executor"):
        fastprof.load(pod, executor=lambda: "x").steps()  # type: ignore[arg-type, return-value]
    assert isinstance(TestExecutor(), Executor)


def test_hosts_that_somebody_cancels_are_not_waited_for(pod: Path) -> None:
    """As who ends a pool may do: those that wait for a future do not hear of it."""

    class Cancels(TestExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ARG002
            future: Future[Any] = Future()
            future.cancel()
            return future

    with pytest.raises(EngineError, match="the executor cancelled the host"):
        fastprof.load(pod, executor=Cancels(), retries=0).reports(*NAMES)


def test_executors_that_lie_are_an_error(pod: Path) -> None:
    class Same(ThreadPoolExecutor):
        """Gives the first answer to every task."""

        first = None

        def submit(self, fn: Any, /, *args: Any, **_: Any) -> Any:
            self.first = self.first or super().submit(fn, *args)
            return self.first

    class Numbers(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **_: Any) -> Any:  # noqa: ARG002
            return 42

    with Same(1) as same, pytest.raises(EngineError, match="gave the answer of another call"):
        fastprof.load(pod, executor=same).steps()
    with pytest.raises(EngineError, match="gave no Future, but int"):
        fastprof.load(pod, executor=Numbers(1)).steps()
    ended = ThreadPoolExecutor(1)
    ended.shutdown()
    with pytest.raises(EngineError, match=r"accepts no hosts: .* pass a running executor"):
        fastprof.load(pod, executor=ended).steps()
