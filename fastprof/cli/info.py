"""The content of a session: hosts, planes, lines, devices, counts, times, faults.

JSON holds everything; CSV and Arrow hold the table of planes. With --runs, the runs of a log directory are listed
instead, newest first.
"""

from __future__ import annotations

import argparse

from fastprof.cli import arguments, opening, output
from fastprof.errors import UsageError
from fastprof.render.table_forms import chunks


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
        from fastprof.cli import card, facts

        content = facts.gather(profile, args.talk.progress)
        args.talk.progress.clear()
        if form == "table":
            text = "".join(f"{line}\n" for line in card.lines(content, sink.look, limit))
            sink.send([text.encode(sink.look.encoding, "backslashreplace")])
        elif form == "json":
            sink.send(facts.sections(content, limit))
        else:
            sink.send(chunks(form, content.planes.slice(0, limit), name="planes", look=sink.look))
    if opening.filtered(args) and not content.summary["events"]:
        opening.explain_nothing(session, args)
    output.note_written(args)


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
