"""A profiler server made with grpcio, whose messages protobuf reads and writes; and a proxy that breaks connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# message: (number, name, type); a name in capitals is a message, "*" is repeated, "|" a member of a oneof.
_FIELDS: dict[str, list[tuple[int, str, str]]] = {
    "ProfileRequest": [
        (1, "duration_ms", "uint64"), (2, "max_events", "uint64"), (3, "tools", "*string"),
        (4, "opts", "ProfileOptions"), (5, "repository_root", "string"), (6, "session_id", "string"),
        (7, "host_name", "string"), (9, "emit_xspace", "bool"),
    ],
    "ProfileOptions": [
        (1, "include_dataset_ops", "bool"), (2, "host_tracer_level", "uint32"), (3, "device_tracer_level", "uint32"),
        (4, "python_tracer_level", "uint32"), (5, "version", "uint32"), (7, "enable_hlo_proto", "bool"),
        (8, "start_timestamp_ns", "uint64"), (9, "duration_ms", "uint64"), (10, "repository_path", "string"),
        (12, "advanced_configuration", "*Entry"), (14, "session_id", "string"), (15, "override_hostname", "string"),
    ],
    "Entry": [(1, "key", "string"), (2, "value", "Setting")],
    "Setting": [(1, "string_value", "|kind string"), (2, "bool_value", "|kind bool"),
                (3, "int64_value", "|kind int64")],
    "ProfileResponse": [(6, "tool_data", "*ToolData"), (7, "empty_trace", "bool"), (8, "xspace", "bytes")],
    "ToolData": [(1, "name", "string"), (2, "data", "bytes")],
    "TerminateRequest": [(1, "session_id", "string")],
    "MonitorRequest": [(1, "duration_ms", "uint64"), (2, "monitoring_level", "int32"), (3, "timestamp", "bool")],
    "MonitorResponse": [(1, "data", "string"), (10, "monitor_result", "MonitorResult")],
    "MonitorResult": [
        (1, "response_type", "int32"), (2, "device_idle_time_percent", "double"),
        (3, "matrix_unit_utilization_percent", "double"), (4, "step_time_ms_avg", "double"),
        (5, "step_time_ms_min", "double"), (6, "step_time_ms_max", "double"), (7, "infeed_percent_avg", "double"),
        (8, "infeed_percent_min", "double"), (9, "infeed_percent_max", "double"),
    ],
}  # fmt: skip


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="profiler_service.proto", package="test", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            one = message.field.add(name=field, number=number, label=3 if kind[0] == "*" else 1)
            if kind[0] == "|":
                one.oneof_index = 0
                if not message.oneof_decl:
                    message.oneof_decl.add(name="kind")
            kind = kind.lstrip("*").rpartition(" ")[2]
            if kind in _FIELDS:
                one.type, one.type_name = 11, f".test.{kind}"
            else:
                one.type = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"test.{name}")) for name in _FIELDS}


def message(name: str, **fields: Any) -> Any:
    return _classes()[name](**fields)


def captured(xspace: bytes, *, empty: bool = False) -> bytes:
    """The answer to Profile that has a capture."""
    data: bytes = message("ProfileResponse", xspace=xspace, empty_trace=empty).SerializeToString()
    return data


Profile = Callable[[Any, grpc.ServicerContext], bytes]


class ProfilerServer:
    """``profile``: answers a request; ``monitor``: the bytes of its answer; ``others``: those of other calls, by name.
    ``requests``: what came to Profile, ``called``: to others, in order."""

    def __init__(
        self, profile: Profile | bytes = b"", *, monitor: bytes | None = None, others: Mapping[str, bytes] | None = None
    ) -> None:
        self.requests: list[Any] = []
        self.monitored: list[Any] = []
        self.called: list[tuple[str, bytes]] = []
        self.others = others or {}
        self.terminated = threading.Event()
        self.began = threading.Event()
        self.left = threading.Event()
        """The client has ended a call before its answer."""
        self._profile, self._monitor = profile, monitor
        self.port = 0

    def on_profile(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        request = message("ProfileRequest")
        request.ParseFromString(data)
        self.requests.append(request)
        context.add_callback(self.left.set)
        self.began.set()
        return self._profile if isinstance(self._profile, bytes) else self._profile(request, context)

    def on_terminate(self, data: bytes, _context: grpc.ServicerContext) -> bytes:
        request = message("TerminateRequest")
        request.ParseFromString(data)
        assert request.session_id == self.requests[-1].session_id
        self.terminated.set()
        return b""

    def on_other(self, name: str) -> Callable[[bytes, object], bytes]:
        def answer(data: bytes, _context: object) -> bytes:
            self.called.append((name, data))
            return self.others[name]

        return answer

    def on_monitor(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        request = message("MonitorRequest")
        request.ParseFromString(data)
        self.monitored.append(request)
        if self._monitor is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unimplemented.")
        return self._monitor or b""


@contextmanager
def serving(server: ProfilerServer, host: str = "127.0.0.1") -> Iterator[str]:
    """The address of the server."""
    handlers = {
        "Profile": grpc.unary_unary_rpc_method_handler(server.on_profile),
        "Terminate": grpc.unary_unary_rpc_method_handler(server.on_terminate),
        "Monitor": grpc.unary_unary_rpc_method_handler(server.on_monitor),
    }
    handlers |= {name: grpc.unary_unary_rpc_method_handler(server.on_other(name)) for name in server.others}
    threads = ThreadPoolExecutor(4)
    options = (("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))
    listening = grpc.server(threads, options=options)
    listening.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tensorflow.ProfilerService", handlers),))
    server.port = listening.add_insecure_port(f"{host}:0")
    listening.start()
    try:
        yield f"{host}:{server.port}"
    finally:
        listening.stop(0).wait()
        threads.shutdown(wait=True)


@contextmanager
def breaking_after(port: int, size: int) -> Iterator[str]:
    """The address of a proxy to a port of this machine, which breaks the connection after these bytes of answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_relay, args=(listening, port, size))
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def _relay(listening: socket.socket, port: int, size: int) -> None:
    client, _ = listening.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        forward = threading.Thread(target=_copy, args=(client, server, 1 << 40))
        forward.start()
        _copy(server, client, size)
        for one in (client, server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        forward.join()


def _copy(source: socket.socket, target: socket.socket, size: int) -> None:
    with suppress(OSError):
        while size > 0 and (data := source.recv(min(size, 1 << 16))):
            target.sendall(data)
            size -= len(data)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
