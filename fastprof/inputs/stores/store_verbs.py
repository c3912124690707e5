"""The verbs of a store of objects. A store has no directories, links or renames: folders are beginnings of keys that
end with a slash.

    stat        size and version of an object
    read        a range of its bytes, of that version only
    list_level  the objects and folders directly below a prefix, with sizes and versions
    put         a small object; open_writer: a large one, in parts
    delete      an object

Keys have no slash at their beginning. Errors are ``StoreError``, with sentences that have no secrets: no query strings,
no user names, no credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Final, NamedTuple, Protocol

from fastprof.wording.patterns import compile_late

_SECRETS = compile_late(r"\?[^\s\"'`<>]*|(?<=//)[^/\s@\"']*@")
_LONGEST_MESSAGE = 300
PIECE: Final = 256 << 10
"""Bytes of a piece of an answer."""


class StoredObject(NamedTuple):
    """``version``: the ETag, or what else differs between versions; empty if the store has nothing. ``has_ranges``:
    parts of it can be read; else it is read whole, and its size may be unknown, which is -1."""

    size: int
    version: str = ""
    changed_s: float = 0.0
    has_ranges: bool = True


class Level(NamedTuple):
    """Names directly below a prefix."""

    objects: dict[str, StoredObject]
    folders: list[str]


class StoreError(Exception):
    """A store failed. Another try may succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(hide_secrets(message))


class AbsentError(StoreError):
    """The store has no such object."""


class RefusedError(StoreError):
    """The store refuses access, so another try is useless."""


class OtherVersionError(StoreError):
    """The object has another version by now."""


class Store(Protocol):
    """A bucket, a server or a file system. It can be pickled, and threads may share it."""

    credentials: str
    """Where credentials were looked for, without values; for messages."""
    can_list: bool
    is_guarded: bool
    """True if ``read`` raises OtherVersionError, so that versions need not be compared afterwards."""

    def stat(self, key: str) -> StoredObject | None: ...
    def read(self, key: str, begin: int, end: int, version: str) -> Iterator[bytes | memoryview]:
        """Yield these bytes in pieces of about ``PIECE`` as they come, where the client can. A piece is valid until the
        next one. A broken answer may have fewer bytes, or more."""

    def open_reader(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Return all bytes as a stream."""

    def list_level(self, prefix: str) -> Level:
        """``prefix``: empty, or ends with a slash."""

    def put(self, key: str, data: bytes, *, overwrite: bool) -> bool:
        """Write an object, and return True; False: it exists and may not be overwritten."""

    def open_writer(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Return a stream that uploads in parts. The object appears when it is closed, not if the block fails."""

    def delete(self, key: str) -> None: ...


def hide_secrets(message: str) -> str:
    """Return the first line of a message, without queries and user names of URLs."""
    line = message.strip().partition("\n")[0]
    return _SECRETS.sub("", line)[:_LONGEST_MESSAGE]
