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
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(step_times, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def note(times: StepTimes, clock: SimpleNamespace, key: str, *spans: tuple[float, float, float]) -> None:
    """Spans: begin, interval and count."""
    for begin, interval, count in spans:
        for number in range(int(count)):
            clock.s = begin + number * interval
            times.note(key)


def test_medians_of_recorded_and_unrecorded_steps_are_compared(clock: SimpleNamespace) -> None:
    times = StepTimes()
    note(times, clock, STEPS, (0, 0.5, 8), (10, 0.55, 5), (20, 0.5, 3), (21.9, 0.5, 3))
    cost = times.measure_cost((10, 15), [(0, 9), (20, 30)])
    assert cost.share == pytest.approx(0.1) and cost.is_high and cost.drift == pytest.approx(0)
    assert str(cost) == "2 steps/s without recording, 1.818 with: 10.0 % slower (medians)"
    few = times.measure_cost((10, 11), [(0, 9)])
    assert few.is_high and str(few) == "cost not measured: too few recorded steps to compare: 1 of at least 3"


def test_a_cost_says_if_the_program_itself_changed(clock: SimpleNamespace) -> None:
    times = StepTimes()
    note(times, clock, STEPS, (0, 0.5, 8), (10, 0.5, 5), (20, 0.625, 8))
    assert "rough, as unrecorded steps before and after differ by 25.0 %" in str(
        times.measure_cost((10, 15), [(0, 9), (20, 30)])
    )


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
