"""What holds of every analysis of the registry, whatever it answers."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import pickle
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import rounds, typical_captures
from random_spaces import random_space
from trace_builder import aggregated, event, line, plane, task_environment, u64, xspace

import fastprof
from fastprof.analyses import ANALYSES, contract, runner
from fastprof.cli import main as command
from fastprof.cli.analysis import get_flag
from fastprof.render import report_json, report_text
from fastprof.render.table_forms import Look
from fastprof.schema import tables as schema
from fastprof.wording import quantities
from fastprof.wording.screen import measure_width
from fastprof.xprof import report_xprof

ROOT = Path(__file__).resolve().parents[2]
NAMES = tuple(ANALYSES)
UNITS = {"ps": "_ps", "ns": "_ns", "bytes": "_bytes", **{unit: m.ending for unit, m in quantities.MEASURES.items()}}
HOSTILE = "\x1b[2J\r\nevil\u202e" + "x" * 300

# ---- captures

STEP = {"_r": 1, "step_num": 1}


def gpu() -> bytes:
    """Two training steps of a host with a GPU; names that no terminal must see."""
    launches = [event("cuLaunchKernel", t, 2_000, {"correlation_id": c}) for t, c in ((1_000, 1), (21_000, 2))]
    steps = [event("train", 0, 15_000, STEP), event("train", 20_000, 15_000, {**STEP, "step_num": 2})]
    stats: dict[str | int, Any] = {"kernel_details": "regs:32", "tf_op": f"a{HOSTILE}:Dot"}
    kernels = [
        event(f"kernel{HOSTILE}", t, 5_000, {**stats, "correlation_id": c}) for t, c in ((4_000, 1), (24_000, 2))
    ]
    host = plane("/host:CPU", [line("main", sorted([*steps, *launches], key=lambda e: e.offset_ps or 0), id=7)])
    return xspace(host, plane("/device:GPU:0", [line("Stream #1", kernels, id=1)]), task_environment(1, 2))


def odd() -> bytes:
    """Planes of every kind with next to nothing on them, aggregated events, stats of unexpected kinds, far times."""
    stats = {"correlation_id": "seven", "group_id": 2.5, "step_num": u64(2**64 - 1), "_r": "yes", "kernel_details": 7}
    events = [event("", -(2**40), -5, stats), event(HOSTILE, 2**62, 2**61, stats), aggregated("sum", 3, 9, stats)]
    names = ("/host:CPU", "/device:GPU:0", "/device:TPU:0", "/device:TPU:0 SparseCore 0", "/host:metadata", "", "é")
    lines = [line("XLA Ops", events, id=1), line("Steps", events[:1], id=2), line(HOSTILE, events, id=3)]
    return xspace(*(plane(name, lines, id=number) for number, name in enumerate(names)), hostnames=[HOSTILE])


def recorded() -> bytes:
    """Groups as the profiler has numbered them, one far from the other."""
    steps = [event("train", 10_000 * n, 9_000, {"group_id": g, "step_name": f"train {n}"}) for n, g in enumerate(FAR)]
    kernels = [event("k", 10_000 * n, 5_000, {"group_id": g, "correlation_id": n}) for n, g in enumerate(FAR)]
    gpu = plane("/device:GPU:0", [line("Stream #1", kernels, id=1), line("Steps", steps, id=0xDEADBEEF)])
    return xspace(plane("/host:CPU", [line("main", steps)]), gpu)


FAR = (0, 2**31 - 1, 2**62, -5)

CAPTURES: dict[str, bytes] = {
    "no planes": xspace(hostnames=["h"]),
    "a host plane without lines": xspace(plane("/host:CPU")),
    "no host plane": xspace(plane("/device:GPU:0", [line("Stream #1", [event("k", 0, 5, {"correlation_id": 1})])])),
    "no device": xspace(plane("/host:CPU", [line("main", [event("train", 0, 9_000, STEP)])])),
    "a TPU without host": xspace(plane("/device:TPU:0", [line("XLA Ops", [event("fusion.1", 0, 5_000)])])),
    "GPU steps": gpu(),
    "odd": odd(),
    "far group ids": recorded(),
}


@pytest.fixture(scope="module", params=CAPTURES)
def profile(request: pytest.FixtureRequest) -> fastprof.Profile:
    return fastprof.load(CAPTURES[request.param])


@pytest.fixture(scope="module", params=NAMES)
def analysis(request: pytest.FixtureRequest) -> contract.Analysis:
    return runner.get_analysis(request.param)


def test_there_are_analyses() -> None:
    assert len(NAMES) >= 7


# ---- shape of a module


def test_a_module_is_as_the_contract_says(analysis: contract.Analysis) -> None:
    assert ANALYSES[analysis.NAME] == (analysis.__doc__ or "").partition("\n")[0]
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", analysis.NAME)
    assert isinstance(analysis.READS, contract.Needs)
    assert set(analysis.AFTER) <= set(ANALYSES)
    assert dataclasses.is_dataclass(analysis.Params) and analysis.Params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert [name for name in NAMES if name in runner.add_prerequisites([analysis.NAME])]
    for pattern in analysis.READS.planes:
        re.compile(pattern)


def test_the_opening_names_figures(analysis: contract.Analysis) -> None:
    given = getattr(analysis, "OPENING", contract.Opening((), ()))
    named = re.findall(r"\{(\w+)\}", " ".join(given.headlines))
    assert set(given.figures) | set(named) <= set(analysis.SCALARS)
    assert all((one.endswith(".") and "{" in one) or one == "{headline}" for one in given.headlines)


def test_cards_of_shares_say_of_what(analysis: contract.Analysis) -> None:
    given = getattr(analysis, "OPENING", contract.Opening((), ()))
    shares = [analysis.SCALARS[name] for name in given.figures if analysis.SCALARS[name].unit == "share"]
    assert all(" of " in one.label for one in shares), shares


def test_every_column_is_documented_with_its_unit_in_its_name(analysis: contract.Analysis) -> None:
    assert analysis.TABLES
    for name, table in analysis.TABLES.items():
        assert table.name == name
        assert table.row and table.columns and table.derived
        assert len(set(table.names())) == len(table.columns)
        for column in table.columns:
            check_named(f"{name}.{column.name}", column.name, column.unit, column.description)
            assert not pa.types.is_unsigned_integer(column.type), f"{name}.{column.name}: integers are signed"
            if column.nullable:
                assert "null" in column.description, f"{name}.{column.name}: null is not explained"


def test_every_figure_is_documented_with_its_unit_in_its_name(analysis: contract.Analysis) -> None:
    for name, spec in analysis.SCALARS.items():
        check_named(name, name, spec.unit, spec.definition)


def check_named(where: str, name: str, unit: str | None, prose: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name), where
    assert len(prose) > 3, f"{where}: no definition"
    assert unit is None or unit in UNITS, f"{where}: no form of text knows the unit {unit}"
    if unit is not None:
        alone = UNITS[unit].lstrip("_")
        assert name.endswith(UNITS[unit]) or name == alone, f"{where} is in {unit} and does not end in {UNITS[unit]}"
    else:
        ends = [ending for ending in UNITS.values() if name.endswith(ending)]
        assert not ends, f"{where} ends in {ends[0]} and has no unit"


def test_sections_show_what_there_is(analysis: contract.Analysis) -> None:
    for section in analysis.SECTIONS:
        assert section.title and set(section.scalars) <= set(analysis.SCALARS)
        assert section.scalars or section.table
        if section.table is not None:
            columns = analysis.TABLES[section.table].names()
            assert set(section.columns) <= set(columns)
            assert section.bar is None or analysis.TABLES[section.table][section.bar].unit == "share"
            assert section.bar is None or section.bar in (section.columns or columns)
            assert section.rows > 0


# ---- what follows from the registry


def flags_of(verb: str) -> dict[str, Any]:
    return {option: action for action in command.make_parser(verb)._actions for option in action.option_strings}


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_a_flag_with_help_and_a_keyword_of_the_method(name: str) -> None:
    import inspect

    flags = flags_of(name.replace("_", "-"))
    fields = runner.list_fields([name])
    for field in fields:
        assert flags[get_flag(field.name)].help.startswith(field.metadata["help"].replace("%", "%%"))
    signature = inspect.signature(getattr(fastprof.Profile, name))
    expected = {field.name: field.default for field in fields}
    assert {p.name: p.default for p in signature.parameters.values() if p.name != "self"} == expected
    assert (getattr(fastprof.Profile, name).__doc__ or "").startswith(ANALYSES[name])


def test_parameters_of_one_name_mean_one_thing() -> None:
    seen: dict[str, Any] = {}
    for name in NAMES:
        for field in runner.list_fields([name]):
            meaning = (field.type, field.default, field.metadata["help"])
            assert seen.setdefault(field.name, meaning) == meaning


@pytest.mark.parametrize("name", NAMES)
def test_every_analysis_has_its_page(name: str) -> None:
    page = (ROOT / "docs" / "analyses" / f"{name.replace('_', '-')}.md").read_text()
    assert page.startswith("# ")
    assert len(page.partition("## Reference")[0].split()) > 60, "the page says nothing beyond its reference"


@pytest.mark.parametrize("name", NAMES)
def test_every_analysis_has_a_page_of_xprof_or_says_why_not(name: str) -> None:
    found = importlib.util.find_spec(f"fastprof.xprof.pages.{name}")
    assert (found is None) == (name in report_xprof.NO_PAGE)
    assert len(report_xprof.NO_PAGE.get(name, "because of this")) > 10


# ---- reports


def test_a_report_keeps_the_contract(profile: fastprof.Profile, analysis: contract.Analysis) -> None:
    """One report of each analysis and capture, with all that holds of every report."""
    report = profile.report(analysis.NAME)
    json_text, shown = report.to_json(), repr(report)
    check_declared(report, analysis)
    check_repeatable(profile, analysis.NAME, (json_text, shown))
    check_text(report)
    check_recommendations_come_first(report, shown)
    check_json(report, json_text)
    check_form_of_xprof(report)
    check_pickled(report, json_text)


def check_declared(report: fastprof.Report, analysis: contract.Analysis) -> None:
    assert report.analysis == analysis.NAME
    assert list(report.tables) == list(analysis.TABLES)
    for name, table in report.tables.items():
        check_table(table, analysis.TABLES[name])
    assert list(report.scalars) == list(analysis.SCALARS)
    for name, spec in analysis.SCALARS.items():
        scalar = report.scalars[name]
        assert (scalar.name, scalar.unit, scalar.definition) == (name, spec.unit, spec.definition)
        assert type(scalar.value) in (int, float, str, bool, type(None)), f"{name} is a {type(scalar.value)}"
        assert not isinstance(scalar.value, float) or math.isfinite(scalar.value), f"{name} is {scalar.value}"
        assert (scalar.value is None) == (scalar.reason is not None), f"{name}: {scalar.value}, {scalar.reason}"
    for notice in report.notices:
        assert notice.severity in contract.SEVERITIES
        assert notice.text.strip()


def check_table(table: pa.Table, declared: schema.TableSchema) -> None:
    assert table.column_names == declared.names()
    for field, column in zip(table.schema, declared.columns, strict=True):
        narrowed = pa.types.is_dictionary(field.type) and pa.types.is_dictionary(column.type)
        found, expected = (field.type.value_type, column.type.value_type) if narrowed else (field.type, column.type)
        where = f"{declared.name}.{column.name}"
        assert found == expected, where
        assert field.nullable == column.nullable, where
        metadata = dict(field.metadata)
        reason = metadata.pop(schema.REASON, b"")
        assert metadata == column.field().metadata, where
        assert not reason or (column.nullable and table[column.name].null_count), where
        assert column.nullable or not table[column.name].null_count, f"{where} has nulls"
        if pa.types.is_floating(field.type):
            assert all(value is None or math.isfinite(value) for value in table[column.name].to_pylist()), where
        if column.unit == "share":
            assert all(value is None or -1e-9 <= value <= 1 + 1e-9 for value in table[column.name].to_pylist()), where


def check_repeatable(profile: fastprof.Profile, name: str, texts: tuple[str, str]) -> None:
    """It is the same asked again, and asked with all others of a capture that one thread read."""
    again, together = profile.select().report(name), asked_together(profile._source)
    assert tuple(together) == NAMES
    assert (again.to_json(), repr(again)) == texts == together[name]


@cache
def asked_together(capture: bytes) -> dict[str, tuple[str, str]]:
    """Return each report as JSON and as text."""
    reports = fastprof.load(capture, threads=1).reports()
    return {name: (report.to_json(), repr(report)) for name, report in reports.items()}


def test_nothing_given_changes(profile: fastprof.Profile) -> None:
    before, text = profile.report("steps"), profile.report("steps").to_json()
    events = fastprof.load(profile._source).events
    for name in NAMES:
        params = runner.get_analysis(name).Params()
        runner.run(profile.table_set, [name])
        assert params == runner.get_analysis(name).Params(), name
        assert profile.events.equals(events), name
    assert before.to_json() == text


def check_text(report: fastprof.Report) -> None:
    for look in (Look(), Look(encoding="ascii")):
        lines = list(report_text.lines(report.answer, look, report_text.ALL))
        text = "\n".join(lines)
        assert lines[0] == runner.get_title(runner.get_analysis(report.analysis))
        assert [shown for shown in lines if measure_width(shown) > 100] == []
        assert text.replace("\n", "").isprintable()
        assert look.unicode or text.isascii() or report.notices
    assert re.search(r"^  (showing 0 of .*|none)$", report.to_text(limit=0, verbose=True), re.MULTILINE) or not any(
        report.tables[section.table].num_rows
        for section in runner.get_analysis(report.analysis).SECTIONS
        if section.table is not None and (section.shown is None or section.shown(report.answer))
    )


def check_recommendations_come_first(report: fastprof.Report, shown: str) -> None:
    texts = [notice.text for notice in report.notices if notice.severity == "recommendation"]
    if texts:
        assert shown.split("\n")[2] in ("Recommendation", "Recommendations")
    else:
        assert "Recommendation" not in shown


def check_json(report: fastprof.Report, text: str) -> None:
    document = json.loads(text, parse_constant=refuse)
    assert set(document) == {"analysis", "fastprof_version", "schema_version", "scalars", "notices", "tables"}
    assert document["fastprof_version"] == fastprof.__version__
    keys = ("value", "unit", "definition", "reason")
    scalars = {name: {key: getattr(scalar, key) for key in keys} for name, scalar in report.answer.scalars.items()}
    assert document["scalars"] == scalars
    assert [(n["severity"], n["text"]) for n in document["notices"]] == [
        (n.severity, n.text) for n in report.answer.notices
    ]
    for name, table in report.tables.items():
        assert document["tables"][name]["rows"] == table.to_pylist()
        columns = [(column["name"], column["unit"]) for column in document["tables"][name]["columns"]]
        declared = runner.get_analysis(report.analysis).TABLES[name].columns
        assert columns == [(column.name, column.unit) for column in declared]
    assert b"".join(report_json.chunks(report.answer, 0)).count(b'"rows": []') == len(report.tables)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def check_form_of_xprof(report: fastprof.Report) -> None:
    if report.analysis in report_xprof.NO_PAGE:
        with pytest.raises(fastprof.UsageError, match="no form xprof"):
            report.to_xprof()
        return
    text = report.to_xprof()
    document = json.loads(text, parse_constant=refuse)
    assert text == json.dumps(document, sort_keys=True)


def check_pickled(report: fastprof.Report, text: str) -> None:
    again = pickle.loads(pickle.dumps(report))
    assert again.to_json() == text
    if report.analysis not in report_xprof.NO_PAGE:
        assert again.to_xprof() == report.to_xprof()


# ---- captures of all kinds


def check_forms(profile: fastprof.Profile) -> dict[str, fastprof.Report]:
    """The reports, with what XProf's pages need, so that no host is read a second time for each."""
    reports = {name: fastprof.Report(answer) for name, answer in profile.answers(NAMES, {}, "xprof").items()}
    assert tuple(reports) == NAMES
    for report in reports.values():
        text = report.to_text(limit="all")
        assert [shown for shown in text.split("\n") if measure_width(shown) > 100] == []
        json.loads(report.to_json(), parse_constant=refuse)
        if report.analysis not in report_xprof.NO_PAGE:
            json.loads(report.to_xprof(), parse_constant=refuse)
    return reports


@typical_captures
def test_real_captures_give_reports_in_every_form(capture: Path) -> None:
    for name, report in check_forms(fastprof.load(capture)).items():
        check_declared(report, runner.get_analysis(name))


def test_random_captures_give_reports_in_every_form() -> None:
    for seed in range(rounds(25, 8)):
        check_forms(fastprof.load(random_space(seed, well_written=True)))


# ---- sessions


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    for host in ("alpha", "beta", "gamma"):
        (tmp_path / f"{host}.xplane.pb").write_bytes(CAPTURES["GPU steps"])
    return tmp_path


def test_hosts_are_chosen_and_a_host_that_is_not_there_is_an_error(pod: Path) -> None:
    p = fastprof.load(pod)
    p.reports()
    alone, chosen = fastprof.load(pod / "beta.xplane.pb").reports(), p.select(hosts="beta").reports()
    for name in NAMES:
        assert chosen[name].to_json() == alone[name].to_json(), name
        with pytest.raises(fastprof.NotFoundError):
            p.select(hosts="delta").report(name)


def test_a_broken_host_is_an_error_or_is_left_out(pod: Path) -> None:
    whole = CAPTURES["GPU steps"]
    (pod / "gamma.xplane.pb").write_bytes(whole[: len(whole) // 2])
    for name in NAMES:
        with pytest.raises(fastprof.CaptureError, match="gamma"):
            fastprof.load(pod).report(name)
    every = fastprof.load(pod, on_error="skip").reports()
    (pod / "gamma.xplane.pb").unlink()
    remark = "gamma.xplane.pb cannot be read and is left out: table import_log."
    for name, others in fastprof.load(pod).reports().items():
        found = every[name].to_json()
        assert json.loads(found)["notices"].pop(0)["text"] == remark, name
        assert _without_notices(found) == _without_notices(others.to_json()), name
        assert every[name].notices[1:] == others.notices, name


def _without_notices(report: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(report).items() if name != "notices"}


def cuts() -> Iterator[bytes]:
    whole = CAPTURES["odd"]
    yield from (whole[:size] for size in range(1, len(whole), max(1, len(whole) // rounds(25, 10))))
    yield whole


@pytest.mark.parametrize("on_error", ["raise", "salvage"])
def test_damaged_captures_give_reports_or_errors_of_ours(on_error: str) -> None:
    outcomes = {outcome(capture, on_error) for capture in cuts()}
    assert outcomes <= {"reports", "CaptureError"}
    assert "reports" in outcomes


def outcome(capture: bytes, on_error: str) -> str:
    try:
        fastprof.load(capture, on_error=on_error).reports()
    except fastprof.FastprofError as error:
        return type(error).__name__
    return "reports"


def test_a_file_of_no_bytes_is_not_a_capture() -> None:
    with pytest.raises(fastprof.CaptureError, match="empty"):
        fastprof.load(b"").reports()


def test_unknown_names_and_parameters_are_usage_errors() -> None:
    p = fastprof.load(CAPTURES["GPU steps"])
    with pytest.raises(fastprof.UsageError, match=r"no analysis 'overvieuw'; there are: overview, "):
        p.report("overvieuw")
    with pytest.raises(fastprof.UsageError, match="no parameter 'tip'"):
        p.report("overview", tip=3)
