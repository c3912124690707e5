"""Shardings and groups of devices as HLO text has them: ``{devices=[2,1]<=[2]}``, ``{{0,1},{2,3}}``, ``[2,4]<=[8]``."""

from __future__ import annotations

from collections.abc import Callable

from fastprof.hlo.message import Message
from fastprof.hlo.text.escapes import one_line
from fastprof.hlo.text.shape_text import index_mark, joined

_TYPE, _TILES, _DEVICES, _TUPLE, _LAST_REPLICATED, _METADATA, _LAST_DIMS = 1, 3, 4, 5, 6, 7, 8
_RESHAPE, _TRANSPOSE, _IN_GROUP, _GROUP_ID, _GROUP_TYPE, _NAMED = 9, 10, 11, 12, 13, 14
_REPLICATED, _MAXIMAL, _IN_TUPLE, _MANUAL, _UNKNOWN, _UNREDUCED = 0, 1, 2, 4, 5, 6
_WORDS = {_REPLICATED: "replicated", _MANUAL: "manual", _UNKNOWN: "unknown", _UNREDUCED: "unreduced"}
_SUBGROUPS = {_MANUAL: "manual", _MAXIMAL: "maximal", _REPLICATED: "replicated", _UNREDUCED: "unreduced"}
_MOST_NESTED = 32
_REPLICA_GROUPS, _DEVICE_LIST, _IOTA_LIST, _MESH_LIST = 49, 87, 92, 93

MetadataText = Callable[[Message], str]


def no_metadata(_: Message) -> str:
    """Leaves out where a sharding comes from."""
    return ""


def sharding_text(proto: memoryview, metadata: MetadataText = no_metadata) -> str:
    """An OpSharding. ``metadata``: writes an OpMetadata. CaptureError: it does not decode."""
    return _sharding(Message(proto), metadata, 0)


def _sharding(one: Message, metadata: MetadataText, inside: int) -> str:
    if one.integer(_TYPE) == _IN_TUPLE:
        if inside > _MOST_NESTED:
            return "{?}"
        parts = [_sharding(part, metadata, inside + 1) for part in one.messages(_TUPLE)]
        return "{" + "".join((index_mark(k) if k else "") + part for k, part in enumerate(parts)) + "}"
    if _NAMED in one:
        return _named(one.message(_NAMED), metadata)
    return "{" + _kind(one) + _shard_group(one) + _sources(one.messages(_METADATA), metadata) + "}"


def _kind(one: Message) -> str:
    kind = one.integer(_TYPE)
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == _MAXIMAL:
        return f"maximal device={(one.integers(_DEVICES) or [0])[0]}"
    text = "devices=" + _tiles(one.integers(_TILES), one.integers(_DEVICES), *_iota(one))
    if one.flag(_LAST_REPLICATED):
        text += " last_tile_dim_replicate"
    if _LAST_DIMS in one:
        words = [_SUBGROUPS.get(kind, "error_type.") for kind in one.integers(_LAST_DIMS)]
        text += f" last_tile_dims={{{', '.join(words)}}}"
    return text


def _iota(one: Message) -> tuple[list[int], list[int]]:
    return one.integers(_RESHAPE), one.integers(_TRANSPOSE)


def _tiles(tiles: list[int], devices: list[int], reshape: list[int], transpose: list[int]) -> str:
    """``[2,1]0,1``; of devices counted up, reshaped and transposed: ``[2,4]<=[4,2]T(1,0)``."""
    text = f"[{joined(tiles)}]"
    return text + ("<=" + _counted(reshape, transpose) if reshape else joined(devices))


def _counted(reshape: list[int], transpose: list[int]) -> str:
    """Devices counted up, as an array whose dimensions change places."""
    return f"[{joined(reshape)}]" + (f"T({joined(transpose)})" if len(reshape) > 1 else "")


def _shard_group(one: Message) -> str:
    if not one.flag(_IN_GROUP):
        return ""
    return f" {'shard_like' if one.integer(_GROUP_TYPE) else 'shard_as'} {one.integer(_GROUP_ID)}"


def _sources(sources: list[Message], metadata: MetadataText) -> str:
    texts = [metadata(source) for source in sources]
    if not any(texts):
        return ""
    return " metadata={" + (texts[0] if len(texts) == 1 else ", ".join(f"{{{one}}}" for one in texts)) + "}"


# ---- shardings and groups by the axes of a mesh

_MESH, _BY_DIMENSION, _REPLICATED_AXES, _UNREDUCED_AXES, _SOURCES, _MANUAL_AXES = 2, 3, 4, 5, 6, 7
_MESH_IOTA = 3
_LONGEST_AXIS = 256
"""Letters of the name of an axis in references to it, which take a few bytes each."""


def _mesh(mesh: Message) -> tuple[str, list[str]]:
    """A mesh, and the names of its axes, long ones cut."""
    axes = [(one_line(axis.text(1)), axis.integer(2)) for axis in mesh.messages(1)]
    text = "mesh[" + ",".join(f"'{name}'={size}" for name, size in axes) + "]"
    devices = joined(mesh.integers(2))
    if _MESH_IOTA in mesh:
        counted = mesh.message(_MESH_IOTA)
        devices = _counted(counted.integers(1), counted.integers(2))
    return text + (f", device_ids=({devices})" if devices else ""), [_shortened(name) for name, _ in axes]


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_AXIS else name[:_LONGEST_AXIS] + "…"


def _axis(axis: Message, names: list[str]) -> str:
    number = axis.integer(1)
    name = names[number] if 0 <= number < len(names) else "?"
    if 2 not in axis:
        return f"'{name}'"
    part = axis.message(2)
    return f"'{name}':({part.integer(1)}){part.integer(2)}"


def _axes(axes: list[Message], names: list[str]) -> list[str]:
    return [_axis(axis, names) for axis in axes]


def _named(one: Message, metadata: MetadataText) -> str:
    mesh, names = _mesh(one.message(_MESH))
    dimensions = []
    for part in one.messages(_BY_DIMENSION):
        axes = _axes(part.messages(1), names) + ([] if part.flag(2) else ["?"])
        dimensions.append("{" + ", ".join(axes) + "}")
    text = f"{{{mesh}, [{', '.join(dimensions)}]"
    for number, word in ((_REPLICATED_AXES, "replicated"), (_UNREDUCED_AXES, "unreduced"), (_MANUAL_AXES, "manual")):
        if number in one:
            text += f", {word}={{{', '.join(_axes(one.messages(number), names))}}}"
    sources = [f"{{{metadata(source)}}}" for source in one.messages(_SOURCES) if metadata(source)]
    return text + (f", metadata={{{', '.join(sources)}}}" if sources else "") + "}"


def replica_groups_text(instruction: Message) -> str:
    """The groups of devices of an HloInstructionProto: ``{{0,1},{2,3}}`` or ``[2,4]<=[8]``."""
    if _MESH_LIST in instruction:
        groups = instruction.message(_MESH_LIST)
        mesh, names = _mesh(groups.message(1))
        return f"{mesh} {{{','.join(_axes(groups.messages(2), names))}}}"
    if _IOTA_LIST in instruction:
        return _iota_groups(instruction.message(_IOTA_LIST))
    if _DEVICE_LIST in instruction:
        devices = instruction.message(_DEVICE_LIST)
        return _iota_groups(devices.message(2)) if 2 in devices else _groups(devices.messages(1))
    return _groups(instruction.messages(_REPLICA_GROUPS))


def _iota_groups(groups: Message) -> str:
    sizes = [groups.integer(1), groups.integer(2)]
    return _tiles(sizes, [], groups.integers(3), groups.integers(4))


def _groups(groups: list[Message]) -> str:
    return "{" + ",".join(f"{{{joined(group.integers(1))}}}" for group in groups) + "}"
