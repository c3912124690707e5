"""Where in the source instructions come from: the stack of calls that the compiler recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from fastprof.schema.array_types import Records
from fastprof.schema.value_classes import dataclass

MOST_FRAMES = 1000
"""Of one stack; outer ones beyond this are left out."""
_STEPS, _FEW = 16, 16
"""Frames that all stacks of a module may have together, per frame of the module; later stacks have few."""
_LETTERS = 1 << 24
"""Letters that all texts of stacks of a module may have together, plus 16 per byte of it; later texts are empty."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the source. A frame without a recorded place has file "" and line -1."""

    file: str
    line: int
    column: int
    function: str
    end_line: int = -1
    end_column: int = -1
    has_location: bool = True

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where an instruction comes from; ``file`` "" and ``line`` -1: unknown. Columns and last lines are 0 where
    unknown. ``frames``: innermost first."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    frames: tuple[Frame, ...]
    stack: str
    """``file:line:column`` of each frame up to the first of unknown place, each line ended by a line feed."""


NO_SOURCE = Source("", -1, 0, 0, 0, (), "")


class StackFrames:
    """The frames of one module, as csrc/formats/hlo.h has them. Stacks share their outer frames, as a tree; damaged
    ones may form cycles, which end where they close."""

    def __init__(self, records: Records, text: Callable[[int], str], module_bytes: int) -> None:
        self._records = records
        self._text = text
        self._frames: dict[int, Frame] = {}
        self._stacks: dict[int, tuple[Frame, ...]] = {0: ()}
        self._texts: dict[int, str] = {}
        self._left = _STEPS * (len(records) + MOST_FRAMES)
        self._letters = _LETTERS + 16 * module_bytes

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def _parents(self) -> list[int]:
        parents: list[int] = self._records["parent"].tolist()
        return parents

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """The frame of an id, from 1, and its callers; empty where there is no such frame."""
        stack = self._stacks.get(frame_id)
        if stack is None:
            stack = self._stacks[frame_id] = self._walk(frame_id)
            self._left -= len(stack)
        return stack

    def text(self, frame_id: int) -> str:
        """The text of ``Source.stack``."""
        text = self._texts.get(frame_id)
        if text is None:
            text = self._texts[frame_id] = self._written(self.stack(frame_id))
            self._letters -= len(text)
        return text

    def _written(self, frames: tuple[Frame, ...]) -> str:
        lines: list[str] = []
        left = self._letters
        for frame in frames:
            if not frame.has_location:
                break
            lines.append(f"{frame}\n")
            left -= len(lines[-1])
            if left < 0:
                return ""
        return "".join(lines)

    def _walk(self, frame_id: int) -> tuple[Frame, ...]:
        parents = self._parents
        most = MOST_FRAMES if self._left > 0 else _FEW
        rows: dict[int, None] = {}
        row = frame_id - 1
        while 0 <= row < len(parents) and row not in rows and len(rows) < most:
            rows[row] = None
            row = parents[row]
        return tuple(self._frame(row) for row in rows)

    def _frame(self, row: int) -> Frame:
        frame = self._frames.get(row)
        if frame is None:
            file, function, line, column, end_line, end_column, _, has_location, _ = self._records[row].item()
            frame = self._frames[row] = Frame(
                self._text(file), line, column, self._text(function), end_line, end_column, bool(has_location)
            )
        return frame
