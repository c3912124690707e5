"""Gzip gives the same bytes and the same errors with isal and with zlib alone."""

from __future__ import annotations

import gzip
import io
import random
import sys

import pytest

import fastprof
from fastprof.inputs import source

DRAW = random.Random(11)
TEXT = b"".join(b"%d %s," % (DRAW.randrange(10**9), DRAW.randbytes(2)) for _ in range(6_000)) * 20
PACKED = gzip.compress(TEXT, 1, mtime=0)
MEMBERS = b"".join(gzip.compress(TEXT[at : at + 700_000], 6) for at in range(0, len(TEXT), 700_000))
NAMED = PACKED[:3] + b"\x08" + PACKED[4:10] + b"trace.json\0" + PACKED[10:]


def _unpacked(data: bytes, most: int = 1 << 30) -> tuple[list[bytes], str | None]:
    chunks: list[bytes] = []
    try:
        for chunk in source._read_chunks(io.BytesIO(data), "f", None, most):
            chunks.append(chunk)
    except (fastprof.CaptureError, fastprof.UnreadableError) as error:
        return chunks, str(error)
    return chunks, None


def _changed(at: int, bit: int) -> bytes:
    changed = bytearray(PACKED)
    changed[at] ^= 1 << bit
    return bytes(changed)


CASES = {
    "one": PACKED, "members": MEMBERS, "named": NAMED, "empty": gzip.compress(b""), "two empty": gzip.compress(b"") * 2,
    "zeros": PACKED + bytes(512), "garbage": PACKED + b"garbage", "half a member": PACKED + PACKED[: len(PACKED) // 2],
    "checksum": _changed(len(PACKED) - 6, 3), "length": _changed(len(PACKED) - 2, 1), "no trailer": PACKED[:-8],
    "header": PACKED[:5], "large": gzip.compress(bytes(5 << 20)),
    **{f"cut at {at}": PACKED[:at] for at in DRAW.sample(range(10, len(PACKED)), 6)},
    **{f"changed at {at}": _changed(at, at % 8) for at in DRAW.sample(range(len(PACKED)), 8)},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_chunks_and_errors_are_those_of_zlib(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal", reason="isal is not installed")
    found = _unpacked(CASES[name])
    limited = _unpacked(CASES[name], 1_200_000)
    monkeypatch.setitem(sys.modules, "isal", None)
    assert source.inflate_with_isal(io.BytesIO().read, 1) is None
    assert found == _unpacked(CASES[name])
    assert limited == _unpacked(CASES[name], 1_200_000)


def test_sound_data_are_inflated_by_isal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal", reason="isal is not installed")
    monkeypatch.setattr(source, "_unpack", None)
    for name in ("one", "members", "named"):
        assert b"".join(_unpacked(CASES[name])[0]) == TEXT
