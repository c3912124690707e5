"""A trace file for other viewers: Chrome JSON, Perfetto protobuf, or the JSON of XProf's trace viewer.

chrome and perfetto contain every selected event, the tracks that XProf derives (steps, name scopes, modules), flows
and counters; --raw leaves out everything but the events. xprof is the JSON of XProf's trace viewer; xprof-streaming is
that of its streaming viewer, which shows fewer events.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from fastprof.cli import arguments, opening, output
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.profile.trace_out import Trace

FORMS = ("chrome", "perfetto", "xprof", "xprof-streaming")
STATS = ("all", "event", "none")
_SUFFIXES = ".json, .json.gz: chrome; .pftrace, .perfetto-trace: perfetto"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    arguments.add_filters(parser)
    group = parser.add_argument_group("what to write")
    group.add_argument("--format", choices=FORMS, help=f"file format (default: by the suffix of FILE: {_SUFFIXES})")
    group.add_argument(
        "--raw",
        action="store_true",
        help="for chrome and perfetto: write only the events of the capture, no derived tracks, flows or counters; "
        "takes less time, and bounded memory",
    )
    group.add_argument(
        "--stats",
        choices=STATS,
        help="for chrome and perfetto: which stats become arguments: those of events and of their metadata (all, the "
        "default), only those of events (event), or none",
    )
    group.add_argument(
        "--resolution",
        metavar="N",
        type=arguments.limit,
        help="for xprof-streaming: events that fit in a row of the window, or all (default: 8000); a host "
        "with fewer than 500,000 events is shown in full",
    )
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output; .gz: compressed")
    out.add_argument("--force", action="store_true", help="overwrite an existing FILE")
    parser.set_defaults(wide=False)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    from fastprof.profile import trace_out
    from fastprof.xprof.trace.chunks import DEFAULT_RESOLUTION

    form = _form(args)
    _check(args, form)
    whole = opening.open_session(args)
    profile = opening.selected(whole, args)
    resolution = DEFAULT_RESOLUTION if args.resolution is None else max(args.resolution, 0)
    trace = trace_out.Trace(
        profile.table_set, form, derived=not args.raw, stats=args.stats or STATS[0], resolution=resolution
    )
    gzip = args.output is not None and args.output.endswith(trace_out.GZIP)
    with output.opened(args, form) as sink:
        sink.send(trace.chunks(gzip))
    opening.note_log(profile, args.talk)
    _note_untimed(trace, args)
    if trace.file is not None and not trace.file.events:
        for line in opening.explain_nothing(whole, args):
            args.talk.note(line)
    output.note_written(args)


def _form(args: argparse.Namespace) -> str:
    """The requested format, else the one that the suffix of the file names."""
    from fastprof.profile.trace_out import form_of

    if args.format is not None:
        return str(args.format)
    form = None if args.output is None else form_of(args.output)
    if form is None:
        raise UsageError(f"give --format ({', '.join(FORMS)}), or -o FILE with one of these suffixes: {_SUFFIXES}")
    return form


def _check(args: argparse.Namespace, form: str) -> None:
    """Raise UsageError for flags that exclude each other."""
    if form.startswith("xprof"):
        for given, flag in ((args.raw, "--raw"), (args.stats, "--stats")):
            if given:
                raise UsageError(f"{flag} is for --format chrome and perfetto")
    if args.resolution is not None and form != "xprof-streaming":
        raise UsageError("--resolution is for --format xprof-streaming; the other formats have all events")
    to_terminal = args.output in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
    if to_terminal and form == "perfetto":
        raise UsageError(
            "a Perfetto trace is binary and would garble the terminal; use -o FILE, or redirect the output"
        )


def _note_untimed(trace: Trace, args: argparse.Namespace) -> None:
    if trace.file is not None and trace.file.untimed:
        args.talk.note(f"{trace.file.untimed:,} events have no start and are left out")
