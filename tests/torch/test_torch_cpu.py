"""Programs of PyTorch without a GPU: the threads of the host are their device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from torch_captures import MICRO, Recorded, kernel, launch, op, step, torch_capture

import fastprof

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def annotation(name: str, start: int, duration: int) -> Recorded:
    return "user_annotation", name, start, duration, {}


def frame(name: str, start: int, duration: int) -> Recorded:
    return "python_function", name, start, duration, {"Python id": start}


def of_threads(*threads: list[Recorded]) -> fastprof.Profile:
    return torch_capture({f"thread {number}": events for number, events in enumerate(threads)}, {})


def by_cause(profile: fastprof.Profile) -> Mapping[str, tuple[int, str]]:
    """Microseconds and the event of each cause."""
    rows = profile.gaps().tables["by_cause"].to_pylist()
    return {row["cause"]: (row["time_ps"] // MICRO, row["event"]) for row in rows}


def first_finding(profile: fastprof.Profile) -> dict[str, Any]:
    row: dict[str, Any] = profile.diagnosis().tables["findings"].to_pylist()[0]
    return row


def test_ops_of_all_threads_are_the_work_of_one_device() -> None:
    """Of nested ops the outermost counts; what two threads do at once counts once."""
    main = [step(1, 0, 1000), op("aten::linear", 100, 300), op("aten::addmm", 150, 100), op("gloo:all_reduce", 800, 60)]
    autograd = [op("AddmmBackward0", 300, 200)]
    profile = of_threads(main, autograd)
    (row,) = profile.gaps().tables["devices"].to_pylist()
    times = {name: row[f"{name}_ps"] // MICRO for name in ("window", "compute", "communication", "idle")}
    assert times == {"window": 1000, "compute": 400, "communication": 60, "idle": 540}
    assert row["device"] == "CPU"
    assert profile.diagnosis().scalars["computing_device_count"].value == 1


def test_what_the_loader_runs_is_input() -> None:
    main = [
        step(1, 0, 1000), annotation(LOADER, 0, 600), op("aten::randn", 50, 100), op("aten::stack", 400, 50),
        op("aten::cat", 410, 20), op("aten::linear", 600, 400),
    ]  # fmt: skip
    profile = of_threads(main)
    assert by_cause(profile) == {"input": (600, LOADER)}
    found = first_finding(profile)
    assert (found["cause"], found["cost_ps"], found["certainty"]) == ("input", 600 * MICRO, "certain")
    assert "num_workers" in found["advice"]
    assert "non_blocking" not in found["advice"]


def looping(count: int, op_time: int, between: int, start: int = 100) -> list[Recorded]:
    """Ops that Python calls one after the other."""
    return [op("aten::add_", start + number * (op_time + between), op_time) for number in range(count)]


@pytest.mark.parametrize("traced", [False, True])
def test_an_optimizer_that_loops_over_short_ops(traced: bool) -> None:
    """30 ops of 4 µs and 6 µs of Python after each take 294 µs; ops that they call are theirs."""
    main = [step(1, 0, 1000), annotation("Optimizer.step#Slow.step", 90, 310), *looping(30, 4, 6)]
    main += [op("aten::as_strided", 101, 1), op("aten::linear", 400, 600)]
    if traced:
        main += [frame("train.py(7): step", 92, 305), frame("<built-in method add_ of Tensor object at 0x7f>", 99, 6)]
    profile = of_threads(main)
    assert by_cause(profile)["launch"] == (294, "Optimizer.step#Slow.step")
    found = first_finding(profile)
    assert (found["cause"], found["cost_ps"]) == ("small_ops", 294 * MICRO)
    assert found["annotation"] == "Optimizer.step#Slow.step"
    assert "torch.compile" in found["advice"]


def test_without_annotations_the_function_calls_the_short_ops() -> None:
    main = [step(1, 0, 1000), frame("train.py(7): update", 90, 310), *looping(30, 4, 6), op("aten::linear", 400, 600)]
    found = first_finding(of_threads(main))
    assert (found["cause"], found["cost_ps"], found["source"]) == ("small_ops", 294 * MICRO, "train.py:7")


@pytest.mark.parametrize(
    ("count", "op_time", "causes"),
    [(19, 4, {"python": 900 - 19 * 4}), (30, 10, {"python": 900 - 30 * 10}), (30, 9, {"launch": 29 * 15 + 9})],
)
def test_few_or_longer_ops_are_work(count: int, op_time: int, causes: dict[str, int]) -> None:
    """Fewer than 20 in a row are nothing to combine, and from 10 µs on an op is worth its call."""
    main = [step(1, 0, 1000), annotation("part", 0, 1000), *looping(count, op_time, 6), op("aten::linear", 900, 100)]
    found = by_cause(of_threads(main))
    assert {cause: time for cause, (time, _) in found.items() if cause in causes} == causes


def test_ops_that_were_interrupted_are_short_in_the_median() -> None:
    """The machine ran something else during one op and one gap of 120."""
    ops = looping(120, 4, 6)
    late = [(*one[:2], one[2] + 5000 * (place > 20) + 5000 * (place > 40), *one[3:]) for place, one in enumerate(ops)]
    late[20] = op("aten::add_", ops[20][2], 5004)
    main = [step(1, 0, 20000), annotation("Optimizer.step#Slow.step", 90, 11300), *late, op("aten::mm", 11400, 8600)]
    assert by_cause(of_threads(main))["launch"][0] == 1194 + 10_000


def test_python_that_works_between_short_ops_is_python() -> None:
    """A tenth of the gaps takes 2 ms: these are no interruptions."""
    ops = [one for k in range(5) for one in looping(20, 4, 6, 100 + 2200 * k)]
    main = [step(1, 0, 12000), annotation("part", 0, 12000), *ops, op("aten::mm", 11000, 1000)]
    found = by_cause(of_threads(main))
    assert found["launch"][0] == 5 * 194
    assert found["python"][0] == 11000 - 5 * 194
    assert "Do it while the device computes" not in first_finding(of_threads(main))["advice"]


def test_a_gpu_is_the_device_if_there_is_one() -> None:
    gpu = {"stream 7": [("kernel", "sgemm", 200, 50, {"correlation_id": 1})]}
    profile = torch_capture({"main": [step(1, 0, 1000), op("aten::mm", 100, 20)]}, gpu)  # type: ignore[dict-item]
    assert profile.gaps().tables["devices"]["device"].to_pylist() == ["/device:GPU:0"]


def test_ops_are_those_of_the_category_and_keep_their_names() -> None:
    """Names of collectives and of autograd have colons, too; annotations and Python are not ops."""
    backward = "autograd::engine::evaluate_function: AddmmBackward0"
    main = [
        step(1, 0, 1000), annotation("nccl:all_reduce", 0, 50), frame("train.py(7): step", 60, 900),
        op("aten::linear", 100, 300), op("aten::addmm", 150, 100), op("c10d::allreduce_", 500, 20),
    ]  # fmt: skip
    report = of_threads(main, [op(backward, 200, 40)]).op_stats()
    columns = ("name", "type", "occurrences", "total_ps", "self_ps", "device_total_ps")
    rows = [tuple(row[one] for one in columns) for row in report.tables["host_ops"].to_pylist()]
    assert [row for row in rows if row[0] != "IDLE"] == [
        ("aten::linear", "PyTorch op", 1, 300 * MICRO, 200 * MICRO, None),
        ("aten::addmm", "PyTorch op", 1, 100 * MICRO, 100 * MICRO, None),
        (backward, "PyTorch op", 1, 40 * MICRO, 40 * MICRO, None),
        ("c10d::allreduce_", "PyTorch op", 1, 20 * MICRO, 20 * MICRO, None),
    ]
    assert report.scalars["host_op_ps"].value == 360 * MICRO
    assert report.scalars["host_idle_ps"].value == 100 * MICRO  # of the main thread, from the first op to the last


def test_ops_have_the_time_of_what_they_launch() -> None:
    """Of kernels that an op launches through another one of its name, the time counts once."""
    main = [
        op("aten::linear", 0, 100), op("aten::addmm", 10, 50), launch(20, 1), launch(70, 2),
        op("aten::add_", 200, 50), op("aten::add_", 205, 40), launch(210, 3), op("aten::view", 300, 10), launch(400, 4),
    ]  # fmt: skip
    gpu = [kernel(f"kernel {number}", 500 + 100 * number, 10 * number, number) for number in (1, 2, 3, 4)]
    report = torch_capture({"main": main}, {"stream 7": gpu}).op_stats()
    found = {
        row["name"]: (row["occurrences"], row["device_self_ps"], row["device_total_ps"])
        for row in report.tables["host_ops"].to_pylist()
    }
    assert found == {
        "aten::linear": (1, 20 * MICRO, 30 * MICRO),
        "aten::addmm": (1, 10 * MICRO, 10 * MICRO),
        "aten::add_": (2, 30 * MICRO, 30 * MICRO),
        "aten::view": (1, 0, 0),
        "IDLE": (0, None, None),
    }


FETCH = "torch/utils/data/_utils/fetch.py(54): <listcomp>"


@pytest.mark.parametrize("traced", [True, False])
def test_the_function_that_takes_the_time_of_the_loader(traced: bool) -> None:
    """Samples are read one after the other; what PyTorch runs around them is not the program's."""
    main = [step(1, 0, 1000), annotation(LOADER, 0, 800), op("aten::linear", 800, 200)]
    if traced:
        main += [frame(FETCH, 10, 780), frame("train.py(30): collate", 700, 80)]
        main += [frame("train.py(8): __getitem__", 20 + 100 * number, 90) for number in range(6)]
        main += [frame("image.py(3): decode", 25 + 100 * number, 80) for number in range(6)]
    profile = of_threads(main)
    found, advised = first_finding(profile), profile.input_pipeline().notices[-1].text
    assert (found["cause"], found["cost_ps"]) == ("input", 800 * MICRO)
    assert found["annotation"] == ("train.py(8): __getitem__" if traced else LOADER)
    assert found["source"] == ("train.py:8" if traced else None)
    assert advised.startswith("The program waits 1 time for its DataLoader, 800.0 µs in total.")
    assert ("__getitem__ (train.py:8) takes 67.5 % of that" in advised) == traced
    assert ("with_stack=True" in advised) != traced
