"""An export is there whole or not at all, and replaces nothing but an export."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from exported import DEFAULT_TABLES, check_export, files, put_run

import fastprof
from fastprof.export import folders, hive, writers

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put_run(tmp_path / "run")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder to export into."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files(folder)}


# ---- what goes wrong in the middle ------------------------------------------------------------------


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def after(calls: int, fault: Callable[..., None]) -> Callable[..., Any]:
    """A method that works ``calls`` times, then fails."""

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        left = [calls]

        def method(*args: Any) -> Any:
            left[0] -= 1
            return fault() if left[0] < 0 else real(*args)

        return method

    return wrapped


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("step", ["__init__", "write", "close"])
@pytest.mark.parametrize("calls", [0, 1, 5])
def test_a_full_disk(kind: str, step: str, calls: int, run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is met in opening, writing or completing a file; what the disk had before is as it was."""
    monkeypatch.setattr(hive, "ROW_GROUP", 4)
    writer = writers.WRITERS[kind]
    monkeypatch.setattr(writer, step, after(calls, full)(getattr(writer, step)))
    with pytest.raises(fastprof.OutputError, match="cannot write: No space left on device") as caught:
        folders.write(fastprof.load(run), place / "out", format=kind, tables=["events", "event_stats", "nesting"])
    assert caught.value.path == str(place / "out")
    assert list(place.iterdir()) == []


def test_the_first_error_is_the_one_that_is_reported(run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are given up on are closed, which may fail as well."""

    def worse() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    writer = writers.ParquetWriter
    monkeypatch.setattr(writer, "write", after(0, full)(writer.write))
    monkeypatch.setattr(writer, "close", after(0, worse)(writer.close))
    with pytest.raises(fastprof.OutputError, match="No space left on device"):
        folders.write(fastprof.load(run), place / "out")
    assert list(place.iterdir()) == []


LIMITED = """\
import resource, sys
import fastprof
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
try:
    fastprof.load(sys.argv[1]).to_parquet(sys.argv[2], layout="paths")
except fastprof.OutputError as error:
    print(error)
"""


def test_a_file_that_the_system_does_not_let_grow(run: Path, place: Path) -> None:
    done = python(LIMITED, str(run), str(place / "out"))
    assert (done.stdout, done.stderr) == (f"{place / 'out'}: cannot write: File too large\n", "")
    assert list(place.iterdir()) == []


def python(program: str, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *argv]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


class UnforeseenError(Exception):
    pass


@pytest.mark.parametrize("fault", [UnforeseenError, KeyboardInterrupt, MemoryError, pa.ArrowInvalid])
@pytest.mark.parametrize("calls", [0, 3])
def test_any_other_error_goes_through(
    fault: type[BaseException], calls: int, run: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise fault("in the middle")

    writer = writers.ParquetWriter
    monkeypatch.setattr(writer, "write", after(calls, fail)(writer.write))
    with pytest.raises(fault, match="in the middle"):
        folders.write(fastprof.load(run), place / "out")
    assert list(place.iterdir()) == []


def test_a_capture_that_changes_meanwhile(run: Path, place: Path) -> None:
    profile = fastprof.load(run)

    def change(stage: str, *_: int) -> None:
        if stage == "exporting":
            os.utime(run / "vm1.xplane.pb", (0, 0))

    with pytest.raises(fastprof.ChangedError, match=r"vm1\.xplane\.pb: the file changed"):
        folders.write(profile, place / "out", progress=change)
    assert list(place.iterdir()) == []


# ---- what is killed ---------------------------------------------------------------------------------

KILLED = """\
import os, signal, sys
import fastprof
from fastprof.export import folders
from fastprof.export import hive
hive.ROW_GROUP = 4
def progress(stage, done, total):
    if stage == "exporting" and done == total:
        os.kill(os.getpid(), signal.SIGKILL)
folders.write(fastprof.load(sys.argv[1]), sys.argv[2], force=True, progress=progress)
"""


def test_a_killed_export_leaves_nothing_that_looks_whole(run: Path, place: Path) -> None:
    """It was complete but for its last table; readers of the folder above pass it over, and the next one succeeds."""
    out = place / "out"
    assert python(KILLED, str(run), str(out)).returncode == -signal.SIGKILL
    left = [path.name for path in place.iterdir()]
    assert len(left) == 1 and left[0].startswith(".out.") and left[0].endswith(".partial")
    assert any(name.startswith("events/") for name in files(place / left[0]))
    assert ds.dataset(place).files == []
    folders.write(fastprof.load(run), out)
    check_export(out, fastprof.load(run), DEFAULT_TABLES)


def test_a_killed_export_keeps_the_one_before(run: Path, place: Path) -> None:
    out = folders.write(fastprof.load(run).select(hosts="vm1"), place / "out", tables=["lines"])
    before = contents(out)
    assert python(KILLED, str(run), str(out)).returncode == -signal.SIGKILL
    assert contents(out) == before


# ---- what is there already --------------------------------------------------------------------------


def test_an_export_is_replaced_only_when_forced(run: Path, place: Path) -> None:
    """And not before the new one is complete; nothing of the old one is left."""
    profile = fastprof.load(run)
    out = folders.write(profile, place / "out", format="csv", tables=["nesting", "lines"])
    before = contents(out)
    with pytest.raises(fastprof.OutputError, match="already exists; use force"):
        folders.write(profile, out)
    assert contents(out) == before
    seen = []

    def look(stage: str, done: int, total: int) -> None:
        seen.append((stage, done, total, contents(out) == before))

    folders.write(profile, out, force=True, progress=look)
    assert seen[-1][1:] == (52, 52, True) and all(same for *_, same in seen)
    assert {name.split("/")[0] for name in files(out)} == set(DEFAULT_TABLES)
    assert [path.name for path in place.iterdir()] == ["out"]
    check_export(out, profile, DEFAULT_TABLES)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_every_export_can_be_replaced(kind: str, run: Path, place: Path, tmp_path: Path) -> None:
    """Of any format, with runs, with hosts of odd names."""
    odd = put_run(tmp_path / "plugins" / "profile" / "a run", ["a b", "50%", "größer"])
    out = folders.write(fastprof.load([run, odd]), place / "out", format=kind, tables=["nesting", "events", "hosts"])
    assert any("run=a%20run/host=50%25/" in name for name in files(out))
    folders.write(fastprof.load(run), out, force=True)
    check_export(out, fastprof.load(run), DEFAULT_TABLES)


STRANGERS = (
    "notes.txt",
    ".hidden",
    "events.parquet",
    "events/data.parquet",
    "events/host=vm0/part-1.parquet",
    "events/host=vm0/part-0.txt",
    "events/year=2026/part-0.parquet",
    "events/run=1/run=2/host=vm0/part-0.parquet",
    "mine/host=vm0/part-0.parquet",
    "events/host=vm0/part-0.parquet/inside",
    "lines",
)


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("beside", [False, True])
def test_what_no_export_has_written_is_never_replaced(name: str, beside: bool, run: Path, place: Path) -> None:
    out = place / "out"
    if beside:
        folders.write(fastprof.load(run), out, tables=["planes"])
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    (out / name).write_bytes(b"precious")
    before = contents(place)
    with pytest.raises(fastprof.OutputError, match=r"contains '.*', which is not part of an export; force"):
        folders.write(fastprof.load(run), out, force=True)
    assert contents(place) == before


@pytest.mark.parametrize("name", [".", "../out", "inside/.."])
def test_the_current_folder_is_replaced(name: str, run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = fastprof.load(run)
    out = folders.write(profile, place / "out", tables=["lines"])
    if "/.." in name:
        (out / "inside").mkdir()
        with pytest.raises(fastprof.OutputError, match="contains 'inside'"):
            folders.write(profile, out / name, tables=["planes"], force=True)
        (out / "inside").rmdir()
        return
    monkeypatch.chdir(out)
    folders.write(profile, name, tables=["planes"], force=True)
    monkeypatch.chdir(place)
    assert {file.split("/")[0] for file in files(out)} == {"planes"}
    assert [path.name for path in place.iterdir()] == ["out"]


def test_files_and_links_are_never_replaced(run: Path, place: Path) -> None:
    (place / "file").write_bytes(b"precious")
    (place / "folder").mkdir()
    (place / "link").symlink_to("folder")
    (place / "dangling").symlink_to("nowhere")
    for name in ("file", "link", "dangling"):
        with pytest.raises(fastprof.OutputError, match="already exists"):
            folders.write(fastprof.load(run), place / name)
        with pytest.raises(fastprof.OutputError, match="already exists and is not a folder; delete it first") as caught:
            folders.write(fastprof.load(run), place / name, force=True)
        assert caught.value.path == str(place / name)
    assert sorted(path.name for path in place.iterdir()) == ["dangling", "file", "folder", "link"]
    assert list((place / "folder").iterdir()) == []


def test_an_empty_folder_is_replaced_when_forced(run: Path, place: Path) -> None:
    with pytest.raises(fastprof.OutputError, match="already exists"):
        folders.write(fastprof.load(run), place)
    check_export(folders.write(fastprof.load(run), place, force=True), fastprof.load(run), DEFAULT_TABLES)


@pytest.mark.parametrize("force", [False, True])
def test_what_comes_into_being_meanwhile_is_kept(force: bool, run: Path, place: Path) -> None:
    out = place / "out"

    def intrude(*_: object) -> None:
        out.mkdir(exist_ok=True)
        (out / "mine").write_bytes(b"precious")

    with pytest.raises(fastprof.OutputError, match="contains 'mine'" if force else "already exists"):
        folders.write(fastprof.load(run), out, force=force, progress=intrude)
    assert contents(place) == {"out/mine": b"precious"}


@pytest.mark.parametrize("fault", [OSError(errno.EBUSY, "Device or resource busy"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing", [0, 1])
def test_the_old_one_comes_back_where_the_new_one_cannot_take_its_place(
    fault: BaseException, failing: int, run: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folders.write(fastprof.load(run), place / "out", tables=["lines"])
    before = contents(out)
    real, calls = Path.rename, [0]

    def rename(self: Path, target: Path) -> Path:
        calls[0] += 1
        if calls[0] == failing + 1:
            raise fault
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(fastprof.OutputError if isinstance(fault, OSError) else KeyboardInterrupt):
        folders.write(fastprof.load(run), out, force=True)
    assert contents(out) == before
    assert [path.name for path in place.iterdir()] == ["out"]


# ---- where it goes ----------------------------------------------------------------------------------


def test_folders_above_are_made(run: Path, place: Path) -> None:
    out = folders.write(fastprof.load(run), place / "not" / "yet" / "out", tables=["lines"])
    assert files(out) == ["lines/host=vm0/part-0.parquet", "lines/host=vm1/part-0.parquet"]


def test_a_place_that_cannot_be_written(run: Path, place: Path) -> None:
    (place / "file").write_bytes(b"precious")
    for out, why in ((place / "file" / "out", "Not a directory|File exists"), (place / ("x" * 250), "name too long")):
        with pytest.raises(fastprof.OutputError, match=f"cannot write: .*({why})") as caught:
            folders.write(fastprof.load(run), out)
        assert caught.value.path == str(out)
    if Path("/proc/self").exists():  # not even root may write here
        with pytest.raises(fastprof.OutputError, match="cannot write"):
            folders.write(fastprof.load(run), "/proc/self/out")
    assert contents(place) == {"file": b"precious"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(run: Path, place: Path) -> None:
    place.chmod(0o500)
    try:
        with pytest.raises(fastprof.OutputError, match="cannot write: Permission denied"):
            folders.write(fastprof.load(run), place / "out")
    finally:
        place.chmod(0o700)


def test_permissions_are_those_of_any_new_folder(run: Path, place: Path) -> None:
    before = os.umask(0o027)
    try:
        out = folders.write(fastprof.load(run), place / "out", tables=["lines"])
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (out, out / "lines", out / files(out)[0])] == [0o750, 0o750, 0o640]


def test_open_files_are_closed(place: Path) -> None:
    """However many tables and hosts: one host's files are open at a time."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = put_run(place / "run", [f"vm{number}" for number in range(12)])
    profile = fastprof.load(many)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 12, limit[1]))  # noqa: PTH208
    try:
        out = folders.write(profile, place / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert len(files(out)) == 12 * len(DEFAULT_TABLES)
