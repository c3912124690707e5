"""Kinds of events with their stats, and the encoding of many events of mixed kinds at once.

An event becomes a run of tokens, one for each varint or raw byte it is written as; NumPy fills the
tokens kind by kind, then encodes them all together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from trace_writer import (
    PLANE_EVENT_METADATA,
    PLANE_STAT_METADATA,
    Bytes,
    Ints,
    Words,
    bytes_field,
    encode_tokens,
    map_entry,
    number_field,
    text_field,
    varint,
    varint_sizes,
)


class Times(NamedTuple):
    """When events are: offsets and durations in ps."""

    offsets: Ints
    durations: Ints


Draw = Callable[[np.random.Generator, Times], Words]
"""A value for each event, by chance or from its times."""

INT64, UINT64, DOUBLE, STR, BYTES, REF = 0x20, 0x18, 0x11, 0x2A, 0x32, 0x38
"""Tags of the members of XStat's value."""

EVENT_TAG, STAT_TAG, METADATA_ID_TAG, OFFSET_TAG, DURATION_TAG = 0x22, 0x22, 0x08, 0x10, 0x18
HALF = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class Stat:
    """A stat of a kind of event: ``tag`` says how the value is written; 0 picks int64 or uint64 by size.

    The ``text`` of bytes has a character for each byte. A ref with ``texts`` draws the numbers of those.
    """

    name: str
    tag: int
    draw: Draw | None = None
    text: str = ""
    texts: tuple[str, ...] = ()


def constant(value: int) -> Draw:
    return lambda _rng, times: np.full(len(times.offsets), value & (1 << 64) - 1, np.uint64)


def below(limit: int) -> Draw:
    """Small numbers, smaller ones more often."""

    def draw(rng: np.random.Generator, times: Times) -> Words:
        return (rng.random(len(times.offsets)) ** 2 * limit).astype(np.uint64)

    return draw


def one_of_many(count: int) -> Draw:
    """64-bit ids out of ``count`` ids, which change as time goes by."""

    def draw(rng: np.random.Generator, times: Times) -> Words:
        pool = rng.integers(1, 1 << 64, count, np.uint64)
        return pool[rng.integers(0, count, len(times.offsets))]

    return draw


def doubles(low: float, high: float) -> Draw:
    def draw(rng: np.random.Generator, times: Times) -> Words:
        return rng.uniform(low, high, len(times.offsets)).view(np.uint64)

    return draw


class InTurn:
    """Hands out values made beforehand, one to each event in the order of its line."""

    def __init__(self, values: Words | None = None) -> None:
        self.begin(np.empty(0, np.uint64) if values is None else values)

    def begin(self, values: Words) -> None:
        """From now on these, from the first on."""
        self.values, self.at = values, 0

    def __call__(self, _rng: np.random.Generator, times: Times) -> Words:
        first = self.at
        self.at += len(times.offsets)
        return self.values[first : self.at]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of event: its metadata, and the stats that each event of it has. Kinds of a name share the metadata."""

    name: str
    stats: tuple[Stat, ...] = ()
    display_name: str = ""
    instant: bool = False
    metadata_stats: tuple[Stat, ...] = ()


class PlaneVocabulary:
    """The two metadata tables of a plane, numbered in the order of first use."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = kinds
        self.texts: dict[str, int] = {}
        self.of_name: dict[str, Kind] = {}
        for kind in kinds:
            self.of_name.setdefault(kind.name, kind)
        numbers = {name: number for number, name in enumerate(self.of_name, 1)}
        self.encoders = [KindEncoder(kind, numbers[kind.name], self) for kind in kinds]
        self.tokens_of = np.array([encoder.token_count for encoder in self.encoders], np.int64)
        self.stats_of = np.array([len(kind.stats) for kind in kinds], np.int64)

    def intern(self, text: str) -> int:
        """The id of a stat name or of a text that refs stand for."""
        return self.texts.setdefault(text, len(self.texts) + 1)

    def encode(self, rng: np.random.Generator, kind_of: Ints, times: Times) -> tuple[Bytes, Ints]:
        """Events as fields of a line, and where each begins, and the end; ``kind_of`` indexes ``kinds``."""
        counts = self.tokens_of[kind_of]
        ends = np.cumsum(counts)
        firsts = ends - counts
        tokens = np.empty(int(ends[-1]), np.uint64)
        raw: list[Ints] = []
        order = np.argsort(kind_of, kind="stable")
        bounds = np.searchsorted(kind_of[order], np.arange(len(self.kinds) + 1))
        for number in np.unique(kind_of):
            chosen = order[bounds[number] : bounds[number + 1]]
            part = Times(times.offsets[chosen], times.durations[chosen])
            raw += self.encoders[number].fill(tokens, firsts[chosen], rng, part)
        encoded, begins = encode_tokens(tokens, np.concatenate(raw) if raw else np.empty(0, np.int64))
        return encoded, np.concatenate([begins[firsts], begins[-1:]])

    def metadata(self, rng: np.random.Generator) -> bytes:
        """The two maps as fields of a plane, in no order, as hash maps are written."""
        kinds, texts = enumerate(self.of_name.values(), 1), self.texts.items()
        events = [map_entry(PLANE_EVENT_METADATA, i, self._event_metadata(i, kind)) for i, kind in kinds]
        stats = [map_entry(PLANE_STAT_METADATA, i, number_field(1, i) + text_field(2, text)) for text, i in texts]
        rng.shuffle(events)
        rng.shuffle(stats)
        return b"".join(events + stats)

    def _event_metadata(self, number: int, kind: Kind) -> bytes:
        names = text_field(2, kind.name) + text_field(4, kind.display_name)
        stats = (bytes_field(5, self.stat(stat)) for stat in kind.metadata_stats)
        return number_field(1, number) + names + b"".join(stats)

    def stat(self, stat: Stat) -> bytes:
        """One stat with its text, or else a value drawn without chance, as an XStat."""
        head = number_field(1, self.intern(stat.name)) + varint(stat.tag)
        if stat.tag in (STR, BYTES):
            value = stat.text.encode("latin-1" if stat.tag == BYTES else "utf-8")
            return head + varint(len(value)) + value
        if stat.tag == REF:
            return head + varint(self.intern(stat.text))
        assert stat.draw is not None
        drawn = stat.draw(np.random.default_rng(0), Times(np.zeros(1, np.int64), np.zeros(1, np.int64)))
        return head + (drawn.tobytes() if stat.tag == DOUBLE else varint(int(drawn[0])))


class KindEncoder:
    """Fills the tokens of events of one kind."""

    def __init__(self, kind: Kind, number: int, vocabulary: PlaneVocabulary) -> None:
        self.kind = kind
        self.number = number
        self.stat_ids = [vocabulary.intern(stat.name) for stat in kind.stats]
        self.refs = [_refs(stat, vocabulary) if stat.tag == REF else np.zeros(1, np.uint64) for stat in kind.stats]
        self.token_count = 6 + (0 if kind.instant else 2) + sum(map(_stat_tokens, kind.stats))

    def fill(self, tokens: Words, at: Ints, rng: np.random.Generator, times: Times) -> list[Ints]:
        """Writes the tokens of each event from its place in ``at``; returns the places of raw bytes."""
        raw: list[Ints] = []
        offsets, durations = times.offsets.view(np.uint64), times.durations.view(np.uint64)
        size = 2 + len(varint(self.number)) + varint_sizes(offsets)
        head = ((0, EVENT_TAG), (2, METADATA_ID_TAG), (3, self.number), (4, OFFSET_TAG), (5, offsets))
        for slot, token in head:
            tokens[at + slot] = token
        slot = 6
        if not self.kind.instant:
            tokens[at + slot] = DURATION_TAG
            tokens[at + slot + 1] = durations
            size += 1 + varint_sizes(durations)
            slot += 2
        for stat, stat_id, refs in zip(self.kind.stats, self.stat_ids, self.refs, strict=True):
            tag, value_tokens, value_size = _value(stat, refs, rng, times)
            stat_size = 2 + len(varint(stat_id)) + value_size
            stat_tokens: list[int | Words] = [
                STAT_TAG,
                stat_size,
                METADATA_ID_TAG,
                stat_id,
                tag,
                *value_tokens,
            ]
            for number, part in enumerate(stat_tokens):
                tokens[at + slot + number] = part
            if stat.tag == DOUBLE:
                raw += [at + slot + 5 + byte for byte in range(8)]
            slot += len(stat_tokens)
            size += 2 + stat_size
        tokens[at + 1] = size
        return raw


def _refs(stat: Stat, vocabulary: PlaneVocabulary) -> Words:
    """The number of each text that a ref may point to."""
    return np.array([vocabulary.intern(text) for text in stat.texts or (stat.text,)], np.uint64)


def _stat_tokens(stat: Stat) -> int:
    if stat.tag == DOUBLE:
        return 5 + 8
    return 5 + 1 + (len(stat.text.encode()) if stat.tag == STR else 0)


def _value(
    stat: Stat, refs: Words, rng: np.random.Generator, times: Times
) -> tuple[int | Words, Sequence[int | Words], int | Words]:
    """Tag, tokens of the value, and how many bytes these take; texts are ASCII, shorter than 128 bytes."""
    if stat.tag == REF and stat.draw is None:
        return REF, [int(refs[0])], len(varint(int(refs[0])))
    if stat.tag == STR:
        text = stat.text.encode("ascii")
        return STR, [len(text), *text], 1 + len(text)
    assert stat.draw is not None
    values = stat.draw(rng, times)
    if stat.tag == REF:
        values = refs[values]
    if stat.tag == DOUBLE:
        return DOUBLE, list(values.view(np.uint8).reshape(-1, 8).T.astype(np.uint64)), 8
    tag = stat.tag or np.where(values < HALF, np.uint64(INT64), np.uint64(UINT64))
    return tag, [values], varint_sizes(values)
