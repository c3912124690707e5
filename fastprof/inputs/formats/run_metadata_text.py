"""RunMetadata in the text form of protobufs, as ``print(run_metadata)`` and ``text_format`` write it."""

from __future__ import annotations

from typing import Final, cast

from fastprof.inputs.formats import run_metadata
from fastprof.inputs.formats.contract import FormatRemark
from fastprof.inputs.formats.graph_def_text import GRAPH
from fastprof.inputs.message import (
    INT,
    TEXT,
    BadMessageError,
    TextFields,
    TextKind,
    encode_text_proto,
    number_fields,
)
from fastprof.wording.patterns import compile_late

NAME: Final = "run_metadata_text"
_ALLOCATION: Final[TextFields] = {
    **number_fields(1, "requested_bytes", "allocated_bytes"), "allocator_name": (3, TEXT),
    **number_fields(4, "allocation_id", "has_single_reference", "ptr"),
}  # fmt: skip
_SHAPE: Final[TextFields] = {"dim": (2, {"size": (1, INT)}), "unknown_rank": (3, INT)}
_TENSOR: Final = {"dtype": (1, INT), "shape": (2, _SHAPE), "allocation_description": (4, _ALLOCATION)}
_ALLOCATOR: Final[TextFields] = {
    "allocator_name": (1, TEXT),
    **number_fields(2, "total_bytes", "peak_bytes", "live_bytes", "allocator_bytes_in_use"),
    "allocation_records": (6, number_fields(1, "alloc_micros", "alloc_bytes")),
}
_NODE: Final[TextFields] = {
    "node_name": (1, TEXT),
    **number_fields(2, "all_start_micros", "op_start_rel_micros", "op_end_rel_micros", "all_end_rel_micros"),
    "memory": (6, _ALLOCATOR),
    "output": (7, cast(TextKind, {"slot": (1, INT), "tensor_description": (3, _TENSOR)})),
    "timeline_label": (8, TEXT),
    **number_fields(9, "scheduled_micros", "thread_id"),
    "memory_stats": (12, number_fields(1, "temp_memory_size", "device_temp_memory_size", "persistent_memory_size")),
    **number_fields(13, "all_start_nanos", "op_start_rel_nanos", "op_end_rel_nanos", "all_end_rel_nanos"),
}
_DEVICE: Final[TextFields] = {
    "device": (1, TEXT), "node_stats": (2, _NODE), "thread_names": (3, {"key": (1, INT), "value": (2, TEXT)}),
}  # fmt: skip
_FUNCTION: Final[TextFields] = {
    "partition_graphs": (1, GRAPH), "pre_optimization_graph": (2, GRAPH), "post_optimization_graph": (3, GRAPH),
}  # fmt: skip
RUN: Final[TextFields] = {
    "step_stats": (1, cast(TextKind, {"dev_stats": (1, _DEVICE)})),
    "partition_graphs": (3, GRAPH),
    "function_graphs": (4, _FUNCTION),
}

_BEGINS: Final = compile_late(rb"(?:\s|#[^\n]*\n)*step_stats\s*:?\s*[{<]")


def begins(head: bytes) -> bool:
    return _BEGINS.match(head) is not None


def scribe(path: str, salvage: bool) -> RunTextScribe:
    return RunTextScribe(path, salvage)


class RunTextScribe(run_metadata.RunScribe):
    """Writes the text as bytes, which are then read."""

    def message(self) -> bytes:
        parts = list[bytes]()
        try:
            parts.extend(encode_text_proto(bytes(self.document), RUN))
        except BadMessageError as fault:
            if not self._salvage:
                raise
            self.remarks.append(
                FormatRemark("data_loss", "truncated", f"the rest is not read: {fault.text}", 1, fault.at)
            )
        return b"".join(parts)
