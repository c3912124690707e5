"""ProfileProto as the protobuf runtime reads it, and the tables of tfprof made of it by plain loops: an oracle.

profile_class()    the message class, of a descriptor made in code from the format's field table
tables_of(data)    the tables of tfprof of one file's bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
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


@dataclass
class Tables:
    """The tables of one profile."""

    profiles: pa.Table
    nodes: pa.Table
    executions: pa.Table
    memory: pa.Table


_INT32, _INT64, _TEXT = pa.int32(), pa.int64(), pa.string()
_BYTE_FIELDS = [name for _, name, _ in _FIELDS["ExecMemory"][1:10]]


def _struct(**members: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct(list(members.items())))


_NODE_TYPES = {
    "host": _TEXT, "name": _TEXT, "op": _TEXT, "types": pa.list_(_TEXT), "canonical_device": _TEXT,
    "host_device": _TEXT, "shape": pa.list_(_INT64), "parameters": _INT64, "float_ops": _INT64,
    "inputs": _struct(slot=_INT32, node=_TEXT, output=_INT32), "outputs": _struct(slot=_INT32, node=_TEXT),
    "input_shapes": _struct(slot=_INT32, shape=pa.list_(_INT64)),
    "output_shapes": _struct(slot=_INT32, shape=pa.list_(_INT64)), "attrs": _struct(name=_TEXT, value=_TEXT),
    "trace": _struct(file=_TEXT, line=_INT32, function=_TEXT, function_line=_INT32, text=_TEXT),
    "runs": _struct(step=_INT64, run_count=_INT64, start_us=_INT64, end_us=_INT64, devices=pa.list_(_TEXT),
                    allocations=_struct(time_us=_INT64, bytes=_INT64)),
}  # fmt: skip
_EXECUTION_TYPES = {
    "host": _TEXT, "name": _TEXT, "step": _INT64, "device": _TEXT, "is_accelerator": pa.bool_(),
    "start_us": _INT64, "duration_us": _INT64,
}  # fmt: skip
_MEMORY_TYPES = {"host": _TEXT, "name": _TEXT, "step": _INT64, "end_us": _INT64} | dict.fromkeys(_BYTE_FIELDS, _INT64)


def _by_name(text: str) -> bytes:
    return text.encode()


def tables_of(data: bytes, host: str = "host") -> Tables:
    profile = profile_class().FromString(data)
    texts = profile.id_to_string
    nodes = sorted(profile.nodes.values(), key=lambda node: _by_name(node.name))
    rows, executions, memory = [], [], []
    for node in nodes:
        rows.append(_node_row(node, profile, texts, host))
        for step, run in sorted(node.execs.items()):
            for is_accelerator, by_device in ((True, run.accelerator_execs), (False, run.cpu_execs)):
                for device, times in sorted(by_device.items(), key=lambda one: _by_name(one[0])):
                    executions += [
                        {"host": host, "name": node.name, "step": step, "device": device,
                         "is_accelerator": is_accelerator, "start_us": one.int64_values[0],
                         "duration_us": one.int64_values[1]}
                        for one in times.times
                    ]  # fmt: skip
            for one in run.memory_execs:
                byte_fields = {name: getattr(one, name) for name in _BYTE_FIELDS}
                memory.append(
                    {"host": host, "name": node.name, "step": step, "end_us": one.memory_micros, **byte_fields}
                )
    described = {"host": host, "steps": sorted(set(profile.steps)), "has_trace": profile.has_trace,
                 "misses_accelerator_stream": False}  # fmt: skip
    return Tables(
        pa.Table.from_pylist([described]),
        pa.Table.from_pylist(rows, pa.schema(list(_NODE_TYPES.items()))),
        pa.Table.from_pylist(executions, pa.schema(list(_EXECUTION_TYPES.items()))),
        pa.Table.from_pylist(memory, pa.schema(list(_MEMORY_TYPES.items()))),
    )


def _node_row(node: Any, profile: Any, texts: Any, host: str) -> dict[str, Any]:
    parameters = 1 if node.shape and min(node.shape) >= 0 else 0
    for size in node.shape:
        parameters *= size
    inputs = [
        {"slot": slot, "node": profile.nodes[number].name, "output": node.src_output_index.get(number)}
        for slot, number in sorted(node.inputs.items())
    ]
    return {
        "host": host, "name": node.name, "op": node.op, "types": sorted(node.op_types, key=_by_name),
        "canonical_device": node.canonical_device or None, "host_device": node.host_device or None,
        "shape": list(node.shape) or None, "parameters": max(parameters, 0), "float_ops": node.float_ops,
        "inputs": inputs,
        "outputs": [{"slot": slot, "node": profile.nodes[one].name} for slot, one in sorted(node.outputs.items())],
        "input_shapes": _shapes(node.input_shapes), "output_shapes": _shapes(node.output_shapes),
        "attrs": [{"name": name, "value": value.s.decode("utf-8", "replace")} for name, value in node.attrs.items()],
        "trace": [
            {"file": texts[frame.file_id], "line": frame.lineno, "function": texts[frame.function_id],
             "function_line": frame.func_start_line, "text": texts[frame.line_id]}
            for frame in node.trace.traces
        ],
        "runs": [
            {"step": step, "run_count": run.run_count, "start_us": run.all_start_micros,
             "end_us": run.latest_end_micros, "devices": list(run.devices),
             "allocations": [{"time_us": one.alloc_micros, "bytes": one.alloc_bytes} for one in run.allocations]}
            for step, run in sorted(node.execs.items())
        ],
    }  # fmt: skip


def _shapes(shapes: Any) -> list[dict[str, Any]]:
    return [{"slot": slot, "shape": list(shape.int64_values)} for slot, shape in sorted(shapes.items())]
