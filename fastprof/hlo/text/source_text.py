"""Where instructions come from, as HLO text has it: ``op_name="jit(f)/add" source_line=3``, and stack frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.escapes import escaped
from fastprof.hlo.text.shape_text import joined

_FRAMES = 17
_PLACE_NAMES = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_PLACE_FIELDS = (1, 2, 3, 5, 4, 6)
_OP_TYPE, _OP_NAME, _FILE, _LINE, _PROFILES, _DEDUPLICATED, _FRAME, _SCHEDULING = 1, 2, 3, 4, 5, 12, 15, 16
_END_LINE, _COLUMN, _END_COLUMN = 17, 18, 19
_SHOWN = (_OP_TYPE, _OP_NAME, _FILE, _FRAME, _SCHEDULING)
"""Without one of these an instruction's text does not show its metadata."""


def metadata_text(metadata: Message, frames: Mapping[int, int] | None = None) -> str:
    """An OpMetadata. ``frames``: the printed number of each stack frame."""
    parts = [_quoted(metadata, number, name) for number, name in ((_OP_TYPE, "op_type"), (_OP_NAME, "op_name"))]
    parts.append(_quoted(metadata, _FILE, "source_file"))
    numbers = ((_LINE, "source_line"), (_END_LINE, "source_end_line"), (_COLUMN, "source_column"))
    parts += [_number(metadata, number, name) for number, name in (*numbers, (_END_COLUMN, "source_end_column"))]
    profiles = metadata.integers(_PROFILES)
    parts.append(f"profile_type={{{joined(profiles)}}}" if profiles else "")
    parts.append(_quoted(metadata, _DEDUPLICATED, "deduplicated_name"))
    parts.append(_quoted(metadata, _SCHEDULING, "scheduling_name"))
    frame = metadata.integer(_FRAME)
    frame = frame if frames is None else frames.get(frame, 0)
    parts.append(f"stack_frame_id={frame}" if frame else "")
    return " ".join(part for part in parts if part)


def has_metadata(metadata: Message) -> bool:
    """Whether an instruction's text shows its metadata."""
    return any(len(metadata.data(number)) or metadata.integer(number) for number in _SHOWN)


def _quoted(metadata: Message, number: int, name: str) -> str:
    text = metadata.data(number)
    return f'{name}="{escaped(text)}"' if len(text) else ""


def _number(metadata: Message, number: int, name: str) -> str:
    value = metadata.integer(number)
    return f"{name}={value}" if value else ""


class FrameIndex:
    """Stack frames numbered as XLA numbers them when it prints a module: by first use, callers before what they call,
    without unused ones. ``numbers``: the printed number of each stored frame that is used."""

    def __init__(self, module: HloModule) -> None:
        self._index = Message(Message(module.proto).data(_FRAMES))
        self._stored = [(frame.integer(1), frame.integer(2)) for frame in self._index.messages(4)]
        self._places = self._index.messages(3)
        self.numbers: dict[int, int] = {}
        self._files: dict[bytes, int] = {}
        self._functions: dict[bytes, int] = {}
        self._used_places: dict[tuple[int, ...], int] = {}
        self._used_frames: dict[tuple[int, int], int] = {}
        if self._stored:
            self._meet(module.frame_ids)

    def _meet(self, frames: Iterable[int]) -> None:
        for frame in frames:
            if frame not in self.numbers:
                for one in reversed(self._chain(frame)):
                    self.numbers[one] = self._number_of(one)

    def _chain(self, frame: int) -> list[int]:
        """A frame and its callers, except those that are known."""
        chain: dict[int, None] = {}
        while 0 < frame <= len(self._stored) and frame not in chain and frame not in self.numbers:
            chain[frame] = None
            frame = self._stored[frame - 1][1]
        return list(chain)

    def _number_of(self, frame: int) -> int:
        place, parent = self._stored[frame - 1]
        key = (self._place(place), self.numbers.get(parent, 0))
        return self._used_frames.setdefault(key, len(self._used_frames) + 1)

    def _place(self, number: int) -> int:
        if not 0 < number <= len(self._places):
            return 0
        file, function, *numbers = (self._places[number - 1].integer(field) for field in _PLACE_FIELDS)
        key = (_numbered(self._files, self._names[0], file), _numbered(self._functions, self._names[1], function))
        return self._used_places.setdefault((*key, *numbers), len(self._used_places) + 1)

    @cached_property
    def _names(self) -> list[list[memoryview]]:
        return [self._index.parts(1), self._index.parts(2)]

    def text(self) -> str:
        """The tables behind the header of a module; "": no frames."""
        if not self._used_frames:
            return ""
        places = [_braced(_PLACE_NAMES, place) for place in self._used_places]
        frames = [
            _braced(("file_location_id", "parent_frame_id"), (place, parent + 1)) for place, parent in self._used_frames
        ]
        return (
            "\n\nFileNames\n"
            + _listed(f'"{escaped(name)}"' for name in self._files)
            + "\nFunctionNames\n"
            + _listed(f'"{escaped(name)}"' for name in self._functions)
            + f"\nFileLocations\n{_listed(places)}\nStackFrames\n{_listed(frames)}"
        )


def _numbered(used: dict[bytes, int], names: list[memoryview], number: int) -> int:
    if not 0 < number <= len(names):
        return 0
    return used.setdefault(bytes(names[number - 1]), len(used) + 1)


def _braced(names: Iterable[str], values: Iterable[int]) -> str:
    return "{" + " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True)) + "}"


def _listed(lines: Iterable[str]) -> str:
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))
