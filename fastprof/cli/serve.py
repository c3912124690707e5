"""Show a session in a browser: its timeline, with any number of events, and its analyses as pages.

If SESSION is a log directory, the page offers all its runs. An empty one is served too; its first run is shown when it
appears. The server listens on this machine only, unless --host names another address; the browser then needs the
printed token. Ctrl-C stops the server.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from fastprof.cli import arguments, process, servers
from fastprof.errors import CaptureError, FastprofError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs.paths import is_directory

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.profiler_servers import Address
    from fastprof.inputs.resolve import Run
    from fastprof.profile.profile import Profile


_PIECE = getattr(select, "PIPE_BUF", 512)
"""Bytes that a ready pipe takes without waiting."""
_MOST_BYTES, _BYTES_A_S = 64 << 10, 256.0
"""Bytes that can be written at once, and bytes regained per second of silence."""


class NonBlockingStream(io.TextIOBase):
    """Stream to the descriptor of ``stream`` that never waits. Messages are left out while it is not ready, or when
    there were too many; the next one says how many."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._descriptor = stream.fileno()
        self._terminal = stream.isatty()
        self._encoding = stream.encoding or "utf-8"
        self._lock = threading.Lock()
        self._now, self._at = now, now()
        self._room: float = _MOST_BYTES
        self._left_out = 0
        self._is_cut = False

    def write(self, text: str) -> int:
        with self._lock:
            note = f"fastprof: {self._left_out:,} messages were left out here\n" if self._left_out else ""
            data = ("\n" * self._is_cut + note + text).encode(self._encoding, "backslashreplace")
            now = self._now()
            self._room = min(self._room + (now - self._at) * _BYTES_A_S, _MOST_BYTES)
            self._at = now
            if len(data) > self._room or not self._is_written(data):
                self._left_out += 1
            else:
                self._room -= len(data)
                self._left_out, self._is_cut = 0, False
        return len(text)

    def _is_written(self, data: bytes) -> bool:
        for at in range(0, len(data), _PIECE):
            if not self._is_ready():
                return False
            os.write(self._descriptor, data[at : at + _PIECE])
            self._is_cut = True
        return True

    def _is_ready(self) -> bool:
        if sys.platform == "win32":  # pipes cannot be asked there
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0))

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        return self._descriptor


@contextlib.contextmanager
def drop_unread_messages() -> Iterator[TextIO | None]:
    """Make all that writes to ``sys.stderr`` never wait, until the end of the block. Yields None if standard error has
    no descriptor."""
    before = sys.stderr
    try:
        instead = NonBlockingStream(before)
    except (AttributeError, OSError, ValueError):
        yield None
        return
    sys.stderr = instead
    try:
        yield instead  # type: ignore[misc]
    finally:
        sys.stderr = before


PORT = 8791
_NEEDED = ("starlette", "uvicorn")


@arguments.make_reader
def _parse_address(text: str) -> str:
    if not text.strip():
        raise ValueError("the address is empty; 0.0.0.0 means all addresses of this machine")
    return text


@arguments.make_reader
def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 1 << 16):
        raise ValueError(f"{text!r} is not a port, an integer from 0 to 65535")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--port",
        metavar="N",
        type=_parse_port,
        default=PORT,
        help=f"port to listen on; 0 selects a free port (default: {PORT})",
    )
    group.add_argument(
        "--host",
        metavar="ADDRESS",
        type=_parse_address,
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 means all addresses of this machine. Addresses other than loopback need a "
        "token (default: 127.0.0.1)",
    )
    group.add_argument(
        "--token", metavar="TEXT", help="token that requests must contain (default: a random one if one is needed)"
    )
    group.add_argument(
        "--capture",
        metavar="ADDR",
        type=servers.parse_addresses,
        action="append",
        help="let the page capture from these profiler servers only, into the log directory; needs a token; repeatable",
    )
    group.add_argument("--open", action="store_true", help="open a browser")
    group.add_argument("--cache", metavar="DIR", help="folder for data built from captures (default: the user's cache)")
    group.add_argument(
        "--cache-limit",
        metavar="SIZE",
        type=arguments.parse_size,
        help="maximum size of that folder, for example 10GiB",
    )
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the viewer needs {' and '.join(missing)}: pip install {' '.join(_NEEDED)}")
    if args.capture is None:
        captured = []
    else:
        directory = _get_source(args)
        if not isinstance(directory, str) or not is_directory(directory):
            raise UsageError("--capture writes to a log directory: give one, and nothing else")
        captured = servers.find_reachable(args, [address for several in args.capture for address in several])
    with drop_unread_messages() as stream:
        if stream is not None:
            args.talk.write_to(stream)
        profile = _open_session(args)
        if profile is not None:
            arguments.check_one_run(profile, "the page, which offers all runs of one log directory,")
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the intended end
            _serve(profile, args, captured)
        args.talk.progress.clear()


def _open_session(args: argparse.Namespace) -> Profile | None:
    """Open the session. Returns None if the log directory has no run yet, or only the newest cannot be opened."""
    try:
        return arguments.open_session(args)
    except (NotFoundError, CaptureError, UnreadableError) as error:
        directory = _get_source(args)
        if args.run is not None or not isinstance(directory, str) or not is_directory(directory):
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
    from fastprof.viewer.answers import check_token, is_loopback, make_token
    from fastprof.viewer.cache_folder import CacheFolder
    from fastprof.viewer.page_capture import PageCapture
    from fastprof.viewer.viewed_runs import ViewedRuns

    token = None if args.token is None else check_token(args.token)
    if token is None and (captured or not is_loopback(args.host)):
        token = make_token()
    capture = PageCapture(captured, args.session[0]) if captured else None
    cache = CacheFolder(args.cache, args.cache_limit)
    runs = ViewedRuns(_get_source(args), profile, lambda run: _load_run(args, run), cache, args.on_error)
    try:
        chosen = runs.opened(None)  # starts to build while the server is imported
        with process.hold_signals():
            from fastprof.viewer import server
        listening = server.bind_socket(args.host, args.port)
        where = server.get_address(listening, args.host, token)

        def started() -> None:
            if profile is not None:
                arguments.note_log(profile, args, offers_runs=True)
            if chosen.notice is not None:
                args.talk.error(chosen.notice)
            args.talk.error(f"serving {runs.title} at {where}  (Ctrl-C stops)")
            if args.open:
                import webbrowser

                threading.Thread(target=webbrowser.open, args=(where,), daemon=True).start()

        is_local = is_loopback(args.host)
        application = server.make_application(runs, token, args.talk.traceback, capture, is_local=is_local)
        server.run_server(application, listening, started, args.talk.note)
    finally:
        if capture is not None:
            capture.cancel()
        runs.stop()


def _get_source(args: argparse.Namespace) -> Any:
    """Return the paths of SESSION, to open them again; None for standard input, which cannot be read again."""
    if "-" in args.session:
        return None
    return args.session[0] if len(args.session) == 1 and not args.as_hosts else list(args.session)


def _load_run(args: argparse.Namespace, run: Run | str | None) -> Profile:
    """Load the session once more, or another run of it, by its name or as listed."""
    from fastprof.profile.loading import load_again

    reading = arguments.get_reading(args)
    if run is None or isinstance(run, str):
        return load_again(_get_source(args), **reading | {"run": run or reading["run"]})
    return load_again(run, **reading | {"run": None})
