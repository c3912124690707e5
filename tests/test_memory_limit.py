"""A memory limit changes where arrays lie and nothing else: answers are equal when every array of 4 KiB is a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gate import few

from fastprof.cli.main import main
from fastprof.decode import array_memory
from fastprof.engines import processes

DEMO = Path(__file__).parents[1] / "demo"
_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory limits need Linux")
_COMPARE = """
import sys
import fastprof
from fastprof._native import border
from fastprof.analyses import ANALYSES
from fastprof.decode import array_memory

def answer(path):
    profile = fastprof.load(path, threads=2)
    tables = {name: profile.tables[name] for name in ("events", "lines", "event_stats")}
    reports = {name: profile.report(name) for name in ANALYSES if name not in ("compare", "check", "contract")}
    return tables, {name: (report.tables, report.scalars, report.notices) for name, report in reports.items()}

array_memory.limit_memory(array_memory.LEAST)
assert border.bind_blocks(0, sys.argv[2].encode(), 4096)
bounded = answer(sys.argv[1])
in_memory, in_files, most_in_memory, most_in_files, refused = border.sum_blocks()
assert border.bind_blocks(1 << 62, sys.argv[2].encode(), 4096)
free = answer(sys.argv[1])
assert bounded == free
assert refused == 0 and most_in_memory == 0, (refused, most_in_memory)
assert border.sum_blocks()[1] <= in_files  # none more in files without a bound
print(most_in_files)
"""


_BESIDE = """
import resource
import numpy as np
from fastprof.decode import array_memory
from fastprof._native import border

def count_anonymous():
    resident, shared = map(int, open("/proc/self/statm").read().split()[1:3])
    return (resident - shared) * resource.getpagesize()

array_memory.limit_memory(512 << 20)
objects = [bytes([i % 256]) * 100_000 for i in range(2_000)]
arrays = [np.ones(1 << 20, np.uint8) for _ in range(500)]
assert sum(map(len, objects)) == 200_000_000 and sum(int(array.sum()) for array in arrays) == 500 << 20
print(count_anonymous(), border.sum_blocks()[1])
"""


_ADOPTED = """
import sys
import threading
import fastprof
from fastprof.decode import array_memory
from fastprof.export import trace_files
from fastprof.viewer import viewed_run

def note(owner, name):
    usual = getattr(owner, name)
    def noted(*words):
        seen.append((name, array_memory._THREAD.is_adopted))
        return usual(*words)
    setattr(owner, name, noted)

seen = []
note(trace_files, "derive_timeline")
note(viewed_run, "open_raw_store")
profile = fastprof.load(sys.argv[1], memory=array_memory.LEAST)
profile.to_trace(sys.argv[2] + "/trace.json")
run = viewed_run.ViewedRun(profile, None, threading.Event())
run.start()
run.wait_for_end(60)
assert seen == [("derive_timeline", True), ("open_raw_store", True)], seen
"""


@_LINUX
def test_a_limit_counts_arrays_of_threads_that_write_traces_and_build_stores(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ADOPTED, str(DEMO / "xla"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@_LINUX
@pytest.mark.parametrize("session", few(["xla", "logdir", "pod", "memory", "tf-data", "serving", "kernel"], 3))
def test_answers_are_equal_when_all_arrays_are_files(session: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _COMPARE, str(DEMO / session), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 100_000
    assert not list(tmp_path.iterdir())  # files have no names


@_LINUX
def test_memory_beside_arrays_counts() -> None:
    """Objects of 191 MiB leave arrays of 500 MiB less than the limit of 512 MiB."""
    ran = subprocess.run([sys.executable, "-c", _BESIDE], capture_output=True, text=True, check=True)
    anonymous, in_files = map(int, ran.stdout.split())
    assert anonymous < 512 << 20
    assert in_files > 200 << 20


@pytest.mark.parametrize("words", [["info"], ["compare", str(DEMO / "xla")], ["diagnosis"], ["trends"]], ids=" ".join)
def test_a_limit_below_the_least_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, str(DEMO / "pod"), "--memory", "100MiB"]) == 2
    assert capsys.readouterr().err == "fastprof: a memory limit must be at least 192.0 MiB\n"


@_LINUX
def test_processes_of_a_pool_have_a_limit_each() -> None:
    """An array larger than the limit is a file in a process with a limit, and none in one without."""
    size = 100 << 20
    for memory, in_files in ((array_memory.LEAST, size), (None, 0)):
        with processes(1, memory=memory)() as pool:
            assert pool.submit(_count_bytes_in_files, size).result() == in_files


def _count_bytes_in_files(size: int) -> int:
    from fastprof._native import border

    array = np.zeros(size, np.uint8)
    return int(border.sum_blocks()[1]) if len(array) else -1


@_LINUX
@pytest.mark.parametrize(
    ("most", "processes", "limit"), [(800 << 20, 2, 400 << 20), (800 << 20, 8, 192 << 20), (None, 2, 2 << 30)]
)
def test_processes_share_a_limit(most: int | None, processes: int, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_memory, "_count_machine_bytes", lambda: 64 << 30)
    assert array_memory.share_limit(most, processes) == limit


@_LINUX
def test_temporary_files_are_never_put_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"/": "ext4", "/dev/shm": "tmpfs", "/var/tmp": "ext4"}
    monkeypatch.setattr(array_memory, "_read_mounts", lambda: kinds)
    monkeypatch.setattr(os, "access", lambda *_: True)
    for folder, chosen in (("/dev/shm/a", "/var/tmp"), ("/somewhere/else", "/somewhere/else")):
        monkeypatch.setattr("tempfile.gettempdir", lambda folder=folder: folder)
        assert array_memory.find_disk_folder() == chosen
    kinds["/"] = kinds["/var/tmp"] = "tmpfs"
    assert array_memory.find_disk_folder() is None


@pytest.mark.parametrize(
    ("size", "machine", "limit"),
    [
        (100 << 20, 64 << 30, 2 << 30),
        (100 << 20, 512 << 20, 256 << 20),
        (201_000_000, 64 << 30, 256 << 20),
        (1 << 30, 64 << 30, 1 << 30),
        (40 << 30, 64 << 30, 2 << 30),
        (40 << 30, 4 << 30, 1 << 30),
    ],
)
def test_the_default_limit_is_the_size_of_large_captures(
    size: int, machine: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    monkeypatch.setattr(array_memory, "find_disk_folder", lambda: "/var/tmp")
    monkeypatch.setattr(array_memory, "_count_machine_bytes", lambda: machine)
    monkeypatch.setattr(array_memory, "_bind", lambda most, _: limits.append(most))
    array_memory.limit_by_default(size)
    assert limits == [limit]
