"""``fastprof run`` over programs whose JAX is a folder beside them: a profiler that does as that of JAX 0.10 did."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_capture_workers import sample

from fastprof.cli import run
from fastprof.cli.main import main

_JAX = """
from jax import profiler
def live_arrays(): return []
def block_until_ready(_arrays): pass
"""
_PROFILER = """
import pathlib, threading
class ProfileOptions: pass
class TraceAnnotation:
    def __init__(self, name, **stats): print(name, *stats.values())
    def __enter__(self): return self
    def __exit__(self, *_): pass
class StepTraceAnnotation(TraceAnnotation): pass
over = threading.Event()
def start_trace(folder, profiler_options):
    global where
    where = pathlib.Path(folder, "plugins", "profile", "now")
    print("start", profiler_options.host_tracer_level, profiler_options.python_tracer_level)
    if profiler_options.host_tracer_level == 3: raise RuntimeError("out of \\x1b[2J buffers")
def stop_trace():
    print("stop")
    where.mkdir(parents=True)
    where.joinpath("vm.xplane.pb").write_bytes(pathlib.Path(__file__).with_name("sample").read_bytes())
    over.set()
"""


def put_jax_beside(folder: Path) -> None:
    (folder / "jax").mkdir()
    (folder / "jax" / "__init__.py").write_text(_JAX)
    (folder / "jax" / "profiler.py").write_text(_PROFILER)
    (folder / "jax" / "sample").write_bytes(sample())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_jax_beside(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("mine = True\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    return tmp_path


def written(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(text)
    return str(path)


_TRAINING = """
import os, sys, sitecustomize
from jax.profiler import StepTraceAnnotation
assert sitecustomize.mine and __name__ == "__main__"
print(sys.argv[1:], os.environ["PYTHONPATH"], "FASTPROF_RUN" in os.environ, "OPENBLAS_NUM_THREADS" in os.environ)
for number in range(6):
    with StepTraceAnnotation("train", step_num=100 + number):
        print("body")
        if number == 4: raise SystemExit(7) if sys.argv[1] == "a" else ValueError("mine")
"""


def test_a_program_is_run_as_python_does_and_its_steps_are_recorded(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    script, logs = written(folder, _TRAINING), str(folder / "logs")
    flags = ("--python-level", "1", "--then", "steps")
    assert main(["run", "-o", logs, "--steps", "1:3", *flags, script, "a", "--steps", "x"]) == 7
    out, err = capfd.readouterr()
    first, *lines = out.splitlines()
    assert first == f"['a', '--steps', 'x'] {folder / 'site'} False False"
    assert lines[:11] == [
        "train 100", "body", "start 2 1", "train 101", "body", "train 102", "body", "stop", "train 103", "body",
        "train 104",
    ]  # fmt: skip
    assert re.search(r"^ +step count +12$", out, re.MULTILINE)
    (capture,) = (folder / "logs").rglob("*.pb")
    assert capture.read_bytes() == sample() and f"fastprof: wrote {capture.parent}" in err
    assert [path.name for path in (folder / "logs").iterdir()] == ["plugins"]


def test_the_end_of_a_run_says_what_was_recorded_and_what_it_cost(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = written(folder, _TRAINING)
    monkeypatch.chdir(folder)
    assert main(["run", "--steps", "1:3", script, "a"]) == 7
    assert main(["run", "--steps", "1:3", script, "a"]) == 7
    err = capfd.readouterr().err
    runs = sorted(Path("fastprof-runs/plugins/profile").iterdir())
    assert len(runs) == 2 and err.count("start 2 1") == 0
    assert err.endswith(
        "host ops\nfastprof: cost not measured: too few recorded steps to compare: 2 of at least 3\n"
        f"fastprof: wrote {runs[1]}\n"
        "fastprof: next: fastprof diagnosis fastprof-runs, or in a browser: fastprof serve fastprof-runs\n"
    )
    assert re.search(r"^fastprof: recorded [\d.]+ m?s, 12 steps: host ops$", err, re.MULTILINE)


_KILLED = """
import os, signal, time
from jax.profiler import StepTraceAnnotation
for number in range(16):
    with StepTraceAnnotation("train", step_num=number): time.sleep(0.05 if number in (1, 2, 3, 4) else 0.01)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_windows_of_a_program_that_a_signal_kills_are_runs_of_their_own(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = written(folder, _KILLED)
    monkeypatch.chdir(folder)
    assert main(["run", "--steps", "1:5", "--no-checks", "--then", "info", script]) == 128 + signal.SIGTERM
    captures = sorted(path.relative_to("fastprof-runs") for path in Path("fastprof-runs").rglob("*.pb"))
    assert [path.name for path in captures] == ["vm.xplane.pb"] * 2
    assert captures[1].parent.name == f"{captures[0].parent.name}_without_python"
    assert "fastprof: without Python functions: " in capfd.readouterr().err


def test_what_was_recorded_before_an_error_is_kept(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script, logs = written(folder, _TRAINING), str(folder / "logs")
    assert main(["run", "-o", logs, "--run", "mine", "--steps", "3:9", "--no-checks", script, "b"]) == 1
    out, err = capfd.readouterr()
    assert "ValueError: mine" in err and "fastprof/" not in err.partition("ValueError")[0]
    assert out.index("train 104") < out.index("stop") < out.index("Diagnosis")
    assert (folder / "logs" / "plugins" / "profile" / "mine" / "vm.xplane.pb").exists()


def test_a_module_is_recorded_by_time(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(folder, "import jax, sys\nassert jax.profiler.over.wait(60)\nprint(sys.argv[1:])")
    monkeypatch.chdir(folder)
    times = ("--after", "1ms", "--duration", "1ms")
    assert main(["run", "-o", "logs", *times, "--no-checks", "--then", "info", "-m", "train", "-x"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("start 2 1\nstop\n['-x']\n") and "vm" in out


_COMPILING = """
import itertools, time
from jax.profiler import StepTraceAnnotation, over
time.sleep(0.3)
print("compiled")
for number in itertools.count():
    with StepTraceAnnotation("train", step_num=number): time.sleep(0.01)
    if over.is_set(): break
"""


def test_without_flags_a_window_waits_for_steps_and_has_enough_of_them(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_AFTER_S", 0.01)
    monkeypatch.setattr(run, "_DURATION_MS", 1)
    monkeypatch.chdir(folder)
    assert main(["run", "--python-level", "1", "--no-checks", "--then", "info", written(folder, _COMPILING)]) == 0
    lines = capfd.readouterr().out.splitlines()
    start, stop = lines.index("start 2 1"), lines.index("stop")
    assert lines[0] == "compiled" and sum(line.startswith("train ") for line in lines[:start]) >= 4
    assert sum(line.startswith("train ") for line in lines[start:stop]) > 5


_TORCH = {
    "__init__.py": "from torch import autograd, optim, profiler",
    "autograd.py": "def _profiler_enabled(): return False",
    "optim/__init__.py": "from torch.optim.optimizer import Optimizer",
    "optim/optimizer.py": """
from torch.profiler import record_function
class Optimizer:
    def __init__(self): type(self).step = self.profile_hook_step(type(self).step)
    @staticmethod
    def profile_hook_step(func):
        def wrapper(*args):
            with record_function("Optimizer.step"): return func(*args)
        return wrapper
""",
    "profiler.py": """
import contextlib, pathlib, threading
from types import SimpleNamespace
over = threading.Event()
ProfilerActivity = SimpleNamespace(CPU="CPU")
def supported_activities(): return ["CPU"]
def is_main(): return threading.current_thread() is threading.main_thread()
class profile:
    def __init__(self, activities, with_stack, record_shapes): pass
    def start(self): print("start", is_main())
    def stop(self): print("stop", is_main())
    def export_chrome_trace(self, path):
        pathlib.Path(path).write_text('{"schemaVersion": 1, "traceEvents": []}')
        over.set()
@contextlib.contextmanager
def record_function(name):
    print(name)
    yield
    print("end of", name)
""",
}
_LOOP = """
import sys, time, torch
class SGD(torch.optim.Optimizer):
    def step(self): return 7
sgd = SGD() if sys.argv[1] == "train" else None
for _ in range(15_000):
    if torch.profiler.over.is_set(): break
    if sgd: assert sgd.step() == 7
    time.sleep(0.002)
"""


@pytest.mark.parametrize("kind", ["train", "infer"])
def test_pytorch_is_recorded_on_the_main_thread_outside_of_annotations(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name, text in _TORCH.items():
        (tmp_path / "torch" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torch" / name).write_text(text)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.chdir(tmp_path)
    times = ("--after", "300ms", "--duration", "20ms", "--python-level", "1")
    assert main(["run", *times, "--no-checks", "--then", "info", written(tmp_path, _LOOP), kind]) == 0
    lines = capfd.readouterr().out.splitlines()
    start, stop = lines.index("start True"), lines.index("stop True")
    opened = [line for line in lines[:stop] if not line.startswith(("end of", "start"))]
    ended = [line.removeprefix("end of ") for line in lines[:stop] if line.startswith("end of")]
    assert sorted(opened) == sorted(ended)
    marks = [line for line in lines[start:stop] if line.startswith("ProfilerStep#")]
    assert bool(marks) == (kind == "train") and (lines[start - 1 : start] == ["end of Optimizer.step"]) == bool(marks)


@pytest.mark.parametrize(
    ("flags", "text", "why"),
    [
        (["--steps", "9:10"], "print()", "the program has not imported jax, tensorflow, torch"),
        (["--steps", "9:10"], "import jax", "it has not marked any step; --after and --duration record by time"),
        ([], "import jax", "it ended before 5 s had passed; give a smaller --after"),
        (["--steps", "0:1", "--host-level", "3"], "import jax\njax.profiler.StepTraceAnnotation('x', step_num=0)",
         r"JAX cannot record: out of \x1b[2J buffers"),
        ([], "import os\nos._exit(0)", "the program ended before it could report the reason"),
    ],
)  # fmt: skip
def test_why_nothing_was_recorded(
    folder: Path, capfd: pytest.CaptureFixture[str], flags: list[str], text: str, why: str
) -> None:
    assert main(["run", "-o", str(folder / "logs"), *flags, written(folder, text)]) == 6
    assert capfd.readouterr().err == f"fastprof: nothing was recorded: {why}\n"
    assert not (folder / "logs").exists()


@pytest.mark.parametrize("flags", [[], ["-m"], ["--steps", "1:", "x"], ["--steps", "1:2", "--after", "1s", "x"]])
def test_flags_that_do_not_fit(tmp_path: Path, capfd: pytest.CaptureFixture[str], flags: list[str]) -> None:
    assert main(["run", "-o", str(tmp_path / "logs"), *flags]) == 2
    assert capfd.readouterr().err.startswith("fastprof: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 5), (signal.SIGINT, 0)])
def test_a_request_to_end_is_passed_on_and_an_interrupt_is_the_programs(
    folder: Path, number: signal.Signals, code: int
) -> None:
    script = written(
        folder,
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('ready')\n"
        "for _ in range(1 if sys.argv[1] == '2' else 6000): time.sleep(0.5)\n",
    )
    words = ["run", "-o", str(folder / "logs"), script, str(int(number))]
    command = [sys.executable, "-c", "from fastprof.cli.main import entry; raise SystemExit(entry())", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=60)
    assert "nothing was recorded" in err
    assert process.returncode == (code or 6)
    assert not (folder / "logs").exists()
