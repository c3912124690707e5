"""Streams equal HolisticTraceAnalysis: its answers on real captures, counted cell by cell."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from gate import few, left_to_test_all
from hta_answers import cells
from hta_ranks import LAST_BIT, SESSIONS, answers, ranks_of

from fastprof.analyses.streams import TABLES
from fastprof.derive.timeline.counter_tracks import list_stream_counters
from fastprof.derive.timeline.host_timeline import list_processes
from fastprof.schema.tables import ObjectRows

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
GOLDENS = CAPTURES.parent / "conformance" / "hta"

WAITS_COUNT = "HTA takes waits of a stream (cuda_sync) for kernels"
WRONG_LAUNCH = "if the launch is not in the file, HTA takes the first event of the file for it"
NESTED = "of an annotation within one of its name, fastprof counts the time once"
ANY_ORDER = "HTA sorts points of equal time in any order"
LESS_THAN_NONE = "HTA rounds begins up and ends down, so events of less than a microsecond last -1; here they last 0"
CUT = "HTA cuts each stretch of time to whole microseconds"
GPU_STEP = "HTA takes the annotation of a step on a GPU, which ends later, for a step of the host too"
DIFFERENT: dict[str, dict[str, tuple[int, str]]] = {
    "alexnet": {
        "temporal_breakdown": (4, WAITS_COUNT),
        "kernel_type_breakdown": (1, WAITS_COUNT),
        "kernel_type_breakdown_with_memory": (1, WAITS_COUNT),
        "kernel_breakdown": (6, WAITS_COUNT),
        "kernel_breakdown_with_memory": (6, WAITS_COUNT),
        "kernel_breakdown_top10": (3, WAITS_COUNT),
        "cpu_user_annotation_breakdown": (2, NESTED),
    },
    "h100_qwen": {
        "idle_time_breakdown": (2, f"{WRONG_LAUNCH}; {LESS_THAN_NONE}"),
        "idle_interval_stats": (10, f"{WRONG_LAUNCH}; {LESS_THAN_NONE}"),
        "queue_length_summary": (1, ANY_ORDER),
        "launch_stats": (18, LESS_THAN_NONE),
        "memory_bw_summary": (1, LESS_THAN_NONE),
        "memory_bw_series": (66, LESS_THAN_NONE),
        "kernel_breakdown_with_memory": (4, LESS_THAN_NONE),
        "kernel_breakdown_top10": (4, LESS_THAN_NONE),
        "events": (80, GPU_STEP),
    },
    "h100_qwen-exact": {
        "idle_time_breakdown": (4, WRONG_LAUNCH),
        "idle_interval_stats": (9, WRONG_LAUNCH),
        "kernel_type_breakdown": (1, CUT),
        "kernel_type_breakdown_with_memory": (4, CUT),
        "events": (80, GPU_STEP),
    },
    "resnet50_worker0": {"queue_length_summary": (1, ANY_ORDER)},
}
"""By session and report, how many cells differ, and why fastprof does not define them in HTA's way."""


@cache
def score(session: str) -> tuple[Counter[str], Counter[str], list[str]]:
    """Cells and those that agree by report, and the cells that do not, in words."""
    every: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    others = []
    for cell in cells(CAPTURES / "chrome" / "kineto", GOLDENS / session):
        every[cell.report] += 1
        equal[cell.report] += cell.agrees
        if not cell.agrees:
            others.append(f"{cell.report} {cell.what}: {cell.ours}, HTA {cell.theirs}")
    return every, equal, others


@pytest.mark.captures
@pytest.mark.parametrize("session", few(SESSIONS, 3))
def test_reports_of_a_session(session: str) -> None:
    every, equal, others = score(session)
    different = {report: count - equal[report] for report, count in every.items() if count > equal[report]}
    assert different == {report: count for report, (count, _) in DIFFERENT.get(session, {}).items()}, "\n".join(others)


@left_to_test_all
@pytest.mark.captures
def test_cells_of_all_sessions_agree() -> None:
    scores = [score(session) for session in SESSIONS]
    every, equal = (sum((one[part] for one in scores), Counter()) for part in (0, 1))
    assert every.total() > 335_500
    assert equal.total() >= 0.995 * every.total()


@pytest.mark.captures
def test_counters_of_the_timeline_are_the_series_of_hta() -> None:
    """HTA drops nothing of this session. A counter has one point at each time."""
    (rank,) = ranks_of(CAPTURES / "chrome" / "kineto", GOLDENS / "h100_qwen-exact")
    every = list_stream_counters(rank.host, list_processes(rank.host))
    counters = {one.name: dict(zip(rank.since_first_us(one.time_ps), one.value, strict=True)) for one in every}
    rows = answers(GOLDENS / "h100_qwen-exact", "queue_length_series_rank0")
    queue = {float(row["ts"]): int(row["queue_length"]) for row in rows}
    found = counters.pop("queue length: stream 7")
    assert list(found.values()) == list(queue.values())
    assert list(found) == pytest.approx(list(queue), abs=LAST_BIT)
    rows = answers(GOLDENS / "h100_qwen-exact", "memory_bw_series_rank0")
    for kind in ("Memset", "Memcpy DtoH"):
        gbps = {float(row["ts"]): float(row["memory_bw_gbps"]) for row in rows if row["name"] == kind}
        found = counters.pop(f"bandwidth: {kind}")
        assert list(found.values()) == pytest.approx([gbps[time] for time in sorted(gbps)], abs=1e-9)
        assert list(found) == pytest.approx(sorted(gbps), abs=LAST_BIT)
    assert not counters


@pytest.mark.captures
@pytest.mark.parametrize(
    ("session", "steps"), [("a100", 551), ("resnet50_worker0", (5, 10)), ("alexnet", None), ("h100_qwen-exact", None)]
)
def test_the_report_of_the_steps_that_hta_keeps_is_what_is_scored(
    session: str, steps: int | tuple[int, int] | None
) -> None:
    for rank in ranks_of(CAPTURES / "chrome" / "kineto", GOLDENS / session):
        tables = rank.profile.select(steps=steps).streams(queue_length=4).tables
        for name in TABLES.keys() - {"sequences"}:  # HTA's streams have no ops
            scored = TABLES[name].of(ObjectRows(getattr(rank.sums, name)))
            assert sorted(map(str, tables[name].to_pylist())) == sorted(map(str, scored.to_pylist())), name
