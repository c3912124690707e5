"""Answers of the reference through the command line, byte for byte: files, standard output, standard error, and what
tfprof returns."""

from __future__ import annotations

import pytest
from gate import few
from goldens import CALLS, GOLDENS, PROFILES, differences, list_answers

VIEWS = {"scope": 41, "graph": 32, "op": 40, "code": 41, "advise": 6}
"""How many answers there are of each view. The reference crashes with the code view at depth 0, so that has none."""
pytestmark = [pytest.mark.captures, pytest.mark.skipif(not GOLDENS.is_dir(), reason="the answers are absent")]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("profile", PROFILES)
def test_answers_of_profiles_are_those_of_tfprof(profile: str, view: str) -> None:
    some = [path for of, path in list_answers(profile) if of == view]
    assert len(some) == VIEWS[view]
    as_json = few(some, 3)
    compared = sorted({*few(some, 18), *as_json})
    made = {path.name: differences(profile, view, path, as_json=path in as_json) for path in compared}
    assert {name: parts for name, parts in made.items() if parts} == {}


@pytest.mark.parametrize("call", CALLS)
def test_answers_to_one_call_are_those_of_tfprof(call: str) -> None:
    some = list_answers(call)
    assert len(some) == 5
    made = {path.name: differences(call, view, path) for view, path in some}
    assert {name: parts for name, parts in made.items() if parts} == {}
