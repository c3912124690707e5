"""Counters and memory over time."""

from __future__ import annotations

from pathlib import Path

from timelines import tables_of
from trace_builder import Event, Value, event, line, plane, u64, xspace

from fastprof.derive.timeline.counter_tracks import Series, list_counter_tracks


def series(*planes: bytes) -> dict[str, Series]:
    return {f"{one.process.plane.name} {one.name}": one for one in list_counter_tracks(tables_of(xspace(*planes)), 0)}


def counted(name: str, time: int, value: Value, stat: str | None = None) -> Event:
    return event(name, time, 0, {stat or name: value})


def test_each_counter_of_a_device_is_a_series_in_order_of_time() -> None:
    events = [counted("power_mw", 5, 100.5), counted("gpu_temp_c", 6, 50.0), counted("power_mw", 20, 90.0)]
    by_name = series(
        plane("/device:GPU:0", [line("_counters_", events), line("Stream #1", [event("kernel", 0, 1, {"x": 1})])])
    )
    assert {name: (one.unit, one.time_ps.tolist(), one.value.tolist()) for name, one in by_name.items()} == {
        "/device:GPU:0 power_mw": ("mW", [5, 20], [100.5, 90.0]), "/device:GPU:0 gpu_temp_c": ("°C", [6], [50.0]),
    }  # fmt: skip


def test_whole_numbers_stay_whole_and_stats_of_other_names_are_reported() -> None:
    large = 2**53 + 1
    events = [counted("reads", 1, u64(large)), counted("reads", 2, 7, "Raw Value"), counted("reads", 3, "text", "note")]
    by_name = series(plane("/device:GPU:0", [line("_counters_", events)]))
    assert {name: one.value.tolist() for name, one in by_name.items()} == {
        "/device:GPU:0 reads": [large], "/device:GPU:0 reads Raw Value": [7],
    }  # fmt: skip
    assert by_name["/device:GPU:0 reads"].unit == ""


def test_units_of_hardware_have_the_name_of_their_events_and_percent() -> None:
    events = [
        counted("MXU", 0, 72.5, "% util"), counted("Vector Fills", 0, 3.0, "fills"), counted("MXU", 7, 0.0, "% util"),
        counted("MXU", 9, 5.0), counted("Vector Spills", 9, 4.0, "spills"), counted("reads", 9, 1, "% util"),
    ]  # fmt: skip
    by_name = series(plane("/device:TPU:0", [line("_counters_", events, id=2**32 - 1)]))
    assert {name: (one.title, one.unit, one.time_ps.tolist(), one.value.tolist()) for name, one in by_name.items()} == {
        "/device:TPU:0 MXU": ("MXU (%)", "%", [0, 7], [72.5, 0.0]),
        "/device:TPU:0 MXU MXU": ("MXU MXU", "", [9], [5.0]),
        "/device:TPU:0 Vector Fills": ("Vector Fills", "", [0], [3.0]),
        "/device:TPU:0 Vector Spills": ("Vector Spills", "", [9], [4.0]),
        "/device:TPU:0 reads": ("reads (%)", "%", [9], [1]),
    }


def test_allocators_show_the_bytes_in_use_after_each_allocation() -> None:
    def call(name: str, time: int, heap: int, stack: int = 0, allocator: str = "GPU_0_bfc") -> Event:
        stats: dict[str | int, Value] = {"allocator_name": allocator, "bytes_allocated": heap, "bytes_reserved": stack}
        return event(name, time, 0, stats)

    events = [
        call("MemoryAllocation", 1, 100),
        call("MemoryDeallocation", 9, 40, 2),
        call("MemoryAllocation", 5, 7, 0, "host"),
    ]
    by_name = series(plane("/host:CPU", [line("python", sorted(events, key=lambda one: one.offset_ps or 0))]))
    assert {name: (one.unit, one.time_ps.tolist(), one.value.tolist()) for name, one in by_name.items()} == {
        "/host:CPU memory in use: GPU_0_bfc": ("bytes", [1, 9], [100, 42]),
        "/host:CPU memory in use: host": ("bytes", [5], [7]),
    }


def test_a_capture_that_counts_nothing_has_no_series() -> None:
    assert series(plane("/host:CPU", [line("python", [event("a", 0, 1)])])) == {}


def test_a_real_capture(captures: Path) -> None:
    tables = tables_of(captures / "xspace" / "gpu-v100x8-tf" / "34.83.195.179_6003.xplane.pb")
    tracks = list_counter_tracks(tables, 0)
    assert {one.name: len(one) for one in tracks} == {
        "memory in use: GPU_1_bfc": 19, "memory in use: GPU_4_bfc": 969, "memory in use: GPU_6_bfc": 969,
        "memory in use: gpu_host_bfc": 536,
    }  # fmt: skip
    assert [one.process.plane.name for one in tracks] == [
        "/device:GPU:1", "/device:GPU:4", "/device:GPU:6", "/host:CPU",
    ]  # fmt: skip
    assert [one.process.pid for one in tracks] == [1002, 1005, 1007, 1701]


def test_memory_is_of_the_device_that_its_allocator_is_called_after_else_of_the_host() -> None:
    names = ("GPU_4_bfc", "4", "GPU_7_bfc", "gpu_host_bfc", "TPU_4_bfc")
    events = [event("MemoryAllocation", at, 0, {"allocator_name": name, "bytes_allocated": 1})
              for at, name in enumerate(names)]  # fmt: skip
    kernels = line("Stream #1", [event("kernel", 0, 1)])
    devices = [plane(f"/device:GPU:{number}", [kernels], id=number) for number in (0, 4)]
    tracks = list_counter_tracks(tables_of(xspace(*devices, plane("/host:CPU", [line("python", events)], id=9))), 0)
    shown = {one.name.removeprefix("memory in use: "): one.process for one in tracks}
    assert {name: (process.plane.name, process.number) for name, process in shown.items()} == {
        "GPU_4_bfc": ("/device:GPU:4", 1), "4": ("/device:GPU:4", 1), "GPU_7_bfc": ("/host:CPU", 2),
        "gpu_host_bfc": ("/host:CPU", 2), "TPU_4_bfc": ("/host:CPU", 2),
    }  # fmt: skip
