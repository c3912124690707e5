"""Stack frames of the streaming form: the long names of what is shown under a shorter one, numbered as XProf does, by a
hash of the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof._native.xprof_events import gnu_hash
from fastprof.schema.array_types import Bools
from fastprof.xprof.trace.streamed_tracks import COUNTERS, StreamedTracks
from fastprof.xprof.trace.trace_host import FRAME_STATS, TraceHost

_LEAST_BYTES: Final = 17
"""Shorter texts stay with their events."""
_MOST_BYTES: Final = 10_000
_CUT: Final = b"...<truncated>"
_MARK: Final = b"@@"
_PIECE_FRAMES: Final = 1000


class StackFrames:
    """Frames of all hosts."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}

    def add(self, trace: TraceHost, tracks: StreamedTracks) -> None:
        """What any event has that is drawn, be it visible or not."""
        drawn = np.zeros(len(trace), np.bool_)
        bounds = tracks.bounds.tolist()
        for number, key in enumerate(tracks.keys):
            if key.kind != COUNTERS:
                drawn[tracks.rows[bounds[number] : bounds[number + 1]]] = True
        metas = trace.raw.meta[drawn[: len(trace.raw)]]
        used = np.zeros(len(trace.raw.names), np.bool_)
        used[metas] = True
        used[-1] = False
        long = trace.long_names()
        for row in np.flatnonzero(used).tolist():
            self._add(long[row])
        derived = trace.derived
        names = derived.long_name[drawn[trace.first_derived :]]
        for name in np.unique(names[names >= 0]).tolist():
            self._add(derived.names[name])
        self._add_stats(trace, drawn, used)

    def _add_stats(self, trace: TraceHost, drawn: Bools, used: Bools) -> None:
        for name in FRAME_STATS:
            of_meta = trace.raw.meta_stat(name).of_kinds((records.STR, records.REF))
            numbers = of_meta.value[used[of_meta.rows]]
            rows, values = trace.raw.texts(name)
            for text in trace.raw.all_texts(np.unique(values[drawn[rows]])) + trace.metadata_texts(numbers):
                self._add(text, whole=True)

    def _add(self, text: str, whole: bool = False) -> None:
        data = text.encode()
        if not whole and len(data) > _MOST_BYTES:
            data = data[:_MOST_BYTES] + _CUT
        if len(data) >= _LEAST_BYTES:
            self._texts.setdefault(gnu_hash(_MARK + data), data)

    def pieces(self) -> Iterator[bytes]:
        written = []
        yield b'"stackFrames":{'
        for number, key in enumerate(sorted(self._texts), 1):
            text = json.dumps(self._texts[key].decode(errors="replace"), ensure_ascii=False)
            written.append(f'{"," if number > 1 else ""}"{number}":{{"name":{text}}}')
            if len(written) == _PIECE_FRAMES:
                yield "".join(written).encode()
                written = []
        yield "".join(written).encode() + b"}"
