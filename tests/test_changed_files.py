"""Files that change while they are read: what is returned is what they held when they were opened, or ChangedError."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from changing_files import CHANGES, WORK, Rounds, capture_of
from gate import rounds
from trace_builder import Metadata, event, int_field, len_field, line, plane, xspace

import fastprof
from fastprof.inputs import open_files
from fastprof.inputs.open_files import WatchedFile


def capture(duration: int, events: int = 2000) -> bytes:
    """Captures of durations below 128 have the same size."""
    stats = {"n": duration, "text": f"t{duration:03d}", "raw": b"%03d" % duration}
    made = [event(f"op {n} {duration:03d}", n, duration, stats if n % 100 == 0 else ()) for n in range(events)]
    named = Metadata(f"op 1 {duration:03d}", metadata=b"%03d" % duration, stats={"of_all": b"%03d" % duration})
    return xspace(plane("/host:CPU", [line("l", made)], event_metadata=[named], stats={"s": duration}))


CAPTURE, OTHER = capture(1), capture(2)
CHANGED = r"h\.xplane\.pb: the file (changed|was deleted) since it was loaded"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "h.xplane.pb"
    file.write_bytes(CAPTURE)
    return file


@pytest.fixture
def few_descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None stays open while nobody reads from it."""
    monkeypatch.setattr(open_files, "_limit_open_files", lambda: 0)
    yield


def other(path: Path, data: bytes) -> Path:
    """Another file of the same size and time of change, elsewhere."""
    found = path.with_name("other")
    found.write_bytes(data)
    status = path.stat()
    os.utime(found, ns=(status.st_atime_ns, status.st_mtime_ns))
    return found


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


# ---- between two reads


def test_a_file_that_is_deleted_can_still_be_read(path: Path) -> None:
    profile = fastprof.load(path)
    path.unlink()
    assert profile.events.num_rows == 2000


def test_a_file_that_is_renamed_can_still_be_read(path: Path) -> None:
    profile = fastprof.load(path)
    path.rename(path.with_name("elsewhere"))
    assert profile.events.num_rows == 2000


@pytest.mark.usefixtures("few_descriptors")
def test_a_file_that_is_deleted_and_was_closed_is_noticed(path: Path) -> None:
    profile = fastprof.load(path)
    path.unlink()
    with pytest.raises(fastprof.ChangedError, match=r"h\.xplane\.pb: the file was deleted since it was loaded"):
        profile.read("events")


@pytest.mark.parametrize("left", [0, 4096])
def test_a_file_that_was_cut_off_and_then_deleted_is_noticed(path: Path, left: int) -> None:
    profile = fastprof.load(path)
    os.truncate(path, left)
    path.unlink()
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


def test_a_file_that_another_took_the_place_of_is_read_as_it_was(path: Path) -> None:
    profile = fastprof.load(path)
    other(path, b"\xff" * len(CAPTURE)).replace(path)
    assert profile.events.num_rows == 2000


@pytest.mark.usefixtures("few_descriptors")
def test_a_file_that_another_took_the_place_of_and_that_was_closed_is_noticed(path: Path) -> None:
    profile = fastprof.load(path)
    other(path, OTHER).replace(path)
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(path: Path) -> None:
    profile = fastprof.load(path)
    programs = path.with_name("f.hlo_proto.pb")
    pickled = pickle.dumps(profile)
    path.unlink()
    os.mkfifo(path)
    os.mkfifo(programs)
    with pytest.raises(fastprof.UnreadableError, match=r"h\.xplane\.pb: is now a pipe or a device; a file was"):
        pickle.loads(pickled)
    for pattern in (path.with_name("*.xplane.pb"), programs):
        with pytest.raises(fastprof.UnreadableError, match=r"\.pb: is a pipe or a device; a file was expected"):
            fastprof.load(pattern)


@pytest.mark.parametrize("place", [os.mkfifo, os.mkdir])
@pytest.mark.usefixtures("few_descriptors")
def test_pipes_and_folders_in_the_place_of_a_file_that_was_closed_are_noticed(
    path: Path, place: Callable[[Path], None]
) -> None:
    profile = fastprof.load(path)
    path.unlink()
    place(path)
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


def test_a_file_that_was_cut_off_before_another_took_its_place_is_noticed(path: Path) -> None:
    profile = fastprof.load(path)
    fresh = other(path, CAPTURE)
    os.truncate(path, 0)
    fresh.replace(path)
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


def test_a_file_that_is_rewritten_at_once_in_its_size_is_noticed(path: Path) -> None:
    """Its time may go on in ticks of milliseconds: what was written in the same tick would have the same time."""
    for _ in range(20):
        path.write_bytes(CAPTURE)
        profile = fastprof.load(path)
        with path.open("r+b") as file:
            file.write(OTHER)
        with pytest.raises(fastprof.ChangedError, match=CHANGED):
            profile.read("events")


def test_a_file_that_is_rewritten_and_given_its_old_time_is_noticed(path: Path) -> None:
    profile = fastprof.load(path)
    status = path.stat()
    with path.open("r+b") as file:
        file.write(OTHER)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")


@pytest.mark.parametrize(
    "hide",
    [lambda path: path.chmod(0o600), lambda path: os.link(path, path.with_name("linked"))],
    ids=["rights", "link"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_rights_and_links_hide_no_rewriting(path: Path, hide: Callable[[Path], object], is_first: bool) -> None:
    """They change the only time that nobody can set back, so they are changes themselves."""
    profile = fastprof.load(path)
    batches = profile.scan(["name"], batch_rows=100)
    next(batches)
    status = path.stat()
    if is_first:
        hide(path)
    with path.open("r+b") as file:
        file.write(OTHER)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if not is_first:
        hide(path)
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("events")
    with pytest.raises(fastprof.ChangedError, match=CHANGED):
        profile.read("event_stats")


def test_the_check_leaves_no_descriptor_open(path: Path) -> None:
    profile = fastprof.load(path)
    path.unlink()
    before = open_descriptors()
    for _ in range(3):
        profile.select(names="op 1").read("events")
    assert open_descriptors() == before


def test_of_many_files_few_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_limit_open_files", lambda: 3)
    for number in range(12):
        (tmp_path / f"h{number:02d}.xplane.pb").write_bytes(capture(number, 10))
    before = open_descriptors()
    profile = fastprof.load(tmp_path)
    assert open_descriptors() <= before + 3
    assert profile.events["duration_ps"].to_pylist() == [number for number in range(12) for _ in range(10)]
    assert open_descriptors() <= before + 3
    del profile
    assert open_descriptors() <= before


# ---- while it is read


def tables(path: Path, **how: str) -> list[object]:
    """All that is read of a capture, by one thread."""
    profile = fastprof.load(path, threads=1, **how)  # type: ignore[arg-type]
    read = profile.read("events", "event_stats", "event_metadata", "event_metadata_stats", "lines", "planes")
    filtered = profile.select(names="op 5*", time_ps=(3, 900)).event_table(stats=["raw", "text"])
    return [
        *(table.to_pylist() for table in read.values()),
        filtered.to_pylist(),
        profile.tables["import_log"].to_pylist(),
    ]


def changing(monkeypatch: pytest.MonkeyPatch, method: str, when: int, change: Callable[[], None]) -> count:
    """Changes a file at call number ``when`` of a method, just after a descriptor is there to read from (``begin``), or
    just after all has been read (``end``). Returns the calls."""
    calls, real = count(), getattr(WatchedFile, method)

    def called(self: WatchedFile) -> object:
        found = real(self) if method == "begin" else None
        if next(calls) == when:
            change()
        return found if method == "begin" else real(self)

    monkeypatch.setattr(WatchedFile, method, called)
    return calls


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", ["begin", "end"])
@pytest.mark.parametrize("on_error", ["raise", "skip", "salvage"])
def test_a_change_at_any_read_gives_what_was_there_or_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch, method: str, change: str, on_error: str
) -> None:
    """No table is mixed, and a change is not skipped or salvaged as damage is."""
    small, fresh = capture(1, 150), path.with_name("new")
    fresh.write_bytes(capture(2, 150))
    path.write_bytes(small)
    with monkeypatch.context() as patch:
        calls = changing(patch, method, -1, lambda: None)
        expected = tables(path, on_error=on_error)
        reads = next(calls)
    assert reads > 15
    ended = set()
    for when in range(0, reads, rounds(1, 2) if on_error == "raise" else rounds(3, 6)):
        path.unlink()
        path.write_bytes(small)
        with monkeypatch.context() as patch:
            changing(patch, method, when, lambda: CHANGES[change](path, fresh, random.Random(1)))
            try:
                assert tables(path, on_error=on_error) == expected
                ended.add("right")
            except fastprof.ChangedError:
                ended.add("changed")
    assert ended <= ({"right", "changed"} if change == "replace" else {"changed"})


def test_a_line_in_any_order_is_read_from_a_file_as_from_memory(tmp_path: Path) -> None:
    """Its events are gathered in the order of the file, as many at a time as memory holds."""
    order = list(range(60_000))
    random.Random(1).shuffle(order)
    stat = [len_field(4, int_field(1, 1) + len_field(5, f"{n:05d}")) for n in range(100)]
    events = [int_field(1, 1 + n % 7) + int_field(2, n * 1000) + int_field(3, n % 90) + stat[n % 100] for n in order]
    metas = [Metadata(f"e{n}", 1 + n) for n in range(7)]
    data = xspace(plane("p", [line("l", events)], event_metadata=metas, stat_ids={"t": 1}))
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(data)
    mine, theirs = fastprof.load(path), fastprof.load(data)
    for name, columns in {
        "events": ["event_id", "name", "start_ps", "duration_ps"],
        "event_stats": ["event_id", "stat", "str_value"],
    }.items():
        assert mine.read(name)[name].select(columns).equals(theirs.read(name)[name].select(columns))
    assert mine.events["start_ps"].to_pylist() == [1000 * n for n in range(60_000)]
    assert mine.event_stats["str_value"].to_pylist() == [f"{n % 100:05d}" for n in range(60_000)]


def test_loading_does_not_read_the_events(tmp_path: Path) -> None:
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(capture_of(1, 8 << 20))

    def read_by_now() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    fastprof.load(path)
    before = read_by_now()
    profile = fastprof.load(path)
    assert read_by_now() - before < path.stat().st_size // 4
    assert profile.tables["event_metadata"].num_rows == 100


ROUNDS = int(os.environ.get("FASTPROF_CHANGE_ROUNDS", rounds(54, 36)))


def test_rounds_of_changes_at_random_moments(tmp_path: Path) -> None:
    """In a child process, which a signal would end: see changing_files.py, which has more and larger rounds."""
    rounds = Rounds(tmp_path, 3 << 20)
    assert rounds.run(ROUNDS) == []
    assert {(name, change) for name, change, _ in rounds.ended} == {
        (name, change) for name in WORK for change in CHANGES
    }
    assert sum(rounds.ended.values()) == ROUNDS
