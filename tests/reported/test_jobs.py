"""Traces in a directory that cannot be of one job are several runs: decided at the first report, said in each."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from reported_directories import put
from trace_builder import event, line, plane, stat, task_environment, xspace

import fastprof
from fastprof.cli.main import main
from fastprof.engines.executors import processes
from fastprof.errors import NotFoundError, UsageError

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
MI300X = [{"id": 0, "name": "AMD Instinct MI300X"}]


def info(rank: int, size: int | None = 2, *groups: list[int]) -> dict[str, Any]:
    of_size = {} if size is None else {"world_size": size}
    config = {"pg_config": [{"pg_name": str(at), "ranks": ranks} for at, ranks in enumerate(groups)]} if groups else {}
    return {"distributedInfo": {"backend": "nccl", "rank": rank, **of_size, **config}}


SEVERAL: Mapping[str, tuple[dict[str, dict[str, Any]], list[list[str]], str]] = {
    "the same rank twice": (
        {"a": info(0), "b": info(1), "c": info(0), "d": info(1)},
        [["a", "b"], ["c", "d"]],
        "ranks are recorded twice",
    ),
    "the same rank twice, later": (
        {"x_77": {**info(0, 1), "later_s": 30}, "x_99": info(0, 1)},
        [["x_99"], ["x_77"]],
        "ranks are recorded twice",
    ),
    "other devices": (
        {"a": {"deviceProperties": H100}, "b": {"deviceProperties": MI300X}, "c": {"deviceProperties": H100}},
        [["a", "c"], ["b"]],
        "their devices differ",
    ),
    "other times": (
        {"a": {}, "b": {"later_s": 3_600}, "c": {"later_s": 3_601}, "d": {"later_s": 90_000}},
        [["a"], ["b", "c"], ["d"]],
        "they were recorded at different times",
    ),
    "other numbers of ranks": (
        {"a": info(0, 2), "b": info(1, 2), "c": info(2, 4)},
        [["a", "b"], ["c"]],
        "their numbers of ranks differ",
    ),
    "no common group": (
        {
            "a": info(0, None, [0, 1]),
            "b": info(1, None, [0, 1]),
            "c": info(4, None, [4, 5]),
            "d": info(6, None, [6, 4]),
        },
        [["a", "b"], ["c", "d"]],
        "no process group has ranks of both",
    ),
}
ONE: Mapping[str, dict[str, dict[str, Any]]] = {
    "nothing is recorded": {"a": {}, "b": {}},
    "ranks that share groups through a third": {
        "a": info(0, 4, [0, 1], [0, 2]),
        "b": info(3, 4, [1, 3], [2, 3]),
    },
    "clocks that differ by seconds": {"a": info(0), "b": {**info(1), "later_s": 20}},
    "a server's own process beside its ranks": {"a": info(0), "b": info(1), "server": {"deviceProperties": []}},
}


def written(folder: Path, traces: Mapping[str, Mapping[str, Any]]) -> Path:
    for name, members in traces.items():
        put(folder, f"{name}.pt.trace.json", None, **members)
    return folder


@pytest.mark.parametrize("kind", SEVERAL)
def test_traces_that_cannot_be_of_one_job_are_several_runs(kind: str, tmp_path: Path) -> None:
    traces, jobs, why = SEVERAL[kind]
    profile = fastprof.load(written(tmp_path, traces))
    assert sorted(profile.host_names) == sorted(traces)
    assert "several_jobs" not in profile.remarks()["code"].to_pylist()
    report = profile.kernel_stats()
    assert list(report.runs) == [f"job {number}" for number in range(1, len(jobs) + 1)]
    for run, hosts in zip(report.runs.values(), jobs, strict=True):
        assert run.scalars["occurrences"].value == 8 * len(hosts)
        assert run.notices[0].severity == "warning"
        assert re.search(f"not of one job, because .*{why}", run.notices[0].text)
    listed = "; ".join(f"job {number}: {', '.join(hosts)}" for number, hosts in enumerate(jobs, 1))
    assert listed in report.notices[0].text
    assert profile.import_log["code"].to_pylist().count("several_jobs") == 1
    with pytest.raises(UsageError, match=r"use report.runs\[NAME\]"):
        report.scalars["occurrences"]


@pytest.mark.parametrize("kind", ONE)
def test_traces_that_may_be_of_one_job_are_one_run(kind: str, tmp_path: Path) -> None:
    profile = fastprof.load(written(tmp_path, ONE[kind]))
    report = profile.kernel_stats()
    assert report.scalars["occurrences"].value == 8 * len(ONE[kind])
    assert not [notice for notice in report.notices if "job" in notice.text]
    assert profile.by_job is profile


def test_the_hosts_of_a_job_can_be_selected_and_all_be_read_together(tmp_path: Path) -> None:
    folder = written(tmp_path, SEVERAL["the same rank twice"][0])
    assert fastprof.load(folder).select(hosts=["c", "d"]).kernel_stats().scalars["occurrences"].value == 16
    together = fastprof.load(folder, as_hosts=True).kernel_stats()
    assert together.scalars["occurrences"].value == 32
    text = together.notices[0].text
    assert "Figures of all hosts would mix them" in text and "run 'job 1' chooses one of them." in text
    assert fastprof.load(folder).reports_together("kernel_stats")["kernel_stats"].scalars["occurrences"].value == 32
    again = pickle.loads(pickle.dumps(fastprof.load(folder)))
    assert list(again.kernel_stats().runs) == ["job 1", "job 2"]


def names_in(hosts: dict[str, Any]) -> list[str]:
    """The names in a table of hosts as JSON."""
    at = [column["name"] for column in hosts["columns"]].index("host")
    return [row[at] if isinstance(row, list) else row["host"] for row in hosts["rows"]]


def test_jobs_are_selected_as_runs_are_and_listed_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path, SEVERAL["other times"][0])
    one = fastprof.load(folder, run="job 2")
    assert one.hosts["host"].to_pylist() == ["b", "c"]
    assert one.kernel_stats().scalars["occurrences"].value == 16
    assert pickle.loads(pickle.dumps(one)).hosts["host"].to_pylist() == ["b", "c"]
    files = sorted(map(str, folder.iterdir()))
    assert fastprof.load(files, run="job 3").hosts["host"].to_pylist() == ["d"]
    two = fastprof.load(folder, run=["job 1", "job 3"])
    assert {name: run.hosts["host"].to_pylist() for name, run in two.runs.items()} == {
        "job 1": ["a"], "job 3": ["d"]
    }  # fmt: skip
    with pytest.raises(NotFoundError, match="there are: job 1, job 2, job 3"):
        fastprof.load(folder, run="job 4")
    with pytest.raises(NotFoundError, match="other"):
        fastprof.load(folder, run="other")
    assert main(["kernel-stats", str(folder), "--run", "job 2", "--format", "json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["scalars"]["occurrences"]["value"] == 16
    assert main(["info", str(folder), "--format", "json", "-q"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {name: names_in(run["hosts"]) for name, run in runs.items()} == {
        "job 1": ["a"], "job 2": ["b", "c"], "job 3": ["d"]
    }  # fmt: skip
    assert main(["info", str(folder), "--run", "job 3", "--format", "json", "-q"]) == 0
    assert names_in(json.loads(capsys.readouterr().out)["hosts"]) == ["d"]


def test_a_job_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        fastprof.load(written(tmp_path, ONE["nothing is recorded"]), run="job 1")


def test_with_an_executor_a_notice_says_so(tmp_path: Path) -> None:
    folder = written(tmp_path, SEVERAL["other devices"][0])
    report = fastprof.load(folder, executor=processes(1)).kernel_stats()
    assert report.scalars["occurrences"].value == 24
    assert "because their devices differ: job 1: a, c; job 2: b" in report.notices[0].text


def test_with_an_executor_jobs_are_selected_as_runs_are(tmp_path: Path) -> None:
    folder = written(tmp_path, SEVERAL["other times"][0])
    with ThreadPoolExecutor(1) as executor:
        one = fastprof.load(folder, run="job 2", executor=executor)
        assert one.hosts["host"].to_pylist() == ["b", "c"] and one.kernel_stats().scalars["occurrences"].value == 16
        two = fastprof.load(folder, run=["job 1", "job 3"], executor=executor)
        counts = {name: run.scalars["occurrences"].value for name, run in two.kernel_stats().runs.items()}
        assert counts == {"job 1": 8, "job 3": 8}
        with pytest.raises(NotFoundError, match="there are: job 1, job 2, job 3"):
            fastprof.load(folder, run="job 4", executor=executor)


def test_hosts_of_xspaces_are_of_one_run_whatever_their_devices(tmp_path: Path) -> None:
    for hour, model in enumerate(("NVIDIA H100", "NVIDIA A100")):
        kernels = line("Stream #7", [event("kernel", 0, 10)])
        gpu = plane("/device:GPU:0", [kernels], stats=[stat("gpu_device_name", model)])
        start = 1_700_000_000_000_000_000 + hour * 3_600_000_000_000
        (tmp_path / f"vm{hour}.xplane.pb").write_bytes(xspace(gpu, task_environment(start)))
    profile = fastprof.load(tmp_path)
    assert profile.by_job is profile
    assert "several_jobs" not in profile.import_log["code"].to_pylist()


def test_traces_that_were_converted_to_xspaces_are_of_the_same_jobs(tmp_path: Path) -> None:
    written(tmp_path / "traces", SEVERAL["other devices"][0])
    assert main(["convert", str(tmp_path / "traces"), "-o", str(tmp_path / "run"), "-q"]) == 0
    assert list(fastprof.load(tmp_path / "run").kernel_stats().runs) == ["job 1", "job 2"]


def test_the_command_line_shows_each_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(written(tmp_path, SEVERAL["the same rank twice"][0]))
    assert main(["kernel-stats", folder, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert list(json.loads(out)["runs"]) == ["job 1", "job 2"]
    assert "the traces are not of one job, because ranks are recorded twice" in err
    assert main(["kernel-stats", folder, "--format", "csv", "-q"]) == 0
    assert capsys.readouterr().out.startswith("run,")
    assert main(["communication", folder, "--as-hosts", "-q"]) == 0
    assert "Figures of all hosts would mix them" in " ".join(capsys.readouterr().out.split())
    assert main(["trace", folder, "--format", "chrome", "-q"]) == 0
