"""Modules that commands load: `import fastprof` and `fastprof --version` start quickly, and verbs load few modules."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from functools import cache
from pathlib import Path

import pytest

import fastprof

HEAVY = (
    "numpy",
    "pyarrow",
    "duckdb",
    "google.protobuf",
    "tensorflow",
    "fastprof.profile.profile",
    "fastprof.schema.tables",
)
UNUSED = {
    "asyncio", "base64", "concurrent.futures", "glob", "gzip", "importlib.util", "logging", "numpy.f2py",
    "numpy.fft", "numpy.polynomial", "numpy.random", "numpy.testing", "pyarrow.acero", "pyarrow.compute", "pyarrow.csv",
    "pyarrow.dataset", "pyarrow.feather", "pyarrow.fs", "pyarrow.parquet", "random", "shlex", "shutil", "ssl",
    "tempfile", "traceback", "xml",
}  # fmt: skip
"""Modules that reports of a small capture do without, unless numpy and pyarrow import them."""
LIMITS = tomllib.loads(Path(__file__).with_name("startup_modules.toml").read_text())["modules"]


@cache
def modules_after(code: str) -> frozenset[str]:
    script = f"{code}\nimport sys\nprint('\\0' + '\\n'.join(sys.modules))"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.rpartition("\0")[2].splitlines())


@pytest.mark.parametrize("command", LIMITS)
def test_a_command_loads_what_it_uses(command: str) -> None:
    words = ["fastprof", *command.split()]
    loaded = modules_after(f"import sys; from fastprof.__main__ import entry; sys.argv = {words}; entry()")
    count, limit = sum(name.partition(".")[0] == "fastprof" for name in loaded), LIMITS[command]
    assert count <= limit, f"{command} loads {count - limit} modules more: import them where they are used"
    assert count >= limit, f"{command} loads {count} modules: lower its number in startup_modules.toml"
    unused = (UNUSED | {"argparse", "re", "typing"}) if command == "--version" else UNUSED
    needed = modules_after("pass" if command == "--version" else "import pyarrow")
    surplus = sorted(loaded & unused - needed)
    assert not surplus, f"{command} loads {surplus}"


def test_import_loads_nothing_heavy() -> None:
    loaded = modules_after("import fastprof; fastprof.__version__; fastprof.__all__")
    assert "fastprof" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_the_command_loads_nothing_heavy_to_say_what_it_is(flag: str) -> None:
    loaded = modules_after(f"from fastprof.cli.main import main\ntry: main([{flag!r}])\nexcept SystemExit: pass")
    assert "fastprof.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_extras_are_loaded_only_when_used() -> None:
    loaded = modules_after("import fastprof; fastprof.load('demo/logdir').read('events', 'event_stats')")
    assert "pyarrow" in loaded
    assert loaded.isdisjoint({"duckdb", "google.protobuf", "tensorflow", "pandas"})
    assert loaded.isdisjoint({"pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"})


def test_a_picture_of_the_timeline_takes_no_grouping_and_no_compute_kernels_to_import() -> None:
    verb = "from fastprof.cli import arguments; from types import SimpleNamespace as S"
    reading = "run=None, as_hosts=False, on_error='raise', threads=1, max_unpacked=None, memory=None"
    flags = f"S(session=['demo/logdir'], {reading}, talk=S(progress=S(wanted=False)))"
    server = "arguments.open_session(" + flags + "); import fastprof.viewer.viewed_runs"
    loaded = modules_after(f"{verb}; {server}")
    assert "fastprof.viewer.viewed_run" in loaded
    assert loaded.isdisjoint({"pyarrow.compute", "fastprof.derive.steps.grouping", "fastprof.hlo.module"})


@pytest.mark.parametrize("verb", ["overview", "op-stats", "op-profile", "hlo-stats", "roofline", "steps"])
def test_a_report_as_text_takes_no_compute_kernels_and_no_other_forms_to_import(verb: str) -> None:
    loaded = modules_after(
        f"from fastprof.cli.main import main; main([{verb!r}, 'demo/xla', '--output', '/dev/null', '--force'])"
    )
    assert "fastprof.render.report_text" in loaded
    assert loaded.isdisjoint({"pyarrow.compute", "fastprof.render.as_json", "fastprof.xprof.report_xprof"})


def test_a_small_session_starts_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name) or start(thread))
    answer = str(fastprof.load("demo/xla").overview())
    assert started == []
    assert str(fastprof.load("demo/xla", threads=2).overview()) == answer
    assert started != []
