"""The content of a session: hosts, planes, lines, devices, counts, times, faults; job by job.

JSON holds everything; CSV and Arrow hold the planes table. With --runs, the runs of a log directory are listed
instead, newest first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from fastprof.cli import arguments, output
from fastprof.errors import UsageError
from fastprof.render.table_forms import Look, render_table

if TYPE_CHECKING:
    from fastprof.cli.session_summary import SessionSummary
    from fastprof.profile.profile import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument("--runs", action="store_true", help="list the runs of log directories, newest first")
    arguments.add_filters(parser)
    arguments.add_output(parser, limited="rows per table")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    form = output.choose_format(args.format, args.output)
    if args.runs:
        _write_runs(args, form)
        return
    session = arguments.open_session(args)
    profile = arguments.select_events(session, args)
    limit = arguments.get_row_limit(args.limit, form)
    with output.open_sink(args, form) as sink:
        from fastprof.cli import session_summary

        profile = profile.by_job
        content = {name: session_summary.gather_summary(run, args.talk.progress) for name, run in profile.runs.items()}
        args.talk.progress.clear()
        if form == output.BRIEF:
            sink.send(_write_brief(content, args))
        elif form in ("table", "json"):
            sink.send(_write_documents(content, profile, form, sink.look, limit))
        else:
            from fastprof.tables.tables_of_runs import TablesOfRuns

            of_runs = {name: gathered.planes for name, gathered in content.items()}
            tables = profile.exported
            planes = tables.stacked(of_runs) if isinstance(tables, TablesOfRuns) else next(iter(of_runs.values()))
            sink.send(render_table(form, planes.slice(0, limit), name="planes", look=sink.look))
    if arguments.get_filters(args) and not any(gathered.summary["events"] for gathered in content.values()):
        arguments.explain_empty(session, args)
    output.note_written(args)


def _write_brief(content: dict[str, SessionSummary], args: argparse.Namespace) -> Iterator[bytes]:
    """Return the planes and the figures of each run as one brief document."""
    from fastprof.cli.session_summary import list_facts
    from fastprof.render import brief

    question = output.make_question(args)

    def summarise_run(gathered: SessionSummary, _most: int = brief.MOST_BYTES) -> brief.Document:
        planes = gathered.planes.drop_columns(["plane_id"])
        facts = dict(list_facts(gathered))
        names = ", ".join(gathered.hosts["host"].to_pylist())
        figures = {**gathered.summary, "host_names": names, "devices": facts["Devices"]}
        answer = f"Events: {facts['Events']}; devices: {facts['Devices']}."
        return brief.summarise_table("planes", planes, question, planes.num_rows, figures, answer=answer)

    runs = {name: partial(summarise_run, gathered) for name, gathered in content.items()}
    return brief.write_document(brief.summarise_several(runs, "runs") if len(runs) > 1 else next(iter(runs.values()))())


def _write_documents(
    content: dict[str, SessionSummary], profile: Profile, form: str, look: Look, limit: int | None
) -> Iterator[bytes]:
    """Return the text or the JSON of each run."""
    from fastprof.cli import session_summary

    def text(summary: SessionSummary) -> Iterator[bytes]:
        yield "".join(f"{line}\n" for line in session_summary.format_summary(summary, look, limit)).encode(
            look.encoding, "backslashreplace"
        )

    documents = {
        name: text(gathered) if form == "table" else session_summary.write_sections(gathered, limit)
        for name, gathered in content.items()
    }
    if not profile.has_runs:
        return next(iter(documents.values()))
    return output.join_runs(documents, form, look)


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
    with output.open_sink(args, form) as sink:
        output.send_table(args, sink, pa.table(columns), "runs", form, "runs")
    output.note_written(args)
