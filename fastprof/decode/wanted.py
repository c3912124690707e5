"""A selection, worked out for an index: which planes, lines and pieces, and which of their events."""

from __future__ import annotations

import numpy as np

from fastprof._native.xspace import Filter
from fastprof.decode.index import Index
from fastprof.decode.selection import Selection, matching
from fastprof.schema.array_types import Bools


class Wanted:
    """What a selection means for the captures of an index."""

    def __init__(self, index: Index, selection: Selection) -> None:
        self.index = index
        self.selection = selection

    def pieces(self) -> list[Bools] | None:
        """Which pieces of each capture; None: all. Reads the headers of lines first where it has to."""
        captures = self.index.captures
        if not self.selection.filters_lines:
            return None
        if not self.selection.lines:
            planes = self.planes()
            return [planes[part.plane_base + part.capture.plane_of_part[part.pieces["part"]]] for part in captures]
        self.index.ensure_lines()
        lines = self.lines()
        return [lines[part.pieces["line_id"]] for part in captures]

    def lines(self) -> Bools:
        """Which lines, by line_id."""
        selection, index = self.selection, self.index
        wanted: Bools = self.planes()[index.lines["plane_id"]]
        if selection.lines:
            named = np.array(matching(index.line_names, selection.lines), bool)
            shown = np.array(matching(index.line_display_names, selection.lines), bool)
            wanted &= named | (shown & np.array([bool(text) for text in index.line_display_names], bool))
        return wanted

    def planes(self) -> Bools:
        """Which planes, by plane_id."""
        wanted: list[bool] = []
        for part in self.index.captures:
            host = self.selection.hosts is None or part.capture.host in self.selection.hosts
            names = [name for name, _ in part.capture.plane_keys]
            wanted += [host and match for match in matching(names, self.selection.planes)]
        return np.array(wanted, bool)

    def filter(self, host: str, meta_names: list[str] | None) -> Filter | None:
        """What keeps events of a host's capture; ``meta_names``: the name of each of its event metadata."""
        if not self.selection.filters_events:
            return None
        keep = None
        unnamed = True
        if self.selection.names:
            assert meta_names is not None
            keep = np.array(matching(meta_names, self.selection.names), np.uint8)
            unnamed = matching([""], self.selection.names)[0]
        return Filter(keep, unnamed, self.selection.window(host))
