"""Runs the programs of this folder and keeps their captures for tests/planted.

    python benchmarks/planted/record.py --jax PYTHON --tf PYTHON --torch PYTHON [PROGRAM ...]

Each program runs a few times, as ``train.py`` in an empty folder; the capture of the run that other work on the machine
disturbed least is kept. Names of the machine and of its folders are replaced. Traces of PyTorch are written without
blanks, and without numbers that nothing refers to.
"""

from __future__ import annotations

import argparse
import getpass
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from xspace_descriptor import xspace_class  # noqa: E402

FOLDERS = {
    HERE: TESTS / "planted/recorded",
    HERE / "held_out": TESTS / "planted/held_out",
    HERE / "loops": TESTS / "planted/loops",
    HERE / "recompiling": TESTS / "planted/recompiling",
}
"""Of programs, and of their captures."""
LARGEST = 60_000
SOURCES = r".*(/site-packages/|/lib/python3[.0-9]*/|/planted-[^/]*/)"
"""The part of a source file's path that JAX leaves out."""
ABSOLUTE = re.compile(rb"/(?:home|root|tmp|usr|opt|var|work|mnt|private|Users)/[^\s\"'\x00-\x1f]*")


def run(program: Path, python: str, folder: Path) -> tuple[dict[str, Any], bytes]:
    """What the program measured, and its capture."""
    shutil.copy(program, folder / "train.py")
    cpu_only = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment = {**os.environ, **cpu_only, "JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX": SOURCES}
    (folder / "log").mkdir()
    command = [python, "train.py", "log"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    (capture,) = [*folder.rglob("*.xplane.pb"), *folder.rglob("*.pt.trace.json")]
    return json.loads(done.stdout.splitlines()[-1]), capture.read_bytes()


def least_disturbed(program: Path, python: str, rounds: int) -> tuple[dict[str, Any], bytes]:
    runs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            runs.append(run(program, python, Path(folder)))
    return min(runs, key=lambda one: disturbed(one[0]))


def disturbed(measured: dict[str, Any]) -> int:
    """Time that grows when other programs disturb a run: the run, and what of it is not planted.

    The run alone does not show it: a loader that prefetches hides compute that takes longer.
    """
    return 2 * measured["run_ns"] - measured["planted_ns"]


def texts(space: Any) -> Iterator[tuple[Any, str]]:
    """Every message that has a text, and the name of its field."""
    for plane in space.planes:
        for one in plane.event_metadata.values():
            yield from ((one, name) for name in ("name", "display_name"))
        for one in plane.stat_metadata.values():
            yield one, "name"
        metadata = [stat for one in plane.event_metadata.values() for stat in one.stats]
        events = [stat for line in plane.lines for event in line.events for stat in event.stats]
        for stat in [*plane.stats, *metadata, *events]:
            if stat.WhichOneof("value") == "str_value":
                yield stat, "str_value"


def programs(space: Any) -> Iterator[Any]:
    """Stats of event metadata that hold bytes: compiled programs."""
    metadata = [stat for plane in space.planes for one in plane.event_metadata.values() for stat in one.stats]
    return (stat for stat in metadata if stat.WhichOneof("value") == "bytes_value")


def without_folders(path: re.Match[bytes]) -> bytes:
    """Return a path of equal length, because programs record the lengths of their texts, of the same last part."""
    folder, _, name = path[0].rpartition(b"/")
    return b"./" * (len(folder) // 2) + b"/" * (1 + len(folder) % 2) + name


def without_names(capture: bytes) -> bytes:
    """The capture, of ``host0``; absolute paths keep their last part."""
    space = xspace_class()()
    space.ParseFromString(capture)
    del space.hostnames[:]
    space.hostnames.append("host0")
    for program in programs(space):
        program.bytes_value = ABSOLUTE.sub(without_folders, program.bytes_value)
    for message, name in texts(space):
        text = getattr(message, name)
        short = ABSOLUTE.sub(lambda path: path[0].rpartition(b"/")[2], text.encode()).decode()
        if short != text:
            setattr(message, name, short)
    written: bytes = space.SerializeToString(deterministic=True)
    check(written)
    return written


_NUMBERS = {"Ev Idx", "Record function id", "Process Group Name"}
"""Arguments of events that nothing refers to."""


def trace_without_names(trace: bytes) -> bytes:
    """The same of a trace of PyTorch. Numbers keep their digits."""
    document = json.loads(trace, parse_float=_Number)
    document["host_name"] = "host0"
    for one in document["traceEvents"]:
        one["args"] = {key: value for key, value in one.get("args", {}).items() if key not in _NUMBERS}
    text = json.dumps(document, separators=(",", ":"), default=str)
    short = ABSOLUTE.sub(lambda path: path[0].rpartition(b"/")[2], _QUOTED.sub(rb"\1", text.encode()))
    check(short)
    return short


class _Number:
    """A number as it is written."""

    def __init__(self, digits: str) -> None:
        self._digits = digits

    def __str__(self) -> str:
        return f"\0{self._digits}\0"


_QUOTED = re.compile(rb'"\\u0000([-+.0-9eE]*)\\u0000"')


_LIST = re.compile(r"\[[^]]*\]")


def check(capture: bytes) -> None:
    names = [name for name in (socket.gethostname(), getpass.getuser()) if len(name) > 4]
    left = [*ABSOLUTE.findall(capture), *(name.encode() for name in names if name.encode() in capture)]
    if left:
        raise SystemExit(f"The capture names this machine: {sorted(set(left))[:5]}. Extend without_names.")


def main() -> None:
    known = {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*_*.py"))}
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("programs", nargs="*", choices=[[], *known], metavar="PROGRAM")
    arguments.add_argument("--jax", help="a Python with JAX")
    arguments.add_argument("--tf", help="a Python with TensorFlow")
    arguments.add_argument("--torch", help="a Python with PyTorch")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--improve", action="store_true", help="keep a capture whose run was disturbed less")
    given = arguments.parse_args()
    for name in given.programs or known:
        program = known[name].read_text()
        framework = next((one for one in ("jax", "torch") if f"import {one}" in program), "tf")
        if getattr(given, framework) is None:
            raise SystemExit(f"{name} needs --{framework}.")
        measured, capture = least_disturbed(known[name], getattr(given, framework), given.rounds)
        suffix, cut = ("pt.trace.json", trace_without_names) if framework == "torch" else ("xplane.pb", without_names)
        folder = FOLDERS[known[name].parent]
        costs = folder / "measured.json"
        every = json.loads(costs.read_text()) if costs.exists() else {}
        if given.improve and name in every and disturbed(every[name]) <= disturbed(measured):
            print(f"{name}: not better")
            continue
        packed = gzip.compress(cut(capture), 9, mtime=0)
        print(f"{name}: {len(packed):,} bytes, {measured['planted_ns'] / measured['run_ns']:.1%} planted")
        if len(packed) > LARGEST:
            raise SystemExit(f"{name}: larger than {LARGEST:,} bytes. Let it run fewer steps.")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.{suffix}.gz").write_bytes(packed)
        text = json.dumps(dict(sorted({**every, name: measured}.items())), indent=1)
        costs.write_text(_LIST.sub(lambda found: " ".join(found[0].split()), text) + "\n")


if __name__ == "__main__":
    main()
