"""The cache folder: built once, whole or not at all, bounded, shared by threads and processes."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fastprof.errors import OutputError, UsageError
from fastprof.viewer import cache_folder
from fastprof.viewer.cache_folder import CacheFolder, make_source_key


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _write(size: int, calls: list[int] | None = None):  # type: ignore[no-untyped-def]
    def build(path: Path) -> None:
        if calls is not None:
            calls.append(1)
        path.write_bytes(b"x" * size)

    return build


def test_a_file_is_built_once_and_found_again(tmp_path: Path) -> None:
    calls: list[int] = []
    first = CacheFolder(tmp_path, 1000).file("k", _write(10, calls))
    again = CacheFolder(tmp_path, 1000).file("k", _write(10, calls))
    assert first == again and first.read_bytes() == b"x" * 10 and calls == [1]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build(path: Path) -> None:
        path.write_bytes(b"half")
        raise ValueError("broken capture")

    with pytest.raises(ValueError, match="broken capture"):
        CacheFolder(tmp_path, 1000).file("k", build)
    assert list(tmp_path.iterdir()) == []
    assert CacheFolder(tmp_path, 1000).file("k", _write(3)).stat().st_size == 3


def test_a_full_disk_is_reported_with_what_to_do(tmp_path: Path) -> None:
    def build(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"No space left on device.*--cache names another folder"):
        CacheFolder(tmp_path, 1000).file("k", build)


def test_the_file_used_longest_ago_goes_first(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 25)
    old, used = folder.file("old", _write(10)), folder.file("used", _write(10))
    os.utime(old, (1, 1))
    os.utime(used, (2, 2))
    folder.file("old", _write(10))  # used again: now the other is the oldest
    folder.file("new", _write(10))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.fastprof", "old.fastprof"]
    assert _size(tmp_path) == 20


def test_a_file_larger_than_the_limit_is_kept_while_it_is_the_newest(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 5)
    assert folder.file("big", _write(10)).exists()
    folder.file("next", _write(1))
    assert [p.name for p in tmp_path.iterdir()] == ["next.fastprof"]


def _build_for_ever(path: str) -> None:
    def build(target: Path) -> None:
        target.write_bytes(b"half")
        (Path(path) / "begun").touch()
        time.sleep(600)

    CacheFolder(path, 100).file("k", build)


def test_what_a_killed_build_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_build_for_ever, args=(str(tmp_path),))
    process.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    CacheFolder(tmp_path, 100).file("n", _write(1))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".fastprof", ".lock", ".partial"]
    process.kill()
    process.join()
    CacheFolder(tmp_path, 100).file("m", _write(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "m.fastprof", "n.fastprof"]
    assert CacheFolder(tmp_path, 100).file("k", _write(3)).stat().st_size == 3


def test_what_a_killed_build_leaves_is_removed_at_the_next_start_that_builds_nothing(tmp_path: Path) -> None:
    CacheFolder(tmp_path, 100).opened("n", _write(1), Path.read_bytes)
    process = multiprocessing.get_context("spawn").Process(target=_build_for_ever, args=(str(tmp_path),))
    process.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    CacheFolder(tmp_path, 100).opened("n", pytest.fail, Path.read_bytes)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".fastprof", ".lock", ".partial"]
    process.kill()
    process.join()
    CacheFolder(tmp_path, 100).opened("n", pytest.fail, Path.read_bytes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "n.fastprof"]


def _keep_temporary_folder(path: str) -> None:
    folder = CacheFolder()
    folder.file("k", _write(5))
    Path(path).touch()
    time.sleep(600)


def test_the_temporary_folder_of_a_killed_process_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("FASTPROF_CACHE", "0")
    process = multiprocessing.get_context("spawn").Process(target=_keep_temporary_folder, args=(str(tmp_path / "is"),))
    process.start()
    while not (tmp_path / "is").exists():
        time.sleep(0.01)
    (others,) = temporary.iterdir()
    assert others.stat().st_mode & 0o777 == 0o700
    first = CacheFolder()
    assert {*temporary.iterdir()} == {others, first.path}
    process.kill()
    process.join()
    second = CacheFolder()
    assert {*temporary.iterdir()} == {first.path, second.path}
    del first, second
    assert [*temporary.iterdir()] == []


def test_many_builds_list_the_folder_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, looked_at, listed = CacheFolder(tmp_path, 10_000), [], CacheFolder._files
    monkeypatch.setattr(CacheFolder, "_files", lambda self: looked_at.extend(found := listed(self)) or found)
    for number in range(200):
        folder.file(str(number), _write(10))
    assert 0 < len(looked_at) < 2 * 200


def test_other_files_of_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    CacheFolder(tmp_path, 0).file("n", _write(1))
    assert (tmp_path / "notes.txt").exists()


def test_threads_that_want_one_file_build_it_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def build(path: Path) -> None:
        calls.append(1)
        time.sleep(0.1)
        path.write_bytes(b"x")

    folder = CacheFolder(tmp_path, 100)
    threads = [threading.Thread(target=folder.file, args=("k", build)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def _build_and_count(path: str) -> None:
    def build(target: Path) -> None:
        time.sleep(0.2)
        (Path(path) / f"built-{os.getpid()}").write_text("")
        target.write_bytes(b"x")

    CacheFolder(path, 100).file("k", build)


def test_processes_that_want_one_file_build_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_build_and_count, args=(str(tmp_path),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(list(tmp_path.glob("built-*"))) == 1


def test_the_key_records_files_and_versions_of_them_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a" * 200_000)
    two.write_bytes(b"a" * 200_000)
    os.utime(one, ns=(5, 5))
    key = make_source_key(one, "raw", 1)
    assert key is not None and key == make_source_key(one, "raw", 1)
    assert (
        len({key, make_source_key(two, "raw", 1), make_source_key(one, "raw", 2), make_source_key(one, "derived", 1)})
        == 4
    )
    with one.open("r+b") as file:
        file.seek(199_999)
        file.write(b"b")
    os.utime(one, ns=(5, 5))
    assert make_source_key(one, "raw", 1) != key


def test_what_is_not_a_regular_file_has_no_key(tmp_path: Path) -> None:
    assert make_source_key(tmp_path) is None
    assert make_source_key(tmp_path / "absent") is None
    os.mkfifo(tmp_path / "pipe")
    assert make_source_key(tmp_path / "pipe") is None


def test_the_environment_names_folder_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTPROF_CACHE", str(tmp_path / "deep" / "cache"))
    monkeypatch.setenv("FASTPROF_CACHE_LIMIT", "2MiB")
    folder = CacheFolder()
    assert folder.path == tmp_path / "deep" / "cache" and folder.limit_bytes == 2 << 20 and folder.lasting
    assert folder.path.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("FASTPROF_CACHE_LIMIT", "lots")
    with pytest.raises(UsageError, match="FASTPROF_CACHE_LIMIT"):
        CacheFolder()


def test_without_a_writable_folder_a_temporary_one_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FASTPROF_CACHE", str(tmp_path / "file" / "below"))
    folder = CacheFolder()
    assert not folder.lasting
    assert folder.file("k", _write(4)).stat().st_size == 4
    with pytest.raises(OutputError, match="--cache"):
        CacheFolder(tmp_path / "file" / "below")
    monkeypatch.setenv("FASTPROF_CACHE", "0")
    monkeypatch.chdir(tmp_path)
    assert not CacheFolder().lasting
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ---- opened: checked, and built again


def test_what_was_built_is_opened_again_after_a_check(tmp_path: Path) -> None:
    calls: list[int] = []
    for _ in range(2):
        found = CacheFolder(tmp_path, 1000).opened("k", _write(10, calls), lambda path: path.read_bytes()[:10])
        assert found == b"x" * 10
    assert calls == [1]


@pytest.mark.parametrize("spoilt", [b"", b"x" * 10, b"y" * 40])
def test_what_is_damaged_is_built_again(tmp_path: Path, spoilt: bytes) -> None:
    calls: list[int] = []
    folder = CacheFolder(tmp_path, 1000)
    folder.opened("k", _write(10, calls), Path.read_bytes)
    (file,) = tmp_path.iterdir()
    file.write_bytes(spoilt)
    assert folder.opened("k", _write(10, calls), Path.read_bytes) == b"x" * 10
    assert calls == [1, 1]


def test_what_cannot_be_read_though_it_is_whole_is_built_once_more(tmp_path: Path) -> None:
    calls: list[int] = []
    folder = CacheFolder(tmp_path, 1000)

    def refused(_path: Path) -> None:
        raise ValueError("of another version")

    folder.opened("k", _write(10, calls), Path.read_bytes)
    with pytest.raises(ValueError, match="of another version"):
        folder.opened("k", _write(10, calls), refused)
    assert calls == [1, 1]


def test_what_another_process_removes_before_it_is_open_is_built_again(tmp_path: Path) -> None:
    class Swept(CacheFolder):
        left = 1

        def file(self, key: str, build: Callable[[Path], None]) -> Path:
            path = super().file(key, build)
            if self.left:
                self.left -= 1
                path.unlink()
            return path

    folder, calls = Swept(tmp_path, 1000), list[int]()
    assert folder.opened("k", _write(10, calls), Path.read_bytes)[:10] == b"x" * 10
    assert calls == [1, 1]
    folder.left = 9
    with pytest.raises(FileNotFoundError):
        folder.opened("k", _write(1), Path.read_bytes)


@pytest.mark.parametrize("can_be_nameless", [True, False])
def test_what_is_mapped_has_no_name_and_keeps_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_be_nameless: bool
) -> None:
    """The system ends a process that reads a map behind the end of its file."""
    if not can_be_nameless:  # a file system without such files
        monkeypatch.setattr(cache_folder, "open_nameless", lambda *_: None)
    for _ in range(2):  # built just now, and there already
        view = CacheFolder(tmp_path, 1 << 20).opened("k", _write(100_000), _map)
        (file,) = tmp_path.iterdir()
        file.write_bytes(b"")
        assert view[99_999] == ord("x")


def test_a_copy_never_has_a_name_that_others_could_truncate(tmp_path: Path) -> None:
    names: list[list[str]] = []

    def opened(path: Path) -> mmap.mmap:
        names.append(sorted(one.name for one in tmp_path.iterdir()))
        for file in tmp_path.iterdir():
            os.truncate(file, 0)
        return _map(path)

    for key in ("k", "k", None):
        assert CacheFolder(tmp_path, 1 << 20).opened(key, _write(100_000), opened)[99_999] == ord("x")
    assert names == [["k.fastprof"]] * 3


@pytest.mark.parametrize("can_be_nameless", [True, False])
def test_what_is_not_kept_has_no_name_once_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_be_nameless: bool
) -> None:
    if not can_be_nameless:
        monkeypatch.setattr(cache_folder, "open_nameless", lambda *_: None)
    view = CacheFolder(tmp_path, 1 << 20).opened(None, _write(100_000), _map)
    assert list(tmp_path.iterdir()) == [] and view[99_999] == ord("x")


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def test_without_a_key_it_is_gone_once_it_is_open(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path, 1000)
    assert folder.opened(None, _write(10), Path.read_bytes) == b"x" * 10
    with pytest.raises(ValueError, match="no"):
        folder.opened(None, _write(10), lambda path: int(path.read_bytes() and "no"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("room", "tries", "there"), [(33_000, 2, ["c", "d", "new"]), (10_000, 3, ["new"])])
def test_on_a_full_disk_files_used_longest_ago_make_room(
    tmp_path: Path, room: int, tries: int, there: list[str]
) -> None:
    """Of four files of 8 kB the older half goes, and where that is not enough the rest."""
    folder = CacheFolder(tmp_path, 1 << 20)
    for number, name in enumerate("abcd"):
        os.utime(folder.file(name, _write(8000)), (number + 1, number + 1))
    (tmp_path / "notes.txt").write_text("mine")
    tried = []

    def build(path: Path) -> None:
        tried.append(path)
        path.write_bytes(b"x" * 8000)
        if _size(tmp_path) > room:
            raise OSError(28, "No space left on device")

    assert folder.file("new", build).read_bytes() == b"x" * 8000
    assert len(tried) == tries
    assert sorted(path.name for path in tmp_path.iterdir()) == [*(f"{name}.fastprof" for name in there), "notes.txt"]


def test_locks_are_let_go_of_when_the_process_ends(tmp_path: Path) -> None:
    folder, building, go_on = CacheFolder(tmp_path, 1000), threading.Event(), threading.Event()

    def build(path: Path) -> None:
        building.set()
        go_on.wait(10)
        path.write_bytes(b"x")

    thread = threading.Thread(target=folder.file, args=("k", build))
    thread.start()
    assert building.wait(10)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".lock", ".partial"]
    folder.let_go()
    assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
    go_on.set()
    thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["k.fastprof"]
