"""Steps of many hosts: however few of their times are in memory at once, all reports are the same."""

from __future__ import annotations

import numpy as np
import pytest
from equal_reports import check_equal
from reports import session_of
from step_captures import host, ran, shown, spaces, sparse_core, step, tpu
from trace_builder import line, plane

from fastprof.derive.steps import step_alignment, step_database
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_database import BY_CORE
from fastprof.errors import MemoryLimitError

OF_STEPS = ["steps", "pod_viewer", "input_pipeline", "roofline", "communication", "gaps", "annotations", "diagnosis"]


def on_gpu(name: str, longer: int, count: int = 8) -> bytes:
    """Steps in which the device computes longer and longer."""
    main = [one for k in range(count) for one in (step(k, 200 * k, 150), ran("go", 200 * k + 1, 1, correlation_id=k))]
    events = [ran("gemm", 200 * k + 5, 40 + longer * k, correlation_id=k) for k in range(count)]
    return spaces(host(main), plane("/device:GPU:0", [line("Stream #1", events)], id=3), hostnames=[name])


def on_tpu(name: str, late: int, category: str, cores: int = 2) -> bytes:
    """Steps on TensorCores, which feed data in, and on a SparseCore, whose host only some others have."""
    marks = [ran(str(k), 100 * k, 90) for k in range(7)]
    ops = [("f", category, 100 * k + 1 + late * k, 60) for k in range(7)]
    ops += [("in", "infeed", 100 * k + 80, 4 + late) for k in range(7)]
    sparse = [sparse_core(0, [("s", "fusion", 100 * k + 3, 20) for k in range(7)])] if cores > 1 else []
    return spaces(*(tpu(core, marks, ops) for core in range(cores)), *sparse, hostnames=[name])


GPUS = [on_gpu("a", 0), on_gpu("b", 9), on_gpu("c", 1, 7), spaces(hostnames=["d"])]
TPUS = [on_tpu("a", 0, "fusion"), on_tpu("b", 1, "convolution"), on_tpu("c", 3, "fusion", 1)]


@pytest.mark.parametrize("captures", [GPUS, TPUS], ids=["GPU", "TPU"])
@pytest.mark.parametrize("at_once", [1, 11])
def test_all_reports_are_the_same(at_once: int, captures: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    entire = session_of(*captures).reports(*OF_STEPS)
    monkeypatch.setattr(step_database, "AT_ONCE", at_once)
    check_equal(session_of(*captures).reports(*OF_STEPS), entire)
    steps = session_of(*captures).report("steps").answer.detail_as(SessionSteps).database
    assert steps.aside is not None and len(steps) == 7 and not steps.duration_ps.size
    some = [*steps.complete_steps().stretches()]
    assert len(some) > 1 and all(one.duration_ps.shape == (len(one), len(steps.cores)) for one in some)


def test_xprof_has_all_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    entire = shown(*TPUS)
    monkeypatch.setattr(step_database, "AT_ONCE", 4)
    assert all(np.array_equal(getattr(shown(*TPUS), name), getattr(entire, name)) for name in BY_CORE)


def test_what_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_database, "AT_ONCE", 1)
    monkeypatch.setattr(step_alignment, "_MOST_BYTES", 1000)
    with pytest.raises(MemoryLimitError, match="7 steps on 7 cores"):
        session_of(*TPUS).report("steps")
