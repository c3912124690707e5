"""What computes the reports of a profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastprof.analyses import contract
from fastprof.decode.selection import Selection, Steps
from fastprof.tables.open_session import OpenSession
from fastprof.tables.table_set import TableSet

Computing = Callable[[Sequence[str], Mapping[str, Any], str], dict[str, contract.Report]]
"""From names of analyses, their parameters and a format to the reports."""


def computed(
    session: OpenSession,
    selection: Selection,
    steps: Steps | None,
    names: Sequence[str],
    params: Mapping[str, Any],
    form: str,
) -> dict[str, contract.Report]:
    """The reports of an open session."""
    from fastprof.analyses import runner

    session.jobs()
    return runner.run(TableSet(session, selection), names, params, steps, keepers_of(names, form))


def keepers_of(names: Sequence[str], form: str) -> Mapping[str, contract.Keeper]:
    """What a format needs of each host beside the reports: XProf's pages need more."""
    if form != "xprof":
        return {}
    from fastprof.xprof import report_xprof

    return report_xprof.keepers(names)
