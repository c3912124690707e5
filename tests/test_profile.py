"""What users hold: a Profile is lazy, immutable, shown, sent to other libraries and processes, and narrowed."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate import few
from random_spaces import random_space
from trace_builder import aggregated, event, line, plane, ref, stat, task_environment, u64, xspace

import fastprof
from fastprof.tables.table_set import TABLES

Check = Callable[..., None]


def host_capture(host: int) -> bytes:
    """Two planes; three lines, two with equal names; names, stats and times that differ between hosts."""
    steps = [event("step", 1000 * i, 600, stats={"step": i, "host": f"h{host}"}) for i in range(4)]
    inner = [event(f"op.{i % 2}", 1000 * i + 100, 200, stats={"flops": 2.5 * i}) for i in range(4)]
    return xspace(
        plane("/host:CPU", [line("main", steps + inner, id=1), line("worker", [event("wait", 50, 10)], id=2)]),
        plane(
            "/device:TPU:0", [line("main", [event("fusion", 7, 3, stats={"r": ref("text")}), aggregated("sum", 5, 9)])]
        ),
        task_environment(10**18 + 5 + host, 10**18 + 99),
        hostnames=[f"recorded{host}"],
        errors=["out of space"] if host else [],
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two hosts."""
    folder = tmp_path / "logs" / "plugins" / "profile" / "2026_01_02_03_04_05"
    folder.mkdir(parents=True)
    for host in range(2):
        (folder / f"vm{host}.xplane.pb").write_bytes(host_capture(host))
    return tmp_path / "logs"


def decoded(profile: fastprof.Profile) -> list[str]:
    """The tables that a profile holds, as its repr lists them."""
    return [text.split()[0] for text in repr(profile).splitlines()[1:] if text.endswith(("rows", "rows>"))]


# ---- laziness ---------------------------------------------------------------------------------------


def test_nothing_is_decoded_until_asked_for(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastprof.decode.decoder import Decoder
    from fastprof.decode.index import Index

    asked: list[str] = []
    for owner, name in ((Decoder, "decode"), (Index, "ensure")):
        real = getattr(owner, name)

        def counted(*args: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
            asked.append(_name)
            return _real(*args, **named)

        monkeypatch.setattr(owner, name, counted)
    profile = fastprof.load(run)
    narrower = profile.select(hosts="vm0", planes="host", lines="main", names="step", time_ps=(0, 9))
    assert profile.sources and profile.threads and len(profile.tables) == len(TABLES)
    assert list(profile.tables) == list(TABLES) and "events" in profile.tables and "nothing" not in profile.tables
    repr(profile), repr(narrower), narrower.scan(), profile.run
    assert asked == [] and decoded(profile) == decoded(narrower) == []
    assert profile.lines.num_rows == 6
    assert "decode" not in asked and decoded(profile) == ["lines"]
    assert narrower.events.num_rows == 1
    assert decoded(narrower) == ["events"] and decoded(profile) == ["lines"]


def test_a_table_is_decoded_once_and_kept(run: Path) -> None:
    profile = fastprof.load(run)
    for name in TABLES:
        table = profile.tables[name]
        assert isinstance(table, pa.Table)
        assert profile.tables[name] is table is getattr(profile, name) is profile.read(name)[name]
    assert sorted(decoded(profile)) == sorted(TABLES)
    assert profile.select().events is not profile.events
    assert profile.select().events.equals(profile.events)


def test_several_in_one_go_are_as_one_by_one(run: Path, check_same: Check) -> None:
    together, single = fastprof.load(run), fastprof.load(run)
    found = together.read(*reversed(TABLES))
    assert list(found) == list(reversed(TABLES))
    check_same(together.tables, {name: single.tables[name] for name in TABLES}, but=())
    assert together.read("lines", "lines").keys() == {"lines"}
    assert together.read() == {}


def test_names_that_are_no_table(run: Path) -> None:
    profile = fastprof.load(run)
    with pytest.raises(KeyError, match=r"no table 'event'; there are: hosts, planes, plane_stats, lines, events"):
        profile.tables["event"]
    assert profile.tables.get("event") is None
    with pytest.raises(fastprof.UsageError, match=r"no table 'stats'; there are: hosts"):
        profile.read("events", "stats")
    assert decoded(profile) == []
    with pytest.raises(fastprof.UsageError, match="'maybe'"):
        fastprof.load(run, on_error="maybe")
    for threads in (0, -1, 1.5, "2"):
        with pytest.raises(fastprof.UsageError, match="threads"):
            fastprof.load(run, threads=threads)  # type: ignore[arg-type]


def test_nothing_can_be_assigned(run: Path) -> None:
    profile = fastprof.load(run)
    with pytest.raises(TypeError):
        profile.tables["events"] = profile.lines  # type: ignore[index]
    for name in (*TABLES, "tables", "threads", "sources"):
        with pytest.raises(AttributeError):
            setattr(profile, name, None)
    before = profile.select(names="step")
    before.select(names="op")
    assert before.events.num_rows == 8
    assert profile.events.num_rows == 22


def test_repr_is_fit_for_people(run: Path) -> None:
    profile = fastprof.load(run)
    assert repr(profile).startswith("<fastprof.Profile: 2 hosts (vm0, vm1), 1.082 KiB\n  run      2026_01_02")
    assert "22 rows" not in repr(profile)
    profile.read("events")
    assert repr(profile).endswith("  events   22 rows>")
    one = repr(profile.select(hosts="vm1", names=["a", "b"], time_ps=(None, 5)))
    assert one.startswith("<fastprof.Profile: 1 host (vm1), ")
    assert "selected hosts vm1; names a or b; time " in one
    many = fastprof.load([xspace(plane("p"), hostnames=[f"n{i}"]) for i in range(9)])
    assert "9 hosts (n0, n1, n2, n3, … 5 more)" in repr(many)


# ---- to other libraries, processes and threads ------------------------------------------------------


def test_the_arrow_stream_is_the_events(run: Path) -> None:
    profile = fastprof.load(run)
    taken = pa.RecordBatchReader.from_stream(profile).read_all()
    assert taken.equals(profile.events) and taken.schema.equals(profile.events.schema, check_metadata=True)
    ours, theirs = (t["start_ps"].chunk(0).buffers()[1].address for t in (profile.events, taken))
    assert ours == theirs  # nothing has been copied
    assert pa.schema(profile).equals(profile.events.schema)
    rows = duckdb.sql("select host, count(*), sum(duration_ps) from profile group by host order by host").fetchall()
    assert rows == [("vm0", 11, 3222), ("vm1", 11, 3222)]


def test_pickled_it_is_its_source_and_selection(run: Path, check_same: Check) -> None:
    for source in (run, str(run), [run], host_capture(0), bytearray(host_capture(0)), memoryview(host_capture(0))):
        profile = fastprof.load(source, on_error="salvage", threads=3)
        profile.read("events", "nesting")
        for part in (profile, profile.select(planes="CPU", names=["step", "0"], time_ps=(500, None))):
            again = pickle.loads(pickle.dumps(part))
            assert decoded(again) == []
            assert again.threads == 3
            check_same(again.tables, part.tables, but=())
    assert len(pickle.dumps(fastprof.load(run))) < 2000


def test_a_profile_of_a_stream_is_not_pickled() -> None:
    profile = fastprof.load([io.BytesIO(host_capture(0)), host_capture(1)])
    with pytest.raises(fastprof.FastprofError, match="stream cannot be pickled: save the stream to a file"):
        pickle.dumps(profile)


@pytest.mark.parametrize("threads", few([2, 4], 1))
def test_threads_change_nothing(threads: int, check_same: Check) -> None:
    for seed in range(0, 40, 2):
        captures = [random_space(seed), random_space(seed + 1, well_written=True), host_capture(0)]
        one = fastprof.load(captures, threads=1)
        several = fastprof.load(captures, threads=threads)
        assert (one.threads, several.threads) == (1, threads)
        check_same(several.tables, one.tables, but=())
    long = xspace(
        plane("p", [line(f"l{k}", [event("a", i, 1, {"s": f"t{i % 99}"}) for i in range(9000)]) for k in (1, 2)])
    )
    many = fastprof.load(long, threads=threads).select(names="a")
    assert many.read("events", "event_stats")["event_stats"].equals(fastprof.load(long, threads=1).event_stats)


def test_one_profile_used_by_several_threads() -> None:
    """Each reads tables and selections in an order of its own; stats without metadata are met on the way."""
    names = [stat(1000 + i % 50, i) for i in range(100)]
    events = [event(f"n{i % 9}", 10 * i, 5, [names[i % 100], stat("s", f"t{i % 7}")]) for i in range(4000)]
    data = xspace(*[plane(f"p{k}", [line("l", events), line("m", events[:99])]) for k in range(3)])
    alone = fastprof.load(data, threads=1)
    expected = alone.read(*TABLES)
    wide = alone.select(lines="l").event_table(["event_id"], ["s", "#1001"])
    for attempt in range(6):
        profile = fastprof.load(data, threads=2)
        barrier, faults = threading.Barrier(4), []

        def use(first: int, profile: Any = profile, barrier: Any = barrier, faults: list[Any] = faults) -> None:
            try:
                barrier.wait()
                order = [*list(TABLES)[first:], *list(TABLES)[:first]]
                faults += [name for name in order if not profile.tables[name].equals(expected[name])]
                if not profile.select(lines="l").event_table(["event_id"], ["s", "#1001"]).equals(wide):
                    faults.append("event_table")
                rows = sum(batch.num_rows for batch in profile.scan(stats=["s"], batch_rows=1000))
                faults += [] if rows == expected["events"].num_rows else ["scan"]
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                faults.append(error)

        users = [threading.Thread(target=use, args=(3 * i + attempt % 3,)) for i in range(4)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert faults == []


def test_a_scan_goes_on_while_other_tables_are_read() -> None:
    data = xspace(plane("p", [line("l", [event("a", i, 1, [stat(i // 99, i)]) for i in range(900)]) for _ in range(3)]))
    profile = fastprof.load(data)
    batches = profile.select(lines="l").scan(batch_rows=100, stats=["#1"])
    found = [next(batches)]
    profile.read("event_stats", "nesting")
    found += batches
    assert pa.Table.from_batches(found)["#1"].to_pylist() == profile.event_table(stats=["#1"])["#1"].to_pylist()


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(host_capture(0))
    profile = fastprof.load(path)
    path.write_bytes(host_capture(1))
    with pytest.raises(fastprof.ChangedError, match=r"vm\.xplane\.pb: the file changed since it was loaded"):
        profile.read("events")


# ---- several hosts ----------------------------------------------------------------------------------


def test_hosts_are_a_column(run: Path) -> None:
    profile = fastprof.load(run)
    assert profile.run == "2026_01_02_03_04_05"
    assert [Path(path).name for path in profile.sources] == ["vm0.xplane.pb", "vm1.xplane.pb"]
    columns = ["host", "hostnames", "errors", "start_unix_ns", "stop_unix_ns", "size_bytes"]
    sizes = [len(host_capture(host)) for host in range(2)]
    assert profile.hosts.select(columns).to_pylist() == [
        dict(zip(columns, row, strict=True))
        for row in (
            ("vm0", ["recorded0"], [], 10**18 + 5, 10**18 + 99, sizes[0]),
            ("vm1", ["recorded1"], ["out of space"], 10**18 + 6, 10**18 + 99, sizes[1]),
        )
    ]
    assert profile.planes["host"].to_pylist() == ["vm0"] * 3 + ["vm1"] * 3
    assert profile.planes["plane_id"].to_pylist() == list(range(6))
    assert profile.lines["line_id"].to_pylist() == list(range(6))
    assert profile.lines["plane_id"].to_pylist() == [0, 0, 1, 3, 3, 4]
    assert profile.events["host"].to_pylist() == ["vm0"] * 11 + ["vm1"] * 11
    assert profile.events["event_id"].to_pylist() == list(range(22))
    own = profile.select(names="step").event_table(["start_ps"], ["host"])["host"].to_pylist()
    assert own == ["h0"] * 4 + ["h1"] * 4


def test_runs_are_listed_and_picked(run: Path) -> None:
    older = run / "plugins" / "profile" / "2025_01_01_00_00_00"
    older.mkdir()
    (older / "old.xplane.pb").write_bytes(host_capture(0))
    assert [(one.name, one.hosts) for one in fastprof.runs(run)] == [
        ("2026_01_02_03_04_05", ["vm0", "vm1"]), ("2025_01_01_00_00_00", ["old"]),
    ]  # fmt: skip
    assert fastprof.load(run).hosts["host"].to_pylist() == ["vm0", "vm1"]
    picked = fastprof.load(run, run="2025_01_01_00_00_00")
    assert (picked.run, picked.hosts["host"].to_pylist()) == ("2025_01_01_00_00_00", ["old"])
    assert pickle.loads(pickle.dumps(picked)).run == "2025_01_01_00_00_00"


# ---- selections -------------------------------------------------------------------------------------


def ids(profile: fastprof.Profile) -> list[int]:
    return profile.events["event_id"].to_pylist()


CONDITIONS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "host": ({"hosts": "vm1"}, lambda e: e["host"] == "vm1"),
    "hosts": ({"hosts": iter(["vm1", "vm0", "vm1"])}, lambda _: True),
    "no host": ({"hosts": []}, lambda _: False),
    "plane": ({"planes": "TPU:[0-9]$"}, lambda e: "TPU" in e["plane"]),
    "planes": ({"planes": ("^/host", "^/dev")}, lambda _: True),
    "line": ({"lines": "^ma"}, lambda e: e["line"] == "main"),
    "lines": ({"lines": ["work", "nothing"]}, lambda e: e["line"] == "worker"),
    "name": ({"names": r"op\.1"}, lambda e: e["name"] == "op.1"),
    "names": ({"names": (text for text in ("^step$", "fus", "sum"))}, lambda e: e["name"] in ("step", "fusion", "sum")),
    "time": ({"time_ps": (1000, 2000)}, lambda e: e["start_ps"] is not None and 1000 <= e["start_ps"] < 2000),
    "all": (
        {"hosts": ["vm0"], "planes": "CPU", "lines": "main", "names": "op", "time_ps": (None, 2000)},
        lambda e: e["host"] == "vm0" and e["name"].startswith("op") and e["start_ps"] < 2000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONDITIONS)
def test_conditions(case: str, run: Path) -> None:
    """The rows of the whole, in every table, with the ids that they have there."""
    conditions, keeps = CONDITIONS[case]
    profile = fastprof.load(run)
    rows = [row for row in profile.events.to_pylist() if keeps(row)]
    chosen = profile.select(**conditions)
    assert chosen.events.to_pylist() == rows
    wanted = pa.array([row["event_id"] for row in rows], pa.int64())
    for name in ("event_stats", "nesting"):
        table = profile.tables[name]
        assert chosen.tables[name].to_pylist() == table.filter(pc.is_in(table["event_id"], wanted)).to_pylist(), name
    assert {row["plane_id"] for row in rows} <= set(chosen.planes["plane_id"].to_pylist())
    assert {row["line_id"] for row in rows} <= set(chosen.lines["line_id"].to_pylist())
    scanned = [row for batch in chosen.scan(["event_id"]) for row in batch["event_id"].to_pylist()]
    assert scanned == wanted.to_pylist()


def test_small_tables_follow_hosts_planes_and_lines(run: Path) -> None:
    profile = fastprof.load(run)
    chosen = profile.select(hosts="vm1", planes="CPU", lines="worker", names="nothing at all")
    assert chosen.hosts["host"].to_pylist() == ["vm1"]
    assert chosen.planes["plane_id"].to_pylist() == [3]
    assert chosen.lines["line_id"].to_pylist() == [4]
    assert set(chosen.event_metadata["plane_id"].to_pylist()) == {3}
    assert set(chosen.stat_metadata["plane_id"].to_pylist()) == {3}
    assert set(profile.select(planes="Task").plane_stats["plane_id"].to_pylist()) == {2, 5}


def test_selections_of_selections_narrow(run: Path) -> None:
    profile = fastprof.load(run)
    steps = profile.select(names="step|op").select(names="o").select(names="^op")
    assert set(steps.events["name"].to_pylist()) == {"op.0", "op.1"}
    assert ids(steps.select(names="step")) == []
    assert ids(profile.select(hosts=["vm0", "vm1"]).select(hosts="vm1")) == ids(profile.select(hosts="vm1"))
    assert ids(profile.select(hosts="vm0").select(hosts="vm1")) == []
    assert ids(profile.select(time_ps=(1000, None)).select(time_ps=(0, 2000))) == ids(
        profile.select(time_ps=(1000, 2000))
    )
    assert ids(profile.select(time_ps=(0, 1)).select(time_ps=(2000, None))) == []
    assert ids(profile.select(lines="main").select(planes="TPU")) == ids(profile.select(planes="TPU"))
    assert ids(profile.select().select()) == ids(profile)


def test_nesting_of_a_selection_is_that_of_whole_lines(run: Path) -> None:
    profile = fastprof.load(run)
    ops = profile.select(names="^op", hosts="vm0")
    assert ops.nesting.to_pylist() == [
        {"event_id": 2 * i + 1, "depth": 1, "parent_id": 2 * i, "self_time_ps": 200} for i in range(4)
    ]
    steps = profile.select(time_ps=(1999, 2001), hosts="vm0", lines="main", planes="CPU")
    assert steps.nesting.to_pylist() == [{"event_id": 4, "depth": 0, "parent_id": None, "self_time_ps": 400}]


def test_edges_of_time() -> None:
    """From is in, to is out; an event without duration is where it starts, another lasts until before its end."""
    spans = [(-5, 5), (0, 0), (0, 10), (10, 0), (10, 5), (20, 0)]
    data = xspace(
        plane("p", [line("l", [event("e", start, length) for start, length in spans] + [aggregated("e", 1)])])
    )
    profile = fastprof.load(data)
    start, duration = profile.events["start_ps"].to_pylist(), profile.events["duration_ps"].to_pylist()
    assert list(zip(start, duration, strict=True)) == [(-5, 5), (0, 10), (0, 0), (10, 5), (10, 0), (20, 0), (None, 0)]
    expected: Iterable[tuple[Any, Any, list[int]]] = [
        (0, 10, [1, 2]), (10, 20, [3, 4]), (0, 1, [1, 2]), (1, 2, [1]), (9, 10, [1]), (10, 11, [3, 4]),
        (-1, 0, [0]), (-5, -4, [0]), (-9, -5, []), (14, 15, [3]), (15, 20, []), (15, 21, [5]), (20, None, [5]),
        (None, 0, [0]), (None, -5, []), (None, None, [0, 1, 2, 3, 4, 5]),
        (-(2**70), 2**70, [0, 1, 2, 3, 4, 5]), (np.int64(10), np.int32(11), [3, 4]),
    ]  # fmt: skip
    for first, last, wanted in expected:
        assert ids(profile.select(time_ps=(first, last))) == wanted, (first, last)
    for first, last in ((5, 1), (5, 5), (10, 0)):
        with pytest.raises(fastprof.UsageError, match=rf"time_ps \({first}, {last}\) contains no time; the second"):
            profile.select(time_ps=(first, last))


def test_selections_that_make_no_sense(run: Path) -> None:
    profile = fastprof.load(run)
    with pytest.raises(fastprof.NotFoundError, match="no host 'vm' in this session; there are: vm0, vm1"):
        profile.select(hosts="vm")
    with pytest.raises(fastprof.NotFoundError, match="'vm2'"):
        profile.select(hosts="vm0").select(hosts=["vm0", "vm2"])
    for what in ("planes", "lines", "names"):
        with pytest.raises(fastprof.UsageError, match=rf"{what}: '\(' is not a regular expression"):
            profile.select(**{what: ["a", "("]})
        with pytest.raises(fastprof.UsageError, match=f"{what} must be regular expressions as text, not int"):
            profile.select(**{what: [1]})
    with pytest.raises(fastprof.UsageError, match="hosts must be names as text, not int"):
        profile.select(hosts=5)  # type: ignore[arg-type]
    for times in ((1.5, None), (0, "9"), (True, None), 5, (1,), (1, 2, 3)):
        with pytest.raises(fastprof.UsageError, match="time_ps must be two integers"):
            profile.select(time_ps=times)  # type: ignore[arg-type]


def test_a_host_is_a_name_and_no_pattern(tmp_path: Path) -> None:
    for name in ("a.b", "a+b", "axb"):
        (tmp_path / f"{name}.xplane.pb").write_bytes(xspace(plane("p", [line("l", [event(name, 0, 1)])])))
    profile = fastprof.load(tmp_path)
    for name in ("a.b", "a+b", "axb"):
        assert profile.select(hosts=name).events["name"].to_pylist() == [name]


def test_stats_keep_their_values_under_selection() -> None:
    data = xspace(plane("p", [line("l", [event("e", i, 1, {"v": u64(2**63 + i)}) for i in range(9)])]))
    chosen = fastprof.load(data).select(time_ps=(3, 5))
    assert [value % 2**64 - 2**63 for value in chosen.event_stats["int_value"].to_pylist()] == [3, 4]


def test_a_file_cut_off_after_loading_is_noticed(tmp_path: Path) -> None:
    """By every table, in a process of its own: reading a map past the end of its file would kill it."""
    program = """
import os, sys, fastprof
for name in fastprof.tables.table_set.TABLES:
    with open(sys.argv[1], "wb") as file:
        file.write(bytes.fromhex(sys.argv[2]))
    profile = fastprof.load(sys.argv[1])
    os.truncate(sys.argv[1], 0)
    try:
        profile.tables[name]
    except fastprof.ChangedError:
        print(name)
"""
    program = program.replace("fastprof\n", "fastprof, fastprof.tables.table_set\n", 1)
    words = [sys.executable, "-c", program, str(tmp_path / "vm.xplane.pb"), host_capture(0).hex()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, list(TABLES)), done.stderr


def test_hosts_with_few_and_with_many_texts_share_one_table() -> None:
    """Their dictionaries need indices of different widths, and together wider ones than each alone."""
    texts = {"few": ["a"], "some": [f"some {i}" for i in range(100)], "many": [f"many {i}" for i in range(300)]}
    captures = [
        xspace(plane("/host:CPU", stats={f"{host}{i}": text for i, text in enumerate(own)}))
        for host, own in texts.items()
    ]
    profile = fastprof.load(captures)
    assert profile.plane_stats["str_value"].to_pylist() == [text for own in texts.values() for text in own]


def test_a_misspelt_attribute_is_met_with_the_nearest_name() -> None:
    profile = fastprof.load(xspace(plane("p")))
    with pytest.raises(AttributeError, match=r"^a profile has no attribute 'overvew'; did you mean 'overview'\?$"):
        profile.overvew()  # type: ignore[attr-defined]
    assert not hasattr(profile, "_repr_png_")
    assert copy.copy(profile).planes == profile.planes


def test_a_name_that_does_not_exist_is_met_with_the_likely_one() -> None:
    profile = fastprof.load(host_capture(0))
    with pytest.raises(fastprof.UsageError, match=r"no table 'evnts'; there are: .*did you mean 'events'"):
        profile.read("evnts")
    with pytest.raises(KeyError, match=r"no table 'evnts'; there are: .*did you mean 'events'"):
        profile.tables["evnts"]
    with pytest.raises(fastprof.UsageError, match=r"no column 'nam'; there are: .*did you mean 'name'"):
        profile.event_table(columns=["nam"])
    with pytest.raises(fastprof.NotFoundError, match=r"no run 'cpu' in this session; there are: "):
        profile.runs["cpu"]
    scalars = profile.overview().scalars
    with pytest.raises(AttributeError, match=r"figures are items, not attributes: write \['host_count'\]"):
        _ = scalars.host_count  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"overview has no figure 'host_cont'; .*did you mean 'host_count'"):
        _ = scalars.host_cont  # type: ignore[attr-defined]


def test_names_of_analyses_may_have_hyphens() -> None:
    profile = fastprof.load(host_capture(0))
    assert profile.report("kernel-stats") is profile.kernel_stats()
    assert list(profile.reports("op-stats", "op_stats", "steps")) == ["op_stats", "steps"]


def test_a_report_of_one_run_is_its_only_run(run: Path) -> None:
    profile = fastprof.load(run)
    report = profile.overview()
    assert dict(report.runs) == {"2026_01_02_03_04_05": report} and list(profile.runs) == list(report.runs)
    again = pickle.loads(pickle.dumps(report))
    assert list(again.runs) == list(report.runs)
