"""How long readers wait for tiles while strangers hold connections, runs are listed and a run is loaded.

    python strangers.py [--capture FILE] [--strangers 1000] [--readers 100] [--runs 50000] [--seconds 20]

The server shows the newest run of a log directory. Readers ask for a tile each second, on connections that stay open:
first one of them alone, then all, then all while connections that never finish their header are opened again and again,
the runs are listed every second, and another run of the capture is opened. Strangers and readers are processes of their
own. Prints the tiles' times, descriptors, messages, and what listing took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ab import program
from captures import MAIN, capture
from viewer_probe import Ours, free_port

HALF = b"GET / HTTP/1.1\r\nhost: localhost\r\nx: "
SMALL = b"\x0a\x0b\x12\x09/host:CPU"
"""A capture of a host without events."""


# ---- clients


async def reader(port: int, paths: Sequence[str], until: float, waits: list[float], seed: int) -> None:
    """Asks for a tile each second, and notes how long it waited."""
    chance = random.Random(seed)
    await asyncio.sleep(chance.random())
    into, out = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
    while time.monotonic() < until:
        began = time.monotonic()
        request = f"GET {chance.choice(paths)} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: zstd\r\n\r\n"
        out.write(request.encode())
        head = await into.readuntil(b"\r\n\r\n")
        status, length = int(head.split()[1]), int(head.lower().split(b"content-length:")[1].split()[0])
        await into.readexactly(length)
        assert status == 200, head
        waits.append(time.monotonic() - began)
        await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
    out.close()


def readers(port: int, count: int, seconds: float, paths: Sequence[str]) -> dict[str, Any]:
    waits: list[float] = []

    async def all_of_them() -> list[Any]:
        until = time.monotonic() + seconds
        tasks = [reader(port, paths, until, waits, seed) for seed in range(count)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    failed = [repr(one) for one in asyncio.run(all_of_them()) if isinstance(one, BaseException)]
    return {"waits": waits, "failed": failed}


async def stranger(port: int) -> None:
    """Sends half a header and a byte of it each second, again and again."""
    while True:
        with suppress(OSError):
            into, out = await asyncio.open_connection("127.0.0.1", port)
            out.write(HALF)
            while not into.at_eof():
                out.write(b"x")
                with suppress(TimeoutError):
                    await asyncio.wait_for(into.read(1), 1)
            out.close()
        await asyncio.sleep(0.05)


def strangers(port: int, count: int) -> None:
    async def all_of_them() -> None:
        await asyncio.gather(*(stranger(port) for _ in range(count)))

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * count + 100), hard), hard))
    asyncio.run(all_of_them())


# ---- the server


def log_directory(folder: Path, source: Path, runs: int) -> tuple[Path, str]:
    """Runs, the newest two with the capture; and the name of the second."""
    begin = datetime(2020, 1, 1)
    names = [f"{begin + timedelta(minutes=17 * number):%Y_%m_%d_%H_%M_%S}" for number in range(runs)]
    root = folder / "plugins" / "profile"
    root.mkdir(parents=True)
    for number, name in enumerate(names):
        (root / name).mkdir()
        path = root / name / "host0.xplane.pb"
        if number < runs - 2:
            path.write_bytes(SMALL)
        else:
            shutil.copyfile(source, path)
    return folder, names[-2]


class Watcher(threading.Thread):
    """Descriptors of the process, and how long the listing of runs takes, each second."""

    def __init__(self, process: int, url: str) -> None:
        super().__init__(daemon=True)
        self.process, self.url = process, url
        self.descriptors: list[int] = []
        self.listings: list[float] = []
        self.sizes: list[int] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(1):
            self.descriptors.append(len(os.listdir(f"/proc/{self.process}/fd")))  # noqa: PTH208
            began = time.monotonic()
            with urllib.request.urlopen(f"{self.url}api/runs", timeout=300) as answer:
                self.sizes.append(len(answer.read()))
            self.listings.append(time.monotonic() - began)


def read_by(port: int, count: int, seconds: float, paths: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "readers", str(port), str(count), str(seconds)]
    said = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def say(what: str, found: dict[str, Any]) -> float:
    waits = sorted(found["waits"])
    slowest = waits[-1]
    middle, late = statistics.median(waits), waits[len(waits) * 99 // 100]
    print(
        f"{what:38} {len(waits):6,} tiles: median {middle * 1e3:7.1f} ms, 99 of 100 {late * 1e3:7.1f} ms, "
        f"slowest {slowest * 1e3:7.1f} ms, failed {len(found['failed'])} {found['failed'][:1] or ''}",
        flush=True,
    )
    return slowest


def measure(args: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp())
    source = Path(args.capture) if args.capture else capture(MAIN).path
    log, other = log_directory(folder / "log", source, args.runs)
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    messages = folder / "messages"
    with messages.open("wb") as errors:
        command = [program("fastprof"), "serve", str(log), "--port", str(port), "--cache", str(folder / "cache")]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    crowd = None
    try:
        began = time.perf_counter()
        ours = Ours(url, began)
        ours.settle()
        print(f"{args.runs:,} runs: the server is ready after {time.perf_counter() - began:.1f} s", flush=True)
        paths = tile_paths(ours)
        idle = say("one reader, nothing else", read_by(port, 1, args.seconds, paths))
        say(f"{args.readers} readers", read_by(port, args.readers, args.seconds, paths))
        crowd = subprocess.Popen([sys.executable, __file__, "strangers", str(port), str(args.strangers)])
        watcher = Watcher(server.pid, url)
        watcher.start()
        loading = threading.Timer(args.seconds / 4, open_run, (url, other))
        loading.start()
        slowest = say(
            f"with {args.strangers:,} strangers, a load, lists", read_by(port, args.readers, args.seconds, paths)
        )
        loading.join()
        watcher.over.set()
        watcher.join()
        print(f"slower than the idle server by         {(slowest - idle) * 1e3:.1f} ms; asked: at most 500")
        print(f"descriptors of the server              at most {max(watcher.descriptors):,}")
        print(f"messages                               {messages.stat().st_size:,} bytes")
        print(
            f"listing {args.runs:,} runs                   first {watcher.listings[0]:.2f} s, median "
            f"{statistics.median(watcher.listings):.2f} s, {max(watcher.sizes):,} bytes"
        )
        server.send_signal(signal.SIGINT)
        began = time.perf_counter()
        server.wait(30)
        print(f"ended by an interrupt                  after {time.perf_counter() - began:.2f} s")
    finally:
        for process in (crowd, server):
            if process is not None:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def open_run(url: str, name: str) -> None:
    began = time.perf_counter()
    with urllib.request.urlopen(f"{url}api/open?run={name}", timeout=300) as answer:
        answer.read()
    print(f"the other run is opened                after {time.perf_counter() - began:.2f} s", flush=True)


def tile_paths(ours: Ours) -> list[str]:
    """Tiles of all levels that the session has, at places drawn by lot."""
    chance = random.Random(3)
    key, span = ours.timeline["key"], int(ours.span)
    tracks = ",".join(str(one) for process in ours.timeline["processes"] for one in process["tracks"]["id"])
    top = max(span.bit_length() - 10, 1)
    return [
        f"/api/tiles/{key}/{level}/{chance.randrange(0, span + 1) >> (level + 10)}?tracks={tracks}"
        for level in (chance.randrange(max(top - 8, 0), top + 1) for _ in range(2000))
    ]


def main(words: Sequence[str]) -> None:
    if words[:1] == ["readers"]:
        print(json.dumps(readers(int(words[1]), int(words[2]), float(words[3]), json.load(sys.stdin))))
        return
    if words[:1] == ["strangers"]:
        strangers(int(words[1]), int(words[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capture", help="default: the main capture of the benchmarks")
    for name, usual in (("strangers", 1000), ("readers", 100), ("runs", 50_000), ("seconds", 20)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    measure(parser.parse_args(words))


if __name__ == "__main__":
    main(sys.argv[1:])
