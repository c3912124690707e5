"""The evidence of each finding of the planted runs is a table of a report, with the rows that it names."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
from gate import few
from planted_cases import HEALTHY, PLANTED, Case
from reports import records, session_of

from fastprof.analyses import ANALYSES
from fastprof.cli.analysis import parse_table_choice
from fastprof.viewer.analysis_list import list_analyses

EVIDENCE = re.compile(r"(\w+)\.(\w+)(?:\?(.+))?")


@pytest.mark.parametrize("case", few([*PLANTED, *HEALTHY], 14), ids=lambda case: case.name)
def test_each_finding_names_rows_that_are_there(case: Case) -> None:
    profile = session_of(*case.run().captures.values())
    for finding in records(profile.report("diagnosis"), "findings"):
        matched = EVIDENCE.fullmatch(finding["evidence"])
        assert matched, finding
        analysis, name, query = matched.groups()
        assert analysis in ANALYSES
        table = profile.report(analysis).tables[name]
        equal = dict(parse_qsl(query or "", strict_parsing=bool(query)))
        columns = {column: [_text(value) for value in table[column].to_pylist()] for column in equal}
        rows = [row for row in range(table.num_rows) if all(columns[name][row] == equal[name] for name in equal)]
        assert rows, finding["evidence"]
        chosen = parse_table_choice(finding["evidence"]).rows_of(table)
        assert chosen.equals(table.take(rows)), "as the command line takes it"
        assert name in list_analyses([analysis])[0]["tables"]


def _text(value: Any) -> str:
    """As the page writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
