"""Signals that ask the command to stop, and the moments when they must wait."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """The process was asked to end; what is half written is cleaned up on the way out."""


def install() -> None:
    """Let SIGTERM and SIGHUP raise Terminated, unless the caller had them ignored, as nohup does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)


def finish() -> None:
    """All is said: a late Ctrl-C ends the process and shows no traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Stops that arrive meanwhile take effect at the end: one that is raised amid imports can get lost there."""
    if threading.current_thread() is not threading.main_thread():  # signals are no business of other threads
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number in _STOPS:
        if callable(before[number]):
            signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
        for stop in arrived[:1]:
            signal.raise_signal(stop)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise Terminated
