"""ProfileProto as the protobuf runtime reads it: its message class, from a descriptor that is made in code."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "tensorflow.tfprof"

# message: (number, field, type); "*" is repeated, "K>V" a map, a name in capitals a message.
_FIELDS: dict[str, list[tuple[int, str, str]]] = {
    "ProfileProto": [
        (1, "nodes", "int64>ProfileNode"), (2, "has_trace", "bool"), (3, "steps", "*int64"),
        (4, "id_to_string", "int64>string"), (5, "miss_accelerator_stream", "bool"),
    ],
    "ProfileNode": [
        (1, "name", "string"), (2, "inputs", "int32>int64"), (3, "outputs", "int32>int64"), (4, "shape", "*int64"),
        (5, "op_types", "*string"), (6, "canonical_device", "string"), (7, "host_device", "string"),
        (8, "float_ops", "int64"), (9, "op", "string"), (10, "trace", "CodeDef"), (11, "attrs", "string>AttrValue"),
        (12, "execs", "int64>ExecProfile"), (13, "id", "int64"), (14, "src_output_index", "int64>int32"),
        (15, "output_shapes", "int32>Tuple"), (16, "input_shapes", "int32>Tuple"),
    ],
    "ExecProfile": [
        (1, "run_count", "int64"), (2, "all_start_micros", "int64"), (3, "latest_end_micros", "int64"),
        (4, "accelerator_execs", "string>ExecTime"), (5, "cpu_execs", "string>ExecTime"), (6, "devices", "*string"),
        (7, "memory_execs", "*ExecMemory"), (11, "allocations", "*AllocationRecord"),
    ],
    "ExecTime": [(1, "times", "*Tuple")],
    "ExecMemory": [
        (1, "memory_micros", "int64"), (2, "host_temp_bytes", "int64"), (3, "host_persistent_bytes", "int64"),
        (4, "accelerator_temp_bytes", "int64"), (5, "accelerator_persistent_bytes", "int64"),
        (6, "requested_bytes", "int64"), (7, "peak_bytes", "int64"), (8, "residual_bytes", "int64"),
        (9, "output_bytes", "int64"), (10, "allocator_bytes_in_use", "int64"), (11, "output_memory", "int32>Memory"),
    ],
    "Memory": [(1, "bytes", "int64"), (2, "ptr", "uint64")],
    "Tuple": [(1, "int64_values", "*int64")],
    "AllocationRecord": [(1, "alloc_micros", "int64"), (2, "alloc_bytes", "int64")],
    "AttrValue": [(2, "s", "bytes")],
    "CodeDef": [(1, "traces", "*Trace")],
    "Trace": [
        (2, "lineno", "int32"), (5, "func_start_line", "int32"), (6, "file_id", "int64"), (7, "function_id", "int64"),
        (8, "line_id", "int64"),
    ],
}  # fmt: skip

_TYPE = descriptor_pb2.FieldDescriptorProto


def _declare(message: Any, number: int, name: str, declared: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _TYPE.LABEL_REPEATED if declared.startswith("*") else _TYPE.LABEL_OPTIONAL
    kind = declared.lstrip("*")
    if kind[0].isupper():
        field.type, field.type_name = _TYPE.TYPE_MESSAGE, kind if "." in kind else f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(_TYPE, f"TYPE_{kind.upper()}")


@cache
def profile_class() -> Any:
    """The message class ProfileProto, of a descriptor pool of its own."""
    file = descriptor_pb2.FileDescriptorProto(name="tfprof_log.proto", package=PACKAGE, syntax="proto3")
    for message_name, fields in _FIELDS.items():
        message = file.message_type.add(name=message_name)
        for number, name, declared in fields:
            key, is_map, value = declared.partition(">")
            if not is_map:
                _declare(message, number, name, declared)
                continue
            entry = message.nested_type.add(name="".join(word.title() for word in name.split("_")) + "Entry")
            entry.options.map_entry = True
            _declare(entry, 1, "key", key)
            _declare(entry, 2, "value", value)
            _declare(message, number, name, "*Entry")
            message.field[-1].type_name = f".{PACKAGE}.{message_name}.{entry.name}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.ProfileProto"))
