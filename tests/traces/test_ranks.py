"""Hosts of a session whose traces record ranks (hard case 35)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from loaded_traces import log

import fastprof


def write(folder: Path, name: str, info: Any, suffix: str = ".pt.trace.json") -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 5}
    document = {"schemaVersion": 1, "traceEvents": [event]}
    if info is not None:
        document["distributedInfo"] = info  # behind the events, as Kineto may write it
    text = json.dumps(document).encode()
    (folder / f"{name}{suffix}").write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)


def hosts(profile: fastprof.Profile) -> list[str]:
    return profile.tables["hosts"]["host"].to_pylist()  # type: ignore[no-any-return]


def test_hosts_are_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    for name, rank in (("a", 10), ("b", 2), ("c", 0)):
        write(tmp_path, name, {"backend": "nccl", "rank": rank, "world_size": 11})
    profile = fastprof.load(tmp_path)
    assert hosts(profile) == ["c", "b", "a"]
    assert profile.events["name"].to_pylist() == ["c", "b", "a"]
    assert log(profile) == {}


def test_traces_of_any_name_are_the_hosts_of_their_directory(tmp_path: Path) -> None:
    """``export_chrome_trace`` takes any name; only the content shows that a document is a trace."""
    write(tmp_path, "rank-a", {"rank": 1}, ".json.gz")
    write(tmp_path, "rank-b", {"rank": 0}, ".json")
    (tmp_path / "config.json").write_text('{"traceEvents": 7, "batch": 32}')
    (tmp_path / "broken.json.gz").write_bytes(b"\x1f\x8b no gzip")
    (tmp_path / "events.json").write_text('[{"ph": "X", "name": "step", "pid": 1, "tid": 1, "ts": 0, "dur": 5}]')
    assert hosts(fastprof.load(tmp_path)) == ["events", "rank-a", "rank-b"]
    (tmp_path / "events.json").unlink()
    assert hosts(fastprof.load(tmp_path)) == ["rank-b", "rank-a"]
    write(tmp_path, "named", {"rank": 2})
    assert hosts(fastprof.load(tmp_path)) == ["named"]


def test_a_directory_of_other_json_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"batch": 32}')
    with pytest.raises(fastprof.NotFoundError, match=r"in this directory no JSON is a trace: config\.json"):
        fastprof.load(tmp_path)


def test_35_two_files_of_one_rank_are_two_hosts(tmp_path: Path) -> None:
    for name, rank in (("a", 1), ("b", 0), ("c", 1)):
        write(tmp_path, name, {"rank": rank})
    profile = fastprof.load(tmp_path)
    assert hosts(profile) == ["b", "a", "c"]
    jobs, row = profile.tables["import_log"].to_pylist()
    assert (row["code"], Path(row["path"]).name) == ("duplicate_rank", "c.pt.trace.json")
    assert "a.pt.trace.json and this file record the same rank, 1" in row["example"]
    assert jobs["example"].endswith("because ranks are recorded twice: job 1: b, a; job 2: c")


@pytest.mark.parametrize(
    "info",
    [
        None,
        [],
        {"rank": "0"},
        {"rank": True},
        {"rank": -1},
        {"pg_config": [{"pg_name": "0", "rank": 0, "ranks": [0, 1]}]},
    ],
)
def test_35_without_a_rank_of_each_the_names_count(tmp_path: Path, info: Any) -> None:
    """HTA takes the first ``"rank":`` of the file, also one of a group of processes."""
    write(tmp_path, "a", {"rank": 1})
    write(tmp_path, "b", info)
    assert hosts(fastprof.load(tmp_path)) == ["a", "b"]
