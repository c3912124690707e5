"""The content of a session: hosts, planes, lines, devices, counts, times, faults; of several jobs, one by one.

JSON holds everything; CSV and Arrow hold the table of planes. With --runs, the runs of a log directory are listed
instead, newest first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastprof.cli import arguments, opening, output
from fastprof.errors import UsageError
from fastprof.render.look import Look
from fastprof.render.table_forms import chunks

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.cli.facts import Facts
    from fastprof.profile.profile import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument("--runs", action="store_true", help="list the runs of log directories, newest first")
    arguments.add_filters(parser)
    arguments.add_output(parser, limited="rows per table")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    form = output.format_for(args.format, args.output)
    if args.runs:
        _write_runs(args, form)
        return
    session = opening.open_session(args)
    profile = opening.selected(session, args)
    limit = arguments.row_limit(args.limit, form)
    with output.opened(args, form) as sink:
        from fastprof.cli import facts

        profile = profile.by_job
        content = {name: facts.gather(one, args.talk.progress) for name, one in profile.runs.items()}
        args.talk.progress.clear()
        if form in ("table", "json"):
            sink.send(_documents(content, profile, form, sink.look, limit))
        else:
            planes = _planes({name: one.planes for name, one in content.items()}, profile)
            sink.send(chunks(form, planes.slice(0, limit), name="planes", look=sink.look))
    if opening.filtered(args) and not any(one.summary["events"] for one in content.values()):
        opening.explain_nothing(session, args)
    output.note_written(args)


def _planes(of_runs: dict[str, pa.Table], profile: Profile) -> pa.Table:
    """The planes of all runs."""
    from fastprof.tables.tables_of_runs import TablesOfRuns

    tables = profile.exported
    return tables.stacked(of_runs) if isinstance(tables, TablesOfRuns) else next(iter(of_runs.values()))


def _documents(
    content: dict[str, Facts], profile: Profile, form: str, look: Look, limit: int | None
) -> Iterator[bytes]:
    """The text or the JSON of each run."""
    from fastprof.cli import card, facts

    def text(one: Facts) -> Iterator[bytes]:
        yield "".join(f"{line}\n" for line in card.lines(one, look, limit)).encode(look.encoding, "backslashreplace")

    documents = {name: text(one) if form == "table" else facts.sections(one, limit) for name, one in content.items()}
    if not profile.has_runs:
        return next(iter(documents.values()))
    return output.by_run(documents, form, look)


def _write_runs(args: argparse.Namespace, form: str) -> None:
    import pyarrow as pa

    import fastprof

    if "-" in args.session:
        raise UsageError("--runs lists the runs of directories; standard input (-) is not a directory")
    runs = [run for path in args.session for run in fastprof.runs(path)]
    hosts = [len(run.hosts) if form == "table" else run.hosts for run in runs]
    columns = {
        "run": pa.array([run.name for run in runs], pa.string()),
        "hosts": pa.array(hosts, pa.int64() if form == "table" else pa.list_(pa.string())),
        "path": pa.array([run.path for run in runs], pa.string()),
    }
    with output.opened(args, form) as sink:
        output.send_table(args, sink, pa.table(columns), "runs", form, "runs")
    output.note_written(args)
