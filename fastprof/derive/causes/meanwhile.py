"""What else goes on while a device waits for input or Python of its host: other threads launch, copy or compile, or
another device works. Without the input the device would wait for that, so less is saved than the input takes.

    driver      |-------input-------|-launch-|
    worker             |-compile-|
    device   ==|                             |=kernel=|
    meanwhile          |---------|
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.steps.host_causes import CAUSE_OF, INPUT_THREADS, OTHER, RANKS, Code, HostCauses
from fastprof.derive.steps.stretches import Stretches, filled, nothing, union
from fastprof.schema.array_types import Int64s, Records
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

HIDES: Final = ("input", "python")
"""Causes that count although something else goes on."""
_NUMBERS: Final = [GAP_CAUSES.index(cause) for cause in HIDES]
_CODES: Final = [code for code, cause in CAUSE_OF.items() if cause in HIDES]
_WITHOUT: Final = RANKS.copy()
_WITHOUT[:, [*_CODES, Code.LOCK, Code.WAITS, Code.PROFILER]] = 255
_WITHOUT[OTHER] = 255
"""RANKS if neither input nor Python nor waits count, nor threads that neither drive devices nor launch for them."""


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """``host``: when threads do something else; ``devices``: when any device works."""

    host: Stretches
    devices: Stretches

    @classmethod
    def of(cls, events: HostEvents, causes: HostCauses, host: Records, busy: Int64s) -> Meanwhile:
        """``host``: what the host does, as PIECE; ``busy``: [k, 2], when any of several devices works."""
        host = host[host["label"] >= 0]
        hides = host[np.isin(causes.code[host["label"]], _CODES)]
        if not len(hides):
            return cls(nothing(), nothing())
        open_ps = np.stack(union(hides["begin"], hides["end"] - hides["begin"]), axis=1)
        feeds = [line.name.startswith(INPUT_THREADS) for line in causes.lines]
        roles = tuple(OTHER if one else role for one, role in zip(feeds, causes.role, strict=True))
        others = replace(causes, role=roles).foremost(events, _WITHOUT, open_ps)
        others = others[others["label"] >= 0]
        return cls(union(others["begin"], others["end"] - others["begin"]), (busy[:, 0].copy(), busy[:, 1].copy()))

    def beside(self, pieces: Records, start_ps: Int64s, ahead_ps: Int64s | None) -> Int64s:
        """How much of each piece of a device (GAP) something else fills; 0 of other causes. ``ahead_ps``: by how much
        the host's clock is ahead of the device's from each of the times ``start_ps``, None: it is the same."""
        found = np.zeros(len(pieces), np.int64)
        rows = np.flatnonzero(np.isin(pieces["cause"], _NUMBERS) & (pieces["row"] >= 0))
        begin, length = pieces["begin"][rows], pieces["end"][rows] - pieces["begin"][rows]
        if ahead_ps is not None:
            shift = ahead_ps[np.searchsorted(start_ps, begin, side="right") - 1]
            found[rows] = filled(self.host, begin + shift, length)
        elif len(rows):
            (one, until), (other, last) = self.host, self.devices
            starts, ends = np.concatenate([one, other]), np.concatenate([until, last])
            found[rows] = filled(union(starts, ends - starts), begin, length)
        return found
