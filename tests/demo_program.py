"""The program that the made TPU training of demo/ runs: a step of a small transformer, as XLA might compile it.

Every instruction says what it costs and which buffer it fills. Figures are made up, shapes and names are not: matrix
products are convolutions in output fusions, weights are fetched ahead into VMEM, gradients are reduced over chips while
the layer before them is still at work, and heads are half as wide as a tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hlo_builder import Op, Program, packed, shape, tuple_of
from trace_builder import int_field, len_field

TOKENS, WIDTH, HEADS, HIDDEN, CLASSES, LAYERS = 4096, 1024, 16, 4096, 32_001, 4
HBM, VMEM = 0, 1
FILE = "/train/model.py"
LINES = {"attn": 41, "mlp": 58, "norm": 33, "head": 74, "loss": 80, "adam": 112, "psum": 105, "embed": 27}
BF16_TILES, F32_TILES = ((8, 128), (2, 1)), ((8, 128),)

Dims = tuple[int, ...]


def array(*dims: int, kind: str = "bf16", space: int = HBM) -> bytes:
    if len(dims) < 2:
        return shape(kind, *dims, space=space, tiles=((1024,) if dims else (128,),))
    return shape(kind, *dims, space=space, tiles=BF16_TILES if kind == "bf16" else F32_TILES)


def size(*dims: int, kind: str = "bf16") -> int:
    """Bytes in whole tiles."""
    width = 2 if kind == "bf16" else 4
    if len(dims) < 2:
        return -(-math.prod(dims) // 1024) * 1024 * width
    return math.prod(dims[:-2]) * -(-dims[-2] // 8) * 8 * -(-dims[-1] // 128) * 128 * width


@dataclass(frozen=True)
class Value:
    name: str
    dims: Dims
    kind: str = "bf16"
    space: int = HBM

    @property
    def bytes(self) -> int:
        return size(*self.dims, kind=self.kind)


@dataclass(frozen=True)
class Run:
    """What an instruction does when it runs. ``starts``: the instruction that it is the end of, which runs beside
    others until then."""

    op: Op
    category: str
    flops: int
    reads: Sequence[Value]
    writes: Value | None
    line: str
    starts: str = ""


@dataclass
class Training:
    program: Program
    ops: list[Op] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    parameters: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


def stack_frames() -> bytes:
    """``train`` calls ``step`` calls the function of each part."""
    parts = list(LINES.items())
    names = [len_field(1, FILE), len_field(1, "/train/train.py"), len_field(2, "train"), len_field(2, "step")]
    names += [len_field(2, name) for name, _ in parts]
    places = [(2, 1, 20), (2, 2, 12), *((1, k + 3, line) for k, (_, line) in enumerate(parts))]
    located = [
        len_field(3, int_field(1, file) + int_field(2, function) + int_field(3, line) + int_field(4, 5))
        for file, function, line in places
    ]
    parents = [0, 1, *[2] * len(parts)]
    frames = [len_field(4, int_field(1, k + 1) + int_field(2, parent)) for k, parent in enumerate(parents)]
    return b"".join(names + located + frames)


class Compiler:
    """Writes the entry computation, an instruction after the other."""

    def __init__(self) -> None:
        self.made = Training(Program("jit_train_step", stack_frames=stack_frames()))
        self.count = 0

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}.{self.count}"

    def metadata(self, line: str) -> bytes:
        frame = 3 + list(LINES).index(line)
        return len_field(3, FILE) + int_field(4, LINES[line]) + int_field(15, frame)

    def parameter(self, what: str, *dims: int, kind: str = "bf16") -> Value:
        value = Value(f"param_{what}", dims, kind)
        keys = "".join(f"['{key}']" for key in what.split("."))
        op = Op(value.name, "parameter", array(*dims, kind=kind), op_name=f"params{keys}")
        self.made.ops.append(op)
        self.made.parameters.append(value)
        return value

    def emit(
        self, op: Op, category: str, flops: int, reads: Sequence[Value], writes: Value, line: str, starts: str = ""
    ) -> Value:
        self.made.ops.append(op)
        self.made.runs.append(Run(op, category, flops, reads, writes, line, starts))
        return writes

    def fusion(
        self,
        what: str,
        scope: str,
        line: str,
        dims: Dims,
        reads: Sequence[Value],
        inner: Sequence[str],
        kind: str = "bf16",
    ) -> Value:
        """A loop fusion of elementwise instructions."""
        value = Value(self.name(what), dims, kind)
        parts = [
            Op(f"{what}_p{k}.{self.count}", "parameter", array(*one.dims, kind=one.kind)) for k, one in enumerate(reads)
        ]
        first = parts[0].name
        source = self.metadata(line)
        for opcode in inner:
            ends = [first, parts[-1].name] if opcode in ("add", "multiply", "subtract") else [first]
            parts.append(
                Op(
                    self.name(opcode),
                    opcode,
                    array(*dims, kind=kind),
                    ends,
                    op_name=f"{scope}/{opcode}",
                    metadata=source,
                )
            )
            first = parts[-1].name
        body = self.made.program.computation(f"fused_computation.{self.count}", *parts, fused=True)
        op = Op(value.name, "fusion", array(*dims, kind=kind), [one.name for one in reads], [body], "kLoop",
                op_name=f"{scope}/{inner[-1]}", metadata=source)  # fmt: skip
        return self.emit(op, "loop fusion", len(inner) * math.prod(dims), reads, value, line)

    def product(self, scope: str, line: str, left: Value, right: Value, *, after: str = "", dims: Dims = ()) -> Value:
        """A matrix product, with an elementwise instruction fused to its output."""
        dims = dims or (left.dims[0], right.dims[1])
        value = Value(self.name("convolution_fusion" if not after else f"convolution_{after}_fusion"), dims)
        n, source = self.count, self.metadata(line)
        parts = [Op(f"lhs.{n}", "parameter", array(*left.dims)), Op(f"rhs.{n}", "parameter", array(*right.dims))]
        numbers = int_field(4, 1) + int_field(8, 1) + int_field(10, 1)
        raw = len_field(15, b"") + len_field(16, numbers) + int_field(50, 1) + int_field(58, 1)
        parts.append(Op(self.name("convolution"), "convolution", array(*dims), [parts[0].name, parts[1].name],
                        op_name=f"{scope}/dot_general", metadata=source, raw=raw))  # fmt: skip
        if after:
            ends = [parts[-1].name] * (2 if after == "multiply" else 1)
            label = f"{scope}/{after}"
            parts.append(Op(self.name(after), after, array(*dims), ends, op_name=label, metadata=source))
        body = self.made.program.computation(f"fused_computation.{n}", *parts, fused=True)
        op = Op(value.name, "fusion", array(*dims), [left.name, right.name], [body], "kOutput",
                op_name=f"{scope}/dot_general", metadata=source)  # fmt: skip
        flops = 2 * math.prod(dims) * left.dims[-1]
        return self.emit(op, "convolution fusion", flops, [left, right], value, line)

    def ahead(self, weight: Value) -> Value:
        """Fetches a weight into VMEM while others are at work; ``arrived`` waits for it."""
        n = self.name("copy-start")
        near, far, flag = array(*weight.dims, space=VMEM), array(*weight.dims), shape("u32", space=2)
        value = Value(n, weight.dims, space=VMEM)
        return self.emit(
            Op(n, "copy-start", tuple_of(near, far, flag), [weight.name]), "copy-start", 0, [weight], value, "mlp"
        )

    def arrived(self, started: Value) -> Value:
        value = Value(self.name("copy-done"), started.dims, space=VMEM)
        op = Op(value.name, "copy-done", array(*started.dims, space=VMEM), [started.name])
        return self.emit(op, "copy-done", 0, [], value, "mlp", started.name)

    def reduced(self, gradient: Value, *, wait: bool) -> Value:
        """The sum over chips; not to wait: it is begun, ``summed`` waits for it."""
        groups = len_field(49, packed(1, [0, 1])) + int_field(26, 1) + int_field(71, 1)
        opcode = "all-reduce" if wait else "all-reduce-start"
        value = Value(self.name(opcode), gradient.dims)
        scope = "jit(train_step)/jit(main)/psum"
        op = Op(value.name, opcode, array(*gradient.dims), [gradient.name], [1], op_name=scope,
                metadata=self.metadata("psum"), raw=groups)  # fmt: skip
        return self.emit(op, opcode, math.prod(gradient.dims), [gradient], value, "psum")

    def summed(self, started: Value) -> Value:
        value = Value(self.name("all-reduce-done"), started.dims)
        op = Op(value.name, "all-reduce-done", array(*started.dims), [started.name])
        return self.emit(op, "all-reduce-done", 0, [], value, "psum", started.name)


def training() -> Training:
    """One step: forward, backward, the sum of gradients over chips, and Adam."""
    code = Compiler()
    scalar = shape("bf16")
    ends = [Op("sum_a", "parameter", scalar), Op("sum_b", "parameter", scalar)]
    code.made.program.computation("add", *ends, Op("sum", "add", scalar, ["sum_a", "sum_b"]))
    x = code.parameter("tokens", TOKENS, WIDTH)
    weights = {
        f"layer_{k}.{name}": code.parameter(f"layer_{k}.{name}", *dims)
        for k in range(LAYERS)
        for name, dims in (("qkv", (WIDTH, 3 * WIDTH)), ("up", (WIDTH, HIDDEN)), ("down", (HIDDEN, WIDTH)))
    }
    head = code.parameter("head", WIDTH, CLASSES)
    moments = {name: code.parameter(f"{name}.m", *one.dims, kind="f32") for name, one in weights.items()}
    kept: list[dict[str, Value]] = []
    for k in range(LAYERS):
        x, layer = _forward(code, k, x, weights)
        kept.append(layer)
    gradient = _head(code, x, head)
    sums: dict[str, Value] = {}
    for k in reversed(range(LAYERS)):
        gradient = _backward(code, k, gradient, kept[k], weights, sums)
    for name, weight in weights.items():
        ready = sums[name] if sums[name].name.startswith("all-reduce.") else code.summed(sums[name])
        scope = f"jit(train_step)/jit(main)/adam/{name.replace('.', '/')}"
        new = code.fusion(
            "adam_fusion", scope, "adam", weight.dims, [weight, ready, moments[name]], ("multiply", "sqrt", "add")
        )
        code.made.results.append(new)
    results = code.made.results
    code.made.ops.append(
        Op("tuple", "tuple", tuple_of(*(array(*one.dims) for one in results)), [one.name for one in results])
    )
    code.made.program.entry(*code.made.ops)
    return code.made


def _forward(code: Compiler, k: int, x: Value, weights: dict[str, Value]) -> tuple[Value, dict[str, Value]]:
    scope = f"jit(train_step)/jit(main)/jvp(Model)/layer_{k}"
    fetched = code.ahead(weights[f"layer_{k}.up"])
    normed = code.fusion("norm_fusion", f"{scope}/norm", "norm", x.dims, [x], ("multiply", "rsqrt", "multiply"))
    qkv = code.product(f"{scope}/attn", "attn", normed, weights[f"layer_{k}.qkv"])
    split = (HEADS, TOKENS, WIDTH // HEADS)
    heads = code.fusion("heads_fusion", f"{scope}/attn", "attn", split, [normed], ("reshape",))
    scores = code.product(f"{scope}/attn", "attn", qkv, heads, after="exponential", dims=(TOKENS, TOKENS))
    soft = code.fusion("softmax_fusion", f"{scope}/attn", "attn", scores.dims, [scores], ("exponential", "multiply"))
    mixed = code.product(f"{scope}/attn", "attn", soft, normed)
    near = code.arrived(fetched)
    up = code.product(f"{scope}/mlp", "mlp", mixed, near, after="tanh")
    down = code.product(f"{scope}/mlp", "mlp", up, weights[f"layer_{k}.down"])
    out = code.fusion("residual_fusion", f"{scope}/mlp", "mlp", x.dims, [x, down], ("add",))
    return out, {"in": x, "normed": normed, "soft": soft, "mixed": mixed, "up": up}


def _head(code: Compiler, x: Value, head: Value) -> Value:
    scope = "jit(train_step)/jit(main)/jvp(Model)/head"
    logits = code.product(scope, "head", x, head)
    loss = code.fusion(
        "loss_fusion", "jit(train_step)/jit(main)/loss", "loss", logits.dims, [logits], ("exponential", "log")
    )
    back = "jit(train_step)/jit(main)/transpose(jvp(Model))/head"
    return code.product(back, "head", loss, head, dims=(TOKENS, WIDTH))


def _backward(
    code: Compiler, k: int, gradient: Value, kept: dict[str, Value], weights: dict[str, Value], sums: dict[str, Value]
) -> Value:
    scope = f"jit(train_step)/jit(main)/transpose(jvp(Model))/layer_{k}"
    of_down = code.product(f"{scope}/mlp", "mlp", kept["up"], gradient, dims=(HIDDEN, WIDTH))
    sums[f"layer_{k}.down"] = code.reduced(of_down, wait=False)
    into_up = code.product(
        f"{scope}/mlp", "mlp", gradient, weights[f"layer_{k}.down"], after="multiply", dims=(TOKENS, HIDDEN)
    )
    of_up = code.product(f"{scope}/mlp", "mlp", kept["mixed"], into_up, dims=(WIDTH, HIDDEN))
    sums[f"layer_{k}.up"] = code.reduced(of_up, wait=False)
    into_mixed = code.product(f"{scope}/mlp", "mlp", into_up, weights[f"layer_{k}.up"], dims=(TOKENS, WIDTH))
    into_soft = code.fusion(
        "softmax_grad_fusion", f"{scope}/attn", "attn", kept["soft"].dims, [kept["soft"], into_mixed], ("multiply",)
    )
    of_qkv = code.product(f"{scope}/attn", "attn", kept["normed"], into_soft, dims=(WIDTH, 3 * WIDTH))
    sums[f"layer_{k}.qkv"] = code.reduced(of_qkv, wait=True)
    return code.product(f"{scope}/attn", "attn", into_soft, kept["normed"])


# ---- memory


def buffers(made: Training) -> bytes:
    """The BufferAssignmentProto: parameters and results in allocations of their own, all else where it first fits,
    from the instruction that makes it to the last that reads it, in HBM and in VMEM."""
    ids = made.program.ids
    values = [*made.parameters, *(run.writes for run in made.runs if run.writes and not run.starts)]
    number = {one.name: k + 1 for k, one in enumerate(values)}
    written = []
    for one in values:
        where = len_field(2, one.name) + packed(3, [0] if one.space else []) + int_field(4, ids[one.name])
        color = int_field(4, one.space) if one.space else b""
        written.append(
            len_field(1, int_field(1, number[one.name]) + int_field(2, one.bytes) + len_field(3, where) + color)
        )
    results = {one.name for one in made.results}
    index = 0
    for place, one in enumerate(values[: len(made.parameters)] + made.results):
        flags = int_field(5, 1) + int_field(6, place) if place < len(made.parameters) else int_field(7, 1)
        written.append(len_field(3, _allocation(index, one.bytes, HBM, [(number[one.name], 0, one.bytes)]) + flags))
        index += 1
    for space in (HBM, VMEM):
        temporary = {
            one.name for one in values[len(made.parameters) :] if one.space == space and one.name not in results
        }
        placed, events = _placed(made, temporary, number)
        written.append(len_field(3, _allocation(index, max(at + n for _, at, n in placed), space, placed)))
        written.append(len_field(4, b"".join(events) + int_field(2, 1)))
        index += 1
    return b"".join(written)


def _allocation(index: int, total: int, space: int, held: Sequence[tuple[int, int, int]]) -> bytes:
    written = int_field(1, index) + int_field(2, total) + (int_field(8, space) if space else b"")
    return written + b"".join(len_field(9, int_field(1, k) + int_field(2, at) + int_field(3, n)) for k, at, n in held)


def _placed(
    made: Training, temporary: set[str], number: dict[str, int]
) -> tuple[list[tuple[int, int, int]], list[bytes]]:
    """(buffer, offset, size) of each, and the events of the heap."""
    started = {run.op.name: run.starts for run in made.runs if run.starts}
    last: dict[str, int] = {}
    for k, op in enumerate(made.ops):
        for operand in (op.name, *op.operands):
            last[started.get(operand, operand)] = k
    alive: dict[str, tuple[int, int]] = {}
    placed: list[tuple[int, int, int]] = []
    events: list[bytes] = []
    sizes = {run.writes.name: run.writes.bytes for run in made.runs if run.writes}
    for k, op in enumerate(made.ops):
        if op.name in temporary:
            at = _first_fit(sorted(alive.values()), sizes[op.name])
            alive[op.name] = at, sizes[op.name]
            placed.append((number[op.name], at, sizes[op.name]))
            events.append(len_field(1, int_field(2, number[op.name]) + len_field(3, "main") + len_field(4, op.name)))
        for name in [name for name in alive if last[name] <= k]:
            del alive[name]
            freed = int_field(1, 1) + int_field(2, number[name]) + len_field(3, "main") + len_field(4, op.name)
            events.append(len_field(1, freed))
    return placed, events


def _first_fit(taken: Sequence[tuple[int, int]], wanted: int) -> int:
    at = 0
    for start, length in taken:
        if start - at >= wanted:
            break
        at = max(at, start + length)
    return at
