"""How much a stream may take on the disk: a small compressed file can unpack to any size."""

from __future__ import annotations

import shutil
import tempfile
from typing import Final

from fastprof.errors import UnreadableError, UsageError
from fastprof.wording.quantities import size_text

MOST: Final = 16 << 30
"""Bytes that a compressed capture may unpack to; profilers write 2 GiB at most."""

_RESERVE: Final = 1 << 30
_SHARE: Final = 20  # of a small disk, a twentieth is the reserve
_STRIDE: Final = 64 << 20  # free space is looked at each time that this number of bytes has been written


def checked(most: int | None) -> int:
    """The limit of a user, or the usual one. UsageError: it is not a size."""
    if most is None:
        return MOST
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise UsageError(f"max_unpacked must be a number of bytes above 0, not {most!r}")
    return most


class TooLargeError(UnreadableError):
    """A compressed capture unpacks to more than may be: however often it is tried."""


def check_size(unpacked: int, most: int, path: str) -> None:
    """TooLargeError: a compressed stream has unpacked to more than ``most`` bytes."""
    if unpacked > most:
        text = f"unpacks to more than {size_text(most)}; if it is meant to, raise the limit: "
        raise TooLargeError(text + "--max-unpacked SIZE, load(…, max_unpacked=BYTES)", path=path)


def check_space(before: int, size: int, path: str | None) -> None:
    """UnreadableError: the disk is nearly full. ``before``, ``size``: bytes before the last write and now."""
    if before // _STRIDE == size // _STRIDE:
        return
    folder = tempfile.gettempdir()
    disk = shutil.disk_usage(folder)
    reserve = min(_RESERVE, disk.total // _SHARE)
    if disk.free < reserve:
        raise UnreadableError(
            f"copying to a temporary file stopped after {size_text(size)}: less than {size_text(reserve)} are free in "
            f"{folder} (TMPDIR sets another directory)",
            path=path,
        )
