"""Run the programs of this folder with ``fastprof run``, without flags, and print what it names and what it costs.

    python benchmarks/recording/loader_costs.py --jax PYTHON --tf PYTHON --torch PYTHON [--rounds N]

Each PYTHON has its framework and fastprof. The columns: the cause and the place of the first finding; steps per second
without and with recording, as the end of the run gives them. --idle compares processor time per step of the programs
with and without ``fastprof run``, while nothing is recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = (
    ("jax", "jax_slow_loader.py"),
    ("tf", "tf_slow_loader.py"),
    ("tf", "keras_slow_loader.py", "sequence"),
    ("tf", "keras_slow_loader.py", "generator"),
    ("torch", "torch_slow_loader.py", "0"),
)
"""Framework, program and its arguments."""
COST = re.compile(r"(?:(with|without) Python functions: )?(\S+ .*/s without recording, .*)")
USED = re.compile(r"([\d.]+) ms of processor time each")


def measure_program(python: str, words: list[str], folder: str) -> tuple[str, list[str]]:
    """Return the first finding, and the lines on cost."""
    flags = ["--then", "diagnosis --format json"]
    done = run_program([python, "-m", "fastprof", "run", *flags, *words], folder)
    document = json.loads(done.stdout[done.stdout.index("\n{") :])
    first = document["tables"]["findings"]["rows"][0]
    costs = [line.removeprefix("fastprof: ") for line in done.stderr.splitlines() if COST.search(line)]
    return f"{first['title']} ({first['source']})", costs


def measure_idle(python: str, words: list[str], folder: str) -> float:
    """Return the median change of processor time per step by ``fastprof run`` that never records."""
    changes = []
    for _ in range(5):
        times = []
        for launcher in ([], ["-m", "fastprof", "run", "--after", "1h"]):
            done = run_program([python, *launcher, *words], folder)
            match = USED.search(done.stdout)
            assert match is not None, done.stderr
            times.append(float(match[1]))
        changes.append(times[1] / times[0] - 1)
    return statistics.median(changes)


def run_program(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for framework in ("jax", "tf", "torch"):
        parser.add_argument(f"--{framework}", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--idle", action="store_true")
    args = parser.parse_args()
    for framework, program, *words in PROGRAMS:
        python = getattr(args, framework)
        for _ in range(args.rounds if python else 0):
            with tempfile.TemporaryDirectory() as folder:
                command = [str(HERE / program), *words]
                print(program, *words, flush=True)
                if args.idle:
                    change = measure_idle(python, [*command, "10"], folder)
                    print(f"    processor time per step without recording: {change:+.1%}", flush=True)
                    continue
                finding, costs = measure_program(python, command, folder)
                print("   ", "\n    ".join([finding, *costs]), flush=True)


if __name__ == "__main__":
    main()
