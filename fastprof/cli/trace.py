"""A trace file for other viewers: Chrome JSON, Perfetto protobuf, or the JSON of XProf's trace viewer.

chrome and perfetto contain every selected event, the tracks that XProf derives (steps, name scopes, modules), flows
and counters; --raw leaves out everything but the events. xprof is the JSON of XProf's trace viewer; xprof-streaming is
that of its streaming viewer, which shows fewer events.
"""

from __future__ import annotations

import argparse
import sys

from fastprof.cli import arguments, output, process
from fastprof.errors import NotFoundError, UsageError

_SUFFIXES = ".json, .json.gz: chrome; .pftrace, .perfetto-trace: perfetto"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    with process.hold_signals():
        from fastprof.export.trace_batches import STATS
        from fastprof.profile.trace_out import FORMS

    arguments.add_session(parser)
    arguments.add_filters(parser)
    group = parser.add_argument_group("what to write")
    group.add_argument("--format", choices=FORMS, help=f"file format (default: by the suffix of FILE: {_SUFFIXES})")
    group.add_argument(
        "--raw",
        action="store_true",
        help="for chrome and perfetto: write only the capture's events, without derived tracks, flows or counters; "
        "faster, with bounded memory",
    )
    group.add_argument(
        "--stats",
        choices=STATS,
        help="for chrome and perfetto: which stats become arguments: those of events and their metadata (all, the "
        "default), those of events only (event), or none",
    )
    group.add_argument(
        "--resolution",
        metavar="N",
        type=arguments.parse_limit,
        help="for xprof-streaming: events per row of the window, or all (default: 8000); a host with fewer than "
        "500,000 events is shown in full",
    )
    group.add_argument(
        "--max-text",
        metavar="BYTES",
        type=arguments.parse_limit,
        help="for xprof and xprof-streaming: maximum length of texts that events repeat, such as names, or all for no "
        "limit (default: 10000)",
    )
    group.add_argument(
        "--align-clocks",
        action="store_true",
        help="for chrome and perfetto: align hosts by the clock offsets from their collectives; see the clocks table "
        "of 'fastprof communication'",
    )
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output; .gz: compressed")
    out.add_argument("--force", action="store_true", help="overwrite an existing FILE")
    parser.set_defaults(wide=False)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    from fastprof.export.trace_batches import ALL
    from fastprof.profile import trace_out
    from fastprof.wording.quantities import count_noun
    from fastprof.xprof.trace.trace_forms import DEFAULT_RESOLUTION, MOST_TEXT

    form = args.format or trace_out.find_trace_form(args.output or "")
    if form is None:
        forms = ", ".join(trace_out.FORMS)
        raise UsageError(f"give --format ({forms}), or -o FILE with a suffix that names the format ({_SUFFIXES})")
    _check_flags(args, form)
    session = arguments.open_session(args)
    arguments.check_one_run(session, "a trace file")
    profile = arguments.select_events(session, args)
    resolution = DEFAULT_RESOLUTION if args.resolution is None else max(args.resolution, 0)
    offsets = None
    if args.align_clocks:
        communication = session.reports_together("communication")["communication"]
        offsets = trace_out.get_clock_offsets(communication)
        args.talk.note(trace_out.describe_alignment(communication, session.hosts["host"].to_pylist()))
    trace = trace_out.Trace(
        profile.table_set,
        form,
        derived=not args.raw,
        stats=args.stats or ALL,
        resolution=resolution,
        max_text=MOST_TEXT if args.max_text is None else max(args.max_text, 0),
        offsets=offsets,
    )
    if args.output not in (None, "-") and not any(batch.num_rows for batch in profile.scan(columns=["event_id"])):
        arguments.note_log(profile, args)
        arguments.explain_empty(session, args)
        raise NotFoundError("not written, because there are no events", path=args.output)
    with output.open_sink(args, form) as sink:
        sink.send(trace.chunks((args.output or "").endswith(trace_out.GZIP)))
    arguments.note_log(profile, args)
    if trace.file is not None and trace.file.untimed:
        args.talk.note(f"left out {count_noun(trace.file.untimed, 'event', 'events')} without a start")
    if trace.file is not None and not trace.file.events:
        arguments.explain_empty(session, args)
    output.note_written(args)


def _check_flags(args: argparse.Namespace, form: str) -> None:
    """Raise UsageError for flags that exclude each other."""
    if form.startswith("xprof"):
        for given, flag in ((args.raw, "--raw"), (args.stats, "--stats"), (args.align_clocks, "--align-clocks")):
            if given:
                raise UsageError(f"{flag} applies only to --format chrome and perfetto")
    elif args.max_text is not None:
        raise UsageError(
            "--max-text applies only to --format xprof and xprof-streaming; see docs/trace.md for the others"
        )
    if args.resolution is not None and form != "xprof-streaming":
        raise UsageError("--resolution applies only to --format xprof-streaming; the other formats have all events")
    to_terminal = args.output in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
    if to_terminal and form == "perfetto":
        raise UsageError("a Perfetto trace is binary and would garble the terminal; use -o FILE or redirect the output")
