"""Input pipelines: the calls of each, what they ran, and where their time went."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate import few, rounds
from kept import kept_of
from pipeline_spaces import capture_of, pipeline_threads
from slow_pipelines import answered
from trace_builder import Event, event, line, plane, u64, xspace

import fastprof
from fastprof.decode.workers import Workers
from fastprof.derive.pipelines.iterators import STATS, read_pipelines
from fastprof.derive.pipelines.recorded_pipelines import PARTS, PipelineReading
from fastprof.errors import CaptureError
from fastprof.tables.host_reader import read_host
from fastprof.xprof.pipelines_as_xprof import read_as_xprof, record_links

HUGE = (1 << 63) + 9


def read(*threads: list[Event], others: int = 0) -> PipelineReading:
    return kept_of(capture_of(list(threads), others)).exact


def iterator(name: str, start: int, duration: int, id: Any, parent: Any = None, **stats: Any) -> Event:
    recorded = {"id": id} | ({} if parent is None else {"parent_id": parent}) | stats
    return event("Iterator::" + name, start, duration, recorded)


def produce(start: int, duration: int, element: int, what: str = "Prefetch") -> Event:
    return event(f"{what}Produce", start, duration, {"element_id": element})


def consume(start: int, duration: int, element: int, what: str = "Prefetch") -> Event:
    return event(f"{what}Consume", start, duration, {"element_id": element})


def unsigned(value: int) -> int:
    return value % (1 << 64)


def used(found: PipelineReading, call: int = 0) -> dict[str, tuple[int, int, int]]:
    """By name of an iterator in a call: its total, self and critical time."""
    records = found.records
    rows = range(int(found.calls.first[call]), int(found.calls.first[call + 1]))
    return {
        found.iterators.name[records.iterator[row]]: (
            int(records.total_ps[row]), int(records.self_ps[row]), int(records.critical_ps[row])
        )
        for row in rows
    }  # fmt: skip


def parts(found: PipelineReading) -> dict[tuple[str, str], int]:
    table = found.parts
    columns = zip(table.iterator.tolist(), table.part.tolist(), table.time_ps.tolist(), strict=True)
    return {(found.iterators.name[iterator], PARTS[part]): time for iterator, part, time in columns}


def tree(found: PipelineReading) -> list[str]:
    rows = zip(found.tree.pipeline.tolist(), found.tree.depth.tolist(), found.tree.iterator.tolist(), strict=True)
    return [f"{number} " + "  " * depth + found.iterators.name[iterator] for number, depth, iterator in rows]


# ---- against the rules, applied slowly ---------------------------------------------------------------


def check_against_rules(seed: int) -> int:
    threads = pipeline_threads(seed)
    wanted, found = answered(threads), read(*threads, others=seed % 3)
    ids = [unsigned(int(found.iterators.iterator_id[root])) for root in found.pipelines.root.tolist()]
    assert ids == list(wanted.pipelines), seed
    for number, calls in enumerate(wanted.pipelines.values()):
        first = int(found.pipelines.first[number])
        assert int(found.pipelines.first[number + 1]) - first == len(calls)
        for row, call in enumerate(calls, first):
            check_call(found, row, call, seed)
        slowest = found.segments.pipeline == number
        segments = zip(
            [unsigned(int(found.iterators.iterator_id[i])) for i in found.segments.iterator[slowest].tolist()],
            found.segments.start_ps[slowest].tolist(), found.segments.duration_ps[slowest].tolist(), strict=True,
        )  # fmt: skip
        assert list(segments) == calls[0].segments, seed
        check_parts(found, number, calls, seed)
    return sum(len(call.used) for calls in wanted.pipelines.values() for call in calls)


def check_call(found: PipelineReading, row: int, call: Any, seed: int) -> None:
    assert int(found.calls.start_ps[row]) == call.root.start
    records, shares = found.records, {}
    for place in range(int(found.calls.first[row]), int(found.calls.first[row + 1])):
        assert records.call[place] == row
        shares[unsigned(int(found.iterators.iterator_id[records.iterator[place]]))] = (
            int(records.start_ps[place]), int(records.total_ps[place]), int(records.self_ps[place]),
            int(records.critical_ps[place]), int(records.count[place]), bool(records.is_blocking[place]),
        )  # fmt: skip
    wanted = {
        number: (one.start, one.total, one.self, one.critical, one.count, one.blocks)
        for number, one in call.used.items()
    }
    assert shares == wanted, seed


def check_parts(found: PipelineReading, number: int, calls: Any, seed: int) -> None:
    wanted: dict[tuple[int, int], int] = {}
    for call in calls:
        for key, time in call.parts.items():
            wanted[key] = wanted.get(key, 0) + time
    own = found.parts.pipeline == number
    times = {
        (unsigned(int(found.iterators.iterator_id[iterator])), part): time
        for iterator, part, time in zip(
            found.parts.iterator[own].tolist(), found.parts.part[own].tolist(), found.parts.time_ps[own].tolist(),
            strict=True,
        )
    }  # fmt: skip
    assert times == wanted, seed


def test_pipelines_drawn_by_lot_are_read_as_the_rules_say() -> None:
    assert sum(check_against_rules(seed) for seed in range(rounds(250, 80))) > rounds(600, 190)


def check_sums(found: PipelineReading) -> None:
    """Critical times of a call add up to its duration, and the parts of an iterator to its critical time."""
    shares = np.zeros(len(found.calls), np.int64)
    np.add.at(shares, found.records.call, found.records.critical_ps)
    assert (shares == found.calls.duration_ps).all()
    critical: dict[tuple[int, int], int] = {}
    pipeline = found.calls.pipeline[found.records.call]
    keys = zip(pipeline.tolist(), found.records.iterator.tolist(), strict=True)
    for key, time in zip(keys, found.records.critical_ps.tolist(), strict=True):
        critical[key] = critical.get(key, 0) + time
    times: dict[tuple[int, int], int] = {}
    keys = zip(found.parts.pipeline.tolist(), found.parts.iterator.tolist(), strict=True)
    for key, time in zip(keys, found.parts.time_ps.tolist(), strict=True):
        times[key] = times.get(key, 0) + time
    assert times == {key: time for key, time in critical.items() if time}
    listed = set(zip(found.tree.pipeline.tolist(), found.tree.iterator.tolist(), strict=True))
    assert len(listed) == len(found.tree.iterator) and set(critical) <= listed


@pytest.mark.parametrize("seed", few(range(0, 250, 5), 12))
def test_shares_add_up_to_the_duration_of_each_call(seed: int) -> None:
    check_sums(read(*pipeline_threads(seed)))


# ---- one rule at a time ------------------------------------------------------------------------------


def test_an_iterator_belongs_to_the_one_around_it_whatever_lies_between() -> None:
    reading = read([
        iterator("Root", 0, 100, 1), event("work", 10, 80), iterator("Root::Map", 20, 60, 2, 1),
        event("InstantiatedCapturedFunction::Run", 30, 40, {"id": 5}), iterator("Root::Map::Range", 75, 5, 3, 2),
    ])  # fmt: skip
    assert used(reading) == {"Root": (100, 40, 40), "Map": (60, 55, 55), "Range": (5, 5, 5)}
    assert parts(reading) == {
        ("Root", "other"): 40, ("Map", "user function"): 40, ("Map", "other"): 15, ("Range", "other"): 5,
    }  # fmt: skip
    assert tree(reading) == ["0 Root", "0   Map", "0     Range"]
    assert reading.iterators.event_self_ps.tolist() == [40, 55, 5]
    assert reading.iterators.event_function_ps.tolist() == [0, 40, 0]


def test_pipelines_are_numbered_by_when_they_are_called_first() -> None:
    """The thread that stands first in the capture calls last."""
    late, early = [iterator("Root", 500, 10, 7)], [iterator("Root", 40, 10, 9), iterator("Root", 700, 90, 9)]
    reading = read(late, early)
    assert reading.pipelines.name == ["Host:0", "Host:1"]
    assert reading.iterators.iterator_id[reading.pipelines.root].tolist() == [9, 7]
    assert reading.calls.start_ps.tolist() == [700, 40, 500]


@pytest.mark.parametrize("duration", [-1, -100, -(2**63)])
def test_a_call_takes_no_less_than_no_time(duration: int) -> None:
    reading = read([iterator("Root", 0, 100, 1), iterator("Root", 200, duration, 1), iterator("Root", 400, 5, 1)])
    assert reading.calls.duration_ps.tolist() == [100, 5, 0]
    check_sums(reading)


def test_a_call_ends_before_64_bits_do() -> None:
    reading = read([iterator("Root", 0, 100, 1), iterator("Root", 2**63 - 1000, 5000, 1)])
    assert reading.calls.duration_ps.tolist() == [999, 100]
    check_sums(reading)


def test_a_buffered_element_belongs_to_the_iterator_that_took_it() -> None:
    reading = read(
        [iterator("Root", 0, 100, 1), iterator("Root::Prefetch", 10, 90, 2, 1), consume(95, 4, 7)],
        [produce(0, 40, 6), iterator("Root::Prefetch::Batch", 1, 38, 3, 2),
         produce(40, 50, 7), iterator("Root::Prefetch::Batch", 42, 46, 3, 2)],
    )  # fmt: skip
    assert used(reading) == {"Root": (100, 10, 10), "Prefetch": (90, 44, 44), "Batch": (46, 46, 46)}
    assert parts(reading)[("Prefetch", "taking from the buffer")] == 4
    assert parts(reading)[("Prefetch", "waiting for a buffer")] == 40
    assert [reading.iterators.name[iterator] for iterator in reading.segments.iterator] == [
        "Root", "Prefetch", "Batch", "Prefetch",
    ]  # fmt: skip
    assert reading.segments.start_ps.tolist() == [0, 10, 42, 88]


def test_what_was_made_before_the_call_costs_it_nothing() -> None:
    reading = read(
        [iterator("Root", 50, 50, 1), iterator("Root::Prefetch", 60, 40, 2, 1), consume(95, 4, 7)],
        [produce(0, 40, 7), iterator("Root::Prefetch::Batch", 1, 38, 3, 2)],
    )  # fmt: skip
    assert used(reading)["Batch"] == (38, 38, 0) and used(reading)["Prefetch"] == (40, 40, 40)
    assert reading.records.is_blocking.tolist() == [True, True, False]


def test_ids_are_taken_with_all_their_bits() -> None:
    reading = read([
        iterator("Root", 0, 100, u64(HUGE)), iterator("Root::Map", 10, 50, u64(HUGE + 1), u64(HUGE)),
        iterator("Root::Zip", 60, 30, -5, u64(HUGE)),
    ])  # fmt: skip
    assert [reading.iterators.shown_id(i) for i in range(3)] == [str(HUGE), str(HUGE + 1), "-5"]
    assert tree(reading) == ["0 Root", "0   Map", "0   Zip"]


def test_an_element_named_again_goes_to_the_next_that_takes_it() -> None:
    reading = read(
        [iterator("Root", 0, 10, 1), iterator("Root::Prefetch", 0, 10, 2, 1), consume(9, 1, 0),
         iterator("Root", 100, 20, 1), iterator("Root::Prefetch", 100, 20, 2, 1), consume(119, 1, 0)],
        [produce(0, 8, 0), iterator("Root::Prefetch::Map", 1, 6, 3, 2),
         produce(101, 15, 0), iterator("Root::Prefetch::Map", 102, 13, 3, 2)],
    )  # fmt: skip
    assert reading.calls.duration_ps.tolist() == [20, 10]
    assert used(reading, 0)["Map"] == (13, 13, 13) and used(reading, 1)["Map"] == (6, 6, 6)


def test_an_iterator_in_another_thread_belongs_to_whoever_made_its_context() -> None:
    reading = read(
        [iterator("Prefetch", 0, 100, 1), event("FunctionRun", 5, 10, {"_pt": 2, "_p": 9})],
        [event("ExecutorState::Process", 20, 50, {"_ct": 2, "_c": 9}), iterator("Root::Map", 30, 30, 2)],
    )
    assert used(reading) == {"Prefetch": (100, 70, 70), "Map": (30, 30, 30)}
    assert tree(reading) == ["0 Prefetch", "0   Map"]


def test_a_function_that_runs_on_other_threads_lasts_until_its_last_executor() -> None:
    reading = read(
        [iterator("Root", 0, 100, 1), iterator("Root::ParallelMapV2", 0, 100, 2, 1), consume(98, 2, 7, "ParallelMap")],
        [produce(0, 20, 7, "ParallelMap"), iterator("Root::ParallelMapV2::Range", 2, 4, 3, 2),
         event("InstantiatedCapturedFunction::RunAsync", 10, 5, {"id": 33})],
        [event("ExecutorState::Process", 12, 20, {"id": 33}), event("a/ReadFile:ReadFile", 14, 6),
         event("ExecutorState::Process", 40, 30, {"id": 33}), event("ExecutorState::Process", 80, 10, {"id": 34})],
    )  # fmt: skip
    assert parts(reading) == {
        ("Range", "other"): 4, ("ParallelMapV2", "file read"): 6, ("ParallelMapV2", "user function"): 54,
        ("ParallelMapV2", "taking from the buffer"): 2, ("ParallelMapV2", "waiting for a buffer"): 34,
    }  # fmt: skip
    assert reading.iterators.event_function_ps[reading.iterators.name.index("ParallelMapV2")] == 60


def test_readers_of_files_read_in_their_own_time() -> None:
    reading = read([iterator("Root", 0, 9, 1), iterator("Root::FlatMap[0]::TFRecord", 1, 5, 2, 1)])
    assert parts(reading) == {("Root", "other"): 4, ("TFRecord", "file read"): 5}


def test_a_device_asks_through_a_generator() -> None:
    reading = read(
        [iterator("Prefetch", 0, 50, 1), consume(49, 1, 0), iterator("Model", 60, 5, 9)],
        [produce(0, 30, 0), iterator("Prefetch::Generator", 1, 28, 2, 1)],
    )
    assert reading.pipelines.name == ["Device:0", "Host:0"]
    assert reading.pipelines.is_device.tolist() == [True, False]
    assert used(reading) == {"Prefetch": (50, 22, 22), "Generator": (28, 28, 28)}


def test_iterators_that_no_call_reached_are_in_the_tree_all_the_same() -> None:
    reading = read(
        [iterator("Root", 0, 50, 1), iterator("Root::Prefetch", 0, 50, 2, 1)],
        [iterator("Root::Prefetch::Map", 100, 5, 3, 2), iterator("Root::Prefetch::Map::Range", 101, 2, 4, 3)],
    )
    assert tree(reading) == ["0 Root", "0   Prefetch", "0     Map", "0       Range"]
    assert set(used(reading)) == {"Root", "Prefetch"}
    assert reading.iterators.event_total_ps.tolist() == [50, 50, 5, 2]


def test_parents_in_a_circle_are_in_no_tree() -> None:
    reading = read([iterator("Root", 0, 50, 1)], [iterator("Root::A", 0, 5, 2, 3), iterator("Root::B", 10, 5, 3, 2)])
    assert tree(reading) == ["0 Root"]


def test_a_root_inside_another_pipeline_is_a_call_of_its_own() -> None:
    reading = read([iterator("Root", 0, 50, 1), iterator("Model", 10, 20, 2), iterator("Model::Map", 11, 5, 3, 2)])
    assert reading.calls.duration_ps.tolist() == [50, 20]
    assert used(reading, 0) == {"Root": (50, 50, 50)} and used(reading, 1) == {"Model": (20, 15, 15), "Map": (5, 5, 5)}


def test_what_tensorflow_says_of_an_iterator_is_what_it_said_last() -> None:
    reading = read([
        iterator("Root", 0, 50, 1, autotune="true"), iterator("Root::ParallelMapV2", 0, 5, 2, 1, parallelism=2),
        iterator("Root::ParallelMapV2", 10, 5, 2, 1, parallelism=6),
        iterator("Root::P", 20, 5, 3, 1, buffer_limit="unavailable"),
    ])  # fmt: skip
    assert reading.iterators.attributes == {
        "parallelism": [None, 6, None], "buffer_limit": [None, None, None], "autotune": ["true", None, None],
    }  # fmt: skip


def test_events_without_an_id_are_counted_and_their_time_is_that_of_whoever_asked() -> None:
    kept = kept_of(capture_of([[
        iterator("Root", 0, 50, 1), event("Iterator::Root::Map", 5, 30), iterator("Root::Map::Range", 10, 8, 3),
    ]]))  # fmt: skip
    assert (kept.unidentified, kept.iterator_event_count) == (1, 3)
    assert used(kept.exact) == {"Root": (50, 42, 42), "Range": (8, 8, 8)}


def test_events_that_last_no_time_or_less_are_counted() -> None:
    reading = read([iterator("Root", 0, 0, 1), iterator("Root::Map", 0, 0, 2, 1)], [iterator("Root", 5, 9, 1)])
    assert reading.calls.duration_ps.tolist() == [9, 0]
    assert used(reading, 1) == {"Root": (0, 0, 0), "Map": (0, 0, 0)}
    assert reading.segments.duration_ps.tolist() == [9]


def test_a_capture_without_iterators_has_no_pipelines() -> None:
    for data in (xspace(plane("/host:CPU", [line("t", [event("work", 0, 5)])])), xspace(plane("/device:GPU:0"))):
        kept = kept_of(data)
        assert not kept.iterator_event_count and kept.exact.pipelines.name == []
        assert not len(kept.exact.tree.iterator) and not len(kept.exact.parts.time_ps)


def test_a_host_that_calls_no_pipeline_counts_the_events_of_its_iterators() -> None:
    kept = kept_of(capture_of([[
        iterator("Root::Map", 0, 50, 1), event("Iterator::Root::Map::Range", 5, 30), event("work", 60, 5),
    ]]))  # fmt: skip
    assert (kept.unidentified, kept.iterator_event_count) == (1, 2)
    assert not len(kept.exact.calls) and not len(kept.exact.pipelines) and not len(kept.exact.records)


def test_times_beyond_64_bits_are_a_clear_error() -> None:
    most = (1 << 63) - 1
    with pytest.raises(CaptureError, match="the durations of iterators"):
        read([iterator("Root", 0, most, 1)], [iterator("Root", 0, most, 1)])


def test_what_is_kept_can_be_pickled_and_names_its_host() -> None:
    data = xspace(plane("/host:CPU", [line("t", [iterator("Root", 0, 5, 1)])]), hostnames=["worker-7"])
    kept = pickle.loads(pickle.dumps(kept_of(data)))
    assert kept.recorded_host == "worker-7" and kept.exact.calls.duration_ps.tolist() == [5]


def test_calls_know_their_groups() -> None:
    data = capture_of([[iterator("Root", 0, 5, 1), iterator("Root", 10, 9, 1), iterator("Root", 30, 7, 1)]])
    events = read_host(fastprof.load(data).table_set, 0, (), STATS, ())
    groups = np.array([4, -1, 6], np.int32)
    kept = read_pipelines(events, Workers(1))
    assert kept.exact.calls.group_id.tolist() == [-1, -1, -1]
    assert kept.in_groups(groups).exact.calls.group_id.tolist() == [-1, 6, 4]
    assert read_as_xprof(record_links(events, Workers(1), groups)).group_id.tolist() == [-1, 6, 4]


# ---- captures of TensorFlow --------------------------------------------------------------------------


@pytest.mark.captures
@pytest.mark.parametrize("name", ["cpu-tf214-train", "cpu-tf221-train", "gpu-v100x8-tf"])
def test_shares_add_up_in_captures_of_tensorflow(name: str, captures: Path) -> None:
    path = next((captures / "xspace" / name).rglob("*.xplane.pb"))
    found = kept_of(path).exact
    assert len(found.pipelines)
    check_sums(found)
