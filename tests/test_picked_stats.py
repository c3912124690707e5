"""Picked stats of many blocks, whichever is filled first: as one look at all of them after the other."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof._native.xspace import Memory, Picks, Sink
from fastprof.decode import blocks
from fastprof.decode.blocks import Columns, PickedStats
from fastprof.decode.text_pools import MergedTexts, TextTable
from fastprof.tables.host_reader import read_host

Values = list[tuple[int, int, int]]
"""Row, kind, value."""
STR = 3


class Block:
    """What the fill of a block leaves behind."""

    def __init__(self, stats: list[Values], rows: int, own: list[str], memory: Memory | None = None) -> None:
        self.stats, self.rows, self.own, self.memory = stats, rows, own, memory
        self.picks = self

    def texts(self) -> tuple[bytes, bytes]:
        sizes = [0, *(len(text) for text in self.own)]
        return np.cumsum(sizes, dtype=np.int64).tobytes(), "".join(self.own).encode()

    def counts(self) -> list[int]:
        return [len(values) for values in self.stats]

    def clear(self) -> None:
        self.stats = [[] for _ in self.stats]

    def copy(
        self, stat: int, at: int, rows: Any, kinds: Any, values: Any, own: npt.NDArray[np.int32] | None, base: int
    ) -> None:
        for i, (row, kind, value) in enumerate(self.stats[stat], start=at):
            is_own = kind == STR and value >= base and own is not None
            rows[i], kinds[i], values[i] = row, kind, own[value - base] if is_own else value  # type: ignore[index]


def texts_of(table: list[str]) -> MergedTexts:
    memory = Memory()
    names = TextTable(memory)
    for text in table:
        names.add(text)
    return MergedTexts(memory, names)


def drawn(rng: np.random.Generator, stats: int, base: int) -> list[Block]:
    """Blocks of a host: a stat may be on all of their events, or on few."""
    blocks, first = [], 0
    for _ in range(int(rng.integers(0, 9))):
        rows = int(rng.integers(1, 30))
        own = [f"own {number}" for number in rng.permutation(6)[: rng.integers(0, 4)]]
        found: list[Values] = []
        for share in rng.choice([0.0, 0.1, 1.0], stats):
            with_it = first + np.flatnonzero(rng.random(rows) < share)
            kinds = rng.integers(1, 4, len(with_it))
            values = np.where(
                kinds == STR, rng.integers(0, base + len(own), len(kinds)), rng.integers(-99, 99, len(kinds))
            )
            found.append(list(zip(with_it.tolist(), kinds.tolist(), values.tolist(), strict=True)))
        blocks.append(Block(found, rows, own))
        first += rows
    return blocks


def values_of(columns: Columns) -> Values:
    assert [column.dtype for column in columns] == [np.int32, np.uint8, np.int64]
    rows, kinds, values = (column.tolist() for column in columns)
    return list(zip(rows, kinds, values, strict=True))


def expected(blocks: list[Block], stats: int, table: list[str]) -> tuple[list[Values], list[str]]:
    texts, found = list(table), [[] for _ in range(stats)]  # type: list[str], list[Values]
    for block in blocks:
        texts += [text for text in block.own if text not in texts]
        for stat, values in enumerate(block.stats):
            for row, kind, value in values:
                is_own = kind == STR and value >= len(table)
                found[stat].append((row, kind, texts.index(block.own[value - len(table)]) if is_own else value))
    return found, texts


def test_blocks_come_in_any_order() -> None:
    rng = np.random.default_rng(4)
    table = ["a", "b"]
    for _ in range(300):
        stats = int(rng.integers(0, 5))
        blocks = drawn(rng, stats, len(table))
        values, texts = expected(blocks, stats, table)
        merged = texts_of(table)
        picked = PickedStats(stats, sum(block.rows for block in blocks), merged)
        for number in rng.permutation(len(blocks)).tolist():
            picked.add(number, blocks[number].rows, blocks[number])  # type: ignore[arg-type]
        assert [values_of(columns) for columns in picked.columns()] == values
        assert merged.array().to_pylist() == texts


def test_columns_of_a_block_are_used_again_for_blocks_of_the_same_memory() -> None:
    picked, one, other = PickedStats(2, 3, texts_of([])), Memory(), Memory()
    blocks = [Block([[(i, 1, i)], []], 1, [], memory) for i, memory in enumerate((one, other, one))]
    assert picked.unused(one).counts() == [0, 0]
    picked.add(1, 1, blocks[1])  # type: ignore[arg-type]
    assert isinstance(picked.unused(other), Picks)  # block 1 waits for block 0, and keeps its values
    picked.add(0, 1, blocks[0])  # type: ignore[arg-type]
    assert [picked.unused(memory) for memory in (other, one)] == [blocks[1], blocks[0]]
    assert isinstance(picked.unused(one), Picks)
    picked.add(2, 1, blocks[2])  # type: ignore[arg-type]
    assert isinstance(picked.unused(other), Picks)
    assert [values_of(columns) for columns in picked.columns()] == [[(0, 1, 0), (1, 1, 1), (2, 1, 2)], []]


def test_where_there_is_no_room_for_a_guess_what_is_known_to_come_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def empty(count: int) -> Columns:
        asked.append(count)
        if count > 5:
            raise MemoryError
        return np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count, np.int64)

    monkeypatch.setattr(blocks, "_make_empty", empty)
    picked = PickedStats(1, 40, texts_of([]))
    for number in range(8):
        values = [(5 * number + i, 1, i) for i in range(5)]
        picked.add(number, 5, Block([values], 5, []))  # type: ignore[arg-type]
    (columns,) = picked.columns()
    assert columns[0].tolist() == list(range(40)) and columns[2].tolist() == [0, 1, 2, 3, 4] * 8
    assert asked[:4] == [40, 5, 35, 5]


def test_blocks_that_threads_fill_are_placed_while_others_are_copied() -> None:
    count, rows = 64, 50
    picked = PickedStats(1, count * rows, texts_of([]))
    blocks = [Block([[(rows * i + j, 1, i) for j in range(0, rows, 1 + i % 3)]], rows, []) for i in range(count)]
    values = [one for block in blocks for one in block.stats[0]]
    threads = [
        threading.Thread(
            target=lambda share: [picked.add(i, rows, blocks[i]) for i in share],  # type: ignore[arg-type]
            args=(range(first, count, 4),),
        )
        for first in (3, 1, 0, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (columns,) = picked.columns()
    assert values_of(columns) == values


def test_columns_that_are_too_short_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Picks] = []
    add = PickedStats.add

    def look(self: PickedStats, number: int, rows: int, sink: Any) -> None:
        picks = sink.picks
        assert picks.counts() == [3, 0]
        for sizes in ((2, 3, 3), (3, 2, 3), (3, 3, 2)):
            with pytest.raises(ValueError, match="shorter"):
                picks.copy(0, 0, *columns(*sizes))
        for at in (-1, 1):
            with pytest.raises(ValueError, match="shorter"):
                picks.copy(0, at, *columns(3, 3, 3))
        for stat in (-1, 2):
            with pytest.raises(IndexError):
                picks.copy(stat, 0, *columns(3, 3, 3))
        picks.copy(0, 0, *columns(3, 3, 3))
        kept.append(picks)
        add(self, number, rows, sink)

    monkeypatch.setattr(PickedStats, "add", look)
    profile = fastprof.load(xspace(plane("/host:CPU", [line("l", [event("e", i, 1, {"x": i}) for i in range(3)])])))
    assert read_host(profile.table_set, 0, (), ("x", "none"), ()).ints("x")[1].tolist() == [0, 1, 2]
    assert len(kept) == 1 and kept[0].counts() == [0, 0]


def test_stats_are_not_picked_without_columns_to_go_to() -> None:
    with pytest.raises(ValueError, match="no columns for picks"):
        Sink(Memory(), {}, {"pick_of_stat": np.zeros(1, np.int16)})


def columns(rows: int, kinds: int, values: int) -> Columns:
    return np.zeros(rows, np.int32), np.zeros(kinds, np.uint8), np.zeros(values, np.int64)
