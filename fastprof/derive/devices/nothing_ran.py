"""The reason that nothing of a device is recorded."""

from __future__ import annotations


class NothingRan(str):
    """Say that a figure is unknown, or a table empty, because nothing of a device is recorded. If records are known to
    be missing, reports give that reason instead."""

    __slots__ = ()
