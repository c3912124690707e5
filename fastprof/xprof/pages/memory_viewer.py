"""XProf's memory viewer: sizes in MiB as doubles, one memory space of one program, protobuf's JSON.

Defaults (0 or empty) are left out. Formulas: XProf's hlo_proto_to_memory_visualization_utils.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastprof._native.kernels import rank_order
from fastprof.analyses.memory_viewer import Shown
from fastprof.hlo.buffers import CATEGORIES
from fastprof.hlo.heap import Heap, heap_of
from fastprof.hlo.memory_spaces import DEVICE
from fastprof.hlo.program_buffers import Buffers
from fastprof.hlo.program_memory import TOO_LARGE
from fastprof.hlo.shapes import BITS, NO_SHAPE, POINTER_BYTES, Shape
from fastprof.hlo.unplanned_memory import scoped_vmem
from fastprof.schema.array_types import Int64s
from fastprof.xprof.pages.memory_viewer_palette import PALETTE

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report
    from fastprof.hlo.program_memory import MemorySpace

Json = dict[str, Any]

SMALL = 16384
"""Buffers of fewer bytes are one entry."""
_MIB = float(1 << 20)
_CANVAS = 4096
"""Width and height of the drawing: thinner blocks are not drawn, and take no colour."""


def answer(report: Report) -> Any:
    """An empty page without a program, where XProf has no answer, and for sizes beyond 64 bits."""
    shown = None if report.detail is None else report.detail_as(Shown)
    return {} if shown is None or shown.memory.unknown == TOO_LARGE else _bare(_Page(shown.space).all())


def _bare(value: Any) -> Any:
    """Without defaults, except numbers in a oneof and entries of a map, which are always written."""
    if isinstance(value, dict):
        items = {name: _bare(item) for name, item in value.items()}
        return {name: item for name, item in items.items() if item not in (0, "", []) or name == "numbered"}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_bare(item) for item in value]
    return value


def _largest_first(mebibytes: Sequence[float]) -> list[int]:
    """The places of sizes in the order of std::sort: many are equal, such as those of equal layers."""
    order = np.arange(len(mebibytes), dtype=np.int32)
    rank_order(np.array([int(size * _MIB) for size in mebibytes], np.int64), order)
    places: list[int] = order.tolist()
    return places


class _Page:
    def __init__(self, space: MemorySpace) -> None:
        self.space = space
        self.program = space.program
        self.plan = space.program.buffers
        self.lasting = [row for row in space.allocations.tolist() if self.plan.whole_run[row]]
        """Rows of allocations of indefinite lifetime."""
        self.traced = [
            row for row in space.allocations.tolist() if not self.plan.whole_run[row] and row in self.program.trace_of
        ]
        """Rows of allocations of temporaries with a trace."""
        self.throughout = [row for row in self.lasting if self._largest(row) >= 0]
        self.throughout_bytes = int(self.plan.allocations["size"][self.throughout].sum())
        self.place: dict[int, int] = {}
        """By buffer, its place among those at the peak."""
        self._shape_texts: dict[tuple[int, int], str] = {}
        self._sources: dict[tuple[int, int, int], Json] = {}

    def all(self) -> Json:
        at_peak = self._at_peak()
        order = _largest_first([one["logicalBufferSizeMib"] for one in at_peak])
        ranks = {place: rank for rank, place in enumerate(order)}
        heap, throughout = self.heap, self.throughout_bytes / _MIB
        page = {
            "moduleName": self.program.module.name,
            "entryComputationName": self._entry_name(),
            "maxHeap": at_peak,
            "maxHeapBySize": [at_peak[i] for i in order],
            "bySizeToMaxHeap": order,
            "maxHeapToBySize": [ranks[i] for i in range(len(at_peak))],
            "indefiniteLifetimes": [self._lifetime(row) for row in self.lasting],
            "bufferBlocks": self._blocks(),
            "peakHeapMib": throughout if heap is None else heap.peak_bytes / _MIB + throughout,
            "peakUnpaddedHeapMib": throughout if heap is None else heap.peak_unpadded / _MIB + throughout,
            **self._sizes(),
            **self._scoped(),
        }
        return page if heap is None else page | self._series(heap)

    def _entry_name(self) -> str:
        module = self.program.module
        return module.text(module.computations["name"][module.entry]) if module.entry >= 0 else ""

    def _largest(self, allocation: int) -> int:
        """The first of the largest buffers in an allocation; -1: no buffer, or only empty ones."""
        rows = self._inside(allocation)
        sizes = self.plan.buffers["size"][rows]
        return int(rows[np.argmax(sizes)]) if len(rows) and sizes.max() > 0 else -1

    def _inside(self, allocation: int) -> Int64s:
        first, count = self.plan.allocations[["first_assigned", "assigned_count"]][allocation].item()
        rows = self.plan.assigned["buffer"][first : first + count].astype(np.int64)
        inside: Int64s = rows[rows >= 0]
        return inside

    # ---- the heap

    @cached_property
    def heap(self) -> Heap | None:
        trace = self._trace()
        return None if trace is None else heap_of(self.plan, trace, self.unpadded)

    def _trace(self) -> int | None:
        """The trace of the first temporaries that have one, else the one with most events of the memory space."""
        if self.traced:
            return self.program.trace_of[self.traced[0]]
        events = self.plan.events
        known = self.plan.lies[events["buffer"]]
        mine = known & (np.append(self.plan.buffers["color"], -1)[events["buffer"]] == self.space.number)
        counts = np.bincount(events["trace"][mine], minlength=1)
        return int(np.argmax(counts)) if counts.max() > 0 else None

    def _series(self, heap: Heap) -> Json:
        names = self.plan.texts.take(pa.array(heap.events["instruction_name"])).to_pylist()
        owns = heap.held >= 0
        columns = (self.plan.buffers["id"][heap.rows[owns]], heap.held[owns], heap.freed[owns])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        spans = {str(id): {"start": start, "limit": limit} for id, start, limit in rows}
        return ({"logicalBufferSpans": spans} if spans else {}) | {
            "heapSizes": (heap.bytes / _MIB + self.throughout_bytes / _MIB).tolist(),
            "unpaddedHeapSizes": (heap.unpadded / _MIB + self.throughout_bytes / _MIB).tolist(),
            "hloInstructionNames": [*names, ""],
            "peakHeapSizePosition": heap.peak_event,
        }

    # ---- buffers

    @cached_property
    def shapes(self) -> list[Shape]:
        """For nested tuples XProf looks up only the last index, so the shape is that of the outer tuple's element."""
        module = self.program.module
        rows = np.append(module.instructions["shape"], np.int32(-1))[self.program.instruction].tolist()
        shapes = [module.shape(row) for row in rows]
        for buffer in np.flatnonzero(self.plan.buffers["index_count"]).tolist():
            last = self.program.index(buffer)[-1]
            elements = shapes[buffer].elements
            shapes[buffer] = elements[last] if 0 <= last < len(elements) else shapes[buffer]
        return shapes

    @cached_property
    def unpadded(self) -> Int64s:
        distinct = {shape.proto: shape for shape in reversed(self.shapes)}
        known = {proto: _bytes(shape) for proto, shape in distinct.items()}
        return np.array([known[shape.proto] for shape in self.shapes], np.int64)

    def _category(self, allocation: int) -> str:
        return CATEGORIES[self.plan.category[allocation]]

    def _shape_text(self, buffer: int) -> str:
        shape = self.shapes[buffer]
        if shape.proto not in self._shape_texts:
            self._shape_texts[shape.proto] = self.program.shape_text(shape)
        return self._shape_texts[shape.proto]

    def _source(self, buffer: int) -> Json:
        """Equal ones are built once: stacks may be long, and many instructions share them."""
        row = int(self.program.instruction[buffer])
        if row < 0:
            return {}
        key = self._places[row]
        if key not in self._sources:
            source = self.program.module.source_of(row)
            info = {
                "fileName": source.file,
                "lineNumber": source.line,
                "stackFrame": "\n".join(map(str, source.frames)),
            }
            self._sources[key] = {"sourceInfo": info} if source.file else {}
        return self._sources[key]

    @cached_property
    def _places(self) -> list[tuple[int, int, int]]:
        """By instruction, what its source depends on."""
        places: list[tuple[int, int, int]] = self.program.module.instructions[
            ["source_file", "source_line", "stack_frame_id"]
        ].tolist()
        return places

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """By buffer."""
        every = Buffers(self.program, np.arange(len(self.plan.buffers)))
        columns = {
            "instruction": every.instruction_names(),
            "name": every.names(),
            "opcode": every.of_instruction("opcode"),
            "op_name": every.of_instruction("op_name"),
        }
        return {name: [text or "" for text in column.to_pylist()] for name, column in columns.items()}

    def _at_peak(self) -> list[Json]:
        shown: list[int] = []
        if self.space.number == DEVICE:
            shown += [self._largest(row) for row in self.throughout]
        if self.heap is not None:
            shown += self.heap.shown.tolist()
        objects: list[Json] = []
        small = 0
        for buffer in shown:
            size = int(self.plan.buffers["size"][buffer])
            if size < SMALL:
                small += size
                continue
            self.place[buffer] = len(objects)
            objects.append(self._heap_object(buffer, len(objects)))
        if small:
            objects.append({
                "numbered": len(objects), "label": f"small (<{SMALL} bytes)", "logicalBufferId": -1,
                "logicalBufferSizeMib": small / _MIB, "unpaddedShapeMib": 0.0,
            })  # fmt: skip
        return objects

    def _heap_object(self, buffer: int, number: int) -> Json:
        name, opcode, op_name = (self.texts[name][buffer] for name in ("instruction", "opcode", "op_name"))
        shape = self._shape_text(buffer)
        return {
            "numbered": number,
            "label": f"{name}: {shape} # {op_name}",
            "logicalBufferId": int(self.plan.buffers["id"][buffer]),
            "logicalBufferSizeMib": int(self.plan.buffers["size"][buffer]) / _MIB,
            "unpaddedShapeMib": int(self.unpadded[buffer]) / _MIB,
            "instructionName": self.texts["name"][buffer],
            "shapeString": shape,
            "tfOpName": op_name,
            "groupName": self._category(int(self.plan.allocation_of[buffer])),
            "opCode": opcode,
            **self._source(buffer),
        }

    # ---- allocations

    def _sizes(self) -> Json:
        every = self.plan.allocations[self.space.allocations]
        reusable = (every["thread_local"] == 0) & (every["tuple"] == 0)
        parts = {
            "entryComputationParametersMib": every["entry_parameter"] != 0,
            "nonReusableMib": ~reusable,
            "maybeLiveOutMib": every["live_out"] != 0,
            "totalBufferAllocationMib": every["thread_local"] == 0,
            "indefiniteBufferAllocationMib": self.plan.whole_run[self.space.allocations],
        }
        return {name: int(every["size"][chosen].sum()) / _MIB for name, chosen in parts.items()}

    def _scoped(self) -> Json:
        scoped = scoped_vmem(self.program, self.space.number)
        if isinstance(scoped["scoped_vmem_bytes"], tuple):
            return {}
        return {
            "maxScopedVmemAllocationMib": scoped["scoped_vmem_bytes"] / _MIB,
            "maxScopedVmemInstructionName": scoped["scoped_vmem_instruction"],
        }

    def _lifetime(self, allocation: int) -> Json:
        every = self.plan.allocations[allocation]
        attributes = {
            "entry computation parameter": every["entry_parameter"] != 0,
            "may-be live out": every["live_out"] != 0,
            "reusable": every["thread_local"] == 0 and every["tuple"] == 0,
        }
        first, count = every[["first_assigned", "assigned_count"]].item()
        buffers = [self._assigned(one) for one in range(first, first + count)]
        shapes = {one["shape"] for one in buffers}
        return {
            "id": _id(int(every["index"])),
            "sizeMib": int(every["size"]) / _MIB,
            "attributes": [name for name, applies in attributes.items() if applies],
            "logicalBuffers": buffers,
            "commonShape": shapes.pop() if len(shapes) == 1 else "",
        }

    def _assigned(self, row: int) -> Json:
        one = self.plan.assigned[row]
        buffer = int(one["buffer"])
        known = buffer >= 0
        return {
            "id": _id(int(one["buffer_id"])),
            "sizeMib": int(one["size"]) / _MIB,
            "hloName": self.texts["instruction"][buffer] if known else "",
            "shapeIndex": [str(place) for place in self.program.index(buffer)] if known else [],
            "shape": self._shape_text(buffer) if known else "",
        }

    # ---- the timeline

    def _blocks(self) -> list[Json]:
        """A block per allocation of temporaries with a trace, stacked, each followed by those of its buffers."""
        every, heap = self.plan.allocations["size"], self.heap
        counts = [int(self.plan.traces["event_count"][self.program.trace_of[row]]) for row in self.traced]
        height, width = int(every[self.traced].sum()), max(counts, default=0)
        if height <= 0 or width <= 0 or heap is None:
            return []
        blocks: list[Json] = []
        drawn, offset = 0, 0
        for row in self.traced:
            size, category = int(every[row]), self._category(row)
            blocks.append({
                "logicalBufferId": -1, "name": category, "offset": float(offset), "size": float(size), "startStep": 0,
                "endStep": width, "category": category, "color": "#ffffff",
            })  # fmt: skip
            drawn += int(size * (_CANVAS / height) >= 1)
            rows = self._inside(row)
            rows = rows[heap.spans(rows)[0] >= 0]
            held, freed = heap.spans(rows)
            is_drawn = (freed - held) * (_CANVAS / width) >= 1  # large enough to take a colour
            is_drawn &= self.plan.buffers["size"][rows] * (_CANVAS / height) >= 1
            seen = np.append(0, np.cumsum(is_drawn))
            blocks += self._inner_blocks(heap, rows, offset, category, drawn + seen[:-1])
            drawn += int(seen[-1])
            offset += size
        return blocks

    def _inner_blocks(self, heap: Heap, rows: Int64s, base: int, category: str, drawn: Int64s) -> list[Json]:
        """``drawn``: for each row, the number of rectangles before it, which is its colour unless it is among those at
        the peak."""
        numbers = (
            self.plan.buffers["id"][rows], (base + self.plan.offset_of[rows]).astype(float),
            self.plan.buffers["size"][rows].astype(float), *heap.spans(rows),
            self.unpadded[rows].astype(float), drawn,
        )  # fmt: skip
        values = zip(rows.tolist(), *(column.tolist() for column in numbers), strict=True)
        return [
            {
                "logicalBufferId": id,
                "name": self.texts["name"][row],
                "offset": offset,
                "size": size,
                "startStep": start,
                "endStep": end,
                "tfOpName": self.texts["op_name"][row],
                "category": category,
                "shapeString": self._shape_text(row),
                "unpaddedSize": unpadded,
                "color": PALETTE[self.place.get(row, number) % len(PALETTE)],
                **self._source(row),
            }
            for row, id, offset, size, start, end, unpadded, number in values
        ]


def _id(number: int) -> str:
    """A 64-bit number, which protobuf's JSON has as text; "" for 0, which is left out."""
    return str(number) if number else ""


def _bytes(shape: Shape) -> int:
    """A type of less than a byte takes one, unless the layout says how many bits."""
    if shape is NO_SHAPE:
        return 0
    if shape.is_tuple:
        return POINTER_BYTES * len(shape.elements)
    bits = BITS.get(shape.element_type, 0)
    if 0 < bits < 8:
        return (shape.count * shape.element_bits + 7) // 8 if shape.element_bits else shape.count
    return shape.count * bits // 8
