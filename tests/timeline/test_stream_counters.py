"""Queues of streams and bandwidths of copies as counters of their GPU."""

from __future__ import annotations

from timelines import host_of
from trace_builder import Event, Value, event, line, plane, xspace

from fastprof.derive.timeline.counter_tracks import Series, list_stream_counters
from fastprof.derive.timeline.host_timeline import list_processes


def counters(*planes: bytes) -> dict[str, Series]:
    host = host_of(xspace(*planes)).raw
    return {f"{one.process.plane.name} {one.name}": one for one in list_stream_counters(host, list_processes(host))}


def points(series: Series) -> list[tuple[int, float]]:
    return list(zip(series.time_ps.tolist(), series.value.tolist(), strict=True))


def launched(number: int, start: int, duration: int = 5, name: str = "kernel", **stats: Value) -> Event:
    return event(name, start, duration, {"correlation_id": number, **stats})


def calls(*starts: int) -> bytes:
    events = [launched(number, start, 2, "cudaLaunchKernel") for number, start in enumerate(starts, 1)]
    return plane("/host:CPU", [line("python", events)], id=9)


def test_the_queue_of_each_stream() -> None:
    one = line("Stream #1", [launched(1, 10), launched(3, 20)])
    other = line("Stream #2", [launched(2, 30), launched(99, 40)], id=2)
    found = counters(plane("/device:GPU:0", [one, other]), calls(0, 5, 10))
    assert {name: (series.unit, points(series)) for name, series in found.items()} == {
        # at 10 the third call comes as the first kernel begins
        "/device:GPU:0 queue length: Stream #1": ("", [(0, 1), (10, 1), (20, 0)]),
        "/device:GPU:0 queue length: Stream #2": ("", [(5, 1), (30, 0)]),
    }


def test_the_bandwidth_of_each_kind_of_copies() -> None:
    def copy(number: int, start: int, size: int, way: str) -> Event:
        return launched(number, start, 10, f"Memcpy{way}", memcpy_details=f"num_bytes:{size}")

    copies = [copy(1, 0, 20, "H2D"), copy(3, 20, 40, "D2H")]
    found = counters(
        plane("/device:GPU:0", [line("Stream #1", copies), line("Stream #2", [copy(2, 5, 10, "H2D")], id=2)])
    )
    # 20 bytes in 10 ps are 2000 gigabytes a second
    assert {name: (series.title, points(series)) for name, series in found.items()} == {
        "/device:GPU:0 bandwidth: MemcpyH2D": (
            "bandwidth: MemcpyH2D (GB/s)", [(0, 2000.0), (5, 3000.0), (10, 1000.0), (15, 0.0)],
        ),
        "/device:GPU:0 bandwidth: MemcpyD2H": ("bandwidth: MemcpyD2H (GB/s)", [(20, 4000.0), (30, 0.0)]),
    }  # fmt: skip


def test_counters_of_the_capture_are_no_stream() -> None:
    counted = line("_counters_", [event("power", 1, 0, {"power": 5, "correlation_id": 1})], id=2)
    assert counters(plane("/device:GPU:0", [counted]), calls(0)) == {}
