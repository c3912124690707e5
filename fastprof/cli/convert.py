"""Write the captures of a session as XSpace files, whatever formats they are in.

OUT.xplane.pb is one file, of one host. Any other OUT is a directory, a run: OUT/HOST.xplane.pb, with the compiled
programs beside the captures. Both are written in full or not at all. They load like the captures: other tools read
them, and fastprof opens them without reading JSON again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fastprof.cli import arguments, output
from fastprof.errors import UsageError

_OTHERS = (".gz", ".zst", ".json", ".riegeli", ".parquet", ".arrow", ".csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    parser.add_argument("--host", metavar="NAME", action="append", help="only the host of this exact name; repeatable")
    out = parser.add_argument_group("output")
    out.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        required=True,
        help="file to write, NAME.xplane.pb, or - for standard output; else the directory to write",
    )
    out.add_argument("--force", action="store_true", help="overwrite an existing OUT")
    parser.set_defaults(wide=False)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    from fastprof.export import xspace_files
    from fastprof.wording.quantities import count_noun

    path = Path(args.output)
    if args.output == "-":
        if sys.stdout is not None and sys.stdout.isatty():
            raise UsageError("a capture is binary and would garble the terminal; use -o FILE or redirect the output")
    elif path.suffix in _OTHERS:
        raise UsageError(f"{args.output}: convert writes NAME.xplane.pb, or a directory of such files")
    is_file = args.output == "-" or path.suffix == ".pb" or (path.exists() and not path.is_dir())
    profile = arguments.open_session(args)
    arguments.check_one_run(profile, "a conversion")
    tables = arguments.select_events(profile, args).table_set
    captures = xspace_files.list_captures(tables)
    if is_file and len(captures) > 1:
        raise UsageError(
            f"{args.output} holds one host, and there are {len(captures)}: give the name of a directory with -o, or "
            "choose one with --host NAME"
        )
    if is_file:
        with output.open_sink(args, "xspace") as sink:
            sink.send(xspace_files.read_chunks(captures, tables.workers))
        output.flush_standard_output()
    else:
        xspace_files.write_folder(captures, tables.workers, args.output, args.force)
    arguments.note_log(profile, args, all_rows=True)
    programs = xspace_files.list_program_files(captures)
    if is_file and programs:
        left_out = count_noun(len(programs), "compiled program", "compiled programs")
        args.talk.note(f"left out {left_out} beside the capture; a directory output includes them")
    output.note_written(args)
