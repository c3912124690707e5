"""Reading captures in stores: time beside a plain parallel download, and bytes and requests that a question costs.

python benchmarks/remote_reading.py time [--events 4030000] [--rounds 5] [--mb-per-s 80]
                                                                             all events, beside a download; the speed is
                                                                             that of a connection
python benchmarks/remote_reading.py plane [--planes 16] [--events 5400000]   one plane of a gigabyte
python benchmarks/remote_reading.py runs                                     the list of 3,000 runs
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import fastprof

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "stores")]

from host_shape import write_host  # noqa: E402
from object_server import ObjectServer  # noqa: E402
from trace_builder import int_field, len_field  # noqa: E402
from trace_writer import CaptureWriter  # noqa: E402

LATENCY_S = 0.030
RANGE, SIDE_BY_SIDE = 8 << 20, 16
KEY = "host.xplane.pb"


def serve(objects: dict[str, bytes], latency_s: float, bytes_per_s: float | None, parent: Connection) -> None:
    """Serve in a process of its own until the other end closes; answers each message with requests and bytes since the
    last one, and processor seconds so far."""
    server = ObjectServer(latency_s, bytes_per_s)
    server.objects = objects
    with server.serving() as address:
        parent.send(address)
        while parent.recv():
            parent.send((len(server.requests), server.sent, time.process_time()))
            server.forget()


class Served:
    """A server in a process of its own."""

    def __init__(
        self, objects: dict[str, bytes], latency_s: float = LATENCY_S, bytes_per_s: float | None = None
    ) -> None:
        self._pipe, child = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=serve, args=(objects, latency_s, bytes_per_s, child), daemon=True)
        self._process.start()
        self.address: str = self._pipe.recv()
        os.environ |= {"AWS_ENDPOINT_URL": self.address, "AWS_ALLOW_HTTP": "true", "AWS_SKIP_SIGNATURE": "true"}

    def count(self) -> tuple[int, int, float]:
        """Return requests and bytes since the last call, and processor seconds of the server so far."""
        self._pipe.send(True)
        counted: tuple[int, int, float] = self._pipe.recv()
        return counted

    def close(self) -> None:
        self._pipe.send(False)
        self._process.join()


def download(address: str, size: int) -> None:
    """Download an object in ranges, side by side, into memory."""
    parts = urlsplit(address)

    def fetch(begin: int) -> int:
        connection = http.client.HTTPConnection(parts.netloc)
        end = min(begin + RANGE, size)
        connection.request("GET", f"/bucket/{KEY}", headers={"Range": f"bytes={begin}-{end - 1}"})
        length = len(connection.getresponse().read())
        connection.close()
        return length

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        assert sum(pool.map(fetch, range(0, size, RANGE))) == size


def measure_time(args: argparse.Namespace) -> None:
    path = ROOT / "build" / KEY
    path.parent.mkdir(exist_ok=True)
    with CaptureWriter(path) as out:
        write_host(out, np.random.default_rng(1), args.events)
    capture = path.read_bytes()
    served = Served({KEY: capture}, LATENCY_S, args.mb_per_s * 1e6)
    os.environ["FASTPROF_CACHE"] = "0"
    runs: dict[str, Callable[[], object]] = {
        "download": lambda: download(served.address, len(capture)),
        "events": lambda: fastprof.load(f"s3://bucket/{KEY}").events,
        "events of the local file": lambda: fastprof.load(path).events,
    }
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            serving, computing, begin = served.count()[2], time.process_time(), time.perf_counter()
            run()
            passed = time.perf_counter() - begin
            taken[name].append((passed, time.process_time() - computing, served.count()[2] - serving))
    served.close()
    path.unlink()
    base = statistics.median(wall for wall, _, _ in taken["download"])
    print(f"capture of {len(capture):,} bytes, {os.cpu_count()} processors")
    for name, rounds in taken.items():
        wall, here, there = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
        spread = f"({min(rounds)[0]:.3f} to {max(rounds)[0]:.3f})"
        processors = f"processors {here:.3f} s here, {there:.3f} s in the server"
        print(f"{name:28} {wall:6.3f} s  {wall / base:5.2f} of the download  {spread}; {processors}")


def make_planes(planes: int, events: int) -> bytes:
    """Return a capture with planes of equal size: the events of one are made once and repeated."""
    body = [
        len_field(4, int_field(1, at % 500 + 1) + int_field(2, at * 1000) + int_field(3, 900)) for at in range(20_000)
    ]
    head = int_field(1, 1) + len_field(2, "XLA Ops") + int_field(3, 1)
    one_line = head + b"".join(body) * (events // len(body))
    names = [
        len_field(4, int_field(1, at) + len_field(2, int_field(1, at) + len_field(2, f"fusion.{at}")))
        for at in range(1, 501)
    ]
    rest = len_field(3, one_line) + b"".join(names)
    return b"".join(len_field(1, len_field(2, f"/device:TPU:{number:02}") + rest) for number in range(planes))


def measure_plane(args: argparse.Namespace) -> None:
    capture = make_planes(args.planes, args.events)
    served = Served({KEY: capture})
    begin = time.perf_counter()
    profile = fastprof.load(f"s3://bucket/{KEY}")
    opened = served.count(), time.perf_counter() - begin
    chosen = profile.select(planes="^/device:TPU:03$")
    rows = chosen.event_table(["name", "start_ps", "duration_ps"]).num_rows
    requests, sent, _ = served.count()
    share = len(capture) / args.planes
    taken = time.perf_counter() - begin
    print(f"capture of {len(capture):,} bytes, plane of {share:,.0f}, {rows:,} events, {taken:.2f} s")
    print(f"opening: {opened[0][0]} requests, {opened[0][1]:,} bytes, {opened[1]:.2f} s")
    beyond = (sent + opened[0][1]) / share - 1
    print(f"plane: {requests} requests, {sent:,} bytes; together {beyond:+.1%} of the plane")
    served.close()


def measure_runs(_: argparse.Namespace) -> None:
    keys = (f"logs/plugins/profile/run_{run:04}/host{host}.xplane.pb" for run in range(3000) for host in range(8))
    served = Served(dict.fromkeys(keys, b"\0"))
    begin = time.perf_counter()
    count = len(fastprof.runs("s3://bucket/logs"))
    taken = time.perf_counter() - begin
    print(f"{count:,} runs of 8 hosts: {served.count()[0]} requests, {taken:.2f} s")
    served.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("time", "plane", "runs"))
    parser.add_argument("--events", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mb-per-s", type=float, default=80)
    parser.add_argument("--planes", type=int, default=16)
    args = parser.parse_args()
    args.events = args.events or {"time": 4_030_000, "plane": 5_400_000}.get(args.what, 0)
    {"time": measure_time, "plane": measure_plane, "runs": measure_runs}[args.what](args)


if __name__ == "__main__":
    main()
