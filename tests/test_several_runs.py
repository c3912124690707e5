"""Several runs in one session: apart in tables, ids, selections and reports, or hosts of one run if that is wanted."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from exported import plain, put_run
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.decode.blocks import Block
from fastprof.decode.decoder import Decoder
from fastprof.errors import CaptureError, NotFoundError, UsageError
from fastprof.schema.tables import VERSION
from fastprof.tables.table_set import TABLES

A, B = "2026_01_01_00_00_00", "2026_01_02_00_00_00"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with two runs: one of two hosts, one of a host of the same name."""
    put_run(tmp_path / "logs/plugins/profile" / A, ["vm0", "vm1"])
    put_run(tmp_path / "logs/plugins/profile" / B, ["vm0"])
    return tmp_path / "logs"


def profile_dir(logs: Path, run: str) -> Path:
    return logs / "plugins" / "profile" / run


@pytest.fixture
def both(logs: Path) -> fastprof.Profile:
    return fastprof.load([profile_dir(logs, A), profile_dir(logs, B)])


def put_events(folder: Path, *values: object) -> Path:
    """A run with one event for each value of the stat ``s``."""
    folder.mkdir(parents=True)
    events = [event(f"e{i}", i, 1, {"s": value}) for i, value in enumerate(values)]
    (folder / "vm.xplane.pb").write_bytes(xspace(plane("p", [line("l", events)])))
    return folder


# ---- which runs -------------------------------------------------------------------------------------


def test_runs_are_kept_apart_however_they_are_named(logs: Path) -> None:
    listed = fastprof.runs(logs)
    for what, run in (
        ([profile_dir(logs, A), profile_dir(logs, B)], None),
        ([str(path) for path in sorted(profile_dir(logs, A).iterdir()) + sorted(profile_dir(logs, B).iterdir())], None),
        (f"{logs}/**/*.xplane.pb", None),
        (f"{logs}/plugins/profile/*", None),
        (listed[::-1], None),
        (logs, [A, B]),
        (logs, listed[::-1]),
        ([profile_dir(logs, A), profile_dir(logs, B), profile_dir(logs, A)], None),
    ):
        profile = fastprof.load(what, run=run)
        assert list(profile.runs) == [A, B], what
        assert {run: one.hosts["host"].to_pylist() for run, one in profile.runs.items()} == {
            A: ["vm0", "vm1"],
            B: ["vm0"],
        }
        assert profile.run is None and len(profile.sources) == 3


def test_one_run_is_one_run(logs: Path) -> None:
    for what, run in ((logs, None), ([logs], None), (logs, [B]), (fastprof.runs(logs)[:1], None), ([logs, logs], None)):
        profile = fastprof.load(what, run=run)
        assert (profile.run, list(profile.runs)) == (B, [B])
        assert profile.runs[B] is profile and "run" not in profile.events.column_names
    capture = next(profile_dir(logs, B).iterdir()).read_bytes()
    assert list(fastprof.load([capture, io.BytesIO(capture)]).runs) == [""]


def test_captures_of_no_run_are_hosts_of_one_session(tmp_path: Path) -> None:
    for place in ("one", "two"):
        put_run(tmp_path / place, [place])
    profile = fastprof.load([tmp_path / "one/one.xplane.pb", tmp_path / "two/two.xplane.pb"])
    assert profile.hosts["host"].to_pylist() == ["one", "two"]
    (remark,) = profile.remarks().to_pylist()
    assert (remark["code"], remark["example"]) == (
        "several_runs", "captures of 2 directories are read as hosts of one run: one, two",
    )  # fmt: skip


def test_several_runs_are_hosts_of_one_run_on_request(logs: Path) -> None:
    for what, run in (([profile_dir(logs, A), profile_dir(logs, B)], None), (logs, [A, B])):
        profile = fastprof.load(what, run=run, as_hosts=True)
        assert profile.hosts["host"].to_pylist() == ["vm0", "vm1", "vm0#2"]
        assert "several_runs" in profile.remarks()["code"].to_pylist()
        assert "run" not in profile.events.column_names
        assert [b["host"][0].as_py() for b in fastprof.scan(what, run=run, as_hosts=True)] == ["vm0"]


def test_a_capture_of_no_run_beside_several_is_an_error(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.pb").write_bytes(next(profile_dir(logs, B).iterdir()).read_bytes())
    with pytest.raises(UsageError, match=r"of 2 runs, none is the directory of .*alone\.pb; .*as_hosts=True"):
        fastprof.load([profile_dir(logs, A), profile_dir(logs, B), tmp_path / "alone.pb"])
    assert len(fastprof.load([profile_dir(logs, A), tmp_path / "alone.pb"]).sources) == 3


def test_runs_of_one_name_are_called_after_their_directories(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("base/tb", "wide/tb", "wide/x/tb")]
    for place in places:
        put_run(profile_dir(place, A), ["vm"])
    assert list(fastprof.load(places[:2]).runs) == [f"base/tb/{A}", f"wide/tb/{A}"]
    assert list(fastprof.load(places).runs) == [f"base/tb/{A}", f"wide/tb/{A}", f"x/tb/{A}"]
    assert list(fastprof.load(tmp_path, run=[f"base/tb/{A}", f"wide/x/tb/{A}"]).runs) == [
        f"base/tb/{A}", f"wide/x/tb/{A}",
    ]  # fmt: skip
    shutil.copytree(profile_dir(places[0], A), tmp_path / "base/tb" / A)
    both = fastprof.load([profile_dir(places[0], A), tmp_path / "base/tb" / A])
    assert list(both.runs) == [str(profile_dir(places[0], A)), str(tmp_path / "base/tb" / A)]


def test_names_of_runs_are_checked(logs: Path) -> None:
    with pytest.raises(UsageError, match="the list of runs is empty"):
        fastprof.load(logs, run=[])
    with pytest.raises(UsageError, match="not int"):
        fastprof.load(logs, run=[A, 1])  # type: ignore[list-item]
    with pytest.raises(NotFoundError, match=f"no run x; runs, newest first: {B}, {A}"):
        fastprof.load(logs, run=[A, "x"])


def test_a_run_that_cannot_be_read_is_left_out_on_request(logs: Path) -> None:
    (profile_dir(logs, B) / "vm0.xplane.pb").write_bytes(b"\xff" * 99)
    places = [profile_dir(logs, A), profile_dir(logs, B), logs / "gone"]
    with pytest.raises(NotFoundError):
        fastprof.load(places)
    with pytest.raises(CaptureError):
        fastprof.load(places[:2])
    profile = fastprof.load(places, on_error="skip")
    assert list(profile.runs) == [A] and profile.events["run"].unique().to_pylist() == [A]
    assert {row["code"] for row in profile.import_log.to_pylist() if row["severity"] == "error"} == {
        "missing", "skipped_run",
    }  # fmt: skip
    with pytest.raises(CaptureError):
        fastprof.load([profile_dir(logs, B), logs / "gone"], on_error="skip")


# ---- tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_has_the_rows_of_each_run(name: str, both: fastprof.Profile) -> None:
    """The column run is in front; other columns are those of the runs, except ids, which go on."""
    table = both.tables[name]
    names = TABLES[name].names()
    assert table.column_names == (names if "run" in names else ["run", *names])
    rows = [both.runs[run].tables[name] for run in (A, B)]
    assert table["run"].to_pylist() == [A] * rows[0].num_rows + [B] * rows[1].num_rows
    ids = {"plane_id", "line_id", "event_id", "parent_id"}
    same = [column for column in names if column not in {"run", *ids}]
    assert plain(table.select(same)).equals(plain(pa.concat_tables([plain(part.select(same)) for part in rows])))
    field = table.schema.field("run")
    assert field.metadata[b"description"] and table.schema.metadata[b"fastprof.schema_version"] == VERSION.encode()
    for column in names:
        if column != "run":
            assert table.schema.field(column).metadata == rows[0].schema.field(column).metadata
    assert getattr(both, name) is table


def test_ids_are_unique_over_runs_and_join(both: fastprof.Profile) -> None:
    tables = both.read("planes", "lines", "events", "event_stats", "nesting", "plane_stats")
    for name, key in (("planes", "plane_id"), ("lines", "line_id"), ("events", "event_id"), ("nesting", "event_id")):
        ids = tables[name][key].to_pylist()
        assert ids == list(range(len(ids))), name
    line = {row["line_id"]: row for row in tables["lines"].to_pylist()}
    planes = {row["plane_id"]: row for row in tables["planes"].to_pylist()}
    for row in tables["events"].to_pylist():
        assert line[row["line_id"]]["run"] == row["run"] == planes[row["plane_id"]]["run"]
        assert line[row["line_id"]]["plane_id"] == row["plane_id"]
        assert planes[row["plane_id"]]["host"] == row["host"]
    events = {row["event_id"]: row for row in tables["events"].to_pylist()}
    assert {events[row["event_id"]]["run"] == row["run"] for row in tables["event_stats"].to_pylist()} == {True}
    parents = [row for row in tables["nesting"].to_pylist() if row["parent_id"] is not None]
    assert {row["run"] for row in parents} == {A, B}
    assert {events[row["parent_id"]]["run"] == row["run"] for row in parents} == {True}


def test_sources_of_all_runs_are_in_the_metadata(both: fastprof.Profile) -> None:
    metadata = both.events.schema.metadata
    assert [source["path"] for source in json.loads(metadata[b"sources"])] == both.sources
    assert metadata[b"session_start_unix_ns"] == str(10**18 + 5).encode()


def test_texts_are_one_dictionary(both: fastprof.Profile) -> None:
    """Of indices as narrow as it allows; the rows of a run stay as they were decoded, in a chunk of their own."""
    names = both.events["name"]
    assert names.type == pa.dictionary(pa.int8(), pa.string()) and names.num_chunks == 2
    assert names.chunk(0).dictionary.equals(names.chunk(1).dictionary)
    assert both.events["run"].type == pa.dictionary(pa.int8(), pa.string())


def test_a_profile_of_runs_narrows(both: fastprof.Profile, logs: Path) -> None:
    every = both.events.to_pylist()
    for how, kept in (
        ({"runs": B}, lambda e: e["run"] == B),
        ({"runs": iter([B, A])}, lambda _: True),
        ({"hosts": "vm1"}, lambda e: e["host"] == "vm1"),
        ({"hosts": "vm0", "names": "step"}, lambda e: e["host"] == "vm0" and e["name"] == "step"),
        ({"planes": "TPU", "runs": [A]}, lambda e: "TPU" in e["plane"] and e["run"] == A),
        ({"hosts": []}, lambda _: False),
    ):
        assert both.select(**how).events.to_pylist() == [row for row in every if kept(row)], how  # type: ignore[arg-type]
    twice = both.select(runs=B).select(names="step")
    assert set(twice.events["run"].to_pylist()) == {B} and list(twice.runs) == [B]
    assert pickle.loads(pickle.dumps(twice)).events.equals(twice.events)
    assert pickle.loads(pickle.dumps(both.runs[A])).events.equals(both.runs[A].events)
    with pytest.raises(NotFoundError, match=f"no run 'x' in this session; there are: {A}, {B}"):
        both.select(runs="x")
    with pytest.raises(NotFoundError, match="no host 'vm9' in these runs; there are: vm0, vm1"):
        both.select(hosts="vm9")
    with pytest.raises(UsageError, match="no run is selected"):
        both.select(runs=[])
    assert fastprof.load(logs).select(runs=B).run == B
    with pytest.raises(NotFoundError, match="no run 'x'"):
        fastprof.load(logs).select(runs="x")


def test_a_scan_goes_run_by_run(both: fastprof.Profile) -> None:
    batches = list(both.scan(batch_rows=5))
    assert all(batch.schema.equals(batches[0].schema, check_metadata=True) for batch in batches)
    assert plain(pa.Table.from_batches(batches)).equals(plain(both.events))
    named = list(both.scan(columns=["name", "run", "event_id"], stats=["step"]))
    assert named[0].schema.names == ["name", "run", "event_id", "step"]
    table = both.event_table(["name", "run", "event_id"], ["step"])
    assert plain(pa.Table.from_batches(named)).equals(plain(table))
    assert both.event_table(["name"]).column_names == ["name"]
    (empty,) = both.select(names="nothing").scan()
    assert empty.num_rows == 0 and empty.schema.names[:2] == ["run", "event_id"]
    with pytest.raises(UsageError, match="requested twice: run"):
        both.event_table(["run", "run"])
    with pytest.raises(UsageError, match="events have no column 'x'"):
        both.scan(columns=["x"])


@pytest.mark.parametrize("stats", [[], ["step"]])
def test_a_scan_decodes_no_run_before_its_turn(
    stats: list[str], both: fastprof.Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is that of one share of events, however many runs there are."""
    seen: list[tuple[int, int]] = []
    decode = Decoder.decode

    def counted(decoder: Decoder, share: list[Block], *args: object, **named: object) -> object:
        seen.append((len(decoder.index.captures), sum(block.rows for block in share)))
        return decode(decoder, share, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoder, "decode", counted)
    batches = both.scan(["name"], stats, batch_rows=5)
    first = next(batches)
    assert [hosts for hosts, _ in seen] == [2]
    rest = list(batches)
    assert [hosts for hosts, _ in seen] == sorted((hosts for hosts, _ in seen), reverse=True)
    assert sum(rows for _, rows in seen) == 78 == first.num_rows + sum(batch.num_rows for batch in rest)


@pytest.mark.parametrize(
    ("one", "other", "values"),
    [
        ([1], [2.5], [1.0, 2.5]),
        ([1], ["x"], ["1", "x"]),
        ([2**60], [2.5], [str(2**60), "2.5"]),
        ([2**60, 0.5], [2.5], [str(2**60), "0.5", "2.5"]),
        ([None], ["x"], [None, "x"]),
        ([b"raw"], [3], ["raw", "3"]),
        ([1], [2], [1, 2]),
    ],
)
def test_a_stat_has_one_type_in_all_runs(tmp_path: Path, one: list, other: list, values: list) -> None:  # type: ignore[type-arg]
    places = [put_events(tmp_path / "one", *one), put_events(tmp_path / "two", *other)]
    profile = fastprof.load(places)
    assert profile.event_table(["run"], ["s"])["s"].to_pylist() == values
    if not any(isinstance(value, int) and value > 2**53 for value in one):
        batches = list(profile.scan(["run"], ["s"]))
        assert [value for batch in batches for value in batch["s"].to_pylist()] == values
        assert batches[0].schema == batches[1].schema


def test_a_stat_of_one_run_is_null_in_the_other(tmp_path: Path) -> None:
    for order in (("one", "two"), ("two", "one")):
        places = [tmp_path / name for name in order]
        if not places[0].exists():
            put_events(tmp_path / "one", "x")
            put_run(tmp_path / "two", ["vm"])
        profile = fastprof.load(places)
        table = profile.event_table(["run"], ["s", "flops"])
        assert {run: set(one) for run, one in _by_run(table, "s").items()} == {"one": {"x"}, "two": {None}}
        assert {type(value) for value in table["flops"].to_pylist()} == {type(None), float}
        batches = pa.Table.from_batches(profile.scan(["run"], ["s", "flops"]))
        assert plain(batches).equals(plain(table))
        with pytest.raises(UsageError, match=r"no capture has a stat 'flop'; .*flops"):
            profile.event_table(stats=["flop"])


def _by_run(table: pa.Table, column: str) -> dict[str, list[object]]:
    rows: dict[str, list[object]] = {}
    for run, value in zip(table["run"].to_pylist(), table[column].to_pylist(), strict=True):
        rows.setdefault(run, []).append(value)
    return rows


def test_sums_and_names_are_those_of_each_run(both: fastprof.Profile) -> None:
    sums = both.event_summary()
    assert sums.column_names[0] == "run"
    of_a = both.runs[A].event_summary()
    assert sums.filter(pa.compute.equal(sums["run"], A)).drop_columns(["run"]).to_pylist() == of_a.to_pylist()
    assert both.stat_names() == both.runs[A].stat_names()


def test_what_is_of_one_run_says_so(both: fastprof.Profile, tmp_path: Path) -> None:
    for use in (
        lambda: both.to_trace(tmp_path / "x.json"),
        lambda: both.hlo_text("jit_f"),
        lambda: both.table_set,
        lambda: both.answers(["overview"], {}, "xprof"),
    ):
        with pytest.raises(
            UsageError, match=rf"2 runs are loaded: use profile\.runs\[NAME\].*as_hosts.*runs: {A}, {B}"
        ):
            use()


def test_a_profile_of_runs_shows_itself(both: fastprof.Profile) -> None:
    both.read("lines")
    assert repr(both).splitlines() == [
        "<fastprof.Profile: 2 runs", f"  {A}  2 hosts", f"  {B}  1 host", "  lines    12 rows>",
    ]  # fmt: skip
    assert both._repr_html_().count("<h3>Run ") == 2


# ---- reports ----------------------------------------------------------------------------------------


DEMO = Path(__file__).parent.parent / "demo"
POD, CPU = "2026_11_21_12_00_00", "2026_11_21_09_58_38"


@pytest.fixture(scope="module")
def demos() -> fastprof.Profile:
    """The demo's pod and the training on a CPU."""
    return fastprof.load([DEMO / "pod", DEMO / "logdir"])


def test_a_report_of_runs_has_tables_of_all_and_figures_of_each(demos: fastprof.Profile) -> None:
    reports = demos.reports("steps", "op_stats")
    report = reports["steps"]
    for name, table in report.tables.items():
        parts = [report.runs[run].tables[name] for run in (POD, CPU)]
        assert table.column_names == ["run", *parts[0].column_names]
        assert table["run"].to_pylist() == [POD] * parts[0].num_rows + [CPU] * parts[1].num_rows
    assert report.to_arrow().num_rows and report.to_arrow().equals(report.tables["steps"])
    alone = demos.runs[CPU].report("steps")
    assert report.runs[CPU].scalars == alone.scalars
    for use in (lambda: report.scalars, report.to_xprof, report.to_svg, report.to_speedscope, report.to_pprof):
        with pytest.raises(
            UsageError, match=rf"this report is of 2 runs; use report\.runs\[NAME\].*runs: {POD}, {CPU}"
        ):
            use()
    assert {notice.text.split(": ")[0] for notice in report.notices} <= {POD, CPU}


def test_a_report_of_runs_is_shown_run_by_run(demos: fastprof.Profile) -> None:
    report = demos.steps()
    document = json.loads(report.to_json())
    assert list(document) == ["runs"] and list(document["runs"]) == [POD, CPU]
    assert document["runs"][CPU] == json.loads(report.runs[CPU].to_json())
    texts = repr(report).split("Run ")
    assert [text.splitlines()[0] for text in texts[1:]] == [POD, CPU]
    assert report.runs[POD].to_text() in repr(report)
    assert report._repr_html_().count("<h3>Run ") == 2
    again = pickle.loads(pickle.dumps(report))
    assert again.to_json() == report.to_json()


def test_runs_of_names_that_are_not_text_are_loaded(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/plugins/profile/r\xff"))
    folder.mkdir(parents=True)
    (folder / "h.xplane.pb").write_bytes(xspace(plane("/host:CPU", [line("main", [event("e", 1, 2)])])))
    (run,) = fastprof.runs(tmp_path)
    assert fastprof.load(run).events.num_rows == fastprof.load([run]).events.num_rows == 1
