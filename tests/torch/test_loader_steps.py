"""Steps that nothing marks, from one call of PyTorch's DataLoader to the next."""

from __future__ import annotations

import pytest
from torch_captures import MICRO, Recorded, kernel, launch, op, step, torch_capture


@pytest.mark.parametrize("on_gpu", [False, True])
def test_calls_of_a_loader_make_steps(on_gpu: bool) -> None:
    main: list[Recorded] = []
    for k in range(4):
        main += [("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100 * k, 30, {})]
        main += [op("aten::mm", 100 * k + 40, 50)] + [launch(100 * k + 45, k + 1)] * on_gpu
    kernels = [kernel("gemm", 100 * k + 50, 40, k + 1) for k in range(4)]
    found = torch_capture({"main": main}, {"stream 7": kernels} if on_gpu else {}).steps()
    assert found.scalars["steps_source"].value == "loader"
    assert found.scalars["steps_certainty"].value == "likely"
    names = ("period_ps", "input_ps", "device_compute_ps", "host_compute_ps", "all_others_ps")
    computes = (40, 0) if on_gpu else (0, 50)
    rows = found.tables["steps"].select(names).to_pylist()
    assert [tuple((row[name] or 0) // MICRO for name in names) for row in rows[:3]] == [
        (100, 30, *computes, 70 - sum(computes))
    ] * 3
    assert rows[3]["period_ps"] == (40 if on_gpu else 90) * MICRO  # its extent: the kernel; the call and what follows


def test_ops_that_repeat_make_steps_where_no_loader_is_recorded() -> None:
    main = [op(name, 100 * k + at, 20) for k in range(5) for name, at in (("aten::mm", 10), ("aten::relu", 40))]
    found = torch_capture({"main": main}, {}).steps()
    assert found.scalars["steps_source"].value == "launches"
    assert found.scalars["steps_certainty"].value == "possible"
    assert found.tables["steps"]["period_ps"].to_pylist()[:4] == [100 * MICRO] * 4


def test_markers_of_the_profiler_are_called_without_their_sign() -> None:
    main = [one for k in range(3) for one in (step(k, 100 * k, 90), op("aten::mm", 100 * k + 10, 20))]
    profile = torch_capture({"main": main}, {})
    assert profile.steps(steps_from="ProfilerStep").tables["steps"].num_rows == 3
