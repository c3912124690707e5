"""What analyses make of PyTorch's profiler: steps, ops, kernels, memory, Python, collectives.

Numbers in names of tests are those of the hard cases of traces.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_captures import MICRO, Recorded, kernel, launch, op, step, torch_capture

import fastprof

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"


@pytest.fixture
def trained() -> fastprof.Profile:
    """Two steps: forward on the main thread, backward on autograd's; the GPU is a step late."""
    main = [
        step(7, 0, 100), op("aten::linear", 10, 20), op("aten::addmm", 12, 15), launch(20, 1),
        step(8, 100, 100), op("aten::linear", 110, 20), op("aten::addmm", 112, 15), launch(120, 3),
    ]  # fmt: skip
    autograd = [op("AddmmBackward0", 50, 20), launch(60, 2), op("AddmmBackward0", 150, 20), launch(160, 4)]
    gpu = [kernel("sgemm", 30, 60, 1), kernel("sgemm_bwd", 95, 60, 2), kernel("sgemm", 155, 30, 3)]
    gpu += [kernel("sgemm_bwd", 190, 60, 4), kernel("early", 1, 5, 99)]
    return torch_capture({"main": main, "autograd": autograd}, {"stream 7": gpu})


def test_7_steps_are_of_all_threads_and_of_what_they_launched(trained: fastprof.Profile) -> None:
    """Autograd has no marker. A step lasts from its first kernel to that of the next; the last has its marker."""
    steps = trained.steps().tables["steps"].to_pylist()
    assert [row["name"] for row in steps] == ["ProfilerStep#7", "ProfilerStep#8"]
    assert [row["duration_ps"] // MICRO for row in steps] == [100, 100]
    # 30 to 90 and 95 to 155 µs; of the marker from 100 to 200 all but 185 to 190
    assert [row["device_compute_ps"] // MICRO for row in steps] == [120, 95]
    assert [row["all_others_ps"] // MICRO for row in steps] == [5, 5]


def test_steps_are_of_all_threads_and_of_what_they_launched(trained: fastprof.Profile) -> None:
    """Case 7 of the hard cases: autograd has no marker. A kernel belongs to the step of its launch."""
    events = trained.select(steps=(8, 9)).events.select(["name", "start_ps"]).to_pylist()
    found = {row["name"]: row["start_ps"] // MICRO for row in events if not row["name"].startswith("cuda")}
    assert found == {
        "ProfilerStep#8": 100, "aten::linear": 110, "aten::addmm": 112, "AddmmBackward0": 150, "sgemm": 155,
        "sgemm_bwd": 190,
    }  # fmt: skip


@pytest.mark.parametrize("on_gpu", [True, False])
def test_all_steps_of_the_profiler_count(on_gpu: bool) -> None:
    """The recording begins and ends with a step, so that the first is complete, also if its devices idle; what follows
    the last is not recorded. Analyses agree on their time. XProf omits the first and the last of more than five."""
    host: list[Recorded] = [step(number, 100 * number, 90 + number) for number in range(2, 9)]
    host += [op("aten::mm", 100 * number + 10, 50) for number in range(2, 9)]
    gpu = [kernel("sgemm", 100 * number + 20, 30, number) for number in range(3, 9)] if on_gpu else []
    host += [launch(100 * number + 12, number) for number in range(3, 9)] if on_gpu else []
    profile = torch_capture({"main": host}, {"stream 7": gpu} if on_gpu else {})
    expected = [(number, (90 + number) * MICRO, number < 8) for number in range(2, 9)]
    steps = profile.steps().tables["steps"].to_pylist()
    assert [(row["step"], row["duration_ps"], row["complete"]) for row in steps] == expected
    figures, longest = profile.steps().scalars, 120 if on_gpu else 100  # step 2 from its marker to a kernel of step 3
    assert [figures[name].value for name in ("step_time_max_ps", "incomplete_step_count")] == [longest * MICRO, 1]
    assert profile.steps().scalars["between_steps_ps"].value == sum(10 - number for number in range(2, 8)) * MICRO
    annotated = profile.annotations().tables["steps"].to_pylist()
    assert [(row["step"], row["total_ps"]) for row in annotated if row["name"] == f"ProfilerStep#{row['step']}"] == [
        row[:2] for row in expected
    ]
    assert profile.overview().scalars["step_time_mean_ps"].value == pytest.approx((longest + 500) * MICRO / 6)
    xprof = profile.steps(steps_from="markers").tables["steps"].to_pylist()
    assert [row["complete"] for row in xprof][-1] is False


@pytest.mark.parametrize("recorded", [(41, 43), (3, 10**9)])
def test_steps_have_the_numbers_of_their_markers(recorded: tuple[int, int]) -> None:
    host = [step(recorded[0], 0, 50), launch(10, 1), step(recorded[1], 50, 50), launch(60, 2)]
    gpu = [kernel("one", 20, 5, 1), kernel("two", 70, 5, 2)]
    profile = torch_capture({"main": host}, {"stream 20": gpu})
    assert profile.steps().tables["steps"]["step"].to_pylist() == list(recorded)
    assert "two" in profile.select(steps=recorded[1]).events["name"].to_pylist()
    assert "one" not in profile.select(steps=recorded[1]).events["name"].to_pylist()


def test_steps_of_one_number_are_all_selected() -> None:
    """A profiler that starts again may count from the same number."""
    main = [row for at in (0, 50, 100) for row in (step(7 + (at == 100), at, 50), launch(at + 10, 1 + at))]
    gpu = [kernel("one", 20, 5, 1), kernel("two", 70, 5, 51), kernel("three", 120, 5, 101)]
    report = torch_capture({"main": main}, {"stream 20": gpu}).select(steps=(7, 8)).steps()
    rows = report.tables["steps"].select(["step", "group_id", "name"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(7, 0, "ProfilerStep#7"), (7, 1, "ProfilerStep#7")]
    repeated = "1 number belongs to several of the chosen steps: all of these are selected."
    assert repeated in [notice.text for notice in report.notices]


def test_8_the_copy_of_a_step_on_the_gpu_is_not_a_step() -> None:
    """The annotation on the device covers what it launched."""
    host = {"main": [step(6, 0, 50), op("aten::add", 5, 10), launch(8, 1)]}
    gpu = {
        "stream 7": [kernel("add", 20, 10, 1)],
        "stream 7 annotations": [("gpu_user_annotation", "ProfilerStep#6", 19, 12, {})],
    }
    profile = torch_capture(host, gpu)
    assert profile.steps().tables["steps"].num_rows == 1
    assert profile.streams().tables["devices"].column("busy_ps").to_pylist() == [10 * MICRO]


def test_9_13_kernels_have_the_op_around_their_launch(trained: fastprof.Profile) -> None:
    """A kernel whose launch is not recorded keeps its row. Its ops are not TensorFlow's."""
    rows = trained.kernel_stats().tables["kernels"].to_pylist()
    found = {row["name"]: (row["op_name"], row["occurrences"], row["could_use_tensor_cores"]) for row in rows}
    assert found == {
        "sgemm": ("aten::addmm", 2, True),
        "sgemm_bwd": ("AddmmBackward0", 2, True),
        "early": (None, 1, False),
    }


def test_10_collectives_are_named_by_what_calls_them() -> None:
    """All kernels of many builds of NCCL are called SendRecv."""
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"
    calls = ("nccl:all_to_all", "nccl:all_reduce", "c10d::allgather_")
    host = [
        one
        for number, call in enumerate(calls)
        for one in (
            ("user_annotation" if call.startswith("nccl") else "cpu_op", call, 100 * number, 50, {}),
            op("record_param_comms", 100 * number + 5, 40),
            launch(100 * number + 10, number + 1),
        )
    ]
    gpu = [kernel(name, 100 * number + 20, 30, number + 1) for number in range(3)]
    rows = torch_capture({"main": host}, {"stream 20": gpu}).communication().tables["operations"].to_pylist()
    assert sorted((row["name"], row["kind"]) for row in rows) == [
        ("c10d::allgather_", "all-gather"), ("nccl:all_reduce", "all-reduce"), ("nccl:all_to_all", "all-to-all"),
    ]  # fmt: skip


@pytest.mark.parametrize("on_kernel", [True, False])
def test_arguments_of_collectives_say_what_they_send(on_kernel: bool) -> None:
    """On kernels, as newer versions write them, or on the record around the launch. Of an all-gather what is received
    counts; without a type that is known, bytes are unknown."""
    sent = [
        ("allreduce", 1000, 1000, "Float", 4000), ("_allgather_base", 10, 80, "BFloat16", 160),
        ("broadcast", 7, 7, "Float8_e4m3fn", 7), ("all_to_all", 5, 5, "Quantized", None),
    ]  # fmt: skip
    host, gpu = [], []
    for number, (name, given, received, kind, _) in enumerate(sent):
        arguments = {"Collective name": name, "In msg nelems": given, "Out msg nelems": received, "dtype": kind}
        record = op("record_param_comms", 100 * number + 5, 40)
        host += [record if on_kernel else (*record[:4], arguments), launch(100 * number + 10, number + 1)]
        one = kernel("ncclKernel_SendRecv_RING_SIMPLE", 100 * number + 20, 30, number + 1)
        gpu.append((*one[:4], {**one[4], **arguments}) if on_kernel else one)
    rows = torch_capture({"main": host}, {"stream 20": gpu}).communication().tables["operations"].to_pylist()
    assert {row["name"]: (row["kind"], row["payload_bytes"]) for row in rows} == {
        "allreduce": ("all-reduce", 4000), "_allgather_base": ("all-gather", 160), "broadcast": ("broadcast", 7),
        "all_to_all": ("all-to-all", None),
    }  # fmt: skip


def memory(start: int, size: int, total: int, reserved: int, number: int, device: int = 0) -> tuple[object, ...]:
    stats = {
        "Bytes": size, "Addr": 4096 * number, "Device Type": int(device >= 0), "Device Id": device,
        "Total Allocated": total, "Total Reserved": reserved, "Ev Idx": start,
    }  # fmt: skip
    return "cpu_instant_event", "[memory]", start, 0, stats


def test_11_34_memory_is_that_of_the_caching_allocator() -> None:
    """What is reserved is not in use, and memory that was not given does not count."""
    host = [
        op("aten::empty", 0, 10), memory(5, 1000, 5000, 8000, 1), memory(20, -1000, 4000, 8000, 1),
        memory(30, 64, 64, 0, 2, device=-1), ("cpu_instant_event", "[OutOfMemory]", 40, 0, {"Bytes": 10**12}),
        memory(50, 0, 4000, 8000, 3),
    ]  # fmt: skip
    gpu_events = {"stream 7": [kernel("k", 1, 1, 1)]}
    report = torch_capture({"main": host}, gpu_events, memory_size=90_000).memory_profile()  # type: ignore[dict-item]
    rows = {row["allocator"]: row for row in report.tables["allocators"].to_pylist()}
    assert sorted(rows) == ["CPU", "GPU_0"]
    gpu = rows["GPU_0"]
    assert (gpu["peak_bytes"], gpu["allocation_count"], gpu["free_count"]) == (5000, 1, 1)
    assert (gpu["reserved_at_peak_bytes"], gpu["capacity_bytes"]) == (8000, 90_000)
    assert rows["CPU"]["capacity_bytes"] is None
    ops = {(row["allocator"], row["op_name"]): row["count"] for row in report.tables["ops"].to_pylist()}
    assert ops == {("GPU_0", "aten::empty"): 1, ("CPU", None): 1}


@pytest.mark.parametrize(("memory_size", "is_full"), [(0, False), (90_000, False), (8_000, True)])
def test_a_full_cache_is_not_a_full_device(memory_size: int, is_full: bool) -> None:
    """The allocator takes more of the device as it is needed."""
    host = [op("aten::empty", 0, 10), memory(5, 7_900, 7_900, 8_000, 1)]
    profile = torch_capture({"main": host}, {"stream 7": [kernel("k", 1, 1, 1)]}, memory_size)  # type: ignore[dict-item]
    report = profile.memory_profile(request=50_000)
    assert any("nearly exhausted" in one.text for one in report.notices) == is_full
    fits = {0: "not known", 90_000: "not known", 8_000: "no"}[memory_size]
    assert report.tables["request"]["fits"].to_pylist() == [fits]
    assert report.scalars["peak_share"].value == (7_900 / memory_size if memory_size else None)


def test_30_python_is_that_of_the_tracer_of_pytorch() -> None:
    """Addresses in names of frames."""
    host = [
        ("python_function", "train.py(12): step", 0, 100, {"Python id": 1}),
        ("python_function", "<built-in method linear of module object at 0x7f>", 10, 40, {"Python id": 2}),
        op("aten::linear", 20, 20),
    ]  # fmt: skip
    report = torch_capture({"main": host}, {"stream 7": [kernel("k", 1, 1, 1)]}).python_time()  # type: ignore[arg-type]
    rows = [
        (r["function"], r["file"], r["line"], r["self_ps"] // MICRO) for r in report.tables["functions"].to_pylist()
    ]
    assert sorted(rows, key=str) == [("linear", None, None, 40), ("step", "train.py", 12, 60)]


def test_calls_of_ops_are_counted_beside_their_kernels() -> None:
    """An op may launch several kernels, or none."""
    host = [op("aten::mm", 0, 10), launch(2, 1), launch(6, 2), op("aten::mm", 20, 10)]
    report = torch_capture({"main": host}, {"stream 7": [kernel("k", 30, 5, 1), kernel("k", 40, 5, 2)]}).overview()
    rows = [(row["name"], row["calls"], row["occurrences"]) for row in report.tables["top_ops"].to_pylist()]
    assert rows == [("aten::mm", 2, 2)]


def test_a_wait_for_the_loader_is_input() -> None:
    host = [
        step(1, 0, 100), ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60, {}),
        op("aten::add", 70, 10), launch(72, 1), step(2, 100, 100),
        ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 60, {}),
        op("aten::add", 170, 10), launch(172, 2),
    ]  # fmt: skip
    gpu = [kernel("add", 80, 10, 1), kernel("add", 180, 10, 2)]
    findings = torch_capture({"main": host}, {"stream 7": gpu}).diagnosis().tables["findings"].to_pylist()  # type: ignore[dict-item]
    assert findings[0]["cause"] == "input"
    assert "DataLoader" in findings[0]["advice"]


def test_what_was_compiled_is_not_known(trained: fastprof.Profile) -> None:
    """PyTorch executes op by op unless a program is compiled, and its profiler does not record which."""
    overview = trained.overview()
    for name in ("host_eager_percent", "device_eager_percent", "outside_compilation_percent"):
        figure = overview.scalars[name]
        assert (figure.value, figure.reason) == (None, "PyTorch's profiler does not record which ops were compiled")
    aspects = overview.tables["verdicts"]["aspect"].to_pylist()
    assert "waiting for input" in aspects
    assert not {"eager execution", "outside compilation"} & set(aspects)


def test_annotations_as_gpus_run_them() -> None:
    def on_gpu(name: str, start: int, duration: int) -> Recorded:
        return "gpu_user_annotation", name, start, duration, {}

    main: list[Recorded] = [("user_annotation", "forward", 0, 10, {}), ("user_annotation", "forward", 20, 16, {})]
    gpu = {
        "stream 7": [kernel("sgemm", 30, 6, 1)],
        "stream 7 annotations": [on_gpu("forward", 30, 10), on_gpu("forward", 50, 14), on_gpu("backward", 70, 3)],
        "stream 8 annotations": [on_gpu("forward", 35, 18)],
    }
    report = torch_capture({"main": main}, gpu).annotations()
    columns = ("name", "streams", "count", "total_ps", "mean_ps", "min_ps", "max_ps", "stdev_ps")
    assert [tuple(row[one] for one in columns) for row in report.tables["gpu_annotations"].to_pylist()] == [
        ("forward", 2, 3, 42 * MICRO, 14 * MICRO, 10 * MICRO, 18 * MICRO, 4 * MICRO),  # (4² + 0² + 4²) / 2 = 4²
        ("backward", 1, 1, 3 * MICRO, 3 * MICRO, 3 * MICRO, 3 * MICRO, None),
    ]
    # 10 and 16: sqrt((3² + 3²) / 1) µs
    assert report.tables["annotations"]["stdev_ps"].to_pylist() == [4_242_640]


def test_annotations_of_chosen_steps_have_what_gpus_ran() -> None:
    """The GPU is a step late. Devices do meanwhile what they do, whichever step that is of; an annotation on a GPU is
    of the step whose work it begins with."""
    main: list[Recorded] = []
    gpu: list[Recorded] = []
    on_gpu: list[Recorded] = []
    for number, at in ((7, 0), (8, 100)):
        main += [step(number, at, 100), ("user_annotation", "forward", at + 10, 50, {}), launch(at + 20, number)]
        gpu.append(kernel("sgemm", at + 110, 60, number))
        on_gpu.append(("gpu_user_annotation", "forward", at + 110, 60 + number, {}))
    profile = torch_capture({"main": main}, {"stream 7": gpu, "stream 7 annotations": on_gpu})
    for number in (7, 8):
        report = profile.select(steps=number).annotations()
        on_gpus = report.tables["gpu_annotations"].select(["name", "count", "total_ps"]).to_pylist()
        assert [tuple(row.values()) for row in on_gpus] == [("forward", 1, (60 + number) * MICRO)]
        chosen, every = (
            [row for row in one.tables["steps"].to_pylist() if row["step"] == number]
            for one in (report, profile.annotations())
        )
        times = ("name", "total_ps", "elapsed_ps", "device_compute_ps", "device_idle_ps", "hidden_share")
        assert [[row[name] for name in times] for row in chosen] == [[row[name] for name in times] for row in every]
    assert [row["device_compute_ps"] // MICRO for row in chosen if row["name"] == "forward"] == [50]


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
@pytest.mark.parametrize(
    ("name", "input_ps", "of_steps_ps", "copies_ps"),
    [
        ("a100_rank-0", 3_807_000_000, 3_807_000_000, 6_000_000),
        # steps do not know that work was launched already while the loader ran for 128 us, 42 of them before the first
        ("resnet50_worker0", 0, 86_000_000, 19_721_000_000),
    ],
)
def test_steps_and_gaps_mean_the_same_by_input(name: str, input_ps: int, of_steps_ps: int, copies_ps: int) -> None:
    """TorchRec's exchange of batches and DistributedDataParallel.forward load nothing, and a copy to the device is a
    copy: 12 of them take 19.721 ms on the GPU of ResNet-50."""
    profile = fastprof.load(KINETO / f"{name}.json.gz")
    steps = profile.steps().tables["steps"]
    causes = profile.gaps().tables["by_cause"].to_pylist()
    assert sum(row["time_ps"] for row in causes if row["cause"] == "input") == input_ps
    assert sum(steps["input_ps"].to_pylist()) == of_steps_ps
    assert sum(steps["copies_ps"].to_pylist()) == copies_ps


def test_an_annotation_that_starts_a_collective_loads_nothing() -> None:
    """Nor does another of its name, unless the name says that it loads."""
    mark = "user_annotation"
    main: list[Recorded] = [
        step(0, 0, 1000),
        (mark, "preprocess_splits", 100, 200, {}),
        op("nccl:all_to_all", 150, 20),
        (mark, "preprocess_splits", 350, 200, {}),
        (mark, "load_batch", 600, 200, {}),
        op("nccl:broadcast", 650, 20),
        launch(900, 1),
    ]
    steps = torch_capture({"python": main}, {"stream 7": [kernel("k", 910, 50, 1)]}).steps().tables["steps"]
    assert steps["input_ps"].to_pylist() == [200 * MICRO]


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
def test_kernels_of_collectives_belong_to_the_ops_of_these() -> None:
    """By the trace's kernels and what is recorded around their launches, added up with Python's json."""
    profile = fastprof.load(KINETO / "a100_rank-0.json.gz")
    tables = profile.op_stats().tables
    ops = [row for row in tables["ops"].to_pylist() if row["host_or_device"] == "Device"]
    found = {row["name"]: (row["occurrences"], row["total_ps"]) for row in ops if row["name"].startswith("c10d::")}
    assert found == {
        "c10d::alltoall_base_": (4, 182_403_000_000),
        "c10d::allreduce_": (4, 107_656_000_000),
        "c10d::_allgather_base_": (2, 106_140_000_000),
    }
    assert not [row for row in ops if row["name"] == "record_param_comms"]
    launched = {row["name"]: row["device_self_ps"] for row in tables["host_ops"].to_pylist()}
    assert (launched["c10d::allreduce_"], launched["record_param_comms"]) == (107_656_000_000, 0)


def test_a_record_of_arguments_alone_is_the_op() -> None:
    """Older versions have no ops of collectives."""
    main = [step(0, 0, 100), op("record_param_comms", 10, 40), launch(20, 1)]
    report = torch_capture({"python": main}, {"stream 7": [kernel("ncclDevKernel", 30, 50, 1)]}).op_stats()
    ops = [row for row in report.tables["ops"].to_pylist() if row["host_or_device"] == "Device"]
    assert [row["name"] for row in ops if row["type"] != "IDLE"] == ["record_param_comms"]
