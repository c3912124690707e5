"""Where in the source instructions come from: the stack of calls that the compiler noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from fastprof.schema.array_types import Records

MOST_FRAMES = 1000
"""Of one stack: what lies further out is left off."""
_STEPS, _FEW = 16, 16
"""Frames that all stacks of a module may have together, for each frame that there is; stacks past that have few."""
_LETTERS = 1 << 24
"""That all texts of stacks of a module may have together, beside 16 for each byte of it; texts past that are empty."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the source. A frame of which the capture does not say the place has no file, and -1."""

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
    ones may go in circles, which end where they close."""

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
        """The frame of an id, which count from 1, and those that called it; none where there is no such frame."""
        found = self._stacks.get(frame_id)
        if found is None:
            found = self._stacks[frame_id] = self._walk(frame_id)
            self._left -= len(found)
        return found

    def text(self, frame_id: int) -> str:
        """The text of ``Source.stack``."""
        found = self._texts.get(frame_id)
        if found is None:
            found = self._texts[frame_id] = self._written(self.stack(frame_id))
            self._letters -= len(found)
        return found

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
