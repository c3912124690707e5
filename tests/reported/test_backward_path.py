"""The critical path of training crosses to the thread of the backward pass and back."""

from __future__ import annotations

from pathlib import Path

import pytest

import fastprof

CAPTURE = Path(__file__).parent / "p1-backward.json.gz"


@pytest.mark.parametrize("instance", range(4))
def test_the_path_has_forward_ops_backward_ops_and_the_optimizer(instance: int) -> None:
    """140 us forward, 240 us backward and 80 us of the optimizer wait for each other."""
    report = fastprof.load(CAPTURE).critical_path(instance=instance)
    assert report.scalars["path_ps"].value == 460_000_000
    names = dict(zip(*(report.tables["names"][name].to_pylist() for name in ("name", "time_ps")), strict=True))
    assert {"aten::linear", "aten::relu", "AddmmBackward0", "ReluBackward0", "aten::_foreach_add_"} <= set(names)
    assert sum(names.values()) == 460_000_000
