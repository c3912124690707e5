"""For how much time work is not known, and that shares of peaks are unknown then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fastprof
from fastprof.derive.ops.device_ops import remark_on_unknown_peaks
from fastprof.derive.ops.op_table import OpTable
from fastprof.derive.ops.roofline_model import find_unknown_work, measure_unknown_shares


def table() -> OpTable:
    """A product, a call of a library, a copy, a copy that ends, a loop."""
    return OpTable.of(
        ["dot", "call", "copy.kd", "copy-done.1", "while"],
        category=["convolution", "custom-call", "copy (H2D)", "copy-done", "while"],
        self_ps=[60, 20, 10, 5, 5],
        time_ps=[60, 20, 10, 5, 99],
        flops=[1, 0, 0, 0, 0],
        flops_source=[2, 0, 0, 0, 0],
        bytes_accessed=[1, 0, 0, 0, 0],
        bytes_source=[2, 0, 0, 0, 0],
    )


def test_copies_do_no_arithmetic_and_what_waits_or_holds_others_no_work() -> None:
    flops, moved = find_unknown_work(table())
    assert flops.tolist() == [False, True, False, False, False]
    assert moved.tolist() == [False, True, True, False, False]
    flops, moved = measure_unknown_shares(table(), np.array([0, 0, 2, 2, 2]), 3)
    assert (flops.tolist(), moved.tolist()) == ([0.25, 0, 0], [0.25, 0, 0.5])
    flops, moved = measure_unknown_shares(OpTable.empty(), np.array([], np.int64), 1)
    assert (flops.tolist(), moved.tolist()) == ([0], [0])


def test_a_remark_says_how_much_and_of_what() -> None:
    (severity, text), *more = remark_on_unknown_peaks(table())
    assert severity == "warning" and not more
    assert text.startswith(
        "Shares of the peaks are unknown, because the arithmetic of 20.0 % and the memory traffic of 30.0"
    )
    assert text.endswith("(most of it: call, copy.kd).")
    assert not list(remark_on_unknown_peaks(table().take(np.array([0, 3, 4]))))


# ---- real captures


def test_products_of_a_library_are_known(captures: Path) -> None:
    report = fastprof.load(captures / "xspace" / "gpu-mi300x-jax08-gemm").roofline()
    first = report.tables["ops"].slice(0, 1).to_pylist()[0]
    assert (first["name"], first["executions"], first["flops"]) == ("custom-call.1", 3, 3 * 2 * 8192 * 4096 * 8192)
    assert first["compute_peak_percent"] == pytest.approx(68.8, abs=0.05)


def test_a_convolution_of_two_kernels_counts_once_an_execution(captures: Path) -> None:
    ops = fastprof.load(captures / "xspace" / "gpu-mi300x-jax-conv-minimal-08").roofline().tables["ops"].to_pylist()
    (one,) = [op for op in ops if op["name"] == "cudnn-conv.1"]
    assert (one["occurrences"], one["executions"]) == (79, 40)
    assert (one["flops"], one["accessed_bytes"]) == (1_308_622_848_000, 40 * 579_072_000)
    assert one["hbm_bytes"] == one["accessed_bytes"] and one["bound_by"] == "HBM"
    assert all(op["hbm_bytes"] <= op["accessed_bytes"] for op in ops if op["hbm_bytes"] is not None)


def test_copies_of_the_host_are_not_held_against_hbm(captures: Path) -> None:
    report = fastprof.load(captures / "xspace" / "tpu-v6e-jax-inference").roofline()
    assert report.scalars["hbm_peak_percent"].value == pytest.approx(4.348, abs=0.001)
    waiting = [op for op in report.tables["ops"].to_pylist() if op["name"].startswith("copy-")]
    columns = ("bound_by", "lost_ps", "hbm_peak_percent")
    assert len(waiting) == 12 and {tuple(op[one] for one in columns) for op in waiting} == {(None, None, None)}
    session = report.tables["totals"].to_pylist()[0]
    assert session["accessed_bytes"] == 25_904_021_504_000
