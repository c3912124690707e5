"""Small captures of PyTorch's profiler, as the reader of traces writes them: the category is a stat of metadata."""

from __future__ import annotations

from collections.abc import Mapping

from trace_builder import Event, Metadata, event, line, plane, xspace

import fastprof

Recorded = tuple[str, str, int, int, Mapping[str, int | str | float]]
"""Category, name, start and duration in microseconds, stats."""
_DERIVED = 0xDEADBEEF + 200
MICRO = 1_000_000


def torch_capture(
    host: Mapping[str, list[Recorded]], gpu: Mapping[str, list[Recorded]], memory_size: int = 0
) -> fastprof.Profile:
    """Threads of the host and streams of one GPU, by name; a GPU only if it has streams. ``memory_size``: bytes of
    the GPU; 0: not recorded."""
    planes = []
    named = (("/host:CPU", host), ("/device:GPU:0", gpu)) if gpu else (("/host:CPU", host),)
    for number, (name, lines) in enumerate(named, 1):
        ids: dict[tuple[str, str], int] = {}
        written = [
            line(
                title,
                [_event(ids, one) for one in sorted(events, key=lambda one: (one[2], -one[3]))],
                id=place if "annotations" not in title else _DERIVED + place,
            )
            for place, (title, events) in enumerate(lines.items(), 7)
        ]
        metadata = [Metadata(what, at, stats={"cat": category}) for (category, what), at in ids.items()]
        stats = {"memory_size": memory_size} if memory_size and number == 2 else {}
        planes.append(plane(name, written, id=number, event_metadata=metadata, stats=stats))
    return fastprof.load(xspace(*planes, hostnames=["vm"]))


def _event(ids: dict[tuple[str, str], int], one: Recorded) -> Event:
    category, name, start, duration, stats = one
    return event(ids.setdefault((category, name), len(ids) + 1), start * MICRO, duration * MICRO, stats=dict(stats))


def launch(start: int, number: int, call: str = "cudaLaunchKernel") -> Recorded:
    return "cuda_runtime", call, start, 2, {"correlation_id": number}


def kernel(name: str, start: int, duration: int, number: int, category: str = "kernel") -> Recorded:
    details = {"kernel_details": "regs:32 group_mem:0 grid:1,1,1 block:64,1,1"} if category == "kernel" else {}
    return category, name, start, duration, {"correlation_id": number, **details}


def op(name: str, start: int, duration: int) -> Recorded:
    return "cpu_op", name, start, duration, {}


def step(number: int, start: int, duration: int) -> Recorded:
    return "user_annotation", f"ProfilerStep#{number}", start, duration, {"step_num": number, "_r": 1}
