"""The report on tf.data: its tables and sentences, on small captures whose every figure is plain to see."""

from __future__ import annotations

import base64
import gc
import json
import pickle
import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from reports import column, rows
from step_captures import US, host, ran, spaces, step
from trace_builder import Event, Value, u64

import fastprof
from fastprof.analyses import accumulation
from fastprof.derive.pipelines import pipelines_of_hosts
from fastprof.derive.pipelines.pipeline_tables import LARGE as TABLES_OF_CALLS
from fastprof.derive.pipelines.pipelines_of_hosts import KeptPipelinesOfHost
from fastprof.tables.host_events import HostEvents

LARGE = 2**63 + 5
"""An id that is not an int64."""
DEMO = Path(__file__).parents[2] / "demo" / "tf-data"


def iterator(path: str, at: float, length: float, id: Value, parent: Value = None, **stats: Value) -> Event:
    recorded: dict[str, Value] = {"id": id} | ({} if parent is None else {"parent_id": parent}) | stats
    return ran(f"Iterator::{path}", at, length, **recorded)


def serial_call(at: float) -> list[Event]:
    """100 us: Root 2, Batch 8, two elements of Map of 40 each, 10 of them reading."""
    events = [
        iterator("Root", at, 100, 1),
        iterator("Root::BatchV2", at + 1, 98, 2, 1, batch_size=2),
    ]
    for start in (at + 5, at + 50):
        events += [
            iterator("Root::BatchV2::Map", start, 45, u64(LARGE), 2),
            iterator("Root::BatchV2::Map::TFRecord", start + 5, 10, 4, u64(LARGE)),
        ]
    return events


def serial(**params: Any) -> fastprof.Report:
    """Three steps of 200 us, 50 apart; each waits 100 for its batch."""
    thread: list[Event] = []
    for number in range(3):
        thread += [step(number, 250 * number, 200), *serial_call(250 * number + 10)]
    return fastprof.load(spaces(host(thread))).tf_data(**params)


def us(*values: float) -> tuple[int, ...]:
    return tuple(round(value * US) for value in values)


# ---- tables


def test_a_pipeline_and_its_calls() -> None:
    report = serial()
    (row,) = report.tables["pipelines"].to_pylist()
    assert (row["host"], row["pipeline"], row["kind"], row["name"]) == ("vm", "Host:0", "host", "Iterator::Root")
    assert (row["call_count"], row["slow_call_count"], row["root_id"]) == (3, 3, "1")
    assert {row[f"{name}_ps"] for name in ("min", "mean", "p50", "p90", "p99", "max")} == {100 * US}
    assert (row["total_ps"], row["between_calls_ps"]) == us(300, 300)
    assert (row["bottleneck_name"], row["bottleneck_id"], row["bottleneck_ps"]) == ("Map", str(LARGE), 70 * US)
    assert (row["bottleneck_share"], row["bottleneck_call_count"]) == (0.7, 3)
    assert rows(report, "calls", "rank", "step", "start_ps", "is_slow", "bottleneck_name", "bottleneck_ps") == [
        (rank, rank, (250 * rank + 10) * US, True, "Map", 70 * US) for rank in range(3)
    ]


def test_iterators_are_a_tree_whose_critical_times_add_up() -> None:
    report = serial()
    columns = ("depth", "name", "iterator_id", "parent_id", "call_count", "self_ps", "critical_ps", "is_bottleneck")
    assert rows(report, "iterators", *columns) == [
        (0, "Root", "1", None, 3, *us(6, 6), False),
        (1, "BatchV2", "2", "1", 3, *us(24, 24), False),
        (2, "Map", str(LARGE), "2", 6, *us(210, 210), True),
        (3, "TFRecord", "4", str(LARGE), 6, *us(60, 60), False),
    ]
    assert sum(column(report, "iterators", "critical_ps")) == 300 * US
    assert rows(report, "iterators", "batch_size", "parallelism", "autotune", name="BatchV2") == [(2, None, None)]
    assert sum(column(report, "critical_path", "duration_ps")) == 100 * US
    assert rows(report, "call_iterators", "name", "critical_ps", "is_bottleneck", rank=1) == [
        ("Root", 2 * US, False), ("BatchV2", 8 * US, False), ("Map", 70 * US, True), ("TFRecord", 20 * US, False),
    ]  # fmt: skip


def test_steps_wait_for_their_calls() -> None:
    report = serial()
    columns = ("step", "step_name", "pipeline", "call_count", "wait_ps", "wait_share", "ahead_ps", "step_ps")
    assert rows(report, "step_waits", *columns) == [
        (number, f"train {number}", "Host:0", 1, 100 * US, 0.5, 0, 200 * US) for number in range(3)
    ]
    assert report.scalars["wait_share"].value == 0.5


def test_of_a_serial_pipeline_predictions_are_exact() -> None:
    """A batch takes 100 us and 150 between."""
    report = serial(parallel=2)
    columns = ("name", "change", "now_ps", "then_ps", "saved_ps", "assumption")
    predictions = {(name, change): rest for name, change, *rest in rows(report, "what_if", *columns)}
    assert {rest[0] for rest in predictions.values()} == {250 * US}
    exact = "exact: nothing runs ahead in this pipeline, so its times add up"
    assert predictions["Map", "twice as fast"] == [*us(250, 215, 35), exact]
    assert predictions["TFRecord", "twice as fast"][1] == 240 * US
    assert predictions["BatchV2", "prefetched"][1] == 152 * US
    assert predictions["Map", "prefetched"][1] == 160 * US
    assert predictions["Map", "parallel by 2"][1] == 160 * US
    assert [name for name, _ in predictions if name == "Root"] == []
    saved = column(report, "what_if", "saved_ps")
    assert saved == sorted(saved, reverse=True)


def test_inputs_of_one_kind_count_together_and_change_together() -> None:
    """Four files of 15 us each, and a Map of 30: reading is the bottleneck, though no single file is."""
    events = []
    for at in (0, 200):
        events += [iterator("Root", at, 100, 1), iterator("Root::Map", at + 5, 90, 2, 1)]
        for number in range(4):
            path = f"Root::Map::Interleave[{number}]::TFRecord"
            events.append(iterator(path, at + 20 + 18 * number, 15, 10 + number, 2))
    report = fastprof.load(spaces(host(events))).tf_data()
    assert rows(report, "pipelines", "bottleneck_name", "bottleneck_ps") == [("TFRecord", 60 * US)]
    assert rows(report, "pipelines", "bottleneck_share", "bottleneck_call_count") == [(0.6, 0)], "alone, Map has most"
    assert column(report, "iterators", "is_bottleneck", name="TFRecord") == [True, False, False, False]
    (row,) = [row for row in report.tables["what_if"].to_pylist()
              if (row["name"], row["change"]) == ("TFRecord", "twice as fast")]  # fmt: skip
    assert (row["saved_ps"], row["iterator_count"]) == (30 * US, 4)


def test_slow_is_what_is_asked_for() -> None:
    assert serial(slow_call_us=100).scalars["slow_call_count"].value == 0
    report = serial(slow_call_us=99)
    assert report.scalars["slow_call_count"].value == 3
    with pytest.raises(fastprof.UsageError, match="parallel: 1 is not an integer of at least 2"):
        serial(parallel=1)


# ---- sentences


def test_the_verdict_names_the_pipeline_the_bottleneck_and_the_best_change() -> None:
    report = serial()
    (text,) = [notice.text for notice in report.notices if notice.severity == "recommendation"]
    assert text == (
        "Host:0 is slow: 3 of 3 calls take more than 50 µs, 100 µs on average; steps wait 50.0 % of their time for it. "
        "70 % of a call is Map. Run it in parallel: num_parallel_calls=tf.data.AUTOTUNE. If its results fit into "
        "memory and are the same every time, put cache() after it. A batch takes 250 µs; with a prefetch after "
        "BatchV2, 152 µs (1.6 times as fast): then the program sets the pace, not its input."
    )
    figures = {name: report.scalars[name].value for name in ("slow_pipeline", "bottleneck_name", "best_change")}
    assert figures == {
        "slow_pipeline": "Host:0",
        "bottleneck_name": "Map",
        "best_change": "a prefetch after BatchV2",
    }
    assert (report.scalars["batch_ps"].value, report.scalars["best_batch_ps"].value) == us(250, 152)


def test_the_cores_of_the_host_bound_what_is_promised() -> None:
    """A batch of 8 x 221 us of Map, beside 0.85 ms of the program, takes two cores more than 1.3 ms."""
    report = fastprof.load(DEMO).tf_data()
    (text,) = [notice.text for notice in report.notices if notice.severity == "recommendation"]
    best, least = (
        report.scalars["best_batch_ps"].value,
        column(report, "what_if", "least_then_ps", name="Map", change="parallel by 4"),
    )
    assert isinstance(best, int) and best > 1300 * US > min(least)
    assert "times as fast) if CPU-bound (2 cores), " in text
    assert rows(report, "pipelines", "cpu_budget", "threadpool_size") == [(2, 2)]
    assert any("The host has 2 cores, by tf.data's cpu_budget." in notice.text for notice in report.notices)


def test_what_saves_nothing_is_not_advised() -> None:
    """Elements of 30 us are made ahead and late all the same: nothing that the pipeline does takes long."""
    main, other = [], []
    for number in range(4):
        at = 1000 * number
        main += [step(number, at, 900), iterator("Root", at + 10, 400, 1, cpu_budget=8)]
        main += [iterator("Root::MapAndBatch", at + 11, 398, 2, 1, parallelism=2, autotune="false")]
        other += [iterator("Root::MapAndBatch::Range", at + 500, 30, 3, 2)]
    report = fastprof.load(spaces(host(main, other))).tf_data()
    assert column(report, "bottlenecks", "name") == ["MapAndBatch"]
    assert not any(saved for saved in column(report, "what_if", "saved_ps"))
    (advice,) = column(report, "bottlenecks", "suggestion")
    assert "num_parallel_calls" not in advice and "cheaper" not in advice
    assert "What if: no change of a single iterator makes batches faster by 1 % or more." in [
        notice.text for notice in report.notices
    ]
    assert "\nWhat if\n" not in report.to_text()


def test_changes_that_save_little_are_not_shown() -> None:
    report = serial(parallel=2)
    saved = [1 for saved in column(report, "what_if", "saved_ps") if saved >= 2.5 * US]
    section = report.to_text().partition("\nWhat if\n")[2].partition("\n\n")[0].splitlines()
    every = report.tables["what_if"].num_rows
    assert len(section) == 1 + len(saved) + (len(saved) < every)
    if len(saved) < every:
        assert section[-1] == f"  showing {len(saved)} of {every}; --limit all shows the others"


def test_parallel_is_not_a_number_beyond_reason() -> None:
    with pytest.raises(fastprof.UsageError, match="parallel is 1,000,000 at most, not 1,000,001"):
        serial(parallel=1_000_001)


def test_times_near_64_bits_stay_times() -> None:
    report = fastprof.load(
        spaces(host([ran("Iterator::Root", 0, 2**62 / US, id=1), ran("Iterator::Root", 2**62 / US, 2**61 / US, id=1)]))
    ).tf_data()
    assert all(0 <= row["then_ps"] <= row["now_ps"] for row in report.tables["what_if"].to_pylist())
    assert report.to_text() and report.to_svg()


def test_a_notebook_shows_the_drawing_as_an_image() -> None:
    html = serial()._repr_html_()
    before, _, image = html.partition("<img ")
    assert before.startswith("<div") and "<table" in before
    encoded = image.partition("base64,")[2].partition('"')[0]
    assert base64.b64decode(encoded).decode() == serial().to_svg()


def test_a_pipeline_that_steps_hardly_wait_for_is_not_a_recommendation() -> None:
    """Calls of 100 us in steps of 20 ms."""
    thread: list[Event] = []
    for number in range(3):
        thread += [step(number, 30_000 * number, 20_000), *serial_call(30_000 * number + 10)]
    report = fastprof.load(spaces(host(thread))).tf_data()
    assert [notice.text for notice in report.notices if notice.severity == "recommendation"] == []
    assert report.notices[0].text == (
        "Host:0: 3 of 3 calls take more than 50 µs, 100 µs on average, but steps wait only 0.5 % of their time for it. "
        "70 % of a call is Map."
    )
    assert report.notices[1].text.startswith("Steps wait for input for less than 1 %")


def test_the_text_shows_the_tree_and_what_helps() -> None:
    lines = [line.partition("  Host:0")[0].rstrip() for line in serial().to_text().splitlines()]
    at = lines.index("  Root")
    assert lines[at : at + 4] == ["  Root", "  └─ BatchV2", "     └─ Map", "        └─ TFRecord"]
    assert "What if" in lines and "Steps that wait" in lines


def test_where_nothing_is_slow_it_says_so() -> None:
    report = serial(slow_call_us=1000)
    assert report.notices[0].text == "No input pipeline is slow: no call takes longer than 1,000 µs."
    assert report.scalars["bottleneck_name"].reason == "no call of any pipeline is slow"


def test_without_iterators_it_says_what_to_switch_on() -> None:
    report = fastprof.load(spaces(host([step(0, 0, 10)]))).tf_data()
    (notice,) = report.notices
    assert "host_tracer_level=2" in notice.text and "profile several batches" in notice.text
    assert report.scalars["call_count"].value is None
    assert "host_tracer_level" in (report.scalars["wait_share"].reason or "")


def test_iterators_without_a_root_call_need_a_longer_capture() -> None:
    report = fastprof.load(spaces(host([iterator("Root::Map", 0, 10, 2, 1)]))).tf_data()
    assert "profile for longer" in report.notices[0].text


def test_iterators_without_ids_are_reported() -> None:
    bare = [ran("Iterator::Root", 0, 10), ran("Iterator::Root::Map", 1, 5)]
    report = fastprof.load(spaces(host(bare))).tf_data()
    assert "2 events of tf.data iterators, all without an id" in report.notices[0].text
    mixed = fastprof.load(spaces(host([*bare, *serial_call(20)]))).tf_data()
    assert "2 iterator events have no id and are not counted here." in [notice.text for notice in mixed.notices]


def test_a_single_call_predicts_nothing_between_calls() -> None:
    report = fastprof.load(spaces(host([step(0, 0, 200), *serial_call(10)]))).tf_data()
    assert "its only call takes 100 µs" in report.notices[0].text and "A batch takes" not in report.notices[0].text
    assert report.scalars["batch_ps"].reason == "there was a single call, so the time between calls is unknown"


def test_calls_outside_of_steps_keep_no_step_waiting() -> None:
    thread = [step(0, 0, 50), ran("work", 5, 40), *serial_call(100), step(1, 250, 50), ran("work", 255, 40)]
    report = fastprof.load(spaces(host(thread))).tf_data()
    assert [notice.text for notice in report.notices] == [
        "Host:0: its only call takes 100 µs, outside of all steps: the capture does not show whether the program "
        "waits for them. 70 % of a call is Map."
    ]
    quick = fastprof.load(spaces(host(thread))).tf_data(slow_call_us=100)
    assert "1 of 1 calls run outside of all steps: the capture does not show whether the program waits for them." in [
        notice.text for notice in quick.notices
    ]
    assert "between its steps" in (report.scalars["wait_share"].reason or "")
    no_steps = fastprof.load(spaces(host(serial_call(0)))).tf_data()
    assert "no steps" in (no_steps.scalars["wait_share"].reason or "")
    assert no_steps.tables["step_waits"].num_rows == 0


def test_hosts_stand_side_by_side() -> None:
    """The second has slower calls, and comes first in what is ordered by time."""
    slow = [iterator("Root", 0, 500, 7), iterator("Root", 600, 500, 7)]
    captures = [spaces(host(serial_call(0)), hostnames=("a",)), spaces(host(slow), hostnames=("b",))]
    report = fastprof.load(captures).tf_data()
    columns = ("host", "pipeline", "total_ps")
    assert rows(report, "pipelines", *columns) == [("a", "Host:0", 100 * US), ("b", "Host:0", 1000 * US)]
    assert rows(report, "bottlenecks", "host", "name") == [("b", "Root"), ("a", "Map")]
    assert report.scalars["slow_pipeline"].value == "Host:0 of b"
    assert report.notices[0].text.startswith("Host:0 of b is slow: 2 of 2 calls")
    tree = report.to_text().partition("Iterators, and")[2].partition("\n\n")[0]
    assert tree.splitlines()[1].split()[:3] == ["name", "host", "pipeline"]


def test_hostile_attributes_are_left_out() -> None:
    wild: dict[str, Value] = {
        "parallelism": u64(2**64 - 1),
        "autotune": "perhaps",
        "buffer_size": -4,
        "batch_size": 2.5,
    }
    report = fastprof.load(spaces(host([iterator("Root", 0, 100, 1, **wild)]))).tf_data()
    (row,) = report.tables["iterators"].to_pylist()
    assert {row[name] for name in ("parallelism", "autotune", "buffer_size", "batch_size", "deterministic")} == {None}


def test_of_some_steps_only_their_calls_count_with_what_was_fetched_for_them() -> None:
    """Other threads fetch elements outside of the step's group; none of their time may be lost."""
    profile = fastprof.load(DEMO)
    some = profile.select(steps=(2, 5)).tf_data()
    columns = ["pipeline", "step", "start_ps", "duration_ps", "bottleneck_name", "bottleneck_ps"]

    def calls(report: fastprof.Report) -> list[dict[str, object]]:
        rows = report.tables["calls"].select(columns).to_pylist()
        return sorted((row for row in rows if row["step"] in (2, 3, 4)), key=str)

    assert calls(some) == calls(profile.tf_data()) != []
    assert some.tables["calls"].num_rows == len(calls(some))
    assert {row["step"] for row in some.tables["step_waits"].to_pylist()} == {2, 3, 4}
    assert json.loads(some.to_xprof())[0]["rows"]


def test_of_some_steps_no_other_thread_is_said_to_count_nowhere() -> None:
    profile = fastprof.load(DEMO)
    texts = [notice.text for notice in profile.select(steps=(2, 5)).tf_data().notices]
    assert texts[-1] == (
        "Only some steps are selected. Their calls are reported, including earlier work of other threads for them; "
        "calls that belong to no step are left out."
    )
    assert not any("not counted" in text for text in texts)
    assert not any("Only some steps" in notice.text for notice in profile.tf_data().notices)


# ---- memory


def three() -> fastprof.Profile:
    """Of hosts with 60, 120 and 180 calls."""
    captures = []
    for number in (1, 2, 3):
        thread: list[Event] = []
        for at in range(60 * number):
            thread += [step(at, 250 * at, 200), *serial_call(250 * at + 10 * number)]
        captures.append(spaces(host(thread), hostnames=(f"host{number}",)))
    return fastprof.load(captures)


def test_tables_of_hosts_are_the_same_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[KeptPipelinesOfHost] = []
    summarize = KeptPipelinesOfHost.summarize
    monkeypatch.setattr(KeptPipelinesOfHost, "summarize", lambda one: (kept.append(one), summarize(one))[1])
    wanted = three().tf_data()
    every = {name: wanted.tables[name].to_pylist() for name in wanted.tables}
    assert [one.in_memory for one in kept] == [False, False]
    monkeypatch.setattr(pipelines_of_hosts, "_MANY", 1)
    profile = three()
    report = profile.tf_data()
    assert {name: report.tables[name].num_rows for name in every if name not in TABLES_OF_CALLS}
    before = pa.total_allocated_bytes()
    tables = {name: report.tables[name] for name in TABLES_OF_CALLS}
    assert sum(table.nbytes for table in tables.values()) > 20_000
    assert pa.total_allocated_bytes() - before < 5_000
    again = pickle.loads(pickle.dumps(report.answer))
    del profile, report
    gc.collect()
    assert {name: table.to_pylist() for name, table in tables.items()} == {
        name: every[name] for name in TABLES_OF_CALLS
    }
    assert {name: again.tables[name].to_pylist() for name in every} == every


def test_events_of_a_host_go_when_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the search for circles of references, which few large arrays do not begin."""
    seen: list[weakref.ref[HostEvents]] = []
    read = accumulation.read_host

    def noted(*args: object) -> HostEvents:
        events = read(*args)  # type: ignore[arg-type]
        seen.append(weakref.ref(events))
        return events

    monkeypatch.setattr(accumulation, "read_host", noted)
    gc.collect()
    gc.disable()
    try:
        three().reports("tf_data", "diagnosis")
        assert [events() for events in seen] == [None] * 3
    finally:
        gc.enable()
