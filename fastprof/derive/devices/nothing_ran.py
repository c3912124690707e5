"""The reason for unknown figures when no device activity is recorded."""

from __future__ import annotations


class NothingRan(str):
    """A reason for an unknown figure or an empty table: no device activity is recorded. Reports replace it if records
    are known to be missing."""

    __slots__ = ()
