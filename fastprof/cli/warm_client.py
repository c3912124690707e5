"""Hands a command to the process that ``fastprof warm`` keeps ready, where one is running.

The socket is a file of the user. Without one, a command pays one ``stat`` and goes on by itself.

    command                                       helper
    connect                                 ───►  fork
    a helper that is stopped gets no        ◄───  ready
    descriptors: they would keep pipes open
    words, folder, environment, umask,
    descriptors 0 to 2                      ───►  taken over by the copy
                                            ◄───  taken
    signals that end a command              ───►  raised in the copy
    ends with the exit code                 ◄───  exit code
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence


VARIABLE = "FASTPROF_WARM"
"""Environment variable: path of the socket, or 0, so that commands run by themselves."""
_BY_THEMSELVES = ("capture", "mcp", "monitor", "run", "serve", "skill", "snapshot", "warm")
"""Verbs that start or record processes, or serve for long."""
_NO_ANSWER = 70
_PATIENCE = 5
"""Seconds until a helper that does not answer, as one that is stopped, is left alone."""


def get_address() -> str | None:
    """Return the path of the socket; None: helpers are turned off."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named in ("", "0") else named
    folder = os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.cache")
    return f"{folder}/fastprof-warm"


def describe_package() -> str:
    """Return what must be equal in both processes: the version, and the folder of the package."""
    from fastprof._version import __version__

    return f"{__version__} {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}"


def run_in_helper(words: Sequence[str]) -> int | None:
    """Run a command in the helper, and return its exit code; None: no helper takes it."""
    path = get_address()
    if path is None or not words or words[0] in _BY_THEMSELVES or not hasattr(os, "fork"):
        return None
    try:
        if os.stat(path).st_uid != os.geteuid():
            return None
        request = _make_request(words)
    except (OSError, AttributeError):  # no helper, no folder, or a standard stream is closed
        return None
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(path)
            if not connection.recv(1):
                return None
            socket.send_fds(connection, [request[:8]], [0, 1, 2])
            connection.sendall(request[8:])
        except OSError:
            return None
        return _receive_code(connection)


def _make_request(words: Sequence[str]) -> bytes:
    """Return the length of the rest in 8 bytes, and texts that end in a zero byte, as no word or variable has one."""
    mask = os.umask(0o077)
    os.umask(mask)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    texts = [
        describe_package(), os.getcwd(), str(mask),
        *(f"{stream.encoding} {stream.errors}" for stream in streams),
        str(len(words)), *words,
        *(f"{name}={value}" for name, value in os.environ.items()),
    ]  # fmt: skip
    body = b"".join(os.fsencode(text) + b"\0" for text in texts)
    return len(body).to_bytes(8, "big") + body


def _receive_code(connection: socket.socket) -> int | None:
    """Return the exit code from the helper's copy, and send it the signals that end a command; None: it refused."""
    import signal

    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) is not signal.SIG_IGN:
            signal.signal(stop, lambda number, _frame: connection.send(bytes([number])) and None)
    connection.settimeout(None)
    try:
        if not connection.recv(1):
            return None
        code = connection.recv(1)
    except OSError:
        code = b""
    if code:
        return code[0]
    os.write(2, b"fastprof: error: the process that the warm helper started has ended without an exit code\n")
    return _NO_ANSWER
