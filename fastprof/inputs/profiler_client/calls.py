"""One call of one server: what it answers, or why it does not. grpcio is imported here only."""

from __future__ import annotations

import importlib.util
import re
import threading
from typing import TYPE_CHECKING, Any, Final

from fastprof.errors import UsageError
from fastprof.inputs.profiler_client.statuses import (
    BUSY,
    CANCELLED,
    LATE,
    LOST,
    REFUSED,
    TOO_LARGE,
    UNREACHABLE,
    UNSUPPORTED,
)
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.addresses import Address

_CHANNEL: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # profiled programs are in the network of whoever profiles them
    ("grpc.use_local_subchannel_pool", 1),  # a failed connection is not shared, so the next attempt connects again
)
_NOT_CONNECTED: Final = pattern_of(r"failed to connect|resolv|name resolution|connections to all backends", re.I)
"""What gRPC says of an UNAVAILABLE that happened before the server had the request. Any other may have come after."""
_BUSY: Final = pattern_of(r"another profil|already running", re.I)
_LONGEST: Final = 400


class CallError(Exception):
    """``status``: see ``statuses``. ``reason``: what the server, or gRPC, says."""

    def __init__(self, status: str, reason: str = "") -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


def check_installed() -> None:
    if importlib.util.find_spec("grpc") is None:
        raise UsageError("capturing needs grpcio; install it with: pip install 'fastprof-arrow[capture]'")


class Connection:
    """To one server, for calls from several threads. A context manager; leaving it ends the calls."""

    def __init__(self, address: Address) -> None:
        import grpc

        self._channel: Any = grpc.insecure_channel(_target(address), _CHANNEL)
        self._lock = threading.Lock()
        self._calls: list[Any] = []
        self._is_cancelled = False

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self._channel.close()

    def answer(self, method: str, request: bytes, timeout_s: float | None) -> bytes:
        """Blocks. Raises CallError."""
        import grpc

        try:
            with self._lock:
                if self._is_cancelled:
                    raise CallError(CANCELLED)
                call = self._channel.unary_unary(method).future(request, timeout=timeout_s)
                self._calls.append(call)
            data: bytes = call.result()
        except (grpc.FutureCancelledError, ValueError):  # ValueError: the channel is closed
            raise CallError(CANCELLED) from None
        except grpc.RpcError as error:
            raise _call_error(error) from None
        return data

    def cancel(self) -> None:
        """End the calls: their servers end what they record, and calls that follow are not made."""
        with self._lock:
            self._is_cancelled = True
            calls, self._calls = self._calls, []
        for call in calls:
            call.cancel()


def _target(address: Address) -> str:
    return f"ipv6:{address}" if address.host.startswith("[") else f"dns:///{address}"


def _call_error(error: Any) -> CallError:
    import grpc

    code, details = error.code(), " ".join(str(error.details() or "").split())
    kinds = {
        grpc.StatusCode.UNAVAILABLE: UNREACHABLE if _NOT_CONNECTED.search(details) else LOST,
        grpc.StatusCode.ALREADY_EXISTS: BUSY,
        grpc.StatusCode.DEADLINE_EXCEEDED: LATE,
        grpc.StatusCode.UNIMPLEMENTED: UNSUPPORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED: TOO_LARGE,
        grpc.StatusCode.CANCELLED: LOST,  # by the server: our own raises FutureCancelledError
    }
    status = BUSY if _BUSY.search(details) else kinds.get(code, REFUSED)
    return CallError(status, f"{code.name}: {details[:_LONGEST]}" if details else code.name)
