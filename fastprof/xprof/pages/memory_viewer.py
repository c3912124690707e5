"""XProf's memory viewer: sizes in MiB as doubles, one memory space of one program, protobuf's JSON.

Defaults (0 or empty) are left out. Formulas: XProf's hlo_proto_to_memory_visualization_utils."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof._native.kernels import rank_order
from fastprof.analyses.memory_viewer import ShownProgram
from fastprof.hlo.program_memory import CATEGORIES, DEVICE, TOO_LARGE, VMEM, Heap, find_most_scoped
from fastprof.hlo.program_memory_tables import Buffers
from fastprof.hlo.shapes import BITS, MOST, NO_SHAPE, POINTER_BYTES, Shape
from fastprof.schema.columns import Int64s

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport
    from fastprof.hlo.program_memory import MemorySpace

Json = dict[str, Any]

SMALL = 16384
"""Bound below which buffers are merged into one entry."""
_MIB = float(1 << 20)
_CANVAS = 4096
"""Width and height of the drawing: thinner blocks are not drawn, and take no colour."""


def answer(report: AnalysisReport) -> Any:
    """Make the page. It is empty without a program, if XProf has no answer, and for sizes beyond 64 bits."""
    shown = None if report.detail is None else report.detail_as(ShownProgram)
    return {} if shown is None or shown.memory.unknown == TOO_LARGE else _drop_defaults(_Drawing(shown.space).all())


def _drop_defaults(value: Any) -> Any:
    """Drop defaults, except numbers in a oneof and entries of a map, which are always written."""
    if isinstance(value, dict):
        items = {name: _drop_defaults(item) for name, item in value.items()}
        return {name: item for name, item in items.items() if item not in (0, "", []) or name == "numbered"}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_drop_defaults(item) for item in value]
    return value


def _sort_largest_first(mebibytes: Sequence[float]) -> list[int]:
    """Return the places of sizes in the order of std::sort: many are equal, such as those of equal layers."""
    order = np.arange(len(mebibytes), dtype=np.int32)
    rank_order(np.array([int(size * _MIB) for size in mebibytes], np.int64), order)
    places: list[int] = order.tolist()
    return places


class _Drawing:
    def __init__(self, space: MemorySpace) -> None:
        self.space = space
        self.program = space.program
        self.plan = space.program.buffers
        self.lasting: list[int] = space.whole_run.tolist()
        """Rows of allocations of indefinite lifetime."""
        self.traced = [
            row for row in space.allocations.tolist() if not self.plan.whole_run[row] and row in self.program.trace_of
        ]
        """Rows of allocations of temporaries with a trace."""
        self.throughout = [row for row in self.lasting if self.plan.largest(row) >= 0]
        self.throughout_bytes = int(self.plan.allocations["size"][self.throughout].sum())
        self.place: dict[int, int] = {}
        """Place of each buffer among those at the peak."""
        self._sources: dict[tuple[int, int, int], Json] = {}

    def all(self) -> Json:
        at_peak = self._at_peak()
        order = _sort_largest_first([buffer["logicalBufferSizeMib"] for buffer in at_peak])
        ranks = {place: rank for rank, place in enumerate(order)}
        heap, throughout = self.heap, self.throughout_bytes / _MIB
        size, taken_by = find_most_scoped(self.program.module) if self.space.number == VMEM else (0, "")
        scoped = {"maxScopedVmemAllocationMib": size / _MIB, "maxScopedVmemInstructionName": taken_by}
        page = {
            "moduleName": self.program.module.name,
            "entryComputationName": self.program.module.entry_name,
            "maxHeap": at_peak,
            "maxHeapBySize": [at_peak[i] for i in order],
            "bySizeToMaxHeap": order,
            "maxHeapToBySize": [ranks[i] for i in range(len(at_peak))],
            "indefiniteLifetimes": [self._lifetime(row) for row in self.lasting],
            "bufferBlocks": self._blocks(),
            "peakHeapMib": throughout if heap is None else heap.peak_bytes / _MIB + throughout,
            "peakUnpaddedHeapMib": throughout if heap is None else heap.peak_unpadded / _MIB + throughout,
            **self._sizes(),
            **scoped,
        }
        return page if heap is None else page | self._series(heap)

    # ---- the heap

    @cached_property
    def heap(self) -> Heap | None:
        trace = self._trace()
        return None if trace is None else Heap(self.plan, trace, self.unpadded)

    def _trace(self) -> int | None:
        """Return the trace of the first temporaries that have one, else the one with most events of the memory
        space."""
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
        """Shapes of buffers. For nested tuples XProf looks up only the last index, so the shape is that of the outer
        tuple's element."""
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
        known = {proto: min(_count_bytes(shape), MOST) for proto, shape in distinct.items()}
        sizes = np.array([known[shape.proto] for shape in self.shapes], np.int64)
        return np.where(sizes < MOST, sizes, self.plan.buffers["size"])  # of damaged shapes the size of the buffer

    def _category(self, allocation: int) -> str:
        return CATEGORIES[self.plan.category[allocation]]

    def _shape_text(self, buffer: int) -> str:
        return self.program.shape_text(self.shapes[buffer])

    def _source(self, buffer: int) -> Json:
        """Return the source of a buffer. Equal ones are built once: stacks may be long, and many instructions share
        them."""
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
        """Fields that determine the source of each instruction."""
        places: list[tuple[int, int, int]] = self.program.module.instructions[
            ["source_file", "source_line", "stack_frame_id"]
        ].tolist()
        return places

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """Texts by buffer."""
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
            shown += [self.plan.largest(row) for row in self.throughout]
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

    def _lifetime(self, allocation: int) -> Json:
        every = self.plan.allocations[allocation]
        attributes = {
            "entry computation parameter": every["entry_parameter"] != 0,
            "may-be live out": every["live_out"] != 0,
            "reusable": every["thread_local"] == 0 and every["tuple"] == 0,
        }
        first, count = every[["first_assigned", "assigned_count"]].item()
        buffers = [self._assigned(place) for place in range(first, first + count)]
        shapes = {buffer["shape"] for buffer in buffers}
        return {
            "id": _format_id(int(every["index"])),
            "sizeMib": int(every["size"]) / _MIB,
            "attributes": [name for name, applies in attributes.items() if applies],
            "logicalBuffers": buffers,
            "commonShape": shapes.pop() if len(shapes) == 1 else "",
        }

    def _assigned(self, row: int) -> Json:
        assigned = self.plan.assigned[row]
        buffer = int(assigned["buffer"])
        known = buffer >= 0
        return {
            "id": _format_id(int(assigned["buffer_id"])),
            "sizeMib": int(assigned["size"]) / _MIB,
            "hloName": self.texts["instruction"][buffer] if known else "",
            "shapeIndex": [str(place) for place in self.program.index(buffer)] if known else [],
            "shape": self._shape_text(buffer) if known else "",
        }

    # ---- the timeline

    def _blocks(self) -> list[Json]:
        """List a block per allocation of temporaries with a trace, stacked, each followed by those of its buffers."""
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
            rows = self.plan.inside(row)
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
        """List the blocks of buffers. ``drawn``: for each row, the number of rectangles before it, which is its colour
        unless it is among those at the peak."""
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


def _format_id(number: int) -> str:
    """Format a 64-bit number as text, as protobuf's JSON does; 0 becomes "", which is left out."""
    return str(number) if number else ""


def _count_bytes(shape: Shape) -> int:
    """Return the bytes of a shape. A type of less than a byte takes one, unless the layout says how many bits."""
    if shape is NO_SHAPE:
        return 0
    if shape.is_tuple:
        return POINTER_BYTES * len(shape.elements)
    bits = BITS.get(shape.element_type, 0)
    if 0 < bits < 8:
        return (shape.count * shape.element_bits + 7) // 8 if shape.element_bits else shape.count
    return shape.count * bits // 8


_HEX = (
    "e91e63 2196f3 81c784 4dd0e1 3f51b5 e53935 ff9100 b39ddb 90a4ae 26c6da ad1457 03a9f4 2196f3 c2185b 795548 f9a825 "
    "00bfa5 880e4f d500f9 ce93d8 ec407a 4caf50 ff8f00 ffca28 ab47bc 00e5ff ff9800 40c4ff 1e88e5 9fa8da bf360c 00b8d4 "
    "f57f17 64b5f6 e040fb ffab91 4caf50 01579b 66bb6a ef9a9a 558b2f fb8c00 ff4081 00e676 388e3c 424242 6d4c41 c62828 "
    "616161 00897b 448aff 0d47a1 607d8b 673ab7 00c853 2e7d32 ffa726 5e35b1 ba68c8 8d6e63 00bcd4 ff6f00 f4511e ff1744 "
    "9e9e9e d81b60 4a148c 26a69a 689f38 7b1fa2 b0bec5 304ffe f48fb1 ffd600 ffb74d 8bc34a 303f9f 5d4037 80cbc4 ffcc80 "
    "00acc1 3e2723 ff5252 ff7043 e91e63 ea80fc e65100 d84315 212121 ff5722 1976d2 2962ff bdbdbd 3949ab 69f0ae d50000 "
    "ffd740 c0ca33 ff6e40 00b0ff 2979ff e64a19 7c4dff 607d8b 009688 ffb300 c51162 ffc400 29b6f6 3d5afe 76ff03 cddc39 "
    "b388ff 5c6bc0 9e9d24 7cb342 ef5350 fdd835 ef6c00 4fc3f7 6200ea 004d40 ff8a65 ffab00 80deea 0097a7 7e57c2 ff6d00 "
    "1565c0 455a64 ffc107 4527a0 ff5722 f44336 f57c00 827717 a5d6a7 82b1ff 9c27b0 ff80ab e1bee7 78909c 311b92 00695c "
    "4e342e 3f51b5 651fff 9e9e9e 81d4fa f8bbd0 b71c1c 0091ea 673ab7 a1887f 4db6ac ffa000 6a1b9a 43a047 bcaaa4 546e7a "
    "aeea00 e57373 ffccbc 006064 fbc02d ffeb3b 8bc34a 039be5 8e24aa 80d8ff 009688 9ccc65 512da8 ffc107 757575 0277bd "
    "ff3d00 33691e 03a9f4 00838f ff8a80 283593 f50057 1a237e 90caf9 9c27b0 aa00ff aed581 afb42b 9575cd d32f2f 64dd17 "
    "f44336 795548 cddc39 ff9e80 7986cb dd2c00 0288d1 ff9800 263238 00796b 42a5f5 8c9eff 1b5e20 ffab40 536dfe 00bcd4 "
    "f06292"
)
PALETTE: Final = tuple(f"#{color}" for color in _HEX.split())
"""Colours in the form of CSS."""
