"""Bytes of objects: what is fetched, and what faults of stores become."""

from __future__ import annotations

import gzip
import http.client
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from object_server import ObjectServer, Request
from stored_captures import CAPTURE, KEY, LOGDIR
from trace_builder import event, int_field, len_field, line, plane, xspace

import fastprof
from fastprof.errors import ChangedError, FastprofError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs.source import read_entire
from fastprof.inputs.stores import remote_file, store_path
from fastprof.inputs.stores.store_path import make_store_path

URL = f"s3://bucket/{KEY}"


@pytest.fixture(params=["obstore", "pyarrow", "http"])
def url(request: pytest.FixtureRequest, server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The capture by each client."""
    if request.param == "http":
        return f"{server.address}/bucket/{KEY}"
    monkeypatch.setattr(store_path, "has_obstore", lambda: request.param == "obstore")
    return URL


@cache
def make_large_capture() -> bytes:
    """Return a capture that is read in parts: its planes have 400 KB each."""
    names = [f"op {number} {'x' * 60}" for number in range(40)]
    planes = []
    for number in range(4):
        events = [event(names[at % 40], at * 10, 5, stats={"text": "y" * 50}) for at in range(5000)]
        planes.append(plane(f"/device:TPU:{number}", [line("ops", events, timestamp_ns=number)]))
    return xspace(*planes)


def only_ranges(fault: str, times: int = 1 << 30) -> Callable[[Request], str | None]:
    """Return a fault of this number of answers with ranges, beyond the first byte."""
    left = iter(range(times))
    lock = threading.Lock()

    def give(request: Request) -> str | None:
        if request.method != "GET" or request.range in (None, (0, 1)):
            return None
        with lock:
            return None if next(left, None) is None else fault

    return give


def test_a_capture_is_what_it_is_on_disk(url: str) -> None:
    local, remote = fastprof.load(LOGDIR), fastprof.load(url)
    assert remote.events.equals(local.events)
    assert remote.event_stats.equals(local.event_stats)
    assert remote.sources == [url]
    assert remote.hosts["path"].to_pylist() == [url]


def test_a_small_object_is_fetched_once(server: ObjectServer) -> None:
    fastprof.load(URL).reports()
    assert [(request.method, request.range) for request in server.requests] == [
        ("HEAD", None),
        ("GET", (0, len(CAPTURE))),
    ]
    assert server.sent == len(CAPTURE)


@pytest.mark.usefixtures("small_blocks")
def test_parts_of_a_large_object_are_fetched_once_by_many_threads(server: ObjectServer) -> None:
    server.objects["large.xplane.pb"] = make_large_capture()
    profile = fastprof.load("s3://bucket/large.xplane.pb", threads=4)
    assert 0 < server.sent < len(make_large_capture()) // 4
    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda _: profile.events, range(8)))
    assert all(table.equals(tables[0]) for table in tables)
    columns = ["plane", "name", "start_ps", "duration_ps", "event_id"]
    assert tables[0].select(columns).equals(fastprof.load(make_large_capture()).events.select(columns))
    assert server.sent == len(make_large_capture())
    ranges = [request.range for request in server.requests if request.range is not None]
    blocks = [block for begin, end in ranges for block in range(begin >> 10, -(-end >> 10))]
    assert len(blocks) == len(set(blocks))
    assert max(end - begin for begin, end in ranges) <= 1 << 12


@pytest.mark.usefixtures("small_blocks")
def test_one_plane_costs_its_bytes_and_the_headers_of_others(server: ObjectServer) -> None:
    server.objects["large.xplane.pb"] = make_large_capture()
    local, remote = fastprof.load(make_large_capture()), fastprof.load("s3://bucket/large.xplane.pb")
    opened = server.sent
    columns = ["plane", "line", "name", "start_ps", "duration_ps"]
    chosen, expected = remote.select(planes="TPU:2"), local.select(planes="TPU:2")
    assert chosen.event_table(columns, ["text"]).equals(expected.event_table(columns, ["text"]))
    of_plane = len(make_large_capture()) / 4
    assert opened < 0.4 * of_plane
    assert server.sent - opened < of_plane + (256 << 10)  # a window may reach behind the plane
    assert chosen.event_table(["event_id", "name"]).equals(expected.event_table(["event_id", "name"]))
    assert remote.lines.equals(local.lines)
    assert server.sent == len(make_large_capture())


def test_one_plane_of_a_large_object_costs_a_twentieth_more(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks and ranges are those of objects that are too large to be fetched whole; this one only counts as such."""
    monkeypatch.setattr(remote_file, "MOST_AT_ONCE", 0)
    event_bytes = len_field(4, int_field(1, 1) + int_field(2, 1000) + int_field(3, 900))
    line_bytes = int_field(1, 1) + len_field(2, "XLA Ops") + event_bytes * 800_000
    rest = len_field(3, line_bytes) + len_field(4, int_field(1, 1) + len_field(2, len_field(2, "fusion")))
    planes = [len_field(1, len_field(2, f"/device:TPU:{number}") + rest) for number in range(8)]
    server.objects["large.xplane.pb"] = b"".join(planes)
    profile = fastprof.load("s3://bucket/large.xplane.pb")
    opened = server.sent
    assert opened <= 8 * (128 << 10)  # the headers of each plane and its line
    rows = profile.select(planes="TPU:3").event_table(["name", "start_ps", "duration_ps"]).num_rows
    assert rows == 800_000
    assert server.sent - opened <= 1.05 * len(planes[3])


@pytest.mark.usefixtures("small_blocks")
def test_lines_whose_header_says_nothing_are_read_to_their_end(server: ObjectServer) -> None:
    events = b"".join(len_field(4, int_field(1, 1) + int_field(3, at)) for at in range(60_000))
    plane_bytes = len_field(2, "/host:odd") + len_field(3, events + len_field(2, "late") + int_field(3, 5))
    server.objects["odd.xplane.pb"] = len_field(1, plane_bytes) + make_large_capture()
    local, remote = fastprof.load(server.objects["odd.xplane.pb"]), fastprof.load("s3://bucket/odd.xplane.pb")
    columns = ["line", "name", "start_ps"]
    for planes in ("TPU:1", "odd"):
        expected = local.select(planes=planes).event_table(columns)
        assert remote.select(planes=planes).event_table(columns).equals(expected)
    assert remote.lines.equals(local.lines)
    assert remote.events.drop_columns("host").equals(local.events.drop_columns("host"))


@pytest.mark.parametrize("name", ["a.xplane.pb.gz", "a.xplane.pb"])
def test_compression_is_known_by_content(server: ObjectServer, name: str) -> None:
    server.objects[name] = gzip.compress(CAPTURE)
    read = fastprof.load(f"s3://bucket/{name}").events
    columns = ["name", "start_ps", "duration_ps"]
    assert read.select(columns).equals(fastprof.load(LOGDIR).events.select(columns))


@pytest.mark.parametrize("fault", ["drop", "short", "503"])
def test_one_fault_of_a_range_is_forgiven(server: ObjectServer, url: str, fault: str) -> None:
    if fault == "short" and url == URL and not store_path.has_obstore():
        pytest.skip("pyarrow does not notice short answers")
    server.fault = only_ranges(fault, 1)
    assert fastprof.load(url).events.num_rows == 752
    assert len([request for request in server.requests if request.range not in (None, (0, 1))]) >= 2


@pytest.mark.parametrize("client", ["pyarrow", "http"])
def test_faults_that_stay_name_url_and_range(
    server: ObjectServer, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = URL if client == "pyarrow" else f"{server.address}/bucket/{KEY}"
    monkeypatch.setattr(store_path, "has_obstore", lambda: False)
    monkeypatch.setattr(remote_file, "_WAIT_S", 0.0)
    server.fault = only_ranges("drop")
    with pytest.raises(UnreadableError, match=r"for the bytes 0 to [\d,]+") as caught:
        fastprof.load(url)
    assert caught.value.path == url


def test_a_broken_answer_goes_on_where_it_ended(
    server: ObjectServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_file, "BLOCK", 1 << 10)
    monkeypatch.setattr(remote_file, "_WAIT_S", 0.0)
    server.objects[KEY] = make_large_capture()
    server.fault = only_ranges("drop", 1)
    assert fastprof.load(url).events.num_rows == 20_000
    begins = [request.range[0] for request in server.requests if request.range not in (None, (0, 1))]
    can_go_on = store_path.has_obstore() or url != URL  # pyarrow gives all of an answer or nothing
    assert begins[0] == 0 and (begins[-1] > 0) == can_go_on


def test_bytes_can_be_read_before_the_rest_of_their_range_has_come(server: ObjectServer) -> None:
    server.objects[KEY] = make_large_capture()
    server.fault = only_ranges("wait")
    for url in (URL, f"{server.address}/bucket/{KEY}"):
        server.go_on.clear()
        file = remote_file.open_remote_file(make_store_path(url))
        assert file is not None
        file.fetch(0, 2 * remote_file.BLOCK)
        assert os.pread(file.begin(), 100, remote_file.BLOCK) == make_large_capture()[remote_file.BLOCK :][:100]
        assert file.fetched_bytes < len(make_large_capture()) // 2 + remote_file.BLOCK
        server.go_on.set()
        file.fetch(0, file.size)
        assert os.pread(file.begin(), file.size, 0) == make_large_capture()


def test_the_end_of_an_object_does_not_wait_for_its_middle(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_file, "BLOCK", 1 << 10)
    monkeypatch.setattr(remote_file, "RANGE", 1 << 14)
    server.objects[KEY] = make_large_capture()
    server.fault = lambda request: "wait" if request.range and request.range[1] < len(make_large_capture()) else None
    file = remote_file.open_remote_file(make_store_path(URL))
    assert file is not None
    file.fetch(file.size - 10, file.size)
    assert os.pread(file.begin(), 10, file.size - 10) == make_large_capture()[-10:]
    server.go_on.set()
    file.fetch(0, file.size)
    assert server.sent == len(make_large_capture())


def test_a_second_short_answer_ends_reading(server: ObjectServer) -> None:
    server.fault = only_ranges("short")
    with pytest.raises(UnreadableError, match=r"the answer has [\d,]+ bytes, not [\d,]+"):
        fastprof.load(f"{server.address}/bucket/{KEY}")
    assert len([request for request in server.requests if request.range not in (None, (0, 1))]) in (2, 4)


def test_an_answer_that_is_too_long_is_refused_and_not_taken_into_memory(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, read_into = [], http.client.HTTPResponse.readinto

    def measured(answer: http.client.HTTPResponse, piece: memoryview) -> int:
        sizes.append(read_into(answer, piece))
        return sizes[-1]

    monkeypatch.setattr(remote_file, "_WAIT_S", 0.0)
    monkeypatch.setattr(http.client.HTTPResponse, "readinto", measured)
    server.fault = only_ranges("long")
    with pytest.raises(UnreadableError, match=r"the answer has [\d,]+ bytes, not [\d,]+"):
        fastprof.load(f"{server.address}/bucket/{KEY}")
    assert 0 < sum(sizes) <= 32 * len(CAPTURE)  # tries, of at most one more byte each; an answer has 32 MiB


@pytest.mark.parametrize("status", ["403", "401"])
def test_a_refusal_is_not_tried_again_and_says_where_credentials_were_looked_for(
    server: ObjectServer, url: str, status: str
) -> None:
    server.fault = lambda _: status
    with pytest.raises(UnreadableError, match=r"refuses access.*credentials were looked for in: \w+"):
        fastprof.load(url)
    assert len(server.requests) <= 2


def test_an_absent_object_is_not_tried_again(server: ObjectServer, url: str) -> None:
    with pytest.raises(NotFoundError, match="no such object"):
        fastprof.load(url.replace("vm.", "other."))
    assert len(server.requests) <= 3


@pytest.mark.usefixtures("small_blocks")
def test_an_object_that_changes_after_it_was_opened_is_not_mixed(server: ObjectServer, url: str) -> None:
    server.objects[KEY] = make_large_capture()
    profile = fastprof.load(url)
    server.objects[KEY] = make_large_capture() + b"\0"
    with pytest.raises(ChangedError, match="changed"):
        profile.events  # noqa: B018


def test_an_object_that_changes_after_it_was_listed_is_not_read(server: ObjectServer) -> None:
    (run,) = fastprof.runs("s3://bucket/logs")
    (file,) = run.files
    server.objects[KEY] = CAPTURE * 2
    with pytest.raises(ChangedError):
        read_entire(file.source, file.path, 1 << 30)


def test_a_server_without_ranges_sends_the_file_once(server: ObjectServer) -> None:
    server.fault = lambda _: "no ranges"
    profile = fastprof.load(f"{server.address}/bucket/{KEY}")
    assert profile.events.num_rows == 752
    assert [request.range for request in server.requests] == [(0, 1), None]


def test_a_stream_that_breaks_off_is_no_capture(server: ObjectServer) -> None:
    server.fault = lambda request: "no ranges" if request.range else "drop"
    with pytest.raises(FastprofError, match="broke off"):
        fastprof.load(f"{server.address}/bucket/{KEY}")


def test_redirects_are_followed_within_a_scheme_only(server: ObjectServer) -> None:
    server.fault = lambda request: f"redirect {server.address}/bucket/{KEY}" if request.key == "moved" else None
    assert fastprof.load(f"{server.address}/bucket/moved").events.num_rows == 752
    server.fault = lambda _: "redirect ftp://127.0.0.1/secret?signature=abc"
    with pytest.raises(UnreadableError, match="redirects to ftp://, which is not followed") as caught:
        fastprof.load(f"{server.address}/bucket/moved")
    assert "abc" not in str(caught.value)


def test_a_url_may_have_spaces(server: ObjectServer) -> None:
    server.objects["my run/a b.xplane.pb"] = CAPTURE
    for path in ("my run/a b.xplane.pb", "my%20run/a%20b.xplane.pb"):
        assert fastprof.load(f"{server.address}/bucket/{path}").events.num_rows == 752


def test_an_empty_object_is_an_empty_capture(server: ObjectServer, url: str) -> None:
    server.objects[KEY] = b""
    with pytest.raises(fastprof.CaptureError, match="the file is empty"):
        fastprof.load(url)


def test_a_profile_pickles_with_the_options_of_its_store(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_SKIP_SIGNATURE"):
        monkeypatch.delenv(name)
    options: dict[str, Any] = {
        "endpoint": server.address,
        "skip_signature": "true",
        "client_options": {"allow_http": True},
    }
    profile = fastprof.load("s3://bucket/logs", storage_options=options)
    again = pickle.loads(pickle.dumps(profile))
    assert again.events.equals(profile.events)
    assert again.sources == profile.sources


@pytest.mark.usefixtures("server")
def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="colour"):
        fastprof.load(URL, storage_options={"colour": "blue"})
    with pytest.raises(UsageError, match="need the URL"):
        fastprof.load(LOGDIR, storage_options={"region": "x"})


def test_file_systems_of_fsspec_and_pyarrow_are_taken_as_they_are() -> None:
    import fsspec
    from pyarrow.fs import LocalFileSystem

    memory = fsspec.filesystem("memory")
    memory.pipe({f"/{KEY}": CAPTURE})
    local = fastprof.load(LOGDIR)
    try:
        for path in ("logs", "memory://logs", f"/{KEY}"):
            assert fastprof.load(path, filesystem=memory).events.equals(local.events)
        assert [run.hosts for run in fastprof.runs("logs", filesystem=memory)] == [["vm"]]
    finally:
        memory.rm("/logs", recursive=True)
    assert fastprof.load(str(LOGDIR.absolute()), filesystem=LocalFileSystem()).events.equals(local.events)
    with pytest.raises(UsageError, match="pyarrow or fsspec, not int"):
        fastprof.load("logs", filesystem=3)


@pytest.mark.usefixtures("small_blocks")
def test_a_version_is_compared_where_a_store_cannot_be_asked_for_it(tmp_path: Path) -> None:
    from pyarrow.fs import LocalFileSystem

    file = tmp_path / "a.xplane.pb"
    file.write_bytes(make_large_capture())
    profile = fastprof.load(str(file), filesystem=LocalFileSystem())
    file.write_bytes(make_large_capture()[:-1])
    with pytest.raises(ChangedError):
        profile.events  # noqa: B018


@pytest.mark.usefixtures("server")
def test_a_path_names_what_another_process_must_read() -> None:
    path = make_store_path(URL)
    assert path.look_up() == path.store.known[KEY]
    again = pickle.loads(pickle.dumps(path))
    assert (again, again.key, again.store.known) == (path, KEY, path.store.known)
