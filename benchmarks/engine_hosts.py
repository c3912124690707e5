"""What a session of many hosts takes with an executor: processor time and memory of this process and of its workers.

python benchmarks/engine_hosts.py make FOLDER [--hosts 64] [--steps 125]      captures of a pod, most of them links
python benchmarks/engine_hosts.py read FOLDER --jobs 2 overview op_stats      0: without an executor
python benchmarks/engine_hosts.py copies FOLDER --hosts 10000 overview        one host, answered that many times
python benchmarks/engine_hosts.py copies rank0.json.gz --hosts 512 overview   one capture, such as a rank of PyTorch
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import tempfile
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from pod_shape import write_pod

import fastprof
from fastprof.engines import processes
from fastprof.engines.host_task import GroupTask, HostTask, Kept

DISTINCT = 4


class Copies(Executor):
    """Reads the first host, and gives what was kept of it as the answer for each. A process merges groups of them, so
    that its time and memory are not counted here."""

    def __init__(self) -> None:
        self.kept: Kept | None = None
        self._pool = processes(1)()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def submit(self, fn: Any, /, *args: Any, **_: Any) -> Future[Kept]:
        task: HostTask | GroupTask = args[0]
        if isinstance(task, GroupTask):
            return self._pool.submit(fn, task)
        self.kept = self.kept or fn(task)
        (host,) = self.kept.hosts
        future: Future[Kept] = Future()
        named = replace(host, host=task.file.host, path=task.file.path)
        future.set_result(replace(self.kept, number=task.number, hosts=(named,)))
        return future


def make(folder: Path, hosts: int, steps: int) -> None:
    """The run of a log directory: few captures are written, all its files link to them."""
    write_pod(folder / "captures", min(hosts, DISTINCT), steps, 7)
    files = [file.rename(file.with_suffix(".data")) for file in sorted((folder / "captures").iterdir())]
    run = folder / "plugins/profile/pod"
    run.mkdir(parents=True)
    for number in range(hosts):
        (run / f"worker{number:05}.xplane.pb").symlink_to(files[number % len(files)].resolve())


def read(folder: Path, jobs: int, names: list[str]) -> dict[str, Any]:
    executor = processes(jobs) if jobs else None
    return measured(fastprof.load(folder, executor=executor, threads=1), names)


def copies(folder: Path, hosts: int, names: list[str]) -> dict[str, Any]:
    (first, *_) = [folder] if folder.is_file() else sorted((folder / "plugins/profile/pod").glob("worker*"))
    ending = "".join(first.suffixes)
    with tempfile.TemporaryDirectory() as many:
        for number in range(hosts):
            (Path(many) / f"worker{number:05}{ending}").symlink_to(first.resolve())
        executor = Copies()
        found = measured(fastprof.load(many, executor=lambda: executor), names)
    assert executor.kept is not None
    of_each = [one for of_host in executor.kept.each for one in of_host.values()]
    sizes = [(one.size_bytes, one.raw_bytes) for one in (executor.kept.packed, executor.kept.alone, *of_each) if one]
    return found | {"kept_bytes": [one for one, _ in sizes], "kept_raw_bytes": [one for _, one in sizes]}


def measured(profile: fastprof.Profile, names: list[str]) -> dict[str, Any]:
    begin = time.perf_counter()
    profile.reports(*names)
    wall_s = time.perf_counter() - begin
    own = resource.getrusage(resource.RUSAGE_SELF)
    del profile
    gc.collect()  # ends the pool, so that its processes are counted
    time.sleep(1)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": round(wall_s, 2),
        "own_cpu_s": round(own.ru_utime + own.ru_stime, 2),
        "workers_cpu_s": round(others.ru_utime + others.ru_stime, 2),
        "own_peak_mib": own.ru_maxrss // 1024,
        "worker_peak_mib": others.ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "read", "copies"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["overview", "op_stats"])
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--steps", type=int, default=125)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_intermixed_args()
    if args.what == "make":
        make(args.folder, args.hosts, args.steps)
    elif args.what == "read":
        print(json.dumps(read(args.folder, args.jobs, args.names)))
    else:
        print(json.dumps(copies(args.folder, args.hosts, args.names)))


if __name__ == "__main__":
    main()
