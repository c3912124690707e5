"""Pieces that a thread makes while the last ones are used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastprof.inputs.open_files import prefetch


def test_pieces_are_made_ahead_in_their_order_and_their_faults_reach_the_caller() -> None:
    made = []

    def pieces() -> Iterator[bytes]:
        for number in range(3):
            made.append(number)
            yield b"%d" % number
        raise ValueError("cut off")

    ahead = prefetch(pieces())
    assert made == []
    assert [next(ahead), next(ahead), next(ahead)] == [b"0", b"1", b"2"]
    with pytest.raises(ValueError, match="cut off"):
        next(ahead)


def test_who_asks_for_no_more_pieces_ends_their_making() -> None:
    ended = []

    def pieces() -> Iterator[bytes]:
        try:
            while True:
                yield b"more"
        finally:
            ended.append(True)

    ahead = prefetch(pieces())
    assert next(ahead) == b"more"
    ahead.close()
    assert ended == [True]
