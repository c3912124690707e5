"""Compiled programs as pages ask for them: lines of a text, an instruction in it, and what is around that."""

from __future__ import annotations

from functools import cache

import demo_captures
import pytest

import fastprof
from fastprof.errors import FastprofError
from fastprof.tables.table_set import TableSet
from fastprof.viewer import hlo_answers

MODULE = "jit_train_step(7311650934521873002)"
NAME = "loss_fusion.103"


@cache
def profile() -> fastprof.Profile:
    return fastprof.load(demo_captures.XLA)


def tables() -> TableSet:
    return profile().table_set


def test_programs_are_listed_with_ids_as_texts() -> None:
    (only,) = hlo_answers.list_modules(tables(), None)["modules"]
    assert (only["module"], only["program_id"], only["host"]) == (MODULE, "7311650934521873002", "worker0")
    assert hlo_answers.list_modules(tables(), "nobody") == {"modules": []}


def test_pages_of_lines_are_the_text() -> None:
    whole = profile().hlo_text(MODULE).splitlines()
    lines: list[str] = []
    while True:
        page = hlo_answers.get_module_text(tables(), None, MODULE, first=len(lines), lines=100)
        lines += page["text"]
        if len(lines) >= page["lines"]:
            break
    assert lines == whole
    assert hlo_answers.get_module_text(tables(), None, MODULE, first=10**9)["text"] == []


@pytest.mark.parametrize("form", ["short-txt", "long-txt"])
@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("name", [NAME, f"%{NAME}", "fused_computation.105", "main"])
def test_the_line_of_an_instruction_or_computation_is_found(form: str, metadata: bool, name: str) -> None:
    page = hlo_answers.get_module_text(tables(), "worker0", MODULE, form, metadata, lines=8, instruction=name)
    line = page["text"][page["at"] - page["first"]].removeprefix("ENTRY ").lstrip().removeprefix("ROOT ").lstrip("%")
    assert line.startswith(f"{name.lstrip('%')} ")


def test_what_is_around_an_instruction_is_a_graph() -> None:
    answer = hlo_answers.get_neighbourhood(tables(), None, MODULE, NAME, 1)
    relations = {node["name"]: (node["relation"], node["distance"]) for node in answer["nodes"]}
    assert relations == {
        "convolution_fusion.101": ("operand", 1),
        NAME: ("itself", 0),
        "convolution_fusion.106": ("user", 1),
    }
    names = [node["name"] for node in answer["nodes"]]
    assert [(names[one], names[other]) for one, other in answer["edges"]] == [
        ("convolution_fusion.101", NAME),
        (NAME, "convolution_fusion.106"),
    ]
    assert (answer["computation"], answer["more"]) == ("main", 0)


def test_the_nearest_are_kept_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlo_answers, "MOST_NODES", 5)
    answer = hlo_answers.get_neighbourhood(tables(), None, MODULE, NAME, 20)
    assert len(answer["nodes"]) == 5
    assert answer["more"] > 0
    assert max(node["distance"] for node in answer["nodes"]) <= 2
    assert all(0 <= end < 5 for edge in answer["edges"] for end in edge)


def test_long_lines_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlo_answers, "_MOST_LETTERS", 20)
    page = hlo_answers.get_module_text(tables(), None, MODULE, first=0, lines=1)
    assert page["text"][0].startswith("HloModule jit_train_… (")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: hlo_answers.get_module_text(tables(), None, "nothing"),
        lambda: hlo_answers.get_module_text(tables(), None, ""),
        lambda: hlo_answers.get_module_text(tables(), None, MODULE, "dot"),
        lambda: hlo_answers.get_module_text(tables(), None, MODULE, instruction="nothing"),
        lambda: hlo_answers.get_module_text(tables(), "nobody", MODULE),
        lambda: hlo_answers.get_neighbourhood(tables(), None, MODULE, "nothing", 2),
    ],
)
def test_what_is_not_there_is_reported(ask: object) -> None:
    with pytest.raises(FastprofError, match=r"\w"):
        ask()  # type: ignore[operator]


def test_texts_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hlo_answers, "_KEPT_LETTERS", 1)
    fresh = fastprof.load(demo_captures.XLA).table_set
    for form in ("short-txt", "long-txt", "short-txt"):
        assert hlo_answers.get_module_text(fresh, None, MODULE, form, lines=1)["lines"] > 600
    assert len(hlo_answers._texts[fresh.session]) == 1
