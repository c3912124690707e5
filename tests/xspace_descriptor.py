"""XSpace as the protobuf runtime reads it: message classes built in code from the format's field table.

read(data)              bytes -> Space, the objects of slow_reader, read by the protobuf runtime
read_tensorflow(data)   the same through tensorflow's own xplane_pb2, or None where it is not installed
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from slow_reader import Event, EventMetadata, Line, Plane, Space, Stat, StatMetadata

PACKAGE = "tensorflow.profiler"

# message: (number, field, type); a name in capitals is a message, "*" is repeated, "|" a member of the oneof.
_FIELDS: dict[str, list[tuple[int, str, str]]] = {
    "XSpace": [
        (1, "planes", "*XPlane"),
        (2, "errors", "*string"),
        (3, "warnings", "*string"),
        (4, "hostnames", "*string"),
    ],
    "XPlane": [
        (1, "id", "int64"),
        (2, "name", "string"),
        (3, "lines", "*XLine"),
        (4, "event_metadata", "*map XEventMetadata"),
        (5, "stat_metadata", "*map XStatMetadata"),
        (6, "stats", "*XStat"),
    ],
    "XLine": [
        (1, "id", "int64"),
        (2, "name", "string"),
        (3, "timestamp_ns", "int64"),
        (4, "events", "*XEvent"),
        (9, "duration_ps", "int64"),
        (10, "display_id", "int64"),
        (11, "display_name", "string"),
    ],
    "XEvent": [
        (1, "metadata_id", "int64"),
        (2, "offset_ps", "|data int64"),
        (3, "duration_ps", "int64"),
        (4, "stats", "*XStat"),
        (5, "num_occurrences", "|data int64"),
    ],
    "XStat": [
        (1, "metadata_id", "int64"),
        (2, "double_value", "|value double"),
        (3, "uint64_value", "|value uint64"),
        (4, "int64_value", "|value int64"),
        (5, "str_value", "|value string"),
        (6, "bytes_value", "|value bytes"),
        (7, "ref_value", "|value uint64"),
    ],
    "XEventMetadata": [
        (1, "id", "int64"),
        (2, "name", "string"),
        (3, "metadata", "bytes"),
        (4, "display_name", "string"),
        (5, "stats", "*XStat"),
        (6, "child_id", "*int64"),
    ],
    "XStatMetadata": [(1, "id", "int64"), (2, "name", "string"), (3, "description", "string")],
}

_TYPE = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _TYPE.TYPE_INT64,
    "uint64": _TYPE.TYPE_UINT64,
    "double": _TYPE.TYPE_DOUBLE,
    "string": _TYPE.TYPE_STRING,
    "bytes": _TYPE.TYPE_BYTES,
}


def _add_field(message: Any, number: int, name: str, type_name: str, repeated: bool) -> Any:
    added = message.field.add(name=name, number=number)
    added.label = _TYPE.LABEL_REPEATED if repeated else _TYPE.LABEL_OPTIONAL
    if type_name in _SCALARS:
        added.type = _SCALARS[type_name]
    else:
        added.type = _TYPE.TYPE_MESSAGE
        added.type_name = f".{PACKAGE}.{type_name}"
    return added


def _add_message(file: Any, name: str) -> None:
    message = file.message_type.add(name=name)
    for number, field, declared in _FIELDS[name]:
        mark, _, type_name = declared.rpartition(" ")
        if mark == "*map":
            entry = message.nested_type.add(name="".join(w.title() for w in field.split("_")) + "Entry")
            entry.options.map_entry = True
            _add_field(entry, 1, "key", "int64", False)
            _add_field(entry, 2, "value", type_name, False)
            type_name, mark = f"{name}.{entry.name}", "*"
        added = _add_field(message, number, field, type_name.lstrip("*"), "*" in (mark + type_name))
        if mark.startswith("|"):
            if mark[1:] not in [oneof.name for oneof in message.oneof_decl]:
                message.oneof_decl.add(name=mark[1:])
            added.oneof_index = 0


@cache
def xspace_class() -> Any:
    """The message class XSpace, of a descriptor pool of its own."""
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package=PACKAGE, syntax="proto3")
    for name in _FIELDS:
        _add_message(file, name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.XSpace"))


_TENSORFLOW_HOMES = (
    "tensorflow.tsl.profiler.protobuf.xplane_pb2",
    "tsl.profiler.protobuf.xplane_pb2",
    "xprof.protobuf.xplane_pb2",
    "tensorflow.core.profiler.protobuf.xplane_pb2",
)


@cache
def tensorflow_class() -> Any:
    """tensorflow's own XSpace class, or None where it is not installed."""
    for home in _TENSORFLOW_HOMES:
        try:
            return import_module(home).XSpace
        except ImportError:
            continue
    return None


# ---- messages to the objects of slow_reader -------------------------------------------------------

_KINDS = {
    "double_value": "double",
    "uint64_value": "uint64",
    "int64_value": "int64",
    "str_value": "str",
    "bytes_value": "bytes",
    "ref_value": "ref",
}


def _stats(messages: Any) -> list[Stat]:
    stats = []
    for message in messages:
        member = message.WhichOneof("value")
        kind, value = ("none", None) if member is None else (_KINDS[member], getattr(message, member))
        stats.append(Stat(message.metadata_id, kind, value))
    return stats


def _event(message: Any) -> Event:
    aggregated = message.WhichOneof("data") == "num_occurrences"
    return Event(
        message.metadata_id,
        message.offset_ps,
        message.num_occurrences if aggregated else None,
        message.duration_ps,
        _stats(message.stats),
    )


def _line(message: Any) -> Line:
    return Line(
        message.id,
        message.name,
        message.timestamp_ns,
        [_event(event) for event in message.events],
        message.duration_ps,
        message.display_id,
        message.display_name,
    )


def _plane(message: Any) -> Plane:
    events = {
        id: EventMetadata(
            meta.id,
            meta.name,
            meta.metadata or None,
            meta.display_name,
            _stats(meta.stats),
            list(meta.child_id),
        )
        for id, meta in message.event_metadata.items()
    }
    texts = {id: StatMetadata(meta.id, meta.name, meta.description) for id, meta in message.stat_metadata.items()}
    lines = [_line(line) for line in message.lines]
    return Plane(message.id, message.name, lines, events, texts, _stats(message.stats))


def _space(message: Any) -> Space:
    return Space(
        [_plane(plane) for plane in message.planes],
        list(message.errors),
        list(message.warnings),
        list(message.hostnames),
    )


def read(data: bytes) -> Space:
    """What the protobuf runtime reads. The order of metadata is the runtime's, not the file's.

    Raises google.protobuf.message.DecodeError.
    """
    return _space(xspace_class().FromString(data))


def read_tensorflow(data: bytes) -> Space | None:
    """The same through tensorflow's own message class; None where it is not installed."""
    xspace = tensorflow_class()
    return None if xspace is None else _space(xspace.FromString(data))
