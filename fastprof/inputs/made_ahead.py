"""The next piece of something is made while the last one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def made_ahead(chunks: Iterator[T]) -> Generator[T, None, None]:
    """The same chunks; a thread makes the next one while the caller uses the current one."""
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="fastprof") as pool:
            coming = pool.submit(next, chunks, None)
            while (piece := coming.result()) is not None:
                coming = pool.submit(next, chunks, None)
                yield piece
    finally:
        if isinstance(chunks, Generator):
            chunks.close()
