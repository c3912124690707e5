"""What is loaded when: `import fastprof` and `fastprof --version` must stay quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "numpy",
    "pyarrow",
    "duckdb",
    "google.protobuf",
    "tensorflow",
    "fastprof.profile.profile",
    "fastprof.schema.tables",
)


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n' + '\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


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
