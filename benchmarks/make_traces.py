"""Makes captures of any size with the shape of real ones, seeded, written as they are made.

    python benchmarks/make_traces.py host OUT.xplane.pb --events 4030000
    python benchmarks/make_traces.py device OUT.xplane.pb --size 1GB
    python benchmarks/make_traces.py scale OUT.xplane.pb --capture IN.xplane.pb --times 100 --planes /device
    python benchmarks/make_traces.py pod OUT --hosts 64 --steps 125       a run directory
    python benchmarks/make_traces.py kineto OUT.json --events 1000000     a trace of PyTorch's profiler

Beside OUT, ``OUT.json`` says how many events, stats and lines it holds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from device_shape import write_devices
from host_shape import HostCapture, write_host, write_small_lines
from kineto_shape import write_kineto
from memory_shape import write_memory
from pipeline_shape import write_pipelines
from pod_shape import write_pod
from program_shape import write_program
from trace_scale import scale
from trace_writer import CaptureWriter

Shape = Callable[[CaptureWriter, np.random.Generator, int], HostCapture]

EVENTS_A_SMALL_LINE = 60


def many_lines(out: CaptureWriter, rng: np.random.Generator, events: int) -> HostCapture:
    return write_small_lines(out, rng, events, max(1, events // EVENTS_A_SMALL_LINE))


def one_line(out: CaptureWriter, rng: np.random.Generator, events: int) -> HostCapture:
    return write_host(out, rng, events, threads=1)


SHAPES: dict[str, tuple[Shape, float]] = {
    "host": (write_host, 31.7),
    "device": (write_devices, 42.0),
    "many-lines": (many_lines, 31.0),
    "one-line": (one_line, 31.0),
    "memory": (write_memory, 75.0),
    "pipelines": (write_pipelines, 35.0),
    "program": (write_program, 200.0),
}
"""How each shape is written, and about how many bytes its events take."""

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def size_of(text: str) -> int:
    """Bytes of a size such as 10MB or 4.5GiB."""
    upper = text.upper()
    for unit, factor in sorted(UNITS.items(), key=lambda item: -len(item[0])):
        if upper.endswith(unit):
            return int(float(upper.removesuffix(unit)) * factor)
    return int(text)


def make(shape: str, path: Path, *, events: int, seed: int) -> dict[str, int]:
    """Writes a capture of about ``events`` events; returns what it holds."""
    write, _ = SHAPES[shape]
    with CaptureWriter(path) as out:
        counts = write(out, np.random.default_rng(seed), events)
    return note(path, counts.events, counts.stats, counts.lines)


def note(path: Path, events: int, stats: int, lines: int) -> dict[str, int]:
    """Writes down beside a capture what it holds."""
    files = path.iterdir() if path.is_dir() else (path,)
    contents = {"bytes": sum(f.stat().st_size for f in files), "events": events, "stats": stats, "lines": lines}
    path.with_name(path.name + ".json").write_text(json.dumps(contents) + "\n")
    return contents


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shape", choices=[*SHAPES, "scale", "pod", "kineto"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, help="about how many events; of a program, instructions")
    parser.add_argument("--size", type=size_of, help="about how many bytes, such as 100MB or 4.5GiB")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--capture", type=Path, help="scale: the capture to repeat")
    parser.add_argument("--times", type=int, help="scale: how many times")
    parser.add_argument("--planes", default="", help="scale: only planes whose names this regular expression finds")
    parser.add_argument("--hosts", type=int, help="pod: how many hosts")
    parser.add_argument("--steps", type=int, help="pod: how many steps")
    args = parser.parse_args(argv)
    began = time.perf_counter()
    if args.shape == "scale":
        if args.capture is None or args.times is None:
            parser.error("scale needs --capture and --times")
        contents = note(args.out, *scale(args.capture, args.out, args.times, args.planes))
    elif args.shape == "pod":
        if args.hosts is None or args.steps is None:
            parser.error("pod needs --hosts and --steps")
        counts = write_pod(args.out, args.hosts, args.steps, args.seed)
        contents = note(args.out, counts.events, counts.stats, counts.lines)
    elif args.shape == "kineto":
        if args.events is None:
            parser.error("kineto needs --events")
        contents = note(args.out, *write_kineto(args.out, args.events, args.seed))
    else:
        if (args.events is None) == (args.size is None):
            parser.error("say --events or --size")
        events = args.events or int(args.size / SHAPES[args.shape][1])
        contents = make(args.shape, args.out, events=events, seed=args.seed)
    print(json.dumps({**contents, "seconds": round(time.perf_counter() - began, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
