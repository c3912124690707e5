"""The roofline: its tables, figures and notices, and the page as XProf has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import data_table, figures, rows
from trace_builder import Event, Metadata, Plane, event, int_field, len_field, line, plane, u64, xspace

import fastprof
from fastprof.profile.report import Report

US = 1_000_000
NO_MARKERS = "No step marker observed"


def moved(*accesses: tuple[int, int, int]) -> bytes:
    """A breakdown: direction, space, bytes."""
    parts = (int_field(1, way) + int_field(2, space) + int_field(3, size) for way, space, size in accesses)
    return b"".join(len_field(1, part) for part in parts)


def described(name: str, symbol: int, category: str, **stats: Any) -> Metadata:
    known = {"program_id": u64(7), "symbol_id": u64(symbol), "hlo_category": category, **stats}
    return Metadata(name, display_name=name, stats=known)


OPS = (
    described("dot", 1, "convolution", flops=u64(20_000_000), bytes_accessed=u64(10_000),
              memory_access_breakdown=moved((1, 1, 10_000), (1, 3, 50_000), (2, 9, 7))),
    described("add", 2, "loop fusion", flops=u64(1_000), bytes_accessed=u64(30_000)),
    described("feed", 3, "host outfeed x", flops=u64(0), bytes_accessed=u64(500)),
    described("start", 4, "copy-start", bytes_accessed=u64(10**9)),
    described("call", 5, "custom-call"),
)  # fmt: skip
PEAKS = {
    "peak_teraflops_per_second": 10.0,
    "peak_hbm_bw_gigabytes_per_second": 10.0,
    "peak_vmem_rd_bw_gigabytes_per_second": 100.0,
    "device_type_string": "TPU v6 Lite",
}


def ran(name: str, start: float, duration: float) -> Event:
    return event(name, round(start * US), round(duration * US))


def core(*events: Event, number: int = 0, **stats: Any) -> Plane:
    lines = [line("XLA Ops", list(events), id=3)]
    return plane(f"/device:TPU:{number}", lines, event_metadata=OPS, stats=PEAKS | stats, id=number)


def usual(**stats: Any) -> bytes:
    """Three ops in 20 microseconds, then nothing for 5."""
    return xspace(core(ran("dot", 0, 10), ran("add", 10, 5), ran("call", 15, 5), ran("add", 25, 5), **stats))


def report_of(capture: bytes, **params: Any) -> Report:
    return fastprof.load(capture).roofline(**params)


def page(report: Report) -> tuple[list[dict[str, Any]], dict[str, str], list[str]]:
    """Rows, properties and messages of XProf's page."""
    records, messages = json.loads(report.to_xprof())
    return data_table(records), records["p"], [row["c"][1]["v"] for row in messages["rows"]]


# ---- tables and figures


def test_the_peaks_of_the_device_and_where_memory_stops_being_the_limit() -> None:
    assert rows(report_of(usual()), "device", "resource", "peak", "unit", "ridge_flops_per_byte", "peak_source") == [
        ("Compute", 1e13, "flop/s", None, "capture"),
        ("HBM", 1e10, "bytes/s", 1_000.0, "capture"),
        ("VMEM Read", 1e11, "bytes/s", 100.0, "capture"),
    ]


def test_each_op_records_how_near_the_roofline_it_is() -> None:
    listed = rows(
        report_of(usual()), "ops", "name", "bound_by", "roofline_percent", "least_ps", "lost_ps", "compute_peak_percent"
    )
    assert listed == [
        ("add", "HBM", pytest.approx(60), 6 * US, 4 * US, pytest.approx(2e-3)),
        ("dot", "Compute", pytest.approx(20), 2 * US, 8 * US, pytest.approx(20)),
        ("call", None, None, None, None, None),
    ]


def test_what_could_be_won_comes_first_where_most_is_lost() -> None:
    listed = rows(report_of(usual()), "lost_time", "rank", "name", "lost_ps", "lost_share", "cumulative_lost_share")
    assert listed == [
        (1, "dot", 8 * US, pytest.approx(8 / 30), pytest.approx(8 / 30)),
        (2, "add", 4 * US, pytest.approx(4 / 30), pytest.approx(12 / 30)),
    ]


def test_figures_are_against_the_time_observed() -> None:
    values = figures(report_of(usual()))
    assert (values["device_type"], values["core_count"]) == ("TPU v6 Lite", 1)
    assert (values["peak_flops_per_s"], values["ridge_flops_per_byte"]) == (1e13, 1_000.0)
    assert values["flops_per_s"] == pytest.approx(20_002_000 / 30e-6)
    assert values["hbm_bytes_per_s"] == pytest.approx(70_000 / 30e-6)
    assert (values["lost_ps"], values["unknown_ps"], values["ops_roofline_percent"]) == (
        12 * US,
        5 * US,
        pytest.approx(40),
    )


def test_every_memory_of_an_op_has_a_row() -> None:
    listed = rows(report_of(usual()), "memory", "rank", "name", "space", "direction", "bytes", "peak_percent")
    assert listed == [
        (2, "dot", "HBM", "read", 10_000.0, pytest.approx(10)),
        (2, "dot", "VMEM", "read", 50_000.0, pytest.approx(5)),
        (2, "dot", "memory 9", "write", 7.0, None),
    ]


def test_shares_are_also_reported_the_time_without_infeed_and_outfeed() -> None:
    report = report_of(xspace(core(ran("dot", 0, 10), ran("feed", 10, 10))))
    assert rows(report, "ops", "name", "is_feed", "self_share", "without_feeds_share") == [
        ("dot", False, 0.5, 1.0),
        ("feed", True, 0.5, None),
    ]


def test_ops_that_seem_to_do_more_than_the_device_can_are_named() -> None:
    profile = fastprof.load(xspace(core(ran("dot", 0, 1), ran("add", 1, 4))))
    report = profile.roofline()
    (notice,) = (one for one in report.notices if "done more" in one.text)
    assert notice.severity == "warning" and notice.text.startswith(
        "1 op seems to have done more than the device can: dot (2.00 x the peak of Compute)."
    )
    assert rows(report, "ops", "name", "lost_ps")[1] == ("dot", 0)
    assert all(notice in other.notices for other in (profile.op_profile(), profile.hlo_stats()))


def test_peaks_that_the_capture_does_not_record_are_as_published_and_marked() -> None:
    quiet = {name: 0.0 for name in PEAKS if name.startswith("peak")}
    report = report_of(usual(**quiet))
    assert rows(report, "device", "resource", "peak", "peak_source") == [
        ("Compute", 918e12, "published table"),
        ("HBM", 1_638e9, "published table"),
    ]
    assert any("Google publishes" in notice.text for notice in report.notices)
    assert page(report)[1]["peak_flop_rate"] == page(report)[1]["peak_hbm_bw"] == "0"


def test_peaks_that_nobody_records_are_unknown_with_a_reason() -> None:
    report = report_of(usual(peak_hbm_bw_gigabytes_per_second=0.0, device_type_string="TPU of tomorrow"))
    assert rows(report, "device", "resource", "peak", "peak_source")[1] == ("HBM", None, "unknown")
    assert report.scalars["ridge_flops_per_byte"].value is None
    assert "peak_hbm_bw_gigabytes_per_second" in (report.scalars["ridge_flops_per_byte"].reason or "")
    assert rows(report, "ops", "roofline_percent") == [(None,)] * 3


# ---- steps


def with_steps(*numbers: int) -> bytes:
    marks = [event(str(n), (20 * at) * US, 18 * US, {"group_id": n}) for at, n in enumerate(numbers)]
    ops = [event("dot", (20 * at) * US, 9 * US, {"group_id": n}) for at, n in enumerate(numbers)]
    lines = [line("Steps", marks, id=1), line("XLA Ops", ops, id=3)]
    return xspace(plane("/device:TPU:0", lines, event_metadata=OPS, stats=PEAKS))


def test_each_step_and_the_average_one() -> None:
    listed = rows(
        report_of(with_steps(4, 5)), "totals", "scope", "step", "total_ps", "busy_ps", "flops", "compute_peak_percent"
    )
    assert listed[1:4] == [
        ("average step", None, 19 * US, 9 * US, 2e7, pytest.approx(2e9 / 1.9e8)),
        ("step", 4, 20 * US, 9 * US, 2e7, pytest.approx(2e9 / 2e8)),
        ("step", 5, 18 * US, 9 * US, 2e7, pytest.approx(2e9 / 1.8e8)),
    ]


def test_ops_that_end_after_their_step_have_no_busy_share() -> None:
    """The step lasts 40 us; its op 45 us, as damage or a wrong marker makes it."""
    marks = [event("4", 0, 18 * US, {"group_id": 4}), event("5", 40 * US, 18 * US, {"group_id": 5})]
    ops = [event("dot", 0, 45 * US, {"group_id": 4}), event("dot", 40 * US, 9 * US, {"group_id": 5})]
    lines = [line("Steps", marks, id=1), line("XLA Ops", ops, id=3)]
    report = report_of(xspace(plane("/device:TPU:0", lines, event_metadata=OPS, stats=PEAKS)))
    listed = rows(report, "totals", "scope", "step", "busy_ps", "total_ps", "busy_share")
    assert [row for row in listed if row[0] == "step"] == [
        ("step", 4, 45 * US, 40 * US, None),
        ("step", 5, 9 * US, 18 * US, 0.5),
    ]


def test_chosen_steps_are_all_that_counts() -> None:
    report = fastprof.load(with_steps(4, 5, 6)).select(steps=(5, 6)).roofline()
    assert rows(report, "totals", "scope", "step", "flops")[2] == ("step", 5, 2e7)
    assert rows(report, "ops", "occurrences") == [(1,)]


def test_steps_that_hold_little_of_what_ran_are_reported() -> None:
    marks = [event("0", 0, US, {"group_id": 0}), event("1", 2 * US, US, {"group_id": 1})]
    ops = [event("dot", 0, US, {"group_id": 0}), event("dot", 5 * US, 9 * US)]
    lines = [line("Steps", marks, id=1), line("XLA Ops", ops, id=3)]
    report = report_of(xspace(plane("/device:TPU:0", lines, event_metadata=OPS, stats=PEAKS)))
    assert [one.text[:42] for one in report.notices if "steps_from=" in one.text] == [
        "Steps hold 10.0 % of the time of ops: the "
    ]
    assert not any("steps_from=" in one.text for one in report_of(with_steps(4, 5)).notices)


def test_gpus_that_ran_nothing_do_not_count() -> None:
    kernel = event("k", 0, 8 * US, {"correlation_id": 1})
    gpus = [plane("/device:GPU:0", [line("Stream #1", [kernel], id=1)])]
    gpus += [plane(f"/device:GPU:{number}", [], id=number) for number in (1, 2, 3)]
    report = report_of(xspace(*gpus))
    assert report.scalars["core_count"].value == 1
    assert rows(report, "totals", "scope", "total_ps", "per_core_ps")[0] == ("session", 8 * US, 8 * US)


# ---- XProf's page


def test_the_page_has_all_rows_twice_and_an_average_even_without_steps() -> None:
    found, properties, messages = page(report_of(xspace(core(ran("dot", 0, 10), ran("feed", 10, 10)))))
    assert [(row["step"], row["operation"], row["include_infeed_outfeed"]) for row in found] == [
        ("Total", "Program", True),
        ("Total", "dot", True),
        ("Total", "feed", True),
        ("Average", "Program", True),
        ("Total", "Program", False),
        ("Total", "dot", False),
        ("Average", "Program", False),
    ]
    assert found[5]["total_self_time_percent"] == 1.0 and found[1]["total_self_time_percent"] == 0.5
    assert found[3]["total_time"] == 0.0
    assert properties["hbm_ridge_point"] == "1000" and properties["peak_hbm_bw"] == "9.31323"
    assert messages[0].startswith(NO_MARKERS)


def test_the_average_time_of_the_average_step_is_not_divided_there() -> None:
    found, _, messages = page(report_of(with_steps(4, 5)))
    average = next(row for row in found if row["step"] == "Average")
    assert (average["total_time"], average["avg_time"], average["total_time_per_core"]) == (18.0, 36.0, 18.0)
    assert [row["step"] for row in found[:5]] == ["Total", "Total", "Average", "4", "5"]
    assert messages == []


def gpu_steps(count: int) -> bytes:
    """Steps marked on a thread, and a kernel that each of them launches."""
    marks = [event("train", 10 * n * US, 9 * US, {"_r": 1, "step_num": n}) for n in range(count)]
    launches = [event("cuLaunchKernel", (10 * n + 1) * US, US, {"correlation_id": n + 1}) for n in range(count)]
    kernels = [event("k", (10 * n + 3) * US, US, {"correlation_id": n + 1}) for n in range(count)]
    thread = [one for pair in zip(marks, launches, strict=True) for one in pair]
    return xspace(
        plane("/device:GPU:0", [line("Stream #1", kernels, id=1)]),
        plane("/host:CPU", [line("python", thread, id=2)]),
    )


def test_the_page_leaves_out_the_first_and_the_last_of_many_steps_of_gpus() -> None:
    """They may be cut off."""
    steps = [row["step"] for row in page(report_of(gpu_steps(7)))[0]]
    assert steps == 2 * ["Total", "1", "2", "3", "4", "5"]
    steps = [row["step"] for row in page(report_of(gpu_steps(3)))[0]]
    assert steps == 2 * ["Total", "0", "1", "2"]


def test_the_page_has_an_average_step_of_gpus_if_hosts_are_several() -> None:
    report = fastprof.load([gpu_steps(2), gpu_steps(2)]).roofline()
    found = page(report)[0]
    assert [row["step"] for row in found] == 2 * ["Total", "Average", "0", "1"]
    assert [row["total_time"] for row in found[1:4]] == [0.0, 0.0, 0.0]


def test_peaks_of_vmem_show_only_where_it_takes_the_place_of_cmem() -> None:
    assert page(report_of(usual()))[1]["peak_vmem_read_bw"] == "0"
    assert page(report_of(usual(has_merged_vmem=1)))[1]["peak_vmem_read_bw"] == "93.1323"
    merged = usual(has_merged_vmem=1, peak_cmem_rd_bw_gigabytes_per_second=5.0)
    assert page(report_of(merged))[1]["peak_vmem_read_bw"] == "0"
    assert page(report_of(merged))[1]["has_cmem"] == "1"


def test_the_page_shows_1000_ops_idle_time_included() -> None:
    many = [described(f"op{n}", n + 1, "loop fusion", bytes_accessed=u64(8)) for n in range(1_200)]
    events = [event(f"op{n}", 10 * n, 5) for n in range(1_200)]
    given = plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=many, stats=PEAKS)
    report = report_of(xspace(given))
    shown = [row for row in page(report)[0] if row["operation"] != "Program"]
    assert (len(shown), report.tables["ops"].num_rows) == (1_998, 1_200)


def test_without_devices_the_page_is_empty_and_heads_as_for_a_tpu() -> None:
    report = report_of(xspace(plane("/host:CPU", [line("python", [event("main", 0, 5)])])))
    records, properties, messages = page(report)
    assert records == [] and properties["device_type"] == "" and properties["peak_flop_rate"] == "0"
    assert messages[0].startswith(NO_MARKERS)


# ---- real captures


def test_totals_of_real_captures_hold_what_their_ops_do(captures: Path) -> None:
    for session in sorted((captures / "xspace").iterdir()):
        report = fastprof.load(session).roofline()
        if not report.tables["totals"].num_rows:
            continue
        rows_of = {row[0]: row[1:] for row in rows(report, "totals", "scope", "with_feeds", "busy_ps", "total_ps")
                   if row[0] == "session" and row[1]}  # fmt: skip
        _, busy, total = rows_of["session"]
        if busy is None:
            continue
        assert busy <= total, session.name
        self_ps = np.asarray(report.tables["ops"]["self_ps"]).sum()
        programs = [row[2] for row in rows(report, "totals", "scope", "with_feeds", "busy_ps")
                    if row[0] == "program" and row[1]]  # fmt: skip
        assert sum(programs) == self_ps, session.name
        over = [
            name for name, used in rows(report, "ops", "name", "roofline_percent") if used is not None and used > 100
        ]
        warned = [notice for notice in report.notices if "more than the device can" in notice.text]
        assert bool(over) <= bool(warned), session.name


def test_whether_the_roofline_is_asked_for_changes_no_other_answer(captures: Path) -> None:
    """The diagnosis takes the roofline without its steps."""
    path = next(captures.glob("xspace/**/*v6e*/**/*.xplane.pb"))
    alone = fastprof.load(path).report("diagnosis")
    both = fastprof.load(path).reports("diagnosis", "roofline")
    assert alone.tables["findings"].num_rows > 0
    assert alone.tables == both["diagnosis"].tables and alone.scalars == both["diagnosis"].scalars
    assert "step" in both["roofline"].tables["totals"]["scope"].to_pylist()


def test_collectives_are_not_bound_by_memory() -> None:
    ops = fastprof.load("demo/xla").roofline().tables["ops"].to_pylist()
    collectives = [row for row in ops if str(row["category"]).startswith("all-reduce")]
    assert len(collectives) > 4
    assert {(row["bound_by"], row["lost_ps"]) for row in collectives} == {(None, None)}
    assert {row["bound_by"] for row in ops if row["category"] == "convolution fusion"} <= {"Compute", "HBM"}
