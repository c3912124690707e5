"""The messages of the profiler's service: requests to bytes, answers to their parts.

A capture is a part of the answer's bytes as they came: it is never decoded and encoded again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import chain, islice
from typing import Final

from fastprof.inputs import message
from fastprof.inputs.message import BadMessageError, Field
from fastprof.schema.message_fields import put, put_all
from fastprof.schema.value_classes import dataclass

SERVICE: Final = "/tensorflow.ProfilerService/"
PROFILE, TERMINATE, MONITOR = f"{SERVICE}Profile", f"{SERVICE}Terminate", f"{SERVICE}Monitor"
START: Final = (f"{SERVICE}StartContinuousProfiling", f"{SERVICE}ContinuousProfiling")
SNAPSHOT: Final = (f"{SERVICE}GetSnapshot", f"{SERVICE}GetSnapShot")
STOP: Final = (f"{SERVICE}StopContinuousProfiling",)
"""Continuous profiling: the names of each call, what servers of 2025 called it last."""

Setting = str | bool | int
"""A value of an advanced option. Some servers refuse a number that is sent as a text."""

_TOOLS: Final = (
    "trace_viewer", "op_profile", "input_pipeline", "kernel_stats", "memory_viewer", "memory_profile", "overview_page",
    "pod_viewer", "tensorflow_stats", "xplane.pb",
)  # fmt: skip
"""What XProf's client asks for. Servers that write captures themselves have always been asked so."""
_MOST_EVENTS: Final = 1_000_000
_VERSION: Final = 1
"""The version of the options: a server replaces options of version 0 by its defaults."""
_MOST_FIELDS: Final = 10_000
"""Most fields of an answer, which comes from another program and may be anything."""
_MOST_PARTS: Final = 100
"""Most fields of a message in an answer."""
_CAPTURE: Final = "xplane.pb"
_PLANES, _ERRORS, _HOSTNAMES = 1, 2, 4
"""Fields of an XSpace; the third is warnings."""
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What to record, and for how long."""

    duration_ms: int
    host_level: int = 2
    device_level: int = 1
    python_level: int = 0
    advanced: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """One capture of one worker. ``start_ns``: Unix time on the server's clock, 0 for at once. ``root``: the directory
    of runs in which the server writes the capture; empty: it comes with the answer."""

    options: CaptureOptions
    session: str
    host: str
    start_ns: int = 0
    root: str = ""
    override: str = ""

    def to_bytes(self) -> bytes:
        return b"".join(_encode_request(self))


def _encode_request(request: CaptureRequest) -> Iterator[bytes]:
    yield put(1, request.options.duration_ms) + put(2, _MOST_EVENTS)
    yield put_all(3, (name.encode() for name in _TOOLS))
    yield put(4, b"".join(_encode_options(request)))
    yield _encode_text(5, request.root) + _encode_text(6, request.session) + _encode_text(7, request.host)
    yield b"" if request.root else put(9, 1)


def _encode_options(request: CaptureRequest) -> Iterator[bytes]:
    options = request.options
    levels = (options.host_level, options.device_level, options.python_level)
    yield put(1, 1)
    yield from (put(number, level) for number, level in enumerate(levels, 2))
    yield put(5, _VERSION) + put(7, 1) + put(8, request.start_ns) + put(9, options.duration_ms)
    yield _encode_text(10, request.root)
    for name, value in options.advanced.items():
        kind = {str: 1, bool: 2, int: 3}[type(value)]
        yield put(12, put(1, name) + put(2, put(kind, value)))
    yield _encode_text(14, request.session) + _encode_text(15, request.override)


def _encode_text(number: int, value: str) -> bytes:
    return put(number, value) if value else b""


@dataclass(frozen=True, slots=True)
class CaptureAnswer:
    """``pieces``: the XSpace, one after the other. ``empty``: the server recorded no event; there may be an XSpace."""

    pieces: tuple[memoryview, ...]
    empty: bool

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))


def parse_profile_answer(data: memoryview) -> CaptureAnswer:
    """Raise BadMessageError. Old servers send the XSpace as the data of a tool, which counts without another."""
    pieces: list[memoryview] = []
    old: list[memoryview] = []
    empty = False
    for number, value in _read_fields(data):
        if number == 8 and isinstance(value, memoryview):
            pieces.append(value)
        elif number == 7:
            empty = bool(value)
        elif number == 6 and isinstance(value, memoryview):
            tool = {part: message.get_message(content) for part, content in _read_fields(value, _MOST_PARTS)}
            if bytes(tool.get(1, b"")[:64]).decode("utf-8", "replace") == _CAPTURE:
                old = [tool.get(2, memoryview(b""))]
    return CaptureAnswer(tuple(pieces or old), empty)


def check_capture(pieces: tuple[memoryview, ...]) -> None:
    """Raise BadMessageError: by its own fields it is not an XSpace, or has no plane. Planes are not looked into."""
    planes, first_error = 0, ""
    for piece_field in _read_pieces(pieces):
        if piece_field.number <= _HOSTNAMES and not isinstance(piece_field.value, memoryview):
            raise BadMessageError(f"field {piece_field.number} of an XSpace is not a number", piece_field.at)
        planes += piece_field.number == _PLANES
        if piece_field.number == _ERRORS:
            first_error = first_error or message.decode_text(piece_field.value)[:_LONGEST]
    if not planes:
        raise BadMessageError("it has no plane" + (f", and says: {first_error}" if first_error else ""), 0)


def list_hostnames(pieces: tuple[memoryview, ...]) -> list[str]:
    """Return the names of machines that an XSpace records; none if it is damaged before them."""
    names: list[str] = []
    with suppress(BadMessageError):
        names += (message.decode_text(part.value) for part in _read_pieces(pieces) if part.number == _HOSTNAMES)
    return names


def _read_pieces(pieces: tuple[memoryview, ...]) -> Iterator[Field]:
    """Yield the first fields of an XSpace."""
    return islice(chain.from_iterable(map(message.read_fields, pieces)), _MOST_FIELDS)


def make_terminate_request(session: str) -> bytes:
    return put(1, session)


def make_monitor_request(duration_ms: int, level: int, timestamp: bool) -> bytes:
    return put(1, duration_ms) + put(2, level) + (put(3, 1) if timestamp else b"")


_FIGURES: Final = {
    2: "device_idle_time_percent",
    3: "matrix_unit_utilization_percent",
    4: "step_time_ms_avg",
    5: "step_time_ms_min",
    6: "step_time_ms_max",
    7: "infeed_percent_avg",
    8: "infeed_percent_min",
    9: "infeed_percent_max",
}
FIGURES: Final = tuple(_FIGURES.values())
_KNOWN: Final = ((), (3,), (3, 2), tuple(_FIGURES))
"""The figures of each kind of answer. A figure that is 0 is not written, so the kind decides."""


def parse_monitor_answer(data: memoryview) -> tuple[str, dict[str, float]]:
    """Return the text for people, and the figures that are known. Raises BadMessageError."""
    text, kind, values = "", 0, dict.fromkeys(_FIGURES, 0.0)
    for number, value in _read_fields(data):
        if number == 1:
            text = message.decode_text(value)
        elif number == 10 and isinstance(value, memoryview):
            for part, figure in _read_fields(value, _MOST_PARTS):
                if part == 1 and isinstance(figure, int):
                    kind = figure
                elif part in values and isinstance(figure, int):
                    (values[part],) = struct.unpack("<d", struct.pack("<Q", figure))
    known = _KNOWN[kind] if kind < len(_KNOWN) else _KNOWN[-1]
    return text, {name: values[number] for number, name in _FIGURES.items() if number in known}


def _read_fields(data: memoryview, most: int = _MOST_FIELDS) -> Iterator[tuple[int, int | memoryview]]:
    every = message.read_fields(data)
    for content in islice(every, most):
        yield content.number, content.value
    if next(every, None) is not None:
        raise BadMessageError(f"more than {most:,} fields", 0)
