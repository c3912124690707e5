"""Trace files for Chrome and Perfetto, read back by other readers: the same events, in both forms."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate import typical_captures
from trace_builder import Metadata, aggregated, event, line, plane, ref, stat, task_environment, u64, xspace
from trace_readers import ReadTrace, Slice, read_chrome, read_perfetto

import fastprof
from fastprof._native.trace_writers import SIZES
from fastprof.export import trace_batches
from fastprof.export.trace_batches import TRACK
from fastprof.export.trace_files import CHROME, PERFETTO, TraceFile

READERS: dict[str, Callable[[bytes], ReadTrace]] = {CHROME: read_chrome, PERFETTO: read_perfetto}
Sessions = bytes | list[Any]

pytestmark = pytest.mark.parametrize("form", [CHROME, PERFETTO])


def written(profile: fastprof.Profile, form: str, derived: bool = True, stats: str = "all") -> bytes:
    return b"".join(TraceFile(profile.table_set, form, derived, stats).chunks())


def read(source: Any, form: str, derived: bool = False, stats: str = "all", **selection: Any) -> ReadTrace:
    profile = fastprof.load(io.BytesIO(source) if isinstance(source, bytes) else source)
    return READERS[form](written(profile.select(**selection), form, derived, stats))


def by_name(trace: ReadTrace, name: str) -> Slice:
    (found,) = (one for one in trace.slices if one.name == name)
    return found


def track_of(one: Slice, form: str) -> str:
    """Without the number of the row, which Chrome's names of threads end in."""
    return re.sub(r" \(\d+\)$", "", one.track) if form == CHROME else one.track


# ---- whole captures


def events_of(profile: fastprof.Profile) -> Counter[tuple[str, str, int, int, str]]:
    """Process, track, start, duration and shown name of each event that has a start, from the tables."""
    tracks = {row["line_id"]: row["display_name"] or row["name"] for row in profile.lines.to_pylist()}
    names = {
        (row["plane_id"], row["metadata_id"]): row["display_name"] or row["name"]
        for row in profile.event_metadata.to_pylist()
    }
    columns = ("host", "plane", "line_id", "plane_id", "metadata_id", "start_ps", "duration_ps")
    rows = zip(*(profile.events[name].to_pylist() for name in columns), strict=True)
    return Counter(
        (f"{host} {plane}", tracks[line], start, max(duration, 0), names.get((plane_id, meta), ""))
        for host, plane, line, plane_id, meta, start, duration in rows
        if start is not None
    )


@cache
def loaded(capture: Path) -> fastprof.Profile:
    profile = fastprof.load(capture)
    if profile.events.num_rows > 30_000:
        pytest.skip("large")
    return profile


@cache
def events_alone(capture: Path, form: str) -> ReadTrace:
    """Recorded events with their own stats."""
    return READERS[form](written(loaded(capture), form, derived=False, stats="event"))


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> Iterator[None]:
    yield
    loaded.cache_clear()
    events_alone.cache_clear()


@typical_captures
def test_every_event_of_a_real_capture_is_there_once(capture: Path, form: str) -> None:
    profile, trace = loaded(capture), events_alone(capture, form)
    counts = Counter(
        (one.process, track_of(one, form), one.start_ps, max(one.duration_ps, 0), one.name) for one in trace.slices
    )
    wanted: Counter[Any] = Counter()
    for (process, track, *rest), count in events_of(profile).items():
        wanted[(process, re.sub(r" \(\d+\)$", "", track) if form == CHROME else track, *rest)] += count
    assert counts == wanted
    assert trace.nests()


@typical_captures
def test_derived_tracks_and_flows_are_added(capture: Path, form: str) -> None:
    profile = loaded(capture)
    file = TraceFile(profile.table_set, form)
    trace = READERS[form](b"".join(file.chunks()))
    assert trace.nests()
    assert file.events + file.untimed == profile.events.num_rows
    assert len(trace.slices) >= file.events
    leaving = sorted(number for one in trace.slices for number in one.flows_out)
    arriving = sorted(number for one in trace.slices for number in one.flows_in)
    assert leaving == arriving == list(range(len(leaving)))


@typical_captures
def test_args_are_the_stats_of_the_event(capture: Path, form: str) -> None:
    profile = loaded(capture)
    wanted: dict[int, dict[str, Any]] = {
        event_id: {}
        for event_id, start in zip(*(profile.events[c].to_pylist() for c in ("event_id", "start_ps")), strict=True)
        if start is not None
    }
    met: Counter[tuple[int, str]] = Counter()
    for row in profile.event_stats.to_pylist():
        values = [row[f"{kind}_value"] for kind in ("int", "double", "str")]
        value = "<opaque bytes>" if row["kind"] == "bytes" else next(v for v in values if v is not None)
        if row["kind"] == "uint64":
            value %= 2**64
        if form == CHROME and isinstance(value, int) and abs(value) > 2**53:
            value = str(value)
        met[row["event_id"], row["stat"]] += 1
        times = met[row["event_id"], row["stat"]]
        wanted[row["event_id"]][row["stat"] + (f" ({times})" if times > 1 else "")] = value
    for one, args in zip(events_alone(capture, form).slices, wanted.values(), strict=True):
        own = {key: value for key, value in one.args.items() if key != "long_name"}
        assert {key: float(v) if isinstance(v, Decimal) else v for key, v in own.items()} == args


def test_batches_of_any_size_make_the_same_file(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = written(fastprof.load(io.BytesIO(MANY)), form)
    monkeypatch.setattr(trace_batches, "BATCH_ROWS", 1)
    assert written(fastprof.load(io.BytesIO(MANY)), form) == whole


# ---- times


MANY = xspace(
    plane(
        "/host:CPU",
        [
            line(f"thread {number}", [event(f"op {i % 3}", i * 1_001, 5_003, stats={"n": i}) for i in range(20)])
            for number in range(4)
        ],
    )
)


@pytest.mark.parametrize(
    ("start", "duration"), [(0, 1), (1, 999), (999, 1), (1_000, 1_000), (123_456_789_012_345_678, 7), (5, 0)]
)
def test_times_are_exact_picoseconds(form: str, start: int, duration: int) -> None:
    trace = read(xspace(plane("/host:CPU", [line("t", [event("op", start, duration)])])), form)
    assert [(one.start_ps, one.duration_ps) for one in trace.slices] == [(start, duration)]


def test_times_before_the_start_are_kept(form: str) -> None:
    """Perfetto has no negative times: all move later by an integer number of microseconds; ts_ps has the exact time."""
    trace = read(
        xspace(plane("/host:CPU", [line("t", [event("a", -1_500_000, 1_000), event("b", 2_000, 1_000)])])), form
    )
    later = 2_000_000 if form == PERFETTO else 0
    assert by_name(trace, "a").start_ps == -1_500_000 + later
    assert by_name(trace, "b").start_ps == 2_000 + later


def test_times_between_nanoseconds_are_on_the_clock_of_the_file(form: str, tmp_path: Path) -> None:
    """Whole ones and others of one track can be compared, whatever all of them are moved by."""
    for host, start in (("a", 1_700_000_000_000_000_000), ("b", 1_700_000_000_000_001_000)):
        events = [event(f"{host}0", -1_500, 1_000), event(f"{host}1", 3_000, 1_000), event(f"{host}2", 3_501, 1_000)]
        space = xspace(plane("/host:CPU", [line("t", events)]), task_environment(start))
        (tmp_path / f"{host}.xplane.pb").write_bytes(space)
    trace = read(str(tmp_path), form)
    first = by_name(trace, "a0").start_ps
    assert first == (-1_500 if form == CHROME else 1_000_000 - 1_500)
    starts = {one.name: one.start_ps - first for one in trace.slices}
    assert starts == {"a0": 0, "a1": 4_500, "a2": 5_001, "b0": 1_000_000, "b1": 1_004_500, "b2": 1_005_001}


def test_an_event_without_duration_is_an_instant_and_a_negative_one_is_reported(form: str) -> None:
    trace = read(xspace(plane("/host:CPU", [line("t", [event("a", 5_000, 0), event("b", 6_000, -7)])])), form)
    assert by_name(trace, "a").duration_ps == 0
    negative = by_name(trace, "b")
    assert negative.args.get("duration_ps", negative.duration_ps) == -7


def test_events_without_a_start_are_left_out_and_counted(form: str) -> None:
    source = xspace(plane("/host:CPU", [line("t", [event("a", 5_000, 1), aggregated("b", 3, 9)])]))
    file = TraceFile(fastprof.load(io.BytesIO(source)).table_set, form)
    trace = READERS[form](b"".join(file.chunks()))
    assert [one.name for one in trace.slices] == ["a"]
    assert (file.events, file.untimed) == (1, 1)


def test_hosts_are_aligned_by_when_they_started(form: str, tmp_path: Path) -> None:
    for host, start in (("a", 1_700_000_000_000_000_500), ("b", 1_700_000_000_000_000_000)):
        space = xspace(plane("/host:CPU", [line("t", [event(host, 1_000, 1_000)])]), task_environment(start))
        (tmp_path / f"{host}.xplane.pb").write_bytes(space)
    trace = read(str(tmp_path), form)
    assert (by_name(trace, "a").start_ps, by_name(trace, "b").start_ps) == (501_000, 1_000)
    assert trace.processes == ["a /host:CPU", "b /host:CPU"]


# ---- tracks


def test_processes_and_tracks_have_xprofs_names_and_order(form: str) -> None:
    source = xspace(
        plane(
            "/host:CPU", [line("python", [event("x", 0, 1)], id=70, display_id=9), line("", [event("x", 0, 1)], id=8)]
        ),
        plane("/device:GPU:1", [line("Stream #14", [event("k", 0, 1)], id=14)], id=2),
        plane("/device:GPU:0", [line("Stream #13", [event("k", 0, 1)], id=13)], id=1),
    )
    trace = read(source, form)
    (host,) = {one.process.split()[0] for one in trace.slices}
    assert trace.processes == [f"{host} /device:GPU:0", f"{host} /device:GPU:1", f"{host} /host:CPU"]
    assert trace.tracks[f"{host} /host:CPU"] == ["", "python"]


def test_what_overlaps_goes_to_another_row(form: str) -> None:
    events = [event("a", 0, 10), event("inner", 2, 3), event("b", 5, 10), event("c", 12, 2), event("d", 20, 1)]
    trace = read(xspace(plane("/host:CPU", [line("t", events)])), form)
    assert trace.nests()
    rows = {one.name: one.row for one in trace.slices}
    assert rows["a"] == rows["inner"] == rows["d"] != rows["b"] == rows["c"]
    tracks = {track for tracks in trace.tracks.values() for track in tracks}
    assert tracks == ({"t", "t (2)"} if form == CHROME else {"t"})


def test_lines_of_one_id_and_planes_of_one_pid_stay_apart(form: str) -> None:
    planes = [
        plane(
            f"/device:GPU:{n}", [line("s", [event(f"k{n}{i}", 0, 5)], id=i, display_id=7) for i in (1, 2)], id=600 + n
        )
        for n in range(2)
    ]
    trace = read(xspace(*planes), form)
    assert len({(one.process, one.row) for one in trace.slices}) == 4
    assert len(trace.processes) == 2


def test_a_thousand_events_at_once_take_a_thousand_rows(form: str) -> None:
    events = [event("e", i, 10_000) for i in range(1_000)]
    trace = read(xspace(plane("/host:CPU", [line("t", events, id=2**32 - 1)])), form)
    assert trace.nests()
    assert len({one.row for one in trace.slices}) == 1_000


# ---- names and args


def test_any_name_comes_through(form: str) -> None:
    names = [
        "<script>alert(1)</script>",
        'q"\\/',
        "\x00\x01\x1f\x7f",
        "tab\tline\nend\r",
        "é漢🙂\u2028",
        "",
        "x" * 5_000,
    ]
    source = xspace(plane("/host:CPU", [line("\x02</script>", [event(name, i, 1) for i, name in enumerate(names)])]))
    trace = read(source, form)
    assert [one.name for one in trace.slices] == names
    assert {one.track for one in trace.slices} == {"\x02</script>"}


def test_text_that_many_events_may_share_is_cut_where_it_is_repeated(form: str) -> None:
    name = "é" * 6_000
    trace = read(xspace(plane("/host:CPU", [line("t", [event(name, 0, 1)])])), form)
    assert trace.slices[0].name == (name if form == PERFETTO else "é" * 5_000 + "...<truncated>")


def test_the_display_name_is_shown_and_the_name_is_an_arg(form: str) -> None:
    metadata = [Metadata("%fusion.1 = f32[] fusion()", display_name="fusion.1", stats={"long_name": "else"})]
    source = xspace(plane("/device:TPU:0", [line("XLA Ops", [event(metadata[0].name, 0, 1)])], event_metadata=metadata))
    (one,) = read(source, form).slices
    assert one.name == "fusion.1"
    assert one.args == {"long_name": "%fusion.1 = f32[] fusion()", "long_name (2)": "else"}


VALUES: dict[str | int, Any] = {
    "int": -3,
    "exact": 2**53,
    "large": 2**53 + 1,
    "least": -(2**63),
    "uint": u64(2**64 - 1),
    "tenth": 0.1,
    "three": 3.0,
    "tiny": 5e-324,
    "nan": math.nan,
    "inf": -math.inf,
    "text": 'own "text"',
    "ref": ref("shared text"),
    "bytes": b"\xff\x00",
    "nothing": None,
    "lost": ref(999),
}


def test_stats_keep_their_types(form: str) -> None:
    (one,) = read(xspace(plane("/host:CPU", [line("t", [event("e", 0, 1_000, stats=VALUES)])])), form).slices
    args = {name: float(value) if isinstance(value, Decimal) else value for name, value in one.args.items()}
    exact = form == PERFETTO
    assert args.pop("nan") == "NaN" if not exact else math.isnan(args.pop("nan"))
    assert args == {
        "int": -3,
        "exact": 2**53,
        "large": 2**53 + 1 if exact else str(2**53 + 1),
        "least": -(2**63) if exact else str(-(2**63)),
        "uint": 2**64 - 1 if exact else str(2**64 - 1),
        "tenth": 0.1,
        "three": 3.0,
        "tiny": 5e-324,
        "inf": -math.inf if exact else "-Infinity",
        "text": 'own "text"',
        "ref": "shared text",
        "bytes": "<opaque bytes>",
        "lost": 999,
    }


def test_a_stat_of_the_event_counts_and_repeated_ones_are_numbered(form: str) -> None:
    metadata = [Metadata("e", stats=[stat("a", 1), stat("b", 2), stat("b", 3)])]
    own = [stat("a", 10), stat("c", 1), stat("c", "x")]
    source = xspace(plane("/host:CPU", [line("t", [event("e", 0, 1_000, stats=own)])], event_metadata=metadata))
    (one,) = read(source, form).slices
    assert one.args == {"a": 10, "c": 1, "c (2)": "x", "b": 2, "b (2)": 3}
    assert read(source, form, stats="event").slices[0].args == {"a": 10, "c": 1, "c (2)": "x"}
    assert read(source, form, stats="none").slices[0].args == {}


def test_stats_of_metadata_past_256_are_counted(form: str) -> None:
    metadata = [Metadata("e", stats={f"s{i}": i for i in range(300)})]
    source = xspace(plane("/host:CPU", [line("t", [event("e", 0, 1_000)])], event_metadata=metadata))
    (one,) = read(source, form).slices
    assert len(one.args) == 257
    assert one.args["stats left out"] == 44


# ---- what is derived


LAUNCHED = xspace(
    plane(
        "/host:CPU",
        [
            line("main", [
                event("train", 0, 100_000, stats={"_r": 1, "step_num": 4}),
                event("launch", 10_000, 5_000, stats={"correlation_id": 7}),
                event("other", 20_000, 5_000, stats={"correlation_id": 8}),
            ]),
        ],
    ),
    plane(
        "/device:GPU:0",
        [line("Stream #1(Compute)", [
            event("kernel", 30_000, 9_000, stats={"correlation_id": 7}),
            event("more", 40_000, 9_000, stats={"correlation_id": 8}),
        ])],
    ),
)  # fmt: skip


def test_flows_lead_from_launches_to_kernels(form: str) -> None:
    trace = read(LAUNCHED, form, derived=True)
    launch, other = by_name(trace, "launch"), by_name(trace, "other")
    kernel, more = (one for one in trace.slices if one.name in ("kernel", "more") and one.flows_in)
    assert launch.flows_out == kernel.flows_in
    assert other.flows_out == more.flows_in
    assert launch.flows_out != other.flows_out


def test_a_flow_leads_from_an_asynchronous_start_to_its_end(form: str) -> None:
    ops = [event("copy-start.1", 0, 10), event("fusion.2", 20, 30), event("copy-done.1", 60, 10)]
    trace = read(xspace(plane("/device:TPU:0", [line("XLA Ops", ops)])), form, derived=True)
    start, done = by_name(trace, "copy-start.1"), by_name(trace, "copy-done.1")
    assert start.flows_out == done.flows_in
    assert len(start.flows_out) == 1


def test_flows_of_a_selection_have_both_ends(form: str) -> None:
    trace = read(LAUNCHED, form, derived=True, names=["^launch$", "kernel", "more"])
    assert [(one.name, len(one.flows_out), len(one.flows_in)) for one in trace.slices if "Stream" in one.track] == [
        ("kernel", 0, 1),
        ("more", 0, 0),
    ]


def test_steps_have_a_track_and_name_their_events(form: str) -> None:
    trace = read(LAUNCHED, form, derived=True)
    (step,) = (one for one in trace.slices if one.track == "Steps" and one.process.endswith("/host:CPU"))
    assert (step.start_ps, step.duration_ps, step.args["group_id"]) == (0, 100_000, 0)
    (root,) = (one for one in trace.slices if one.args.get("long_name") == "train")
    assert root.name == step.name == root.args["step_name"] == "train 4"
    assert {one.args["group_id"] for one in trace.slices} == {0}


def test_raw_files_have_the_events_alone(form: str) -> None:
    trace = read(LAUNCHED, form)
    assert sorted(one.name for one in trace.slices) == ["kernel", "launch", "more", "other", "train"]
    assert not any(one.flows_out or one.flows_in for one in trace.slices)
    assert by_name(trace, "train").args == {"_r": 1, "step_num": 4}


def test_counter_lines_are_counters(form: str) -> None:
    events = [event("power", i * 1_000, 0, stats={"power": value}) for i, value in enumerate([1.5, 2.5, math.nan])]
    source = xspace(plane("/device:GPU:0", [line("_counters_", events), line("s", [event("k", 0, 1_000)])]))
    trace = read(source, form, derived=True)
    assert [one.name for one in trace.slices] == ["k"]
    (((process, name), values),) = trace.counters.items()
    assert (process.split()[1], name, values) == ("/device:GPU:0", "power", [(0, 1.5), (1_000, 2.5)])


def test_counters_of_hardware_units_name_their_unit(form: str) -> None:
    events = [event("MXU", i * 1_000, 500, stats={"% util": value}) for i, value in enumerate([1.5, 2.5])]
    source = xspace(plane("/device:TPU:0", [line("_counters_", events), line("s", [event("k", 0, 1_000)])]))
    (((_, name), values),) = read(source, form, derived=True).counters.items()
    assert (name, values) == ("MXU (%)", [(0, 1.5), (1_000, 2.5)])


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"lines": "Stream"}, {"kernel", "more"}),
        ({"names": "launch"}, {"launch"}),
        ({"planes": "CPU", "time_ps": (16_000, 22_000)}, {"train 4", "other"}),
        ({"planes": "nothing"}, set()),
    ],
)
def test_selections_narrow_derived_tracks_too(form: str, selection: dict[str, Any], names: set[str]) -> None:
    trace = read(LAUNCHED, form, derived=True, **selection)
    assert {one.name for one in trace.slices} == names


def test_structs_are_those_of_c(form: str) -> None:
    assert form in READERS
    assert SIZES["TRACK"] == TRACK.itemsize == np.zeros(1, TRACK).nbytes


@pytest.mark.parametrize("folder", ["pod", "xla"])
def test_files_do_not_depend_on_what_was_asked_before(folder: str, form: str) -> None:
    path = Path(__file__).parents[2] / "demo" / folder
    asked = fastprof.load(path)
    assert asked.event_metadata_stats.num_rows and asked.overview().to_text() and asked.hlo_stats().to_text()
    assert written(asked, form) == written(fastprof.load(path), form)
