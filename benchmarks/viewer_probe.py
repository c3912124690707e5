"""Opens a capture in a trace viewer's server as a browser would, once, and prints what it took as JSON.

    python viewer_probe.py fastprof CAPTURE       ours: first picture, new windows, windows seen before, memory, cache
    python viewer_probe.py xprof-rs CAPTURE       first picture and windows of its trace_viewer@

Nothing is cached when it begins. The clock starts with the server's process; times are those of the client, on
loopback, so they are upper bounds of what the server takes.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pyarrow as pa
from ab import program
from rivals import XPROF_RS

WIDTH = 1600
"""Pixels of the picture; windows of XProf's have 8,000 events a row, which is what its page asks for."""

WINDOWS = 60
ENCODINGS = "gzip, deflate, zstd"
"""What browsers take of a server on their machine, but for Brotli, which Python cannot read."""
ZSTD = b"\x28\xb5\x2f\xfd"
_PATIENCE_S = 600


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(url: str) -> bytes:
    """The body as it comes."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": ENCODINGS})
    with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
        body: bytes = answer.read()
        return body


def plain(body: bytes) -> bytes:
    if body.startswith(ZSTD):
        return bytes(pa.CompressedInputStream(pa.BufferReader(body), "zstd").read())
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def document(url: str) -> Any:
    return json.loads(plain(get(url)))


def first(url: str, began: float) -> bytes:
    """The answer of a server that is about to start."""
    while True:
        try:
            return get(url)
        except (URLError, ConnectionError):
            if time.perf_counter() - began > _PATIENCE_S:
                raise
            time.sleep(0.005)


def windows(span: float) -> list[tuple[float, float]]:
    """Places all over the session, from half of it to a hundred-thousandth."""
    chance = random.Random(7)
    found = []
    for number in range(WINDOWS):
        width = span / 2 / 50_000 ** (number / (WINDOWS - 1))
        begin = chance.random() * (span - width)
        found.append((begin, begin + width))
    return found


def peak_bytes(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def timed(ask: Callable[[], Any]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


class Ours:
    """Asks for tiles as the page does."""

    def __init__(self, url: str, began: float) -> None:
        self.url = url
        first(url, began)
        self.timeline = document(f"{url}api/timeline")
        while any(host["state"] in ("building", "waiting") for host in self.timeline["hosts"]):
            self.timeline = document(f"{url}api/timeline?after={self.timeline['key']}")
        self.span = int(self.timeline["span_ps"])
        self.slices = 0

    def settle(self) -> None:
        """Waits for what is derived, so that windows are measured on a server that does nothing else."""
        while any(host["derived"] == "building" for host in self.timeline["hosts"]):
            self.timeline = document(f"{self.url}api/timeline?after={self.timeline['key']}")

    def picture(self, begin: float, end: float) -> None:
        level = max(0, math.ceil(math.log2((end - begin) / WIDTH)))
        tile = 1 << level + 10
        tracks = ",".join(str(one) for process in self.timeline["processes"] for one in process["tracks"]["id"])
        for index in range(int(begin // tile), int(end // tile) + 1):
            body = plain(get(f"{self.url}api/tiles/{self.timeline['key']}/{level}/{index}?tracks={tracks}"))
            self.slices += int.from_bytes(body[12:16], "little")


def fastprof(capture: str) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    port = free_port()
    command = [program("fastprof"), "serve", capture, "--port", str(port), "--cache", str(folder), "-q"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        ours = Ours(f"http://127.0.0.1:{port}/", began)
        ours.picture(0, ours.span)
        shown = time.perf_counter() - began
        slices = ours.slices
        ours.settle()
        places = windows(ours.span)
        new = [timed(lambda place=place: ours.picture(*place)) for place in places]
        again = [timed(lambda place=place: ours.picture(*place)) for place in places]
        facts = {
            "slices": slices,
            "new_us": int(statistics.median(new) * 1e6),
            "new_p90_us": int(sorted(new)[len(new) * 9 // 10] * 1e6),
            "again_us": int(statistics.median(again) * 1e6),
            "peak_bytes": peak_bytes(process.pid),
            "cache_bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        }
        return {"seconds": [shown], "facts": facts}
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def xprof_rs(capture: str) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    run = folder / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    (run / "host.xplane.pb").symlink_to(Path(capture).resolve())
    port = free_port()
    began = time.perf_counter()
    command = [XPROF_RS.program("xprof-rs"), "--logdir", str(folder), "--port", str(port), "--host", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}/data/plugin/profile/data?run=run&tag=trace_viewer@&host=host&resolution=8000"
        body = first(url, began)
        shown = time.perf_counter() - began
        answer = json.loads(plain(body))
        span = answer["fullTimespan"][1] - answer["fullTimespan"][0]
        places = windows(span)
        ask = [f"{url}&start_time_ms={a}&end_time_ms={b}" for a, b in places]
        new = [timed(lambda one=one: get(one)) for one in ask]
        again = [timed(lambda one=one: get(one)) for one in ask]
        facts = {
            "slices": answer["returnedEventsSize"],
            "new_us": int(statistics.median(new) * 1e6),
            "new_p90_us": int(sorted(new)[len(new) * 9 // 10] * 1e6),
            "again_us": int(statistics.median(again) * 1e6),
            "peak_bytes": peak_bytes(process.pid),
            "cache_bytes": sum(
                file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()
            ),
        }
        return {"seconds": [shown], "facts": facts}
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    kinds = {"fastprof": fastprof, "xprof-rs": xprof_rs}
    print(json.dumps(kinds[sys.argv[1]](sys.argv[2])))
