"""Collectives of ranks belong together if they go on at once; of ranks that are not recorded nothing is certain."""

from __future__ import annotations

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
