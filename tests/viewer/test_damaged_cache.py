"""Files of the cache that are damaged anywhere: the answers are the same, and the files are whole again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo_captures import DEMO
from gate import rounds
from served import Served
from test_sealed_file import check_seal
from trace_builder import event, line, plane, xspace

from fastprof.viewer.cache_folder import CacheFolder


def capture() -> bytes:
    """Steps, launches that lead to kernels, ops of modules, and counters: something for each kind of file."""
    steps, calls, kernels, counts = [], [], [], []
    for number in range(40):
        begin, link = number * 1000, {"correlation_id": number + 7}
        steps.append(event("train", begin, 900, stats={"step_num": number, "_r": 1}))
        calls.append(event("cuLaunchKernel", begin + 100, 50, stats=link))
        stats = {
            **link,
            "hlo_op": f"fusion.{number % 3}",
            "hlo_module": "jit_step",
            "tf_op": f"jit(step)/layer/dot:{number}",
        }
        kernels.append(event(f"gemm {number % 5}", begin + 300, 200, stats=stats))
        counts.append(event("bytes in use", begin, 0, stats={"counter_value": number * 100}))
    python = line("python", [one for pair in zip(steps, calls, strict=True) for one in pair], id=1)
    return xspace(
        plane("/host:CPU", [python, line("_counters_", counts, id=2)]),
        plane("/device:GPU:0", [line("Stream #1(Compute)", kernels, id=1)], id=1),
    )


def answers(served: Served) -> dict[str, Any]:
    """What there is to be asked of each kind of file."""
    timeline = served.timeline()
    tracks = [one for process in timeline["processes"] for one in process["tracks"]["id"]]
    kinds = [one for process in timeline["processes"] for one in process["tracks"]["kind"]]
    found: dict[str, Any] = {"timeline": timeline}
    for level, index in ((0, 0), (0, 1), (8, 0), (30, 0)):
        found[f"tile {level} {index}"] = served.client.get(f"/api/tiles/{timeline['key']}/{level}/{index}").content
    found["range"] = served.get("/api/range", start_ps=0, end_ps=30_000)
    found["search"] = served.get("/api/search", q="e")
    found["hit"] = served.get("/api/search/next", q="e", from_ps=5000)
    found["flows"], found["steps"] = served.get("/api/flows"), served.get("/api/steps")
    events = sum(host["events"] + host["derived_events"] for host in timeline["hosts"])
    for at in (0, events // 2, events - 1):
        found[f"event {at}"] = served.get("/api/event", at=at)
    for track in [one for one, kind in zip(tracks, kinds, strict=True) if kind == "counter"]:
        found[f"counter {track}"] = served.get("/api/counters", track=track)
    return found


def flipped(data: bytearray, at: int) -> None:
    data[at] ^= 1 << at % 8


def zeroed(data: bytearray, at: int) -> None:
    data[at : at + 64] = bytes(len(data[at : at + 64]))


def filled(data: bytearray, at: int) -> None:
    data[at : at + 8] = b"\xff" * len(data[at : at + 8])


def repeated(data: bytearray, at: int) -> None:
    data[at:at] = data[at : at + 16] or b"\0"


def cut(data: bytearray, at: int) -> None:
    del data[at:]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    """A capture, a cache of it, and what is answered."""
    path, cache = tmp_path_factory.mktemp("capture") / "h.xplane.pb", tmp_path_factory.mktemp("cache")
    path.write_bytes(capture())
    expected = answers(Served(path, cache=CacheFolder(cache)))
    assert expected == answers(Served(path, cache=CacheFolder(cache)))
    assert len(expected["flows"]["flows"]["kind"]) == 40
    assert expected["steps"]
    assert len([name for name in expected if name.startswith("counter")]) == 2
    assert len(list(cache.iterdir())) == 3
    return path, cache, expected


@pytest.mark.parametrize("damage", [flipped, zeroed, filled, repeated, cut])
def test_damage_anywhere_changes_no_answer(
    kept: tuple[Path, Path, dict[str, Any]], damage: Callable[[bytearray, int], None]
) -> None:
    path, cache, expected = kept
    places = random.Random(damage.__name__)
    for _ in range(rounds(6, 2)):
        before = {file: file.read_bytes() for file in cache.iterdir()}
        for file, data in before.items():
            spoilt = bytearray(data)
            at = places.randrange(len(data))
            while spoilt == data:  # zeros that were zeros
                damage(spoilt, at)
                at = places.randrange(len(data))
            file.write_bytes(spoilt)
        assert answers(Served(path, cache=CacheFolder(cache))) == expected
        assert set(cache.iterdir()) == set(before)
        for file in before:
            check_seal(file)


def test_one_damaged_file_of_a_real_capture_is_built_again_and_the_others_are_kept(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = answers(Served(DEMO / "xla", cache=CacheFolder(cache)))
    for spoilt in sorted(cache.iterdir()):
        numbers = {file: file.stat().st_ino for file in cache.iterdir() if file != spoilt}
        size = spoilt.stat().st_size
        with spoilt.open("r+b") as file:
            file.seek(size // 2)
            file.write(b"\xff" * 64)
        assert answers(Served(DEMO / "xla", cache=CacheFolder(cache))) == first
        assert {file: file.stat().st_ino for file in numbers} == numbers
        check_seal(spoilt)


def test_files_that_are_truncated_while_a_run_is_shown_change_no_answer(
    kept: tuple[Path, Path, dict[str, Any]], tmp_path: Path
) -> None:
    path, _, expected = kept
    served = Served(path, cache=CacheFolder(tmp_path))
    served.timeline()
    for file in tmp_path.iterdir():
        file.write_bytes(b"")
    assert answers(served) == expected
