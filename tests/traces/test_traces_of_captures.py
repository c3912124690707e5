"""Every real trace gives the events that the slow reader gives, with all their stats, and its arrows."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from gate import few
from loaded_traces import arrows, difference, log, slices, slow_slices, zeros
from slow_flows import arrows_of
from slow_trace import read_trace

import fastprof
from fastprof.cli import session_summary

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
PATTERNS = ("chrome/*/*.json*", "tf1/timeline-*.json", "xspace/*/*.trace.json.gz")
TRACES = sorted(path for pattern in PATTERNS for path in CAPTURES.glob(pattern))


LONGEST = 10_000_000
"""Of a longer text, the slow reader gets a third: it would take as long as for all the others."""
_END_OF_EVENT = b"\n  },"


def text_of(path: Path) -> bytes:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    if len(text) <= LONGEST:
        return text
    return text[: text.rindex(_END_OF_EVENT, 0, len(text) // 3)] + b"\n  }]}"


@pytest.mark.captures
@pytest.mark.parametrize("path", few(TRACES, 4), ids=lambda path: path.name)
def test_events_and_arrows_of_a_trace(path: Path) -> None:
    text = text_of(path)
    wanted = read_trace(text)
    profile = fastprof.load(text)

    assert difference(slices(profile), slow_slices(wanted)) == ""
    assert zeros(profile) <= {wanted.zero_ps}
    expected, alone = arrows_of(wanted)
    found = arrows(profile)
    assert (found - expected, expected - found) == (Counter(), Counter())
    assert log(profile).get("unmatched_flow", 0) == alone


@pytest.mark.captures
def test_xprofs_trace_has_the_events_of_the_capture_beside_it() -> None:
    """Starts and durations to the picosecond, but for durations of 0, which XProf writes as 1 ps."""
    folder = CAPTURES / "xspace" / "cpu-jax-train"
    trace, space = (fastprof.load(folder / name).events for name in ("vm.trace.json.gz", "vm.xplane.pb"))

    def times(table: object, shown: int) -> list[tuple[str, int, int]]:
        rows = table.select(["name", "start_ps", "duration_ps"]).to_pylist()  # type: ignore[attr-defined]
        return sorted((row["name"], row["start_ps"], max(row["duration_ps"], shown)) for row in rows)

    assert times(trace, 0) == times(space, 1)


def test_info_lists_the_processes_of_a_trace_alone() -> None:
    """What the reader notes of a trace is a plane in the tables."""
    trace = fastprof.load(b'[{"name": "f", "ph": "X", "ts": 1, "dur": 2, "pid": 7, "tid": 8}]')
    listed = session_summary.gather_summary(trace)
    assert listed.planes["name"].to_pylist() == ["7"]
    assert (listed.summary["planes"], listed.hosts["plane_count"].to_pylist()) == (1, [1])
    assert trace.planes["name"].to_pylist() == ["7", "Task Environment"]
