"""Host names as parts of paths: hosts may be called anything, and file systems allow 255 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastprof.decode.import_log import ImportLog

_LONGEST: Final = 200
"""Bytes of a name; suffixes and numbers follow it."""
_DIGITS: Final = 16
_ORDERING: Final = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_NO_CHARACTERS: Final = dict.fromkeys([ord("/"), *range(0x20), *range(0x7F, 0xA0), *_ORDERING], "_")
"""What no file can be named with, and what changes what a terminal shows: control characters, ends of lines, and
those that turn the direction of text around."""


def replace_controls(name: str) -> str:
    """Return the name with _ for characters that names of files should not have."""
    return name.translate(_NO_CHARACTERS)


def _encode_name(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass"))


def is_shortened(name: str, length: Callable[[str], int] = _encode_name) -> bool:
    """Return whether the name is shortened. ``length``: of a name in the path, in bytes."""
    return length(name) > _LONGEST


def shorten_path_part(name: str, length: Callable[[str], int] = _encode_name) -> str:
    """Return the name; a long one is shortened to its beginning and a digest of all of it."""
    if not is_shortened(name, length):
        return name
    import hashlib

    end = "~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    short, long = 0, min(len(name), _LONGEST)
    while short < long:  # the longest beginning that fits
        middle = (short + long + 1) // 2
        if length(name[:middle]) + len(end) <= _LONGEST:
            short = middle
        else:
            long = middle - 1
    return name[:short] + end


def log_shortened(log: ImportLog, capture: str, path: str) -> None:
    """A row of import_log: the host of a capture is written under another name."""
    text = f"the name of the host is too long for a path; its files are under {path}"
    log.add("notice", "shortened_name", text, capture)
