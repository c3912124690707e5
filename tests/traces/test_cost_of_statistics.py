"""Statistics of TensorFlow 1 take memory in proportion to their bytes, threads time in proportion to their number."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import fastprof
from fastprof.derive.devices import op_names
from fastprof.inputs.formats import step_stats
from fastprof.render.as_text import wrap_paragraph
from fastprof.render.table_forms import Look
from fastprof.schema.message_fields import put

DEVICE = "/job:a/replica:0/task:0/device:CPU:0"
TIMES = put(2, 1_000_000) + put(4, 1)
TOO_MUCH = "the statistics take more memory than 64 MiB plus 4 bytes per byte, reading RunMetadata"


def run(*nodes: bytes, device: str = DEVICE) -> bytes:
    return put(1, put(1, put(1, device) + b"".join(put(2, node) for node in nodes)))


def allocators(count: int) -> bytes:
    return b"".join(put(6, put(1, f"a{number}") + put(2, 9)) for number in range(count))


OUTPUTS = put(7, put(3, put(4, put(1, 5))))
MEMORY = put(7, b"")
LABEL = put(8, f"n = A({', '.join('a' * 200_000)})")
ATTACKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "outputs": (lambda: run(*[put(1, "n") + TIMES + OUTPUTS * 60_000] * 3), TOO_MUCH),
    "allocators": (lambda: run(*[put(1, "n") + TIMES + allocators(60_000)] * 3), TOO_MUCH),
    "inputs of a label": (lambda: run(put(1, "n") + TIMES + LABEL), TOO_MUCH),
    "nodes": (lambda: run(*[put(2, 1)] * 130_000), TOO_MUCH),
    "a large node": (lambda: run(put(1, "n") + TIMES + OUTPUTS * 150_000), "a node is larger than 1 MiB"),
    "fields": (lambda: run(*[b""] * 2_000_000), "the fields take more memory than 32 MiB plus 2 bytes per byte"),
    "records of a profile": (
        lambda: put(1, put(1, 1) + put(2, put(1, "n") + put(12, put(1, 0) + put(2, put(1, 1) + MEMORY * 1_500_000))))
        + put(3, 0) + put(2, 1),
        "the fields take more memory than 32 MiB plus 2 bytes per byte",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_statistics_that_take_too_much_memory_are_refused(attack: str) -> None:
    """They took up to ninety bytes a byte, a device ten kilobytes."""
    make, text = ATTACKS[attack]
    with pytest.raises(fastprof.CaptureError, match=text):
        fastprof.load(make())


def test_devices_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes ten kilobytes."""
    monkeypatch.setattr(step_stats, "_HELD_BASE", 1 << 20)
    data = b"".join(run(device=f"/job:a/replica:0/task:{number}/device:CPU:0") for number in range(100))
    with pytest.raises(fastprof.CaptureError, match=TOO_MUCH):
        fastprof.load(data)


def test_salvage_leaves_large_nodes_out() -> None:
    data = run(put(1, "n") + TIMES + OUTPUTS * 150_000, put(1, "m") + TIMES)
    profile = fastprof.load(data, on_error="salvage")
    assert profile.events["name"].to_pylist() == ["m", "RunMetadata"]
    assert ("bad_node", 1) in [(row["code"], row["count"]) for row in profile.import_log.to_pylist()]


def threads(count: int) -> fastprof.Profile:
    """Python functions of names of their own, each on its own thread, and a kernel."""
    events = [
        {"ph": "X", "cat": "python_function", "name": f"f{n}.py({n}): g{n}", "pid": 9, "tid": n, "ts": 10, "dur": 9,
         "args": {"Python id": n}}
        for n in range(1, count + 1)
    ]  # fmt: skip
    ids = {"correlation": 1, "device": 0, "stream": 7}
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 12, "dur": 1, "args": ids}
    events += [
        {"ph": "X"} | launch,
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 14, "dur": 3, "args": ids},
    ]  # fmt: skip
    return fastprof.load(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())


def count_startswith(profile: fastprof.Profile) -> int:
    """Return how often a report asks how names begin."""
    calls: Counter[str] = Counter()

    def seen(_frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            calls[called.__name__] += 1

    sys.setprofile(seen)
    try:
        profile.steps()
    finally:
        sys.setprofile(None)
    return calls["startswith"]


def test_names_are_not_read_again_for_each_thread() -> None:
    few, many = (count_startswith(threads(count)) for count in (40, 160))
    assert many < 5 * few  # they were read by the product, 16 times


def test_searches_for_threads_convert_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy converts all rows for bounds of another type."""
    converted: Counter[int] = Counter()
    search = np.searchsorted

    def counted(rows: Any, values: Any, *args: Any, **named: Any) -> Any:
        column = np.asarray(rows)
        if np.size(values) <= 2 < len(column) and np.result_type(column, np.asarray(values)) != column.dtype:
            converted[sys._getframe(1).f_lineno] += len(rows)
        return search(rows, values, *args, **named)

    profile = threads(200)
    monkeypatch.setattr(np, "searchsorted", counted)
    profile.reports("overview", "diagnosis", "kernel_stats", "input_pipeline")
    assert sum(converted.values()) < 3 * 200


def test_long_texts_of_a_terminal_are_cut() -> None:
    lines = wrap_paragraph("wor\N{COMBINING ACUTE ACCENT}d" * 1_000_000, Look(width=80))
    assert sum(map(len, lines)) < 20_000
    assert "…" in "".join(lines)


def test_names_of_many_megabytes_are_searched_at_their_beginning() -> None:
    name = "tensorflow::" + "x" * (1 << 17)
    assert op_names.find_framework([name]) == op_names.TENSORFLOW
    assert op_names.find_framework([name[::-1] + "tensorflow::"]) == op_names.UNKNOWN
