"""Values on their way between processes: pickled, then compressed. Compiled programs stay with the worker.

    value ──► pickle, zstd ──────────────► payload, unpacked each time that the value is looked at
      └─ its parts that are set aside ───► beside it, as they are: each is unpacked when it is looked at itself

A worker packs a program as its description; where it is unpacked, its bytes are fetched when they are read, so that
10,000 hosts that ran one program send it once. Logs do not travel: what refers to one refers to the session's.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from fastprof.decode.import_log import ImportLog
from fastprof.errors import EngineError
from fastprof.hlo.programs import Program, program_of_bytes
from fastprof.inputs.spill import Piece, Spill
from fastprof.tables.set_aside import Stored

Beside = bytes | tuple[Spill, Piece]
"""What is set aside of a value: itself, or where it is in a file."""
_CODEC: Final = "zstd"
_PROTOCOL: Final = 5
_SHORT: Final = 8
"""Characters of texts that are not shared: to look them up takes longer than they are worth."""


def pack(value: object) -> tuple[bytes, int, bytes]:
    """The value, its size before it is compressed, and what is set aside of it."""
    into, beside = io.BytesIO(), io.BytesIO()

    def put(part: Stored[Any]) -> tuple[Any, ...]:
        packed, size = part.packed()
        place = beside.getbuffer().nbytes
        return _stored, (place, beside.write(packed), size)

    pickler = _Pickler(into, _PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {
        Program: lambda program: (_program, (program.described(),)),
        ImportLog: lambda _: (_log, ()),
        Stored: put,
    }
    pickler.dump(value)
    data = into.getbuffer()
    return pa.compress(data, codec=_CODEC, asbytes=True), len(data), beside.getvalue()


def unpack(
    packed: bytes,
    raw_bytes: int,
    beside: Beside,
    log: ImportLog,
    fetch: Callable[[int, int], bytes],
    texts: dict[str, str],
) -> Any:
    """The value. ``beside``: what is set aside of it. ``fetch``: the bytes of the program of an id, which its capture
    has at an offset. ``texts``: those of values before: hosts of a pod have the same ops, and each name is in memory
    once. EngineError: it is not what ``pack`` made."""
    try:
        data = pa.decompress(packed, raw_bytes, codec=_CODEC)
    except OSError as error:
        raise EngineError(f"an answer of a worker was damaged on its way: {error}") from error
    here: dict[str, Callable[..., Any]] = {
        _log.__name__: lambda: log,
        _program.__name__: lambda described: _fetched(described, fetch),
        _stored.__name__: partial(_set_aside, beside),
    }
    return _Unpickler(io.BytesIO(data), here, texts).load()


def _set_aside(beside: Beside, place: int, length: int, size: int) -> Stored[Any]:
    if isinstance(beside, bytes):
        return Stored.of_bytes(beside[place : place + length], size)
    file, piece = beside
    return Stored.at((file,), Piece(piece.offset + place, length), size)


_CLASSES: Final[dict[tuple[str, str], Any]] = {}
"""Those of pickles before: each pickle names its classes again, and to look them up takes longer than the rest."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, one: object) -> str | None:
        return one if type(one) is str and len(one) > _SHORT else None


class _Unpickler(pickle.Unpickler):
    """``here``: by name, what makes the values that this module stands in for."""

    def __init__(self, data: io.BytesIO, here: Mapping[str, Callable[..., Any]], texts: dict[str, str]) -> None:
        super().__init__(data)
        self._here, self._texts = here, texts

    def persistent_load(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def find_class(self, module: str, name: str, /) -> Any:
        if module == __name__:
            return self._here[name]
        found = _CLASSES.get((module, name))
        if found is None:
            found = _CLASSES[module, name] = super().find_class(module, name)
        return found


def _fetched(described: tuple[Any, ...], fetch: Callable[[int, int], bytes]) -> Program:
    number, _, _, offset, *_ = described
    return program_of_bytes(described, lambda: fetch(number, offset))


def _program(described: tuple[Any, ...]) -> Program:
    """Stands in pickles for what ``unpack`` puts there."""
    raise NotImplementedError


def _log() -> ImportLog:
    """Likewise."""
    raise NotImplementedError


def _stored(place: int, length: int, size: int) -> Stored[Any]:
    """Likewise."""
    raise NotImplementedError
