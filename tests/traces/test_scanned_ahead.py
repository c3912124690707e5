"""Of a long document, a thread scans the next bytes while the last are taken: nothing differs."""

from __future__ import annotations

import io
from functools import partial

import pytest
from random_documents import document

import fastprof
from fastprof import CaptureError

TABLES = ("events", "event_stats", "lines", "planes", "flows", "import_log")
LONG = 2_200_000


def long_document(events: int = LONG) -> bytes:
    """Random events, again and again, between members that are kept; keys and values with escapes."""
    texts = [document(seed) for seed in range(60)]
    bodies = [text[text.index(b"[") + 1 : text.rindex(b"]")] for text in texts]
    odd = b'{"ph":"X","n\\u0061me":"b\\u00e9","pid":1,"tid":1,"ts":3,"dur":1,"args":{"a":[1, {"b":"\\ud800"}]}}, {}, 7'
    unusual = (
        b'"args":{"a":1},"args":{"b":2,"b":3}', b'"args":{"a":1},"args":null', b'"\\u0061rgs":{"a":1}',
        *(b'"args":{"a":%s%s}' % (b"[" * deep, b"]" * deep) for deep in (511, 512)),
    )  # fmt: skip
    args = [b'{"ph":"X","name":"c","pid":1,"tid":1,"ts":4,"dur":1,%s}' % one for one in unusual]
    unread = b'{"ph":"s","name":"f","id":1,"pid":1,"tid":1,"ts":3,"args":{"a" 1}}'
    some = b",".join([*bodies, odd, *args, unread])
    return (
        b'{"otherData":{"version":"1"},"schemaVersion":1,"traceEvents":['
        + b",".join([some] * (events // len(some)))
        + b'],"systemTraceEvents":"none","traceName":"\\u00e9","traceEvents":['
        + bodies[0]
        + b"]}"
    )


def tables(profile: fastprof.Profile) -> dict[str, list[str]]:
    """As texts, because NaN does not equal itself."""
    found = {name: profile.tables[name].to_pydict() for name in TABLES}
    del found["import_log"]["path"]
    return {name: [f"{key} {column}" for key, column in columns.items()] for name, columns in found.items()}


class _Chunks(io.RawIOBase):
    """A stream that gives at most this number of bytes at a time."""

    def __init__(self, text: bytes, size: int) -> None:
        self._rest = io.BytesIO(text)
        self._size = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(min(size, self._size) if size >= 0 else self._size)


def test_a_document_that_is_scanned_ahead_has_the_tables_of_one_that_is_pushed() -> None:
    text = long_document()
    wanted = tables(fastprof.load(text, on_error="salvage"))  # which scans nothing ahead
    for load in (partial(fastprof.load, text), partial(fastprof.load, _Chunks(text, 300_007))):
        assert tables(load()) == wanted


@pytest.mark.parametrize("wrong", [b'{"ph":"X","args":{"a":01}}', b'{"ph" "X"}', b"}"])
def test_the_first_fault_of_a_document_is_the_one_that_is_raised(wrong: bytes) -> None:
    """A value that is wrong is seen when an event is taken, after the next bytes have been scanned."""
    text = long_document()
    places = [text.index(b",{", at) for at in (1_500_000, 1_500_500)]
    broken = text[: places[0]] + b"," + wrong + text[places[0] : places[1]] + b",]" + text[places[1] :]
    with pytest.raises(CaptureError) as error:
        fastprof.load(broken)
    assert error.value.offset is not None
    assert places[0] < error.value.offset <= places[0] + len(wrong) + 1


def test_names_that_are_written_alike_are_not_the_same_with_and_without_escapes() -> None:
    r"""``\\n`` means two characters, which are also how a line feed is written; what came last is tried first."""
    written = [
        rb"a name\\n of",
        rb"a name\n of",
        rb"a name\\n of",
        b"a name\xff of",
        "a name\ufffd of".encode(),
        b"short",
    ]
    event = b'{"ph":"X","name":"%s","pid":1,"tid":1,"ts":%d,"dur":1,"args":{"%s":1,"b":2}}'
    events = [event % (text, at, text) for at, text in enumerate(written * 3)]
    found = fastprof.load(b'{"schemaVersion":1,"traceEvents":[' + b",".join(events) + b"]}").tables
    names = ["a name\\n of", "a name\n of", "a name\\n of", "a name\ufffd of", "a name\ufffd of", "short"] * 3
    assert found["events"]["name"].to_pylist() == names
    assert found["event_stats"]["stat"].to_pylist() == [stat for name in names for stat in (name, "b")]
    [row] = [row for row in found["import_log"].to_pylist() if row["code"] == "bad_text"]
    assert row["count"] == 6
