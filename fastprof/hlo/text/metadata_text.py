"""Where an instruction comes from, as HLO text has it: ``op_name="jit(f)/add" source_file="m.py" source_line=3``."""

from __future__ import annotations

from collections.abc import Mapping

from fastprof.hlo.message import Message
from fastprof.hlo.text.escapes import escaped

_OP_TYPE, _OP_NAME, _FILE, _LINE, _PROFILES, _DEDUPLICATED, _FRAME, _SCHEDULING = 1, 2, 3, 4, 5, 12, 15, 16
_END_LINE, _COLUMN, _END_COLUMN = 17, 18, 19
_SHOWN = (_OP_TYPE, _OP_NAME, _FILE, _FRAME, _SCHEDULING)
"""Without one of these an instruction's text tells nothing of its metadata."""


def metadata_text(metadata: Message, frames: Mapping[int, int] | None = None) -> str:
    """An OpMetadata. ``frames``: numbers that its stack frame is told as instead of its own."""
    parts = [_quoted(metadata, number, name) for number, name in ((_OP_TYPE, "op_type"), (_OP_NAME, "op_name"))]
    parts.append(_quoted(metadata, _FILE, "source_file"))
    numbers = ((_LINE, "source_line"), (_END_LINE, "source_end_line"), (_COLUMN, "source_column"))
    parts += [_number(metadata, number, name) for number, name in (*numbers, (_END_COLUMN, "source_end_column"))]
    profiles = metadata.integers(_PROFILES)
    parts.append(f"profile_type={{{','.join(map(str, profiles))}}}" if profiles else "")
    parts.append(_quoted(metadata, _DEDUPLICATED, "deduplicated_name"))
    parts.append(_quoted(metadata, _SCHEDULING, "scheduling_name"))
    frame = metadata.integer(_FRAME)
    frame = frame if frames is None else frames.get(frame, 0)
    parts.append(f"stack_frame_id={frame}" if frame else "")
    return " ".join(part for part in parts if part)


def is_told(metadata: Message) -> bool:
    """Whether there is enough in an instruction's metadata for its text to show it."""
    return any(len(metadata.data(number)) or metadata.integer(number) for number in _SHOWN)


def _quoted(metadata: Message, number: int, name: str) -> str:
    text = metadata.data(number)
    return f'{name}="{escaped(text)}"' if len(text) else ""


def _number(metadata: Message, number: int, name: str) -> str:
    value = metadata.integer(number)
    return f"{name}={value}" if value else ""
