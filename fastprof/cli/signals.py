"""Signals that stop the command, and moments when they must wait."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """The process received a request to end. Half-written output is removed on the way out."""


def install() -> None:
    """Make SIGTERM and SIGHUP raise Terminated, unless the caller ignores them, as nohup does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)


def finish() -> None:
    """From now on signals end the process without a traceback. A pool of processes ends by itself, and at once: who
    kills it leaves its semaphores behind."""
    then = signal.SIG_IGN if "multiprocessing.synchronize" in sys.modules else signal.SIG_DFL
    for number in _STOPS:
        if callable(signal.getsignal(number)):
            signal.signal(number, then)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Delay signals until the end of the block: an exception raised during an import can get lost there."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread handles signals
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


@contextlib.contextmanager
def counted() -> Iterator[list[int]]:
    """Until the end of the block Ctrl-C only lengthens the list: it means something else than an end at once."""
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    before = signal.signal(signal.SIGINT, lambda number, _frame: arrived.append(number))
    try:
        yield arrived
    finally:
        signal.signal(signal.SIGINT, before)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise Terminated
