"""What a file is that is not an XSpace, for the error message."""

from __future__ import annotations

from fastprof.errors import CaptureError

_LOOKS_LIKE = {
    b"{": "JSON text; traces in JSON are not XSpace captures",
    b"[": "JSON text; traces in JSON are not XSpace captures",
    b"PK\x03\x04": "a ZIP archive; unpack it first",
    b"SQLite": "an SQLite database",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"BZh": "bzip2 data; unpack it first",
    b"\xfd7zXZ": "xz data; unpack it first",
    b"<": "XML or HTML text",
}
_PROGRAM = "a compiled program (HLO); rename it to NAME.hlo_proto.pb to read it"


def explained(error: CaptureError, head: bytes, *, is_program: bool = False) -> CaptureError:
    """The error, with what the file looks like by its first bytes; ``is_program``: it was read as a program."""
    start = head.lstrip()
    guess = next((text for magic, text in _LOOKS_LIKE.items() if start.startswith(magic)), None)
    if guess is None and len(start) > 8 and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        guess = "plain text"
    if guess is None and not is_program and _begins_with_text(head, 0):  # an HloModuleProto
        guess = _PROGRAM
    message = error.message + (f"; the file looks like {guess}" if guess else "")
    return CaptureError(message, path=error.path, offset=error.offset)


def refuse_program(head: bytes, path: str) -> None:
    """Raises CaptureError for an HloProto, which would be read as a plane that holds nothing known."""
    if _begins_with_text(head, 1):
        raise CaptureError(f"the file is not a capture but {_PROGRAM}", path=path, offset=0)


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
