"""The messages of pprof's profile.proto, of a descriptor made in code from the published schema."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INT, TEXT, UINT, MESSAGE, BOOL = 3, 9, 4, 11, 8
SCHEMA = {
    "ValueType": [("type", 1, INT), ("unit", 2, INT)],
    "Label": [("key", 1, INT), ("str", 2, INT), ("num", 3, INT), ("num_unit", 4, INT)],
    "Sample": [("location_id", 1, [UINT]), ("value", 2, [INT]), ("label", 3, ["Label"])],
    "Mapping": [("id", 1, UINT), ("memory_start", 2, UINT), ("memory_limit", 3, UINT), ("file_offset", 4, UINT),
                ("filename", 5, INT), ("build_id", 6, INT)],
    "Line": [("function_id", 1, UINT), ("line", 2, INT), ("column", 3, INT)],
    "Location": [("id", 1, UINT), ("mapping_id", 2, UINT), ("address", 3, UINT), ("line", 4, ["Line"]),
                 ("is_folded", 5, BOOL)],
    "Function": [("id", 1, UINT), ("name", 2, INT), ("system_name", 3, INT), ("filename", 4, INT),
                 ("start_line", 5, INT)],
    "Profile": [("sample_type", 1, ["ValueType"]), ("sample", 2, ["Sample"]), ("mapping", 3, ["Mapping"]),
                ("location", 4, ["Location"]), ("function", 5, ["Function"]), ("string_table", 6, [TEXT]),
                ("drop_frames", 7, INT), ("keep_frames", 8, INT), ("time_nanos", 9, INT), ("duration_nanos", 10, INT),
                ("period_type", 11, "ValueType"), ("period", 12, INT), ("comment", 13, [INT]),
                ("default_sample_type", 14, INT)],
}  # fmt: skip
"""Messages of profile.proto: name, number and type of each field, in a list if it repeats."""


def profile_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            one = kind[0] if isinstance(kind, list) else kind
            added = message.field.add(name=field, number=number, label=3 if isinstance(kind, list) else 1)
            added.type = MESSAGE if isinstance(one, str) else one
            if isinstance(one, str):
                added.type_name = f".perftools.profiles.{one}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


PROFILE = profile_class()
