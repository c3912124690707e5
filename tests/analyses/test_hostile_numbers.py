"""Captures whose numbers make no sense, or ask for more memory than steps may take: an answer, or an error that says
what is wrong and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from step_captures import US, host, ran, spaces, sparse_core, step, tpu
from trace_builder import Event, Metadata, Plane, event, line, plane, u64, xspace

import fastprof
from fastprof.analyses import kernel_stats
from fastprof.derive.steps import step_database

HALF = 2**62
KERNEL = {"tf_op": "a/b:MatMul", "kernel_details": "regs:3"}


def gpu(*kernels: tuple[str, int, int], number: int = 0) -> Plane:
    events = [event(name, start, duration, KERNEL) for name, start, duration in kernels]
    return plane(f"/device:GPU:{number}", [line("Stream #1", events)], id=number + 1)


def tensor_core(*ops: Event) -> Plane:
    known = {"program_id": u64(1), "symbol_id": u64(2), "hlo_category": "fusion"}
    lines = [line("Steps", [event("1", 0, 50)], id=1), line("XLA Ops", ops, id=3)]
    return plane("/device:TPU:0", lines, id=2, event_metadata=[Metadata("f", stats=known)])


# ---- durations below 0


def test_a_negative_duration_of_a_kernel_counts_as_0() -> None:
    profile = fastprof.load(xspace(gpu(("k", 0, 10), ("k", 20, -4), ("back", 30, -(2**40)))))
    report = profile.op_stats()
    ops = {row["name"]: row["total_ps"] for row in report.tables["device_ops"].to_pylist()}
    assert ops == {"a/b/k": 10, "IDLE": 20, "a/b/back": 0}
    assert {name: report.scalars[f"device_{name}_ps"].value for name in ("total", "op", "idle")} == {
        "total": 30, "op": 10, "idle": 20,
    }  # fmt: skip


def test_kernels_of_negative_durations_alone_leave_the_idle_share_unknown() -> None:
    found = fastprof.load(xspace(gpu(("k", 0, -1)))).overview().scalars["device_idle_percent"]
    assert (found.value, found.reason) == (None, "no device event records an op")


def test_a_request_of_negative_duration_lasts_no_time() -> None:
    capture = spaces(host([ran("SessionRun", 0, -7, _r=1, group_id=0), ran("SessionRun", 9, 5, _r=1, group_id=1)]))
    table = fastprof.load(capture).inference().tables["requests"]
    assert table["latency_ps"].to_pylist() == [5 * US]


# ---- times beyond 64 bits


@pytest.mark.parametrize("analysis", ["op_stats", "overview"])
@pytest.mark.parametrize(
    "one",
    [
        pytest.param(gpu(("k", -HALF, 1), ("k", HALF + 5, 1)), id="GPU"),
        pytest.param(tensor_core(event("f", -HALF, 1), event("f", HALF + 5, 1)), id="TPU"),
        pytest.param(
            tensor_core(
                event("f", 0, 1, {"device_offset_ps": -HALF, "device_duration_ps": 3}),
                event("f", 5, 1, {"device_offset_ps": HALF, "device_duration_ps": 3}),
            ),
            id="clock of the device",
        ),
    ],
)
def test_a_span_that_64_bits_do_not_hold_is_an_error_of_the_plane(tmp_path: Path, one: Plane, analysis: str) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(xspace(one))
    with pytest.raises(fastprof.CaptureError) as caught:
        fastprof.load(path).report(analysis)
    plane_name = "/device:TPU:0" if "TPU" in str(one) else "/device:GPU:0"
    assert str(caught.value) == (
        f"{path}: the times of plane {plane_name} of host vm span more than 64 bits of picoseconds can count"
    )


def test_a_span_that_64_bits_hold_counts_wherever_it_lies() -> None:
    late = 2**63 - 10
    report = fastprof.load(xspace(gpu(("k", late - 100, 50), ("k", late, 30)))).overview()
    assert (report.scalars["busy_ps"].value, report.scalars["idle_ps"].value) == (80, 50)


def test_times_of_all_chips_that_do_not_add_up_are_unknown() -> None:
    far = line("XLA Modules", [event("jit_f(1)", -HALF, 1), event("jit_f(1)", HALF - 9, 1)])
    chips = [plane(f"/device:TPU:{i}", [far], id=i + 1) for i in range(2)]
    one, both = (fastprof.load(xspace(*some)).overview().scalars["idle_ps"] for some in (chips[:1], chips))
    assert (one.value, one.reason) == (2**63 - 8, None)
    assert (both.value, both.reason) == (None, "the times of all chips do not add up in 64 bits")


def test_kernels_that_do_not_add_up_name_file_and_host(tmp_path: Path) -> None:
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(xspace(gpu(("k1", 0, HALF), ("k2", 0, HALF))))
    for analysis in ("kernel_stats", "op_stats", "overview"):
        with pytest.raises(fastprof.CaptureError, match="do not add up in 64 bits") as caught:
            fastprof.load(path).report(analysis)
        assert caught.value.path == str(path)
        assert str(caught.value).endswith("(host vm)")


def test_a_request_that_64_bits_do_not_hold_is_an_error() -> None:
    ends = [ran("SessionRun", at / US, 1, _r=1, group_id=0) for at in (-HALF, HALF + 5)]
    with pytest.raises(fastprof.CaptureError, match=r"requests span more than 64 bits of .* \(host vm\)$"):
        fastprof.load(spaces(host(ends))).inference()


def test_collectives_that_do_not_add_up_are_an_error() -> None:
    stats = {"sum": {"all_reduce_unique_id": 7}}
    core = tpu(0, [step(0, 0, 9)], [("sum", "all-reduce", at, HALF / US) for at in (1, 2)], stats=stats)
    with pytest.raises(fastprof.CaptureError, match="durations of collective operations do not add up in 64 bits"):
        fastprof.load(spaces(core)).pod_viewer()


def test_kernels_of_two_hosts_that_do_not_add_up_are_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.xplane.pb").write_bytes(xspace(gpu(("k", 0, HALF))))
    with pytest.raises(fastprof.CaptureError, match=r"^the durations of kernels do not add up in 64 bits$"):
        fastprof.load(tmp_path).kernel_stats()


# ---- faults on the way


def raising(error: Exception) -> Any:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_what_overflows_anywhere_is_an_error_of_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_stats, "of_host", raising(OverflowError("int too big to convert")))
    with pytest.raises(fastprof.CaptureError, match=r"more than 64 bits can count \(host vm\)$"):
        fastprof.load(spaces(gpu(("k", 0, 5)))).kernel_stats()


def test_memory_that_runs_out_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_stats, "of_host", raising(MemoryError()))
    with pytest.raises(fastprof.MemoryLimitError, match=r"out of memory in the analysis \(host vm\)$"):
        fastprof.load(spaces(gpu(("k", 0, 5)))).kernel_stats()


# ---- ids, and steps of many cores


@pytest.mark.parametrize("plane_id", [2**63 - 1, 2**31, -5])
def test_cores_are_numbered_where_ids_of_planes_are_none(plane_id: int) -> None:
    core = tpu(0, [step(0, 0, 9)], [("fusion", "loop fusion", 1, 5)], id=plane_id)
    profile = fastprof.load(spaces(core, sparse_core(0, [("f", "loop fusion", 1, 2)])))
    rows = profile.pod_viewer().tables["cores"].select(["core_id", "sparse_core"]).to_pylist()
    assert [(row["core_id"], row["sparse_core"]) for row in rows] == [(0, False), (1_000_001, True)]


def many_steps(steps: int, cores: int) -> bytes:
    marks = [step(number, 10 * number, 9) for number in range(steps)]
    ops = [("fusion", "loop fusion", 10 * number + 1, 5) for number in range(steps)]
    return spaces(*[tpu(core, marks, ops) for core in range(cores)])


def test_steps_that_would_take_too_much_memory_are_refused_before_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_database, "MOST_BYTES", 40 * 3 * (49 + 8 * (2 + 11)) - 1)
    profile = fastprof.load(many_steps(40, 3))
    with pytest.raises(fastprof.MemoryLimitError, match=r"^40 steps on 3 cores, with 2 categories of ops, would take"):
        profile.steps()
    assert profile.select(steps=(3, 5)).steps().scalars["step_count"].value == 2


def test_steps_of_several_hosts_count_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.xplane.pb").write_bytes(many_steps(10, 2))
    monkeypatch.setattr(step_database, "MOST_BYTES", 10 * 4 * (49 + 8 * (2 + 11)) - 1)
    profile = fastprof.load(tmp_path)
    with pytest.raises(fastprof.MemoryLimitError, match="10 steps on 4 cores"):
        profile.steps()
    assert profile.select(hosts="a").steps().scalars["step_count"].value == 10


def test_a_bottleneck_never_has_more_than_all_of_its_step() -> None:
    overlapping = [("fusion", "loop fusion", 0, 900), ("other", "loop fusion", 0, 800)]
    core = tpu(0, [step(0, 0, 10)], overlapping)
    rows = fastprof.load(spaces(core)).pod_viewer().tables["cores"].to_pylist()
    assert [(row["bottleneck"], row["bottleneck_share"]) for row in rows] == [("Device compute", 1.0)]
    assert rows[0]["device_compute_ps"] == rows[0]["duration_ps"]


# ---- arguments


@pytest.mark.parametrize(
    ("analysis", "params", "complaint"),
    [
        ("inference", {"request_order": "zz"}, "^request_order: 'zz' is not one of .*latency"),
        ("steps", {"steps_from": [1]}, r"^steps_from: \[1\] is not one of auto, markers, loader, modules"),
        ("overview", {"top_ops": [1]}, r"^top_ops: \[1\] is not an integer of at least 0"),
        ("overview", {"top_ops": 2.5}, "^top_ops: 2.5 is not an integer of at least 0"),
        ("overview", {"top_ops": True}, "^top_ops: True is not an integer of at least 0"),
    ],
)
def test_a_value_that_a_parameter_does_not_take(analysis: str, params: dict[str, Any], complaint: str) -> None:
    profile = fastprof.load(spaces(host([step(0, 0, 5)])))
    with pytest.raises(fastprof.UsageError, match=complaint):
        profile.report(analysis, **params)


def test_names_of_analyses_are_texts() -> None:
    names: Any = ["steps"]
    with pytest.raises(fastprof.UsageError, match=r"^names of analyses are strings, not list"):
        fastprof.load(spaces()).report(names)


@pytest.mark.parametrize("steps", [(5, 2), (3, 3)])
def test_steps_that_end_before_they_begin(steps: Sequence[int]) -> None:
    with pytest.raises(fastprof.UsageError, match="contain no step; the second number is excluded"):
        fastprof.load(spaces()).select(steps=(steps[0], steps[1]))
