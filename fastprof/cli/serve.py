"""Show a session in a browser: its timeline, with any number of events, and its analyses as pages.

If SESSION is a log directory, the page offers all its runs; an empty one is served, too, and its first run is shown
when it appears. The server listens on this machine only, unless --host
names another address; then a browser needs the token that is printed. Ctrl-C stops the server.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments, opening, servers, signals
from fastprof.cli.standard_error import never_waiting
from fastprof.errors import CaptureError, FastprofError, NotFoundError, UnreadableError, UsageError

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.addresses import Address
    from fastprof.profile.profile import Profile

PORT = 8791
_NEEDED = ("starlette", "uvicorn")


@arguments.reader
def _address(text: str) -> str:
    if not text.strip():
        raise ValueError("the address is empty; 0.0.0.0 means all addresses of this machine")
    return text


@arguments.reader
def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 1 << 16):
        raise ValueError(f"{text!r} is not a port, a whole number from 0 to 65535")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--port",
        metavar="N",
        type=_port,
        default=PORT,
        help=f"port to listen on; 0 takes a free one (default: {PORT})",
    )
    group.add_argument(
        "--host",
        metavar="ADDRESS",
        type=_address,
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 means all addresses of this machine. Addresses other than loopback need a "
        "token (default: 127.0.0.1)",
    )
    group.add_argument(
        "--token", metavar="TEXT", help="the token that requests must have (default: a random one if one is needed)"
    )
    group.add_argument(
        "--capture",
        metavar="ADDR",
        type=servers.addresses,
        action="append",
        help="let the page take captures of these profiler servers, and of no others, into the log directory; needs a "
        "token; repeatable",
    )
    group.add_argument("--open", action="store_true", help="open a browser")
    group.add_argument("--cache", metavar="DIR", help="folder for data built from captures (default: the user's cache)")
    group.add_argument(
        "--cache-limit", metavar="SIZE", type=arguments.size, help="largest size of that folder, for example 10GiB"
    )
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the viewer needs {' and '.join(missing)}; install it with: pip install 'fastprof-arrow[serve]'"
        )
    captured = _captured(args)
    with never_waiting() as stream:
        if stream is not None:
            args.talk.write_to(stream)
        profile = _opened(args)
        if profile is not None:
            opening.check_one_run(profile, "the page, which offers all runs of one log directory,")
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the intended end
            _serve(profile, args, captured)
        args.talk.progress.clear()


def _captured(args: argparse.Namespace) -> list[Address]:
    """The servers that the page may capture."""
    if args.capture is None:
        return []
    directory = _source(args)
    if not isinstance(directory, str) or not Path(directory).is_dir():
        raise UsageError("--capture writes to a log directory: give one, and nothing else")
    return servers.reachable(args, [one for several in args.capture for one in several])


def _opened(args: argparse.Namespace) -> Profile | None:
    """The session. None: of the log directory no run is there yet, or the newest cannot be opened, but others may."""
    try:
        return opening.open_session(args)
    except (NotFoundError, CaptureError, UnreadableError) as error:
        directory = _source(args)
        if args.run is not None or not isinstance(directory, str) or not Path(directory).is_dir():
            raise
        if not isinstance(error, NotFoundError) and not _has_others(directory):
            raise
        args.talk.error(str(error))
        return None


def _has_others(directory: str) -> bool:
    from fastprof import runs

    try:
        return len(runs(directory)) > 1
    except FastprofError:
        return False


def _serve(profile: Profile | None, args: argparse.Namespace, captured: list[Address]) -> None:
    from fastprof.viewer.access import checked_token, is_loopback, new_token
    from fastprof.viewer.cache_folder import CacheFolder
    from fastprof.viewer.page_capture import PageCapture
    from fastprof.viewer.viewed_runs import ViewedRuns

    token = None if args.token is None else checked_token(args.token)
    if token is None and (captured or not is_loopback(args.host)):
        token = new_token()
    capture = PageCapture(captured, args.session[0]) if captured else None
    cache = CacheFolder(args.cache, args.cache_limit)
    runs = ViewedRuns(_source(args), profile, lambda name: _loaded(args, name), cache)
    try:
        chosen = runs.opened(None)  # starts to build while the server is imported
        with signals.held():
            from fastprof.viewer import server
        listening = server.bound_socket(args.host, args.port)
        where = server.address(listening, args.host, token)

        def started() -> None:
            if profile is not None:
                opening.note_log(profile, args.talk, offers_runs=True)
            if chosen.notice is not None:
                args.talk.error(chosen.notice)
            args.talk.error(f"serving {runs.title} at {where}  (Ctrl-C stops)")
            if args.open:
                _open_browser(where)

        is_local = is_loopback(args.host)
        application = server.application(runs, token, args.talk.traceback, capture, is_local=is_local)
        server.serve(application, listening, started, args.talk.note)
    finally:
        if capture is not None:
            capture.cancel()
        runs.stop()


def _source(args: argparse.Namespace) -> Any:
    """The paths of SESSION, to open them again; None for standard input, which cannot be read again."""
    if "-" in args.session:
        return None
    return args.session[0] if len(args.session) == 1 and not args.as_hosts else list(args.session)


def _loaded(args: argparse.Namespace, name: str | None) -> Profile:
    """The session once more, or another run of it."""
    from fastprof.profile.loading import load_again

    reading = opening.reading(args)
    return load_again(_source(args), **reading | {"run": name or reading["run"]})


def _open_browser(where: str) -> None:
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(where,), daemon=True).start()
