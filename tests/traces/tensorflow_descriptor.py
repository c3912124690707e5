"""GraphDef, RunMetadata and profiles as the protobuf runtime reads them: classes built from tables of fields."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "tensorflow"
# message: number name type, …; * repeated, <key:value of a map, whose keys else are texts, | member of the oneof
_MESSAGES = """
GraphDef: 1 node *NodeDef, 2 library FunctionDefLibrary, 3 version int32, 4 versions VersionDef
VersionDef: 1 producer int32, 2 min_consumer int32
NodeDef: 1 name string, 2 op string, 3 input *string, 4 device string, 5 attr <AttrValue
FunctionDefLibrary: 1 function *FunctionDef
FunctionDef: 1 signature OpDef, 3 node_def *NodeDef
OpDef: 1 name string
AttrValue: 1 list |ListValue, 2 s |bytes, 3 i |int64, 4 f |float, 5 b |bool, 6 type |DataType, 7 shape |TensorShapeProto, 8 tensor |TensorProto, 9 placeholder |string, 10 func |NameAttrList
ListValue: 2 s *bytes, 3 i *int64, 4 f *float, 5 b *bool, 6 type *DataType, 7 shape *TensorShapeProto, 8 tensor *TensorProto, 9 func *NameAttrList
NameAttrList: 1 name string, 2 attr <AttrValue
TensorShapeProto: 2 dim *Dim, 3 unknown_rank bool
Dim: 1 size int64, 2 name string
TensorProto: 1 dtype DataType, 2 tensor_shape TensorShapeProto, 3 version_number int32, 4 tensor_content bytes, 5 float_val *float, 6 double_val *double, 7 int_val *int32, 8 string_val *bytes, 10 int64_val *int64, 11 bool_val *bool
RunMetadata: 1 step_stats StepStats, 3 partition_graphs *GraphDef, 4 function_graphs *FunctionGraphs
FunctionGraphs: 1 partition_graphs *GraphDef, 2 pre_optimization_graph GraphDef, 3 post_optimization_graph GraphDef
StepStats: 1 dev_stats *DeviceStepStats
DeviceStepStats: 1 device string, 2 node_stats *NodeExecStats, 3 thread_names <uint32:string
NodeExecStats: 1 node_name string, 2 all_start_micros int64, 3 op_start_rel_micros int64, 4 op_end_rel_micros int64, 5 all_end_rel_micros int64, 6 memory *AllocatorMemoryUsed, 7 output *NodeOutput, 8 timeline_label string, 9 scheduled_micros int64, 10 thread_id uint32, 11 referenced_tensor *AllocationDescription, 12 memory_stats MemoryStats, 13 all_start_nanos int64, 14 op_start_rel_nanos int64, 15 op_end_rel_nanos int64, 16 all_end_rel_nanos int64, 17 scheduled_nanos int64
AllocatorMemoryUsed: 1 allocator_name string, 2 total_bytes int64, 3 peak_bytes int64, 4 live_bytes int64, 5 allocator_bytes_in_use int64, 6 allocation_records *AllocationRecord
AllocationRecord: 1 alloc_micros int64, 2 alloc_bytes int64
NodeOutput: 1 slot int32, 3 tensor_description TensorDescription
TensorDescription: 1 dtype DataType, 2 shape TensorShapeProto, 4 allocation_description AllocationDescription
AllocationDescription: 1 requested_bytes int64, 2 allocated_bytes int64, 3 allocator_name string, 4 allocation_id int64, 5 has_single_reference bool, 6 ptr uint64
MemoryStats: 1 temp_memory_size int64, 2 device_temp_memory_size int64, 3 persistent_memory_size int64, 5 persistent_tensor_alloc_ids *int64
ProfileProto: 1 nodes <int64:ProfileNode, 2 has_trace bool, 3 steps *int64, 4 id_to_string <int64:string, 5 miss_accelerator_stream bool
ProfileNode: 1 name string, 2 inputs <int32:int64, 3 outputs <int32:int64, 4 shape *int64, 5 op_types *string, 6 canonical_device string, 7 host_device string, 8 float_ops int64, 9 op string, 10 trace CodeDef, 11 attrs <AttrValue, 12 execs <int64:ExecProfile, 13 id int64, 14 src_output_index <int64:int32, 15 output_shapes <int32:Tuple, 16 input_shapes <int32:Tuple
ExecProfile: 1 run_count int64, 2 all_start_micros int64, 3 latest_end_micros int64, 4 accelerator_execs <ExecTime, 5 cpu_execs <ExecTime, 6 devices *string, 7 memory_execs *ExecMemory, 11 allocations *AllocationRecord
ExecTime: 1 times *Tuple
ExecMemory: 1 memory_micros int64, 2 host_temp_bytes int64, 3 host_persistent_bytes int64, 4 accelerator_temp_bytes int64, 5 accelerator_persistent_bytes int64, 6 requested_bytes int64, 7 peak_bytes int64, 8 residual_bytes int64, 9 output_bytes int64, 10 allocator_bytes_in_use int64, 11 output_memory <int32:Memory
Tuple: 1 int64_values *int64
Memory: 1 bytes int64, 2 ptr uint64
OpLogProto: 1 log_entries *OpLogEntry, 2 id_to_string <int64:string
OpLogEntry: 1 name string, 2 float_ops int64, 3 types *string, 4 code_def CodeDef
CodeDef: 1 traces *Trace
Trace: 1 file string, 2 lineno int32, 3 function string, 4 line string, 5 func_start_line int32, 6 file_id int64, 7 function_id int64, 8 line_id int64
"""  # noqa: E501
TYPES = [
    "INVALID", "FLOAT", "DOUBLE", "INT32", "UINT8", "INT16", "INT8", "STRING", "COMPLEX64", "INT64", "BOOL", "QINT8",
    "QUINT8", "QINT32", "BFLOAT16", "QINT16", "QUINT16", "UINT16", "COMPLEX128", "HALF", "RESOURCE", "VARIANT",
    "UINT32", "UINT64",
]  # fmt: skip
_KIND = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("string", "bytes", "int64", "int32", "uint32", "uint64", "float", "double", "bool")


def _set_type(field: Any, name: str) -> None:
    if name in _SCALARS:
        field.type = getattr(_KIND, f"TYPE_{name.upper()}")
    else:
        field.type = _KIND.TYPE_ENUM if name == "DataType" else _KIND.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{name}"


def _add_field(message: Any, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _KIND.LABEL_REPEATED if kind[0] in "*<" else _KIND.LABEL_OPTIONAL
    if kind[0] == "<":
        entry = message.nested_type.add(name="".join(word.title() for word in name.split("_")) + "Entry")
        entry.options.map_entry = True
        key = entry.field.add(name="key", number=1, label=_KIND.LABEL_OPTIONAL)
        key_type, _, value_type = kind[1:].rpartition(":")
        _set_type(key, key_type or "string")
        value = entry.field.add(name="value", number=2, label=_KIND.LABEL_OPTIONAL)
        _set_type(value, value_type)
        kind = f"{message.name}.{entry.name}"
    if kind[0] == "|":
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0
    _set_type(field, kind.lstrip("*|"))


@cache
def message(name: str) -> Any:
    """The class of a message, ``GraphDef`` or ``RunMetadata``."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="tensorflow.proto", package=_PACKAGE, syntax="proto3")
    types = file.enum_type.add(name="DataType")
    for number, name in enumerate(TYPES):
        types.value.add(name=f"DT_{name}", number=number)
        types.value.add(name=f"DT_{name}_REF", number=number + 100)
    types.value.sort(key=lambda value: value.number)
    for line in _MESSAGES.strip().splitlines():
        name, _, fields = line.partition(": ")
        described = file.message_type.add(name=name)
        for declared in fields.split(", "):
            number, field, kind = declared.split()
            _add_field(described, int(number), field, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
