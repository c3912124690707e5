"""Remarks about the memory of a program, and advice that would reduce it, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from fastprof.hlo.program_memory import OUTPUT, PARAMETER, MemorySpace
from fastprof.hlo.program_memory_tables import Alive, Buffers, find_alive_at_peak
from fastprof.schema.columns import Int64s
from fastprof.wording.quantities import format_size

WORTH_SAYING: Final = 0.05
"""Share of the peak, or of temporaries, from which a remark is made."""
LEAST_BYTES: Final = 1 << 20
"""No remark is made about less."""

Remark = tuple[str, str]
"""Severity and text."""


def make_remarks(space: MemorySpace, *, main: bool) -> Iterator[Remark]:
    """Yield remarks. ``main``: whether the space is the device's main memory, in which parameters and outputs lie."""
    unknown = space.program.unknown
    if unknown:
        reason = unknown[:1].upper() + unknown[1:]
        yield "warning", f"{reason}: only its parameters and outputs are shown, with the sizes of their layouts."
        return
    yield from _find_contradictions(space)
    if space.peak.reason is not None:
        yield "info", f"The peak is unknown: {space.peak.reason}."
    yield from _describe_padding(space)
    yield from _describe_fragmentation(space)
    if main:
        yield from _find_not_donated(space)


def _find_contradictions(space: MemorySpace) -> Iterator[Remark]:
    plan = space.program.buffers
    below = int(plan.odd_buffers.sum() + plan.odd_allocations.sum())
    if below:
        sizes = "1 size in the plan of memory is" if below == 1 else f"{below:,} sizes in the plan of memory are"
        yield "warning", f"{sizes} below 0 and count{'s' if below == 1 else ''} as 0."
    if space.misfits:
        single = "1 buffer does not fit into its allocation"
        misfits = single if space.misfits == 1 else f"{space.misfits:,} buffers do not fit into their allocations"
        yield "warning", f"{misfits}: the plan contradicts itself."
    odd = sum(heap.passed_over for _, heap in space.traced)
    if odd:
        yield "warning", f"{odd:,} heap trace events make no sense, such as a second free; they are ignored."


def _describe_padding(space: MemorySpace) -> Iterator[Remark]:
    peak = space.peak
    if peak.bytes is None or peak.unpadded is None:
        return
    padding = peak.bytes - peak.unpadded
    if padding < max(LEAST_BYTES, WORTH_SAYING * peak.bytes):
        return
    alive = find_alive_at_peak(space)
    worst = _find_most_padded(space, alive)
    text = f"{format_size(padding)} of the peak, {100 * padding / peak.bytes:.0f} %, is padding"
    if worst is not None:
        text += f", most of it for {worst}"
    yield (
        "recommendation",
        f"{text}. Tiles pad the last dimensions of an array: use multiples of the tile size, or another order of "
        f"dimensions.",
    )


def _find_most_padded(space: MemorySpace, alive: Alive) -> str | None:
    """Return the shape with the most padding at the peak, with its size in full tiles."""
    buffers = Buffers(space.program, alive.buffer)
    unpadded = buffers.unpadded()
    padding = np.where(unpadded < 0, 0, alive.bytes - unpadded)
    by_shape: Counter[str] = Counter()
    for shape, size in zip(buffers.shapes().to_pylist(), padding.tolist(), strict=True):
        if shape and size > 0:
            by_shape[shape] += size
    if not by_shape:
        return None
    shape, _ = by_shape.most_common(1)[0]
    place = buffers.shapes().to_pylist().index(shape)
    padded = buffers.padded_shapes()[place].as_py()
    return f"{shape}, which takes as much as {padded}" if padded else shape


def _describe_fragmentation(space: MemorySpace) -> Iterator[Remark]:
    for row, heap in space.traced:
        size = int(space.program.buffers.allocations["size"][row])
        lost = size - heap.peak_bytes
        if lost >= max(LEAST_BYTES, WORTH_SAYING * size):
            yield (
                "info",
                f"The temporaries take {format_size(size)}, {format_size(lost)} more than is ever in use: "
                "there are gaps "
                "between buffers.",
            )


def _find_not_donated(space: MemorySpace) -> Iterator[Remark]:
    """Remark on outputs that have the shape of a parameter and memory of their own."""
    category = space.program.buffers.category[space.allocations]
    live_out = space.program.buffers.allocations["live_out"][space.allocations] != 0
    own = space.allocations[(category == OUTPUT) & (space.program.buffers.allocations["tuple"][space.allocations] == 0)]
    held = space.allocations[(category == PARAMETER) & ~live_out]
    free = Counter(_find_shapes(space, held))
    count, size = 0, 0
    for row, shape in zip(own.tolist(), _find_shapes(space, own), strict=True):
        if shape and free[shape] > 0:
            free[shape] -= 1
            count += 1
            size += int(space.program.buffers.allocations["size"][row])
    if size < max(LEAST_BYTES, WORTH_SAYING * space.allocated_bytes):
        return
    outputs = "1 output has the shape of a parameter" if count == 1 else f"{count:,} outputs have shapes of parameters"
    yield (
        "recommendation",
        f"{outputs} and memory of {'its' if count == 1 else 'their'} own, {format_size(size)}. Parameters that are "
        f"not needed after the call can be donated (donate_argnums in JAX): outputs then use their memory.",
    )


def _find_shapes(space: MemorySpace, allocations: Int64s) -> list[str | None]:
    """Return the shape of the last buffer that is as large as its allocation: outputs may hold other values before."""
    buffers = space.program.buffers
    rows = []
    for row in allocations.tolist():
        inside = buffers.inside(row)
        full = inside[buffers.buffers["size"][inside] == buffers.allocations["size"][row]]
        rows.append(int(full[-1]) if len(full) else -1)
    shapes: list[str | None] = Buffers(space.program, np.array(rows, np.int64)).shapes().to_pylist()
    return shapes
