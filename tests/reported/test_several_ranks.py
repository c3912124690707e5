"""Ranks whose collectives have no kind are not compared, and it is said; ranks without numbers are hosts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import fastprof

HERE = Path(__file__).parent


def test_collectives_of_an_unknown_kind_are_not_compared(tmp_path: Path) -> None:
    for number in range(4):
        packed = HERE / f"p11-generic-rank{number}.pt.trace.json.gz"
        (tmp_path / f"rank{number}.pt.trace.json.gz").write_bytes(packed.read_bytes())
    report = fastprof.load(tmp_path).communication()
    assert report.tables["kinds"]["kind"].to_pylist() == ["other collective"]
    assert report.tables["operations"]["bus_bytes_per_s"].to_pylist() == [None]
    assert report.scalars["meeting_wait_ps"].value is None
    assert any("ncclDevKernel_Generic_1" in one.text and "unknown kind" in one.text for one in report.notices)


def test_one_rank_has_nothing_to_compare() -> None:
    report = fastprof.load(HERE / "p11-generic-rank0.pt.trace.json.gz").communication()
    assert not any("unknown kind" in one.text for one in report.notices)


def test_ranks_without_numbers_are_hosts(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((HERE / "p11-generic-rank0.pt.trace.json.gz").read_bytes()))
    document.pop("distributedInfo", None)
    for name in ("node0_120.17000000000.pt.trace.json", "node1_121.17000000001.pt.trace.json"):
        (tmp_path / name).write_text(json.dumps(document))
    profile = fastprof.load(tmp_path)
    assert profile.tables["hosts"].num_rows == 2
    rank_count = profile.communication().scalars["rank_count"]
    assert rank_count.value is None and rank_count.reason


def test_the_latest_of_two_cycles_of_a_worker_is_read(tmp_path: Path) -> None:
    trace = gzip.decompress((HERE / "p11-generic-rank0.pt.trace.json.gz").read_bytes())
    for name in ("host_77.1700000000.pt.trace.json", "host_77.1700000001.pt.trace.json"):
        (tmp_path / name).write_bytes(trace)
    profile = fastprof.load(tmp_path)
    assert profile.tables["hosts"].num_rows == 1
    [row] = [row for row in profile.tables["import_log"].to_pylist() if row["code"] == "earlier_trace"]
    assert "host_77.1700000001" in row["example"]
