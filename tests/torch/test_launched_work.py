"""Idle time of GPUs: what was launched already is not the host's. By hand from the JSON, to the picosecond."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import fastprof

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"
LATENCY_PS = 30_000_000
ON_DEVICE = {"kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset"}


def span(event: dict[str, Any]) -> tuple[int, int]:
    return int(event["ts"] * 1_000_000), int((event["ts"] + event["dur"]) * 1_000_000)


def queued(path: Path) -> Counter[str]:
    """From the first step on, the time of gaps after the call that launched the work that ends them."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal, parse_int=Decimal)["traceEvents"]
    known = [(str(one.get("cat")).lower(), one) for one in events if one.get("ph") == "X" and "dur" in one]
    calls = {one["args"]["correlation"]: span(one)[1] for cat, one in known if cat.endswith(("runtime", "driver"))
             and "correlation" in one["args"]}  # fmt: skip
    work = sorted((*span(one), one["args"]["correlation"]) for cat, one in known if cat in ON_DEVICE and one["dur"])
    found: Counter[str] = Counter()
    steps = [span(one)[0] for _, one in known if one["name"].startswith("ProfilerStep")]
    done = min([work[0][0], *steps])
    for begin, end, number in work:
        if begin > done and number in calls:
            returned = calls[number]
        else:
            returned = -1 if number < min(calls) else begin
        time = begin - max(done, returned)
        if time > 0 and (returned <= done or time > LATENCY_PS):
            found["queue" if time > LATENCY_PS else "between_kernels"] += time
        done = max(done, end)
    return found


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
@pytest.mark.parametrize("name", ["a100_rank-0", "a100_rank-1", "alexnet", "h100_qwen", "resnet50_worker0"])
def test_work_that_was_launched_already_does_not_wait_for_the_host(name: str) -> None:
    path = KINETO / f"{name}.json.gz"
    found: Counter[str] = Counter()
    for row in fastprof.load(path).gaps().tables["by_cause"].to_pylist():
        found[row["cause"]] += row["time_ps"]
    wanted = queued(path)
    assert wanted["between_kernels"] > 0
    assert {cause: found[cause] for cause in ("queue", "between_kernels", "straggler")} == {
        "queue": wanted["queue"], "between_kernels": wanted["between_kernels"], "straggler": 0,
    }  # fmt: skip


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
def test_the_diagnosis_does_not_blame_the_host_for_queued_work() -> None:
    """389 of 675 ms idle come after the launch of what ends them; launching takes 72 ms, 15 of
    them in annotations of TorchRec that exchange batches."""
    rows = fastprof.load(KINETO / "a100_rank-0.json.gz").diagnosis().tables["findings"].to_pylist()
    by_cause = {row["cause"]: row for row in rows}
    queue = by_cause["queue"]
    title = "Launched work waits in the queue, most for ncclKernel_SendRecv"
    assert queue["title"].startswith(title)
    assert (queue["cost_ps"], by_cause["launch"]["cost_ps"]) == (389_236_000_000, 72_115_000_000)
    assert "CUDA graphs and larger batches do not help" in queue["advice"]


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
def test_a_silent_thread_is_not_said_to_run_python() -> None:
    """Without recorded Python. The last step goes on for 22.6 ms after the last kernel; steps do not name what several
    of them have. In the capture with Python, its frames explain gaps."""
    rows = fastprof.load(KINETO / "resnet50_worker0.json.gz").gaps().tables["by_cause"].to_pylist()
    found = {row["cause"]: (row["time_ps"], row["event"]) for row in rows}
    assert found["silent"] == (23_404_000_000, "Optimizer.zero_grad#SGD.zero_grad")
    assert found["tail"] == (22_632_000_000, None)
    assert "python" not in found
    with_frames = fastprof.load(KINETO / "h100_qwen.json.gz").gaps().tables["by_cause"].to_pylist()
    assert {"python"} == {row["cause"] for row in with_frames} & {"python", "silent", "tail"}


def test_silence_after_a_wait_for_the_device_is_that_wait(tmp_path: Path) -> None:
    """The host reads a value in each step, has nothing launched ahead, and works for 2 ms before the next launch.
    Another thread waits for a moment meanwhile."""
    events: list[dict[str, Any]] = []
    for step in range(5):
        at = 10_000 * step
        host = [("user_annotation", f"ProfilerStep#{step}", 0, 9_990), ("cpu_op", "aten::mm", 10, 30),
                ("cuda_runtime", "cudaLaunchKernel", 20, 5), ("cpu_op", "aten::item", 50, 7_990),
                ("cpu_op", "aten::_local_scalar_dense", 60, 7_970),
                ("cuda_runtime", "cudaStreamSynchronize", 80, 7_945)]  # fmt: skip
        for category, name, begin, duration in host:
            args = {"correlation": step + 1} if name == "cudaLaunchKernel" else {}
            events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": at + begin,
                           "dur": duration, "args": args})  # fmt: skip
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaEventSynchronize", "pid": 1, "tid": 2,
                       "ts": at + 4_000, "dur": 10})  # fmt: skip
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 30, "dur": 7_990,
                       "args": {"device": 0, "stream": 7, "correlation": step + 1}})  # fmt: skip
    path = tmp_path / "worker.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    (finding,) = (row for row in fastprof.load(path).diagnosis().tables["findings"].to_pylist()
                  if row["cause"] == "silent")  # fmt: skip
    assert finding["title"] == "GPU idle after the host waited for it: aten::item"
    assert 7 * 10**9 < finding["cost_ps"] < 10**10 and finding["annotation"] == "aten::item"
    assert "nothing ahead" in finding["detail"] and ".item()" in finding["advice"]
