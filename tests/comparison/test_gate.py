"""The gate: conditions, exit codes, references, baselines, and the forms that pipelines read."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from paired_runs import MODEL, Op, Plan

import fastprof
from fastprof.analyses import check as gate
from fastprof.analyses.check import parse_condition
from fastprof.cli.main import main
from fastprof.errors import CaptureError, UsageError
from fastprof.profile import comparison
from fastprof.render import gate_forms

BASE = Plan(seed=1, steps=12)
SLOWER = replace(BASE, seed=2).changed("fusion.3", time_us=3200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs in ``history``; ``base``, ``slower``."""
    root = tmp_path_factory.mktemp("runs")
    for number in range(6):
        write(
            root / "history" / "plugins" / "profile" / f"2026_11_{number + 10}_10_00_00",
            replace(BASE, seed=10 + number),
        )
    write(root / "base", BASE)
    write(root / "slower", SLOWER)
    return root


def write(folder: Path, plan: Plan) -> None:
    folder.mkdir(parents=True)
    (folder / "host0.xplane.pb").write_bytes(plan.captures()[0])


def states(report: fastprof.Report) -> list[str]:
    return [row["state"] for row in report.tables["conditions"].to_pylist()]


@pytest.mark.parametrize(
    ("text", "figure", "limit", "is_change", "is_share"),
    [
        ("step_time_p50 > +5%", "steps.step_time_p50_ps", 0.05, True, True),
        ("step_time<-5%", "steps.step_time_mean_ps", -0.05, True, True),
        ("peak_memory > 14GiB", "memory_profile.peak_bytes", 14 * 2**30, False, False),
        ("peak_memory > +1GiB", "memory_profile.peak_bytes", 2**30, True, False),
        ("steps.step_time_max_ps > 20ms", "steps.step_time_max_ps", 2e10, False, False),
        ("gaps.idle_share > 20%", "gaps.idle_share", 0.2, False, False),
        ("input_share > 5 %", "input_pipeline.input_percent", 5, False, False),
        ("diagnosis.finding_count > 3", "diagnosis.finding_count", 3, False, False),
    ],
)
def test_conditions_are_read(text: str, figure: str, limit: float, is_change: bool, is_share: bool) -> None:
    condition = parse_condition(text)
    assert (condition.figure, condition.limit) == (figure, pytest.approx(limit))
    assert (condition.is_change, condition.is_share) == (is_change, is_share)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step_time", "is not a condition"),
        ("step_tim > 5ms", "no figure 'step_tim'; did you mean 'step_time'?"),
        ("steps.nothing > 5", "no figure 'steps.nothing'"),
        ("step_time > 5", "give the unit of the limit, such as 20ms"),
        ("step_time > 5 apples", "is not a time"),
        ("gaps.idle_share > 5ms", "the figure is in share, not ms"),
        ("step_time > 1.2.3ms", "is not a condition"),
        ("step_time > +1.2.3%", "is not a condition"),
        ("step_time >= 5ms", "is not a condition"),
        ("step_time > -5%", "a change that fails is > +LIMIT or < -LIMIT"),
        ("step_time > 5%", "a change has a sign: +5%"),
        ("x" * 1_000_000, "is not a condition"),
        ("diagnosis.finding_count > ..", "is not a condition"),
    ],
)
def test_other_conditions_are_refused_with_the_way_out(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_condition(text)
    assert said in str(refused.value)


def test_a_slower_run_fails_and_its_base_passes(runs: Path) -> None:
    conditions = ["step_time > +5%", "step_time_p90 > +5%", "step_time > 30ms", "gaps.compute_share < 10%"]
    assert states(fastprof.check(runs / "slower", conditions, against=runs / "base")) == [
        "failed",
        "failed",
        "passed",
        "passed",
    ]
    assert states(fastprof.check(runs / "base", conditions, against=runs / "slower")) == ["passed"] * 4
    assert states(fastprof.check(runs / "slower", ["step_time > +20%"], against=runs / "base")) == ["passed"]


def test_a_history_makes_the_interval_of_every_figure(runs: Path) -> None:
    report = fastprof.check(
        runs / "slower", ["step_time > +5%", "gaps.compute_share > +0.5%"], against=runs / "history"
    )
    first, second = report.tables["conditions"].to_pylist()
    assert first["state"] == "failed" and "prediction interval of 6 runs" in first["rule"]
    assert second["change_low_share"] is not None and second["state"] == "cannot judge"  # within the floor of 2 %


def test_what_is_unknown_cannot_be_judged(runs: Path) -> None:
    report = fastprof.check(runs / "base", ["peak_memory > 1GiB", "step_time > +5%"])
    rows = report.tables["conditions"].to_pylist()
    assert [row["state"] for row in rows] == ["cannot judge", "cannot judge"]
    assert "no events MemoryAllocation" in rows[0]["reason"] and "give --against" in rows[1]["reason"]
    assert report.scalars["verdict"].value == "cannot judge"


def test_a_baseline_replaces_its_run(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "main.baseline.json"
    fastprof.check(runs / "base", [], save_baseline=path)
    assert path.stat().st_size < 10_000
    conditions = ["step_time > +5%", "steps.step_count > +0"]
    by_file = fastprof.check(runs / "slower", conditions, against=path)
    by_run = fastprof.check(runs / "slower", conditions, against=runs / "base")
    assert by_file.tables["conditions"].equals(by_run.tables["conditions"])
    monkeypatch.setitem(gate.REDEFINED, "steps.step_time_mean_ps", gate.DEFINITIONS + 1)
    (row, _) = fastprof.check(runs / "slower", conditions, against=path).tables["conditions"].to_pylist()
    assert row["state"] == "cannot judge" and "means something else now" in row["reason"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "other"}', '{"format": "fastprof baseline", "steps": [[1]]}', "{"]
)
def test_other_files_are_no_baselines(runs: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.baseline.json"
    path.write_text(text)
    with pytest.raises(CaptureError, match="not a baseline"):
        fastprof.check(runs / "base", "step_time > +5%", against=path)


@pytest.mark.parametrize(
    ("condition", "code"),
    [("step_time > +50%", 0), ("step_time > +5%", 1), ("peak_memory > 1GiB", 7), ("steptime > 1", 2)],
)
def test_exit_codes_say_the_verdict(runs: Path, condition: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", str(runs / "slower"), "--against", str(runs / "base"), "--fail-if", condition]
    assert main(words) == code
    assert capsys.readouterr().out or code == 2


def test_conditions_may_stand_in_a_file(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(runs / "slower")]) == 2
    Path("fastprof.toml").write_text(f'[check]\nfail-if = ["step_time > +5%"]\nagainst = "{runs / "base"}"\n')
    assert main(["check", str(runs / "slower")]) == 1
    write(tmp_path / "again", replace(BASE, seed=5))
    assert main(["check", str(tmp_path / "again")]) == 0
    for wrong in ("x = " + "[" * 100_000, '[check]\nfail-if = "x"', "[check]\nfail_if = []", "[check", "check = 1"):
        Path("fastprof.toml").write_text(wrong)
        assert main(["check", str(runs / "base")]) == 2


def test_forms_for_pipelines_hold_each_condition(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for form in ("junit", "sarif", "markdown", "json"):
        words = ["--fail-if", "step_time > +5%", "--fail-if", "peak_memory > 1GiB", "--fail-if", "step_time < 1ms"]
        assert main(["check", str(runs / "slower"), "--against", str(runs / "base"), *words, "--format", form]) == 1
        texts[form] = capsys.readouterr().out
    suite = ElementTree.fromstring(texts["junit"])
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["error"], []]
    (run,) = json.loads(texts["sarif"])["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "warning"]
    assert {result["ruleId"] for result in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert texts["markdown"].count("\n| `") == 3 and "| ❌ failed: the condition holds |" in texts["markdown"]
    assert "| ✅ passed: the condition does not hold |" in texts["markdown"]
    assert json.loads(texts["json"])["scalars"]["failed_count"]["value"] == 1


def test_words_say_that_a_condition_does_not_hold(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(runs / "base"), "--fail-if", "device_idle > 90%"]) == 0
    text = capsys.readouterr().out
    assert "state: passed: the condition does not hold" in text
    assert "\nConditions that fail a run\n" in text


def test_a_comparison_is_also_markdown_and_a_page(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs / "base"), str(runs / "slower"), "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("**Mean step 10.1 % slower: 9.952 ms → 10.96 ms") and "\n| fusion.3 | 2.2" in text
    page = tmp_path / "changes.html"
    assert main(["compare", str(runs / "base"), str(runs / "slower"), "-o", str(page)]) == 0
    assert "fusion.3" in page.read_text() and page.read_text().startswith("<!doctype html>")


def test_names_are_text_in_every_form() -> None:
    name = "<script>alert(1)</script>|`x`"
    hostile = replace(BASE, ops=[*MODEL, Op(name, "jit(train)/metrics", "f32[32]", "sort", 700)])
    report = fastprof.compare(*(fastprof.load(io.BytesIO(plan.captures()[0])) for plan in (BASE, hostile))).answer
    markdown, page = gate_forms.write_changes(report), gate_forms.write_page(report)
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "<script>" not in markdown.replace("\\<", "") and "\\<script\\>alert is new" in markdown


def test_formats_and_hosts_may_differ() -> None:
    from paired_runs import TorchPlan

    torch = fastprof.load(io.BytesIO(TorchPlan(steps=6).captures()[0]))
    report = fastprof.compare(fastprof.load(io.BytesIO(BASE.captures()[0])), torch)
    rows = report.tables["changes"].to_pylist()
    assert sum(row["change_ps"] for row in rows) == report.scalars["step_change_ps"].value
    assert {"devices", "complete steps"} <= {row["what"] for row in report.tables["environment"].to_pylist()}


def test_a_history_is_the_reference_of_a_comparison(runs: Path) -> None:
    report = fastprof.compare(runs / "base", runs / "slower", against=runs / "history")
    figures = {name: figure.value for name, figure in report.scalars.items()}
    assert figures["verdict"] == "slower" and "prediction interval of 6 runs" in figures["rule"]
    assert figures["step_change_low_share"] < figures["step_change_share"] < figures["step_change_high_share"]
    assert figures["step_change_share"] == pytest.approx(0.1, abs=0.01)
    assert "% slower than in 6 earlier runs: " in figures["headline"]


def test_a_change_that_noise_may_explain_cannot_be_judged(runs: Path, tmp_path: Path) -> None:
    write(tmp_path / "noisy", replace(BASE, noise=0.5, seed=7).changed("fusion.3", time_us=3200))
    conditions = ["step_time > +1%", "step_time > +90%"]
    rows = fastprof.check(tmp_path / "noisy", conditions, against=runs / "base").tables["conditions"].to_pylist()
    assert [row["state"] for row in rows] == ["cannot judge", "passed"]
    assert "but may be noise: smallest detectable change" in rows[0]["reason"]
    assert " more than 9.952 ms" in rows[1]["reason"]


def test_step_times_of_another_batch_cannot_be_judged(runs: Path, tmp_path: Path) -> None:
    ops = [replace(op, shape=op.shape.replace("[32", "[64"), time_us=2 * op.time_us) for op in MODEL]
    write(tmp_path / "batched", replace(BASE, ops=ops))
    conditions = ["step_time > +5%", "steps.step_count < 5"]
    rows = fastprof.check(tmp_path / "batched", conditions, against=runs / "base").tables["conditions"].to_pylist()
    assert [row["state"] for row in rows] == ["cannot judge", "passed"]
    assert rows[0]["reason"].startswith("the batch differs (32 → 64)")


def test_a_baseline_knows_the_batch_and_the_devices(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "main.baseline.json"
    fastprof.check(runs / "base", [], save_baseline=path)
    ops = [replace(op, shape=op.shape.replace("[32", "[64"), time_us=2 * op.time_us) for op in MODEL]
    write(tmp_path / "batched", replace(BASE, ops=ops))
    write(tmp_path / "v4", replace(BASE, model="TPU v4"))
    conditions = ["step_time > +5%", "steps.step_count < 5"]
    rows = fastprof.check(tmp_path / "batched", conditions, against=path).tables["conditions"].to_pylist()
    assert [row["state"] for row in rows] == ["cannot judge", "passed"]
    assert rows[0]["reason"].startswith("the batch differs (32 → 64)")
    rows = fastprof.check(tmp_path / "v4", conditions, against=path).tables["conditions"].to_pylist()
    assert rows[0]["reason"] == "the devices differ (2 TPU v6 Lite → 2 TPU v4)"
    document = json.loads(path.read_text())
    del document["ops"]  # as older versions wrote it
    path.write_text(json.dumps(document))
    assert states(fastprof.check(tmp_path / "batched", conditions, against=path)) == ["failed", "passed"]


def test_only_earlier_runs_are_the_history(runs: Path) -> None:
    folder = runs / "history" / "plugins" / "profile"
    newest, oldest = folder / "2026_11_15_10_00_00", folder / "2026_11_10_10_00_00"
    (row,) = fastprof.check(newest, ["step_time > +5%"], against=runs / "history").tables["conditions"].to_pylist()
    assert "prediction interval of 5 runs" in row["rule"]
    (row,) = fastprof.check(oldest, ["step_time > +5%"], against=runs / "history").tables["conditions"].to_pylist()
    assert row["state"] == "cannot judge" and "give --against" in row["reason"]


def test_two_runs_of_a_log_directory_are_compared(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = str(runs / "history")
    named = ["--run", "2026_11_10_10_00_00", "--run", "2026_11_12_10_00_00"]
    assert main(["compare", history]) == 0
    assert main(["compare", history, *named, "--format", "json"]) == 0
    assert main(["compare", history, *named[:2]]) == 2
    assert main(["compare", history, *named[:2], *named[:2]]) == 2
    assert main(["compare", history, *named[:3], "nothing"]) == 3
    assert "no run 'nothing'" in capsys.readouterr().err


def test_a_baseline_is_not_overwritten(runs: Path, tmp_path: Path) -> None:
    words = ["check", str(runs / "base"), "--save-baseline", str(tmp_path / "main")]
    assert [main(words), main(words), main([*words, "--force"])] == [0, 3, 0]
    assert (tmp_path / "main.baseline.json").exists()


def test_a_run_is_not_its_own_reference(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="against is the checked run itself"):
        fastprof.check(runs / "base", "step_time > +5%", against=runs / "base")
    (tmp_path / "link").symlink_to(runs / "history")
    newest = tmp_path / "link" / "plugins" / "profile" / "2026_11_15_10_00_00"
    (row,) = fastprof.check(newest, ["step_time > +5%"], against=runs / "history").tables["conditions"].to_pylist()
    assert "prediction interval of 5 runs" in row["rule"]


def test_step_times_of_other_devices_cannot_be_judged(runs: Path, tmp_path: Path) -> None:
    write(tmp_path / "v4", replace(BASE, model="TPU v4"))
    (row,) = (
        fastprof.check(tmp_path / "v4", ["step_time > +5%"], against=runs / "base").tables["conditions"].to_pylist()
    )
    assert (row["state"], row["reason"]) == ("cannot judge", "the devices differ (2 TPU v6 Lite → 2 TPU v4)")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("definitions", 99), ("definitions", "1"), ("steps", [[1, 2, 3], [1, 2, 3]]), ("steps", [[1, -5]]),
        ("steps", [[1, 2.5]]), ("steps", [[1, "20"]]), ("steps", [[1, 10**30]]), ("figures", {"a": 1}),
        ("environment", []), ("ops", 5), ("ops", [[1]]), ("ops", {"a": 1}), ("format", "x" * 1_000_000),
    ],
)  # fmt: skip
def test_a_damaged_baseline_is_refused(runs: Path, tmp_path: Path, part: str, value: object) -> None:
    path = tmp_path / "main.baseline.json"
    fastprof.check(runs / "base", [], save_baseline=path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: value}))
    with pytest.raises(CaptureError, match="not a baseline") as refused:
        fastprof.check(runs / "slower", "step_time > +5%", against=path)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("figure", [[10**400, "ps"], [-5, "ps"], [9.955, "ms"], [None, "ps"], ["5", "ps"]])
def test_a_damaged_figure_of_a_baseline_cannot_be_judged(runs: Path, tmp_path: Path, figure: list[object]) -> None:
    path = tmp_path / "main.baseline.json"
    fastprof.check(runs / "base", "steps.step_time_max_ps > 1s", save_baseline=path)
    document = json.loads(path.read_text())
    document["figures"]["steps.step_time_max_ps"] = figure
    path.write_text(json.dumps(document))
    (row,) = (
        fastprof.check(runs / "slower", "steps.step_time_max_ps > +5%", against=path).tables["conditions"].to_pylist()
    )
    assert row["state"] == "cannot judge"


def test_other_uses_are_refused(runs: Path, tmp_path: Path) -> None:
    sides = [str(runs / "base"), str(runs / "slower")]
    for words in (["--format", "markdown"], ["--against", str(runs / "history")], ["--table", "ops"]):
        assert main(["compare", *sides, "--hta", "all", *words]) == 2
    with pytest.raises(UsageError, match="there are no conditions"):
        fastprof.check(runs / "base", [])
    with pytest.raises(UsageError, match="is not a condition"):
        fastprof.check(runs / "base", [3])  # type: ignore[list-item]
    log = ["trends", str(runs / "history"), "--figure", "step_time", "--publish", "-", "-o", str(tmp_path / "t.json")]
    assert main(log) == 2


def write_history(root: Path, slow: int, fast: int) -> Path:
    """A log directory whose first runs are slower by a third than the later ones."""
    for number in range(slow + fast):
        plan = replace(BASE, seed=30 + number, steps=6)
        plan = plan.changed("fusion.3", time_us=5500) if number < slow else plan
        write(root / "log" / "plugins" / "profile" / f"2026_10_{number + 10}_10_00_00", plan)
    return root / "log"


def test_only_runs_since_the_last_change_of_a_history_count(runs: Path, tmp_path: Path) -> None:
    log = write_history(tmp_path, 6, 6)
    report = fastprof.check(runs / "slower", "step_time > +5%", against=log)
    (row,) = report.tables["conditions"].to_pylist()
    assert row["state"] == "failed" and "prediction interval of 6 runs" in row["rule"]
    assert [notice.text for notice in report.notices] == [
        "Earlier runs count from 2026_10_16_10_00_00 on: there the steps.step_time_mean_ps changed (−24.9 %)."
    ]
    report = fastprof.compare(runs / "base", runs / "slower", against=log)
    assert report.scalars["verdict"].value == "slower" and "of 6 runs" in str(report.scalars["rule"].value)
    assert any("Earlier runs count from 2026_10_16_10_00_00 on" in notice.text for notice in report.notices)


def test_too_few_runs_since_a_change_cannot_judge(runs: Path, tmp_path: Path) -> None:
    log = write_history(tmp_path, 8, 3)
    (row,) = fastprof.check(runs / "slower", "step_time > +5%", against=log).tables["conditions"].to_pylist()
    assert row["state"] == "cannot judge" and row["reason"] == (
        "earlier runs changed at run 2026_10_18_10_00_00: only 3 runs since then, 5 are needed"
    )
    report = fastprof.compare(runs / "base", runs / "slower", against=log)
    assert report.scalars["verdict"].value == "slower" and "12 and 12 steps" in str(report.scalars["rule"].value)
    assert [notice.text for notice in report.notices] == [
        "The base run and the new run were judged alone: earlier runs changed at run 2026_10_18_10_00_00: only 3 runs "
        "since then, 5 are needed."
    ]
    report = fastprof.compare(runs / "base", runs / "slower", against=write_history(tmp_path / "few", 0, 2))
    assert [notice.text for notice in report.notices] == [
        "The base run and the new run were judged alone: there are 2 earlier runs, 5 are needed."
    ]


@pytest.mark.parametrize("form", ["table", "markdown", "html", "json", "brief"])
def test_a_comparison_names_both_runs(runs: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--brief"] if form == "brief" else ["--format", form]
    assert main(["compare", str(runs / "base"), str(runs / "slower"), *flags]) == 0
    text = capsys.readouterr().out
    named = {
        "table": "\n  base  base\n  new   slower\n", "markdown": "\nbase: base → new: slower\n", "html": ">slower</td>",
        "json": '"value":"slower"', "brief": '"base_run":"base","new_run":"slower"',
    }  # fmt: skip
    assert named[form].replace(" ", "") in text.replace(" ", "").replace("\xa0", "")


def test_paths_name_runs_whose_names_do_not(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    for number, capture in enumerate(replace(BASE, hosts=2).captures()):
        (tmp_path / "base" / f"host{number}.xplane.pb").write_bytes(capture)
    scalars = fastprof.compare(runs / "base", tmp_path / "base").scalars
    assert scalars["base_run"].value == str(runs / "base" / "host0.xplane.pb")
    assert scalars["new_run"].value == f"{tmp_path / 'base'} (2 hosts)"
    scalars = fastprof.compare(io.BytesIO(BASE.captures()[0]), runs / "base").scalars
    assert scalars["base_run"].value == "<stream>"


def test_the_choice_of_the_newest_run_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = fastprof.compare(runs / "base", runs / "history")
    chosen = (
        "New run: read the run 2026_11_15_10_00_00, the newest of 6; left out 5 other runs; give the path of a run to "
        "choose another."
    )
    assert chosen in [notice.text for notice in report.notices]
    report = fastprof.check(runs / "history", "step_time > 1s")
    assert [notice.text for notice in report.notices] == [chosen]
    assert main(["compare", str(runs / "history")]) == 0
    assert "comparing 2026_11_15_10_00_00, the newest of 6 runs, with the one before" in capsys.readouterr().err


def test_a_check_names_its_runs(runs: Path, tmp_path: Path) -> None:
    conditions = ["step_time > 1s"]
    path = tmp_path / "main.baseline.json"
    names = []
    alone = fastprof.check(runs / "slower", conditions, save_baseline=path).scalars
    assert alone["base_run"].reason == "no run to compare with: give against"
    for against in (runs / "base", path, runs / "history"):
        scalars = fastprof.check(runs / "slower", conditions, against=against).scalars
        assert scalars["new_run"].value == "slower" or against == path
        names.append(scalars["base_run"].value)
    assert names == ["base", str(path), "6 earlier runs, 2026_11_10_10_00_00 to 2026_11_15_10_00_00"]


@pytest.mark.parametrize(
    ("judged", "earlier"),
    [
        ("2026_11_14_10_00_00", ["2026_11_12_10_00_00_without_python", "2026_11_11_10_00_00"]),
        ("2026_11_12_10_00_00_without_python", ["2026_11_11_10_00_00"]),
        ("2026_11_12_10_00_00", ["2026_11_11_10_00_00"]),
        ("2026_11_15_10_00_00", ["2026_11_14_10_00_00", "2026_11_12_10_00_00", "2026_11_11_10_00_00"]),
    ],
)
def test_a_run_is_judged_by_runs_that_python_functions_slow_as_much(
    tmp_path: Path, judged: str, earlier: list[str]
) -> None:
    folder = tmp_path / "plugins" / "profile"
    names = [f"2026_11_{day}_10_00_00" for day in (11, 12, 14)]
    slowed = names[1:2] + (["2026_11_15_10_00_00"] if judged.startswith("2026_11_15") else [])
    for name in (*names, *slowed[1:], *(f"{name}_without_python" for name in slowed)):
        write(folder / name, BASE)
    (capture,) = fastprof.load(folder / judged).sources
    found = comparison.open_earlier_runs(tmp_path, {capture}, {})
    assert [profile.run for profile in found] == earlier


def test_the_newest_two_runs_are_compared_by_the_windows_without_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = "2026_11_11_10_00_00", "2026_11_12_10_00_00"
    for name in (old, new, f"{new}_without_python"):
        write(tmp_path / "plugins" / "profile" / name, BASE)
    assert main(["compare", str(tmp_path)]) == 0
    assert f"comparing {new}_without_python, the newest of 3 runs, with" in capsys.readouterr().err
    assert main(["trends", str(tmp_path), "--format", "csv"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [row["run"] for row in rows] == [f"{new}_without_python", old]
    assert fastprof.trends(tmp_path)["run"].to_pylist() == [f"{new}_without_python", old]
