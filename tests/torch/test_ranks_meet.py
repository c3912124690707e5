"""Collectives of ranks belong together if they go on at once; of ranks that are not recorded nothing is certain."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fastprof
from fastprof.derive.communication.collectives import find_offsets_ps, match_concurrent

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"


def met(*rows: tuple[int, int, int, int]) -> list[set[int]]:
    """Series, device, begin and end of collectives; the places of those that belong together."""
    series, device, begin, end = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    number = match_concurrent(series, device, begin, end).tolist()
    return [{place for place, one in enumerate(number) if one == of} for of in sorted(set(number))]


def test_what_goes_on_at_once_belongs_together() -> None:
    """The first of rank 0 is alone; its second is the first of rank 1; ranks that touch have met."""
    assert met((0, 0, 0, 10), (0, 0, 20, 40), (0, 1, 30, 40), (0, 1, 50, 60), (0, 0, 60, 70)) == [{0}, {1, 2}, {3, 4}]
    assert met((0, 0, 0, 10), (1, 1, 0, 10)) == [{0}, {1}], "another kind or size"
    assert met((0, 0, 0, 10), (0, 0, 5, 15), (0, 1, 6, 16)) == [{0}, {1, 2}], "a device takes part once"
    assert met((0, 0, 0, 10), (0, 1, 8, 30), (0, 2, 12, 30)) == [{0, 1}, {2}], "nobody is done before the last comes"


def test_ranks_count_from_one_moment() -> None:
    assert find_offsets_ps([5, 3]) == [2000, 0]
    assert find_offsets_ps([5, None]) is None
    assert find_offsets_ps([5]) is None
    assert find_offsets_ps([0, 10**18]) is None


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
def test_two_of_128_ranks() -> None:
    """Rank 1 records the first all_to_all of a step that is the second of rank 0: both end at the same time."""
    profile = fastprof.load([KINETO / f"a100_rank-{rank}.json.gz" for rank in (0, 1)])
    report = profile.communication()
    table = report.tables["meetings"].to_pylist()
    pairs = [(row["step"], row["name"], row["shortest_ps"], row["longest_ps"]) for row in table]
    assert [(step, name, least // 10**6, most // 10**6) for step, name, least, most in pairs] == [
        (551, "nccl:all_to_all", 57924, 62783), (551, "nccl:all_reduce", 8370, 11727),
        (551, "nccl:_all_gather_base", 42496, 42744), (552, "nccl:all_reduce", 13838, 36158),
        (552, "nccl:_all_gather_base", 62163, 63644),
    ]  # fmt: skip
    assert report.scalars["rank_count"].value == 128
    texts = [notice.text for notice in report.notices]
    assert "2 of 128 ranks are recorded: the last rank may be missing." in texts
    assert not any("comes last" in text for text in texts)
    late = [row for row in profile.diagnosis().tables["findings"].to_pylist() if row["cause"] == "straggler"]
    assert [(row["certainty"], row["is_bound"], row["device"]) for row in late] == [("possible", True, None)]
    assert late[0]["detail"].startswith("2 of 128 ranks are recorded: other ranks may be slower.")
    cores = profile.report("pod_viewer").tables["cores"]["core_name"].to_pylist()
    assert set(cores) == {"a100_rank-0", "a100_rank-1"}


def write_rank(folder: Path, rank: int, compute_ms: int) -> None:
    """Write the trace of one of three ranks: six steps with two gradient buckets each. The all-reduce of a bucket runs
    beside the next one, and ends when the slowest rank, with 14 ms a bucket, has joined."""
    events: list[dict[str, object]] = []

    def run(name: str, stream: int, begin_ms: int, end_ms: int) -> None:
        number = len(events) + 1
        of = {"pid": 1, "tid": 1, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": number}}
        events.append(of | {"ph": "X", "ts": begin_ms * 1000 - 40, "dur": 5})
        args = {"device": rank, "stream": stream, "correlation": number}
        events.append({"ph": "X", "pid": rank, "tid": stream, "cat": "kernel", "name": name, "args": args,
                       "ts": begin_ms * 1000, "dur": 1000 * (end_ms - begin_ms)})  # fmt: skip

    for step in range(6):
        at = 1 + 30 * step
        events.append({"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "name": f"ProfilerStep#{step}",
                       "ts": 1000 * at - 100, "dur": 29_900})  # fmt: skip
        for bucket in (0, 1):
            ready = at + compute_ms * (bucket + 1)
            run("gemm", 7, ready - compute_ms, ready)
            run("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 13, ready, at + 14 * (bucket + 1) + 1)
    about = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 3}, "baseTimeNanoseconds": 10**18}
    (folder / f"rank{rank}.pt.trace.json").write_text(json.dumps(about | {"traceEvents": events}))


def test_what_a_rank_computes_while_it_waits_counts_as_its_work(tmp_path: Path) -> None:
    """The slow rank works 4 ms longer on each bucket. The path begins at the first meeting, so earlier work does not
    count. The other ranks compute the next bucket while they wait."""
    for rank, compute_ms in enumerate((10, 14, 10)):
        write_rank(tmp_path, rank, compute_ms)
    profile = fastprof.load(tmp_path)
    report = profile.communication()
    rows = {row["host"]: row for row in report.tables["blame"].to_pylist()}
    assert {host: row["excess_ps"] // 10**9 for host, row in rows.items()} == {"rank0": 0, "rank1": 44, "rank2": 0}
    assert rows["rank1"]["saved_ps"] == 44 * 10**9 and report.scalars["straggler_host"].value == "rank1"
    (finding,) = (row for row in profile.diagnosis().tables["findings"].to_pylist() if row["cause"] == "straggler")
    assert (finding["host"], finding["cost_ps"]) == ("rank1", 48 * 10**9)
