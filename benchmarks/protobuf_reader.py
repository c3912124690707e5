"""Runs where protobuf is installed: parses a capture, walks every event and stat, and reports the seconds.

Usage: protobuf_reader.py CAPTURE. The message types are built here from the fields of XSpace, so nothing
of TensorFlow is needed. Importing and building are not counted.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "int64": Field.TYPE_INT64,
    "uint64": Field.TYPE_UINT64,
    "double": Field.TYPE_DOUBLE,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
}
MESSAGES = {
    "XSpace": "1 planes XPlane*, 2 errors string*, 3 warnings string*, 4 hostnames string*",
    "XPlane": "1 id int64, 2 name string, 3 lines XLine*, 4 event_metadata EventMetadataEntry*, "
    "5 stat_metadata StatMetadataEntry*, 6 stats XStat*",
    "EventMetadataEntry": "1 key int64, 2 value XEventMetadata",
    "StatMetadataEntry": "1 key int64, 2 value XStatMetadata",
    "XLine": "1 id int64, 2 name string, 3 timestamp_ns int64, 4 events XEvent*, 9 duration_ps int64, "
    "10 display_id int64, 11 display_name string",
    "XEvent": "1 metadata_id int64, 2 offset_ps int64|, 5 num_occurrences int64|, 3 duration_ps int64, 4 stats XStat*",
    "XStat": "1 metadata_id int64, 2 double_value double|, 3 uint64_value uint64|, 4 int64_value int64|, "
    "5 str_value string|, 6 bytes_value bytes|, 7 ref_value uint64|",
    "XEventMetadata": "1 id int64, 2 name string, 3 metadata bytes, 4 display_name string, 5 stats XStat*, "
    "6 child_id int64*",
    "XStatMetadata": "1 id int64, 2 name string, 3 description string",
}
"""Number, name and type of each field; ``*`` marks a repeated one, ``|`` a member of the oneof."""


def xspace_type() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="xspace.proto", package="bench", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if "|" in fields:
            message.oneof_decl.add(name="value")
        for text in fields.split(", "):
            _add_field(message, *text.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.XSpace"))


def _add_field(message: Any, number: str, name: str, kind: str) -> None:
    label = Field.LABEL_REPEATED if kind.endswith("*") else Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if kind.endswith("|"):
        field.oneof_index = 0
    kind = kind.rstrip("*|")
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".bench.{kind}"


def walk(space: Any) -> dict[str, int]:
    """Reads name, start, duration and every stat of every event."""
    events = stats = 0
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        texts = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for line in plane.lines:
            for event in line.events:
                events += 1
                _ = (
                    names.get(event.metadata_id),
                    line.timestamp_ns * 1000 + event.offset_ps,
                    event.duration_ps,
                )
                for stat in event.stats:
                    stats += 1
                    member = stat.WhichOneof("value")
                    value = getattr(stat, member) if member else None
                    _ = texts.get(stat.metadata_id), texts.get(value) if member == "ref_value" else value
    return {"events": events, "stats": stats}


def main(capture: str) -> None:
    xspace = xspace_type()
    began = time.perf_counter()
    space = xspace()
    space.ParseFromString(Path(capture).read_bytes())
    parsed = time.perf_counter()
    facts = walk(space)
    ended = time.perf_counter()
    facts["parse_ms"] = round((parsed - began) * 1000)
    print(json.dumps({"seconds": [ended - began], "facts": facts}))


main(sys.argv[1])
