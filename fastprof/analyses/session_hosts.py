"""The hosts of an open session, each read once for all analyses, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from fastprof.analyses import step_choice
from fastprof.analyses.keeping import Facts, KeptOfHosts, Plan, facts, keep
from fastprof.decode.workers import HOSTS_READ

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.derive.host import Choice
    from fastprof.derive.steps.of_host import HostSteps
    from fastprof.tables.table_set import TableSet


class SessionHosts:
    """Those that are selected."""

    def __init__(self, tables: TableSet) -> None:
        self.tables = tables
        self.log: ImportLog = tables.session.log
        self.numbers = selected(tables)

    @property
    def alone(self) -> bool:
        """Whether there is one, or none."""
        return len(self.numbers) < 2

    def steps(self, source: str) -> list[HostSteps]:
        return step_choice.steps_of_hosts(self.tables, self.numbers, source)

    def kept(self, plan: Plan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[KeptOfHosts]:
        """What is kept of each host. ``choices``: of each host the groups that are the chosen steps. ``without``: grows
        while hosts are read: analyses that keep nothing of the next ones."""
        workers = self.tables.session.workers
        for done, number in enumerate(self.numbers):
            found = keep(self.tables, number, plan, None if choices is None else choices[done], without)
            if len(self.numbers) > 1:
                workers.report(HOSTS_READ, done + 1, len(self.numbers))
            yield found

    def facts(self) -> Facts:
        return facts(self.tables.session, self.numbers)


def selected(tables: TableSet) -> list[int]:
    """The numbers of the selected hosts."""
    wanted = tables.selection.hosts
    return [i for i, host in enumerate(tables.session.hosts) if wanted is None or host in wanted]
