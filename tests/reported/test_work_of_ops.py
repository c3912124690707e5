"""Operations and bytes of ops whose work was reported as wrong or unknown."""

from __future__ import annotations

import json
from pathlib import Path

import fastprof

HERE = Path(__file__).parent


def _work(name: str) -> dict[str, tuple[float, float]]:
    """Operations and bytes of one run of each op, by its category."""
    rows = fastprof.load(HERE / f"{name}.json.gz").op_stats().tables["device_ops"].to_pylist()
    return {
        row["category"]: (row["flops"] / row["occurrences"], row["accessed_bytes"] / row["occurrences"])
        for row in rows
        if row["category"] != "IDLE"
    }


def test_an_array_that_is_written_into_is_moved_once() -> None:
    """The products of torch.compile list it among their arguments (out=); that of batches here does not."""
    mm = 2 * (4096 * 1024 + 1024 * 2048 + 4096 * 2048)
    assert mm == 29_360_128
    assert _work("p3-outgemm") == {
        "aten::mm": (17_179_869_184, mm),
        "aten::addmm": (2 * 512 * 1024 * 2048, 7_344_128),
        "aten::bmm": (2 * 8 * 128 * 64 * 256, 1_835_008),
    }


def test_the_work_of_attention_follows_from_its_shapes() -> None:
    """Query, key and value [4, 16, 1024, 64]: two products, and these arrays and the output are moved."""
    assert _work("p9-attention") == {
        "aten::_scaled_dot_product_flash_attention": (4 * 4 * 16 * 1024 * 1024 * 64, 33_554_432)
    }
    ops = fastprof.load(HERE / "p9-attention.json.gz").roofline().tables["ops"].to_pylist()
    assert [round(row["flops_per_s"] * 0.4e-3) for row in ops if row["flops_per_s"]] == [34_359_738_368]


def test_the_work_of_grouped_products_is_unknown() -> None:
    """Offset values give the rows of each group. They are not recorded."""
    arguments = {"Input Dims": [[512, 2048], [8, 2048, 1024], [8]], "Input type": ["c10::BFloat16"] * 2 + ["int"]}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::_grouped_mm", "pid": 5, "tid": 5, "ts": 1000, "dur": 50,
         "args": {"External id": 1, **arguments}},
        {"ph": "X", "cat": "kernel", "name": "grouped_gemm", "pid": 0, "tid": 7, "ts": 1010, "dur": 30,
         "args": {"device": 0, "stream": 7, "External id": 1}},
    ]  # fmt: skip
    listed = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    trace = {"schemaVersion": 1, "deviceProperties": listed, "traceEvents": events}
    profile = fastprof.load(json.dumps(trace).encode())
    (row,) = (row for row in profile.op_stats().tables["device_ops"].to_pylist() if row["category"] != "IDLE")
    assert (row["category"], row["self_ps"]) == ("aten::_grouped_mm", 30 * 10**6)
    assert (row["flops"], row["accessed_bytes"]) == (None, None)
    reached = profile.roofline().scalars["flops_per_s"]
    assert (reached.value, reached.reason) == (None, "no op records its work")
