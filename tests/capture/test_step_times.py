"""Recording cost by steps, or by calls of compiled functions, and the second window."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastprof.inputs import step_times
from fastprof.inputs.framework_profilers import PythonCalls
from fastprof.inputs.step_times import STEPS, RecordingCost, StepTimes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=0.0, cpu_s=0.0)
    clocks = SimpleNamespace(monotonic=lambda: now.s, process_time=lambda: now.cpu_s)
    monkeypatch.setattr(step_times, "time", clocks)
    return now


def note(times: StepTimes, clock: SimpleNamespace, key: str, *spans: tuple[float, ...]) -> None:
    """Spans: begin, interval and count; with them, processor time of each."""
    for begin, interval, count, *cpu in spans:
        for number in range(int(count)):
            clock.s = begin + number * interval
            clock.cpu_s += sum(cpu)
            times.note(key)


def test_medians_of_recorded_and_unrecorded_steps_are_compared(clock: SimpleNamespace) -> None:
    times = StepTimes()
    note(times, clock, STEPS, (0, 0.5, 8), (10, 0.55, 5), (20, 0.5, 3), (21.9, 0.5, 3))
    cost = times.measure_cost((10, 15), [(0, 9), (20, 30)])
    assert cost.share == pytest.approx(0.1) and cost.is_high and cost.noise == pytest.approx(0)
    assert str(cost) == "2 steps/s without recording, 1.818 with: 10.0 % slower (medians)"
    few = times.measure_cost((10, 11), [(0, 9)])
    assert few.is_high and str(few) == "cost not measured: too few recorded steps to compare: 1 of at least 3"


@pytest.mark.parametrize(("cpu_s", "is_high", "share"), [(0.125, True, "+10.0 %"), (0.065625, False, "+0.5 %")])
def test_processor_time_decides_if_the_program_itself_changed(
    clock: SimpleNamespace, cpu_s: float, is_high: bool, share: str
) -> None:
    times = StepTimes()
    before, after = (0, 0.5, 8, 0.0625), (20, 0.75, 8, 0.0625)
    note(times, clock, STEPS, before, (10, 0.75, 5, cpu_s), after)
    cost = times.measure_cost((10, 15), [(0, 9), (20, 30)])
    assert (cost.share, cost.noise, cost.is_high) == (pytest.approx(0.2), pytest.approx(0.2), is_high)
    assert str(cost) == (
        "1.6 steps/s without recording, 1.333 with: 20.0 % slower, with a noise of ±20 %; "
        f"{share} by processor time (medians)"
    )


def test_the_noise_has_the_error_of_medians(clock: SimpleNamespace) -> None:
    times = StepTimes()
    for begin, count in ((0, 9), (100, 16)):  # steps of 3 and 5 s in turn: a median deviation of 1 s
        for number in range(count):
            note(times, clock, STEPS, (begin + 8 * (number // 2) + 3 * (number % 2), 1, 1))
    cost = times.measure_cost((100, 199), [(0, 99)])
    assert cost.without_s == 4 and cost.noise == pytest.approx(2 * 1.86 * (1 / 8 + 1 / 15) ** 0.5 / 4, rel=0.3)


def test_a_loop_is_steady_while_its_steps_follow_each_other(clock: SimpleNamespace) -> None:
    times = StepTimes()
    note(times, clock, "train_step", (0, 60, 1))
    note(times, clock, "init", (0, 0.01, 50))
    clock.s = 40
    assert not times.is_steady() and times.count_since(0.2) == 30  # the first step is still compiled
    note(times, clock, "train_step", (60, 1, 3))
    assert times.is_steady()
    clock.s = 67
    assert not times.is_steady()
    assert StepTimes().count_since(0) is None


def test_without_steps_the_function_that_is_called_once_a_step_counts(clock: SimpleNamespace) -> None:
    times = StepTimes()
    note(times, clock, "evaluate", (0, 4, 5), (20, 4, 5))
    note(times, clock, "train", (0, 1, 20), (20, 1.02, 18))
    for begin in range(40):  # three times a step
        note(times, clock, "add", (begin, 0.01, 3))
    cost = times.measure_cost((20, 40), [(0, 19.5)])
    assert (cost.unit, cost.is_high) == ("calls of train", False)
    assert str(StepTimes().measure_cost((0, 1), [])).startswith("cost not measured: no step markers")


def test_calls_of_jax_are_counted_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(value=None)
    state.set_global = lambda hook: setattr(state, "value", hook)
    monkeypatch.setitem(sys.modules, "jax._src.api", SimpleNamespace(_post_hook_state=state))
    times = StepTimes()
    times.count_calls()
    for _ in range(5):
        state.value(test_calls_of_jax_are_counted_until_the_end, (), {}, None)
    assert "calls of test_calls_of_jax" in str(times.measure_cost((0, 1), []))
    times.stop()
    assert state.value is None
    state.value = checks = print  # the checks of JAX itself
    StepTimes().count_calls()
    assert state.value is checks


def test_a_recording_that_is_faster_shows_no_cost() -> None:
    assert "5.0 % faster, no measurable cost" in str(RecordingCost("steps", 1.0, 0.95))


_PROGRAM = """
import re
def load(number):
    return decode(number)
def decode(number):
    re.escape("a.b")
    return number
"""


@pytest.mark.parametrize("is_from_thread", [False, True])
def test_functions_of_the_program_are_annotated_and_those_that_libraries_call_are_not(
    tmp_path: Path, is_from_thread: bool
) -> None:
    marks: list[str] = []

    @contextmanager
    def mark(name: str) -> Iterator[None]:
        marks.append(name)
        yield
        marks.append(f"end of {name}")

    names: dict[str, object] = {}
    path = tmp_path / "train.py"
    exec(compile(_PROGRAM, str(path), "exec"), names)
    load, calls = names["load"], PythonCalls(mark)
    assert callable(load)
    if is_from_thread:
        thread = threading.Thread(target=calls.start)
        thread.start()
        thread.join()
    else:
        calls.start()
    load(1)
    calls.stop()
    load(2)
    mine = [one for one in marks if "train.py" in one or "escape" in one]
    (escape,) = {one for one in mine if "escape" in one and not one.startswith("end")}
    assert mine == [
        "$train.py:3 load", "$train.py:5 decode", escape, f"end of {escape}",
        "end of $train.py:5 decode", "end of $train.py:3 load",
    ]  # fmt: skip
    assert not [one for one in marks if "framework_profilers" in one] and sys.getprofile() is None
