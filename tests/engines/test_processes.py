"""Processes of this machine: one that ends takes no host with it but its own."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from equal_reports import DEMO, check_equal, of_others

import fastprof
from fastprof import UsageError
from fastprof.engines import engine, executors, processes, worker
from fastprof.engines.host_task import HostTask, Kept

NAMES = ("pod_viewer",)


def deadly() -> None:
    """A worker that ends when it is given host1."""
    real = worker.keep_host

    def keep(task: HostTask) -> Kept:
        if task.file.host == "host1":
            os._exit(9)
        return real(task)

    worker.keep_host = keep


def pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), initializer=deadly)


def test_two_processes_one_of_them_killed() -> None:
    (source,) = (DEMO / "pod/plugins/profile").iterdir()
    profile = fastprof.load(source, executor=pool, retries=0, on_error="skip")
    other = fastprof.load(source / "host0.xplane.pb")
    check_equal(of_others(profile.answers(NAMES, {}, "json"), "host1"), other.answers(NAMES, {}, "json"))
    (row,) = profile.remarks().to_pylist()
    assert row["path"].endswith("host1.xplane.pb") and "killed 1 time" in row["example"]


def test_processes_are_spawned_and_counted() -> None:
    made = processes(3)()
    assert made._max_workers == 3  # type: ignore[attr-defined]
    assert made._mp_context.get_start_method() == "spawn"  # type: ignore[attr-defined]
    made.shutdown()
    assert processes is executors.processes
    for wrong in (0, True, 2.5):
        with pytest.raises(UsageError, match="an integer"):
            processes(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="memory_bytes"):
        processes(1, memory_bytes=0)


def test_a_script_that_workers_cannot_import_is_the_cause_and_not_their_memory() -> None:
    """Read from standard input, which workers cannot read again; or without a guard, so that each runs it."""
    script = (
        f"import fastprof\nfrom fastprof.engines import processes\n"
        f"fastprof.load({str(DEMO / 'pod')!r}, executor=processes(1)).report('steps')"
    )
    ended = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, timeout=60)
    assert (
        ended.returncode
        and "none of the processes could start" in ended.stderr
        and "for its memory" not in ended.stderr
    )
    assert 'below if __name__ == "__main__":, and run it from a file' in ended.stderr


def test_a_process_that_a_script_starts_starts_none_while_it_imports_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(UsageError, match="put the work of the script below if __name__"):
        processes(1)()


def test_the_end_of_an_executor_is_waited_for() -> None:
    class Slow(ThreadPoolExecutor):
        ended = False

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            time.sleep(0.05)
            super().shutdown(wait, cancel_futures=cancel_futures)
            self.ended = True

    made = Slow(1)
    one = engine.Engine(lambda: made)
    assert one.executor is made
    del one
    engine.wait_for_ends()
    assert made.ended
