"""One broken host among good ones, a file that is missing, one that cannot be read: what each on_error makes of it."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from exported import capture, log_rows, plain
from random_spaces import random_space
from trace_builder import Metadata, Wire, event, int_field, len_field, line, plane, ref, stat, xspace

import fastprof
from fastprof.tables.table_set import TABLES

EVERY = tuple(TABLES)
Check = Callable[..., None]
NOT_UTF8 = b"a\xffb"


def one_plane(*events: Any, **rest: Any) -> bytes:
    """A capture of a line between two good ones, and a good plane behind."""
    lines = [line("first", [event("a", 1, 2)]), line("middle", events), line("last", [event("b", 3, 4)])]
    behind = plane("behind", [line("other", [event("c", 5, 6)])])
    return xspace(plane("p", lines, event_ids={"a": 1, "b": 2}, **rest), behind, hostnames=["b"])


BAD_EVENT = int_field(1, 1) + int_field(2, 7) + b"\x0e\x01"
BAD_NAME = Wire(after=len_field(2, NOT_UTF8))
BAD_VALUE = stat("x", "y", Wire(after=len_field(5, NOT_UTF8)))

BROKEN: dict[str, tuple[bytes, int | None, str]] = {
    "empty": (b"", 0, "the file is empty"),
    "no capture": (b"not at all", 0, "the file looks like plain text"),
    "truncated": (one_plane(event("a"))[:-30], None, "the data end inside a message"),
    "an event": (one_plane(BAD_EVENT), one_plane(BAD_EVENT).index(BAD_EVENT) + 4, "reading XEvent"),
    "the text of a stat": (one_plane(event("a", stats=[BAD_VALUE])), None, "not UTF-8"),
    "the name of events": (one_plane(event_metadata=[Metadata("n", wire=BAD_NAME)]), None, "XEventMetadata.name"),
    "the text of a plane's stat": (one_plane(stats=[BAD_VALUE]), None, "reading XStat.str_value"),
    "the stat of an event's metadata": (
        one_plane(event_metadata=[Metadata("n", stats=[stat("x", 1, Wire(after=b"\x0e\x01"))])]), None, "reading XStat",
    ),
    "the name of a line": (xspace(plane("p", [line(NOT_UTF8, [event("a")])])), None, "reading XLine.name"),
    "gzip": (gzip.compress(one_plane(event("a")))[:-9], None, "the gzip data are damaged or cut off"),
}  # fmt: skip


def put(folder: Path, **hosts: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for host, data in hosts.items():
        (folder / f"{host}.xplane.pb").write_bytes(data)
    return folder


def read(what: Any, **how: Any) -> dict[str, pa.Table]:
    return fastprof.load(what, **how).read(*EVERY)


def of_severity(log: pa.Table, *severities: str) -> list[dict[str, Any]]:
    return [row for row in log.to_pylist() if row["severity"] in severities]


# ---- a file of another format -------------------------------------------------------------------------

OTHER = {
    "JSON": (b'{"a": [1], "b": {}}', "JSON that is not a trace: no traceEvents"),
    "a list": (b'\n [{"a": "X"}]', "JSON that is not a trace: no events"),
    "JSON null": (b"null", "JSON that is not a trace: it is null, true or false; a trace is an object with"),
    "a text in JSON": (b' "a\\n" ', "JSON that is not a trace: it is a text; a trace is"),
    "a number in JSON": (b"-12.5e3\n", "JSON that is not a trace: it is a number; a trace is"),
    "TOML": (b'[project]\nname = "a, whatever"\n' * 9, "the file looks like plain text"),
    "text that begins as planes do": (b"\n Licence\n\nYou may do what you like, and so on.\n", "looks like plain text"),
    "text that begins as host names do": (b'"name","count"\n"a",1\n' * 20, "looks like plain text"),
    "text of any language": ("\ufeffété 中文 é".encode() + "é".encode() * 40, "looks like plain text"),
    "XML": (b"<?xml version='1.0'?><trace>" + b" " * 90, "looks like XML or HTML text"),
    "ZIP": (b"PK\x03\x04" + bytes(200), "but a ZIP archive"),
    "fields of no XSpace": (int_field(9, 1) + len_field(12, b"abc\x01"), "the file has no field of an XSpace"),
    "empty": (b"", "the file is empty"),
}


@pytest.mark.parametrize("kind", OTHER)
def test_a_file_of_another_format_cannot_be_salvaged(kind: str, tmp_path: Path) -> None:
    """It is an error if nothing else is left, else a row of the log; the error says that salvaging does not help."""
    data, says = OTHER[kind]
    for packed in (data, gzip.compress(data)):
        run = put(tmp_path / "run", b=packed)
        for how in ("raise", "skip", "salvage"):
            with pytest.raises(fastprof.CaptureError, match=r"b\.xplane\.pb") as caught:
                fastprof.load(run, on_error=how)
            assert says.removeprefix("the file ") in caught.value.message
            assert not caught.value.salvageable
            assert not pickle.loads(pickle.dumps(caught.value)).salvageable
        run = put(tmp_path / "run", a=capture(0), b=packed)
        profile = fastprof.load(run, on_error="salvage")
        assert profile.hosts["host"].to_pylist() == ["a"]
        [row] = of_severity(profile.import_log, "data_loss", "error")
        assert (row["code"], row["path"]) == ("skipped_host", str(run / "b.xplane.pb"))
        (run / "a.xplane.pb").unlink()


def test_a_damaged_capture_can_be_salvaged(tmp_path: Path) -> None:
    run = put(tmp_path / "run", b=one_plane(event("a"))[:-30])
    with pytest.raises(fastprof.CaptureError) as caught:
        read(run)
    assert caught.value.salvageable
    assert fastprof.load(run, on_error="salvage").events["name"].to_pylist() == ["a", "a", "b"]


# ---- a broken host ----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_host_is_named(kind: str, threads: int, tmp_path: Path) -> None:
    data, offset, says = BROKEN[kind]
    run = put(tmp_path / "run", a=capture(0), b=data, c=capture(1))
    with pytest.raises(fastprof.CaptureError) as caught:
        read(run, threads=threads)
    assert caught.value.path == str(run / "b.xplane.pb")
    assert says in caught.value.message
    if kind == "gzip":
        assert caught.value.offset is None
        return
    assert caught.value.offset is not None
    if offset is not None:
        assert caught.value.offset == offset
    elif kind == "truncated":
        assert len(data) - 9 <= caught.value.offset <= len(data)
    else:
        at = data.index(NOT_UTF8) if NOT_UTF8 in data else data.index(b"\x0e\x01")
        assert at - 4 <= caught.value.offset <= at + 3


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_host_is_skipped(kind: str, tmp_path: Path, check_same: Check) -> None:
    """The others are as if it had not been there, and the log says what the error would have said."""
    run = put(tmp_path / "run", a=capture(0), b=BROKEN[kind][0], c=capture(1))
    with pytest.raises(fastprof.CaptureError) as caught:
        read(run)
    profile = fastprof.load(run, on_error="skip")
    good = fastprof.load([run / "a.xplane.pb", run / "c.xplane.pb"])
    assert profile.hosts["host"].to_pylist() == ["a", "c"]
    assert profile.sources == good.sources
    check_same(profile.tables, good.tables, but=("import_log", "hosts"))
    [row] = of_severity(profile.import_log, "data_loss", "error")
    assert row == {
        "severity": "error", "code": "skipped_host", "count": 1, "first_offset": caught.value.offset,
        "path": caught.value.path, "example": caught.value.message,
    }  # fmt: skip
    again = pickle.loads(pickle.dumps(profile))
    check_same(again.tables, profile.tables, but=())


def test_skipping_reads_each_host_no_differently(check_same: Check) -> None:
    """It looks into all of a host before the host is taken; nothing is counted twice for that."""
    for seed in range(0, 24, 3):
        session = [random_space(seed + i) + len_field(4, b"") for i in range(3)]
        skipping, plainly = fastprof.load(session, on_error="skip"), fastprof.load(session)
        check_same(skipping.tables, plainly.tables, but=("import_log",))
        assert log_rows(skipping.import_log) == log_rows(plainly.import_log)


NUMBERS = ("event_id", "plane_id", "line_id", "parent_id", "run")


def without_numbers(table: pa.Table) -> pa.Table:
    """Rows of a host, whatever hosts stand before it."""
    return plain(table.drop_columns([name for name in NUMBERS if name in table.column_names]))


@pytest.mark.parametrize("kind", BROKEN)
def test_salvage_leaves_good_hosts_alone(kind: str, tmp_path: Path) -> None:
    run = put(tmp_path / "run", a=capture(0), b=BROKEN[kind][0], c=capture(1))
    salvaged = fastprof.load(run, on_error="salvage")
    for host in "ac":
        alone = fastprof.load(run / f"{host}.xplane.pb")
        for name in EVERY:
            if name != "import_log":
                found = salvaged.select(hosts=host).tables[name]
                assert without_numbers(found).equals(without_numbers(alone.tables[name])), (host, name)
    lost = of_severity(salvaged.read(*EVERY)["import_log"], "data_loss", "error")
    assert lost and {row["path"] for row in lost} == {str(run / "b.xplane.pb")}
    assert ("b" in salvaged.hosts["host"].to_pylist()) == (kind not in ("empty", "no capture"))


SALVAGED: dict[str, tuple[str, int, list[str]]] = {
    "truncated": ("truncated", 1, ["a", "a", "b"]),
    "an event": ("bad_tag", 1, ["a", "b", "c"]),
    "the text of a stat": ("bad_utf8", 1, ["a", "a", "b", "c"]),
    "the text of a plane's stat": ("bad_utf8", 1, ["a", "b", "c"]),
    "the name of a line": ("bad_utf8", 1, ["a"]),
    "gzip": ("damaged_stream", 1, ["a", "a", "b"]),
}


@pytest.mark.parametrize("kind", SALVAGED)
def test_what_salvage_keeps_and_says(kind: str, tmp_path: Path) -> None:
    code, count, names = SALVAGED[kind]
    path = put(tmp_path / "run", b=BROKEN[kind][0]) / "b.xplane.pb"
    tables = read(path, on_error="salvage")
    kept = [name for name in tables["events"]["name"].to_pylist() if name]
    assert kept[: len(names)] == names
    rows = {row["code"]: row for row in of_severity(tables["import_log"], "data_loss")}
    assert (rows[code]["count"], rows[code]["path"]) == (count, str(path))
    assert 0 < rows[code]["first_offset"] <= max(path.stat().st_size, tables["hosts"]["size_bytes"][0].as_py())
    assert of_severity(tables["import_log"], "error") == []


# ---- salvage is exact -------------------------------------------------------------------------------

HARM = (BAD_EVENT, int_field(1, 1) + b"\x22\x7f", int_field(1, 2) + b"\x00\x01")


def long_capture(harmed: Iterable[int], harm: Callable[[int], list[bytes]]) -> bytes:
    """A line of 3,000 events with texts of their own; those at some places are what ``harm`` gives for them."""
    places = set(harmed)
    events: list[Any] = []
    for i in range(3000):
        sound = event(f"e{i % 4}", 10 * i, 5, {"i": i, "s": f"text {i % 50}", "r": ref("shared")})
        events += harm(i) if i in places else [sound]
    names, stats = {f"e{i}": i + 1 for i in range(4)}, {"i": 1, "s": 2, "r": 3, "shared": 4}
    return xspace(plane("p", [line("l", events)], event_ids=names, stat_ids=stats), hostnames=["vm"])


@pytest.mark.parametrize("harmed", [(0,), (2999,), (1500,), (10, 11, 12), tuple(range(5, 3000, 100))])
def test_salvage_keeps_every_event_but_the_harmed(harmed: tuple[int, ...], check_same: Check) -> None:
    """All before, between and behind; each fault is counted, and the first one has its offset in the log."""
    bad = long_capture(harmed, lambda i: [HARM[i % 3]])
    good = fastprof.load(long_capture(harmed, lambda _: []))
    profile = fastprof.load(bad, on_error="salvage")
    check_same(profile.tables, good.tables, but=("hosts", "import_log"))
    lost = of_severity(profile.import_log, "data_loss")
    assert sum(row["count"] for row in lost) == len(harmed)
    first = min(row["first_offset"] for row in lost)
    at = min(bad.index(harm) for harm in HARM if harm in bad)
    assert at <= first <= at + 8
    with pytest.raises(fastprof.CaptureError) as caught:
        fastprof.load(bad).events  # noqa: B018
    assert caught.value.offset == first


@pytest.mark.parametrize("what", ["events", "cut", "hosts"])
def test_threads_change_nothing_in_what_is_salvaged(what: str, check_same: Check) -> None:
    """Nor in what the log says of it: codes, counts and offsets."""
    bad = long_capture(range(7, 3000, 61), lambda i: [HARM[i % 3]])
    session: Any = {
        "events": bad,
        "cut": bad[: len(bad) // 2],
        "hosts": [bad, capture(0), bad[: len(bad) // 3], b"", gzip.compress(bad)[:-99], capture(1)],
    }[what]
    one = fastprof.load(session, on_error="salvage", threads=1)
    assert len(of_severity(one.import_log, "data_loss")) > 1
    for threads in (2, 3, 8):
        check_same(fastprof.load(session, on_error="salvage", threads=threads).tables, one.tables, but=())


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_of_several_faults_the_first_is_raised(threads: int) -> None:
    bad = long_capture((2900, 40, 1500), lambda i: [HARM[i % 3]])
    with pytest.raises(fastprof.CaptureError) as caught:
        fastprof.load(bad, threads=threads).event_stats  # noqa: B018
    at = min(bad.index(harm) for harm in HARM if harm in bad)
    assert caught.value.offset is not None and at <= caught.value.offset <= at + 8


# ---- missing and unreadable -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_a_missing_item_of_a_list(mode: str, tmp_path: Path, check_same: Check) -> None:
    run = put(tmp_path / "run", a=capture(0), c=capture(1))
    (tmp_path / "bare").mkdir()
    items = [
        run / "a.xplane.pb",
        tmp_path / "gone.xplane.pb",
        tmp_path / "bare",
        f"{tmp_path}/*.none",
        run / "c.xplane.pb",
    ]
    with pytest.raises(fastprof.NotFoundError, match=r"gone\.xplane\.pb") as caught:
        fastprof.load(items)
    assert isinstance(caught.value, FileNotFoundError)
    profile = fastprof.load(items, on_error=mode)
    check_same(profile.tables, fastprof.load(run).tables, but=("import_log", "hosts"))
    rows = of_severity(profile.import_log, "error")
    assert [(row["code"], row["count"], row["first_offset"]) for row in rows] == [("missing", 1, None)] * 3
    assert [row["path"] for row in rows] == sorted(str(item) for item in items[1:4])
    assert caught.value.message in [row["example"] for row in rows]
    with pytest.raises(fastprof.NotFoundError):
        fastprof.load(tmp_path / "gone.xplane.pb", on_error=mode)
    with pytest.raises(fastprof.NotFoundError, match="2 others failed too"):
        fastprof.load(items[1:4], on_error=mode)


@pytest.mark.parametrize("mode", ["skip", "salvage"])
def test_a_host_that_cannot_be_opened(mode: str, tmp_path: Path, check_same: Check) -> None:
    """Such as a link in a run that leads nowhere, or to itself."""
    run = put(tmp_path / "run", a=capture(0), c=capture(1))
    expected = fastprof.load(run)
    for host, target in (("b", "gone"), ("d", "d.xplane.pb")):
        (run / f"{host}.xplane.pb").symlink_to(target)
    with pytest.raises(fastprof.UnreadableError, match=r"b\.xplane\.pb: No such file or directory"):
        fastprof.load(run)
    profile = fastprof.load(run, on_error=mode)
    check_same(profile.tables, expected.tables, but=("import_log",))
    rows = of_severity(profile.import_log, "error")
    assert [(row["code"], Path(row["path"]).name, row["example"]) for row in rows] == [
        ("skipped_host", "b.xplane.pb", "No such file or directory"),
        ("skipped_host", "d.xplane.pb", "Too many levels of symbolic links"),
    ]


# ---- nothing is left --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["raise", "skip", "salvage"])
def test_where_nothing_is_left_it_is_an_error(mode: str, tmp_path: Path) -> None:
    run = put(tmp_path / "run", a=b"", b=gzip.compress(b""), c=gzip.compress(capture(0))[:9])
    with pytest.raises(fastprof.CaptureError) as caught:
        read(run, on_error=mode)
    assert caught.value.path is not None and Path(caught.value.path).parent == run
    with pytest.raises(fastprof.CaptureError):
        read([b"", b""], on_error=mode)


def test_every_host_is_broken(tmp_path: Path) -> None:
    run = put(tmp_path / "run", a=capture(0)[:-9], b=b"nonsense")
    with pytest.raises(fastprof.CaptureError):
        read(run, on_error="skip")
    tables = read(run, on_error="salvage")
    assert tables["hosts"]["host"].to_pylist() == ["a"]
    assert tables["events"]["host"].unique().to_pylist() == ["a"]
    lost = of_severity(tables["import_log"], "data_loss", "error")
    assert {Path(row["path"]).name: row["code"] for row in lost} == {
        "a.xplane.pb": "truncated", "b.xplane.pb": "skipped_host",
    }  # fmt: skip


def test_one_of_several_that_fail_is_raised_and_the_others_are_counted(tmp_path: Path) -> None:
    run = put(tmp_path / "run", a=b"", b=capture(0)[:-9], c=b"nonsense")
    names = [f"{host}.xplane.pb" for host in "abc"]
    with pytest.raises(fastprof.CaptureError) as caught:
        read(run)
    assert caught.value.path == str(run / names[0])
    put(run, good=capture(1))
    rows = of_severity(read(run, on_error="skip")["import_log"], "error")
    assert [(row["code"], Path(row["path"]).name) for row in rows] == [("skipped_host", name) for name in names]


def test_a_plane_stat_that_does_not_decode_is_left_out(tmp_path: Path) -> None:
    """Whatever is read first, and in an export too."""
    data = b"\x0a\x08" + b"\x12\x01p" + b"\x32\x03\x08\x01\x0e"
    salvaged = fastprof.load(data, on_error="salvage")
    assert [row["code"] for row in salvaged.import_log.to_pylist()] == ["bad_tag"]
    assert salvaged.plane_stats.num_rows == 0
    salvaged.to_parquet(tmp_path / "out", layout="paths")
    with pytest.raises(fastprof.CaptureError):
        _ = fastprof.load(data).plane_stats


def test_recorded_hosts_that_look_numbered_stay_apart() -> None:
    captures = [xspace(plane("p"), hostnames=[name]) for name in ("vm", "vm", "vm#2")]
    assert fastprof.load(captures).hosts["host"].to_pylist() == ["vm", "vm#3", "vm#2"]
