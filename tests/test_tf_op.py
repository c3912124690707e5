"""What names of events say of ops."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from gate import typical_captures

import fastprof
from fastprof.derive.devices.op_names import Framework, TfOp, parse_op_name

UNKNOWN, TENSORFLOW, JAX, TF_DATA = Framework.UNKNOWN, Framework.TENSORFLOW, Framework.JAX, Framework.TF_DATA


@pytest.mark.parametrize(
    ("full_name", "wanted"),
    [
        # TensorFlow: a name, a colon, a type that begins with a capital letter
        ("dense/MatMul:MatMul", (TENSORFLOW, "dense/MatMul", "MatMul")),
        ("model_1/layer-2/add>x.y:AddV2", (TENSORFLOW, "model_1/layer-2/add>x.y", "AddV2")),
        ("0:_Send", (TENSORFLOW, "0", "_Send")),
        (".hidden:Const", (TENSORFLOW, ".hidden", "Const")),
        # a type may be left out: the last part of the name without its number
        ("scope/MatMul_1:", (TENSORFLOW, "scope/MatMul_1", "MatMul")),
        ("scope/Mat_Mul:", (TENSORFLOW, "scope/Mat_Mul", "Mat_Mul")),
        ("train step:", (TENSORFLOW, "train step", "train step")),
        ("scope/_12:", (TENSORFLOW, "scope/_12", "")),
        ("scope/12:", (TENSORFLOW, "scope/12", "12")),
        (":", (TENSORFLOW, "", "")),
        # JAX: a type that begins with a small letter, without its parameters
        ("jit(f)/jit(main)/mul:mul", (JAX, "jit(f)/jit(main)/mul", "mul")),
        ("jit(f)/dot_general:dot_general[dims=(((1,), (0,)), ((), ()))\npreferred=None]",
         (JAX, "jit(f)/dot_general", "dot_general")),
        ("jit(f)/transpose/reduce_sum_3:", (JAX, "jit(f)/transpose/reduce_sum_3", "reduce_sum")),
        ("a b:custom_jvp[]", (JAX, "a b", "custom_jvp")),
        ("op:mul[", (UNKNOWN, "op:mul[", "")),
        # tf.data
        ("Iterator::Root::Prefetch", (TF_DATA, "Iterator::Root::Prefetch", "Dataset")),
        ("Iterator:", (TF_DATA, "Iterator:", "Dataset")),
        ("Iterator", (UNKNOWN, "Iterator", "")),
        # drivers
        ("MEMCPYHtoD", (Framework.MEMCPY_H2D, "MEMCPYHtoD", "MemcpyHToD")),
        ("MemcpyD2D", (UNKNOWN, "MemcpyD2D", "")),
        ("MemcpyDtoH (pinned)", (Framework.MEMCPY_D2H, "MemcpyDtoH (pinned)", "MemcpyDToH")),
        ("memcpydtod", (Framework.MEMCPY_D2D, "memcpydtod", "MemcpyDToD")),
        ("MEMCPYHTOH", (Framework.MEMCPY_H2H, "MEMCPYHTOH", "MemcpyHToH")),
        ("MEMCPYHtoD:x y", (UNKNOWN, "MEMCPYHtoD:x y", "")),
        # nothing that is known
        ("", (UNKNOWN, "", "")),
        ("void kernel<float>(int)", (UNKNOWN, "void kernel<float>(int)", "")),
        ("a:b:c", (UNKNOWN, "a:b:c", "")),
        ("std::move", (UNKNOWN, "std::move", "")),
        ("größe:MatMul", (UNKNOWN, "größe:MatMul", "")),
        ("op:MatMul2 ", (UNKNOWN, "op:MatMul2 ", "")),
        ("op:ΜatMul", (UNKNOWN, "op:ΜatMul", "")),
    ],
)  # fmt: skip
def test_names(full_name: str, wanted: tuple[Framework, str, str]) -> None:
    assert parse_op_name(full_name) == TfOp(*wanted)


def slowly(full_name: str) -> tuple[Framework, str, str]:
    """The seven steps of the rules, one after the other."""
    if ":" not in full_name:
        for kind, framework in (("HtoD", Framework.MEMCPY_H2D), ("DtoH", Framework.MEMCPY_D2H),
                                ("DtoD", Framework.MEMCPY_D2D), ("HtoH", Framework.MEMCPY_H2H)):  # fmt: skip
            if re.match("(?ai:memcpy" + kind + ")", full_name):
                return framework, full_name, "Memcpy" + kind.replace("to", "To")
        return UNKNOWN, full_name, ""
    colon = full_name.index(":")
    a, b = full_name[:colon], full_name[colon + 1 :]
    if a == "Iterator":
        return TF_DATA, full_name, "Dataset"
    if re.fullmatch(r"[A-Za-z0-9.][A-Za-z0-9_.\/>-]*", a) and re.fullmatch(r"[A-Z_][a-zA-Z0-9_]*", b):
        return TENSORFLOW, a, b
    kind = b
    if not kind:
        kind = re.sub(r"_[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*\Z", "", a.split("/")[-1])
    if re.fullmatch(r"[a-z_][a-z0-9_]*(\[(.|\n)*\])?", kind):
        return JAX, a, kind.split("[")[0]
    return (UNKNOWN, full_name, "") if b else (TENSORFLOW, a, kind)


def test_names_by_lot() -> None:
    draw = random.Random(1)
    parts = ("Iterator", "memcpy", "MEMCPY", "HtoD", "dTOh", "DtoD", ":", ":", "::", "/", "_", "_1", "12", "MatMul",
             "mul", "[a=1]", "[", "]", " ", "\n", "-", ">", ".", "+3", "é", "٣", "ſ")  # fmt: skip
    for _ in range(20_000):
        name = "".join(draw.choice(parts) for _ in range(draw.randint(0, 6)))
        assert parse_op_name(name) == slowly(name), repr(name)


@typical_captures
def test_names_of_real_captures(capture: Path) -> None:
    for name in set(fastprof.load(capture).event_metadata["name"].to_pylist()):
        assert parse_op_name(name) == slowly(name), repr(name)
