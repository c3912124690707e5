"""Small captures cut as large ones are: many segments and blocks in a line, runs of few events to sort.

Every seam that a capture of gigabytes has between segments, blocks, batches and runs then lies in a few bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from fastprof.decode import blocks
from fastprof.decode.blocks import sort_keys
from fastprof.decode.index import CaptureIndex


def cut_small(
    patch: pytest.MonkeyPatch, *, segment_bytes: int = 1, block_bytes: int = 1, run_events: int | None = None
) -> None:
    """Profiles loaded from now on have segments and blocks of about these sizes in bytes; 1: of one event."""
    real = CaptureIndex.index_tasks

    def index_tasks(self: Any, wanted: np.ndarray, depth: int, _size: int) -> list[Callable[[], Any]]:
        return real(self, wanted, depth, segment_bytes)

    patch.setattr(CaptureIndex, "index_tasks", index_tasks)
    patch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    if run_events is not None:
        patch.setattr(blocks, "sort_keys", partial(sort_keys, run_events=run_events))
