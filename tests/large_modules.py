"""Large programs, of shapes that make a careless reader recurse too deep or take the square of their size.

    LARGE["a chain"](100_000).proto()          about 100,000 instructions

``captured`` is a capture of such a program, in which a TPU core runs every instruction of its entry once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hlo_builder import Op, Program, f32, shape, tuple_of
from trace_builder import Metadata, event, int_field, len_field, line, plane, u64, xspace

WIDE = f32(8, 128)
US = 1_000_000
"""A microsecond in picoseconds."""


def layers(count: int) -> Program:
    """As a model is: per layer a fusion of eight instructions, what it reads, and a collective."""
    program = Program("jit_train", stack_frames=frames(8))
    tiled = shape("bf16", 128, 1000, tiles=((8, 128), (2, 1)))
    adds = program.computation(
        "add", Op("a", "parameter", f32()), Op("b", "parameter", f32()), Op("c", "add", f32(), "ab")
    )
    ops = [Op("x", "parameter", tiled)]
    for layer in range(max(count // 12, 1)):
        scope = f"jit(train)/jit(main)/Model/layer_{layer}"
        place = len_field(3, "/src/model.py") + int_field(4, layer % 500 + 1) + int_field(15, layer % 8 + 1)
        inner = [Op(f"p.{layer}", "parameter", tiled)]
        for k, opcode in enumerate(("negate", "exponential", "tanh", "abs", "sine", "copy", "sqrt", "logistic")):
            name = f"{opcode}.{layer}"
            inner.append(Op(name, opcode, tiled, [inner[-1].name], op_name=f"{scope}/mlp/{opcode}_{k}", metadata=place))
        body = program.computation(f"fused_computation.{layer}", *inner, fused=True)
        name = f"fusion.{layer}"
        ops.append(
            Op(name, "fusion", tiled, [ops[-1].name], [body], "kLoop", op_name=f"{scope}/mlp/add", metadata=place)
        )
        reduced = Op(
            f"all-reduce.{layer}", "all-reduce", tiled, [name], [adds], op_name=f"{scope}/psum", metadata=place
        )
        ops += [reduced, Op(f"convert.{layer}", "convert", tiled, [reduced.name], op_name=f"{scope}/convert")]
    program.entry(*ops)
    return program


def frames(count: int) -> bytes:
    """A StackFrameIndexProto in which each frame is called from the one before."""
    written = [len_field(1, "/src/train.py"), len_field(2, "train")]
    for k in range(count):
        written.append(len_field(3, int_field(1, 1) + int_field(2, 1) + int_field(3, k + 1) + int_field(4, 1)))
    written += [len_field(4, int_field(1, k + 1) + int_field(2, k)) for k in range(count)]
    return b"".join(written)


def chain(count: int) -> Program:
    """Each instruction has the one before as its operand."""
    program = Program("chain")
    links = (
        Op(f"e.{k}", "negate", WIDE, [f"e.{k - 1}" if k else "x"], op_name=f"jit(f)/neg_{k}") for k in range(count)
    )
    program.entry(Op("x", "parameter", WIDE), *links)
    return program


def nested_calls(count: int) -> Program:
    """Each computation calls the one before."""
    return _nested("calls", count, lambda k, inner: Op(f"call.{k}", "call", WIDE, [f"p.{k}"], [inner]))


def nested_fusions(count: int) -> Program:
    """A fusion in a fusion, and so on."""
    return _nested(
        "fusions", count, lambda k, inner: Op(f"fusion.{k}", "fusion", WIDE, [f"p.{k}"], [inner], "kLoop"), fused=True
    )


def nested_loops(count: int) -> Program:
    return _nested("loops", count, lambda k, inner: Op(f"while.{k}", "while", WIDE, [f"p.{k}"], [inner, inner]))


def _nested(name: str, count: int, call: Callable[[int, int], Op], *, fused: bool = False) -> Program:
    program = Program(name)
    leaf = Op("e", "exponential", WIDE, ["p"])
    inner = program.computation("innermost", Op("p", "parameter", WIDE), leaf, fused=fused)
    for k in range(max(count // 2 - 2, 1)):
        inner = program.computation(f"level.{k}", Op(f"p.{k}", "parameter", WIDE), call(k, inner), fused=fused)
    program.entry(Op("p.99999999", "parameter", WIDE), call(99_999_999, inner))
    return program


def wide_tuple(count: int) -> Program:
    """One tuple of very many elements; each is taken out again."""
    program = Program("wide")
    half = max(count // 2, 1)
    values = [Op(f"p.{k}", "parameter", WIDE) for k in range(half)]
    whole = Op("t", "tuple", tuple_of(*[WIDE] * half), [one.name for one in values])
    taken = [Op(f"g.{k}", "get-tuple-element", WIDE, ["t"], tuple_index=k) for k in range(half)]
    program.entry(*values, whole, *taken)
    return program


def deep_tuple(count: int) -> Program:
    """Tuples of tuples of tuples, as deep as protobuf reads messages."""
    program = Program("deep")
    deep = WIDE
    for _ in range(80):
        deep = tuple_of(deep)
    links = [Op(f"e.{k}", "optimization-barrier", deep, [f"e.{k - 1}" if k else "x"]) for k in range(count // 10)]
    program.entry(Op("x", "parameter", deep), *links)
    return program


def long_stacks(count: int) -> Program:
    """Every instruction comes from a place that few calls lead to, the last from one at the end of very many."""
    program = Program("stacks", stack_frames=frames(count))
    links = [
        Op(f"e.{k}", "negate", WIDE, [f"e.{k - 1}" if k else "x"], metadata=int_field(15, k % 20 + 1))
        for k in range(count)
    ]
    last = Op("last", "negate", WIDE, [links[-1].name], metadata=int_field(15, count))
    program.entry(Op("x", "parameter", WIDE), *links, last)
    return program


LARGE: dict[str, Callable[[int], Program]] = {
    "layers": layers,
    "a chain": chain,
    "nested calls": nested_calls,
    "nested fusions": nested_fusions,
    "nested loops": nested_loops,
    "a wide tuple": wide_tuple,
    "a deep tuple": deep_tuple,
    "long stacks": long_stacks,
}


def buffers(program: Program) -> bytes:
    """A BufferAssignmentProto: a buffer of 64 KiB for every instruction, alive until the next but two."""
    size = 65536
    names = list(program.ids)
    written = []
    for k, name in enumerate(names):
        where = len_field(2, name) + int_field(4, program.ids[name])
        written.append(len_field(1, int_field(1, k + 1) + int_field(2, size) + len_field(3, where)))
    held = (int_field(1, k + 1) + int_field(2, k % 3 * size) + int_field(3, size) for k in range(len(names)))
    written.append(len_field(3, int_field(2, 3 * size) + b"".join(len_field(9, one) for one in held)))
    events: list[bytes] = []
    for k, name in enumerate(names):
        if k >= 3:
            events.append(int_field(1, 1) + int_field(2, k - 2) + len_field(4, name))
        events.append(int_field(2, k + 1) + len_field(4, name))
    written.append(len_field(4, b"".join(len_field(1, one) for one in events) + int_field(2, 1)))
    return b"".join(written)


def captured(program: Program, names: Iterable[str]) -> bytes:
    """A capture: a core runs these instructions one after the other, a microsecond each."""
    proto = program.proto(buffers(program))
    metadata = [
        Metadata(
            f"%{name} = bf16[8,128]{{1,0:T(8,128)(2,1)}} fusion(bf16[8,128]{{1,0}} %x), kind=kLoop",
            number,
            display_name=name,
            stats={"program_id": u64(7), "symbol_id": u64(number), "hlo_category": "loop fusion",
                   "tf_op": f"jit(f)/Model/layer_{number % 1000}/mlp/add:", "flops": 1000, "bytes_accessed": 100},
        )
        for number, name in enumerate(names, 1)
    ]  # fmt: skip
    ran = [event(one.name, k * US, US) for k, one in enumerate(metadata)]
    core = plane("/device:TPU:0", [line("XLA Ops", ran, id=3)], id=2, event_metadata=metadata)
    held = Metadata(f"{program.name}(7)", 7, stats={"Hlo Proto": proto})
    return xspace(core, plane("/host:metadata", event_metadata=[held]), hostnames=["host0"])


def entry_names(program: Program) -> list[str]:
    """Names of the instructions that run: all but parameters."""
    return [name for name in program.ids if not name.startswith(("p", "x"))]
