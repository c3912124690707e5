"""What a file is that is not an XSpace, for the error message."""

from __future__ import annotations

import codecs
from pathlib import Path

from fastprof.errors import CaptureError
from fastprof.wording.patterns import pattern_of

_CAPTURES = "captures are files NAME.xplane.pb"
_JSON = f"JSON text; {_CAPTURES}, which profilers write beside traces in JSON"
_TEXTS = ((pattern_of(r'\{|\[\s*[]\[{"\d-]'), _JSON), (pattern_of("<"), f"XML or HTML text; {_CAPTURES}"))
_PLAIN = f"plain text; {_CAPTURES}"
_LOOKS_LIKE = {
    b"PK\x03\x04": "a ZIP archive; unpack it first",
    b"SQLite": "an SQLite database",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"BZh": "bzip2 data; unpack it first",
    b"\xfd7zXZ": "xz data; unpack it first",
}
_VALUE = pattern_of(
    r'(?P<value>null|true|false)|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>"(?:[^"\\\x00-\x1f]|\\.)*"?)'
)
_LEAST_TEXT = 9  # a shorter file may be text by chance, if its name does not say that it is
_SHOWN = 40
_PROGRAM = "a compiled program (HLO); rename it to NAME.hlo_proto.pb to read it"


def explained(error: CaptureError, head: bytes, *, is_program: bool = False) -> CaptureError:
    """The error, with what the file looks like by its first bytes; ``is_program``: it was read as a program."""
    value = _value_of_json(head)
    if value is not None and not is_program:
        text = f"JSON that is not a trace: {value}; a trace is an object with traceEvents, or an array of events"
        return CaptureError(text, path=error.path, offset=error.offset, salvageable=False)
    guess = _other_format(head, named_json=".json" in Path(error.path or "").name)
    if guess == _PLAIN and not is_program:
        begin = head.decode("utf-8-sig", "ignore").strip()[:_SHOWN]
        text = f"the file looks like plain text, neither an XSpace nor JSON; it begins with {begin!r}; {_CAPTURES}"
        return CaptureError(text, path=error.path, offset=error.offset, salvageable=False)
    if guess is None and not is_program and _begins_with_text(head, 0):  # an HloModuleProto
        guess = _PROGRAM
    if guess is None:
        return error
    message = f"{error.message}; the file looks like {guess}"
    return CaptureError(message, path=error.path, offset=error.offset, salvageable=False)


def _value_of_json(head: bytes) -> str | None:
    """What a document is that is a value by itself; None: it is none, or it has several lines, as tables do."""
    match = _VALUE.fullmatch(head.decode("utf-8-sig", "ignore").strip())
    if match is None:
        return None
    kind = next(name for name, text in match.groupdict().items() if text is not None)
    return f"it is the {kind} {match[0][:_SHOWN]}"


def refuse_other(head: bytes, path: str) -> None:
    """Raises CaptureError for a damaged file that looks like one of another format: nothing of it can be salvaged."""
    if _value_of_json(head) is not None:
        raise explained(CaptureError("", path=path, offset=0), head)
    guess = _other_format(head)
    if guess is not None:
        text = f"the file is not a capture; it looks like {guess}"
        raise CaptureError(text, path=path, offset=0, salvageable=False)


def _other_format(head: bytes, *, named_json: bool = False) -> str | None:
    """What these first bytes look like, if the file cannot be read as a capture. Those of a capture that is damaged
    further on include bytes that no text has."""
    guess = next((text for magic, text in _LOOKS_LIKE.items() if head.startswith(magic)), None)
    if guess is not None:
        return guess
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)  # the end may be half a character
    except UnicodeDecodeError:
        return None
    if any(one < " " and one not in "\t\r\n\f" for one in text) or "\x7f" in text:
        return None
    start = text.lstrip()
    plain = _PLAIN if len(start) >= (1 if named_json else _LEAST_TEXT) else None
    return next((kind for beginning, kind in _TEXTS if beginning.match(start)), plain)


def refuse_program(head: bytes, path: str) -> None:
    """Raises CaptureError for an HloProto, which would be read as a plane that holds nothing known."""
    if _begins_with_text(head, 1):
        raise CaptureError(f"the file is not a capture but {_PROGRAM}", path=path, offset=0, salvageable=False)


def _begins_with_text(start: bytes, depth: int) -> bool:
    """Whether the first field is number 1 and a text, ``depth`` messages deep."""
    length = 0
    for _ in range(depth + 1):
        if start[:1] != b"\x0a":
            return False
        rest = start[1:].lstrip(bytes(range(0x80, 0x100)))
        length = rest[0] if rest else 0  # of texts of 128 bytes and more only some of it
        start = rest[1:]
    text = start[: min(length, 8)]
    return text >= b"0" and text.isascii() and text.decode().isprintable()
