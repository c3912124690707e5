"""Serve sessions to assistants by the Model Context Protocol, on standard input and output.

Eight read-only tools answer in at most 4,096 bytes each, about captures in the given folders only. Needs the extra mcp:
pip install 'fastprof-arrow[mcp]'.
"""

from __future__ import annotations

import argparse

from fastprof.cli import arguments
from fastprof.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="FOLDER", nargs="+", help="log directory, run directory or capture that may be read"
    )
    arguments.add_reading(parser)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    if args.run is not None or args.as_hosts:
        raise UsageError("the tools choose runs: start the server without --run and --as-hosts")
    try:
        from fastprof.cli.assistants.tools import make_server
        from fastprof.cli.assistants.warm_sessions import WarmSessions

        reading = {name: getattr(args, name) for name in ("on_error", "threads", "max_unpacked")}
        server = make_server(WarmSessions(args.session, reading))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise UsageError("fastprof mcp needs the package mcp: pip install 'fastprof-arrow[mcp]'") from error
    args.talk.note(f"serving {', '.join(args.session)} on standard input and output")
    server.run("stdio")
