"""HLO stats: the tables, figures and notices, and the page as XProf has it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hlo_builder import Op, Program, f32
from reports import data_table, figures, rows
from trace_builder import Event, Metadata, Plane, event, line, plane, u64, xspace

import fastprof
from fastprof.profile.report import Report

US = 1_000_000
F32 = "f32[5,1000]{1,0:T(8,128)}"
DOT = f"%dot.1 = {F32} dot({F32} %a, {F32} %b), lhs_contracting_dims={{1}}"
AGAIN = f"%add.remat.1 = {F32} add({F32} %a, {F32} %b)"
REDUCE = "%all-reduce = f32[8]{0} all-reduce(f32[8]{0} %x), replica_groups={{0,1},{2,3}}, to_apply=%sum"


def described(text: str, symbol: int, category: str, **stats: Any) -> Metadata:
    name = text.partition(" = ")[0].removeprefix("%")
    known = {"program_id": u64(7), "symbol_id": u64(symbol), "hlo_category": category, **stats}
    return Metadata(text, display_name=name, stats=known)


OPS = (
    described(DOT, 1, "convolution", flops=u64(4_000_000), bytes_accessed=u64(1_000), tf_op="jit(f)/layer/dot:",
              source="model.py:<3>", source_stack="model.py:3:1\n"),
    described(AGAIN, 2, "non-fusion elementwise", flops=u64(1_000), bytes_accessed=u64(4_000)),
    described(REDUCE, 3, "all-reduce", bytes_accessed=u64(64)),
    described("%custom = f32[] custom-call()", 4, "custom-call"),
    described("%call = f32[] custom-call()", 5, "custom-call", source="model.py:17", source_stack="a'<b>&\n"),
)  # fmt: skip


def programs() -> Plane:
    program = Program("jit_f")
    program.entry(Op("a", "parameter", f32(8)), Op("dot.1", "add", f32(8), ("a", "a")))
    return plane("/host:metadata", event_metadata=[Metadata("jit_f(7)", 7, stats={"Hlo Proto": program.proto()})])


PEAKS = {
    "peak_teraflops_per_second": 10.0,
    "peak_hbm_bw_gigabytes_per_second": 10.0,
    "device_type_string": "TPU v6 Lite",
}


def ran(text: str, start: int, duration: int, **stats: Any) -> Event:
    return event(text, start * US, duration * US, stats)


def core(*events: Event, number: int = 0, peaks: bool = True) -> Plane:
    stats = PEAKS if peaks else {}
    lines = [line("XLA Ops", list(events), id=3)]
    return plane(f"/device:TPU:{number}", lines, event_metadata=OPS, stats=stats, id=number)


USUAL = xspace(
    core(
        ran(DOT, 0, 4),
        ran(DOT, 5, 4),
        ran(AGAIN, 10, 2),
        ran(REDUCE, 12, 5),
        ran("%custom = f32[] custom-call()", 17, 3),
    )
)


def report_of(capture: bytes) -> Report:
    return fastprof.load(capture).hlo_stats()


def page(report: Report) -> list[dict[str, Any]]:
    return data_table(json.loads(report.to_xprof()))


# ---- tables


def test_ops_come_by_self_time_with_what_they_are() -> None:
    assert rows(
        report_of(USUAL), "ops", "rank", "name", "category", "occurrences", "self_ps", "framework_op", "core_type"
    ) == [
        (1, "dot.1", "convolution", 2, 8 * US, "jit(f)/layer/dot", "TensorCore"),
        (2, "all-reduce", "all-reduce", 1, 5 * US, None, "TensorCore"),
        (3, "custom", "custom-call", 1, 3 * US, None, "TensorCore"),
        (4, "add.remat.1", "non-fusion elementwise", 1, 2 * US, None, "TensorCore"),
    ]


def test_work_that_nobody_records_is_null_and_so_are_its_rates() -> None:
    found = {
        row[0]: row[1:]
        for row in rows(report_of(USUAL), "ops", "name", "flops", "flops_source", "flops_per_s", "bound_by")
    }
    assert found["dot.1"] == (8e6, "capture", pytest.approx(1e12), "Compute")
    assert found["custom"] == (None, None, None, None)
    assert found["all-reduce"][:3] == (None, None, None)


def test_shares_are_of_the_time_observed_and_of_the_time_in_which_ops_ran() -> None:
    report = report_of(USUAL)
    shares = rows(report, "ops", "self_share", "cumulative_self_share", "busy_share")
    assert shares[0] == (pytest.approx(8 / 20), pytest.approx(8 / 20), pytest.approx(8 / 18))
    assert shares[-1][1] == pytest.approx(18 / 20)
    assert (figures(report)["device_total_ps"], figures(report)["device_idle_ps"]) == (20 * US, 2 * US)


def test_padding_is_what_tiles_take_beyond_the_arrays() -> None:
    (first, *_) = rows(report_of(USUAL), "ops", "name", "array_bytes", "padded_bytes", "padding_share")
    assert first == ("dot.1", 3 * 5_000 * 4, 3 * 8 * 1_024 * 4, pytest.approx(1 - 5_000 / 8_192))
    columns = ("rank", "name", "operand", "position", "tile", "padded_dimensions")
    layouts = [row for row in rows(report_of(USUAL), "layouts", *columns) if row[0] == 1]
    assert layouts == [
        (1, "dot.1", "output", -1, "(8,128)", [8, 1024]),
        (1, "dot.1", "a", 0, "(8,128)", [8, 1024]),
        (1, "dot.1", "b", 1, "(8,128)", [8, 1024]),
    ]


def test_ops_padded_most_come_first_with_the_array_that_is() -> None:
    report = report_of(USUAL)
    size = 3 * (8 * 1_024 - 5_000) * 4
    assert rows(report, "padding", "rank", "name", "padding_bytes", "worst_operand", "worst_share")[0] == (
        1, "dot.1", 2 * size, "output", pytest.approx(1 - 5_000 / 8_192),
    )  # fmt: skip
    assert "Padded most" in report.to_text()


def test_categories_programs_and_groups_of_devices() -> None:
    report = report_of(USUAL)
    assert rows(report, "categories", "category", "op_count", "self_ps", "rematerialized_ps", "unknown_work_ps") == [
        ("convolution", 1, 8 * US, 0, 0),
        ("all-reduce", 1, 5 * US, 0, 0),
        ("custom-call", 1, 3 * US, 0, 3 * US),
        ("non-fusion elementwise", 1, 2 * US, 2 * US, 0),
    ]
    assert rows(report, "programs", "program_id", "program", "op_count", "self_ps") == [(7, None, 4, 18 * US)]
    assert rows(report, "replica_groups", "category", "replica_groups", "group_size", "accessed_bytes") == [
        ("all-reduce", "{{0,1},{2,3}}", 2, 64.0)
    ]
    assert rows(report, "rematerialization", "is_rematerialized", "self_ps") == [(False, 16 * US), (True, 2 * US)]
    assert rows(report, "attribution", "is_attributed", "how", "op_count") == [(True, "the event itself", 4)]


def test_figures_are_shares_of_the_time_in_which_ops_ran() -> None:
    values = figures(report_of(USUAL))
    assert (values["op_count"], values["program_count"]) == (4, 1)
    assert values["unknown_work_share"] == pytest.approx(3 / 18)
    assert values["rematerialized_share"] == pytest.approx(2 / 18)
    assert values["unattributed_share"] == values["outside_compilation_share"] == 0


def test_programs_are_called_as_the_capture_lists_them() -> None:
    report = report_of(xspace(core(ran(DOT, 0, 4)), programs()))
    assert rows(report, "programs", "program_id", "program") == [(7, "jit_f(7)")]
    assert not any("carries no compiled programs" in notice.text for notice in report.notices)


# ---- absent values


def test_without_devices_every_table_is_empty_and_every_figure_has_a_reason() -> None:
    report = report_of(xspace(plane("/host:CPU", [line("python", [event("main", 0, 5)])])))
    assert all(table.num_rows == 0 for table in report.tables.values())
    assert all(figure.value is None and figure.reason for figure in report.scalars.values())
    assert "no planes of devices" in report.notices[0].text


def test_a_device_on_which_nothing_ran_says_so() -> None:
    report = report_of(xspace(core()))
    assert "no op of the devices is recorded" in report.notices[0].text
    assert "%" not in str(figures(report)["unknown_work_share"])


def test_peaks_that_are_not_reported_are_the_makers_and_a_notice_says_so() -> None:
    stats = {"device_type_string": "TPU v5 lite"}
    report = report_of(
        xspace(plane("/device:TPU:0", [line("XLA Ops", [ran(DOT, 0, 4)], id=3)], event_metadata=OPS, stats=stats))
    )
    assert any("Google publishes" in notice.text for notice in report.notices)
    assert rows(report, "ops", "bound_by") == [("Compute",)]


def test_ops_of_a_cpu_are_those_of_its_threads() -> None:
    stats = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": u64(7)}
    threads = plane("/host:CPU", [line("tf_XLA", [event("dot.1", 0, 5 * US, stats)])])
    report = report_of(xspace(threads, programs()))
    assert rows(report, "ops", "name", "program", "self_ps", "core_type") == [("dot.1", "jit_f(7)", 5 * US, None)]
    assert page(report) == []


def test_percentiles_are_those_of_all_occurrences_on_all_devices_and_only_if_asked_for() -> None:
    lengths = [7, 1, 100, 3, 3, 9, 2, 8, 5, 4, 6]
    cores = [core(*(ran(DOT, 200 * i, took) for i, took in enumerate(lengths[n::2])), number=n) for n in (0, 1)]
    profile = fastprof.load([xspace(*cores, programs()), xspace(core(ran(DOT, 0, 50), ran(AGAIN, 60, 2)))])
    assert profile.hlo_stats().tables["durations"].num_rows == 0
    columns = ("rank", "name", "occurrences", "min_ps", "p50_ps", "p90_ps", "p99_ps", "max_ps")
    every = sorted([*lengths, 50])
    at = [every[math.ceil(len(every) * percent / 100) - 1] * US for percent in (50, 90, 99)]
    assert rows(profile.hlo_stats(percentiles=True), "durations", *columns) == [
        (1, "dot.1", 12, 1 * US, *at, 100 * US),
        (2, "add.remat.1", 1, *[2 * US] * 5),
    ]


def test_percentiles_of_real_captures_are_recorded_durations(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "cpu-jax-train")
    table = profile.hlo_stats(percentiles=True).tables["durations"].to_pylist()
    events = profile.event_table(["duration_ps"], ["hlo_op"]).to_pylist()
    for row in table:
        own = sorted(event["duration_ps"] for event in events if event["hlo_op"] == row["name"])
        at = [own[max(math.ceil(len(own) * percent / 100) - 1, 0)] for percent in (0, 50, 90, 99, 100)]
        assert [row[name] for name in ("min_ps", "p50_ps", "p90_ps", "p99_ps", "max_ps")] == at
    assert len(table) == 22


# ---- XProf's page


def test_the_page_has_the_op_text_and_an_escaped_source() -> None:
    answer = page(report_of(xspace(core(ran("%call = f32[] custom-call()", 0, 4), ran(DOT, 4, 2)))))
    assert [(row["rank"], row["hlo_op_name"], row["program_id"]) for row in answer] == [
        (1, "call", "7"),
        (2, "dot.1", "7"),
    ]
    assert answer[0]["source_info"] == (
        "<div class='source-info-cell' title='a&#39;&lt;b&gt;&amp;\n'>model.py:17</div>"
    )
    assert answer[1]["source_info"] == ""  # its line is not a number
    assert (answer[1]["total_self_time_percent"], answer[1]["normalized_flop_rate"]) == (
        pytest.approx(100 / 3),
        2_000.0,
    )


def test_the_page_takes_unknown_work_for_none() -> None:
    (row,) = page(report_of(xspace(core(ran("%custom = f32[] custom-call()", 0, 4)))))
    assert (row["model_flop_rate"], row["measured_memory_bw"], row["bound_by"]) == (0.0, 0.0, "Unknown")


def test_what_sparse_cores_ran_follows_its_op_and_is_that_of_its_first_occurrence() -> None:
    def key(start: int) -> dict[str, Any]:
        return {"offload_core_id": u64(0), "tc_offload_start_id": start}

    modules = [
        event("module", start * US, 10 * US, {"offload_core_id": u64(0), "tc_offload_start_id": u64(start)})
        for start in (0, 20)
    ]
    inside = [described("%gather = f32[] gather()", 9, "gather")]
    gathers = [event(inside[0].name, start * US, 3 * US) for start in (1, 5, 21)]
    sparse = plane(
        "/device:TPU:0 SparseCore 0",
        [line("Sparse Core Modules", modules, id=1), line("Sparse Core Ops", gathers, id=2)],
        event_metadata=inside,
        id=9,
    )
    report = report_of(xspace(core(ran(DOT, 0, 9, **key(0)), ran(DOT, 20, 9, **key(20))), sparse))
    assert rows(report, "sparse_core_ops", "parent", "name", "occurrences", "total_ps") == [
        ("dot.1", "gather", 3, 9 * US)
    ]
    shown = [(row["rank"], row["hlo_op_name"], row["occurrences"], row["parent_op_name"]) for row in page(report)]
    assert shown == [(1.0, "dot.1", 2.0, ""), (0.0, "gather", 2.0, "dot.1")]


# ---- real captures


def test_self_times_of_real_captures_add_up(captures: Path) -> None:
    for session in sorted((captures / "xspace").iterdir()):
        report = fastprof.load(session).hlo_stats()
        self_ps = np.asarray(report.tables["ops"]["self_ps"]).sum()
        assert self_ps == (figures(report)["device_op_ps"] or 0), session.name
        for table in ("categories", "programs", "rematerialization", "outside_compilation", "attribution"):
            assert np.asarray(report.tables[table]["self_ps"]).sum() == self_ps, (session.name, table)
        padded = report.tables["ops"].filter(report.tables["ops"]["padded_bytes"].is_valid())
        assert (np.asarray(padded["padded_bytes"]) >= np.asarray(padded["array_bytes"])).all()
