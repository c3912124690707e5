"""Every answer of the reference, byte for byte: reports, files, numbers, standard output and standard error."""

from __future__ import annotations

import pytest
from gate import few
from goldens import GOLDENS, PROFILES, answers, differences, views_of

VIEWS = {"scope": 41, "graph": 32, "op": 40, "code": 41, "advise": 6}
"""How many answers there are of each view. The reference crashes with the code view at depth 0, so that has none."""


@pytest.mark.captures
@pytest.mark.skipif(not GOLDENS.is_dir(), reason="the reference's answers are absent")
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("profile", few(PROFILES, 6))
def test_answers_are_those_of_tfprof(profile: str, view: str) -> None:
    some = [path for path in answers(profile) if f".{view}." in path.name or path.name.startswith(f"{view}_")]
    wrong = {path.name: parts for path in some if (parts := differences(path, views_of(profile)))}
    assert wrong == {}
    assert len(some) == VIEWS[view]
