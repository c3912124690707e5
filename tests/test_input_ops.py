"""Input ops of the host: which they are, what they do, and how the time for input divides over them."""

from __future__ import annotations

import pytest

from fastprof.derive.ops.op_table import Ops, OpTable
from fastprof.derive.pipelines.input_ops import (
    ADVANCED_READ,
    DEMANDED_READ,
    ENQUEUE,
    PREPROCESSING,
    UNKNOWN,
    InputTime,
    divide_input_time,
    find_input_category,
    list_input_ops,
    measure_enqueue_share,
)

US = 1_000_000


def host(*rows: tuple[str, str, int], enqueue_ps: int = 0, between_ps: int = 0) -> Ops:
    """Ops of name, category and self time."""
    names, categories, times = ([row[column] for row in rows] for column in range(3))
    table = OpTable.of(names, category=categories, occurrences=[1] * len(rows), time_ps=times, self_ps=times)
    return Ops(table, sum(times), sum(times), infeed_enqueue_ps=enqueue_ps, infeed_enqueue_start_diff_ps=between_ps)


@pytest.mark.parametrize("reader", ["ArrayRecord", "FixedLengthRecord", "RecordIO", "SSTable", "TFRecord", "TextLine"])
def test_readers_read_on_demand(reader: str) -> None:
    assert find_input_category("Dataset", f"Iterator::Root::{reader}") == DEMANDED_READ


@pytest.mark.parametrize("stage", ["Interleave[0]", "MemoryReader", "MemoryWriter", "ParallelMapV2", "Prefetch"])
def test_readers_below_a_stage_that_works_ahead_read_in_advance(stage: str) -> None:
    assert find_input_category("Dataset", f"Iterator::Root::{stage}::TFRecord") == ADVANCED_READ


@pytest.mark.parametrize("name", ["MapAndBatch::TFRecord", "ParallelInterleaveV4[0]::TFRecord"])
def test_stages_that_are_not_in_the_list_do_not_work_ahead(name: str) -> None:
    assert find_input_category("Dataset", f"Iterator::Root::{name}") == DEMANDED_READ


@pytest.mark.parametrize("name", ["FixedLengthRecordV2", "Map", "Prefetch", "Shuffle::TFRecordX"])
def test_any_other_stage_of_tf_data_preprocesses(name: str) -> None:
    assert find_input_category("Dataset", f"Iterator::Root::{name}") == PREPROCESSING


@pytest.mark.parametrize(
    ("category", "found"),
    [
        ("InfeedEnqueue", ENQUEUE), ("InfeedEnqueueTuple", ENQUEUE), ("MemcpyHToD", ENQUEUE), ("MemcpyDToH", None),
        ("Read", DEMANDED_READ), ("PREPROCESSING", PREPROCESSING), ("enqueue", ENQUEUE), ("unknown", UNKNOWN),
        ("other", None), ("IteratorGetNext", None), ("InfeedDequeue", None), ("", None),
    ],
)  # fmt: skip
def test_ops_that_enqueue_and_stages_that_say_what_they_do_are_input_ops(category: str, found: str | None) -> None:
    assert find_input_category(category, "some name") == found


def test_input_ops_are_ordered_by_self_time_then_by_name() -> None:
    found = list_input_ops(host(("b", "Dataset", 5), ("MatMul", "MatMul", 99), ("a", "Dataset", 5), ("c", "read", 7)))
    assert found.name == ["c", "a", "b"]
    assert found.category == [DEMANDED_READ, PREPROCESSING, PREPROCESSING]
    assert found.self_ps.tolist() == [7, 5, 5]


def test_time_without_enqueuing_is_the_self_time_of_the_ops() -> None:
    rows = (("x::TFRecord", "Dataset", 30), ("Map", "Dataset", 50), ("y::Prefetch::SSTable", "Dataset", 20))
    ops = list_input_ops(host(*rows))
    assert divide_input_time(ops, 0.0) == InputTime(0, 30, 20, 50, 0)
    assert divide_input_time(ops, 0.1) == InputTime(0, 30, 20, 50, 0)


def test_what_the_enqueue_share_leaves_is_divided_as_the_self_times_are() -> None:
    ops = list_input_ops(host(("e", "enqueue", 100), ("x::TFRecord", "Dataset", 1), ("Map", "Dataset", 3)))
    assert divide_input_time(ops, 0.25) == InputTime(100, 75, 0, 225, 0)
    assert divide_input_time(ops, 1.5) == InputTime(100, 0, 0, 0, 0)


def test_what_no_op_accounts_for_is_other_time() -> None:
    time = divide_input_time(list_input_ops(host(("e", "InfeedEnqueue", 200 * US))), 0.03)
    assert time.enqueue_ps == 200 * US
    assert time.other_ps / US == pytest.approx(6466.667, abs=0.001)
    assert time.total_ps() == pytest.approx(200 * US / 0.03)


def test_the_enqueue_share_is_known_from_two_enqueues_on() -> None:
    assert measure_enqueue_share(host(enqueue_ps=3, between_ps=100)) == pytest.approx(0.03)
    assert measure_enqueue_share(host()) is None


def test_a_pipeline_is_reported_by_time_that_reads_or_preprocesses() -> None:
    assert list_input_ops(host(("Map", "Dataset", 1))).uses_tf_data
    assert not list_input_ops(host(("Map", "Dataset", 0), ("e", "enqueue", 5), ("u", "unknown", 5))).uses_tf_data
