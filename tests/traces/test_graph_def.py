"""Nodes of GraphDefs: what the protobuf runtime reads of them, as strings; and damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_descriptor import TYPES, message

from fastprof.decode.graph_def import Nodes, parse_shape, parse_shapes, read_nodes
from fastprof.errors import CaptureError
from fastprof.schema.message_fields import put

SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = (SHARED / "captures/tf1/graph.pb", SHARED / "conformance/tfprof/inputs/gpu_graph.pb")
WIDTHS = {"FLOAT": 4, "INT32": 4, "DOUBLE": 8, "INT64": 8, "BOOL": 1}


def rows(data: bytes) -> list[tuple[Any, ...]]:
    def of(nodes: Nodes) -> list[tuple[Any, ...]]:
        lists = (nodes.name, nodes.op, nodes.device, nodes.inputs, nodes.control_inputs, nodes.attrs)
        return [(nodes.function, *row) for row in zip(*lists, strict=True)]

    return [row for nodes in read_nodes(data) for row in of(nodes)]


# ---- the same by the protobuf runtime


def type_text(number: int) -> str:
    return TYPES[number].lower() if number < 100 else f"{TYPES[number - 100].lower()}_ref"


def shape_text(one: Any) -> str:
    return "[?]" if one.unknown_rank else "[" + ",".join(str(dim.size) for dim in one.dim) + "]"


def tensor_text(one: Any) -> str:
    sizes, name = [dim.size for dim in one.tensor_shape.dim], TYPES[one.dtype]
    text = f"tensor {name.lower()}{shape_text(one.tensor_shape)}"
    if name == "STRING":
        return f"{text} {sum(map(len, one.string_val))} bytes"
    known = name in WIDTHS and not one.tensor_shape.unknown_rank and min(sizes, default=0) >= 0
    return f"{text} {int(np.prod(sizes)) * WIDTHS[name]} bytes" if known else text


def function_text(one: Any) -> str:
    attrs = ", ".join(f"{name}={value_text(one.attr[name])}" for name in one.attr)
    return f"{one.name}({attrs})" if attrs else str(one.name)


TEXT = {
    "s": lambda one: one.decode("utf-8", "backslashreplace"), "i": str, "f": lambda one: str(np.float32(one)),
    "b": lambda one: str(one).lower(), "type": type_text, "shape": shape_text, "tensor": tensor_text,
    "func": function_text, "placeholder": lambda one: f"${one}",
}  # fmt: skip


def value_text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind != "list":
        return TEXT[kind](getattr(value, kind)) if kind else ""
    elements = [
        f'"{TEXT["s"](one)}"' if field.name == "s" else TEXT[field.name](one)
        for field, every in value.list.ListFields()
        for one in every
    ]
    return f"[{', '.join(elements)}]"


def slow_rows(data: bytes) -> list[tuple[Any, ...]]:
    graph = message("GraphDef").FromString(data)
    parts = [("", graph.node), *((function.signature.name, function.node_def) for function in graph.library.function)]
    return [
        (function, node.name, node.op, node.device, [one for one in node.input if one[0] != "^"],
         [one[1:] for one in node.input if one[0] == "^"], {name: value_text(node.attr[name]) for name in node.attr})
        for function, nodes in parts
        for node in nodes
    ]  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nodes_are_those_that_protobuf_reads(file: Path) -> None:
    data = file.read_bytes()
    assert rows(data) == slow_rows(data)
    assert len(rows(data)) > 60


VALUES = """
list { s: "a" s: "b, c" } | list { i: 1 i: -1 i: 300 } | list { f: 0.1 f: 1e30 } | list { b: true b: false }
list { type: DT_FLOAT type: DT_HALF_REF }
list { shape { dim { size: 2 } dim { size: -1 } } shape { unknown_rank: true } }
list { } | list { func { name: "f" attr { key: "T" value { type: DT_INT32 } } } } | list { tensor { dtype: DT_STRING } }
s: "NHWC" | s: "\\377a" | i: -9223372036854775808 | f: 0.1 | f: nan | b: true | b: false | type: DT_FLOAT
type: DT_STRING_REF | shape { } | shape { unknown_rank: true } | placeholder: "T"
func { name: "g" attr { key: "h" value { func { name: "i" attr { key: "n" value { i: 3 } } } } } }
tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } } tensor_content: "\\000\\001" }
tensor { dtype: DT_STRING tensor_shape { dim { size: 2 } } string_val: "abc" string_val: "de" }
tensor { dtype: DT_INT64 tensor_shape { unknown_rank: true } } | tensor { dtype: DT_RESOURCE tensor_shape { } }
"""


def test_values_of_every_kind_have_a_text() -> None:
    from google.protobuf import text_format

    values = [one.strip() for line in VALUES.strip().splitlines() for one in line.split(" | ")]
    attrs = "".join(f'attr {{ key: "k{number}" value {{ {one} }} }}' for number, one in enumerate(values))
    data = text_format.Parse(f"node {{ {attrs} }}", message("GraphDef")()).SerializeToString()
    (row,) = rows(data)
    assert [row[-1][f"k{number}"] for number in range(len(values))] == [
        '["a", "b, c"]', "[1, -1, 300]", "[0.1, 1e+30]", "[true, false]", "[float, half_ref]", "[[2,-1], [?]]", "[]",
        "[f(T=int32)]", "[tensor string[] 0 bytes]", "NHWC", "\\xffa", "-9223372036854775808", "0.1", "nan", "true",
        "false", "float", "string_ref", "[]", "[?]", "$T", "g(h=i(n=3))", "tensor float[2,3] 24 bytes",
        "tensor string[2] 5 bytes", "tensor int64[?]", "tensor resource[]",
    ]  # fmt: skip
    assert rows(data) == slow_rows(data)


def test_shapes_are_read_from_their_texts() -> None:
    assert [parse_shape(text) for text in ("[2,-1]", "[]", "[?]", None)] == [[2, -1], [], None, None]
    assert parse_shapes("[[2,3], [?], []]") == [[2, 3], None, []]
    assert parse_shapes("[]") == parse_shapes(None) == []


def test_cut_and_changed_graphs_give_nodes_or_an_error_with_its_place() -> None:
    data, chance = FILES[0].read_bytes()[-9000:], random.Random(1)
    data = FILES[0].read_bytes()[:8000] + data
    errors = 0
    broken = [data[:end] for end in range(0, len(data), 23)]
    for _ in range(500):
        changed = bytearray(data)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        broken.append(bytes(changed))
    for one in broken:
        try:
            rows(one)
        except CaptureError as fault:
            errors += 1
            assert "reading a GraphDef" in str(fault)
            assert fault.offset is not None
            assert 0 <= fault.offset <= len(one)
    assert errors > 500


def test_functions_in_functions_without_end_are_an_error() -> None:
    value = put(3, 1)
    for _ in range(2000):
        value = put(10, put(1, "f") + put(2, put(1, "a") + put(2, value)))
    with pytest.raises(CaptureError, match="functions lie deeper than 64, reading a GraphDef"):
        rows(put(1, put(5, put(1, "k") + put(2, value))))
