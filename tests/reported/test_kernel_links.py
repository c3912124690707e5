"""What a kernel records beside its name is shown: occupancy, op, call that launched it, device, hardware counters."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.cli.main import main

HERE = Path(__file__).parent


def load(name: str) -> fastprof.Profile:
    return fastprof.load(HERE / f"{name}.json.gz")


def changed(tmp_path: Path, name: str, change: Any) -> fastprof.Profile:
    """The case with its document changed."""
    document = json.loads(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()))
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return fastprof.load(path)


def column(profile: fastprof.Profile, name: str) -> dict[str, Any]:
    """By name of the kernel."""
    kernels = profile.kernel_stats().tables["kernels"]
    return dict(zip(kernels["name"].to_pylist(), kernels[name].to_pylist(), strict=True))


# ---- occupancy

OCCUPANCY = {"ampere_sgemm_128x64_nn": 12, "void at::native::reduce_kernel<512, 1>()": 63, "softmax_warp_forward": 100}


def test_recorded_occupancy_is_shown_and_judged() -> None:
    """Cost: 3 x 0.4 ms x (1 - 12 %)."""
    profile = load("p4-occupancy")
    assert column(profile, "occupancy_percent") == OCCUPANCY
    costs = {row["cause"]: row["cost_ps"] for row in profile.diagnosis().tables["findings"].to_pylist()}
    assert costs["low_occupancy"] == 1_056_000_000


def test_blocks_and_warps_of_a_multiprocessor_are_shown_where_recorded(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        for event in document["traceEvents"]:
            if event.get("name") == "softmax_warp_forward":
                event["args"] |= {"blocks per SM": 0.25, "warps per SM": 2.5}
            elif event.get("cat") == "kernel":
                event["args"].pop("blocks per SM", None)
                event["args"].pop("warps per SM", None)

    profile = changed(tmp_path, "p4-occupancy", change)
    none = dict.fromkeys(OCCUPANCY)
    assert column(profile, "blocks_per_sm") == none | {"softmax_warp_forward": 0.25}
    assert column(profile, "warps_per_sm") == none | {"softmax_warp_forward": 2.5}


@pytest.mark.parametrize(
    ("kernel", "blocks", "cost_ps"),
    [
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", 1.0, None),
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", None, None),
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", 0.25, 900_000_000),
        ("void at::native::reduce_kernel<512, 1>(float)", 1.0, 1_056_000_000),
    ],
)
def test_products_on_tensor_cores_need_few_warps(
    kernel: str, blocks: float | None, cost_ps: int | None, tmp_path: Path
) -> None:
    """They run well at an occupancy of 12 %. Blocks for a quarter of the multiprocessors cost 3 x 0.4 x 3/4 ms."""

    def change(document: dict[str, Any]) -> None:
        for event in document["traceEvents"]:
            if event.get("name") == "ampere_sgemm_128x64_nn":
                event["name"] = kernel
                event["args"]["blocks per SM"] = blocks

    rows = changed(tmp_path, "p4-occupancy", change).diagnosis().tables["findings"].to_pylist()
    assert [row["cost_ps"] for row in rows if row["cause"] == "low_occupancy"] == ([cost_ps] if cost_ps else [])


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("est. achieved occupancy %", 0, 0),
        ("est. achieved occupancy %", -99, None),
        ("est. achieved occupancy %", 37.5, 37.5),
        ("theoretical occupancy %", 25, 25),
        ("theoretical occupancy %", 0, None),
    ],
)
def test_occupancy_is_what_the_version_writes(tmp_path: Path, name: str, value: float, shown: float | None) -> None:
    """An estimate is rounded to whole percents, and negative if the profiler does not know the device."""

    def change(document: dict[str, Any]) -> None:
        for event in document["traceEvents"]:
            if event.get("cat") == "kernel":
                del event["args"]["est. achieved occupancy %"]
                event["args"][name] = value

    assert set(column(changed(tmp_path, "p4-occupancy", change), "occupancy_percent").values()) == {shown}


# ---- calls and kernels


def device_times(profile: fastprof.Profile) -> dict[str, int | None]:
    """By name of the op, what devices ran because of it."""
    ops = profile.op_stats().tables["host_ops"].to_pylist()
    return {row["name"]: row["device_self_ps"] for row in ops if row["type"] != "IDLE"}


MI210 = {"aten::mm": 1_600_000_000, "aten::add": 600_000_000, "aten::copy_": 200_000_000}
MI300 = {"aten::mm": 2_000_000_000, "aten::relu": 800_000_000}
ON_DEVICE = ("kernel", "gpu_memcpy")
Change = Callable[[dict[str, Any]], None]


def test_external_id_names_the_op_if_no_call_is_recorded() -> None:
    profile = load("p6-extid")
    assert device_times(profile) == MI210
    kernels = profile.kernel_stats().tables["kernels"].to_pylist()
    assert {row["op_name"]: row["total_ps"] for row in kernels} == {
        name: MI210[name] for name in ("aten::mm", "aten::add")
    }
    assert profile.streams().scalars["launch_count"].value is None  # an op is not a launch
    path = profile.critical_path().scalars  # the longest chain is mm, from the begin of its op on
    assert path["path_ps"].value == 409_000_000


def test_arrows_and_ids_that_call_and_kernel_have_lead_to_the_op() -> None:
    """Of mm 4 x 2 x 1024 x 512 x 2048 operations."""
    profile = load("p10-arrows")
    assert device_times(profile) == MI300
    assert profile.streams().scalars["launch_count"].value == 8
    ops = profile.roofline().tables["ops"].to_pylist()
    assert {row["flops"] for row in ops if row["name"].startswith("aten::mm")} == {8_589_934_592}


def on_each(*categories: str) -> Callable[[Callable[[dict[str, Any]], None]], Change]:
    """A change of all events of these categories."""

    def of(change: Callable[[dict[str, Any]], None]) -> Change:
        def of_document(document: dict[str, Any]) -> None:
            for event in document["traceEvents"]:
                if event.get("cat") in categories:
                    change(event)

        return of_document

    return of


def without(*categories: str) -> Change:
    def change(document: dict[str, Any]) -> None:
        document["traceEvents"] = [one for one in document["traceEvents"] if one.get("cat") not in categories]

    return change


def number_kernels(document: dict[str, Any]) -> None:
    for number, event in enumerate(document["traceEvents"]):
        if event.get("cat") in ON_DEVICE:
            event["args"]["correlation"] = 1000 + number


def lead_from_ops(document: dict[str, Any]) -> None:
    """Arrows from each op instead of ids."""
    events = document["traceEvents"]
    ends = {"cpu_op": ("s", 1), **dict.fromkeys(ON_DEVICE, ("f", 0))}
    for event in [one for one in events if one.get("cat") in ends]:
        phase, later = ends[event["cat"]]
        end = {
            "ph": phase,
            "id": event["args"].pop("External id"),
            "cat": "async_cpu_to_gpu",
            "name": "flow",
            "bp": "e",
        }
        events.append({**end, "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + later})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(number_kernels, id="correlations, and no call that has them"),
        pytest.param(on_each(*ON_DEVICE)(lambda event: event["args"].update(correlation=0)), id="correlation 0"),
        pytest.param(
            on_each(*ON_DEVICE)(lambda event: event["args"].update({"external id": event["args"].pop("External id")})),
            id="as files of 2020 write it",
        ),
        pytest.param(lead_from_ops, id="arrows"),
        pytest.param(lambda document: document.pop("deviceProperties"), id="of an unknown vendor"),
    ],
)
def test_what_only_names_its_op_belongs_to_it(tmp_path: Path, change: Change) -> None:
    profile = changed(tmp_path, "p6-extid", change)
    assert device_times(profile) == MI210
    assert profile.streams().scalars["launch_count"].value is None


def test_ids_that_repeat_correlations_name_calls_and_no_op(tmp_path: Path) -> None:
    """PyTorch of 2023 wrote the correlation as the External id of kernels, and ops had other ids of their own."""

    def repeat(event: dict[str, Any]) -> None:
        event["args"]["correlation"] = event["args"]["External id"]

    profile = changed(tmp_path, "p6-extid", on_each(*ON_DEVICE)(repeat))
    assert set(device_times(profile).values()) == {None}
    assert set(column(profile, "op_name").values()) == {None}


def share_the_id_of_the_op(document: dict[str, Any]) -> None:
    """Calls and kernels have the External id of the op around the call, and there is a call after the launch."""
    op, after = 0, []
    for event in document["traceEvents"]:
        if event.get("cat") == "cpu_op":
            op = event["args"]["External id"]
        elif event.get("cat") in ("cuda_runtime", "kernel"):
            event["args"]["External id"] = op
            if "Launch" in event["name"]:
                after.append({**event, "name": "hipGetLastError", "ts": event["ts"] + event["dur"], "dur": 1})
    document["traceEvents"] += after


def op_with_the_id_of_a_call(document: dict[str, Any]) -> None:
    first = next(one for one in document["traceEvents"] if one.get("cat") == "cpu_op")
    document["traceEvents"].append({**first, "name": "aten::empty", "dur": 1, "args": {"External id": 82}})


def of_intel(event: dict[str, Any]) -> None:
    event["cat"] = "xpu_runtime"
    event["name"] = "urEnqueueKernelLaunch"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(without("ac2g"), id="ids alone"),
        pytest.param(
            on_each("cuda_runtime", "kernel")(lambda event: event["args"].pop("External id")), id="arrows alone"
        ),
        pytest.param(lambda document: (without("ac2g")(document), share_the_id_of_the_op(document)), id="id of the op"),
        pytest.param(
            lambda document: (without("ac2g")(document), op_with_the_id_of_a_call(document)), id="id of another op"
        ),
        pytest.param(
            lambda document: (without("ac2g")(document), on_each("cuda_runtime")(of_intel)(document)), id="Intel"
        ),
    ],
)
def test_what_its_call_shares_belongs_to_the_op_around_the_call(tmp_path: Path, change: Change) -> None:
    profile = changed(tmp_path, "p10-arrows", change)
    assert {name: time for name, time in device_times(profile).items() if time} == MI300
    launches = profile.streams().tables["launches"].to_pylist()
    assert sum(row["count"] for row in launches) == 8
    assert all("Launch" in row["call"] for row in launches)


def test_converted_traces_have_the_same_links(tmp_path: Path) -> None:
    for name, times in (("p6-extid", MI210), ("p10-arrows", MI300)):
        path = tmp_path / f"{name}.xplane.pb"
        assert main(["convert", str(HERE / f"{name}.json.gz"), "-o", str(path), "-q"]) == 0
        assert device_times(fastprof.load(path)) == times


def test_chosen_steps_keep_their_links() -> None:
    profile = load("p6-extid")
    assert device_times(profile.select(steps="2")) == {name: time // 4 for name, time in MI210.items()}


# ---- devices that events number otherwise than properties


def gpus(profile: fastprof.Profile) -> dict[str, str | None]:
    """The model of each GPU."""
    stats = profile.plane_stats.to_pylist()
    models = {row["plane_id"]: row["str_value"] for row in stats if row["stat"] == "gpu_device_name"}
    planes = profile.planes.to_pylist()
    return {row["name"]: models.get(row["plane_id"]) for row in planes if "GPU" in row["name"]}


def machine(models: list[str], used: list[int]) -> Change:
    """These models are listed, and these devices run kernels in turn."""

    def change(document: dict[str, Any]) -> None:
        (listed,) = document["deviceProperties"]
        document["deviceProperties"] = [{**listed, "id": number, "name": name} for number, name in enumerate(models)]
        kernels = [one for one in document["traceEvents"] if one.get("cat") == "kernel"]
        for number, event in enumerate(kernels):
            event["pid"] = event["args"]["device"] = used[number % len(used)]

    return change


def test_kernels_of_a_device_that_is_not_listed_are_of_the_one_that_is() -> None:
    profile = load("i83-devoffset")
    assert gpus(profile) == {"/device:GPU:2": "AMD Instinct MI300X"}
    assert profile.overview().scalars["device_count"].value == 1
    peaks = profile.roofline().scalars
    assert peaks["peak_hbm_bytes_per_s"].value == 5.3e12
    assert [row["code"] for row in profile.import_log.to_pylist()] == ["other_device"]


@pytest.mark.parametrize(
    ("models", "used", "found"),
    [
        (["NVIDIA H100"], [5], {5: "NVIDIA H100"}),
        (["MI300X"] * 2, [4], {1: "MI300X", 4: "MI300X"}),
        (["MI300X"] * 4, [2, 3, 4, 5], dict.fromkeys((2, 3, 4, 5), "MI300X")),
        (["MI300X", "MI210"], [2, 3], {2: "MI300X", 3: "MI210"}),
        (["MI300X", "MI210"], [1], {0: "MI300X", 1: "MI210"}),
        (["MI300X", "gfx1036"], [2], {0: "MI300X", 1: "gfx1036", 2: None}),  # either of them
        (["MI300X"], [1, 2], {0: "MI300X", 1: None, 2: None}),
    ],
)
def test_devices_are_matched_if_it_is_certain(
    tmp_path: Path, models: list[str], used: list[int], found: dict[int, str | None]
) -> None:
    profile = changed(tmp_path, "i83-devoffset", machine(models, used))
    assert gpus(profile) == {f"/device:GPU:{number}": name for number, name in found.items()}


def test_memory_of_a_device_is_that_of_its_place(tmp_path: Path) -> None:
    """PyTorch's allocator calls the only device that it sees 0."""

    def allocate(document: dict[str, Any]) -> None:
        args = {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 4096, "Total Allocated": 4096, "Ev Idx": 1}
        event = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1000, "tid": 1000}
        document["traceEvents"].append({**event, "ts": 1700000000000500.0, "args": {**args, "Total Reserved": 8192}})

    report = changed(tmp_path, "i83-devoffset", allocate).memory_profile()
    assert [row["capacity_bytes"] for row in report.tables["allocators"].to_pylist()] == [85_000_000_000]


# ---- hardware counters of ranges

FADD, FFMA = (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "ffma"))


def counters(profile: fastprof.Profile, name: str) -> list[tuple[Any, ...]]:
    rows = profile.hardware_units().tables["counters"].to_pylist()
    return [(row["sample"], row["kernel"], row["value"], row["real_value"]) for row in rows if row["counter"] == name]


def test_counters_of_profiler_ranges_are_shown() -> None:
    profile = load("p7-cupti")
    fft, gemm = "void fft2d_r2c_32x32<float>(float2*)", "ampere_sgemm_32x128_tn"
    assert counters(profile, FADD) == [
        (number, *row, None) for number, row in enumerate([(fft, 86_114_304), (gemm, 2_048)] * 2)
    ]
    assert sum(row[2] for row in counters(profile, FFMA)) == 425_459_712
    report = profile.hardware_units()
    assert report.scalars["counter_count"].value == 8
    assert report.notices == ()


def test_counters_are_of_the_ops_around_the_launches(tmp_path: Path) -> None:
    """The profiler reads one range per launch, in order. With one more launch, ops of ranges are unknown."""

    def enclose(document: dict[str, Any]) -> None:
        events = document["traceEvents"]
        conv = next(one for one in events if one.get("name") == "aten::conv2d")
        events.append({**conv, "name": "aten::conv_relu", "ts": conv["ts"] - 1, "dur": conv["dur"] + 2})

    def launch(document: dict[str, Any]) -> None:
        events = document["traceEvents"]
        call = next(one for one in events if one.get("name") == "cudaLaunchKernel")
        events.append({**call, "ts": call["ts"] - 50, "dur": 1, "args": {"correlation": 9}})

    def ops(profile: fastprof.Profile) -> list[tuple[str | None, str | None]]:
        rows = profile.hardware_units().tables["counters"].to_pylist()
        return [(row["op"], row["top_op"]) for row in rows if row["counter"] == FADD]

    conv, addmm = ("aten::conv2d", "aten::conv2d"), ("aten::addmm", "aten::addmm")
    assert ops(load("p7-cupti")) == [conv, addmm] * 2
    assert ops(changed(tmp_path, "p7-cupti", enclose)) == [("aten::conv2d", "aten::conv_relu"), addmm, conv, addmm]
    assert ops(changed(tmp_path, "p7-cupti", launch)) == [(None, None)] * 4


def test_counters_are_what_ranges_record_under_any_name(tmp_path: Path) -> None:
    """Percentages are no integers; args of kernels on the same stream are no counters."""

    def change(document: dict[str, Any]) -> None:
        events = document["traceEvents"]
        ranges = [one for one in events if one.get("cat") == "cuda_profiler_range"]
        for event in ranges[:2]:
            event["args"] = {"kineto__tensor_core_insts": 12.0, "sm__throughput.avg.pct": 45.25, "device": 0, "x": "y"}
        args = {"device": 0, "stream": 0, "registers per thread": 32, "correlation": 5, "grid": [1, 1, 1]}
        events.append({**ranges[0], "cat": "kernel", "name": "k", "ts": ranges[0]["ts"] - 100, "dur": 9, "args": args})

    profile = changed(tmp_path, "p7-cupti", change)
    assert [row[2:] for row in counters(profile, "kineto__tensor_core_insts")] == [(12, None)] * 2
    assert [row[2:] for row in counters(profile, "sm__throughput.avg.pct")] == [(None, 45.25)] * 2
    assert [row[0] for row in counters(profile, FADD)] == [2, 3]
    assert profile.hardware_units().scalars["counter_count"].value == 8
    path = tmp_path / "converted.xplane.pb"
    assert main(["convert", str(tmp_path / "changed.json"), "-o", str(path), "-q"]) == 0
    assert fastprof.load(path).hardware_units().tables["counters"].drop_columns("host") == (
        profile.hardware_units().tables["counters"].drop_columns("host")
    )


# ---- names


def test_what_only_names_show_is_unknown_of_kernels_without_a_name(tmp_path: Path) -> None:
    """They take the time that is recorded."""
    report = changed(tmp_path, "i17-comm-nccl", on_each("kernel")(lambda event: event.update(name=""))).kernel_stats()
    assert report.scalars["total_ps"].value == 3_200_000_000
    for figure in ("tensor_core_ps", "tensor_core_share", "missed_tensor_core_ps", "missed_tensor_core_share"):
        assert report.scalars[figure].value is None
        assert report.scalars[figure].reason == "kernel names do not show whether kernels run on matrix units"
    assert set(report.tables["kernels"]["uses_tensor_cores"].to_pylist()) == {None}
    assert set(report.tables["ops"]["tensor_core_ps"].to_pylist()) == {None}
    assert [notice.text for notice in report.notices] == [
        "Kernel names do not show whether 100.0 % of kernel time uses Tensor Cores: it counts as neither."
    ]
