"""Keep a process ready that runs other commands, so that they start at once.

The process has loaded all that commands use. While it runs, 'fastprof VERB ...' of the same user and installation hands
it the command, which a copy of it carries out with the folder, environment, terminal and pipes of the command. It
answers on a Unix socket that no other user can open, and ends when no command has come for some time.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import os
import pkgutil
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import fastprof
from fastprof.cli import arguments, process, servers
from fastprof.cli.main import INTERRUPTED, TERMINATED, entry, main
from fastprof.cli.warm_client import VARIABLE, describe_package, get_address
from fastprof.errors import OutputError, UsageError

_IDLE_MS: Final = 3_600_000
_LONGEST_REQUEST: Final = 64 << 20
_PATIENCE: Final = 10
_STREAMS: Final = ("stdin", "stdout", "stderr")
_TRACE: Final = """{"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5, "args": {"External id": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 1,
 "args": {"External id": 1, "correlation": 1}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4, "dur": 9,
 "args": {"External id": 1, "correlation": 1, "device": 0, "stream": 7}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 20}
]}"""
"""A trace of one op, on which the first answers are given: later ones find patterns compiled and columns made."""
_FIRST: Final = ("summary", "info", "events", "overview", "diagnosis", "op-profile", "op-stats", "hlo-stats", "steps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idle", metavar="TIME", type=servers.parse_milliseconds, default=_IDLE_MS,
        help=f"end when no command has come for so long (default: {_IDLE_MS // 1000}s)",
    )  # fmt: skip
    arguments.add_talk(parser)
    parser.set_defaults(session=(), on_error="raise", run=None)


def run(args: argparse.Namespace) -> None:
    path = get_address()
    if path is None:
        raise UsageError(f"{VARIABLE} turns helpers off: unset it, or let it name a socket")
    _check_address(path)
    _load_everything()
    with _open_listener(path) as listener:
        args.talk.note(f"commands run through {path} until Ctrl-C, or until none has come for {args.idle / 1000:g} s")
        _answer_commands(listener, args.idle / 1000)


@contextlib.contextmanager
def _open_listener(path: str) -> Iterator[socket.socket]:
    """Yield a listening socket at ``path``, and remove its file in the end, but no other file that took its place."""
    _check_address(path)
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)  # no other user connects, not even before a chmod
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).unlink(missing_ok=True)
            listener.bind(path)
            listener.listen(64)
            own = Path(path).stat()
        except OSError as error:
            raise OutputError(f"cannot make a socket: {error.strerror or error}", path=path) from error
        finally:
            os.umask(before)
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if os.path.samestat(own, Path(path).stat()):
                    Path(path).unlink()


def _check_address(path: str) -> None:
    """Raise UsageError where a helper listens, and OutputError for another file, which must stay."""
    if not os.path.lexists(path):
        return
    if not Path(path).is_socket():
        raise OutputError("a file that helpers cannot use: it is not a socket", path=path)
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(path) == 0:
            raise UsageError(f"a helper answers already: {path}")


def _load_everything() -> None:
    """Import the modules of the package, and answer commands once. Extras that are absent are left out."""
    for module in pkgutil.walk_packages(fastprof.__path__, "fastprof."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        trace = Path(folder, "trace.json")
        trace.write_text(_TRACE)
        for verb in _FIRST:
            main([verb, str(trace), "--quiet", "--output", os.devnull, "--force"])
    gc.collect()
    gc.freeze()  # what is here stays, and a collection in a copy would touch all of it


def _answer_commands(listener: socket.socket, idle: float) -> None:
    """Fork for each command, until none has come for ``idle`` seconds."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies
    while select.select([listener], [], [], idle)[0]:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):  # where no process can be made, the command runs by itself
            if os.fork() == 0:
                listener.close()
                _run_in_copy(connection)


def _run_in_copy(connection: socket.socket) -> NoReturn:
    """Run a command in this copy of the helper, and end it. Python's own end would touch, and so copy, all memory."""
    code: int | None = None
    try:
        code = _run_command(connection)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except process.Terminated:
        code = TERMINATED
    finally:  # a request that fails before it is taken is a command that runs by itself
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python's own end does
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):  # the command was killed
            connection.setblocking(True)
            connection.sendall(b"" if code is None else bytes([code]))
        os._exit(code or 0)


def _run_command(connection: socket.socket) -> int:
    os.setsid()  # Ctrl-C in the helper's terminal ends the helper alone
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the helper was started by a script
    for stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_DFL)
    process.install_handlers()
    connection.settimeout(_PATIENCE)
    connection.sendall(b"\1")
    request, descriptors = _receive_request(connection)
    identity, folder, mask, *streams, count = request[:7]
    if identity != describe_package():
        raise OSError("the command is of another version")
    words, variables = request[7 : 7 + int(count)], request[7 + int(count) :]
    os.chdir(folder)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.umask(int(mask))
    os.environ.clear()
    os.environ.update(variable.partition("=")[::2] for variable in variables)
    time.tzset()
    tempfile.tempdir = None
    for number, (name, (encoding, faults)) in enumerate(zip(_STREAMS, map(str.split, streams), strict=True)):
        raw = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115  open until the process ends
        by_lines = number == 2 or raw.isatty()  # as Python's own streams
        stream = io.TextIOWrapper(raw, encoding, faults, line_buffering=by_lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["fastprof", *words]
    connection.sendall(b"\1")
    _handle_signals(connection)
    return entry()


def _receive_request(connection: socket.socket) -> tuple[list[str], list[int]]:
    size, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    length = int.from_bytes(size, "big")
    if len(size) < 8 or len(descriptors) < 3 or length > _LONGEST_REQUEST:
        raise OSError("a request is incomplete")
    body = bytearray()
    while len(body) < length:  # and not a byte more, which would be a signal
        part = connection.recv(min(length - len(body), 1 << 20))
        if not part:
            raise OSError("a request is incomplete")
        body += part
    texts = bytes(body).split(b"\0")
    if len(texts) < 8 or texts[-1]:
        raise OSError("a request is incomplete")
    return [os.fsdecode(text) for text in texts[:-1]], list(descriptors)


def _handle_signals(connection: socket.socket) -> None:
    """Raise in this process the signals that the command gets, and SIGTERM without a message when it is gone."""

    def raise_signals(_number: int, _frame: object) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                number = connection.recv(1)
                if not number:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os.kill(os.getpid(), number[0] if number else signal.SIGTERM)

    connection.setblocking(False)
    signal.signal(signal.SIGIO, raise_signals)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    raise_signals(signal.SIGIO, None)  # for what came before
