"""``fastprof.record`` with frameworks whose profilers do as those of JAX 0.10, TensorFlow and PyTorch did."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_capture_workers import sample

import fastprof
from fastprof.errors import FastprofError, NotFoundError, OutputError, UsageError


class Program:
    """A program and the profiler in it. ``events``: what happened, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.levels: list[int] = []
        self.folder: str | None = None
        self.fault: Exception | None = None

    def start(self, folder: str, *levels: int) -> None:
        self.events.append("start")
        self.folder, self.levels = folder, list(levels)

    def stop(self, name: str = "plugins/profile/2026_01_01_00_00_00/vm.xplane.pb", data: bytes = b"") -> None:
        self.events.append("stop")
        folder, self.folder = Path(self.folder or ""), None
        if self.fault is not None:
            raise self.fault
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data or sample(2))

    @contextmanager
    def mark(self, name: str, **stats: int) -> Iterator[None]:
        number = f" {stats['step_num']}" if "step_num" in stats else ""
        self.events.append(f"{name}{number}")
        yield
        self.events.append(f"end of {name}{number}")


def jax_of(program: Program) -> ModuleType:
    module, profiler = ModuleType("jax"), SimpleNamespace(ProfileOptions=SimpleNamespace)

    def start_trace(folder: str, *, profiler_options: Any) -> None:
        options = profiler_options
        if program.folder is not None:
            raise RuntimeError("Profile has already been started.")
        program.start(folder, options.host_tracer_level, options.python_tracer_level)

    profiler.start_trace, profiler.stop_trace = start_trace, program.stop
    profiler.StepTraceAnnotation = profiler.TraceAnnotation = program.mark
    module.__dict__.update(profiler=profiler, live_arrays=list, __version__="0.10.2")
    module.__dict__["block_until_ready"] = lambda _arrays: program.events.append("settle")
    return module


def tensorflow_of(program: Program) -> ModuleType:
    class OpError(Exception):
        pass

    class AlreadyExistsError(OpError):
        pass

    def start(folder: str, *, options: dict[str, int]) -> None:
        if program.folder is not None:
            raise AlreadyExistsError("Another profiler is running.")
        program.start(folder, options["host_tracer_level"], options["python_tracer_level"])

    module = ModuleType("tensorflow")
    profiler = SimpleNamespace(start=start, stop=program.stop, ProfilerOptions=dict, Trace=program.mark)
    errors = SimpleNamespace(OpError=OpError, AlreadyExistsError=AlreadyExistsError)
    module.__dict__.update(profiler=SimpleNamespace(experimental=profiler), errors=errors)
    return module


def torch_of(program: Program) -> ModuleType:
    class Profile:
        def __init__(self, activities: list[str], with_stack: bool, record_shapes: bool) -> None:
            program.levels = [len(activities), int(with_stack and record_shapes)]

        def start(self) -> None:
            program.start("", *program.levels)

        def stop(self) -> None:
            program.folder = None

        def export_chrome_trace(self, path: str) -> None:
            rows = [{"ph": "X", "name": f"ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": 10 * i, "dur": 9,
                     "cat": "user_annotation"} for i in range(2)]  # fmt: skip
            program.folder = str(Path(path).parent)
            program.stop(Path(path).name, json.dumps({"schemaVersion": 1, "traceEvents": rows}).encode())

    profiler = SimpleNamespace(
        profile=Profile, supported_activities=lambda: ["CPU", "CUDA"], record_function=program.mark,
        ProfilerActivity=SimpleNamespace(CPU="CPU"),
    )  # fmt: skip
    module = ModuleType("torch")
    autograd = SimpleNamespace(_profiler_enabled=lambda: program.folder is not None)
    module.__dict__.update(profiler=profiler, autograd=autograd)
    return module


FRAMEWORKS = {"jax": jax_of, "tensorflow": tensorflow_of, "torch": torch_of}


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Program:
    one, chosen = Program(), getattr(request, "param", "jax")
    for name in (*FRAMEWORKS, "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, chosen, FRAMEWORKS[chosen](one))
    return one


every_framework = pytest.mark.parametrize("program", FRAMEWORKS, indirect=True)


@every_framework
def test_steps_are_recorded_and_marked_with_their_waits(program: Program, tmp_path: Path) -> None:
    with fastprof.record(tmp_path / "logs", steps=(2, 4), python_level=1) as recording:
        for item in recording.steps("abcdef"):
            program.events.append(item)
    two, three = ("ProfilerStep#2", "ProfilerStep#3") if "torch" in sys.modules else ("train 2", "train 3")
    assert [one for one in program.events if one != "settle" and "$" not in one] == [
        "a", "b", "start", two, "c", "next_batch", "end of next_batch", f"end of {two}",
        three, "d", "next_batch", "end of next_batch", f"end of {three}", "stop", "e", "f",
    ]  # fmt: skip
    assert program.levels == [2, 0 if "tensorflow" in sys.modules else 1]
    assert any("test_recording.py" in one for one in program.events) == ("tensorflow" in sys.modules)
    profile = recording.profile
    assert recording.path == str(Path(profile.sources[0]).parent)
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["plugins"]
    assert profile.steps().scalars["step_count"].value == 2
    (few,) = [one for one in recording.remarks if one.code == "few_steps"]
    assert few.advice.startswith("steps=(")


@pytest.mark.parametrize(("recorded_s", "cost"), [(1.5, "50.0 % slower"), (1.03125, "3.1 % slower")])
def test_steps_that_recording_slows_are_recorded_again_without_python(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded_s: float, cost: str
) -> None:
    now, levels = [0.0], list[int]()
    for module in ("step_times", "own_profiler"):
        clock = SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: 0.0)
        monkeypatch.setattr(f"fastprof.inputs.{module}.time", clock)
    with fastprof.record(tmp_path, run="mine", steps=(4, 8)) as recording:
        for _ in recording.steps(range(30)):
            now[0] += 1.0 if program.folder is None else recorded_s
            levels += program.levels[1:] if program.folder is not None else []
    runs = [path.name for path in sorted((tmp_path / "plugins/profile").iterdir())]
    assert cost in str(recording.cost) and str(recording.cost).startswith("1 steps/s without recording")
    if recorded_s == 1.5:
        assert levels == [1] * 4 + [0] * 4 and runs == ["mine", "mine_without_python"]
        assert recording.path_without_python == f"{recording.path}_without_python"
        assert fastprof.load(tmp_path).run == "mine"
    else:
        assert levels == [1] * 4 and runs == ["mine"] and recording.path_without_python is None


@every_framework
def test_a_second_session_is_refused_and_costs_the_first_nothing(program: Program, tmp_path: Path) -> None:
    with fastprof.record(tmp_path) as recording:
        with pytest.raises(UsageError, match="a profiler is recording this program already"), fastprof.record(tmp_path):
            pass
        assert program.events.count("start") == 1
    assert recording.profile.events.num_rows > 0


def test_the_entire_block_is_recorded_without_steps(program: Program, tmp_path: Path) -> None:
    with fastprof.record(tmp_path, run="mine") as recording:
        recording.step()
        recording.step()
    assert program.events == [
        "settle", "start", "train 0", "end of train 0", "train 1", "end of train 1", "settle", "stop",
    ]  # fmt: skip
    assert recording.path == str(tmp_path / "plugins" / "profile" / "mine")
    with pytest.raises(UsageError, match="used once"), recording:
        pass


def test_processes_that_name_a_run_share_it(program: Program, tmp_path: Path) -> None:
    for _ in range(2):
        with fastprof.record(tmp_path, run="both") as recording:
            pass
    run = tmp_path / "plugins" / "profile" / "both"
    assert sorted(path.name for path in run.iterdir()) == ["vm#2.xplane.pb", "vm.xplane.pb"]
    assert len(recording.profile.sources) == 2
    assert program.events.count("stop") == 2


def test_an_exception_passes_through_and_what_was_recorded_stays(program: Program, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), fastprof.record(tmp_path, steps=(1, 9)) as recording:
        for number in recording.steps(range(4)):
            1 / (2 - number)
    assert program.events[-3:] == ["end of train 2", "settle", "stop"]
    assert recording.profile.events.num_rows > 0


def test_a_profiler_that_fails_leaves_nothing(program: Program, tmp_path: Path) -> None:
    program.fault = RuntimeError("no disk")
    lost = pytest.raises(FastprofError, match="JAX cannot deliver what it recorded: no disk")
    with lost, fastprof.record(tmp_path / "logs"):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError) as raised, fastprof.record(tmp_path / "logs"):
        1 / 0  # noqa: B018
    assert "no disk" in raised.value.__notes__[0]
    assert list(tmp_path.iterdir()) == []


def test_steps_that_never_came_are_a_warning(program: Program, tmp_path: Path) -> None:
    warned = pytest.warns(UserWarning, match="step 5 has not begun; 3 steps were counted")
    with warned, fastprof.record(tmp_path / "logs", steps=(5, 7)) as recording:
        list(recording.steps("abc"))
    with pytest.raises(NotFoundError, match="step 5 has not begun"):
        _ = recording.profile
    assert list(tmp_path.iterdir()) == [] and program.events == []


def test_what_cannot_be_recorded_is_refused_at_once(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ({"steps": (3, 3)}, {"run": "a/b"}, {"host_level": 4}):
        with pytest.raises(UsageError):
            fastprof.record(tmp_path, **wrong)  # type: ignore[arg-type]
    for framework in ("jacks", "torch"):
        with pytest.raises(UsageError, match=framework), fastprof.record(tmp_path, framework=framework):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="log directory"), fastprof.record(tmp_path / "file" / "logs", steps=(5, 7)):
        pass
    monkeypatch.delitem(sys.modules, "jax")
    with pytest.raises(UsageError, match="has not imported"), fastprof.record(tmp_path):
        pass
    assert program.events == [] and [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("version", "marks"), [("3.10.0", ["train 1", "end of train 1"]), ("2.15.0", [])])
def test_a_callback_counts_the_batches_of_keras(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, marks: list[str]
) -> None:
    keras = ModuleType("keras")
    keras.__dict__.update(callbacks=SimpleNamespace(Callback=object), __version__=version)
    monkeypatch.setitem(sys.modules, "keras", keras)
    with fastprof.record(tmp_path, steps=(1, 9)) as recording:
        callback = recording.keras_callback()
        for batch in range(2):
            callback.on_train_batch_begin(batch, logs=None)
        callback.on_epoch_end(0, logs={})
        program.events.append("validation")
    assert [one for one in program.events if one != "settle"] == ["start", *marks, "validation", "stop"]
