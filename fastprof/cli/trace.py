"""A trace for other viewers: Chrome's JSON, Perfetto's protobuf, or what XProf's trace viewer reads.

chrome and perfetto have every event of the selection, and beside them the tracks that XProf derives: steps, name
scopes, modules; flows and counters; --raw leaves these out. xprof is the JSON of XProf's trace viewer, and
xprof-streaming that of its streaming one, which thins events out.
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
    group.add_argument(
        "--format", choices=FORMS, help=f"form of the file (default: what FILE is named for: {_SUFFIXES})"
    )
    group.add_argument(
        "--raw",
        action="store_true",
        help="of chrome and perfetto: only the events of the capture, no derived tracks, flows or counters; "
        "takes less time, and memory that does not grow with the capture",
    )
    group.add_argument(
        "--stats",
        choices=STATS,
        help="of chrome and perfetto: which stats become arguments: of events and of their metadata (all, the "
        "default), of events alone (event), or none",
    )
    group.add_argument(
        "--resolution",
        metavar="N",
        type=arguments.limit,
        help="of xprof-streaming: events that fit in a row of the window, or all (default: 8000); a host "
        "with fewer than 500,000 events is shown whole",
    )
    out = parser.add_argument_group("output")
    out.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output; .gz: compressed")
    out.add_argument("--force", action="store_true", help="overwrite FILE where it exists")
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
    opening.tell_log(profile, args.talk)
    _tell(trace, args)
    if trace.file is not None and not trace.file.events:
        for line in opening.explain_nothing(whole, args):
            args.talk.note(line)
    output.note_written(args)


def _form(args: argparse.Namespace) -> str:
    """The form asked for, else the one that the file is named for."""
    from fastprof.profile.trace_out import form_of

    if args.format is not None:
        return str(args.format)
    found = None if args.output is None else form_of(args.output)
    if found is None:
        raise UsageError(f"give --format ({', '.join(FORMS)}), or a file that is named for one with -o ({_SUFFIXES})")
    return found


def _check(args: argparse.Namespace, form: str) -> None:
    """Raises UsageError for flags that do not go together."""
    if form.startswith("xprof"):
        for given, flag in ((args.raw, "--raw"), (args.stats, "--stats")):
            if given:
                raise UsageError(f"{flag} goes with --format chrome and perfetto")
    if args.resolution is not None and form != "xprof-streaming":
        raise UsageError("--resolution goes with --format xprof-streaming; the other forms have all events")
    to_terminal = args.output in (None, "-") and sys.stdout is not None and sys.stdout.isatty()
    if to_terminal and form == "perfetto":
        raise UsageError("a Perfetto trace is binary and would garble the terminal; give -o FILE, or redirect it")


def _tell(trace: Trace, args: argparse.Namespace) -> None:
    if trace.file is not None and trace.file.untimed:
        args.talk.note(f"{trace.file.untimed:,} events have no start and are left out")
