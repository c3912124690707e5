"""Statuses: what became of a server that was called."""

from __future__ import annotations

from typing import Final

WRITTEN: Final = "written"
ON_SERVER: Final = "on the server"
EMPTY: Final = "empty"
"""It answered, and recorded no event."""
UNREACHABLE: Final = "unreachable"
LOST: Final = "lost"
"""The connection broke after the request."""
BUSY: Final = "busy"
"""It records another capture."""
LATE: Final = "late"
"""Nothing came before the deadline."""
UNSUPPORTED: Final = "unsupported"
TOO_LARGE: Final = "too large"
REFUSED: Final = "refused"
"""Any other status of the server."""
BAD_ANSWER: Final = "bad answer"
UNWRITTEN: Final = "not written"
"""Its capture came, and could not be written here."""
CANCELLED: Final = "cancelled"
"""The client cancelled the call."""

DONE: Final = "done"
"""What was requested, which brings no capture."""

DELIVERED: Final = (WRITTEN, ON_SERVER, DONE)
AGAIN: Final = (UNREACHABLE, BUSY)
"""It cannot have begun, so it may be called again."""
