"""The captures whose answers ``frozen_behaviour`` freezes: those of the project, shared ones, and some 200 made ones.

Makers are imported only to make captures. A comparison reads the files that they wrote, so it does not depend on them.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("", "planted", "planted/held_out", "steps", "pipelines", "memory", "traces", "tfprof")
QUICK = (
    "demo/logdir", "demo/pod", "demo/xla", "demo/tf-data", "tests/planted/recorded/torch_slow_step.pt.trace.json.gz",
    "tests/reported/r01-ep-overlap.json.gz", "made/tfprof_graph_1.pb", "made/serving.xplane.pb",
)  # fmt: skip
RUNS = ("demo/logdir", "demo/pod", "demo/xla", "demo/kernel", "demo/memory", "demo/serving", "demo/tf-data")
SUFFIXES = (".pb", ".json", ".gz", ".riegeli", ".pickle", ".sqlite", ".db", ".pftrace", ".prof", ".pprof")
NO_CAPTURES = ("_pqtdir", "/make/", "/LICENSES/", "measured.json", "/page/", "/rocprof/csv")


@dataclass(frozen=True)
class Capture:
    """``paths``: what ``fastprof.load`` opens together, with these further arguments."""

    name: str
    paths: tuple[Path, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def captures(shared: Path | None, made: Path) -> list[Capture]:
    """All captures in a fixed order."""
    listed = [Capture(name, (ROOT / name,)) for name in RUNS]
    listed += [Capture("runs/pod and serving", (ROOT / "demo/pod", ROOT / "demo/serving"))]
    listed += [Capture(f"tests/{name}", (ROOT / "tests" / name,)) for name in _files(ROOT / "tests")]
    ranks = sorted((ROOT / "tests/reported").glob("p11-generic-rank*"))
    listed.append(Capture("ranks/p11-generic", tuple(ranks)))
    if shared is not None:
        for folder in ("captures", "reports", "conformance/tfprof/inputs"):
            listed += [
                Capture(f"shared/{folder}/{name}", (shared / folder / name,)) for name in _files(shared / folder)
            ]
        runs = sorted(path for path in (shared / "captures/xspace").iterdir() if path.is_dir())
        listed += [Capture(f"shared/run/{run.name}", (run,)) for run in runs]
        kineto = shared / "captures/chrome/kineto"
        listed.append(Capture("ranks/a100", (kineto / "a100_rank-0.json.gz", kineto / "a100_rank-1.json.gz")))
    for path in sorted(made.iterdir()):
        options = {"on_error": "salvage"} if path.name.startswith("damaged") else {}
        listed.append(Capture(f"made/{path.name}", (path,), options))
    return listed


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in SUFFIXES and not any(part in str(path) for part in NO_CAPTURES):
            yield path.relative_to(folder).as_posix()


def make(folder: Path) -> None:
    """Write the made captures: a file each, or a folder for several hosts."""
    sys.path[:0] = [str(ROOT / "tests" / name) for name in FOLDERS]
    folder.mkdir(parents=True)
    for name, data in _made():
        if isinstance(data, bytes):
            (folder / name).write_bytes(data)
        else:
            data(folder / name)


def _made() -> Iterator[tuple[str, bytes | Callable[[Path], object]]]:
    yield from _drawn_by_lot()
    yield from _simulated()
    yield from _traces()
    yield from _pods()


def _drawn_by_lot() -> Iterator[tuple[str, bytes]]:
    from allocator_calls import capture, made_up
    from grouping_spaces import grouping_space
    from large_modules import LARGE, captured, entry_names
    from pipeline_spaces import capture_of, pipeline_threads
    from random_spaces import random_space
    from xla_spaces import gpu_capture, tpu_capture

    for seed in range(24):
        yield f"random_{seed}.xplane.pb", random_space(seed, well_written=seed % 2 == 0)
    for seed in range(8):
        data = random_space(seed + 100) or b"\n\0"
        yield f"damaged_{seed}.xplane.pb", data[: len(data) * (seed + 1) // 9] + b"\x0a\xff\xff\xff"
    for seed in range(16):
        yield f"tpu_{seed}.xplane.pb", tpu_capture(seed, cores=1 + seed % 3, steps=2 + seed % 5)
        vendor = ("Nvidia", "Nvidia", "AMD")[seed % 3]
        yield f"gpu_{seed}.xplane.pb", gpu_capture(seed, devices=1 + seed % 2, vendor=vendor)
    for seed in range(16):
        yield f"groups_{seed}.xplane.pb", grouping_space(seed)
    for seed in range(8):
        yield f"pipelines_{seed}.xplane.pb", capture_of(pipeline_threads(seed))
        yield f"allocators_{seed}.xplane.pb", capture(made_up(Random(seed), 60))
    for form, program in LARGE.items():
        made = program(40)
        yield f"programs_{form.replace(' ', '_')}.xplane.pb", captured(made, entry_names(made))


def _simulated() -> Iterator[tuple[str, bytes | Callable[[Path], object]]]:
    from allocator_captures import captured
    from demo_captures import training
    from held_out_cases import HELD_OUT
    from pipeline_captures import Batch, ParallelMap, Prefetch, Root, Source, train
    from planted_cases import HEALTHY, PLANTED
    from serving_builder import Server

    for case in (*PLANTED, *HEALTHY, *HELD_OUT):
        if case.make is not None:
            hosts = case.run().captures
            yield f"planted_{case.name}", lambda folder, hosts=hosts: _write_run(folder, hosts)
    yield "memory_of_training.xplane.pb", captured(*training(), hostnames=["worker0"])
    ms = 10**9
    for number, (read, mapped, workers, compute) in enumerate(((1, 2, 1, 4), (3, 1, 2, 1), (1, 8, 4, 2), (5, 1, 1, 9))):
        for cores in (None, 2):
            stages = Root(Prefetch(Batch(ParallelMap(Source(read * ms, "Range"), mapped * ms, workers), 4), 2))
            run = train(stages, compute=compute * ms, steps=10, cores=cores)
            yield f"trained_{number}_{cores or 'all'}.xplane.pb", run.capture()
    for count in (1, 8, 40):
        server = Server()
        for number in range(count):
            server.request(number * 150 + number % 7, 100 + number % 11, number, None if count == 1 else number % 3)
        yield f"serving{'' if count == 8 else f'_{count}'}.xplane.pb", server.capture()


def _traces() -> Iterator[tuple[str, bytes]]:
    from random_documents import damaged_document, document
    from random_graphs import random_profile
    from random_profiles import random_profile as any_profile

    for seed in range(24):
        yield f"trace_{seed}.json", document(seed)
    for seed in range(4):
        yield f"damaged_trace_{seed}.json", damaged_document(seed)[0]
        yield f"packed_trace_{seed}.json.gz", gzip.compress(document(seed + 50), mtime=0)
    for seed in range(8):
        yield f"tfprof_graph_{seed}.pb", random_profile(seed, 30 + 10 * seed)
        yield f"tfprof_any_{seed}.pb", any_profile(seed).SerializeToString(deterministic=True)


def _pods() -> Iterator[tuple[str, Callable[[Path], object]]]:
    from clock_pods import ALL, CROSSED, ROWS, Pod, write_clocks

    for number, groups in enumerate((ALL, ROWS, CROSSED)):
        pod = Pod(seed=number, hosts=9, steps=6, groups=groups, straggler=number, cores=1 + number % 2)
        yield f"clocks_{number}", lambda folder, pod=pod: write_clocks(folder, pod)
    merged = Pod(seed=7, hosts=36, steps=4, straggler=5, late={3: 1})
    yield "clocks_of_36_hosts", lambda folder: write_clocks(folder, merged)


def _write_run(folder: Path, hosts: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for host, data in hosts.items():
        (folder / f"{host}{_suffix(data)}").write_bytes(data)


def _suffix(data: bytes) -> str:
    return ".xplane.pb.gz" if data[:2] == b"\x1f\x8b" else ".xplane.pb"
