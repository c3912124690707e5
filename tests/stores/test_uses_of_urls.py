"""Executors, verbs over several runs, and the server of the viewer, with captures in a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from object_server import ObjectServer
from stored_captures import CAPTURE, KEY
from viewer.served import Served

import fastprof
from fastprof.cli.main import main
from fastprof.engines import processes

POD = Path(__file__).parent.parent.parent / "demo" / "pod"
NEW = "2026_12_01_00_00_00"


@pytest.fixture
def pod(server: ObjectServer) -> ObjectServer:
    """Two hosts of a run, below s3://bucket/pod."""
    for file in POD.rglob("*.xplane.pb"):
        server.objects[f"pod/{file.relative_to(POD)}"] = file.read_bytes()
    return server


def test_workers_read_their_hosts_from_the_store(pod: ObjectServer) -> None:
    here = fastprof.load(POD).overview()
    there = fastprof.load("s3://bucket/pod", executor=processes(2)).overview()
    assert there.to_json() == here.to_json()
    read = sorted(request.key for request in pod.requests if request.key)
    assert read == sorted(key for key in pod.objects if key.startswith("pod/"))


FORKED = """\
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import fastprof
from fastprof.inputs.stores import store_path
if sys.argv[1] == "pyarrow":
    store_path.has_obstore = lambda: False
pool = lambda: ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
try:
    fastprof.load("s3://bucket/pod", executor=pool).overview()
    fastprof.load(sys.argv[2], executor=pool).to_parquet("s3://bucket/out", tables=["lines"])
    print("done")
except fastprof.UsageError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ("obstore", "forked processes cannot use obstore: spawn workers, as fastprof.engines.processes(N) does\n"),
        ("pyarrow", "done\n"),
    ],
)
def test_forked_workers_do_not_wait_forever(client: str, says: str, pod: ObjectServer) -> None:
    assert pod.address
    command = [sys.executable, "-c", FORKED, client, str(POD)]
    environment = {**os.environ, "PYTHONPATH": str(POD.parent.parent)}
    done = subprocess.run(command, env=environment, timeout=60, capture_output=True, text=True, check=False)
    assert done.stdout == says, done.stderr


def test_a_worker_does_not_read_another_version_than_was_listed(pod: ObjectServer) -> None:
    profile = fastprof.load("s3://bucket/pod", executor=processes(1))
    key = next(key for key in pod.objects if "host1" in key)
    pod.objects[key] += CAPTURE
    with pytest.raises(fastprof.ChangedError):
        profile.overview()


def test_runs_of_a_store_are_measured_and_compared(server: ObjectServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.objects[f"logs/plugins/profile/{NEW}/vm.xplane.pb"] = CAPTURE
    table = fastprof.trends("s3://bucket/logs")
    assert table["run"].to_pylist() == [NEW, "2026_11_21_09_58_38"]
    assert table["problem"].to_pylist() == [None, None]
    assert [run.name for run, _ in fastprof.batch("s3://bucket/logs", "steps")] == table["run"].to_pylist()
    assert main(["trends", "s3://bucket/logs", "--format", "json"]) == 0
    assert NEW in capsys.readouterr().out
    assert main(["compare", f"s3://bucket/{KEY}", f"s3://bucket/logs/plugins/profile/{NEW}"]) == 0
    assert (
        main(["check", "s3://bucket/logs", "--against", f"s3://bucket/{KEY}", "--fail-if", "device_idle > 200%"]) == 0
    )


def test_the_viewer_shows_runs_of_a_store_and_notices_changes(server: ObjectServer) -> None:
    served = Served("s3://bucket/logs")
    assert served.get("/api/runs")["runs"][0]["hosts"] == ["vm"]
    assert len(served.tracks()) == 3
    server.objects[f"logs/plugins/profile/{NEW}/other.xplane.pb"] = CAPTURE
    assert "state" in served.get("/api/timeline", run=NEW)
    assert served.refused("/api/timeline", run="none")[0] == 404
    server.objects[KEY] = CAPTURE + CAPTURE
    assert served.get("/api/timeline")["state"] in ("decoding", "ready", "building", "deriving", "waiting", "new")
