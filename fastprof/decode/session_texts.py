"""The dictionaries of a session: event names and stat texts, each once over the hosts that are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa

from fastprof.decode.span_stats import CaptureTexts
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture
from fastprof.schema.array_types import Int32s


class SessionNames:
    """``meta_names[i]``: the name of each event metadata of capture i, as a number in ``events``.
    ``texts[i]``: the texts of its stat metadata, as numbers in ``stats``."""

    def __init__(self, captures: Sequence[Capture]) -> None:
        memory = captures[0].memory
        self.events = TextTable(memory)
        self.stats = TextTable(memory)
        self.meta_names: list[Int32s] = []
        self.texts: list[CaptureTexts] = []
        for capture in captures:
            metas = capture.metas
            self.meta_names.append(
                capture.intern(metas["name_offset"], metas["name_length"], b"XEventMetadata.name", self.events)
            )
            self.texts.append(CaptureTexts(capture, self.stats))
            capture.source.give_back_all()

    @cached_property
    def event_names(self) -> pa.Array:
        return self.events.array()
