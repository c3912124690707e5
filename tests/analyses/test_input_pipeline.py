"""The input pipeline analysis: what waits for input, of which steps, and what the host does for input."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc
import pytest
from hand_made import MS, generic_db, op_stats, ops, steps_report, tpu_db

from fastprof.analyses import input_pipeline
from fastprof.analyses.contract import AnalysisReport, Notice
from fastprof.derive.ops.record_checks import HostRecords
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.xprof.pages import input_pipeline as page

PARAMS = input_pipeline.Params()
_HOST = input_pipeline.InputHostState("TensorFlow", HostRecords("", (), True, False))


def report_of(db: StepDatabase, *input_ops: tuple[str, str, int], notices: tuple[Notice, ...] = ()) -> AnalysisReport:
    """The report on some steps, and on ops of the host of name, category and self time in ms."""
    rows = [
        {"name": name, "category": category, "occurrences": 2, "time_ps": 2 * time * MS, "self_ps": time * MS}
        for name, category, time in input_ops
    ]
    stats = AnalysisReport("op_stats", {}, {}, (), {}, op_stats(ops(*rows)))
    found = input_pipeline.run([_HOST], PARAMS, {"steps": steps_report(db, *notices), "op_stats": stats})
    return replace(found, kept={"host ops": [ops(*rows)]})


def column(report: AnalysisReport, table: str, name: str) -> list[object]:
    values: list[object] = report.tables[table][name].to_pylist()
    return values


STEP = {"device_compute_32": 60, "host_wait_input": 20, "host_to_device": 10, "unknown_time": 10}


def test_shares_are_of_the_complete_steps_and_the_table_has_all() -> None:
    wild = {"unknown_time": 1000}
    report = report_of(generic_db([wild, STEP, STEP, STEP, STEP, wild]))
    assert column(report, "steps", "complete") == [False, True, True, True, True, False]
    assert column(report, "steps", "step_ps") == [1000 * MS, *[100 * MS] * 4, 1000 * MS]
    assert column(report, "steps", "input_share") == pytest.approx([0, 0.2, 0.2, 0.2, 0.2, 0])
    assert report.scalars["input_percent"].value == pytest.approx(20)
    assert report.scalars["compute_percent"].value == pytest.approx(60)
    assert report.scalars["input_verdict"].value == "high"
    assert report.notices[0].severity == "recommendation"
    assert report.notices[0].text.startswith("Your program is HIGHLY input-bound because 20.0 %")


def test_five_steps_are_all_complete() -> None:
    assert column(report_of(generic_db([STEP] * 5)), "steps", "complete") == [True] * 5


def test_the_figures_of_steps_are_those_of_their_report() -> None:
    db = generic_db([STEP])
    assert report_of(db).scalars["step_time_p90_ps"] == steps_report(db).scalars["step_time_p90_ps"]


def test_the_deviation_over_a_single_step_is_unknown() -> None:
    assert set(column(report_of(generic_db([STEP])), "breakdown", "stdev_ps")) == {None}
    twice = report_of(generic_db([{"device_compute_32": 10}, {"device_compute_32": 30}]))
    assert column(twice, "breakdown", "stdev_ps")[0] == pytest.approx(14.142135624 * MS, abs=1)


def test_without_steps_nothing_is_judged_and_the_reason_is_that_of_the_steps() -> None:
    reason = Notice("warning", "no step markers in this capture")
    report = report_of(generic_db([]), notices=(reason,))
    assert report.scalars["input_percent"].value is None
    assert report.scalars["input_percent"].reason == reason.text
    assert report.scalars["step_time_mean_ps"].reason == reason.text
    assert [(one.severity, one.text) for one in report.notices] == [
        ("warning", f"The input wait of steps is unknown: {reason.text}")
    ]
    assert report.tables["breakdown"].num_rows == 0


def test_several_hosts_count_alike_and_the_longest_makes_the_step() -> None:
    fast, slow = {"device_compute_32": 100}, {"device_compute_32": 100, "host_wait_input": 100}
    report = report_of(generic_db([[fast, slow]], hosts=("a", "b")))
    assert column(report, "steps", "step_ps") == [200 * MS]
    assert column(report, "steps", "input_ps") == [50 * MS]
    assert column(report, "steps", "input_share") == pytest.approx([1 / 3])
    assert report.scalars["input_percent"].value == pytest.approx(100 / 3)


def test_a_step_that_took_no_time_has_no_share() -> None:
    report = report_of(generic_db([{"device_compute_32": 0}, STEP]))
    assert column(report, "steps", "input_share")[0] is None


def test_the_breakdown_has_each_category_of_each_step() -> None:
    report = report_of(generic_db([STEP, STEP]))
    breakdown = dict(zip(column(report, "breakdown", "category"), column(report, "breakdown", "mean_ps"), strict=True))
    assert breakdown["device_compute"] == 60 * MS
    assert breakdown["input"] == 20 * MS
    assert breakdown["copies"] == 10 * MS
    assert breakdown["all_others"] == 10 * MS
    long = report.tables["step_breakdown"]
    assert long.num_rows == 2 * 11
    assert pc.sum(long["time_ps"]).as_py() == 200 * MS
    assert pc.sum(report.tables["breakdown"]["share"]).as_py() == pytest.approx(1)


def test_input_ops_come_with_shares_of_their_self_time() -> None:
    report = report_of(generic_db([STEP]), ("MatMul", "MatMul", 50), ("Iterator::Root::Map", "Dataset", 30),
                   ("Iterator::Root::TFRecord", "Dataset", 10))  # fmt: skip
    assert column(report, "input_ops", "name") == ["Iterator::Root::Map", "Iterator::Root::TFRecord"]
    assert column(report, "input_ops", "category") == ["Preprocessing", "Demanded file read"]
    assert column(report, "input_ops", "self_share") == [0.75, 0.25]
    assert column(report, "input_ops", "total_share") == [1.5, 0.5]
    assert report.scalars["uses_tf_data"].value is True
    assert report.scalars["input_op_self_ps"].value == 40 * MS
    assert report.notices[1].text.startswith("On the host, 75.0 % of input time is preprocessing")


def test_iterators_of_tf_data_are_reported_further_in_tf_data() -> None:
    text = (
        "tf-data shows the slow stage of the tf.data pipeline. It counts call time once, while the times of input "
        "ops here are summed over parallel threads."
    )
    op = ("Iterator::Root::Map", "Dataset", 30)
    for db in (generic_db([STEP]), generic_db([])):
        report = report_of(db, op, op)
        assert [notice.severity for notice in report.notices if notice.text == text] == ["info"]
        assert text not in str(page.answer(report))
    assert not any("tf-data" in one.text for one in report_of(generic_db([STEP]), ("enqueue", "enqueue", 10)).notices)


def test_copies_to_the_device_say_how_much_of_input_time_is_enqueuing() -> None:
    report = report_of(generic_db([STEP]), ("enqueue", "enqueue", 10), ("Iterator::Root::Map", "Dataset", 5))
    assert report.scalars["enqueue_share"].value == pytest.approx(0.1)
    assert column(report, "input_time", "time_ps") == [10 * MS, 0, 0, 90 * MS, 0]
    assert column(report, "input_time", "share") == pytest.approx([0.1, 0, 0, 0.9, 0])


def test_a_program_that_waits_without_a_known_pipeline_is_reported_tf_data() -> None:
    report = report_of(generic_db([STEP]))
    assert "https://www.tensorflow.org/guide/data" in report.notices[1].text
    assert column(report, "input_time", "share") == [None] * 5


# ---- TPUs -----------------------------------------------------------------------------------------------

CORES = [
    {"step": 10, "infeed": 1, "fusion": 8},
    {"step": 10, "infeed": 3, "outfeed": 1, "fusion": 6},
]


def test_of_tpus_the_core_that_waits_longest_makes_the_input_of_a_step() -> None:
    report = report_of(tpu_db([CORES], ids=(0, 1)))
    assert column(report, "steps", "input_ps") == [3 * MS]
    assert column(report, "steps", "input_share") == pytest.approx([0.2])
    assert column(report, "steps", "least_input_share") == pytest.approx([0.1])
    assert column(report, "steps", "most_input_share") == pytest.approx([0.3])
    assert column(report, "steps", "longest_wait_core") == ["host0:1"]
    breakdown = dict(zip(column(report, "breakdown", "category"), column(report, "breakdown", "mean_ps"), strict=True))
    assert breakdown["compute"] == 6 * MS
    assert breakdown["input"] == 3 * MS
    assert breakdown["output"] == MS // 2
    assert breakdown["idle"] == MS // 2
    assert report.scalars["input_percent"].value == pytest.approx(30)
    assert report.scalars["idle_percent"].value == pytest.approx(5)
    assert [notice.text[:22] for notice in report.notices] == ["Your program is HIGHLY", "The capture has no tf."]


def test_of_tpus_overlapping_infeeds_are_at_most_the_step() -> None:
    report = report_of(tpu_db([[{"step": 10, "infeed": 25}, {"step": 10, "infeed": 5}]], ids=(0, 1)))
    assert column(report, "steps", "input_ps") == [10 * MS]
    assert column(report, "steps", "input_share") == [1]
    assert column(report, "steps", "most_input_share") == [1]


# ---- XProf's page ---------------------------------------------------------------------------------------


def properties(table: object) -> dict[str, str]:
    assert isinstance(table, dict)
    found: dict[str, str] = table["p"]
    return found


def test_the_page_has_the_complete_steps_and_statements_in_place_of_classes() -> None:
    busy = {"device_compute_32": 60, "host_wait_input": 20, "unknown_time": 20}
    longest, steps, _, advice, diagnostics = page.answer(report_of(generic_db([busy] * 6, names=list("abcdef"))))
    assert longest == {"cols": [], "rows": []}
    assert isinstance(steps, dict)
    assert [row["c"][0]["v"] for row in steps["rows"]] == ["b", "c", "d", "e"]
    assert [cell["v"] for cell in steps["rows"][0]["c"]][1:10] == [60, 0, 0, 0, 0, 20, 0, 0, 20]
    p = properties(steps)
    statement = "20.0 % of the total step time sampled is spent on 'All Others' time. This could be due to Python "
    assert p["all_other_bottleneck"] == p["all_other_statement"] == f"{statement}execution overhead."
    assert (p["steptime_ms_average"], p["steptime_ms_standard_deviation"]) == ("100.0", "0.0")
    assert (p["infeed_time_ms_avg"], p["outfeed_time_ms_avg"]) == ("20.0", "0.0")
    assert p["summary_nextstep"].startswith("Consider using <a href=")
    assert isinstance(advice, dict)
    assert len(advice["rows"]) == 5
    assert diagnostics == {
        "cols": [
            {"id": "severity", "label": "Severity", "type": "string"},
            {"id": "message", "label": "Message", "type": "string"},
        ],
        "rows": [],
    }


def test_the_page_shows_steps_by_number_where_they_have_no_name() -> None:
    steps = page.answer(report_of(generic_db([STEP])))[1]
    assert isinstance(steps, dict)
    cells = [cell["v"] for cell in steps["rows"][0]["c"]]
    assert cells[0] == "0"
    assert cells[10].startswith("Step 0, duration: 100.00 ms\n-All others: 10.00 ms\n-Compilation: 0.00 ms")
    assert cells[11] == 100.0


def test_the_page_has_a_deviation_of_minus_nan_for_a_single_zero() -> None:
    p = properties(page.answer(report_of(generic_db([STEP])))[1])
    assert (p["device_compute_time_ms_sdv"], p["outfeed_time_ms_sdv"]) == ("0.0", "-nan")
    p = properties(page.answer(report_of(generic_db([])))[1])
    assert (p["device_compute_time_ms_sdv"], p["steptime_ms_minimum"]) == ("0.0", "0.0")


def test_the_page_has_the_steps_of_the_first_host_only_and_times_of_all() -> None:
    fast, slow = {"device_compute_32": 100}, {"device_compute_32": 100, "host_wait_input": 100}
    steps = page.answer(report_of(generic_db([[fast, slow]], hosts=("a", "b"))))[1]
    assert isinstance(steps, dict)
    assert [row["c"][11]["v"] for row in steps["rows"]] == [100.0]
    assert properties(steps)["steptime_ms_average"] == "200.0"
    assert "only 0.0%" in properties(steps)["input_conclusion"]


def test_the_page_warns_where_there_is_no_step() -> None:
    rows = page.answer(report_of(generic_db([])))[4]
    assert isinstance(rows, dict)
    assert rows["rows"][0]["c"][0]["v"] == "WARNING"
    assert rows["rows"][0]["c"][1]["v"].startswith("No step marker observed")


def test_the_page_of_tpus_names_the_core_with_the_longest_infeed() -> None:
    waiting = [{"step": 10, "fusion": 8}, {"step": 10, "fusion": 6}]
    longest, steps, *_ = page.answer(report_of(tpu_db([CORES, waiting], ids=(0, 1))))
    assert isinstance(longest, dict)
    assert [[cell["v"] for cell in row["c"]] for row in longest["rows"]] == [
        ["Step number", "0", "1"],
        ["Core name", "host0:1", "unknown"],
    ]
    assert isinstance(steps, dict)
    first, second = ([cell["v"] for cell in row["c"]] for row in steps["rows"])
    assert first[:8] == ["0", 6.0, 0.0, 0.0, 3.0, 0.5, 0.5, 0.0]
    assert first[8] == "step 0:\nTime waiting for input data = 3.000 ms, Step time = 10.000 ms"
    assert first[9:] == pytest.approx([20, 10, 30])
    assert second[11] == pytest.approx(2.2250738585072014e-308, rel=1e-9, abs=0)
    assert properties(steps)["steptime_ms_average"] == "10.00"
    assert properties(steps)["step_time_graph_column_ids"].endswith("hostTransferTimeMs,tooltip")
