"""Types of the compiled module."""

from collections.abc import Iterable, Sequence

from _typeshed import ReadableBuffer

from fastprof.schema.columns import UInt64s

def read_message(data: memoryview, doing: str) -> dict[int, list[int | memoryview]]: ...
def read_message_fields(
    data: ReadableBuffer, spans: UInt64s, left_out: Iterable[int], doing: str
) -> tuple[bytes, bytes, bytes, bytes]: ...

_Numbers = Sequence[int]
_Tables = Sequence[tuple[int, int]]

def read_message_tables(
    data: ReadableBuffer,
    spans: UInt64s,
    tables: Sequence[tuple[_Numbers, _Numbers, _Tables, _Tables, _Tables]],
    doing: str,
) -> list[bytes]: ...
