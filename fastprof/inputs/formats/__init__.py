"""Formats other than XSpace: known by content, transcribed to XSpace on the way in.

A format is a module with a ``NAME``, ``begins`` and ``scribe`` (``contract.Format``), and one entry here.
"""

from __future__ import annotations

from typing import Final

from fastprof.inputs.formats import (
    chrome_json,
    event_file,
    graph_def,
    graph_def_text,
    op_log,
    profile_proto,
    riegeli,
    run_metadata,
    run_metadata_text,
)
from fastprof.inputs.formats.contract import Format, Scribe

__all__ = ["FORMATS", "HEAD", "IN_FILE", "Format", "Scribe", "contract", "find_format"]

FORMATS: Final[tuple[Format, ...]] = (
    chrome_json, riegeli, run_metadata, run_metadata_text, event_file, graph_def, graph_def_text, profile_proto, op_log,
)  # fmt: skip
"""The first whose ``begins`` is true counts."""

IN_FILE: Final = {riegeli.NAME: riegeli.find_parts}
"""The functions that find an XSpace inside a file, in parts, by name of the format."""

HEAD: Final = 64 << 10
"""Bytes by which a format is known."""


def find_format(head: bytes) -> Format | None:
    """Return the format of what begins with these bytes, after decompression; None: an XSpace, or nothing known."""
    return next((form for form in FORMATS if form.begins(head)), None)
