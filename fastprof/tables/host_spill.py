"""Spills large values of a host: in memory while the host is the last one read, then in a temporary file."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from fastprof.errors import FastprofError
from fastprof.inputs.open_files import Spill, SpilledPiece

T = TypeVar("T")
_LEVEL: Final = 3
"""The level of zstd: columns of events become a third of what the lowest level makes of them, in less time."""
_FULL: Final = 1 << 32
"""Bytes of a file; the next value begins another, so that files go as what refers to them goes."""
_BATCH: Final = 1 << 16
"""Rows that are written together."""
_DAMAGED: Final = (FastprofError, OverflowError)


class Stored(Generic[T]):
    """A value in a temporary file, compressed. What is stored of its parts stays where it is."""

    __slots__ = ("_files", "_piece", "_size")

    def __init__(self, value: T) -> None:
        """Raises UnreadableError if the disk has no room for it."""
        packed, self._size, others = _pack_value(value)
        file = _SHELF.file()
        self._files = (file, *others)
        """That of the value, then those of its parts."""
        self._piece = file.write(packed)

    @classmethod
    def at(cls, files: tuple[Spill, ...], piece: SpilledPiece, size: int) -> Stored[T]:
        """Return what is in the first of the files already. ``size``: before it was compressed."""
        value = cls.__new__(cls)
        value._files, value._piece, value._size = files, piece, size
        return value

    @classmethod
    def of_bytes(cls, packed: bytes, size: int) -> Stored[T]:
        """Unpack what ``packed`` returned."""
        file = _SHELF.file()
        return cls.at((file,), file.write(packed), size)

    def value(self) -> T:
        data = _get_codec().decompress(self._files[0].read(self._piece), self._size, asbytes=True)
        has_parts = len(self._files) > 1
        value: T = _SpillUnpickler(data, self._files).load() if has_parts else pickle.loads(data)
        return value

    def part(self, place: int, length: int, size: int) -> Stored[Any]:
        """Return what is within its bytes."""
        return Stored.at(self._files, SpilledPiece(self._piece.offset + place, length), size)

    def packed(self) -> tuple[bytes, int]:
        """Return the value, with all parts, and its size before it is compressed."""
        if len(self._files) == 1:
            return self._files[0].read(self._piece), self._size
        return _compress_data(pickle.dumps(self.value(), pickle.HIGHEST_PROTOCOL))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of_bytes, self.packed()

    def within(self, files: list[Spill]) -> tuple[Any, ...]:
        """Pack it as a part of another value, whose parts have these files; its own are added to them."""
        files += [file for file in self._files if file not in files]
        return _spilled_placeholder, ([files.index(file) for file in self._files], self._piece, self._size)


class StoredByName(Generic[T]):
    """Values in a temporary file, each compressed and read by itself."""

    def __init__(self, values: Mapping[str, T]) -> None:
        """Raises UnreadableError if the disk has no room for them."""
        every, self._places = io.BytesIO(), dict[str, tuple[int, int, int]]()
        for name, value in values.items():
            packed, size = _compress_data(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
            place = every.getbuffer().nbytes
            self._places[name] = place, every.write(packed), size
        self._every: Stored[Any] = Stored.of_bytes(every.getvalue(), 0)

    def value(self, name: str) -> T:
        value: T = self._every.part(*self._places[name]).value()
        return value


def _spilled_placeholder(files: Sequence[int], piece: SpilledPiece, size: int) -> Stored[Any]:
    """Stands in what is stored for what ``_Unpickler`` puts there."""
    raise NotImplementedError


class _SpillUnpickler(pickle.Unpickler):
    """``files``: of the value, then of its parts."""

    def __init__(self, data: bytes, files: tuple[Spill, ...]) -> None:
        super().__init__(io.BytesIO(data))
        self._files = files

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) == (__name__, _spilled_placeholder.__name__):
            return self._stored
        return super().find_class(module, name)

    def _stored(self, files: Sequence[int], piece: SpilledPiece, size: int) -> Stored[Any]:
        return Stored.at(tuple(self._files[1:][at] for at in files), piece, size)


class SetAside(Generic[T]):
    """What an analysis keeps of a host with a large ``value``, which threads may share. Pickles have both."""

    def __init__(self, value: T, *, is_large: bool = True) -> None:
        """Spill large values of earlier hosts. Raises UnreadableError if the disk has no room for them."""
        self._guard = threading.RLock()
        self._value: T | Stored[T] = value
        self._is_large = is_large
        if is_large:
            _SHELF.newest(self)

    def value(self) -> T:
        value = self._value
        return value.value() if isinstance(value, Stored) else value

    @property
    def in_memory(self) -> bool:
        return not isinstance(self._value, Stored)

    def summarize(self) -> None:
        """Compute what is often read of the value, before it is spilled."""
        raise NotImplementedError

    def set_aside(self) -> None:
        with self._guard:
            value = self._value
            if self._is_large and not isinstance(value, Stored):
                with suppress(*_DAMAGED):  # raised again, for the right host, by who reads the summary
                    self.summarize()
                self._value = Stored(value)

    def __getstate__(self) -> dict[str, Any]:
        self.set_aside()
        return {name: value for name, value in vars(self).items() if name != "_guard"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._guard = threading.RLock()


class MadeTogether:
    """Tables by name, all made at the first use of one, which threads may share."""

    def __init__(self, make: Callable[[], dict[str, pa.Table]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: dict[str, pa.Table] | None = None

    def table(self, name: str) -> pa.Table:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made[name]


class StoredTable:
    """A table in a temporary file, whose rows are in memory only while they are looked at."""

    def __init__(self) -> None:
        self._spill = Spill()
        self._batches: list[pa.RecordBatch] = []

    def append(self, rows: pa.Table) -> None:
        """Raise UnreadableError if the disk has no room for them."""
        for batch in rows.to_batches(max_chunksize=_BATCH):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            mapped = self._spill.mapped(self._spill.write(memoryview(sink.getvalue())))
            self._batches.append(pa.ipc.open_file(pa.py_buffer(mapped)).get_batch(0))

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def table(self) -> pa.Table:
        """The schema of all rows, once there are some."""
        return pa.Table.from_batches(self._batches)


def _pack_value(value: object) -> tuple[bytes, int, list[Spill]]:
    """Return the value, its size before it is compressed, and the files of what is stored of its parts."""
    into, files = io.BytesIO(), list[Spill]()
    pickler = pickle.Pickler(into, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {Stored: lambda part: part.within(files)}
    pickler.dump(value)
    return *_compress_data(into.getbuffer()), files


def _compress_data(data: bytes | memoryview) -> tuple[bytes, int]:
    """And the size before."""
    return _get_codec().compress(data, asbytes=True), len(data)


def _get_codec() -> pa.Codec:
    return pa.Codec("zstd", _LEVEL)


class _Shelf:
    """The last large value of this process, and the file for the others. A fork has a file of its own, because both
    would write to the same places of one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: weakref.ref[SetAside[Any]] | None = None
        self._file: weakref.ref[Spill] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def newest(self, value: SetAside[Any]) -> None:
        with self._lock:
            last, self._last = None if self._last is None else self._last(), weakref.ref(value)
        if last is not None:
            last.set_aside()

    def file(self) -> Spill:
        with self._lock:
            spill = None if self._file is None else self._file()
            if spill is None or spill.size > _FULL:
                spill = Spill()
                self._file = weakref.ref(spill)
            return spill

    def _forget(self) -> None:
        self._lock, self._last, self._file = threading.Lock(), None, None


_SHELF: Final = _Shelf()
