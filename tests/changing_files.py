"""A capture that another process changes while it is read: what a child process makes of it, round after round.

The child loads the capture and does one piece of work; it says when the file is open, and the parent changes the file
at a random time after that. Every round must end with what the file held when it was opened, or with ChangedError.

    PYTHONPATH=.:tests python tests/changing_files.py [ROUNDS [MEGABYTES]]     prints how the rounds ended
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from trace_builder import event, int_field, len_field, line, plane, xspace

ROOT = Path(__file__).resolve().parent.parent
_EVENTS = 500
_PIECE = 1 << 16


def capture_of(duration: int, size: int) -> bytes:
    """A capture of at least ``size`` bytes: threads of events of one duration, whose texts change with it. Captures of
    durations below 100 have the same size and the same places of everything."""
    events = [
        event(
            f"op{n % 100}/v{duration:03d}:Work", n * 200, duration, {"text": f"{n} {duration:03d} " * 30, "n": n % 100}
        )
        for n in range(_EVENTS)
    ]
    written = memoryview(xspace(plane("/host:CPU", [line("thread", events, id=1)])))
    inside = written[_header(written) :]
    at = next(at for number, at, _ in _fields(inside) if number == 3)
    end = next(end for number, _, end in _fields(inside) if number == 3)
    lines = [len_field(3, bytes(inside[at:end]) + int_field(1, 2 + n)) for n in range(size // (end - at))]
    return len_field(1, b"".join([inside, *lines]))


def _header(message: memoryview) -> int:
    """The size of the first field's tag and length."""
    return next(size for size in range(2, 12) if message[size - 1] < 0x80)


def _fields(message: memoryview) -> Iterator[tuple[int, int, int]]:
    """The number of each field, and where its payload begins and ends: all have lengths, or are small numbers."""
    at = 0
    while at < len(message):
        number, kind = message[at] >> 3, message[at] & 7
        header = _header(message[at:]) if kind == 2 else 2
        length = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(message[at + 1 : at + header])) if kind == 2 else 0
        yield number, at + header, at + header + length
        at += header + length


# ---- what a child does


def decode(path: str, _: str) -> str:
    import fastprof

    digest = hashlib.sha256()
    profile = fastprof.load(path)
    for name in ("events", "event_stats", "lines", "event_metadata"):
        sink = io.BytesIO()
        table = profile.tables[name].replace_schema_metadata()
        import pyarrow as pa

        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        digest.update(sink.getbuffer())
    return digest.hexdigest()


def export(path: str, out: str) -> str:
    import pyarrow.parquet as pq

    import fastprof

    try:
        fastprof.load(path).to_parquet(out, tables=["events", "event_stats"], layout="paths")
    except fastprof.ChangedError:
        assert not Path(out).exists(), "half an export"
        raise
    digest = hashlib.sha256()
    for file in sorted(Path(out).rglob("*.parquet")):
        table = pq.read_table(file, partitioning=None)
        digest.update(str((table.num_rows, table.schema.names)).encode())
        for column in table.columns:
            digest.update(repr(column.slice(0, 50).to_pylist()).encode())
            digest.update(repr(column.slice(max(0, len(column) - 50)).to_pylist()).encode())
            digest.update(repr(column.value_counts().slice(0, 200).to_pylist()).encode())
    shutil.rmtree(out)
    return digest.hexdigest()


def analyse(path: str, _: str) -> str:
    import fastprof

    profile = fastprof.load(path, on_error="salvage")
    report = profile.event_summary().replace_schema_metadata()
    lines = profile.report("overview").to_dict()
    return hashlib.sha256(json.dumps([report.to_pylist(), lines], default=str).encode()).hexdigest()


def serve(path: str, out: str) -> str:
    import changing_served

    return changing_served.serve(path, out)


WORK: dict[str, Callable[[str, str], str]] = {"decode": decode, "export": export, "analyse": analyse, "serve": serve}


def child(path: str, out: str) -> None:
    """Answers each line on standard input, the name of a piece of work, with "opened" and how it ended."""
    import fastprof
    from fastprof.inputs.open_files import WatchedFile

    def say(*words: str) -> None:
        sys.stdout.write(f"{' '.join(words)}\n")
        sys.stdout.flush()

    before = WatchedFile.__init__

    def opening(self: WatchedFile, *given: Any) -> None:
        before(self, *given)
        say("opened")

    WatchedFile.__init__ = opening  # type: ignore[method-assign]
    for name in sys.stdin:
        try:
            say("gave", WORK[name.strip()](path, out))
        except fastprof.ChangedError:
            say("changed")
        except Exception as error:  # noqa: BLE001 - the parent counts them
            say("failed", type(error).__name__, str(error).replace("\n", " "))


# ---- what its parent does


def truncate(path: Path, _other: Path, chance: random.Random) -> None:
    os.truncate(path, chance.choice([0, 1, 4096, chance.randrange(path.stat().st_size)]))


def rewrite(path: Path, other: Path, chance: random.Random) -> None:
    """In place, from a random place on, a piece at a time."""
    with path.open("r+b") as to, other.open("rb") as new:
        at = chance.choice([0, chance.randrange(path.stat().st_size)])
        to.seek(at)
        new.seek(at)
        while piece := new.read(_PIECE):
            to.write(piece)
            to.flush()


def replace(path: Path, other: Path, _chance: random.Random) -> None:
    fresh = path.with_name("fresh")
    shutil.copyfile(other, fresh)
    fresh.replace(path)


CHANGES = {"truncate": truncate, "rewrite": rewrite, "replace": replace}


class Rounds:
    """Children that read a capture in a directory, and what became of them."""

    def __init__(self, directory: Path, size: int, seed: int = 1) -> None:
        self.path, self.right, self.other = (directory / name for name in ("h.xplane.pb", "right", "other"))
        self.out = directory / "out"
        self._over = directory / "over"  # whoever serves the capture asks until this is there
        self.right.write_bytes(capture_of(11, size))
        self.other.write_bytes(capture_of(22, size))
        self.ended: Counter[tuple[str, str, str]] = Counter()
        self._chance = random.Random(seed)
        self._child: subprocess.Popen[str] | None = None
        self._expected: dict[str, str] = {}
        self._takes: dict[str, float] = {}

    def close(self) -> None:
        if self._child is not None:
            assert self._child.stdin is not None and self._child.stdout is not None
            self._child.stdin.close()
            self._child.wait()
            self._child.stdout.close()
            self._child = None

    def _talk(self) -> tuple[IO[str], IO[str]]:
        if self._child is None:
            words = [sys.executable, __file__, "child", str(self.path), str(self.out)]
            paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
            self._child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
            )
        assert self._child.stdin is not None and self._child.stdout is not None
        return self._child.stdin, self._child.stdout

    def _work(self, name: str, meanwhile: Callable[[], None]) -> str:
        to, answers = self._talk()
        self._over.unlink(missing_ok=True)
        shutil.copyfile(self.right, self.path)
        to.write(f"{name}\n")
        to.flush()
        answer = answers.readline().strip()
        if answer == "opened":
            meanwhile()
            self._over.touch()
            while answer == "opened":  # once for each time that the capture is opened
                answer = answers.readline().strip()
        if not answer:
            assert self._child is not None
            status, self._child = self._child.wait(), None
            return f"died with {status}"
        return answer

    def round(self, name: str, change: str) -> str:
        """How a round ended: "right", "changed", or what is wrong."""
        if name not in self._expected:
            self._expected[name] = self._work(name, lambda: None)
            began = time.monotonic()
            assert self._work(name, lambda: None) == self._expected[name]
            self._takes[name] = time.monotonic() - began

        def meanwhile() -> None:
            time.sleep(self._chance.random() * self._takes[name])
            CHANGES[change](self.path, self.other, self._chance)

        answer = self._work(name, meanwhile)
        ended = "right" if answer == self._expected[name] else answer
        self.ended[name, change, ended] += 1
        return ended

    def run(self, count: int) -> list[str]:
        """``count`` rounds, of each work and change in turn, and every tenth serves; what is wrong."""
        wrong = []
        for number in range(count):
            turn, place = divmod(number, 10)
            name = "serve" if place == 9 else list(WORK)[place % 3]
            change = list(CHANGES)[(turn if place == 9 else place // 3) % 3]
            ended = self.round(name, change)
            if ended not in ("right", "changed"):
                wrong.append(f"{name}, {change}: {ended}")
        self.close()
        return wrong


def main(count: int, megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        rounds = Rounds(Path(directory), megabytes << 20)
        wrong = rounds.run(count)
    found = [f"{' '.join(key):26} {number:5}" for key, number in sorted(rounds.ended.items())]
    sys.stdout.write("\n".join([*found, f"{count} rounds of {megabytes} MiB, {len(wrong)} wrong", *wrong, ""]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        main(*(int(word) for word in (*sys.argv[1:], *("1000", "50")[len(sys.argv) - 1 :])))
