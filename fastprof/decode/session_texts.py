"""The dictionaries of a session: event names and stat texts, each once over the hosts that are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from fastprof.decode.index import CaptureStructure
from fastprof.decode.span_stats import CaptureTexts
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture
from fastprof.schema.array_types import Int32s


class SessionNames:
    """``meta_names[i]``: the name of each event metadata of capture i, as a number in ``events``.
    ``texts[i]``: the texts of its stat metadata, as numbers in ``stats``."""

    def __init__(self, captures: Sequence[Capture]) -> None:
        memory = captures[0].memory if captures else None
        assert memory is not None
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

    def used_stats(self, parts: Sequence[CaptureStructure]) -> tuple[pa.Array, list[Int32s]]:
        """The names of the stats that the indexed events have, and each capture's stat metadata as indices of them."""
        numbers = []
        for part, texts in zip(parts, self.texts, strict=True):
            texts.refresh()
            used = np.zeros(len(texts.names), bool)
            used[: len(part.kinds)] = part.kinds != 0
            numbers.append(np.where(used, texts.names, -1))
        in_use = np.unique(np.concatenate(numbers))
        in_use = in_use[in_use >= 0]
        place = np.full(len(self.stats) + 1, -1, np.int32)
        place[in_use] = np.arange(len(in_use))
        return self.stats.array().take(pa.array(in_use)), [place[texts.names] for texts in self.texts]
