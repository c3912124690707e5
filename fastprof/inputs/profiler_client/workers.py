"""Captures of several workers at once: each is called by a thread of its own, so that none waits for another.

All begin at one moment, on their own clocks. What a worker delivers is saved in its thread as soon as it comes; what it
does not deliver is an outcome with a reason. A worker is called again only if it cannot have begun: it could not be
reached, or was busy with another capture.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Final

from fastprof.errors import FastprofError
from fastprof.inputs.message_bytes import BadMessageError
from fastprof.inputs.profiler_client.addresses import Address
from fastprof.inputs.profiler_client.calls import CallError, Connection
from fastprof.inputs.profiler_client.service_messages import (
    MONITOR,
    PROFILE,
    SNAPSHOT,
    START,
    STOP,
    TERMINATE,
    Request,
    check_capture,
    hostnames,
    monitor_answer,
    monitor_request,
    profile_answer,
    terminate_request,
)
from fastprof.inputs.profiler_client.statuses import (
    AGAIN,
    BAD_ANSWER,
    CANCELLED,
    DELIVERED,
    DONE,
    EMPTY,
    ON_SERVER,
    UNSUPPORTED,
    UNWRITTEN,
    WRITTEN,
)
from fastprof.schema.value_classes import dataclass

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_LEAST_GRACE_S: Final = 300.0
"""After the end of a capture its server makes the XSpace and sends it: gigabytes take minutes."""
_TERMINATE_S: Final = 5.0
"""A server that does not answer this soon will not end its capture early either."""
_GIVING_UP_S: Final = 2.0
"""A search for the address of a name cannot be ended. Its thread makes no call, and is not waited for longer."""

Save = Callable[[str, Sequence[memoryview]], str]
"""Writes the capture of a host; returns the file. Called from threads, one a worker. Raises FastprofError, OSError."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one worker. ``size``: bytes of its capture; ``file``: where it was written, here or on the server."""

    address: str
    host: str
    status: str
    reason: str = ""
    size: int = 0
    attempts: int = 1
    file: str = ""

    @property
    def delivered(self) -> bool:
        return self.status in DELIVERED


@dataclass(frozen=True, slots=True)
class Plan:
    """``start_ns``: Unix time at which all begin, 0 for at once. ``grace_s``: how long after the end of the capture an
    answer may take; None: five minutes, or as long as the capture if that is longer."""

    attempts: int = 3
    start_ns: int = 0
    grace_s: float | None = None
    recorded_hosts: bool = False
    """Whether captures are named after the machine that they record, instead of the address."""


@dataclass(slots=True)
class Worker:
    """A server, and what is requested of it."""

    address: Address
    request: Request
    plan: Plan
    save: Save | None
    """None: the server writes."""
    methods: tuple[str, ...] = (PROFILE,)
    """The names of the call. A server that does not know one is called by the next."""
    outcome: Outcome | None = None
    has_answer: bool = False
    _connection: Connection | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def perform(self) -> None:
        """Sets the outcome; never raises."""
        pause = _FIRST_PAUSE_S
        for attempt in range(1, self.plan.attempts + 1):
            outcome = replace(self._attempt(), attempts=attempt)
            if outcome.status not in AGAIN or attempt == self.plan.attempts or self._stopped.wait(pause):
                break
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self.outcome = outcome

    def _attempt(self) -> Outcome:
        try:
            with Connection(self.address) as connection:
                self._connection = connection
                if self._stopped.is_set():  # before there was a connection to stop
                    raise CallError(CANCELLED)
                data = self._called(connection)
            self.has_answer = True
            return self.ended(DONE) if self.methods in (START, STOP) else self._saved(data)
        except CallError as failure:
            return self.ended(failure.status, failure.reason)
        except BadMessageError as error:
            return self.ended(BAD_ANSWER, f"{error.text} (at byte {error.at:,} of the answer)")
        except (FastprofError, OSError) as error:
            return self.ended(UNWRITTEN, str(error))
        except Exception as error:  # noqa: BLE001  a thread has no caller: whatever it is, it is an outcome
            return self.ended(UNWRITTEN, f"internal error: {type(error).__name__}: {error}")
        finally:
            self._connection = None

    def _called(self, connection: Connection) -> memoryview:
        request = replace(self.request, start_ns=self.plan.start_ns)
        message = b"" if self.methods in (SNAPSHOT, STOP) else request.to_bytes()
        for method in self.methods[:-1]:
            try:
                return connection.answer(method, message, self._timeout_s())
            except CallError as error:
                if error.status != UNSUPPORTED:
                    raise
        return connection.answer(self.methods[-1], message, self._timeout_s())

    def _timeout_s(self) -> float:
        seconds = self.request.options.duration_ms / 1000
        lead = max(0.0, self.plan.start_ns / 1e9 - time.time())
        return lead + seconds + (max(_LEAST_GRACE_S, seconds) if self.plan.grace_s is None else self.plan.grace_s)

    def _saved(self, data: memoryview) -> Outcome:
        answer = profile_answer(data)
        if self.save is None:
            file = f"{self.request.root}/{self.request.session}/{self.request.override or self.request.host}.xplane.pb"
            return self.ended(EMPTY if answer.empty else ON_SERVER, file=file)
        if not answer.size:
            reason = "" if answer.empty else "the answer has no capture: the server may be too old to send it"
            return self.ended(EMPTY if answer.empty else BAD_ANSWER, reason)
        if not answer.empty:
            try:
                check_capture(answer.pieces)
            except BadMessageError as error:
                where = f" (at byte {error.at:,})" if error.at else ""
                reason = f"{answer.size:,} bytes came that are not a capture, and were not written: {error.text}{where}"
                return self.ended(BAD_ANSWER, reason)
        names = hostnames(answer.pieces) if self.plan.recorded_hosts else []
        host = names[0] if names else self.request.override or self.request.host
        file = self.save(host, answer.pieces)
        return replace(self.ended(EMPTY if answer.empty else WRITTEN, size=answer.size, file=file), host=host)

    def ended(self, status: str, reason: str = "", *, size: int = 0, file: str = "") -> Outcome:
        host = self.request.override or self.request.host
        return Outcome(str(self.address), host, status, reason, size, file=file)

    def terminate(self) -> None:
        """End the capture early and keep what was recorded. A server that does not hear it is cancelled."""
        self._stopped.set()
        connection = self._connection
        if connection is None:
            return
        try:
            connection.answer(TERMINATE, terminate_request(self.request.session), _TERMINATE_S)
        except CallError:
            connection.cancel()

    def cancel(self) -> None:
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.cancel()


def monitored(address: Address, duration_ms: int, level: int, grace_s: float) -> tuple[str, dict[str, float]]:
    """What a server reports of itself: the text for people, and figures. Raises CallError."""
    request = monitor_request(duration_ms, level, timestamp=True)
    with Connection(address) as connection:
        data = connection.answer(MONITOR, request, duration_ms / 1000 + grace_s)
    try:
        return monitor_answer(data)
    except BadMessageError as error:
        raise CallError(BAD_ANSWER, error.text) from None


class Crew:
    """All workers of one capture. A context manager; leaving it cancels those that have not answered."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self._threads = [threading.Thread(target=one.perform, daemon=True) for one in workers]

    def __enter__(self) -> Crew:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        end = time.monotonic() + _GIVING_UP_S
        for one, thread in zip(self.workers, self._threads, strict=True):
            thread.join(max(0.0, end - time.monotonic()))
            if one.has_answer:  # and saves it
                thread.join()

    @property
    def answered(self) -> int:
        return sum(not thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float) -> bool:
        """Whether all have ended, after at most this time."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return self.answered == len(self._threads)

    def terminate(self) -> None:
        """Returns at once."""
        for one in self.workers:
            threading.Thread(target=one.terminate, daemon=True).start()

    def cancel(self) -> None:
        for one in self.workers:
            one.cancel()

    def outcomes(self) -> list[Outcome]:
        return [one.outcome or one.ended(CANCELLED) for one in self.workers]
