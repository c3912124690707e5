"""The page tf_data_bottleneck_analysis: what TensorFlow 2.14's tool answers, quirks included.

Expected values are those of TensorFlow 2.14.1 and tensorboard-plugin-profile 2.14.0, unless a test says otherwise.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from trace_builder import Event, Value, event, line, plane, ref, u64, xspace

import fastprof
from fastprof.errors import FastprofError

US = 1_000_000


def iterator(name: str, id: Value, at_us: float, for_us: float, parent: Value = None, **stats: Value) -> Event:
    parents = {} if parent is None else {"parent_id": parent}
    return event(f"Iterator::{name}", round(at_us * US), round(for_us * US), {"id": id, **parents, **stats})


def ran(name: str, at_us: float, for_us: float, **stats: Value) -> Event:
    return event(name, round(at_us * US), round(for_us * US), stats)


def host(*threads: Iterable[Event], name: str | None = None) -> bytes:
    lines = [line(f"thread {i}", list(events), id=i + 1) for i, events in enumerate(threads)]
    return xspace(plane("/host:CPU", lines), hostnames=[] if name is None else [name])


def page(*captures: bytes) -> Any:
    return json.loads(fastprof.load(list(captures)).report("tf_data").to_xprof())


def cells(table: Any, *columns: str) -> list[Any]:
    ids = [column["id"] for column in table["cols"]]
    places = [ids.index(column) for column in columns]
    rows = [tuple(row["c"][place]["v"] for place in places) for row in table["rows"]]
    return rows if len(columns) > 1 else [row[0] for row in rows]


_SHOWN = re.compile(
    r"<b>(.*)</b>.*Time: (-?\d+) us.*Total Duration: (-?\d+) us.*Self Duration: (-?\d+) us.*Calls: (\d+)<"
)


def graph(found: Any) -> list[tuple[int, str, str, int, int, int, int, int]]:
    """Rank, id, name, start, total and self time in µs, calls and type, of each row of the graph."""
    rows = []
    for row in found[0]["rows"]:
        _, _, rank, name, _, kind = row["c"]
        shown = _SHOWN.search(name["f"])
        assert shown is not None, name["f"]
        short, *numbers = shown.groups()
        rows.append((rank["v"], name["v"], short, *map(int, numbers), kind["v"]))
    return rows


def nested(*names: str, ids: Sequence[Value] = (), at_us: float = 0, each_us: float = 100) -> list[Event]:
    """Iterators that call each other in turn, each 10 µs shorter than its caller; ids are 1, 2, … if none are given."""
    known = ids or range(1, len(names) + 1)
    return [
        iterator("::".join(names[: i + 1]), known[i], at_us + i, each_us - 10 * i, known[i - 1] if i else None)
        for i in range(len(names))
    ]


# ---- the three tables


def three_pipelines() -> bytes:
    def calls(i: int) -> list[Event]:
        at = 1000 * i
        return [
            iterator("Prefetch", 11, at, 30),
            iterator("Prefetch::Generator", 12, at + 5, 20, 11),
            iterator("Model", 1, at + 100, 400),
            iterator("Model::Map", 2, at + 120, 300, 1),
            iterator("Model::Map::TFRecord", 3, at + 130, 250, 2),
        ]

    roots = [iterator("Root", 21, 0, 50), iterator("Root", 21, 100, 40)]
    return host((one for i in range(3) for one in calls(i)), roots, name="vm")


def test_a_row_of_the_graph_is_an_iterator_in_a_call_and_records_the_rest_in_its_tooltip() -> None:
    first = page(three_pipelines())[0]
    assert [(column["id"], column["label"], column["type"]) for column in first["cols"]] == [
        ("host", "Host", "string"),
        ("input_pipeline", "Input Pipeline", "string"),
        ("rank", "Rank", "number"),
        ("name", "Name", "string"),
        ("parent", "Parent", "string"),
        ("type", "Type", "number"),
    ]
    assert first["rows"][8]["c"] == [
        {"v": "vm"},
        {"v": "Host:0"},
        {"v": 0},
        {
            "v": "3",
            "f": "<div style='padding: 1px;'><b>TFRecord</b><br/><div style='text-align: left;'>Start Time: 130 us<br/>"
            "Total Duration: 250 us<br/>Self Duration: 250 us<br/># Calls: 1</div></div>",
        },
        {"v": "2"},
        {"v": 2},
    ]


def test_pipelines_are_those_of_each_root_and_of_devices_where_a_generator_calls_for_one() -> None:
    answer = page(three_pipelines())
    assert cells(answer[1], "host", "input_pipeline", "min", "mean", "max", "num_calls", "num_slow_calls") == [
        ("vm", "Device:0", 30, 30, 30, 3, 0),
        ("vm", "Host:0", 400, 400, 400, 3, 3),
        ("vm", "Host:1", 40, 45, 50, 2, 0),  # 50 µs is not slow yet
    ]
    assert graph(answer)[:2] == [(0, "11", "Prefetch", 0, 30, 10, 1, 1), (0, "12", "Generator", 5, 20, 20, 1, 2)]


def test_bottlenecks_are_of_host_pipelines_by_their_slowest_call() -> None:
    last = page(three_pipelines())[2]
    assert cells(last, "input_pipeline", "max_latency") == [("Host:0", 400), ("Host:1", 50)]
    assert cells(last, "bottleneck")[0] == (
        "<u>Iterator Type</u>: <b>TFRecord</b><br/><u>Long Name</u>: Iterator::Model::Map::TFRecord<br/>"
        "<u>Latency</u>: 250 us"
    )
    assert last["p"] == {
        "is_input_bound": "true",
        "summary_message": "Your profile has a tf.data input pipeline slower than 50 us. For each slow input pipeline, "
        "below shows a bottleneck in the input pipeline and a suggestion on how to fix it.",
    }


@pytest.mark.parametrize(
    ("longest_ps", "bound", "says"),
    [
        (50 * US + 1, "true", "Your profile has a tf.data input pipeline slower"),
        (50 * US, "false", "Your profile does not have any tf.data input pipeline slower"),
        (1, "false", "Your profile does not have any tf.data input pipeline slower"),
        (None, "false", "No tf.data activity captured in your profile."),
    ],
)
def test_input_is_the_bound_where_a_call_takes_more_than_50_us(longest_ps: int | None, bound: str, says: str) -> None:
    events = [] if longest_ps is None else [event("Iterator::Root", 0, longest_ps, {"id": 1})]
    last = page(host(events))[2]
    assert last["p"]["is_input_bound"] == bound
    assert last["p"]["summary_message"].startswith(says)


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("TFRecord", "1. Check the locality of a host and input data."),
        ("DataService", "1. Fetching data from tf.data service took a while."),
        ("ReverbDataset", "1. The remote data source is slow."),
        ("Map", "1. Parallelize this transformation by setting <code>num_parallel_calls=tf.data.experimental.AUTOTUNE"),
        ("Batch", "1. This transformation is inherently sequential."),
        ("BatchV2", "See <a href="),
    ],
)
def test_what_is_suggested_goes_by_the_exact_short_name(name: str, begins: str) -> None:
    capture = host([iterator("Root", 1, 0, 100), iterator(f"Root::{name}", 2, 5, 90, 1)])
    assert cells(page(capture)[2], "suggestion")[0].startswith(begins)


# ---- ids


def test_ids_past_2_to_the_63_read_as_0_so_such_iterators_are_one() -> None:
    high = [u64(2**63 + i) for i in range(3)]
    answer = page(host(nested("Root", "Map", "TFRecord", ids=[7, high[0], high[1]])))
    assert graph(answer) == [(0, "0", "Map", 1, 170, 90, 2, 2), (0, "7", "Root", 0, 100, 10, 1, 1)]
    assert cells(answer[0], "parent") == ["7", ""]


@pytest.mark.parametrize("odd", [u64(5), 5.0, "5", ref("5"), b"5"])
def test_an_id_of_another_kind_than_int64_is_there_and_is_0(odd: Value) -> None:
    assert [row[1] for row in graph(page(host([iterator("Root", odd, 0, 100)])))] == ["0"]


def test_an_iterator_without_an_id_takes_its_time_and_has_no_row() -> None:
    capture = host([iterator("Root", 1, 0, 100), ran("Iterator::Root::Map", 10, 60)])
    assert graph(page(capture)) == [(0, "1", "Root", 0, 100, 40, 1, 2)]


def test_of_an_id_that_several_iterators_have_the_first_event_records_the_name() -> None:
    capture = host([iterator("Root", 1, 0, 100), iterator("Root::Map", 1, 10, 60, 1), iterator("Other", 1, 200, 70)])
    answer = page(capture)
    assert graph(answer) == [(0, "1", "Root", 0, 160, 100, 2, 2), (1, "1", "Root", 200, 70, 70, 1, 2)]
    assert cells(answer[1], "max", "num_calls") == [(100, 2)]


# ---- what calls what


def test_only_iterators_directly_inside_are_called() -> None:
    """By default fastprof looks through the function that is between."""
    capture = host([iterator("Root", 1, 0, 100), ran("Map function", 5, 80), iterator("Root::Map", 2, 10, 60, 1)])
    assert [row[1] for row in graph(page(capture))] == ["1"]


def consumed(element: Value = 7, of_consumer: Value = 2) -> bytes:
    """A prefetched element: made on one thread before it is taken on another."""
    made = [
        ran("PrefetchProduce", 0, 60, element_id=7),
        iterator("Root::Prefetch::Map", 3, 5, 50, 2),
        ran("PrefetchProduce", 100, 60, element_id=8),
        iterator("Root::Prefetch::Map", 3, 105, 50, 2),
    ]
    taken = [
        iterator("Root", 1, 120, 80),
        iterator("Root::Prefetch", of_consumer, 130, 60, 1),
        ran("PrefetchConsume", 180, 5, element_id=element),
    ]
    return host(made, taken)


def test_what_a_buffer_held_is_called_by_who_takes_it_and_blocks_while_both_run() -> None:
    assert graph(page(consumed(7))) == [
        (0, "1", "Root", 120, 80, 20, 1, 1),
        (0, "2", "Prefetch", 130, 60, 60, 1, 2),
        (0, "3", "Map", 5, 50, 50, 1, 0),  # it had ended
    ]
    assert graph(page(consumed(8)))[1:] == [(0, "2", "Prefetch", 130, 60, 35, 1, 1), (0, "3", "Map", 105, 50, 50, 1, 2)]


@pytest.mark.parametrize("element, consumer", [(9, 2), (None, 2), (7, 5), (7, None)])
def test_an_element_is_known_by_its_id_and_by_its_buffer(element: Value, consumer: Value) -> None:
    assert "3" not in [row[1] for row in graph(page(consumed(element, consumer)))]


def test_buffers_with_one_id_are_gone_through_kind_by_kind() -> None:
    """It shows in the start, which is that of the first event met."""
    high = [u64(2**63 + i) for i in range(2)]
    batches = [ran("ParallelMapProduce", 0, 40, element_id=1), iterator("Root::ParallelMap::Batch", 5, 5, 30, high[0])]
    maps = [ran("PrefetchProduce", 50, 40, element_id=1), iterator("Root::Prefetch::Map", 5, 55, 30, high[1])]
    taken = [iterator("Root", high[0], 100, 80), ran("PrefetchConsume", 110, 5, element_id=1)]
    assert graph(page(host(batches, maps, taken)))[1] == (0, "5", "Batch", 55, 60, 60, 2, 0)


def test_an_iterator_that_waits_for_a_context_calls_the_one_that_is_in_it() -> None:
    made = [iterator("Root::Batch", 2, 0, 50, 1, _ct=1, _c=9)]
    taken = [iterator("Root", 1, 20, 60, _pt=1, _p=u64(9))]
    assert graph(page(host(made, taken))) == [(0, "1", "Root", 20, 60, 30, 1, 1), (0, "2", "Batch", 0, 50, 50, 1, 2)]


def test_an_iterator_that_two_call_counts_twice() -> None:
    """By default fastprof counts an event once in a call."""
    made = [iterator("Root::Zip::Map", 4, 0, 40, 3, _ct=1, _c=9)]
    taken = [
        iterator("Root", 1, 0, 100),
        iterator("Root::Zip", 2, 0, 40, 1, _pt=1, _p=9),
        iterator("Root::Zip[1]", 3, 40, 40, 1, _pt=1, _p=9),
    ]
    shown = {row[1]: row for row in graph(page(host(made, taken)))}
    assert shown["4"] == (0, "4", "Map", 0, 80, 80, 2, 2)


def test_self_time_is_below_0_where_those_that_are_called_overlap() -> None:
    made = [[iterator("Root::Batch", 2 + i, 0, 80, 1, _ct=1, _c=9)] for i in range(2)]
    assert graph(page(host(*made, [iterator("Root", 1, 0, 100, _pt=1, _p=9)])))[0] == (
        0,
        "1",
        "Root",
        0,
        100,
        -60,
        1,
        1,
    )


def test_calls_more_than_a_hundred_deep_are_left_out() -> None:
    names = [f"I{i}" for i in range(103)]
    rows = graph(page(host(nested(*names, each_us=2000))))
    assert [int(row[1]) for row in rows] == list(range(1, 102))
    assert rows[-1][5] == 10  # what is left out still takes its time off


def test_asynchronous_events_neither_call_nor_are_called() -> None:
    inner = iterator("Root::Map", 2, 10, 60, 1)
    for flag, ids in ((1, ["1"]), (0, ["1", "2"]), (u64(1), ["1", "2"])):
        marked = event(inner.name, inner.offset_ps, inner.duration_ps, {**dict(inner.stats), "_a": flag})
        assert [row[1] for row in graph(page(host([iterator("Root", 1, 0, 100), marked])))] == ids


def test_endless_paths_through_links_are_an_error_and_not_a_wait() -> None:
    """TensorFlow's tool walks them all, and never ends."""
    ring = [iterator("Root::Map", 2 + i, 0, 50, 1, _pt=1, _p=9, _ct=1, _c=9) for i in range(5)]
    capture = host([iterator("Root", 1, 0, 100, _pt=1, _p=9)], *([one] for one in ring))
    begun = time.monotonic()
    with pytest.raises(FastprofError):
        page(capture)
    assert time.monotonic() - begun < 20


# ---- calls and hosts


def test_calls_of_one_length_are_ranked_as_the_cpp_library_sorts_them() -> None:
    capture = host([iterator("Root", 1, 100 * i, 60) for i in range(17)])
    assert [row[3] // 100 for row in graph(page(capture))] == [8, 16, 15, 14, 13, 12, 11, 10, 9, 0, 7, 6, 5, 4, 3, 2, 1]


def test_a_call_that_waits_for_nothing_has_a_bottleneck_without_a_name() -> None:
    """TensorFlow's tool fails there, and answers nothing."""
    answer = page(host([iterator("Root", 1, 0, 0)]))
    assert cells(answer[2], "bottleneck") == [
        "<u>Iterator Type</u>: <b></b><br/><u>Long Name</u>: <br/><u>Latency</u>: 0 us"
    ]
    assert graph(answer) == [(0, "1", "Root", 0, 0, 0, 1, 1)]


def test_each_host_has_its_pipelines_and_the_slowest_of_all_comes_first() -> None:
    answer = page(host(nested("Root", "Map"), name="a"), host(nested("Root", "Batch", each_us=300), name="b"))
    assert cells(answer[1], "host", "input_pipeline", "max") == [("a", "Host:0", 100), ("b", "Host:0", 300)]
    assert cells(answer[2], "host", "max_latency") == [("b", 300), ("a", 100)]


def test_captures_that_name_one_host_are_taken_for_one() -> None:
    """The calls of all count, the latencies are of the last. By default fastprof keeps them apart."""
    answer = page(host(nested("Root", "Map"), name="a"), host(nested("Root", "Batch", each_us=300), name="a"))
    assert cells(answer[1], "host", "input_pipeline", "min", "num_calls") == [("a", "Host:0", 300, 2)]
    assert [row[:3] for row in graph(answer)] == [(0, "1", "Root"), (0, "2", "Map"), (1, "1", "Root"), (1, "2", "Map")]


def test_only_threads_of_the_host_are_looked_at() -> None:
    lines = [line("thread", nested("Root", "Map"))]
    assert graph(page(xspace(plane("/host:CPU"), plane("/host:python-tracer", lines)))) == []


def test_names_of_a_capture_are_no_html() -> None:
    """TensorFlow's tool shows them as they are, and a capture can bring its own script into the page."""
    answer = page(host(nested("Root", "<script>alert(1)</script>&")))
    assert graph(answer)[1][2] == "&lt;script&gt;alert(1)&lt;/script&gt;&amp;"
    assert "<script>" not in json.dumps(answer)


# ---- the answers of TensorFlow 2.14 on real captures

GOLDENS = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "xprof"
NO_ANSWERS = pytest.param(None, id="absent", marks=pytest.mark.skip(reason=f"no answers of TensorFlow in {GOLDENS}"))
ANSWERS = [
    pytest.param(path, id=path.parent.name, marks=pytest.mark.captures)
    for path in sorted(GOLDENS.glob("*/tf_data_bottleneck_analysis.json"))
] or [NO_ANSWERS]


def calls(found: Any) -> dict[str, list[Any]]:
    """The rows of the graph by pipeline; the tool numbers pipelines differently in each run, so by what they hold."""
    pipelines = defaultdict(list)
    for row in found[0]["rows"]:
        pipelines[row["c"][1]["v"]].append([cell.get("f", cell["v"]) for cell in row["c"][2:]])
    return {str(sorted(rows, key=str)): rows for rows in pipelines.values()}


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_page_of_a_real_capture_is_that_of_tensorflow(answer: Path, captures: Path) -> None:
    (capture,) = (captures / "xspace" / answer.parent.name).glob("*.xplane.pb")
    wanted, found = json.loads(answer.read_text()), page(capture.read_bytes())
    assert calls(found).keys() == calls(wanted).keys()
    assert sorted(cells(found[1], "min", "mean", "max")) == sorted(cells(wanted[1], "min", "mean", "max"))
    assert cells(found[2], "max_latency", "bottleneck", "suggestion") == cells(
        wanted[2], "max_latency", "bottleneck", "suggestion"
    )
    assert found[2]["p"] == wanted[2]["p"]
