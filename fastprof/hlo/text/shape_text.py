"""Names, escaped text, shapes and shardings as HLO text has them: ``f32[8,128]{1,0:T(8,128)S(1)}``,
``{devices=[2,1]<=[2]}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from fastprof.errors import CaptureError
from fastprof.hlo.shapes import OPAQUE, TOKEN, TUPLE, TYPE_NAMES, format_tile
from fastprof.inputs.message import Message
from fastprof.wording.patterns import compile_late

_SHORT = {ord(char): "\\" + letter for char, letter in (("\n", "n"), ("\r", "r"), ("\t", "t"))}
_SHORT |= {ord(char): "\\" + char for char in "\"'\\"}
_ESCAPED = [_SHORT.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)]
_PLAIN = compile_late(rb"[ !#-&(-\[\]-~]*")

_TOKEN = compile_late(r'[^"{}]+|"(?:[^"\\]|\\.)*"|[{}"]')
_COMMENT = compile_late(r"\s+|/\*.*?\*/|//[^\n\r]*", re.DOTALL)
_PLAIN_NAME = compile_late(r"[A-Za-z][A-Za-z0-9_.-]*|_(?!_)[A-Za-z0-9_.-]*")
_NOT_ALLOWED = compile_late(rb"[^A-Za-z0-9_.-]")
_TYPES = frozenset(name.lower() for name in TYPE_NAMES[1:]) - {"tuple", "buffer"}
_OWN = "__xla_"


def escape_bytes(data: bytes | memoryview) -> str:
    """Write bytes as C does in a literal, in octal if not printable."""
    raw = bytes(data)
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    return "".join([_ESCAPED[byte] for byte in raw])


def escape_to_one_line(text: str) -> str:
    """Return a text with what does not print in octal: a name can neither begin a line nor steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        [letter if letter.isprintable() else escape_bytes(letter.encode("utf-8", "replace")) for letter in text]
    )


def reads_as_json(text: str) -> bool:
    """Return whether a text is one pair of braces with content, perhaps followed by blanks and comments. Braces in
    quotes do not count."""
    if not text.startswith("{"):
        return False
    end = _find_closing_brace(text)
    while 0 < end < len(text):
        comment = _COMMENT.match(text, end)
        if comment is None:
            return False
        end = comment.end()
    return end > 0


def _find_closing_brace(text: str) -> int:
    """Return the place behind the brace that closes the first one; 0 if there is none, or a quote without end before
    it."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return match.end()
        elif token == '"':
            return 0
    return 0


def quote_unless_json(data: bytes | memoryview) -> str:
    """Write a value as HLO text has it: unchanged if it reads as JSON, else in quotes."""
    text = bytes(data).decode("utf-8", "replace")
    return text if reads_as_json(text) else f'"{escape_bytes(data)}"'


def print_name(name: str) -> str:
    """Return a name as XLA changes it when it reads a module: each byte other than letters, digits, ``_``, ``.`` and
    ``-`` becomes ``_``, and so does a first character that is not a letter. Names of types get a ``_`` behind them; the
    first of two leading ``_`` becomes ``a``."""
    if _PLAIN_NAME.fullmatch(name):
        return name + "_" if name in _TYPES else name
    changed = _NOT_ALLOWED.sub(b"_", name.encode()).decode()
    if changed and not (changed[0].isalpha() or changed[0] == "_"):
        changed = "_" + changed[1:]
    if changed.startswith("__") and not changed.startswith(_OWN):
        changed = "a" + changed[1:]
    return changed


UNKNOWN = "?"
"""Printed for what a damaged module lacks."""
EVERY = 5
"""A comment numbers every fifth element of a tuple, or operand."""

_ELEMENT_TYPE, _DIMENSIONS, _ELEMENTS, _LAYOUT, _DYNAMIC = 2, 3, 4, 5, 6
_MINOR_TO_MAJOR, _TILES, _ELEMENT_BITS, _MEMORY_SPACE, _LEVELS, _PHYSICAL = 1, 6, 7, 8, 9, 10
_INDEX_TYPE, _POINTER_TYPE, _UNIQUE, _ORDERED, _PREFIX_BYTES, _TAIL_PADDING, _SPLITS = 11, 12, 13, 14, 15, 16, 17
_BUFFER = TYPE_NAMES.index("BUFFER")
_LEVEL_LETTERS = "DCSH"
_UNBOUNDED = -(1 << 63)
_MOST_PHYSICAL = 8
"""Physical shapes inside physical shapes that are followed."""


class ShapeTexts:
    """Texts of ShapeProtos, each written once: many instructions have equal shapes. ``layouts``: with their layouts."""

    def __init__(self, layouts: bool = True) -> None:
        self.layouts = layouts
        self._known: dict[bytes, str] = {}

    def text(self, proto: memoryview) -> str:
        """Return the text of a ShapeProto; ``?`` if it does not decode."""
        key = bytes(proto)
        if key not in self._known:
            try:
                self._known[key] = self._written(proto)
            except CaptureError:
                self._known[key] = UNKNOWN
        return self._known[key]

    def _written(self, proto: memoryview) -> str:
        """Write without recursion: tuples may nest at will."""
        pieces: list[str] = []
        waiting: list[memoryview | str] = [proto]
        while waiting:
            message = waiting.pop()
            if isinstance(message, str):
                pieces.append(message)
                continue
            shape = Message(message)
            kind = shape.integer(_ELEMENT_TYPE)
            if kind == TUPLE:
                written: list[memoryview | str] = ["("]
                for k, element in enumerate(shape.parts(_ELEMENTS)):
                    written += [mark_index(k), element] if k else [element]
                waiting += reversed([*written, ")"])
            elif kind == _BUFFER:
                waiting += reversed(["b(", *shape.parts(_ELEMENTS)[:1], ")"])
            else:
                pieces.append(_format_array(shape, kind, self.layouts))
        return "".join(pieces)


def join_numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def mark_index(k: int) -> str:
    """Return what stands before element or operand k."""
    return f", /*index={k}*/" if k % EVERY == 0 else ", "


def get_type_name(kind: int) -> str:
    """``f32``; ``invalid`` for a type that is not known."""
    return TYPE_NAMES[kind].lower() if 0 <= kind < len(TYPE_NAMES) else "invalid"


def _format_array(shape: Message, kind: int, with_layout: bool) -> str:
    if kind in (TOKEN, OPAQUE):
        return f"{get_type_name(kind)}[]"
    sizes = shape.integers(_DIMENSIONS)
    dynamic = shape.integers(_DYNAMIC)
    dimensions = join_numbers(sizes)
    if any(dynamic):
        texts = [str(size) for size in sizes]
        for k, (size, is_dynamic) in enumerate(zip(sizes, dynamic, strict=False)):
            if is_dynamic:
                texts[k] = "?" if size == _UNBOUNDED else f"<={size}"
        dimensions = ",".join(texts)
    text = f"{get_type_name(kind)}[{dimensions}]"
    if with_layout and _LAYOUT in shape:
        layout = format_layout(shape.message(_LAYOUT))
        if sizes or layout != "{}":
            text += layout
    return text


def format_layout(layout: Message, inside: int = 0) -> str:
    """``{1,0:T(8,128)(2,1)S(1)}``. ``inside``: how many physical shapes are around it."""
    order = join_numbers(layout.integers(_MINOR_TO_MAJOR))
    tiles = "".join(format_tile(tile.integers(1)) for tile in layout.messages(_TILES))
    splits = "".join(f"({split.integer(1)}:{join_numbers(split.integers(2))})" for split in layout.messages(_SPLITS))
    parts = [
        _format_levels(layout),
        f"T{tiles}" if tiles else "",
        _format_marked("L", layout.integer(_TAIL_PADDING, 1), (0, 1)),
        _format_primitive("#", layout.integer(_INDEX_TYPE)),
        _format_primitive("*", layout.integer(_POINTER_TYPE)),
        _format_marked("E", layout.integer(_ELEMENT_BITS)),
        _format_marked("S", layout.integer(_MEMORY_SPACE)),
        f"SC{splits}" if splits else "",
        _format_physical(layout, inside),
        _format_marked("M", layout.integer(_PREFIX_BYTES)),
    ]
    rest = "".join(parts)
    return f"{{{order}:{rest}}}" if rest else f"{{{order}}}"


def _format_marked(letter: str, value: int, silent: tuple[int, ...] = (0,)) -> str:
    return "" if value in silent else f"{letter}({value})"


def _format_primitive(mark: str, kind: int) -> str:
    return f"{mark}({get_type_name(kind)})" if kind else ""


def _format_levels(layout: Message) -> str:
    """Return how each dimension is stored: dense, compressed, singleton, loosely compressed."""
    levels, unique, ordered = (layout.integers(number) for number in (_LEVELS, _UNIQUE, _ORDERED))
    if not levels:
        return ""
    texts = []
    for k, level in enumerate(levels):
        letter = _LEVEL_LETTERS[level] if 0 <= level < len(_LEVEL_LETTERS) else UNKNOWN
        letter += "+" if k < len(unique) and not unique[k] else ""
        texts.append(letter + ("~" if k < len(ordered) and not ordered[k] else ""))
    return f"D({','.join(texts)})"


def _format_physical(layout: Message, inside: int) -> str:
    if _PHYSICAL not in layout or inside >= _MOST_PHYSICAL:
        return ""
    shape = layout.message(_PHYSICAL)
    kind = shape.integer(_ELEMENT_TYPE)
    if kind != TUPLE:
        return f"P({_format_physical_array(shape, inside)})"
    elements = [_format_physical_array(Message(part), inside) for part in shape.parts(_ELEMENTS)]
    return "P((" + "".join((mark_index(k) if k else "") + element for k, element in enumerate(elements)) + "))"


def _format_physical_array(shape: Message, inside: int) -> str:
    text = _format_array(shape, shape.integer(_ELEMENT_TYPE), with_layout=False)
    layout = format_layout(shape.message(_LAYOUT), inside + 1) if _LAYOUT in shape else ""
    return text if layout == "{}" and text.endswith("[]") else text + layout


_TYPE, _TILE_KIND, _DEVICES, _TUPLE, _LAST_REPLICATED, _METADATA, _LAST_DIMS = 1, 3, 4, 5, 6, 7, 8
_RESHAPE, _TRANSPOSE, _IN_GROUP, _GROUP_ID, _GROUP_TYPE, _NAMED = 9, 10, 11, 12, 13, 14
_REPLICATED, _MAXIMAL, _IN_TUPLE, _MANUAL, _UNKNOWN, _UNREDUCED = 0, 1, 2, 4, 5, 6
_WORDS = {_REPLICATED: "replicated", _MANUAL: "manual", _UNKNOWN: "unknown", _UNREDUCED: "unreduced"}
_SUBGROUPS = {_MANUAL: "manual", _MAXIMAL: "maximal", _REPLICATED: "replicated", _UNREDUCED: "unreduced"}
_MOST_NESTED = 32
_REPLICA_GROUPS, _DEVICE_LIST, _IOTA_LIST, _MESH_LIST = 49, 87, 92, 93

MetadataText = Callable[[Message], str]


def omit_metadata(_: Message) -> str:
    """Leave out where a sharding comes from."""
    return ""


def format_sharding(proto: memoryview, metadata: MetadataText = omit_metadata) -> str:
    """Format an OpSharding. ``metadata``: writes an OpMetadata. CaptureError: it does not decode."""
    return _format_one_sharding(Message(proto), metadata, 0)


def _format_one_sharding(sharding: Message, metadata: MetadataText, inside: int) -> str:
    if sharding.integer(_TYPE) == _IN_TUPLE:
        if inside > _MOST_NESTED:
            return "{?}"
        parts = [_format_one_sharding(part, metadata, inside + 1) for part in sharding.messages(_TUPLE)]
        return "{" + "".join((mark_index(k) if k else "") + part for k, part in enumerate(parts)) + "}"
    if _NAMED in sharding:
        return _format_named_sharding(sharding.message(_NAMED), metadata)
    text = _format_kind(sharding)
    if sharding.flag(_IN_GROUP):
        text += f" {'shard_like' if sharding.integer(_GROUP_TYPE) else 'shard_as'} {sharding.integer(_GROUP_ID)}"
    sources = [metadata(source) for source in sharding.messages(_METADATA)]
    if any(sources):
        listed = sources[0] if len(sources) == 1 else ", ".join(f"{{{source}}}" for source in sources)
        text += f" metadata={{{listed}}}"
    return f"{{{text}}}"


def _format_kind(sharding: Message) -> str:
    kind = sharding.integer(_TYPE)
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == _MAXIMAL:
        return f"maximal device={(sharding.integers(_DEVICES) or [0])[0]}"
    tiles, devices = sharding.integers(_TILE_KIND), sharding.integers(_DEVICES)
    text = "devices=" + _format_tiles(tiles, devices, sharding.integers(_RESHAPE), sharding.integers(_TRANSPOSE))
    if sharding.flag(_LAST_REPLICATED):
        text += " last_tile_dim_replicate"
    if _LAST_DIMS in sharding:
        words = [_SUBGROUPS.get(kind, "error_type.") for kind in sharding.integers(_LAST_DIMS)]
        text += f" last_tile_dims={{{', '.join(words)}}}"
    return text


def _format_tiles(tiles: list[int], devices: list[int], reshape: list[int], transpose: list[int]) -> str:
    """``[2,1]0,1``; of devices counted up, reshaped and transposed: ``[2,4]<=[4,2]T(1,0)``."""
    text = f"[{join_numbers(tiles)}]"
    return text + ("<=" + _format_counted(reshape, transpose) if reshape else join_numbers(devices))


def _format_counted(reshape: list[int], transpose: list[int]) -> str:
    """Devices counted up, as an array whose dimensions change places."""
    return f"[{join_numbers(reshape)}]" + (f"T({join_numbers(transpose)})" if len(reshape) > 1 else "")


# ---- shardings and groups by the axes of a mesh

_MESH, _BY_DIMENSION, _REPLICATED_AXES, _UNREDUCED_AXES, _SOURCES, _MANUAL_AXES = 2, 3, 4, 5, 6, 7
_MESH_IOTA = 3
_LONGEST_AXIS = 256
"""Letters of the name of an axis in references to it, which take a few bytes each."""


def _format_mesh(mesh: Message) -> tuple[str, list[str]]:
    """Return a mesh, and the names of its axes, long ones cut."""
    axes = [(escape_to_one_line(axis.text(1)), axis.integer(2)) for axis in mesh.messages(1)]
    text = "mesh[" + ",".join(f"'{name}'={size}" for name, size in axes) + "]"
    devices = join_numbers(mesh.integers(2))
    if _MESH_IOTA in mesh:
        counted = mesh.message(_MESH_IOTA)
        devices = _format_counted(counted.integers(1), counted.integers(2))
    names = [name if len(name) <= _LONGEST_AXIS else name[:_LONGEST_AXIS] + "…" for name, _ in axes]
    return text + (f", device_ids=({devices})" if devices else ""), names


def _format_axes(axes: list[Message], names: list[str]) -> list[str]:
    texts = []
    for axis in axes:
        number = axis.integer(1)
        name = names[number] if 0 <= number < len(names) else "?"
        texts.append(f"'{name}'")
        if 2 in axis:
            part = axis.message(2)
            texts[-1] += f":({part.integer(1)}){part.integer(2)}"
    return texts


def _format_named_sharding(sharding: Message, metadata: MetadataText) -> str:
    mesh, names = _format_mesh(sharding.message(_MESH))
    dimensions = []
    for part in sharding.messages(_BY_DIMENSION):
        axes = _format_axes(part.messages(1), names) + ([] if part.flag(2) else ["?"])
        dimensions.append("{" + ", ".join(axes) + "}")
    text = f"{{{mesh}, [{', '.join(dimensions)}]"
    for number, word in ((_REPLICATED_AXES, "replicated"), (_UNREDUCED_AXES, "unreduced"), (_MANUAL_AXES, "manual")):
        if number in sharding:
            text += f", {word}={{{', '.join(_format_axes(sharding.messages(number), names))}}}"
    sources = [f"{{{metadata(source)}}}" for source in sharding.messages(_SOURCES) if metadata(source)]
    return text + (f", metadata={{{', '.join(sources)}}}" if sources else "") + "}"


def format_replica_groups(instruction: Message) -> str:
    """Return the groups of devices of an HloInstructionProto: ``{{0,1},{2,3}}`` or ``[2,4]<=[8]``."""
    if _MESH_LIST in instruction:
        groups = instruction.message(_MESH_LIST)
        mesh, names = _format_mesh(groups.message(1))
        return f"{mesh} {{{','.join(_format_axes(groups.messages(2), names))}}}"
    if _IOTA_LIST in instruction:
        return _format_iota_groups(instruction.message(_IOTA_LIST))
    if _DEVICE_LIST in instruction:
        devices = instruction.message(_DEVICE_LIST)
        return _format_iota_groups(devices.message(2)) if 2 in devices else _format_groups(devices.messages(1))
    return _format_groups(instruction.messages(_REPLICA_GROUPS))


def _format_iota_groups(groups: Message) -> str:
    sizes = [groups.integer(1), groups.integer(2)]
    return _format_tiles(sizes, [], groups.integers(3), groups.integers(4))


def _format_groups(groups: list[Message]) -> str:
    return "{" + ",".join(f"{{{join_numbers(group.integers(1))}}}" for group in groups) + "}"
