"""Random programs that XLA could have compiled: most opcodes, fusions in fusions, loops, branches, tiles, sources.

made = random_program(random.Random(1), "jit_f", size=40)
made.program.proto(random_buffers(random.Random(1), made))
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from hlo_builder import Op, Program, packed, shape, tuple_of
from trace_builder import int_field, len_field

Spec = tuple[str, tuple[int, ...]] | list["Spec"]  # type: ignore[misc]
"""An array, as ("f32", (4, 8)), or a list of shapes: a tuple."""

_UNARY = (
    "abs negate exponential exponential-minus-one log log-plus-one logistic tanh sqrt rsqrt cbrt sine cosine floor "
    "ceil sign round-nearest-afz round-nearest-even copy bitcast"
)
UNARY = _UNARY.split()
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2"]
DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")
SCOPES = (
    "encoder",
    "decoder",
    "layer_0",
    "layer_1",
    "attn",
    "mlp",
    "transpose(jvp(Model))",
    "jvp(Model)",
    "while",
    "body",
)
PRIMITIVES = ("dot_general", "add", "mul", "reduce_sum", "tanh", "broadcast_in_dim", "convert_element_type")
FLOATS = ("f32", "bf16", "f16", "f64")
FRAMES = 6


@dataclass(frozen=True)
class Value:
    name: str
    spec: Spec


@dataclass
class Made:
    """A program and what is known of it."""

    program: Program
    values: list[Value] = field(default_factory=list)
    """Of all computations."""
    entry: list[Op] = field(default_factory=list)
    bodies: dict[str, list[Op]] = field(default_factory=dict)
    """The instructions of loops, by the name of the loop."""
    fused: set[str] = field(default_factory=set)
    """Names of instructions within fusions."""


def stack_frames() -> bytes:
    """FRAMES frames, each called from the one before."""
    names = (
        b"".join(len_field(1, f"/src/file_{i}.py") for i in range(3)) + len_field(2, "forward") + len_field(2, "main")
    )
    located = b"".join(
        len_field(3, int_field(1, i % 3 + 1) + int_field(2, i % 2 + 1) + int_field(3, 10 * i + 1) + int_field(4, i + 1))
        for i in range(FRAMES)
    )
    frames = b"".join(len_field(4, int_field(1, i + 1) + (int_field(2, i) if i else b"")) for i in range(FRAMES))
    return names + located + frames


class Writer:
    """Writes one computation of random instructions."""

    def __init__(self, random: Random, made: Made, fused: bool, depth: int, tiled: bool) -> None:
        self.random, self.made, self.fused, self.depth, self.tiled = random, made, fused, depth, tiled
        self.ops: list[Op] = []
        self.values: list[Value] = []

    # ---- what instructions are made of

    def shaped(self, spec: Spec) -> bytes:
        if isinstance(spec, list):
            return tuple_of(*(self.shaped(one) for one in spec))
        kind, dims = spec
        order = list(range(len(dims) - 1, -1, -1))
        if self.random.random() < 0.2:
            self.random.shuffle(order)
        space = self.random.choice((0, 0, 0, 0, 1, 5)) if self.tiled else 0
        bits = 4 if kind == "s4" else 0
        return shape(kind, *dims, order=order, space=space, bits=bits, tiles=self.tiles(kind, len(dims)))

    def tiles(self, kind: str, rank: int) -> list[list[int]]:
        if not self.tiled or not rank:
            return []
        if rank == 1:
            return [[self.random.choice((128, 256, 1024))]]
        first = [self.random.choice((2, 4, 8, 16)), 128]
        return [first, [2, 1]] if kind in ("bf16", "f16") else [first]

    def described(self) -> tuple[str, bytes]:
        """An op_name, and further metadata."""
        draw = self.random
        name = ""
        if draw.random() < 0.85:
            scopes = [draw.choice(SCOPES) for _ in range(draw.randrange(4))]
            name = "/".join(["jit(f)", "jit(main)", *scopes, draw.choice(PRIMITIVES)])
        more = b""
        if draw.random() < 0.6:
            more += len_field(3, draw.choice(("model.py", "/a/very long/train.py", ""))) + int_field(
                4, draw.randrange(200)
            )
        if draw.random() < 0.5:
            more += int_field(15, draw.randrange(FRAMES + 1))
        if draw.random() < 0.2:
            more += len_field(12, f"same{draw.randrange(3)}")
        return name, more

    def add(
        self, opcode: str, spec: Spec, operands: Sequence[Value] = (), *, raw: bytes = b"", **rest: object
    ) -> Value:
        made = self.made
        name = f"{opcode}.{made.program.next_id + len(made.values)}"
        op_name, metadata = self.described()
        self.ops.append(
            Op(name, opcode, self.shaped(spec), [one.name for one in operands], op_name=op_name, metadata=metadata,
               raw=raw, **rest)  # type: ignore[arg-type]
        )  # fmt: skip
        value = Value(name, spec)
        self.values.append(value)
        made.values.append(value)
        if self.fused:
            made.fused.add(name)
        return value

    def arrays(
        self, kinds: Sequence[str] = FLOATS, rank: int | None = None
    ) -> list[tuple[Value, str, tuple[int, ...]]]:
        return [
            (value, value.spec[0], value.spec[1])
            for value in self.values
            if not isinstance(value.spec, list) and value.spec[0] in kinds and rank in (None, len(value.spec[1]))
        ]

    def any_array(self) -> tuple[Value, str, tuple[int, ...]]:
        found = self.arrays()
        if not found:
            value = self.constant("f32")
            return value, "f32", ()
        return self.random.choice(found[-8:] if self.random.random() < 0.8 else found)

    def constant(self, kind: str) -> Value:
        number = self.random.randrange(-3, 9)
        literals = {"f32": len_field(8, struct.pack("<f", number)), "s32": packed(4, [number])}
        literal = literals.get(kind, len_field(13, struct.pack("<f", number)[2:]))
        written = len_field(1, shape(kind)) + literal
        return self.add("constant", (kind, ()), raw=len_field(8, written))

    def combiner(self, opcode: str, kind: str) -> int:
        """A computation of two scalars."""
        other = Writer(self.random, self.made, self.fused, 0, False)
        a, b = other.add("parameter", (kind, ())), other.add("parameter", (kind, ()))
        other.add(opcode, (kind, ()), [a, b])
        return self.made.program.computation(f"region_{self.made.program.next_id}", *other.ops)

    # ---- one method an instruction

    def unary(self) -> None:
        value, kind, dims = self.any_array()
        opcode = self.random.choice(UNARY)
        self.add(opcode, (kind, dims), [value])

    def binary(self) -> None:
        value, kind, dims = self.any_array()
        alike = [one for one, k, d in self.arrays((kind,)) if d == dims]
        self.add(self.random.choice(BINARY), (kind, dims), [value, self.random.choice(alike)])

    def convert(self) -> None:
        value, _, dims = self.any_array()
        self.add("convert", (self.random.choice((*FLOATS, "s32", "pred")), dims), [value])

    def select(self) -> None:
        value, kind, dims = self.any_array()
        direction = len_field(63, self.random.choice(DIRECTIONS)) + len_field(72, "FLOAT")
        chosen = self.add("compare", ("pred", dims), [value, value], raw=direction)
        self.add("select", (kind, dims), [chosen, value, value])

    def broadcast(self) -> None:
        value, kind, dims = self.any_array()
        if len(dims) > 3 or math.prod(dims) > 1 << 20:
            return
        wider, kept = list(dims), list(range(len(dims)))
        for _ in range(self.random.choice((1, 1, 2))):
            at = self.random.randrange(len(wider) + 1)
            wider.insert(at, self.random.choice((1, 2, 3, 5, 8, 16, 33, 128, 130)))
            kept = [k + (k >= at) for k in kept]
        self.add("broadcast", (kind, tuple(wider)), [value], raw=packed(14, kept))

    def transpose(self) -> None:
        value, kind, dims = self.any_array()
        order = list(range(len(dims)))
        self.random.shuffle(order)
        self.add("transpose", (kind, tuple(dims[k] for k in order)), [value], raw=packed(14, order))

    def reshape(self) -> None:
        value, kind, dims = self.any_array()
        self.add(self.random.choice(("reshape", "bitcast")), (kind, (math.prod(dims),)), [value])

    def cut(self) -> None:
        value, kind, dims = self.any_array()
        limits = [self.random.randrange(1, size + 1) for size in dims]
        slices = b"".join(len_field(17, int_field(2, limit) + int_field(3, 1)) for limit in limits)
        self.add("slice", (kind, tuple(limits)), [value], raw=slices)

    def join(self) -> None:
        value, kind, dims = self.any_array()
        if not dims:
            return
        at = self.random.randrange(len(dims))
        joined = (*dims[:at], dims[at] * 3, *dims[at + 1 :])
        self.add("concatenate", (kind, joined), [value, value, value], raw=packed(14, [at]))

    def iota(self) -> None:
        dims = tuple(self.random.choice((3, 7, 16, 128)) for _ in range(self.random.randrange(1, 3)))
        self.add("iota", ("s32", dims), raw=packed(14, [len(dims) - 1]))

    def pad(self) -> None:
        value, kind, dims = self.any_array()
        if kind != "f32" or not dims:
            return
        low = [self.random.randrange(3) for _ in dims]
        config = b"".join(len_field(1, int_field(1, one) + int_field(2, 1)) for one in low)
        padded = tuple(size + one + 1 for size, one in zip(dims, low, strict=True))
        self.add("pad", (kind, padded), [value, self.constant("f32")], raw=len_field(21, config))

    def dynamic(self) -> None:
        value, kind, dims = self.any_array()
        if not dims or math.prod(dims) > 1 << 20:
            return
        starts = [self.constant("s32") for _ in dims]
        small = tuple(max(1, size // 2) for size in dims)
        part = self.add("dynamic-slice", (kind, small), [value, *starts], raw=packed(20, small))
        if self.random.random() < 0.6:
            self.add("dynamic-update-slice", (kind, dims), [value, part, *starts])

    def dot(self) -> None:
        found = self.arrays(rank=2)
        if not found:
            return
        value, kind, (rows, inner) = self.random.choice(found)
        if rows * inner > 1 << 20:
            return
        columns = self.random.choice((1, 4, 9, 64))
        other = self.add("broadcast", (kind, (inner, columns)), [self.scalar(kind)], raw=b"")
        numbers = len_field(30, packed(1, [1]) + packed(2, [0]))
        self.add("dot", (kind, (rows, columns)), [value, other], raw=numbers)

    def scalar(self, kind: str) -> Value:
        value = self.constant("f32")
        return value if kind == "f32" else self.add("convert", (kind, ()), [value])

    def convolution(self) -> None:
        batch, size, window, inputs, outputs = 2, 8, self.random.choice((1, 3)), 4, self.random.choice((4, 8))
        image = self.add("broadcast", ("f32", (batch, size, size, inputs)), [self.constant("f32")])
        kernel = self.add("broadcast", ("f32", (window, window, inputs, outputs)), [self.constant("f32")])
        edge = window // 2
        one = int_field(1, window) + int_field(2, 1) + int_field(3, edge) + int_field(4, edge) + int_field(5, 1)
        one += int_field(6, self.random.choice((1, 1, 1)))
        numbers = int_field(3, 2) + int_field(4, 3) + packed(6, [0, 1]) + int_field(8, 3) + packed(11, [1, 2])
        numbers += int_field(10, 3) + packed(12, [1, 2])
        raw = len_field(15, len_field(1, one) * 2) + len_field(16, numbers) + int_field(50, 1) + int_field(58, 1)
        self.add("convolution", ("f32", (batch, size, size, outputs)), [image, kernel], raw=raw)

    def reduce(self) -> None:
        value, kind, dims = self.any_array()
        if kind != "f32" or not dims:
            return
        gone = self.random.sample(range(len(dims)), self.random.randrange(1, len(dims) + 1))
        kept = tuple(size for k, size in enumerate(dims) if k not in gone)
        to = self.combiner(self.random.choice(("add", "maximum", "multiply")), "f32")
        start = self.constant("f32")
        self.add("reduce", (kind, kept), [value, start], calls=[to], raw=packed(14, sorted(gone)))

    def fusion(self) -> None:
        if self.depth <= 0:
            return self.unary()
        taken = [self.any_array()[0] for _ in range(self.random.randrange(1, 4))]
        inner = Writer(self.random, self.made, True, self.depth - 1, self.tiled)
        for value in taken:
            inner.add("parameter", value.spec)
        inner.fill(self.random.randrange(1, 9), IN_FUSIONS)
        if self.random.random() < 0.2:
            inner.add("tuple", [one.spec for one in inner.values[-2:]], inner.values[-2:])
        called = self.made.program.computation(f"fused_computation.{self.made.program.next_id}", *inner.ops, fused=True)
        kind = self.random.choice(FUSION_KINDS)
        whole = self.add("fusion", inner.values[-1].spec, taken, calls=[called], fusion_kind=kind)
        self.take_apart(whole)
        return None

    def take_apart(self, whole: Value) -> None:
        if isinstance(whole.spec, list):
            for k, spec in enumerate(whole.spec):
                self.add("get-tuple-element", spec, [whole], tuple_index=k)

    def loop(self) -> None:
        if self.fused or self.depth <= 0:
            return
        value, kind, dims = self.any_array()
        state = self.add("tuple", [(kind, dims), ("s32", ())], [value, self.constant("s32")])
        body = Writer(self.random, self.made, False, self.depth - 1, self.tiled)
        whole = body.add("parameter", state.spec)
        body.take_apart(whole)
        first, counter = body.values[-2:]
        body.fill(self.random.randrange(2, 8), OUTSIDE)
        body.add("tuple", state.spec, [first, counter])
        body_id = self.made.program.computation(f"body.{self.made.program.next_id}", *body.ops)
        test = Writer(self.random, self.made, False, 0, self.tiled)
        test.take_apart(test.add("parameter", state.spec))
        number = test.values[-1]
        test.add(
            "compare", ("pred", ()), [number, test.constant("s32")], raw=len_field(63, "LT") + len_field(72, "SIGNED")
        )
        test_id = self.made.program.computation(f"cond.{self.made.program.next_id}", *test.ops)
        looped = self.add("while", state.spec, [state], calls=[body_id, test_id])
        self.made.bodies[looped.name] = body.ops
        self.take_apart(looped)

    def collective(self) -> None:
        value, kind, dims = self.any_array()
        if self.fused or not dims:
            return
        groups = (
            len_field(49, packed(1, [0, 1]))
            + len_field(49, packed(1, [2, 3]))
            + int_field(26, self.random.randrange(1, 9))
        )
        if self.random.random() < 0.5:
            to = self.combiner("add", kind)
            self.add("all-reduce", (kind, dims), [value], calls=[to], raw=groups)
        else:
            gathered = (dims[0] * 2, *dims[1:])
            self.add("all-gather", (kind, gathered), [value], raw=groups + packed(14, [0]) + int_field(71, 1))

    def copied(self) -> None:
        if self.fused:
            return
        value, kind, dims = self.any_array()
        started = self.add("copy-start", [(kind, dims), (kind, dims), ("u32", ())], [value])
        self.add("copy-done", (kind, dims), [started])

    def custom(self) -> None:
        if self.fused:
            return
        value, kind, dims = self.any_array()
        self.add("custom-call", (kind, dims), [value], target=self.random.choice(("tpu_custom_call", "Sharding")))

    def sort(self) -> None:
        value, kind, dims = self.any_array()
        if self.fused or not dims or kind != "f32":
            return
        other = Writer(self.random, self.made, False, 0, False)
        a, b = other.add("parameter", ("f32", ())), other.add("parameter", ("f32", ()))
        other.add("compare", ("pred", ()), [a, b], raw=len_field(63, "LT") + len_field(72, "TOTALORDER"))
        to = self.made.program.computation(f"compare.{self.made.program.next_id}", *other.ops)
        self.add("sort", (kind, dims), [value], calls=[to], raw=packed(14, [len(dims) - 1]) + int_field(60, 1))

    def clamp(self) -> None:
        value, kind, dims = self.any_array()
        self.add("clamp", (kind, dims), [value, value, value])

    def fill(self, count: int, choices: Sequence[Callable[[Writer], None]]) -> None:
        wanted = len(self.ops) + count
        for _ in range(count * 4):
            if len(self.ops) >= wanted:
                return
            self.random.choice(choices)(self)


IN_FUSIONS = (
    *[Writer.unary] * 3, *[Writer.binary] * 4, Writer.convert, Writer.select, *[Writer.broadcast] * 2, Writer.transpose,
    Writer.reshape, Writer.cut, Writer.join, Writer.iota, Writer.pad, Writer.dynamic, Writer.dot, Writer.convolution,
    *[Writer.reduce] * 2, Writer.fusion, Writer.clamp,
)  # fmt: skip
OUTSIDE = (
    *IN_FUSIONS, *[Writer.fusion] * 8, *[Writer.loop] * 2, Writer.collective, Writer.copied, Writer.custom, Writer.sort
)  # fmt: skip


def random_program(random: Random, name: str, size: int = 30, *, tiled: bool = True) -> Made:
    """A program of about ``size`` instructions in its entry; ``tiled``: layouts as of a TPU."""
    made = Made(Program(name, stack_frames=stack_frames()))
    entry = Writer(random, made, False, 2, tiled)
    for _ in range(random.randrange(1, 4)):
        dims = tuple(random.choice((1, 2, 4, 7, 16, 65, 128)) for _ in range(random.randrange(4)))
        entry.add("parameter", (random.choice(("f32", "f32", "bf16", "f16")), dims))
    entry.fill(size, OUTSIDE)
    last = entry.values[-2:]
    entry.add("tuple", [value.spec for value in last], last)
    made.program.entry(*entry.ops)
    made.entry = entry.ops
    return made
