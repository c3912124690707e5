"""What holds of the reports of several runs, whatever they answer: documented columns, units, reasons of nulls."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from paired_runs import Plan, TorchPlan
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import OF_RUNS, contract, runner
from fastprof.render import report_json
from fastprof.wording import quantities

DEMO = Path(__file__).resolve().parents[2] / "demo"
UNITS = {"ps": "_ps", "ns": "_ns", "bytes": "_bytes", **{unit: m.ending for unit, m in quantities.MEASURES.items()}}
TPU, TORCH = Plan(seed=1, steps=6), TorchPlan(steps=6)


def load(run: Plan | TorchPlan | Path | bytes) -> fastprof.Profile:
    if isinstance(run, Path):
        return fastprof.load(run)
    return fastprof.load(io.BytesIO(run if isinstance(run, bytes) else run.captures()[0]))


REPORTS = {
    "equal": lambda: fastprof.compare(load(TPU), load(TPU)),
    "slower": lambda: fastprof.compare(load(TPU), load(TPU.changed("fusion.3", time_us=3000))),
    "other formats": lambda: fastprof.compare(load(TPU), load(TORCH)),
    "programs": lambda: fastprof.compare(load(DEMO / "xla"), load(DEMO / "xla")),
    "pipelines": lambda: fastprof.compare(load(DEMO / "tf-data"), load(DEMO / "memory")),
    "no steps": lambda: fastprof.compare(load(traced(30)), load(TPU)),
    "one step": lambda: fastprof.compare(load(replace(TPU, steps=1)), load(TPU)),
    "passed": lambda: fastprof.check(load(TPU), ["step_time > 1s", "gaps.idle_share > 99%"]),
    "unknown": lambda: fastprof.check(load(TORCH), ["step_time > +5%", "peak_memory > 1GiB"]),
}


@pytest.fixture(scope="module", params=REPORTS)
def report(request: pytest.FixtureRequest) -> contract.AnalysisReport:
    return REPORTS[request.param]().answer


@pytest.mark.parametrize("name", OF_RUNS)
def test_columns_and_figures_are_documented_with_their_units(name: str) -> None:
    analysis = runner.get_analysis(name)
    named = [
        (f"{table}.{column.name}", column.name, column.unit, column.description)
        for table, schema in analysis.TABLES.items()
        for column in schema.columns
    ]
    named += [(name, name, spec.unit, spec.definition) for name, spec in analysis.SCALARS.items()]
    for where, own, unit, prose in named:
        assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", own) and len(prose) > 3, where
        assert unit is None or own.endswith(UNITS[unit]) or own == UNITS[unit].lstrip("_"), f"{where} is in {unit}"
    for table, schema in analysis.TABLES.items():
        assert schema.name == table and schema.row and schema.derived
        assert len(set(schema.names())) == len(schema.columns)
    shown = [section.table for section in analysis.SECTIONS if section.table]
    assert set(shown) <= set(analysis.TABLES)
    assert all(set(section.scalars) <= set(analysis.SCALARS) for section in analysis.SECTIONS)


def test_a_report_has_the_declared_tables_and_figures(report: contract.AnalysisReport) -> None:
    analysis = runner.get_analysis(report.analysis)
    assert set(report.tables) == set(analysis.TABLES) and list(report.scalars) == list(analysis.SCALARS)
    for name, table in report.tables.items():
        assert table.schema.equals(analysis.TABLES[name].arrow(), check_metadata=True), name
        for column in analysis.TABLES[name].columns:
            nulls = table[column.name].null_count
            assert not nulls or "null" in column.description, f"{name}.{column.name}: null is not explained"


def test_every_null_figure_has_a_reason(report: contract.AnalysisReport) -> None:
    for name, figure in report.scalars.items():
        assert (figure.value is None) == (figure.reason is not None), name
        assert figure.reason is None or not figure.reason.endswith("."), name


def test_a_report_is_finite_json_and_the_same_again(report: contract.AnalysisReport) -> None:
    text = b"".join(report_json.chunks(report))
    document = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert document["scalars"].keys() == report.scalars.keys()
    for table in report.tables.values():
        for column in table.columns:
            if pa.types.is_floating(column.type):
                assert all(value is None or abs(value) < 1e300 for value in column.to_pylist())


def traced(time_us: int) -> bytes:
    """A trace of a device without steps: two kernels, and the op that launches them."""
    launch = [event("aten::mm", 0, 5_000, {"External id": 1}), event("cuLaunchKernel", 10, 500, {"correlation_id": 1})]
    kernels = [event("sgemm", 10_000, time_us * 1_000_000, {"correlation_id": 1}), event("relu", 10**11, 10**7)]
    return xspace(
        plane("/host:CPU", [line("main", launch)]), plane("/device:GPU:0", [line("Stream #1", kernels, id=1)])
    )


def test_runs_without_steps_are_compared_as_a_whole() -> None:
    report = fastprof.compare(load(traced(30)), load(traced(45))).answer
    figures = {name: figure.value for name, figure in report.scalars.items()}
    rows = report.tables["changes"].to_pylist()
    assert figures["verdict"] == "not_comparable" and figures["step_change_ps"] is None
    assert (figures["base_run_ps"], figures["new_run_ps"]) == (40_000_000, 55_000_000)
    assert sum(row["change_ps"] for row in rows) == figures["run_change_ps"] == 15_000_000
    assert (rows[0]["name"], rows[0]["change_ps"], rows[-1]["change_ps"]) == ("sgemm", 15_000_000, 0)
    assert str(figures["headline"]).endswith("Device busy time of all that was recorded: 40.00 µs → 55.00 µs.")
    assert any("one measurement of each says nothing about noise" in notice.text for notice in report.notices)


def test_a_run_without_steps_is_compared_with_one_that_has_them() -> None:
    report = fastprof.compare(load(traced(30)), load(TORCH)).answer
    change = report.scalars["run_change_ps"].value
    assert sum(row["change_ps"] for row in report.tables["changes"].to_pylist()) == change != 0
    assert report.scalars["step_change_ps"].reason and report.scalars["verdict"].value == "not_comparable"


def test_ops_of_equal_runs_are_unchanged() -> None:
    assert {*REPORTS["equal"]().tables["ops"]["status"].to_pylist()} == {"unchanged"}
    slower = REPORTS["slower"]().tables["ops"]
    status = dict(zip(slower["name"].to_pylist(), slower["status"].to_pylist(), strict=True))
    assert status.pop("fusion.3") == "changed in time" and "unchanged" in status.values()
