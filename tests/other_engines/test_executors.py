"""Dask, loky, MPI and Ray, each run really (``make test-engines``): reports are those of one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import pytest
from equal_reports import POD, XLA, check_equal

import fastprof
from fastprof import CaptureError
from fastprof.analyses import ANALYSES
from fastprof.engines import ray_executor


@contextmanager
def dask() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client.get_executor(pure=False)


@contextmanager
def loky() -> Iterator[Executor]:
    pool = pytest.importorskip("loky").get_reusable_executor(max_workers=2)
    yield pool
    pool.shutdown()


@contextmanager
def ray() -> Iterator[Executor]:
    package = pytest.importorskip("ray")
    package.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray_executor()
    package.shutdown()


ENGINES = {"dask": dask, "loky": loky, "ray": ray}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ENGINES)
def test_reports_are_those_of_one_process(engine: str, tmp_path: Path) -> None:
    names = list(ANALYSES)
    with ENGINES[engine]() as executor:
        for path in (POD, XLA):
            profile, other = fastprof.load(path, executor=executor), fastprof.load(path)
            check_equal(profile.answers(names, {}, "json"), other.answers(names, {}, "json"))
            chosen = other.select(steps=(1, 3)).answers(names, {}, "json")
            check_equal(profile.select(steps=(1, 3)).answers(names, {}, "json"), chosen)
            assert profile.remarks().equals(other.remarks())
        (source,) = (Path(POD) / "plugins/profile").iterdir()
        shutil.copytree(source, tmp_path / "run")
        path = tmp_path / "run/host1.xplane.pb"
        path.write_bytes(path.read_bytes()[:5_000])
        with pytest.raises(CaptureError) as found:
            fastprof.load(tmp_path / "run", executor=executor).overview()
        assert found.value.path == str(path) and found.value.offset is not None


SCRIPT = """
import sys
import fastprof
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        print(fastprof.load(sys.argv[1], executor=pool).report("overview").to_json())
"""


def test_ranks_of_mpi_read_hosts(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    (tmp_path / "script.py").write_text(SCRIPT)
    run = [Path(sys.executable).with_name("mpiexec"), "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    done = subprocess.run(
        [*run, tmp_path / "script.py", POD], capture_output=True, text=True, check=False, timeout=120, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(fastprof.load(POD).overview().to_json())
