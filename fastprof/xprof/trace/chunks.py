"""A session in the JSON that XProf's trace viewers read, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import UsageError
from fastprof.tables.table_set import TableSet
from fastprof.xprof.trace import streamed_form, whole_form
from fastprof.xprof.trace.streamed_form import View

FORMS: Final = ("xprof", "xprof-streaming")
DEFAULT_RESOLUTION: Final = 8000
"""What the page of XProf requests: this many events in a row, at about a pixel each."""
MOST_TEXT: Final = 10_000
"""Bytes of a text that events repeat, beyond which it is cut, as XProf cuts long names. The forms have no other way to
share a text, so that a name of megabytes would take gigabytes."""
MOST_EVENTS: Final = 5_000_000
"""In the form with all events XProf shows at most this many of a host, the earliest."""


def chunks(
    tables: TableSet,
    form: str = "xprof",
    *,
    resolution: float = DEFAULT_RESOLUTION,
    start_ms: float = 0,
    end_ms: float = 0,
    full_dma: bool = False,
    max_events: int = MOST_EVENTS,
    max_text: int = MOST_TEXT,
) -> Iterator[bytes]:
    """The bytes of one JSON document.

    ``form``: "xprof", all events of one host with their stats as texts; "xprof-streaming", what XProf's streaming
    viewer shows of a window. ``resolution``: events that fit in a row of the window; 0: all are shown, as they are of a
    host with fewer than 500,000 events. ``start_ms``, ``end_ms``: the window; an end of 0 is that of the capture.
    ``full_dma``: parts in the middle of a flow on TPUs too. ``max_events``: of "xprof", the earliest ones are shown.
    ``max_text``: bytes of a text that several events may repeat, 0: no limit; a row of import_log counts what is cut.

    Raises UsageError, before the first byte, if an argument makes no sense, or several hosts are selected for "xprof".
    """
    if form not in FORMS:
        raise UsageError(f"form is one of {', '.join(FORMS)}, not {form!r}")
    if not isinstance(max_text, int) or max_text < 0:
        raise UsageError("max_text is a number of bytes, or 0 for no limit")
    if form == "xprof-streaming":
        return streamed_form.chunks(tables, View(resolution, start_ms, end_ms, full_dma), max_text)
    if not isinstance(max_events, int) or max_events < 1:
        raise UsageError("max_events is a number of events, 1 or more")
    return whole_form.chunks(tables, max_events, max_text)
