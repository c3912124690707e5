"""A capture as Riegeli: uncompressed, simple or transposed, in records as XLA splits an XSpace.

    python benchmarks/riegeli_writer.py IN.xplane.pb OUT.riegeli [--size 16MB] [--transposed]

Each record is a chunk. A record that repeats a plane has its name, stats and metadata in full, and some of its lines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from make_traces import size_of
from trace_writer import varint
from transposed_writer import transposed

from fastprof._native.riegeli import riegeli_hash

BLOCK, HEADER = 65536, 24
_PLANES, _LINES = 1, 3


def fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Number, content and all bytes of each field; only messages and varints are expected."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = _number(message, at)
        value, after = _number(message, at)
        content = message[after : after + value] if tag & 7 == 2 else message[at:after]
        at = after + (value if tag & 7 == 2 else 0)
        yield tag >> 3, content, message[begin:at]


def _number(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def records(space: bytes, size: int) -> Iterator[bytes]:
    """XSpaces of about this size that are the XSpace together."""
    rest = []
    for number, plane, entire in fields(memoryview(space)):
        if number != _PLANES:
            rest.append(bytes(entire))
            continue
        head, lines = [], []
        for field, _, part in fields(plane):
            (lines if field == _LINES else head).append(bytes(part))
        while lines or head:
            share = [lines.pop(0)] if lines else []
            while lines and sum(map(len, share)) + len(lines[0]) <= size:
                share.append(lines.pop(0))
            content = b"".join([*head, *share])
            yield varint(_PLANES << 3 | 2) + varint(len(content)) + content
            head = head if lines else []
    if rest:
        yield b"".join(rest)


class Writer:
    """Chunks one behind the other, with a header at the beginning of each block."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.chunk(b"s", b"", 0, 0)

    def chunk(self, kind: bytes, data: bytes, count: int, size: int) -> None:
        sizes = len(data).to_bytes(8, "little") + riegeli_hash(data).to_bytes(8, "little") + kind
        header = sizes + count.to_bytes(7, "little") + size.to_bytes(8, "little")
        begin, content = len(self.out), riegeli_hash(header).to_bytes(8, "little") + header + data
        inside = (begin + BLOCK - HEADER - 1) % BLOCK
        end = begin + len(content) + HEADER * ((len(content) + inside) // (BLOCK - HEADER))
        at = 0
        while at < len(content):
            if len(self.out) % BLOCK == 0:
                places = (len(self.out) - begin).to_bytes(8, "little") + (end - len(self.out)).to_bytes(8, "little")
                self.out += riegeli_hash(places).to_bytes(8, "little") + places
            piece = content[at : at + BLOCK - len(self.out) % BLOCK]
            self.out += piece
            at += len(piece)


def written(spaces: list[bytes], *, is_transposed: bool = False) -> bytes:
    writer = Writer()
    for record in spaces:
        if is_transposed:
            writer.chunk(b"t", transposed(record), 1, len(record))
        else:
            length = varint(len(record))
            writer.chunk(b"r", b"\0" + varint(len(length)) + length + record, 1, len(record))
    return bytes(writer.out)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("capture", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=size_of, default=16_000_000)
    parser.add_argument("--transposed", action="store_true")
    args = parser.parse_args(argv)
    args.out.write_bytes(written(list(records(args.capture.read_bytes(), args.size)), is_transposed=args.transposed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
