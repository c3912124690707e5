"""Compares captures as uncompressed Riegeli with the same as a plain XSpace, in rounds of all of them in turn.

    python benchmarks/riegeli_speed.py --rounds 9

``entire``: one record; ``records``: as XLA splits an XSpace, 16 MB each; ``transposed``: chunks of 10 MB, whose capture
is also read as plain bytes. To all events and stats as tables; the best of all rounds counts.
"""

from __future__ import annotations

import argparse
import sys
from multiprocessing import get_context
from pathlib import Path

from captures import DATA, HERE, MAIN, capture
from measure import MIB, Job, interleave
from riegeli_writer import records, written

LEAST = 0.7
"""Of the speed of the plain XSpace."""
_REPEATED, _SIZE = 12, 16_000_000


def forms() -> dict[str, tuple[Path, Path]]:
    """Return, by form, the file and the plain XSpace that it holds. Another process makes them when they are first
    needed, because this one must stay small: see measure.py."""
    maker = get_context("spawn").Process(target=_make_forms)
    maker.start()
    maker.join()
    return _make_forms()


def _make_forms() -> dict[str, tuple[Path, Path]]:
    plain, part = capture(MAIN).path, capture("host-10mb").path
    repeated = DATA / "host-10mb-repeated.xplane.pb"
    made = {
        "entire": (plain, lambda: written([plain.read_bytes()])),
        "records": (plain, lambda: written(list(records(plain.read_bytes(), _SIZE)))),
        "transposed": (repeated, lambda: written([part.read_bytes()] * _REPEATED, is_transposed=True)),
    }
    if not repeated.exists():
        repeated.write_bytes(part.read_bytes() * _REPEATED)
    found = {}
    for name, (of, make) in made.items():
        path = DATA / f"{of.name.removesuffix('.pb')}.{name}.riegeli"
        if not path.exists():
            path.write_bytes(make())
        found[name] = (path, of)
    return found


def job(path: Path) -> Job:
    return Job(path.name, (sys.executable, str(HERE / "json_reader.py"), str(path), "fastprof"), reports=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    found = forms()
    files = dict.fromkeys(path for pair in found.values() for path in pair)
    outcomes = interleave([job(path) for path in files], args.rounds, quiet=True)
    for outcome in outcomes.values():
        times = f"{min(outcome.seconds):7.3f} s, {min(outcome.processor):7.3f} s of a processor"
        print(f"{outcome.name:44} {times}, {outcome.peak / MIB:6.0f} MiB, {outcome.facts}")
    for name, (path, of) in found.items():
        own, plain = outcomes[path.name], outcomes[of.name]
        speed = min(plain.seconds) / min(own.seconds)
        share = min(plain.processor) / min(own.processor)
        verdict = f"at least {LEAST}: {'met' if speed >= LEAST else 'missed'}"
        print(f"{name:12} speed, of the plain XSpace's: {speed:5.2f}; by processor time {share:5.2f}  ({verdict})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
