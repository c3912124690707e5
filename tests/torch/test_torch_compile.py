"""Compilations by torch.compile, as its profiler records them in several versions."""

from __future__ import annotations

from reports import rows
from torch_captures import Recorded, op, step, torch_capture

from fastprof import Report


def shaped(name: str, start: int, dims: str, types: str = '["float"]') -> Recorded:
    return "cpu_op", name, start, 10, {"Input Dims": dims, "Input type": types}


def region(number: str, start: int, *ops: Recorded) -> list[Recorded]:
    frame: Recorded = "python_function", "train.py(13): train_step", start + 1, 90, {}
    return [op(f"Torch-Compiled Region: {number}", start, 100), frame, *ops]


def diagnose(*events: Recorded) -> Report:
    """The second thread compiles nothing."""
    steps = [step(number, number * 1000, 1000) for number in range(2)]
    return torch_capture({"thread 1": [*steps, *events], "thread 2": [op("aten::add", 20, 5)]}, {}).diagnosis()


COLUMNS = "function", "number", "step", "program", "compared_program", "change", "argument", "before", "after"
FIRST = op("_compile.<locals>.compile_inner", 100, 300)
SECOND = op("_compile.<locals>.compile_inner", 1100, 300)


def test_the_number_of_a_compilation_is_that_of_the_code_that_runs_after_it() -> None:
    report = diagnose(
        FIRST, *region("0/0", 500, shaped("aten::mm", 510, "[[16,32]]")),
        SECOND, *region("0/1", 1500, shaped("aten::mm", 1510, "[[12,32]]")),
    )  # fmt: skip
    change = "shape", "input 0 of aten::mm", "float[16,32]", "float[12,32]"
    assert rows(report, "recompilations", *COLUMNS) == [("train_step", 2, 1, "0/1", "0/0", *change)]


def test_types_and_other_ops_are_changes_too() -> None:
    typed = diagnose(
        FIRST, *region("0/0", 500, shaped("aten::mm", 510, "[[16,32]]")),
        SECOND, *region("0/1", 1500, shaped("aten::mm", 1510, "[[16,32]]", '["c10::BFloat16"]')),
    )  # fmt: skip
    assert rows(typed, "recompilations", "change", "before", "after") == [("type", "float[16,32]", "BFloat16[16,32]")]
    other = diagnose(
        FIRST, *region("0/0", 500, shaped("aten::mm", 510, "[[16,32]]")),
        SECOND, *region("0/1", 1500, shaped("aten::add", 1510, "[[16,32]]")),
    )  # fmt: skip
    assert rows(other, "recompilations", "change", "before", "after") == [("instructions", "aten::mm", "aten::add")]


def test_without_shapes_the_change_is_unknown_and_the_advice_is_to_record_them() -> None:
    report = diagnose(
        FIRST, *region("0/0", 500, op("aten::mm", 510, 10)), SECOND, *region("0/1", 1500, op("aten::mm", 1510, 10))
    )
    assert rows(report, "recompilations", "change", "reason") == [(None, "op input shapes are not recorded")]
    (first,) = (row for row in report.tables["findings"].to_pylist() if row["cause"] == "compilation")
    assert "an unknown change (op input shapes are not recorded)." in first["detail"]
    assert "Record with torch.profiler.profile(record_shapes=True) to see what changed." in first["advice"]


def test_damaged_shapes_are_unknown() -> None:
    report = diagnose(
        FIRST, *region("0/0", 500, shaped("aten::mm", 510, "[[16,")), SECOND,
        *region("0/1", 1500, shaped("aten::mm", 1510, "7")),
    )  # fmt: skip
    assert rows(report, "recompilations", "change", "reason") == [(None, "op input shapes are not recorded")]


def test_compiled_code_is_no_compilation() -> None:
    """Names of compiled functions have the word, too."""
    launch: Recorded = "cuda_runtime", "cudaLaunchKernel", 520, 2, {"correlation_id": 1}
    ran: Recorded = "kernel", "triton_poi_fused_tanh_0", 600, 300, {"correlation_id": 1}
    events = [step(0, 0, 1000), op("CompiledFunction", 100, 480), launch]
    report = torch_capture({"thread 1": events}, {"stream 7": [ran]}).diagnosis()
    (cost,) = rows(report, "examined", "cost_ps", cause="compilation")
    assert cost == (0,)
