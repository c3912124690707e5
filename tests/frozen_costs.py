"""What verbs and jobs cost: modules that a verb loads, their bytecode, and processor time. Shown, never asserted."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from frozen_captures import ROOT, RUNS
from frozen_server import get, ready, server

ROUNDS = 7
DEMO = "demo/xla"
ANALYSES = (
    "overview", "diagnosis", "input-pipeline", "op-stats", "kernel-stats", "streams", "critical-path", "op-profile",
    "hlo-stats", "roofline", "hardware-units", "memory-viewer", "communication", "memory-profile", "gaps", "tf-data",
    "pod-viewer", "inference", "annotations", "python-time", "steps",
)  # fmt: skip
VERBS: Mapping[str, list[str]] = {
    "--version": ["--version"],
    "info": ["info", DEMO],
    "events": ["events", DEMO],
    "export": ["export", DEMO, "--layout", "paths", "-o", "{out}"],
    "convert": ["convert", DEMO, "-o", "{out}"],
    "report": ["report", DEMO],
    "hlo": ["hlo", DEMO],
    "tfprof": ["tfprof", DEMO, "op"],
    "trace": ["trace", DEMO, "-o", "{out}.pftrace"],
    "trends": ["trends", "demo/logdir"],
    **{name: [name, DEMO] for name in ANALYSES},
}
_LOADED = """import sys
from fastprof.cli.main import main
code = main(sys.argv[1:])
files = [m.__file__ for n, m in list(sys.modules.items()) if n.split('.')[0] == 'fastprof' and m.__file__]
sys.stderr.write('\\nLOADED ' + '|'.join(files))
"""
_CALL = "import fastprof; p = fastprof.load(sys.argv[1])"
JOBS: Mapping[str, str] = {
    "import": "import fastprof",
    "first call": f"import sys; {_CALL}; p.events",
    "overview": f"import sys; {_CALL}; str(p.overview())",
    "op stats": f"import sys; {_CALL}; str(p.op_stats())",
    "diagnosis": f"import sys; {_CALL}; str(p.diagnosis())",
    "hlo stats": f"import sys; {_CALL}; str(p.hlo_stats())",
    "export": f"import sys; {_CALL}; p.to_parquet(sys.argv[2], force=True, layout='paths')",
}


def costs() -> dict[str, dict[str, float]]:
    """By verb or job: figures by name."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FASTPROF_CACHE"] = f"{folder}/cache"
        for verb, words in VERBS.items():
            files = _loaded([word.replace("{out}", f"{folder}/out-{verb}") for word in words])
            found[verb] = {"modules": len(files), "bytecode": sum(map(_bytecode, files))}
        for capture in RUNS[:3]:
            for job, code in JOBS.items():
                took = [_seconds([sys.executable, "-c", code, capture, f"{folder}/exported"]) for _ in range(ROUNDS)]
                found[f"{job}, {capture}"] = {"ms": median(took) * 1000}
            took = [_first_tile(capture, f"{folder}/cache-{number}") for number in range(ROUNDS)]
            found[f"first tile, {capture}"] = {"ms": median(took) * 1000}
    return found


def _loaded(words: list[str]) -> list[str]:
    """The files of the package's modules that a verb loads."""
    run = [sys.executable, "-c", _LOADED, *words]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stderr.rpartition("LOADED ")[2].split("|") if "LOADED " in done.stderr else []


@cache
def _bytecode(path: str) -> int:
    """Bytes of a module's code; nothing for compiled ones."""
    if not path.endswith(".py"):
        return 0
    return len(marshal.dumps(compile(Path(path).read_bytes(), "module", "exec")))


def _seconds(words: list[str]) -> float:
    """Processor time of a process."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    _, _, used = os.wait4(process.pid, 0)
    return used.ru_utime + used.ru_stime


def _first_tile(capture: str, cache_folder: str) -> float:
    """Processor time of a server until it has answered a tile."""
    with server([str(ROOT / capture)], ["--cache", cache_folder]) as (address, process):
        document = ready(address)
        get(address, f"tiles/{document['key']}/36/0")
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost_table(before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """A line a verb or job: before, after, and the ratio of each figure."""
    yield f"{'':34}{'before':>12}{'after':>12}{'ratio':>8}"
    line: Callable[[str, str, Any, Any], str] = lambda name, figure, old, new: (  # noqa: E731
        f"{name:24}{figure:10}{old:12,.0f}{new:12,.0f}{new / old if old else 0:8.2f}"
    )
    for name, figures in after.items():
        for figure, value in figures.items():
            yield line(name, figure, before.get(name, {}).get(figure, 0), value)
