"""Values between processes: pickled, then compressed, without compiled programs, which stay with the worker. Until a
result is read, the first ones are in memory, the rest in a temporary file."""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from fastprof.decode.import_log import ImportLog
from fastprof.engines.host_task import Kept, Packed
from fastprof.errors import EngineError
from fastprof.hlo.programs import Program, make_program
from fastprof.inputs.open_files import Spill, SpilledPiece
from fastprof.tables.host_spill import Stored

Beside = bytes | tuple[Spill, SpilledPiece]
"""The spilled part of a value: itself, or where it is in a file."""
_CODEC: Final = "zstd"
_PROTOCOL: Final = 5
_SHORT: Final = 8
"""Characters of texts that are not shared: to look them up takes longer than they are worth."""


def pack(value: object) -> tuple[bytes, int, bytes]:
    """Return the value, its size before it is compressed, and its spilled parts."""
    into, beside = io.BytesIO(), io.BytesIO()

    def put(part: Stored[Any]) -> tuple[Any, ...]:
        packed, size = part.packed()
        place = beside.getbuffer().nbytes
        return _spilled_placeholder, (place, beside.write(packed), size)

    pickler = _Pickler(into, _PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {
        Program: lambda program: (_program_placeholder, (program.described(),)),
        ImportLog: lambda _: (_log_placeholder, ()),
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
    """Return the value. ``beside``: what is set aside of it. ``fetch``: the bytes of the program of an id, which its
    capture has at an offset. ``texts``: those of values before: hosts of a pod have the same ops, and each name is in
    memory once. EngineError: it is not what ``pack`` made."""
    try:
        data = pa.decompress(packed, raw_bytes, codec=_CODEC)
    except OSError as error:
        raise EngineError(f"an answer of a worker was damaged on its way: {error}") from error
    here: dict[str, Callable[..., Any]] = {
        _log_placeholder.__name__: lambda: log,
        _program_placeholder.__name__: lambda described: _fetch_program(described, fetch),
        _spilled_placeholder.__name__: partial(_spill_part, beside),
    }
    return _Unpickler(io.BytesIO(data), here, texts).load()


def _spill_part(beside: Beside, place: int, length: int, size: int) -> Stored[Any]:
    if isinstance(beside, bytes):
        return Stored.of_bytes(beside[place : place + length], size)
    file, piece = beside
    return Stored.at((file,), SpilledPiece(piece.offset + place, length), size)


_CLASSES: Final[dict[tuple[str, str], Any]] = {}
"""Classes of earlier pickles: each pickle names its classes again, and looking them up takes longer than the rest."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> str | None:
        return value if type(value) is str and len(value) > _SHORT else None


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
        cls = _CLASSES.get((module, name))
        if cls is None:
            cls = _CLASSES[module, name] = super().find_class(module, name)
        return cls


def _fetch_program(described: tuple[Any, ...], fetch: Callable[[int, int], bytes]) -> Program:
    number, _, _, offset, *_ = described
    return make_program(described, lambda: fetch(number, offset))


def _program_placeholder(described: tuple[Any, ...]) -> Program:
    """Stands in pickles for what ``unpack`` puts there."""
    raise NotImplementedError


def _log_placeholder() -> ImportLog:
    """Likewise."""
    raise NotImplementedError


def _spilled_placeholder(place: int, length: int, size: int) -> Stored[Any]:
    """Likewise."""
    raise NotImplementedError


_IN_MEMORY: Final = 32 << 20


class Payloads:
    """The values of one round of tasks. What is in memory is forgotten when it is taken."""

    def __init__(self) -> None:
        self._held: dict[SpilledPiece, bytes] = {}
        self.file = Spill()
        self._size = 0

    def stored(self, kept: Kept) -> Kept:
        """Return the answer of a worker, with its bytes here."""
        packed, alone = (None if part is None else self._stored(part) for part in (kept.packed, kept.alone))
        each = tuple({name: self._stored(packed) for name, packed in of_host.items()} for of_host in kept.each)
        return replace(kept, packed=packed, alone=alone, each=each)

    def _stored(self, packed: Packed) -> Packed:
        """Spill values to the file whatever their size."""
        payload = self.put(packed.payload) if isinstance(packed.payload, bytes) else packed.payload
        beside = self.file.write(packed.beside) if isinstance(packed.beside, bytes) and packed.beside else packed.beside
        return replace(packed, payload=payload, beside=beside)

    def put(self, data: bytes) -> SpilledPiece:
        """Return where it is. UnreadableError: the disk has no room for it."""
        if self._size + len(data) > _IN_MEMORY:
            return self.file.write(data)
        self._size += len(data)
        piece = SpilledPiece(-self._size, len(data))  # below the file
        self._held[piece] = data
        return piece

    def read(self, piece: bytes | SpilledPiece) -> bytes:
        """Return what is in a place, or itself."""
        if isinstance(piece, bytes):
            return piece
        return self._held[piece] if piece.offset < 0 else self.file.read(piece)

    def take(self, piece: bytes | SpilledPiece) -> bytes:
        if isinstance(piece, bytes):
            return piece
        return self._held.pop(piece) if piece.offset < 0 else self.file.read(piece)
