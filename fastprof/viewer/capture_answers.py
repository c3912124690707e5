"""Answers about captures that the page begins: POST begins or stops one, GET says how far it is."""

from __future__ import annotations

from typing import Any, Final

from fastprof.viewer.page_capture import PageCapture, Rolling
from fastprof.viewer.query import RequestError
from fastprof.viewer.server_state import Call

_HEADER: Final = "x-fastprof"
"""Pages of other origins may not send it unless this server allows that, which it never does."""
_LONGEST_MS: Final = 600_000
_LEAST_EVERY_MS: Final = 1000
_LONGEST_EVERY_MS: Final = 86_400_000
_KEPT: Final = 10
_MOST_KEPT: Final = 1000


def state(call: Call) -> Any:
    return _capture(call).state()


def begun_or_stopped(call: Call) -> Any:
    """With ``stop=1`` the capture that goes on ends early, else one begins, or with ``every_ms`` one after the other.
    RequestError: see ``PageCapture.start``."""
    from fastprof.inputs.profiler_client.service_messages import Options

    capture = _capture(call)
    if _HEADER not in call.request.headers:
        raise RequestError(403, f"a request that captures has the header {_HEADER}")
    if call.given("stop") is not None:
        capture.stop()
        return capture.state()
    options = Options(
        call.whole("duration_ms", 2000, least=1, most=_LONGEST_MS),
        call.whole("host_level", 2, least=0, most=3),
        call.whole("device_level", 1, least=0, most=1),
        call.whole("python_level", 0, least=0, most=1),
    )
    capture.start(call.all("address"), options, _rolling(call))
    return capture.state()


def _rolling(call: Call) -> Rolling | None:
    if call.given("every_ms") is None:
        if call.given("keep") is not None:
            raise RequestError(400, "keep is of captures again and again: with every_ms")
        return None
    every_ms = call.whole("every_ms", 0, least=_LEAST_EVERY_MS, most=_LONGEST_EVERY_MS)
    return Rolling(every_ms, call.whole("keep", _KEPT, least=1, most=_MOST_KEPT))


def _capture(call: Call) -> PageCapture:
    capture = call.state.capture
    if capture is None:
        raise RequestError(404, "this server takes no captures; start it with --capture ADDRESS")
    return capture
