"""Decodes a selection of a session, all at once or share by share. Nothing of it waits for another decoder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fastprof._native import records
from fastprof._native.xspace import Filter
from fastprof.decode.blocks import Block, make_blocks
from fastprof.decode.fill import CaptureLookups, Decoded, Layout, Request, WideColumn, fill_rows
from fastprof.decode.index import Index, may_lack_starts
from fastprof.decode.selection import Wanted
from fastprof.schema.columns import Int32s
from fastprof.schema.tables import take_texts

Share = list[Block]
"""Events that are decoded together."""

StatKinds = Mapping[str, Collection[int]]
"""By stat, the kinds that its values have."""


class Decoder:
    """Decodes the events of ``wanted``, as they were indexed when it was made. ``stat_names``: those of the column
    ``stat``."""

    def __init__(self, index: Index, wanted: Wanted, request: Request) -> None:
        self.index = index
        self.request = request
        self._wanted = wanted
        captures = index.captures
        pieces = wanted.pieces()
        index.ensure(_choose_depth(index, request), pieces)
        self._known = [part.known for part in captures]
        self._filters = self._event_filters()
        names = index.names
        texts = [text.now() for text in names.texts]
        wide = [WideColumn(name, index, self._known) for name in request.wide + request.flags]
        if wide:
            texts = [text.now() for text in names.texts]  # reading their defaults may declare stats
        self._texts = texts
        self.stat_names = pa.array([], pa.string())
        self._stat_index: list[Int32s] = []
        if request.stats or wide:
            self._number_used_stats()
        timeless = any(
            may_lack_starts(captures[i].pieces, self._known[i].segments)
            for i in wanted.captures()
            if pieces is None or pieces[i].any()
        )
        has_texts = bool(set(request.events) & {"host", "plane", "line", "name"})
        dictionaries = index.dictionaries() if has_texts else {}
        self._layout = Layout(request, names.stats, dictionaries, self.stat_names, wide, timeless)
        self._made: dict[int, CaptureLookups] = {}

    def _event_filters(self) -> list[Filter | None]:
        names = self.index.names
        texts = names.event_names.to_pylist() if self._wanted.selection.names else None
        filters: list[Filter | None] = [None] * len(self.index.captures)
        for i in self._wanted.captures():
            meta_names = None if texts is None else [texts[name] for name in names.meta_names[i].tolist()]
            filters[i] = self._wanted.filter(self.index.captures[i].capture.host, meta_names)
        return filters

    def _number_used_stats(self) -> None:
        """The names of the stats that the indexed events have, and each capture's stat metadata as indices of them."""
        numbers = []
        for known, texts in zip(self._known, self._texts, strict=True):
            used = np.zeros(len(texts.names), bool)
            used[: len(known.kinds)] = known.kinds[: len(used)] != 0
            numbers.append(np.where(used, texts.names, -1))
        in_use = np.unique(np.concatenate(numbers))
        in_use = in_use[in_use >= 0]
        table = self.index.names.stats.array()
        place = np.full(len(table) + 1, -1, np.int32)
        place[in_use] = np.arange(len(in_use))
        self.stat_names = take_texts(table, in_use)
        self._stat_index = [place[texts.names] for texts in self._texts]

    def _lookups(self, number: int) -> CaptureLookups:
        """Those of a capture, made when the first block of it is decoded."""
        if number not in self._made:
            names = self.index.names
            self._made[number] = CaptureLookups.of(
                self.request,
                self.index.captures[number],
                self._texts[number],
                meta_names=names.meta_names[number],
                stat_names=self._stat_index[number] if self._stat_index else None,
                filter=self._filters[number],
                wide=[(column.stat_rows[number], column.defaults[number]) for column in self._layout.wide],
                picks=[names.stats.find(name) for name in self.request.picks],
            )
        return self._made[number]

    def blocks(self) -> Iterator[Block]:
        """The blocks of the selection, lazily."""
        return make_blocks(self._wanted, self._known, self._filters, bool(self.request.stats))

    def shares(self, rows: int) -> Iterator[Share]:
        """The blocks in groups of about ``rows`` rows, lazily."""
        share: Share = []
        count = 0
        for block in self.blocks():
            if count and count + block.rows > rows:
                yield share
                share, count = [], 0
            share.append(block)
            count += block.rows
        if share:
            yield share

    def possible_kinds(self) -> dict[str, set[int]]:
        """The kinds of value that each stat beside the events may have, by what has been indexed."""
        return {column.name: column.possible for column in self._layout.wide}

    def met_kinds(self) -> dict[str, set[int]]:
        """The kinds of value that each stat beside the events had so far."""
        return {column.name: column.met for column in self._layout.wide}

    def widen(self, kinds: StatKinds) -> None:
        """Give stats beside the events the types that they have if there are values of these kinds too."""
        for column in self._layout.wide:
            column.also |= set(kinds.get(column.name, ()))

    def decode(self, share: Sequence[Block], stage: str | None = "decoding", fixed_types: bool = False) -> Decoded:
        """The rows of the blocks, filled side by side. ``fixed_types``: columns beside events have the types that
        all events of the session give them, whatever this share holds, and dictionaries have int32 indices."""
        lookups = {number: self._lookups(number) for number in {block.capture for block in share}}
        return fill_rows(self._layout, lookups, share, self.index.workers, stage, fixed_types)


def _choose_depth(index: Index, request: Request) -> int:
    salvage = any(part.capture.salvage for part in index.captures)
    return records.STATS if request.picks and salvage else request.depth
