"""Captures that the page begins: of the servers that were named at the start, into the log directory, one at a time,
once or again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import FastprofError
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.query import RequestError, name_internal_error

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.profiler_servers import Address
    from fastprof.inputs.profiler_client.service_messages import CaptureOptions
    from fastprof.inputs.profiler_client.workers import Crew, Outcome
    from fastprof.profile.captured_run import NewestRuns

_COMMON_DELAY_S: Final = 3.0
"""Delay before several servers begin at once."""
_GRACE_S: Final = 30.0
"""Time for an answer to a repeated capture, after its end. It is the time to the next capture if that is longer. A
later server does not hold up the others."""


@dataclass(frozen=True, slots=True)
class RollingCapture:
    """Repeated captures: ``every_ms`` after the one before began, until they are stopped. The ``keep`` newest runs
    stay."""

    every_ms: int
    keep: int


class PageCapture:
    """Captures of a page. ``addresses``: all that a page may name."""

    def __init__(self, addresses: Sequence[Address], log_directory: str) -> None:
        self._allowed = {str(address): address for address in addresses}
        self._log_directory = log_directory
        self._lock = threading.Lock()
        self._crew: Crew | None = None
        self._thread: threading.Thread | None = None
        self._begin_s = self._duration_s = 0.0
        self._outcomes: list[Outcome] = []
        self._run: str | None = None
        self._error: str | None = None
        self._rolling: RollingCapture | None = None
        self._stopped = threading.Event()
        self._next_s: float | None = None
        self._taken_count = self._failed_count = 0

    def state(self) -> dict[str, Any]:
        """Return the state of captures. ``stage``: of the capture that goes on, or None, with ``done`` of ``total``;
        then the last one that ended: ``workers``, ``run`` if something was written, ``error`` if it could not begin.
        ``every_ms``, ``keep``: of repeated captures, else None; ``taken``: how many have ended, ``failed``: those of
        them in which a server delivered nothing."""
        stage, done, total = self._stage()
        workers = [
            {"address": outcome.address, "status": outcome.status, "reason": outcome.reason}
            for outcome in self._outcomes
        ]
        return {
            "addresses": list(self._allowed),
            "stage": stage,
            "done": done,
            "total": total,
            "workers": workers,
            "run": self._run,
            "error": self._error,
            "every_ms": self._rolling.every_ms if self._rolling else None,
            "keep": self._rolling.keep if self._rolling else None,
            "taken": self._taken_count,
            "failed": self._failed_count,
        }

    def start(self, addresses: Sequence[str], options: CaptureOptions, rolling: RollingCapture | None = None) -> None:
        """Start a capture in a thread. No address: all; without ``rolling``: one capture. RequestError 403: an address
        was not named at the start; 409: a capture goes on."""
        strangers = [address for address in addresses if address not in self._allowed]
        if strangers:
            raise RequestError(403, f"{strangers[0][:200]!r} is not among the servers that fastprof serve was given")
        chosen = [server for text, server in self._allowed.items() if not addresses or text in addresses]
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise RequestError(409, "a capture is being taken; wait for its end, or stop it")
            self._outcomes, self._run, self._error, self._crew = [], None, None, None
            self._rolling, self._next_s = rolling, None
            self._taken_count = self._failed_count = 0
            self._stopped.clear()
            delay = _COMMON_DELAY_S if len(chosen) > 1 else 0.0
            self._begin_s, self._duration_s = time.monotonic() + delay, options.duration_ms / 1000
            self._thread = threading.Thread(
                target=self._captures, args=(chosen, options, rolling), daemon=True, name="fastprof-capture"
            )
            self._thread.start()

    def stop(self) -> None:
        """End the capture early, and those that would follow; what was recorded stays."""
        self._stopped.set()
        crew = self._crew
        if crew is not None:
            crew.terminate()

    def cancel(self) -> None:
        """Give up the capture, as the server ends: nothing is waited for, and no program is left recording."""
        self._stopped.set()
        crew, thread = self._crew, self._thread
        if crew is not None and thread is not None:
            crew.cancel()
            thread.join(1.0)

    def _stage(self) -> tuple[str | None, int, int]:
        crew, thread = self._crew, self._thread
        if thread is None or not thread.is_alive():
            return None, 0, 0
        if self._next_s is not None and self._rolling is not None:
            left = max(0, int(1000 * (self._next_s - time.monotonic())))
            return "until the next capture", max(0, self._rolling.every_ms - left), self._rolling.every_ms
        passed = time.monotonic() - self._begin_s
        if passed < 0:
            return "until all begin", 0, 0
        if passed < self._duration_s:
            return "capturing", int(1000 * passed), int(1000 * self._duration_s)
        return "waiting for captures", crew.answered if crew is not None else 0, len(crew.workers) if crew else 0

    def _captures(self, addresses: Sequence[Address], options: CaptureOptions, rolling: RollingCapture | None) -> None:
        from fastprof.profile.captured_run import NewestRuns

        delay = _COMMON_DELAY_S if len(addresses) > 1 else 0.0
        newest = NewestRuns(rolling.keep if rolling else None)
        grace = None if rolling is None else max(_GRACE_S, rolling.every_ms / 1000)
        while True:
            begun_s = time.monotonic()
            self._begin_s, self._next_s = begun_s + delay, None
            self._capture(addresses, options, delay, grace, newest)
            if rolling is None:
                return
            self._next_s = begun_s + rolling.every_ms / 1000
            if self._stopped.wait(max(0.0, self._next_s - time.monotonic())):
                return

    def _capture(
        self,
        addresses: Sequence[Address],
        options: CaptureOptions,
        delay: float,
        grace: float | None,
        newest: NewestRuns,
    ) -> None:
        from fastprof.inputs.profiler_client import workers
        from fastprof.inputs.profiler_client.service_messages import CaptureRequest
        from fastprof.profile.captured_run import CapturedRun

        try:
            run = CapturedRun(self._log_directory)
            try:
                plan = workers.CapturePlan(start_ns=time.time_ns() + int(delay * 10**9) if delay else 0, grace_s=grace)
                every = [
                    workers.Worker(address, CaptureRequest(options, run.name, address.as_host), plan, run.save)
                    for address in addresses
                ]
                with workers.Crew(every) as crew:
                    self._crew = crew
                    if self._stopped.is_set():  # before there was a crew
                        crew.terminate()
                    while not crew.wait(60.0):
                        pass
                self._outcomes = crew.outcomes()
                self._run = run.name if any(outcome.file for outcome in self._outcomes) else None
            finally:
                run.remove_if_empty()
            if self._run is not None:
                newest.add(run)
            self._error = None
        except FastprofError as error:
            self._error = str(error)
        except Exception as error:  # noqa: BLE001  a thread has no caller: the page says it
            self._error = name_internal_error(error)
        is_sound = self._error is None and all(outcome.delivered for outcome in self._outcomes)
        self._taken_count, self._failed_count = self._taken_count + 1, self._failed_count + (not is_sound)
