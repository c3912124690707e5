"""The diagnosis of runs with one known cause: it is the first finding, and costs what is planted within a tenth."""

from __future__ import annotations

import pytest
from planted_cases import HEALTHY, PLANTED, Case
from score import diagnose, score
from sweep import costs_beyond_the_run

NOT_YET = frozenset({"jax_jit_in_loop", "tf_checkpoint"})
"""Cases that the diagnosis does not get right."""


@pytest.mark.parametrize("case", [*PLANTED, *HEALTHY], ids=lambda case: case.name)
def test_the_planted_cause_is_the_first_finding(case: Case) -> None:
    """All findings fit into the run, too."""
    report = diagnose(case)
    result = score(case, report)
    assert result.is_right is (case.name not in NOT_YET), result.line()
    assert list(costs_beyond_the_run({"diagnosis": report})) == []
