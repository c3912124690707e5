"""Which files make up what the user named: every rule of docs/sessions.md, on real directories."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from log_directories import NEW, OLD, codes, hosts, paths, profile, put

from fastprof.errors import NotFoundError, UnreadableError, UsageError
from fastprof.inputs.resolve import CaptureFile, Session, SessionRemark, list_runs, resolve

# Named files


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("vm.xplane.pb", "vm"),
        ("vm.xplane.pb.gz", "vm"),
        ("vm.xplane.pb.zst", "vm"),
        ("chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb", "chi-mi300x-013.ord.vultr.cpe.ice.amd.com"),
        ("10.0.0.2_6009.xplane.pb", "10.0.0.2_6009"),
        ("a.xplane.pb.xplane.pb", "a.xplane.pb"),
        ("xplane.pb", None),
        ("xplane.pb.gz", None),
        ("xplane.pb.zst", None),
        ("saved.pb", "saved"),
        ("saved.v2.pb.gz", "saved.v2"),
        ("saved.zst", "saved"),
        ("saved", "saved"),
        ("saved.bin", "saved.bin"),
        ("myxplane.pb", "myxplane"),
        ("run[1].xplane.pb", "run[1]"),
        ("*.xplane.pb", "*"),
    ],
)
def test_a_named_file_may_have_any_name(tmp_path: Path, name: str, host: str | None) -> None:
    put(tmp_path, name, "another.xplane.pb")
    path = str(tmp_path / name)
    assert resolve(path) == Session(None, (CaptureFile(host, path, path),), ())
    assert resolve(Path(path)) == resolve(path)


def test_a_relative_path_is_shown_as_given_and_opens_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "logs", "a.xplane.pb")
    monkeypatch.chdir(tmp_path)
    file = resolve("logs/a.xplane.pb").files[0]
    directory = resolve("./logs").files[0]
    monkeypatch.chdir("/")
    assert file.path == directory.path == "logs/a.xplane.pb"
    assert file.source == directory.source == str(tmp_path / "logs/a.xplane.pb")


def test_a_linked_file_keeps_the_name_of_the_link(tmp_path: Path) -> None:
    put(tmp_path, "real.pb")
    (tmp_path / "host7.xplane.pb").symlink_to("real.pb")
    assert hosts(resolve(tmp_path / "host7.xplane.pb")) == ["host7"]


def test_a_pipe_names_no_host_unless_it_is_called_as_captures_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "63")
    os.mkfifo(tmp_path / "vm.xplane.pb")
    assert hosts(resolve([tmp_path / "63", tmp_path / "vm.xplane.pb"])) == [None, "vm"]
    with pytest.raises(NotFoundError):
        resolve(tmp_path)  # reading a pipe that someone left in a directory would wait for ever


def test_a_dash_is_a_name_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError):
        resolve("-")
    put(tmp_path, "-")
    assert hosts(resolve("-")) == ["-"]


# Bytes and streams


@pytest.mark.parametrize("data", [b"", b"\x0a", bytearray(b"\x0a"), memoryview(b"\x0a")])
def test_bytes_are_a_capture(data: bytes) -> None:
    session = resolve(data)
    assert session == Session(None, (CaptureFile(None, "<bytes>", data),), ())
    assert session.files[0].source is data
    assert [file.path for file in resolve([data, b"other"]).files] == ["<bytes>", "<bytes>"]


def test_a_stream_is_named_after_its_file(tmp_path: Path) -> None:
    class Reader:
        def read(self, n: int = -1) -> bytes:
            return b""[:n]

    put(tmp_path, "vm.xplane.pb")
    with (tmp_path / "vm.xplane.pb").open("rb") as stream:
        assert resolve(stream).files == (CaptureFile(None, str(tmp_path / "vm.xplane.pb"), stream),)
    reader = Reader()
    assert resolve(reader).files == (CaptureFile(None, "<stream>", reader),)  # type: ignore[arg-type]
    with open(os.dup(0), "rb") as numbered:  # noqa: PTH123 - its .name is a number
        assert resolve(numbered).files[0].path == "<stream>"


def test_a_text_stream_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "vm.xplane.pb")
    with (tmp_path / "vm.xplane.pb").open() as stream, pytest.raises(UsageError, match="binary"):
        resolve(stream)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="binary"):
        resolve(io.StringIO())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (None, "NoneType"),
        (3, "int"),
        ([["a"]], "nested lists"),
        ({"a"}, "as a list"),
        (iter("ab"), "as a list"),
        ([], "the list of captures is empty"),
        ((), "the list of captures is empty"),
        ("", "the path is empty"),
        ([""], "the path is empty"),
        ("a\0b", "not a valid path"),
        ("a\ud800b", "not a valid path"),
    ],
)
def test_what_cannot_be_a_capture_is_a_usage_error(what: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        resolve(what)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        resolve(what, missing_ok=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["ftp://host/logs", "adl://b/*.pb", "ftps://h/a.xplane.pb?" + "x" * 300])
def test_urls_of_other_schemes_are_to_be_copied_first(url: str) -> None:
    with pytest.raises(UsageError, match=r"copy the file .* or mount it") as caught:
        resolve(url)
    assert caught.value.path == str(url).partition("?")[0]
    with pytest.raises(UsageError, match="copy"):
        resolve(["a.pb", url][1:], missing_ok=True)
    with pytest.raises(UsageError, match="copy"):
        list_runs(url)


def test_a_file_url_is_to_be_a_path() -> None:
    with pytest.raises(UsageError, match="without file://"):
        resolve("file:///tmp/a.xplane.pb")


# Run directories


def test_a_run_directory_is_its_captures_sorted_by_name(tmp_path: Path) -> None:
    run = put(
        tmp_path / NEW,
        "b.xplane.pb", "a.b.c.xplane.pb.gz", "xplane.pb", "c.xplane.pb.zst",
        "a.trace.json.gz", "perfetto_trace.json.gz", "jit_f(3).hlo_proto.pb", ".cached_tools.json",
        "cache_version.txt", "ALL_HOSTS.op_stats_v2.pb", "b.SSTABLE", "sub/deep.xplane.pb", ".b.xplane.pb",
        "~b.xplane.pb", "d.xplane.pb.tmp", "d.xplane.pb.part", "e.xplane.pb_.gstmp", "f.xplane.pb~",
    )  # fmt: skip
    session = resolve(run)
    assert hosts(session) == ["a.b.c", "b", "c", None]
    assert paths(session, run) == ["a.b.c.xplane.pb.gz", "b.xplane.pb", "c.xplane.pb.zst", "xplane.pb"]
    assert session.run == NEW
    assert codes(session) == [("info", "same_session")]
    assert resolve(f"{run}/") == session
    assert resolve(run, run=NEW) == session
    assert [r.hosts for r in list_runs(run)] == [["a.b.c", "b", "c"]]


def test_of_a_capture_and_its_compressed_copies_the_capture_is_read(tmp_path: Path) -> None:
    put(tmp_path, "a.xplane.pb.zst", "a.xplane.pb", "a.xplane.pb.gz", "b.xplane.pb.zst", "b.xplane.pb.gz")
    session = resolve(tmp_path)
    assert paths(session, tmp_path) == ["a.xplane.pb", "b.xplane.pb.gz"]
    assert codes(session) == [("notice", "compressed_copy")] * 3
    assert session.remarks[0].path == str(tmp_path / "a.xplane.pb.gz")
    assert "a.xplane.pb" in session.remarks[0].message
    assert paths(resolve(f"{tmp_path}/*.xplane.pb*"), tmp_path) == paths(session, tmp_path)


def test_a_linked_run_directory_and_linked_captures_work(tmp_path: Path) -> None:
    put(tmp_path, "real/vm.xplane.pb", "data.pb", "linked/x")
    (tmp_path / "run").symlink_to("real")
    assert (resolve(tmp_path / "run").run, hosts(resolve(tmp_path / "run"))) == ("run", ["vm"])
    for name in ("h0", "h1"):
        (tmp_path / f"linked/{name}.xplane.pb").symlink_to("../data.pb")
    assert hosts(resolve(tmp_path / "linked")) == ["h0", "h1"]


def test_a_dangling_capture_is_a_host_that_is_missing_when_opened(tmp_path: Path) -> None:
    put(tmp_path, "a.xplane.pb")
    (tmp_path / "b.xplane.pb").symlink_to("gone")
    (tmp_path / "c.xplane.pb").symlink_to("c.xplane.pb")
    assert hosts(resolve(tmp_path)) == ["a", "b", "c"]
    with pytest.raises(NotFoundError, match="a link to gone, which does not exist"):
        resolve(tmp_path / "b.xplane.pb")
    with pytest.raises(UnreadableError):
        resolve(tmp_path / "c.xplane.pb")


def test_the_current_directory_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / NEW, "a.xplane.pb", "sub/x")
    monkeypatch.chdir(tmp_path / NEW)
    assert resolve(".").run == NEW
    assert resolve("sub/..").run == NEW


def test_records_of_a_host_are_read_before_its_capture(tmp_path: Path) -> None:
    put(tmp_path, "a.xplane.pb", "a.xplane.riegeli", "b.xplane.riegeli")
    session = resolve(tmp_path)
    assert [(file.host, Path(file.path).name) for file in session.files] == [
        ("a", "a.xplane.riegeli"), ("b", "b.xplane.riegeli"),
    ]  # fmt: skip
    assert codes(session) == [("notice", "same_session")]
    assert hosts(resolve(tmp_path / "b.xplane.riegeli")) == ["b"]


def test_traces_are_read_where_there_is_no_capture(tmp_path: Path) -> None:
    put(tmp_path, "run/w_1.100.pt.trace.json", "run/w_1.200.pt.trace.json.gz", "run/w_2.90.pt.trace.json")
    session = resolve(tmp_path / "run")
    assert [(file.host, Path(file.path).name) for file in session.files] == [
        ("w_1", "w_1.200.pt.trace.json.gz"), ("w_2", "w_2.90.pt.trace.json"),
    ]  # fmt: skip
    assert codes(session) == [("notice", "earlier_trace")]
    put(tmp_path, "both/vm.xplane.pb", "both/vm.trace.json.gz")
    both = resolve(tmp_path / "both")
    assert hosts(both) == ["vm"]
    assert codes(both) == [("info", "same_session")]


# Globs


def test_a_glob_is_all_the_captures_it_matches(tmp_path: Path) -> None:
    put(tmp_path, profile(NEW), profile(OLD, "a"))
    put(tmp_path, f"plugins/profile/{NEW}/vm.trace.json.gz", "plugins/x.xplane.pb.tmp")
    one = resolve(f"{tmp_path}/plugins/profile/{NEW}/*")
    assert (hosts(one), one.run, one.remarks) == (["vm"], None, ())
    assert hosts(resolve(f"{tmp_path}/plugins/profile/*/*.xplane.pb")) == ["a", "vm"]
    assert hosts(resolve(f"{tmp_path}/**")) == ["a", "vm"]
    assert hosts(resolve(f"{tmp_path}/**/**/*.p[ab]")) == ["a", "vm"]
    assert hosts(resolve(f"{tmp_path}/**/{OLD}/?.xplane.pb")) == ["a"]
    assert hosts(resolve(Path(tmp_path, "plugins", "*", "*", "vm.*"))) == ["vm"]


def test_a_glob_of_directories_reads_each(tmp_path: Path) -> None:
    put(tmp_path, profile(NEW, "b"), profile(OLD, "a"))
    put(tmp_path, "plugins/profile/none/x.txt", "plugins/profile/readme.txt")
    assert hosts(resolve(f"{tmp_path}/plugins/profile/*")) == ["a", "b"]
    assert hosts(resolve(f"{tmp_path}/plugins/profile/2026*")) == ["b"]
    assert hosts(resolve(f"{tmp_path}/plugins/profile/*", run=OLD)) == ["a"]
    session = resolve(f"{tmp_path}/plug*")
    assert (hosts(session), session.run, codes(session)) == (["b"], NEW, [("info", "newest_run")])
    with pytest.raises(NotFoundError, match="3 paths match, but none has captures") as caught:
        resolve(f"{put(tmp_path, 'e1/x', 'e2/x', 'e3.txt')}/e*")
    assert caught.value.path == f"{tmp_path}/e*"
    with pytest.raises(NotFoundError, match="of a run '2024'"):
        resolve(f"{tmp_path}/plugins/profile/*", run="2024")


def test_a_glob_of_other_files_reads_them_as_named(tmp_path: Path) -> None:
    put(tmp_path, "a.pb", "b.bin", ".c.bin")
    assert hosts(resolve(f"{tmp_path}/*")) == ["a", "b.bin"]
    assert hosts(resolve(f"{tmp_path}/.c*")) == [".c.bin"]


def test_a_glob_is_one_only_if_nothing_has_its_name(tmp_path: Path) -> None:
    put(tmp_path, "run[1]/a.xplane.pb", "run1/b.xplane.pb")
    assert hosts(resolve(tmp_path / "run[1]")) == ["a"]
    assert hosts(resolve(tmp_path / "run[123]")) == ["b"]
    (tmp_path / "x*").symlink_to("gone")
    with pytest.raises(NotFoundError, match="a link to gone"):
        resolve(tmp_path / "x*")


def test_a_glob_that_matches_nothing(tmp_path: Path) -> None:
    for pattern in ("*.xplane.pb", "**/*.pb", "none/*", "a?/b", "**/none"):
        with pytest.raises(NotFoundError, match="no path matches") as caught:
            resolve(f"{tmp_path}/{pattern}")
        assert caught.value.path == f"{tmp_path}/{pattern}"


# Lists


def test_the_items_of_a_list_are_one_session(tmp_path: Path) -> None:
    put(tmp_path, f"a/{profile(NEW, 'h0')}", f"b/{profile(NEW, 'h1')}", "c.xplane.pb")
    session = resolve([tmp_path / "a", tmp_path / "b"])
    assert (session.run, hosts(session), codes(session)) == (NEW, ["h0", "h1"], [("info", "several_runs")])
    mixed = resolve((str(tmp_path / "a"), f"{tmp_path}/c*", b"data", io.BytesIO()))
    assert (mixed.run, hosts(mixed)) == (None, ["h0", "c", None, None])
    assert resolve([tmp_path / "a"]) == resolve(tmp_path / "a")


def test_the_same_file_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "run/a.xplane.pb", "run/b.xplane.pb", "other/a.xplane.pb")
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path)
    again = ["run", "run/a.xplane.pb", str(tmp_path / "run/../run/b.xplane.pb"), "link/a.xplane.pb"]
    session = resolve(again)
    assert [file.path for file in session.files] == ["run/a.xplane.pb", "run/b.xplane.pb"]
    assert codes(session) == [("info", "duplicate_file")] * 3
    assert session.remarks[2].path == "link/a.xplane.pb"
    data, stream = bytearray(b"x"), io.BytesIO()
    assert len(resolve([data, stream, data, stream, bytearray(b"x")]).files) == 3


def test_one_host_in_several_files_is_numbered(tmp_path: Path) -> None:
    put(tmp_path, *(f"{place}/vm.xplane.pb" for place in "abc"), "d/vm#2.xplane.pb")
    put(tmp_path, "a/xplane.pb", "b/xplane.pb")
    session = resolve([tmp_path / place for place in "abcd"])
    assert hosts(session) == ["vm", None, "vm#3", None, "vm#4", "vm#2"]
    assert codes(session) == [("info", "several_runs")] + [("notice", "duplicate_host")] * 2
    assert session.remarks[1].path == str(tmp_path / "b/vm.xplane.pb")
    assert "vm#3" in session.remarks[1].message
    copies = resolve([tmp_path / "a/vm.xplane.pb", put(tmp_path, "a/vm.xplane.pb.gz") / "a/vm.xplane.pb.gz"])
    assert hosts(copies) == ["vm", "vm#2"]


def test_captures_of_several_runs_are_one_session_with_a_remark(tmp_path: Path) -> None:
    put(tmp_path, "mon/a.xplane.pb", "tue/b.xplane.pb", "other/mon/c.xplane.pb")
    for several in (f"{tmp_path}/*/*.pb", [tmp_path / "mon", tmp_path / "tue"]):
        session = resolve(several)
        assert hosts(session) == ["a", "b"]
        (remark,) = session.remarks
        assert (remark.severity, remark.code, remark.path) == ("info", "several_runs", None)
        assert remark.message.startswith("captures of 2 directories are read as hosts of one run")
        assert remark.message.endswith(": mon, tue")
    (remark,) = resolve([tmp_path / "mon", tmp_path / "other" / "mon"]).remarks
    assert remark.message.endswith(f": {tmp_path / 'mon'}, {tmp_path / 'other' / 'mon'}")


def test_missing_items_may_be_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a.xplane.pb", "empty/x")
    items = [f"{tmp_path}/{name}" for name in ("gone.xplane.pb", "a.xplane.pb", "empty", "none*")]
    with pytest.raises(NotFoundError, match=r"gone\.xplane\.pb"):
        resolve(items)
    session = resolve(items, missing_ok=True)
    assert hosts(session) == ["a"]
    assert [(r.severity, r.code, r.path) for r in session.remarks] == [
        ("error", "missing", path) for path in (items[0], items[2], items[3])
    ]
    with pytest.raises(NotFoundError, match=r"gone\.xplane\.pb.*1 others failed too"):
        resolve([items[0], items[2]], missing_ok=True)
    with pytest.raises(NotFoundError):
        resolve(items[0], missing_ok=True)
    with pytest.raises(NotFoundError):
        resolve([items[0]], run="r", missing_ok=True)


# What the system refuses


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Directories that may not be listed: permissions stop no test that runs as root."""
    names: list[str] = []
    scandir = os.scandir

    def guarded(path: str) -> object:
        if Path(path).name in names:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    return names


def test_a_directory_that_may_not_be_listed(tmp_path: Path, refused: list[str]) -> None:
    put(tmp_path, f"logs/{profile(NEW)}", "logs/secret/x", "a.xplane.pb")
    refused.append("secret")
    assert codes(resolve(tmp_path / "logs")) == [("notice", "unreadable_directory")]
    for what in (tmp_path / "logs/secret", f"{tmp_path}/logs/secret/*.pb"):
        with pytest.raises(UnreadableError, match="Permission denied; it needs read permission") as caught:
            resolve(what)
        assert caught.value.path == str(tmp_path / "logs/secret")
    put(tmp_path, f"logs2/{profile(OLD, 'b')}")
    assert hosts(resolve(f"{tmp_path}/logs*/*")) == ["vm", "b"]
    session = resolve([tmp_path / "logs/secret", tmp_path / "a.xplane.pb"], missing_ok=True)
    assert (hosts(session), codes(session)) == (["a"], [("error", "unreadable")])
    with pytest.raises(UnreadableError):
        list_runs(tmp_path / "logs/secret")
    refused.append(NEW)
    with pytest.raises(NotFoundError, match=f"the system refused to list: .*{NEW}, .*secret"):
        resolve(tmp_path / "logs")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions_of_the_system(tmp_path: Path) -> None:
    put(tmp_path, "secret/a.xplane.pb")
    (tmp_path / "secret").chmod(0)
    try:
        for what in ("secret", "secret/a.xplane.pb", "secret/*.pb"):
            with pytest.raises(UnreadableError, match="Permission denied"):
                resolve(tmp_path / what)
    finally:
        (tmp_path / "secret").chmod(0o700)


# Names


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    run = os.fsencode(tmp_path) + b"/plugins/profile/r\xff"
    Path(os.fsdecode(run)).mkdir(parents=True)
    with open(run + b"/h\xfe\xc3\xa9.xplane.pb", "wb"):  # noqa: PTH123 - a path of bytes
        pass
    session = resolve(tmp_path)
    file = session.files[0]
    assert (session.run, file.host) == (r"r\xff", "h\\xfe\u00e9")
    assert file.path == f"{tmp_path}/plugins/profile/r\\xff/h\\xfe\u00e9.xplane.pb"
    assert Path(str(file.source)).exists()
    assert list_runs(tmp_path)[0].path.encode()
    assert resolve(tmp_path, run=list_runs(tmp_path)[0].name).files == session.files
    assert resolve(tmp_path, run=os.fsdecode(b"r\xff")).files == session.files
    assert resolve(os.fsdecode(run)).files == session.files
    assert [found.source for found in resolve(f"{tmp_path}/**/*.pb").files] == [file.source]
    for wrong in (f"{tmp_path}/plugins/profile/r\udcfd", f"{tmp_path}/\udcff/*"):
        with pytest.raises(NotFoundError) as caught:
            resolve(wrong)
        str(caught.value).encode()


def test_lines_and_spaces_in_names(tmp_path: Path) -> None:
    put(tmp_path, "a b\n.xplane.pb", " .xplane.pb")
    assert hosts(resolve(tmp_path)) == [" ", "a b\n"]


# The values


def test_values_are_frozen_and_travel(tmp_path: Path) -> None:
    put(tmp_path, profile(OLD), profile(NEW))
    session = resolve(tmp_path)
    assert pickle.loads(pickle.dumps(session)) == session
    assert isinstance(hash(session), int)
    with pytest.raises(AttributeError):
        session.run = "other"  # type: ignore[misc]
    assert SessionRemark("info", "a", "b", None) == SessionRemark("info", "a", "b", None)


def test_importing_loads_no_decoder() -> None:
    heavy = {"numpy", "pyarrow", "fastprof._native"}
    code = f"import sys, fastprof.inputs.resolve; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
