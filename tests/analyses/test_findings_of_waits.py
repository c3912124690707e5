"""Findings whose wording depends on what lies behind them: waits for the device, memory used first, slow hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from test_diagnosis import KERNEL, MS
from trace_builder import Event, Line, event, line, plane, xspace

import fastprof

US = MS // 1000


def findings(*captures: bytes) -> list[dict[str, Any]]:
    report = fastprof.load(list(captures) if len(captures) > 1 else captures[0]).report("diagnosis")
    rows: list[dict[str, Any]] = report.tables["findings"].to_pylist()
    return rows


def gpu_with(*host: bytes, kernels: tuple[tuple[int, int], ...], dispatch: tuple[bytes, ...] = ()) -> bytes:
    """Kernels from one time to another, launched 1 us before; the host's thread does something else, and so does one
    that dispatches."""
    launches = [
        event("cuLaunchKernelEx", begin - US, US // 2, {"correlation_id": at}) for at, (begin, _) in enumerate(kernels)
    ]
    ran = [
        event("fusion", begin, end - begin, {"correlation_id": at, **KERNEL}) for at, (begin, end) in enumerate(kernels)
    ]
    return xspace(
        plane("/host:CPU", [line("python", [*host, *launches], id=1), line("dispatch", [*dispatch], id=2)]),
        plane("/device:GPU:0", [line("Stream #13(Compute)", ran, id=13)], stats={"device_vendor": "Nvidia"}),
    )


def test_a_wait_for_the_device_is_not_the_reason_why_it_does_nothing() -> None:
    waits = event("$api.py:31 block_until_ready", 2 * MS, 7 * MS)
    row, *_ = findings(gpu_with(waits, kernels=((MS, 2 * MS), (9 * MS, 10 * MS))))
    assert (row["cause"], row["title"], row["annotation"]) == (
        "idle", "GPU idle, cause not captured", None
    )  # fmt: skip
    assert row["detail"] == "Meanwhile the host waits for the device: $api.py:31 block_until_ready."


def test_memory_that_is_waited_for_once_may_be_used_for_the_first_time() -> None:
    once = event("Build buffer allocations", 2 * MS, 7 * MS - 2 * US)
    row, *_ = findings(gpu_with(once, kernels=((MS, 2 * MS), (9 * MS, 10 * MS))))
    assert (row["cause"], row["certainty"]) == ("memory_pressure", "likely")
    assert "run some steps before the capture starts" in row["advice"]
    moved = event("TfrtTpuClient::DefragmentMemory", 2 * MS, 7 * MS - 2 * US)
    row, *_ = findings(gpu_with(moved, kernels=((MS, 2 * MS), (9 * MS, 10 * MS))))
    assert (row["cause"], row["certainty"]) == ("memory_pressure", "certain")
    times = tuple((begin * MS, begin * MS + MS // 2) for begin in range(1, 9))
    often = (event("Build buffer allocations", end, MS // 2 - 2 * US) for _, end in times[:-1])
    row, *_ = findings(gpu_with(*often, kernels=times))
    assert (row["cause"], row["certainty"]) == ("memory_pressure", "certain")


def host(slower: int) -> bytes:
    """Five steps on a GPU that computes for 10 ms in each, and longer by so much. When the last ends is not known."""
    main, stream = [], []
    for step in range(5):
        start, length = step * 20 * MS, 10 * MS + slower
        main += [
            event("train", start, length, {"_r": 1, "step_num": step}),
            event("cuLaunchKernelEx", start, US, {"correlation_id": step}),
        ]
        stream.append(event("fusion", start + US, length - US, {"correlation_id": step, **KERNEL}))
    return xspace(
        plane("/host:CPU", [line("python", main, id=1)]),
        plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"}),
    )


def test_the_slowest_host_is_named() -> None:
    (row,) = (row for row in findings(host(0), host(2 * MS)) if row["cause"] == "straggler")
    assert (row["is_bound"], row["certainty"], row["cost_ps"]) == (True, "likely", 8 * MS)
    assert row["title"].endswith("is the slowest host: its steps take 20.0 % longer than the other host")
    assert row["detail"] == "It is the slowest in 4 of 4 steps; largest difference: device compute."
    assert "straggler" not in {row["cause"] for row in findings(host(0), host(0))}
    hosts = [host(slower * MS) for slower in (0, 2, 0, 1, 0)]
    (row,) = (row for row in findings(*hosts) if row["cause"] == "straggler")
    assert "with steps 20.0 % longer than the median, and 1 other host is slow, too" in row["title"]


def test_python_that_tf_data_calls_is_named() -> None:
    main, pool, stream = [], [], []
    for step in range(8):
        start = step * 10 * MS
        main += [
            event("train", start, 10 * MS, {"_r": 1, "step_num": step}),
            event("IteratorGetNextOp::DoCompute", start, 4 * MS),
            event("cuLaunchKernelEx", start + 4 * MS, US, {"correlation_id": step}),
        ]
        pool.append(event("map/EagerPyFunc:EagerPyFunc", start, 3 * MS))
        stream.append(event("fusion", start + 4 * MS + US, 5 * MS, {"correlation_id": step, **KERNEL}))
    row, *_ = findings(xspace(
        plane("/host:CPU", [line("python", main, id=1), line("tf_data_map", pool, id=2)]),
        plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"}),
    ))  # fmt: skip
    assert row["cause"] == "input"
    assert row["detail"] == "8 Python calls from tf.data (map/EagerPyFunc) take 24.00 ms in total."
    assert row["advice"] == (
        "tf.py_function and tf.numpy_function run one at a time for any num_parallel_calls, because of Python's global "
        "lock: write the function with TensorFlow ops, or load in processes (workers and use_multiprocessing=True of "
        "keras.utils.PyDataset)."
    )


LOCKED = 9
"""Steps in which TensorFlow's call has run its op after 1 of 10 ms, and waits for Python's lock."""


def locked_host(*others: Line) -> bytes:
    main, ops = [], []
    for step in range(LOCKED):
        start = step * 10 * MS
        main += [
            event("train", start, 10 * MS - 1, {"_r": 1, "step_num": step}),
            event("TFE_Py_ExecuteCancelable", start, 10 * MS - 2),
            event("EagerLocalExecute: __inference_step_1", start, MS),
        ]
        ops.append(event("dense/MatMul:MatMul", start + MS // 4, MS // 2))
    return xspace(plane("/host:CPU", [line("python", main, id=1), line("tf_Compute/1", ops, id=2), *others]))


def loads(*nested: str) -> list[Event]:
    """Calls in each step from the wait for the lock on."""
    times = [(step * 10 * MS + MS, 9 * MS - 3) for step in range(LOCKED)]
    return [event(name, start, length - depth) for start, length in times for depth, name in enumerate(nested)]


@pytest.mark.parametrize(
    ("thread", "calls", "title"),
    [
        ("tf_data_pool/7", loads("PyFunc:PyFunc", "$a/train.py:5 __getitem__", "$a/train.py:8 decode"),
         "$a/train.py:8 decode"),
        ("python", [event("$threading.py:9 run", 0, 90 * MS), *loads("$train.py:5 __getitem__", "$train.py:8 decode")],
         "$train.py:8 decode in __getitem__"),
        ("python", loads("$py_dataset_adapter.py:90 get_item", "$train.py:5 sample"),
         "$py_dataset_adapter.py:90 get_item"),
    ],
)  # fmt: skip
def test_python_that_holds_the_lock_to_load_input_is_named(thread: str, calls: list[Event], title: str) -> None:
    row, *_ = findings(locked_host(line(thread, calls, id=3)))
    assert (row["title"], row["is_bound"]) == (f"Compute waits for input: {title}", False)
    assert 0.8 < row["share"] < 1.0
    assert row["source"] == title[1:].split()[0]
    assert row["advice"].count("takes the largest part of it") == 1
    assert "use_multiprocessing=True" in row["advice"] and "AUTOTUNE" not in row["advice"]


def test_a_wait_for_a_lock_is_no_launch() -> None:
    row, *_ = findings(locked_host())
    assert (row["cause"], row["annotation"]) == ("lock", "TFE_Py_ExecuteCancelable")
    assert "wait for the GIL" in row["advice"]
    busy = line("python", loads("$server.py:5 poll"), id=3)
    row, *_ = findings(locked_host(busy))
    assert (row["cause"], row["annotation"]) == ("python", "$server.py:5 poll")
    idle = line("python", loads("$threading.py:5 wait"), id=3)
    assert findings(locked_host(idle))[0]["cause"] == "lock"


def test_advice_on_input_begins_with_what_loads_it() -> None:
    frame = event("$data.py:7 load_batch", 2 * MS, 7 * MS - 2 * US)
    row, *_ = findings(gpu_with(frame, kernels=((MS, 2 * MS), (9 * MS, 10 * MS))))
    assert row["cause"] == "input"
    assert row["advice"].startswith("load_batch (data.py:7) takes the largest part of it: make it faster, or ")
    waits = event("IteratorGetNextOp::DoCompute", 2 * MS, 7 * MS - 2 * US)
    row, *_ = findings(gpu_with(waits, kernels=((MS, 2 * MS), (9 * MS, 10 * MS))))
    assert (row["cause"], row["advice"][:7]) == ("input", "Prepare")


def test_the_place_of_a_finding_has_its_reason() -> None:
    (late,) = (row for row in findings(host(0), host(2 * MS)) if row["cause"] == "straggler")
    assert late["ranked_by"] == ("3.000 ms (upper bound × ½, likely × ¾)")
    once = event("load_batch", 2 * MS, 7 * MS - 2 * US)
    row, *_ = findings(gpu_with(once, kernels=((MS, 2 * MS), (9 * MS, 10 * MS))))
    assert (row["certainty"], row["ranked_by"]) == ("certain", None)


def test_an_upper_bound_is_not_added_to_costs_of_the_same_cause() -> None:
    captures = Path(__file__).resolve().parents[2] / "demo" / "pod"
    session = fastprof.load(captures)
    report = session.report("diagnosis")
    late = [row for row in report.tables["findings"].to_pylist() if row["cause"] == "straggler"]
    assert [row["is_bound"] for row in late] == [True, False]
    assert late[0]["advice"] == (
        "Find out why the slowest host is slower: more work, a slower clock, or late input."
    )  # communication.blame is empty
    (examined,) = (row for row in report.tables["examined"].to_pylist() if row["cause"] == "straggler")
    assert examined["cost_ps"] == late[0]["cost_ps"]
    assert (late[1]["evidence"], late[1]["host"]) == ("gaps.by_step?cause=communication", None)
    assert late[1]["certainty"] == "likely"  # the host that is last is not known
    assert late[1]["detail"] == "Per step: each device's collective time minus the minimum."
    assert late[1]["cost_ps"] == waited(session.gaps().tables["by_step"].to_pylist())


def test_shares_of_communication_say_what_they_count() -> None:
    session = fastprof.load(Path(__file__).resolve().parents[2] / "demo" / "pod")
    (row,) = (row for row in session.diagnosis().tables["findings"].to_pylist() if row["cause"] == "communication")
    assert (round(row["share"], 3), row["detail"]) == (
        0.081,
        "Collectives without copies and feeds, share of the run; 294.6 µs of waits for the slowest device count apart.",
    )
    text = session.report("communication").to_text(width=200)
    assert re.search(r"exposed share of recorded time \(collectives, copies, feeds\) +14\.9 %\n", text)
    assert "14.9 % of recorded device time goes to collectives, copies and feeds that no compute hides" in text


def waited(by_step: list[dict[str, Any]]) -> int:
    """What devices wait in collectives, from the rows that the finding gives as evidence."""
    steps: dict[int | None, list[int]] = {}
    for row in by_step:
        if row["cause"] == "communication":
            steps.setdefault(row["step"], []).append(row["time_ps"])
    total = 0
    for times in steps.values():
        beyond = [time - min(times) for time in times]
        waits = [one for one in beyond if 2 * one > max(beyond)]
        total += sum(waits) // max(len(waits), 1)
    return total


def test_what_input_takes_while_another_thread_launches_is_an_upper_bound() -> None:
    loads = event("load_batch", 2 * MS, 7 * MS - 2 * US)
    kernels = ((MS, 2 * MS), (9 * MS, 10 * MS))

    def found(*dispatch: bytes) -> dict[str, Any]:
        (first, *_) = findings(gpu_with(loads, kernels=kernels, dispatch=dispatch))
        return first

    row = found(event("PjRtStreamExecutorLoadedExecutable::Execute", 3 * MS, 4 * MS))
    assert (row["cause"], row["is_bound"], row["cost_ps"]) == ("input", True, 7 * MS - 2 * US)
    assert row["detail"] == (
        "During 4.000 ms of it, other threads launch, copy or compile, or another device works: that part may remain."
    )
    row = found(event("PjRtStreamExecutorLoadedExecutable::Execute", 3 * MS, MS // 2))
    assert (row["cause"], row["is_bound"], row["detail"]) == ("input", False, None)


def test_devices_that_only_copy_do_not_compute(captures: Path) -> None:
    """Two of 8 GPUs compute. A third only gets a copy of 34 µs."""
    found = fastprof.load(captures / "xspace" / "gpu-v100x8-tf").diagnosis().scalars
    names = ("device_count", "used_device_count", "computing_device_count")
    assert [found[name].value for name in names] == [8, 3, 2]
    assert str(found["headline"].value).startswith("2 of 8 GPUs compute; 1 only copies. ")
