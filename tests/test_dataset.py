"""Profile.dataset: the rows are those of the table, and what a condition excludes is not decoded."""

import pickle
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from trace_builder import Stat, event, line, plane, ref, xspace

import fastprof
from fastprof._native import records
from fastprof.profile.table_dataset import find_demanded_texts, keep_demanded_rows
from fastprof.tables.table_set import TABLES

HOST, PLANE, LINE, FUSION = "host1", "/device:TPU:0", "XLA Ops", "%fusion.1 = f32[] fusion.1"
START, NAME = ds.field("start_ps"), ds.field("name")


@pytest.fixture(scope="module")
def pod() -> fastprof.Profile:
    return fastprof.load("demo/pod")


@pytest.mark.parametrize(("path", "plain_texts"), [("demo/xla", False), (["demo/pod", "demo/serving"], True)])
def test_each_table(path, plain_texts):
    profile = fastprof.load(path)
    for name in TABLES:
        dataset = profile.dataset(name, plain_texts=plain_texts)
        table = profile.tables[name]
        rows = table.to_pylist()
        assert dataset.schema.names == table.column_names
        assert dataset.to_table().to_pylist() == rows, name
        assert dataset.count_rows() == len(rows)
        texts = [one.type for one in dataset.schema if one.name in ("host", "run", "stat", "line")]
        assert all(pa.types.is_dictionary(kind) != plain_texts for kind in texts if not pa.types.is_string(kind))
        # a union is read by pyarrow without Python: from files, a file a piece
        assert ds.dataset([dataset, dataset]).to_table().to_pylist() == rows + rows, name


CONDITIONS = [
    ds.field("host") == HOST,
    (ds.field("host") == HOST) & (ds.field("plane") == PLANE),
    ds.field("line") == LINE,
    ds.field("line").isin([LINE, "Steps"]) & (ds.field("duration_ps") > 10**8),
    ds.field("plane_id") == 3,
    ds.field("line_id") > 4,
    (ds.field("event_id") >= 100) & (ds.field("event_id") < 130),
    START < 2 * 10**10,
    (START >= 10**10) & (START < 3 * 10**10) & (ds.field("host") != HOST),
    START.is_null(),
    ~(NAME == "all-reduce.1"),
    (NAME == FUSION) & (START > 10**10),
    (NAME == FUSION) & (ds.field("plane") == PLANE) & START.is_valid(),
    (NAME == FUSION) & (NAME == "another"),
    (NAME == 'says "x" and \\') & (START > 0),
    ds.field("host") == "another",
    (ds.field("host") == HOST) | (NAME == "all-reduce.1"),
    ds.scalar(False),
]


@pytest.mark.parametrize("number", range(len(CONDITIONS)))
def test_conditions(pod, number):
    condition = CONDITIONS[number]
    columns = ["name", "duration_ps"]
    expected = pod.events.filter(condition).select(columns).to_pylist()
    dataset = pod.dataset()
    assert dataset.to_table(columns, filter=condition).to_pylist() == expected
    assert dataset.filter(condition).to_table(columns).to_pylist() == expected
    assert dataset.count_rows(filter=condition) == len(expected)
    assert dataset.filter(condition).head(2, columns=columns).to_pylist() == expected[:2]
    for other in ("event_stats", "nesting"):
        if str(condition).startswith("((event_id"):
            table = pod.tables[other].filter(condition).to_pylist()
            assert pod.dataset(other).to_table(filter=condition).to_pylist() == table


def test_conditions_hold_of_some_rows(pod):
    """So that the test above compares rows, and not nothing with nothing."""
    counts = [pod.events.filter(one).num_rows for one in CONDITIONS]
    assert [i for i, count in enumerate(counts) if not count] == [9, 13, 14, 15, 17]


def test_only_what_a_condition_leaves_is_decoded():
    profile = fastprof.load("demo/pod")
    dataset = profile.dataset()
    duckdb.connect().register("events", dataset).execute(
        "select sum(duration_ps) from events where host = 'host1' and plane = '/device:TPU:0' and start_ps < 1"
    )
    first, second = profile.table_set.session.index.captures
    assert (first.known.depth == records.HOP).all()  # lines are counted, no event is looked at
    looked_at = second.pieces["plane_id"][second.known.depth > records.HOP]
    assert set(looked_at.tolist()) == {second.plane_base + [k for k, _ in second.capture.plane_keys].index(PLANE)}


def test_expressions_and_stats(pod):
    stats = pod.stat_names()
    dataset = pod.dataset(stats=stats)
    assert dataset.to_table().to_pylist() == pod.event_table(stats=stats).to_pylist()
    microseconds = {"name": NAME, "us": ds.field("duration_ps") / 1_000_000}
    flops = ds.field("flops") > 0
    rows = dataset.to_table(microseconds, filter=flops).to_pylist()
    events = pod.event_table(["name", "duration_ps"], ["flops"]).to_pylist()
    assert rows == [{"name": e["name"], "us": e["duration_ps"] // 10**6} for e in events if (e["flops"] or 0) > 0]
    by_place = dataset.to_table({"id": ds.field(0)}, filter=ds.field(0) < 3)  # columns by number
    assert by_place.to_pydict() == {"id": [0, 1, 2]}


def test_numbers_of_refs_without_text_need_no_other_column():
    capture = xspace(plane("/host:CPU", [line("main", [event("e", 0, 5, [Stat("v", ref(999))])])]))
    stats = fastprof.load(capture).dataset("event_stats")
    assert stats.to_table(["int_value"]).to_pylist() == [{"int_value": 999}]
    assert stats.to_table(["kind"], filter=ds.field("int_value") == 999).to_pylist() == [{"kind": "ref"}]


def test_sql_joins_of_two_conditions(pod):
    """Each use of a Dataset in a query has its own condition."""
    connection = duckdb.connect()
    connection.register("events", pod.dataset())
    connection.register("stats", pod.dataset("event_stats"))
    ops, counts = (
        pod.events.to_pylist(),
        connection.execute(
            "select (select count(*) from events where host = 'host0'), (select count(*) from events), "
            "(select count(*) from events a join events b on a.event_id = b.event_id where a.host = 'host0'), "
            "(select count(distinct event_id) from stats join events using (event_id) where plane like '/device%')"
        ).fetchone(),
    )
    of_host = sum(op["host"] == "host0" for op in ops)
    with_stats = set(pod.event_stats["event_id"].to_pylist())
    of_devices = sum(op["plane"].startswith("/device") and op["event_id"] in with_stats for op in ops)
    assert counts == (of_host, len(ops), of_host, of_devices)


def test_selections_and_runs(pod):
    chosen = pod.select(hosts=HOST, lines=LINE, time_ps=(0, 2 * 10**10))
    assert chosen.dataset().to_table().to_pylist() == chosen.events.to_pylist() != []
    assert chosen.dataset("nesting").to_table().to_pylist() == chosen.nesting.to_pylist()
    both = fastprof.load(["demo/pod", "demo/serving"])
    stats = both.stat_names()
    assert both.dataset(stats=stats).to_table().to_pylist() == both.event_table(stats=stats).to_pylist()
    last = list(both.runs)[-1]
    of_last = (ds.field("run") == last) & (ds.field("duration_ps") > 1000)
    assert (
        both.dataset().to_table(["event_id"], filter=of_last).to_pylist()
        == [
            {"event_id": row["event_id"]}
            for row in both.events.to_pylist()
            if row["run"] == last and row["duration_ps"] > 1000
        ]
        != []
    )


def test_a_scan_that_is_left_does_not_end_the_process():
    program = (
        "import duckdb, fastprof\n"
        "events = fastprof.load('demo/pod').dataset()\n"
        "next(iter(events.to_batches(batch_size=3)))\n"
        "events.head(1)\n"
        "print(duckdb.sql('select name from events limit 1').fetchall())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_pickles(pod):
    dataset = pod.dataset("events", stats=["flops"]).filter(ds.field("host") == HOST)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.schema == dataset.schema
    assert again.to_table().to_pylist() == dataset.to_table().to_pylist() != []
    assert repr(dataset).startswith("<fastprof dataset events of 2 hosts: event_id, host, plane,")


def test_errors(pod, tmp_path):
    with pytest.raises(fastprof.UsageError, match=r"no table 'event'; .* did you mean 'events'"):
        pod.dataset("event")
    with pytest.raises(fastprof.UsageError, match="no capture has a stat 'flopss'"):
        pod.dataset(stats=["flopss"])
    with pytest.raises(fastprof.UsageError, match="stats are columns of events, not of lines"):
        pod.dataset("lines", stats=["flops"])
    with pytest.raises(fastprof.UsageError, match="batch_size must be an integer number of rows above 0, not -1"):
        pod.dataset().to_table(batch_size=-1)
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        pod.dataset().to_table(["start"])
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        pod.dataset().to_table(filter=ds.field("start") > 1)
    (source,) = fastprof.load("demo/logdir").sources
    broken = tmp_path / "broken.xplane.pb"
    data = Path(source).read_bytes()
    broken.write_bytes(data)
    dataset = fastprof.load(broken).dataset()
    broken.write_bytes(data[: len(data) // 2])
    with pytest.raises(fastprof.FastprofError, match=r"broken\.xplane"):
        dataset.to_table()
    with pytest.raises(fastprof.FastprofError, match=r"broken\.xplane"):
        ds.dataset([dataset]).to_table()


TEXTS = pa.schema([("name", pa.dictionary(pa.int16(), pa.string())), ("plain", pa.string()), ("start_ps", pa.int64())])


@pytest.mark.parametrize(
    ("condition", "demanded"),
    [
        (NAME == "a", {"name": "a"}),
        ((NAME == "a") & (START > 5) & (ds.field("plain") == "b"), {"name": "a"}),
        ((START > -5) & (NAME == 'says "x" and (y == 1) or \\'), {"name": 'says "x" and (y == 1) or \\'}),
        ((NAME == "a") | (START > 5), {}),
        (~(NAME == "a"), {}),
        (NAME != "a", {}),
        ((NAME == "a") & START.is_valid(), {}),
        ((NAME == "a") & ((START > 5) | (START < 2)), {}),
        ((NAME == "a") == ds.scalar(False), {}),
        (ds.field("plain") == NAME, {}),
        (None, {}),
    ],
)
def test_texts_that_a_condition_demands(condition: ds.Expression | None, demanded: dict[str, str]) -> None:
    assert find_demanded_texts(TEXTS, condition) == demanded


def test_rows_without_the_demanded_text_are_left_out() -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 1], pa.int16()), pa.array(["a", "b", "b"]))
    batch = pa.record_batch([names, pa.array([1, 2, 3, 4, 5])], ["name", "start_ps"])
    assert keep_demanded_rows(batch, {"name": "b"}).column("start_ps").to_pylist() == [2, 4, 5]
    assert keep_demanded_rows(batch, {"name": "c"}).num_rows == 0


def test_conditions_of_pieces_import_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow tries to import dateutil for each value without a type; a session may have thousands of lines."""
    tried: list[str] = []

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            tried.append(name)

    def count_rows() -> int:
        return fastprof.load("demo/pod").dataset().count_rows(filter=condition)

    condition = (ds.field("host") == HOST) & (START > 0)
    expected = count_rows()
    monkeypatch.delitem(sys.modules, "dateutil", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert count_rows() == expected > 0
    assert tried == []
