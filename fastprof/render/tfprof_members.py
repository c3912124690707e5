"""What rows of several nodes show, and what all reports have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.recorded import Recorded, plain, texts

TIMES: Final = ("micros", "accelerator_micros", "cpu_micros")


def summed(select: Sequence[str]) -> list[str]:
    """The selected times: the sum with its parts, or one of them."""
    return list(TIMES) if "micros" in select else [name for name in TIMES if name in select]


def devices_of(recorded: Recorded, nodes: Ints) -> list[str]:
    """The canonical devices of nodes, in the order of their bytes, the empty one too."""
    return sorted(set(recorded.devices.take(pa.array(nodes)).to_pylist()), key=str.encode)


def types_of(recorded: Recorded, nodes: Ints) -> list[str]:
    types = pc.list_flatten(plain(recorded.nodes["types"]).take(pa.array(nodes)))
    return sorted(set(texts(types).to_pylist()), key=str.encode)
