"""GraphDef as text gives what the protobuf gives."""

from __future__ import annotations

import random

import pytest
from google.protobuf import text_format
from tensorflow_descriptor import message
from test_graph_def import FILES, VALUES, slow_rows
from test_graph_nodes import rows_of

import fastprof
from fastprof.errors import CaptureError
from fastprof.inputs.formats import graph_def_text
from fastprof.inputs.formats.graph_def_text import FastNodeText
from fastprof.inputs.message import BadMessageError, encode_text_proto


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_text_gives_the_nodes_of_the_protobuf(file: object) -> None:
    data = file.read_bytes()  # type: ignore[attr-defined]
    text = text_format.MessageToString(message("GraphDef").FromString(data)).encode()
    profile = fastprof.load(text)
    assert rows_of(profile) == slow_rows(message("GraphDef").FromString(data).SerializeToString())
    assert profile.import_log.num_rows == 0


def test_values_of_every_kind_are_read() -> None:
    values = [one.strip() for line in VALUES.strip().splitlines() for one in line.split(" | ")]
    attrs = "".join(f'attr {{ key: "k{number}" value {{ {one} }} }}' for number, one in enumerate(values))
    text = f'node {{ name: "n" op: "Op" input: ["a", "^b"] {attrs} attr {{ key: "e" value {{ f: 1e-05 }} }} }}'
    data = text_format.Parse(text, message("GraphDef")()).SerializeToString()
    assert rows_of(fastprof.load(text.encode())) == slow_rows(data)


def test_damaged_text_is_an_error_with_its_place_or_salvaged() -> None:
    text = b'node { name: "a" op: "A" } node { name: "b" op: "B" input: }'
    with pytest.raises(CaptureError, match="a field has no value, reading a GraphDef") as caught:
        fastprof.load(text)
    assert caught.value.offset == len(text) - 1
    kept = fastprof.load(text, on_error="salvage")
    assert kept.graph_nodes["node"].to_pylist() == ["a", "b"]
    assert kept.import_log["code"].to_pylist() == ["truncated"]
    with pytest.raises(CaptureError, match="deeper than 64"):
        fastprof.load(b"node { attr { value { " + b'func { attr { key: "a" value {' * 5000)


def read(text: bytes, usual: FastNodeText | None) -> tuple[bytes, str, int]:
    """What of a GraphDef is read, and the fault that ends it."""
    parts = []
    try:
        for part in (
            encode_text_proto(text, graph_def_text.GRAPH, usual.read)
            if usual
            else encode_text_proto(text, graph_def_text.GRAPH)
        ):
            parts.append(part)
    except BadMessageError as fault:
        return b"".join(parts), fault.text, fault.at
    return b"".join(parts), "", 0


def test_usual_nodes_are_what_their_tokens_are() -> None:
    """Of texts that are cut at any line or changed in any way, too."""
    chance = random.Random(4)
    text = text_format.MessageToString(message("GraphDef").FromString(FILES[0].read_bytes())).encode()
    at = text.index(b"node", len(text) // 2)
    for number in range(200):
        changed = bytearray(text[at : at + 2500])
        for _ in range(number % 4):
            place, length = chance.randrange(len(changed)), chance.choice([0, 1, 1, 4, 30])
            changed[place : place + length] = chance.choice(
                [b"}", b"{", b"\n", b'"', b"\\", b"#", b"  }\n", b"[", b"]", b" "]
            )
        known = FastNodeText(graph_def_text.NODE)
        assert read(bytes(changed), known) == read(bytes(changed), None)
    assert FastNodeText(graph_def_text.NODE).read(text, 0) is not None


def test_changed_texts_give_bytes_or_an_error() -> None:
    chance = random.Random(9)
    text = text_format.MessageToString(message("GraphDef").FromString(FILES[0].read_bytes())).encode()[:3000]
    for _ in range(300):
        changed = bytearray(text)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.choice(b"{}<>[]\"'\\:,; \n0a-#")
        scribe = graph_def_text.scribe("file", salvage=bool(chance.randrange(2)))
        scribe.push(bytes(changed))
        try:
            b"".join(scribe.finish())
        except CaptureError as fault:
            assert fault.offset is not None
