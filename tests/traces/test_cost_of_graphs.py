"""Memory and copies of reading graphs and runs are in proportion to the bytes, whatever is many."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from fastprof.decode import graph_def
from fastprof.inputs import message, profile_model
from fastprof.inputs.formats.graph_def_text import GRAPH
from fastprof.inputs.message import BadMessageError, encode_text_proto
from fastprof.schema.message_fields import put

MANY = 2_000
DEVICE = "/job:a/replica:0/task:0/device:CPU:0"


class CountedBytes(bytes):
    """Bytes that count what is copied when they are appended to other bytes."""

    copied = 0

    def __radd__(self, other: object) -> bytes:
        if not isinstance(other, bytes):
            return NotImplemented
        CountedBytes.copied += len(other)
        return bytes.__add__(other, self)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    CountedBytes.copied = 0
    monkeypatch.setattr(profile_model, "put", lambda *args: CountedBytes(put(*args)))
    unescape = message._unescape
    monkeypatch.setattr(message, "_unescape", lambda quoted: CountedBytes(unescape(quoted)))
    yield


@pytest.mark.usefixtures("counted")
def test_attributes_outputs_and_texts_are_not_copied_again_for_each_that_follows() -> None:
    attrs = b"".join(put(5, put(1, f"k{number}")) for number in range(MANY))
    outputs = put(7, put(3, put(4, put(1, 5)))) * MANY
    model = profile_model.ProfileModel()
    model.add_graph(put(1, put(1, "n") + put(2, "Add") + attrs))
    model.add_run(0, put(1, put(1, put(1, DEVICE) + put(2, put(1, "n") + put(2, 100) + put(4, 1) + outputs))))
    text = b'node { name: "n" op: ' + b'"abcdefgh" ' * MANY + b"}"
    assert b"".join(encode_text_proto(text, GRAPH)) == put(1, put(1, "n") + put(2, b"abcdefgh" * MANY))
    assert model.nodes["n"].attrs.count(b"k") == MANY
    assert CountedBytes.copied < 2 * (len(attrs) + len(outputs) + len(text))


TENSOR = b'node { name: "n" op: "A" attr { key: "k" value { tensor { %s } } } }'
TEXTS = {
    "numbers in a list": TENSOR % (b"int_val: [" + b"11," * 100_000 + b"]"),
    "numbers in fields": TENSOR % (b"int_val:11 " * 40_000),
    "escapes": TENSOR % (b'tensor_content: "' + b"\\000" * 100_000 + b'"'),
    "a text without an end": b'node { name: "' + b"x" * 400_000,
    "blanks": b"node { name: 'n' op: 'A' }" + b" " * 400_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_memory_is_in_proportion_to_the_text(text: bytes) -> None:
    """Lists took 20 bytes a byte, texts a hundred."""
    tracemalloc.start()
    try:
        for _ in encode_text_proto(text, GRAPH):
            pass
    except BadMessageError:
        assert text.endswith(b"x")
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < (64 << 10) + 4 * len(text)


def test_functions_of_a_library_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function took as many passes as the graph."""
    passes = []
    columns = graph_def.MessageColumns
    monkeypatch.setattr(graph_def, "MessageColumns", lambda *args: passes.append(args) or columns(*args))
    node = put(3, put(1, "a") + put(2, "Add"))
    functions = [put(1, put(1, put(1, f"f{number}")) + node * (number % 3)) for number in range(MANY)]
    parts = list(graph_def.read_nodes(put(1, put(1, "n") + put(2, "Mul")) + put(2, b"".join(functions))))
    assert [(part.function, part.op) for part in parts[:4]] == [
        ("", ["Mul"]), ("f1", ["Add"]), ("f2", ["Add", "Add"]), ("f4", ["Add"]),
    ]  # fmt: skip
    assert len(parts) == 1 + sum(number % 3 > 0 for number in range(MANY))
    assert len(passes) < 10
