"""The diagnosis of runs with one known cause: it is the first finding, and costs what is planted within a tenth."""

from __future__ import annotations

import pytest
from planted_cases import HEALTHY, PLANTED, Case
from reports import session_of
from score import score
from sweep import costs_beyond_the_run

NOT_YET = frozenset({"jax_jit_in_loop", "tf_checkpoint"})
"""Cases that the diagnosis does not get right."""


@pytest.mark.parametrize("case", [*PLANTED, *HEALTHY], ids=lambda case: case.name)
def test_the_planted_cause_is_the_first_finding(case: Case) -> None:
    result = score(case)
    assert result.is_right is (case.name not in NOT_YET), result.line()


@pytest.mark.parametrize("case", [*PLANTED, *HEALTHY], ids=lambda case: case.name)
def test_findings_fit_into_the_run(case: Case) -> None:
    report = session_of(*case.run().captures.values()).report("diagnosis")
    assert list(costs_beyond_the_run({"diagnosis": report})) == []
