"""Compares readers of a trace of PyTorch's profiler, in whole rounds of all of them in turn, with what is required.

    python benchmarks/json_speed.py                         a million events, gzip and plain, against all rivals
    python benchmarks/json_speed.py --rounds 9 --without hta
    python benchmarks/json_speed.py --huge 5GB              one document of this size: seconds and peak memory

The best of all rounds counts, as whatever else runs on the machine only adds. Rivals that cannot be
installed are left out.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import rivals
from captures import BLOCK, DATA, HERE
from kineto_shape import write_kineto
from make_traces import size_of
from measure import MIB, Job, Outcome, interleave

RIVALS = {"simdjson": rivals.SIMDJSON, "json": None, "hta": rivals.HTA}
SLOW = {"hta": 4, "json": 2}
"""How many rounds the slow readers take part in one of."""

SIMDJSON_SHARE, JSON_TIMES, HTA_TIMES, PLAIN_SPEED, TABLE_TIMES = 0.8, 5.0, 25.0, 600e6, 1.5
_EVENTS, _END = b'"traceEvents": [\n', b'  {\n    "name": "Record Window End"'


def trace(events: int) -> Path:
    """The trace, made when it is first needed; beside it the same with ``.gz``."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"kineto-{events}.json"
    if not path.exists():
        write_kineto(path, events, 1)
    packed = path.with_name(path.name + ".gz")
    if not packed.exists():
        with path.open("rb") as plain, gzip.open(packed, "wb", 6) as out:
            shutil.copyfileobj(plain, out, BLOCK)
    return path


def huge(path: Path, size: int) -> Path:
    """A document of this size: the events of the trace again and again."""
    out = DATA / f"kineto-{size}-bytes.json"
    text = path.read_bytes()
    first, last = text.index(_EVENTS) + len(_EVENTS), text.index(_END)
    if not out.exists() or out.stat().st_size < size:
        with out.open("wb") as file:
            file.write(text[:first])
            while file.tell() < size:
                file.write(text[first:last])
            file.write(text[last:])
    return out


def job(reader: str, path: Path) -> Job:
    """A reader in a process of its own."""
    rival = RIVALS.get(reader)
    python = rival.program("python") if rival else sys.executable
    command = (python, str(HERE / "json_reader.py"), str(path), reader)
    return Job(f"{reader} {path.name}", command, reports=True, every=SLOW.get(reader, 1))


def installed(names: list[str]) -> Iterator[str]:
    for name in names:
        rival = RIVALS[name]
        try:
            if rival:
                rival.build()
        except rivals.RivalMissingError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        yield name


def shown(outcome: Outcome) -> str:
    facts = "".join(f", {key} {value}" for key, value in outcome.facts.items())
    times = f"{min(outcome.seconds):7.3f} s, {min(outcome.processor):7.3f} s of a processor"
    return f"{outcome.name:36} {times}, {outcome.peak / MIB:6.0f} MiB{facts}"


def _required(text: str, value: float, limit: float, *, least: bool) -> str:
    is_met = value >= limit if least else value <= limit
    return f"{text:52} {value:8.2f}  ({'at least' if least else 'at most'} {limit:g}: {'met' if is_met else 'missed'})"


def judged(path: Path, outcomes: dict[str, Outcome]) -> Iterator[str]:
    """What is required of the reader, beside what was measured."""
    packed = path.name + ".gz"
    own, plain = outcomes[f"fastprof {packed}"], outcomes[f"fastprof {path.name}"]
    for name, text, limit, least in (
        ("simdjson", "seconds to tables, of those of simdjson's DOM", SIMDJSON_SHARE, False),
        ("json", "times as fast as Python's json", JSON_TIMES, True),
        ("hta", "times as fast as loading in HTA", HTA_TIMES, True),
    ):
        rival = outcomes.get(f"{name} {packed}")
        if rival is None:
            continue
        ratio = min(own.seconds) / min(rival.seconds)
        yield _required(text, 1 / ratio if least else ratio, limit, least=least)
    speed = path.stat().st_size / min(plain.seconds)
    yield _required("MB/s of plain text", speed / 1e6, PLAIN_SPEED / 1e6, least=True)
    yield _required(
        "peak memory, of the bytes of the tables", own.peak / own.facts["table_bytes"], TABLE_TIMES, least=False
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", nargs="*", choices=RIVALS, default=[])
    parser.add_argument("--huge", type=size_of, metavar="SIZE")
    args = parser.parse_args(argv)
    path = trace(args.events)
    if args.huge:
        for outcome in interleave([job("fastprof-scan", huge(path, args.huge))], 1, quiet=True).values():
            print(shown(outcome))
        return 0
    packed = path.with_name(path.name + ".gz")
    others = list(installed([name for name in RIVALS if name not in args.without]))
    jobs = [job(reader, packed) for reader in ("fastprof", "fastprof-flows", *others)]
    outcomes = interleave([job("fastprof", path), *jobs], args.rounds, quiet=True)
    print(*map(shown, outcomes.values()), "", *judged(path, outcomes), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
