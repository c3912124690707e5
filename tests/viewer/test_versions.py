"""Captures that change while they are served: each answer is of one version, or says that its version is gone."""

from __future__ import annotations

import gzip
import os
import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gate import rounds
from served import Answer, Served, written
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.errors import ChangedError, UnreadableError
from fastprof.inputs import open_files
from fastprof.profile import profile
from fastprof.viewer import viewed_run, viewed_runs
from fastprof.viewer.cache_folder import CacheFolder

READ = (
    *("/api/event?at=0", "/api/report/kernel_stats", "/api/report/overview", "/api/timeline", "/api/names?ids=0-9"),
    *("/api/search?q=v", "/api/steps", "/api/range?start_ps=0&end_ps=99", "/api/report/kernel_stats/kernels.csv"),
)


def capture(number: int) -> bytes:
    """A version that its names, stats, times and size show."""
    marks = {"mark": f"v{number}x", "kernel_details": f"regs:{number} grid:8,4,2 block:128,2,1 occ_pct:50"}
    places = range(3 + number % 7)
    kernels = [event(f"v{number}x kernel {place}", place * 1000, 50 + number, marks) for place in places]
    vendor = {"device_vendor": "Nvidia"}
    return xspace(plane("/device:GPU:0", [line("Stream #1(Compute)", kernels, id=1)], stats=vendor, id=1))


def shown(answer: Answer) -> set[str]:
    """The versions that an answer shows."""
    return set(re.findall(r"v\d+x", answer.text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "host.xplane.pb"
    found.write_bytes(capture(1))
    return found


def of_version(address: str, version: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}version={version}"


def replaced(path: Path, data: bytes) -> None:
    """As tools write files: whole, under another name first."""
    other = path.with_name("other")
    other.write_bytes(data)
    other.replace(path)


def test_what_is_opened_says_its_version_and_so_does_each_answer(path: Path) -> None:
    served = Served(path)
    opened = served.get("/api/open")
    assert (opened["run"], opened["hosts"], opened["notice"]) == ("host.xplane.pb", ["host"], None)
    served.timeline()
    for address in READ:
        answer = served.client.get(address)
        assert (answer.status_code, answer.headers["fastprof-version"]) == (200, opened["version"]), address
        assert served.client.get(of_version(address, opened["version"])).status_code == 200
    assert served.timeline()["key"].startswith(opened["version"] + "-")


@pytest.mark.parametrize("change", [replaced, Path.write_bytes])
@pytest.mark.parametrize("address", READ)
def test_a_version_that_was_replaced_is_gone(path: Path, address: str, change: Any) -> None:
    served = Served(path)
    served.timeline()
    version = served.get("/api/open")["version"]
    before = served.client.get(address)
    change(path, capture(2))
    status, sentence = served.refused(of_version(address, version))
    assert status == 410
    assert re.search(r"host\.xplane\.pb changed after this page was loaded; reload the page", sentence)
    served.timeline()
    after = served.client.get(address)
    assert after.headers["fastprof-version"] == served.get("/api/open")["version"] != version
    assert shown(before) <= {"v1x"} and shown(after) <= {"v2x"} and bool(shown(before)) == bool(shown(after))
    assert before.headers["etag"] != after.headers["etag"]


def test_a_tile_of_a_version_that_is_gone_is_refused(path: Path) -> None:
    served = Served(path)
    address = f"/api/tiles/{served.timeline()['key']}/0/0"
    assert served.client.get(address).status_code == 200
    replaced(path, capture(2))
    served.get("/api/open")
    assert served.refused(address)[0] == 410
    assert served.tile(0).duration.tolist()[:1] == [52]


def test_a_packed_capture_has_versions_too(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb.gz"
    path.write_bytes(gzip.compress(capture(1)))
    served = Served(path)
    version = served.get("/api/open")["version"]
    path.write_bytes(gzip.compress(capture(2)))
    assert served.refused("/api/event", at=0, version=version)[0] == 410
    served.timeline()
    assert shown(served.client.get("/api/event?at=0")) == {"v2x"}


def test_a_capture_that_changes_while_an_answer_is_made_gives_no_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastprof.analyses import runner

    served = Served(path)
    served.timeline()
    real = runner.run

    def run(*args: Any, **rest: Any) -> Any:
        found = real(*args, **rest)
        replaced(path, capture(2))
        return found

    monkeypatch.setattr(runner, "run", run)
    assert served.refused("/api/report/kernel_stats")[0] == 410
    monkeypatch.setattr(runner, "run", real)
    assert shown(served.client.get("/api/report/kernel_stats")) == {"v2x"}, "what was computed is not kept"


def test_a_capture_that_is_deleted_is_shown_on(path: Path) -> None:
    served = Served(path)
    served.timeline()
    version = served.get("/api/open")["version"]
    path.unlink()
    assert served.get("/api/open")["version"] == version
    assert shown(served.client.get(f"/api/event?at=0&version={version}")) == {"v1x"}
    path.write_bytes(capture(2))
    assert served.refused("/api/event", at=0, version=version)[0] == 410


def test_what_a_changed_capture_gave_does_not_get_into_the_cache(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CacheFolder(tmp_path / "cache")
    profile = fastprof.load(path)
    replaced(path, capture(2))
    with pytest.raises(ChangedError):
        viewed_run.open_raw_store(profile.table_set, 0, cache)
    profile = fastprof.load(path)
    real = viewed_run._write_store

    def write(*args: Any) -> None:
        real(*args)
        replaced(path, capture(3))

    monkeypatch.setattr(viewed_run, "_write_store", write)
    with pytest.raises(ChangedError):
        viewed_run.open_raw_store(profile.table_set, 0, cache)
    assert list(cache.path.iterdir()) == []


def test_a_host_that_writes_later_makes_another_version_of_the_run(tmp_path: Path) -> None:
    folder = written(tmp_path, capture(1))
    (path,) = folder.rglob("*.xplane.pb")
    path.with_name("broken.xplane.pb").write_bytes(b"")
    path.with_name("host0.xplane.pb.gz").write_bytes(b"a copy")
    served = Served(folder, on_error="skip")
    opened = served.get("/api/open")
    assert opened["hosts"] == ["host0"]
    path.with_name("host1.xplane.pb.tmp").write_bytes(capture(2))
    path.with_name("jit_f(1).hlo_proto.pb").write_bytes(b"")
    assert served.get("/api/open") == opened
    path.with_name("host1.xplane.pb.tmp").rename(path.with_name("host1.xplane.pb"))
    status, sentence = served.refused("/api/timeline", version=opened["version"])
    assert (status, "host1.xplane.pb changed after this page" in sentence) == (410, True)
    assert served.get("/api/open")["hosts"] == ["host0", "host1"]


def test_a_run_that_was_closed_is_opened_again_under_its_version(tmp_path: Path) -> None:
    for number in range(6):
        folder = tmp_path / "plugins" / "profile" / f"run{number}"
        folder.mkdir(parents=True)
        (folder / "h.xplane.pb").write_bytes(capture(number))
    served = Served(tmp_path)
    first = served.get("/api/open", run="run0")
    for number in range(6):
        served.get("/api/open", run=f"run{number}")
    assert "run0" not in served.runs._open
    answer = served.client.get(f"/api/timeline?run=run0&version={first['version']}")
    assert (answer.status_code, answer.headers["fastprof-version"]) == (200, first["version"])
    key = f"{first['version']}-00000000"
    assert served.refused(f"/api/tiles/{key}/0/0?run=run0")[0] == 409


def test_a_file_that_changed_before_it_was_asked_for_again_is_damaged_and_then_good(path: Path) -> None:
    served = Served(path)
    version = served.get("/api/open")["version"]
    path.write_bytes(capture(2)[:-7])
    assert served.refused("/api/event", at=0, version=version)[0] == 410
    status, sentence = served.refused("/api/open")
    assert (status, str(path) in sentence) == (422, True)
    path.write_bytes(capture(3))
    served.timeline()
    assert shown(served.client.get("/api/event?at=0")) == {"v3x"}


def test_answers_are_of_one_version_however_a_capture_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty rounds: a file is cut, written again in place, replaced, or deleted."""
    monkeypatch.setattr(viewed_run, "_FIRST_PICTURE_S", 0.0)
    draw = random.Random(14)
    folder = written(tmp_path, capture(0))
    (path,) = folder.rglob("*.xplane.pb")
    served = Served(folder, cache=CacheFolder(tmp_path / "cache"))
    versions = {served.get("/api/open")["version"]: {"v0x"}}
    statuses: dict[int, int] = {}
    for number in range(1, 1 + rounds(50, 15)):
        served.timeline()
        held = list(versions)[-1]
        data = capture(number)
        way = draw.choice(["cut", "write", "replace", "delete"])
        if way == "cut":
            with path.open("r+b") as file:
                file.truncate(draw.randrange(path.stat().st_size))
        elif way == "write":
            path.write_bytes(data)
        elif way == "replace":
            replaced(path, data)
        else:
            path.unlink()
        for address in draw.sample(READ, 4):
            answer = served.client.get(of_version(address, held))
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code == (200 if way == "delete" else 410), (way, address, answer.text[:200])
            if answer.status_code == 200:
                assert answer.headers["fastprof-version"] == held
                assert shown(answer) <= versions[held]
        if way in ("cut", "delete"):
            path.write_bytes(data)
        opened = served.get("/api/open")
        versions[opened["version"]] = {f"v{number}x"}
        served.timeline()
        for address in draw.sample(READ, 4):
            answer = served.client.get(address)
            assert (answer.status_code, answer.headers["fastprof-version"]) == (200, opened["version"])
            assert shown(answer) <= versions[opened["version"]], (way, address)
    assert len(versions) == rounds(50, 15) + 1
    assert set(statuses) == {200, 410}


@pytest.mark.parametrize("change", [replaced, Path.write_bytes])
def test_answers_made_while_a_capture_changes_are_of_one_version(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, bytes], object]
) -> None:
    monkeypatch.setattr(viewed_run, "_FIRST_PICTURE_S", 0.0)
    served = Served(path)
    shows: defaultdict[str, set[str]] = defaultdict(set)
    openings: Counter[int] = Counter()
    statuses: Counter[int] = Counter()
    over = threading.Event()

    def ask(seed: int) -> None:
        draw = random.Random(seed)
        while not over.is_set():
            opened = served.client.get("/api/open")
            openings[opened.status_code] += 1
            if opened.status_code != 200:
                continue
            version = opened.json()["version"]
            for address in draw.sample(READ, 3):
                answer = served.client.get(of_version(address, version))
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    assert answer.headers["fastprof-version"] == version
                    shows[version] |= shown(answer)

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask, seed) for seed in range(3)]
        for number in range(2, 40):
            change(path, capture(number))
            over.wait(0.03)
        over.set()
        for one in asking:
            one.result()
    assert set(openings) <= {200, 410, 422}, "422: while it is written, the file is empty"
    assert set(statuses) <= {200, 409, 410}, "409: not as far yet"
    assert 200 in statuses
    assert max(len(names) for names in shows.values()) == 1
    assert len(shows) > 1


def test_a_folder_or_a_pipe_with_the_name_of_a_capture_adds_none(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "run1"
    folder.mkdir(parents=True)
    (folder / "h.xplane.pb").write_bytes(capture(1))
    (folder / "g.xplane.pb").mkdir()
    served = Served(tmp_path)
    version = served.client.get("/api/open").json()["version"]
    os.mkfifo(folder / "f.xplane.pb")
    assert served.client.get(of_version("/api/timeline", version)).status_code in (200, 409)
    assert served.client.get("/api/open").json()["version"] == version


def test_a_capture_that_is_rewritten_and_given_its_old_time_is_another_version(path: Path) -> None:
    served = Served(path)
    version = served.client.get("/api/open").json()["version"]
    status = path.stat()
    data = bytearray(path.read_bytes())
    with path.open("r+b") as file:
        file.write(bytes(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert served.client.get(of_version("/api/event?host=h&event=0", version)).status_code == 410
    again = served.client.get("/api/open")
    assert again.status_code == 200 and again.json()["version"] != version


def test_a_pipe_in_the_place_of_a_capture_is_not_waited_for(path: Path) -> None:
    """Nobody may ever write to it."""
    served = Served(path)
    version = served.get("/api/open")["version"]
    path.unlink()
    os.mkfifo(path)
    for _ in range(2):
        status, sentence = served.refused("/api/open")
        assert (status, sentence) == (404, f"{path}: is now a pipe or a device; a file was expected")
    assert served.refused("/api/event", at=0, version=version)[0] == 410
    path.unlink()
    replaced(path, capture(2))
    served.timeline()
    assert shown(served.client.get("/api/event?at=0")) == {"v2x"}


def test_a_pipe_that_takes_the_place_of_a_capture_between_two_looks_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(path)
    served.timeline()
    path.write_bytes(capture(2))
    real = profile.OpenSession

    def opening(*args: Any) -> Any:
        path.unlink()
        os.mkfifo(path)
        return real(*args)

    monkeypatch.setattr(profile, "OpenSession", opening)
    status, sentence = served.refused("/api/open")
    assert (status, sentence) == (404, f"{path}: is a pipe or a device; a file was expected")


class Loads:
    """How often a server tries to open its capture."""

    def __init__(self, served: Served) -> None:
        self.count = 0
        self._load = served.runs._load
        served.runs._load = self._counted

    def _counted(self, name: str | None) -> fastprof.Profile:
        self.count += 1
        return self._load(name)


@pytest.mark.parametrize("is_directory", [False, True])
def test_a_broken_packed_capture_is_unpacked_once(tmp_path: Path, is_directory: bool) -> None:
    path = tmp_path / "h.xplane.pb.gz"
    path.write_bytes(gzip.compress(capture(1)))
    served = Served(tmp_path if is_directory else path)
    loads = Loads(served)
    for number in (1, 2):
        path.write_bytes(gzip.compress(capture(number))[:-9])
        for _ in range(3):
            opened, missing = (served.client.get(name) for name in ("/api/open", "/api/event?at=0"))
            assert (opened.status_code, missing.status_code) == (200 if is_directory else 422, 422)
            assert "the gzip data are damaged or cut off" in opened.text
        assert loads.count == number
    path.write_bytes(gzip.compress(capture(3)))
    served.timeline()
    assert shown(served.client.get("/api/event?at=0")) == {"v3x"}


def test_a_capture_that_unpacks_to_too_much_is_unpacked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(path)
    loads = Loads(served)
    path.write_bytes(gzip.compress(capture(2)))
    monkeypatch.setattr(open_files, "MOST_UNPACKED", 9)
    for _ in range(3):
        assert "unpacks to more than" in served.refused("/api/open")[1]
    assert loads.count == 1


def test_what_the_system_refused_is_tried_again_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(path)
    loads = Loads(served)
    now = [0.0]
    monkeypatch.setattr(viewed_runs.time, "monotonic", lambda: now[0])
    real, disk = open_files.check_disk_space, UnreadableError("less than 1 GiB are free", path=str(path))

    def full(*_: Any) -> None:
        raise disk

    path.write_bytes(gzip.compress(capture(2)))
    monkeypatch.setattr(open_files, "check_disk_space", full)
    for _ in range(3):
        assert served.refused("/api/open") == (404, str(disk))
    assert loads.count == 1
    monkeypatch.setattr(open_files, "check_disk_space", real)
    now[0] += 60
    served.timeline()
    assert shown(served.client.get("/api/event?at=0")) == {"v2x"}
