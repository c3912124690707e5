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
_OWN_PLACES = ("/dev/fd/", "/dev/tty", "/proc/self/", "/proc/thread-self/")
"""Paths that have another meaning in another process."""
_INTERRUPTED, _NO_ANSWER = 130, 70
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
    """Return what must be equal in both processes: version and folder of the package, encoding of file names."""
    from fastprof._version import __version__

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return f"{__version__} {sys.getfilesystemencoding()} {folder}"


def run_in_helper(words: Sequence[str]) -> int | None:
    """Run a command in the helper, and return its exit code; None: no helper takes it."""
    path = get_address()
    if path is None or not words or words[0] in _BY_THEMSELVES or not hasattr(os, "fork"):
        return None
    if any(place in word for word in words for place in _OWN_PLACES):
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
        except OSError:
            return None
        except KeyboardInterrupt:
            os.write(2, b"fastprof: interrupted\n")
            return _INTERRUPTED
        return _hand_over(connection, request)


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


def _hand_over(connection: socket.socket, request: bytes) -> int | None:
    """Return the exit code from the helper's copy, and send it the signals that end a command; None: it refused."""
    import signal
    import socket

    arrived: list[int] = []
    listening: list[socket.socket] = []

    def forward(number: int, _frame: object) -> None:
        arrived.append(number)
        for copy in listening:
            try:
                copy.send(bytes([number]))
            except OSError:  # the copy has ended
                return

    stops = {stop: signal.getsignal(stop) for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for stop, former in stops.items():
        if former is not signal.SIG_IGN:
            signal.signal(stop, forward)
    taken = code = b""
    try:
        socket.send_fds(connection, [request[:8]], [0, 1, 2])
        connection.sendall(request[8:])
        connection.sendall(bytes(arrived[:1]))
        listening.append(connection)
        taken = connection.recv(1)
        connection.settimeout(None)
        code = connection.recv(1)
    except OSError:
        pass  # as if it had sent nothing
    if code:
        return code[0]
    if taken:
        os.write(2, b"fastprof: error: the process that the warm helper started has ended without an exit code\n")
        return _NO_ANSWER
    for stop, former in stops.items():
        signal.signal(stop, former)
    for number in arrived[:1]:
        signal.raise_signal(number)
    return None
