"""Forms of the gate that pipelines read: SARIF by the structure that its standard demands, JUnit by another reader."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import junitparser
import pytest
from paired_runs import MODEL, Op, Plan

import fastprof
from fastprof.render import gate_forms

TEXT = {"type": str, "required": True}
SARIF: dict[str, Any] = {
    "type": dict,
    "fields": {
        "$schema": {"type": str, "pattern": r"https://.*sarif.*2\.1\.0.*\.json"},
        "version": {"type": str, "required": True, "values": ("2.1.0",)},
        "runs": {"type": list, "required": True, "least": 1, "items": {"type": dict, "fields": {
            "tool": {"type": dict, "required": True, "fields": {
                "driver": {"type": dict, "required": True, "fields": {
                    "name": TEXT, "version": {"type": str}, "rules": {"type": list, "distinct": True, "items": {
                        "type": dict, "fields": {
                            "id": TEXT, "shortDescription": {"type": dict, "fields": {"text": TEXT}},
                        },
                    }},
                }},
            }},
            "results": {"type": list, "items": {"type": dict, "fields": {
                "ruleId": {"type": str}, "level": {"type": str, "values": ("none", "note", "warning", "error")},
                "message": {"type": dict, "required": True, "fields": {"text": TEXT}},
                "locations": {"type": list, "least": 1, "items": {"type": dict, "fields": {
                    "physicalLocation": {"type": dict, "required": True, "fields": {
                        "artifactLocation": {"type": dict, "required": True, "fields": {
                            "uri": {"type": str, "required": True, "pattern": r"[A-Za-z0-9._~:/%<>-]+\Z"},
                        }},
                        "region": {"type": dict, "fields": {"startLine": {"type": int, "values": (1,)}}},
                    }},
                }}},
            }}},
        }}},
    },
}  # fmt: skip
"""The part of the schema of SARIF 2.1.0 that a log of the gate uses; other properties are errors, as there."""


def complain(value: Any, schema: dict[str, Any], where: str = "log") -> list[str]:
    """What of a value is against the schema."""
    if not isinstance(value, schema["type"]):
        return [f"{where} is not a {schema['type'].__name__}"]
    wrong = []
    if value not in schema.get("values", (value,)) or not re.match(schema.get("pattern", ""), str(value)):
        wrong.append(f"{where} is {value!r}")
    if isinstance(value, list):
        wrong += [text for at, item in enumerate(value) for text in complain(item, schema["items"], f"{where}[{at}]")]
        if len(value) < schema.get("least", 0) or (schema.get("distinct") and any(value.count(x) > 1 for x in value)):
            wrong.append(f"{where} has {len(value)} items, or equal ones")
    if isinstance(value, dict):
        fields = schema["fields"]
        wrong += [f"{where}.{name} is unknown" for name in value.keys() - fields.keys()]
        wrong += [f"{where}.{name} is missing" for name in fields if fields[name].get("required") and name not in value]
        wrong += [
            text
            for name in value.keys() & fields.keys()
            for text in complain(value[name], fields[name], f"{where}.{name}")
        ]
    return wrong


CONDITIONS = ["step_time > +5%", "step_time_p50 > +5%", "peak_memory > 1GiB", "step_time < 1ms", "step_time > 1ms"]


@pytest.fixture(scope="module")
def report() -> Any:
    base = Plan(seed=1, steps=12)
    slower = replace(base, seed=2, ops=[*MODEL, Op("<a&b>\x1b\"'", "jit(train)/x", "f32[32]", "sort", 1_500)])
    profiles = [fastprof.load(io.BytesIO(plan.captures()[0])) for plan in (base, slower)]
    from fastprof.analyses.check import Reference, check_run, parse_condition
    from fastprof.profile.comparison import make_run_facts

    facts = [make_run_facts(each, each.reports_together("steps", "memory_profile")) for each in profiles]
    return check_run(facts[1], Reference([facts[0]]), map(parse_condition, CONDITIONS))


def test_sarif_has_the_structure_of_its_standard(report: Any) -> None:
    log = json.loads(gate_forms.write_sarif(report))
    assert complain(log, SARIF) == []
    (run,) = log["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning", "error"]
    assert {result["ruleId"] for result in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_results_of_sarif_are_at_the_capture(report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def locate(path: str) -> str:
        moved = replace(report, detail=replace(report.detail, sources=[path]))
        (run,) = json.loads(gate_forms.write_sarif(moved))["runs"]
        (uri,) = {
            place["physicalLocation"]["artifactLocation"]["uri"]
            for result in run["results"]
            for place in result["locations"]
        }
        return str(uri)

    assert locate("a run/größe#1.xplane.pb") == "a%20run/gr%C3%B6%C3%9Fe%231.xplane.pb"
    assert locate(str(tmp_path / "x" / "host0.xplane.pb")) == "x/host0.xplane.pb"
    assert locate("/else where/host0.xplane.pb") == "file:///else%20where/host0.xplane.pb"
    assert locate("gs://bucket/a b.pb") == "gs://bucket/a%20b.pb"


def test_the_structure_is_checked() -> None:
    wrong = ["log.runs has 0 items, or equal ones", "log.version is '2.0'", "log.x is unknown"]
    assert sorted(complain({"version": "2.0", "runs": [], "x": 1}, SARIF)) == wrong


def test_junit_is_read_by_another_reader(report: Any) -> None:
    (suite,) = junitparser.JUnitXml.fromstring(gate_forms.write_junit(report).encode())
    assert (suite.tests, suite.failures, suite.errors) == (5, 3, 1)
    states = [[type(one).__name__ for one in case.result] for case in suite]
    assert states == [["Failure"], ["Failure"], ["Error"], [], ["Failure"]]
    assert [case.name for case in suite] == CONDITIONS
    messages = [one.message for case in suite for one in case.result]
    assert "more than" in messages[0] and "the run has no value" in messages[2]
