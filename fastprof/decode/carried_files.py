"""Files that scribes of other formats carry along in an XSpace: bytes that are stats of event metadata, in pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastprof._native import records
from fastprof.decode.span_stats import CaptureTexts, read_span_stats
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture


def carried(capture: Capture, plane: str, stat: str) -> Iterator[bytes]:
    """The pieces that a plane of this name has, in the order of the file. CaptureError, ChangedError."""
    parts = [number for number, name in enumerate(capture.part_names) if name == plane]
    spans = np.frombuffer(capture.xspace.meta_stats(), records.OWNED_SPAN)
    of = capture.metas["part"][spans["owner"]] if parts else np.zeros(len(spans), np.int64)
    chosen = np.isin(of, parts)
    spans, of = np.ascontiguousarray(spans[chosen]), np.ascontiguousarray(of[chosen])
    if not len(spans):
        return
    table = TextTable(capture.memory)
    stats = read_span_stats(CaptureTexts(capture, table), spans, of)
    rows = np.flatnonzero(stats.stat == table.find(stat))
    for offset, length in stats.places_of_bytes(rows).values():
        yield capture.source.read(offset, length)
