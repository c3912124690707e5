"""Differences between two compiled programs of a function: arguments, else results, else constants, else instructions.

Optimised programs with different shapes differ everywhere. So results are compared only if all arguments are equal, and
so on. A program that XLA partitioned has the shapes of one device; arguments here have those of the whole array.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from fastprof.errors import CaptureError
from fastprof.hlo.module import HloModule
from fastprof.hlo.shapes import TYPE_NAMES, Shape
from fastprof.hlo.text.literal_text import format_literal
from fastprof.hlo.text.shape_text import format_sharding
from fastprof.inputs.message import Message
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

SHAPE, TYPE, LAYOUT, SHARDING, ARGUMENTS = "shape", "type", "layout", "sharding", "arguments"
RESULT, CONSTANT, INSTRUCTIONS, NOTHING = "result", "constant", "instructions", "nothing"
FUNCTION = "function"
"""Another function object of this name, by the count of its traces."""
_NO_NAMES: Final = ("", "XLA_Args")
_PARTITIONED: Final = "_spmd"
"""End of the name that XLA gives the entry of a partitioned program."""
_TILES: Final = compile_late(r"\{devices=\[([\d,]+)\]")
"""Number of devices that share each dimension, in the text of a sharding."""
_UNSHARDED: Final = "unsharded"
_LITERAL: Final = 8
_MOST_LETTERS: Final = 40
_MOST_BYTES: Final = 64
"""Most bytes of a literal that is formatted."""


@dataclass(frozen=True, slots=True)
class Change:
    """``kind``: one of the names above. ``argument``: the changed argument, or None for constants and instructions.
    ``before``, ``after``: its shape in each program, as XLA writes it; "" if the program lacks the argument."""

    kind: str
    argument: str | None = None
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a program. ``name``: as the framework records it, else by position, from 0."""

    name: str
    element_type: int
    dimensions: tuple[tuple[int, ...], ...]
    text: str
    layout: str
    sharding: str

    @property
    def is_scalar(self) -> bool:
        return self.dimensions == ((),)


def compare_programs(before: HloModule, after: HloModule) -> tuple[Change, ...]:
    """Return the differences, one change for each argument or constant. LookupError, ValueError, CaptureError: a
    program is damaged."""
    return (
        compare_arguments(list_arguments(before), list_arguments(after))
        or _compare_results(before, after)
        or _compare_constants(before, after)
        or (_compare_instructions(before, after),)
    )


def compare_arguments(before: Sequence[Argument], after: Sequence[Argument]) -> tuple[Change, ...]:
    """Return the differences of the arguments, paired by name if all names are distinct, else by position."""
    old, new = {each.name: each for each in before}, {each.name: each for each in after}
    if len(old) == len(before) and len(new) == len(after):
        pairs = [(old.get(name), new.get(name)) for name in old | new]
    else:
        pairs = [*zip_longest(before, after)]
    return tuple(change for pair in pairs if (change := _compare_argument(*pair)) is not None)


def list_arguments(module: HloModule) -> list[Argument]:
    """Return the arguments of a program, in order. LookupError, ValueError, CaptureError: the program is damaged."""
    rows = module.rows_of(module.entry)
    is_partitioned = module.text(int(module.computations["name"][module.entry])).endswith(_PARTITIONED)
    own = [module.instruction(row) for row in rows if module.opcodes[row] == "parameter"]
    arguments = []
    for instruction in sorted(own, key=lambda parameter: parameter.parameter_number):
        shape, name = instruction.shape, module.op_name(instruction.row)
        if name in _NO_NAMES:
            name = f"argument {instruction.parameter_number}"
        at, length = module.instructions[["sharding_offset", "sharding_length"]][instruction.row].item()
        sharding = format_sharding(module.data[at : at + length]) if length else ""
        tiles = _TILES.match(sharding) if is_partitioned else None
        shares = [int(number) for number in tiles[1].split(",")] if tiles else []
        leaves = [leaf for _, leaf in shape.leaves()]
        layout = " ".join(_format_numbers(leaf.minor_to_major, "{}") for leaf in leaves)
        sizes = tuple(_unite_shards(leaf.dimensions, shares) for leaf in leaves)
        arguments.append(Argument(name, shape.element_type, sizes, format_shape(shape, shares), layout, sharding))
    return arguments


def format_shape(shape: Shape, shares: Sequence[int] = ()) -> str:
    """Return a shape as XLA writes it, without layouts: ``f32[200,512]``. ``shares``: devices that share each
    dimension, if the shape is that of one of them."""
    texts = []
    for _, leaf in shape.leaves():
        known = 0 < leaf.element_type < len(TYPE_NAMES)
        sizes = _format_numbers(_unite_shards(leaf.dimensions, shares), "[]")
        texts.append((TYPE_NAMES[leaf.element_type].lower() if known else "?") + sizes)
    return f"({', '.join(texts)})" if shape.is_tuple else "".join(texts)


def _unite_shards(dimensions: tuple[int, ...], shares: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions of a whole array, by those of one shard."""
    return tuple(size * share for size, share in zip_longest(dimensions, shares[: len(dimensions)], fillvalue=1))


def _format_numbers(numbers: tuple[int, ...], brackets: str) -> str:
    return f"{brackets[0]}{','.join(map(str, numbers))}{brackets[1]}"


def _compare_argument(old: Argument | None, new: Argument | None) -> Change | None:
    if old is None or new is None:
        only = old or new
        name = None if only is None else only.name
        return Change(ARGUMENTS, name, "" if old is None else old.text, "" if new is None else new.text)
    if old.text != new.text:
        kind = SHAPE if old.dimensions != new.dimensions else TYPE
        return Change(kind, new.name, old.text, new.text)
    if old.sharding != new.sharding:
        before, after = (f"{each.text} {each.sharding or _UNSHARDED}" for each in (old, new))
        return Change(SHARDING, new.name, before, after)
    if old.layout != new.layout:
        return Change(LAYOUT, new.name, f"{old.text}{old.layout}", f"{new.text}{new.layout}")
    return None


def _compare_results(before: HloModule, after: HloModule) -> tuple[Change, ...]:
    """Return the first result whose shape or type differs, or ()."""
    roots = [module.root_of(module.entry) for module in (before, after)]
    old, new = ([format_shape(leaf) for _, leaf in root.shape.leaves()] for root in roots)
    for shapes in zip_longest(old, new, fillvalue=""):
        if shapes[0] != shapes[1]:
            return (Change(RESULT, None, *shapes),)
    return ()


def _compare_constants(before: HloModule, after: HloModule) -> tuple[Change, ...]:
    """Return the constants that differ, or () if the programs have different numbers of constants."""
    old, new = _list_constants(before), _list_constants(after)
    if len(old) != len(new):
        return ()
    differ = [(first, second) for first, second in zip(old, new, strict=True) if first != second]
    texts = dict.fromkeys((_format_constant(*first), _format_constant(*second)) for first, second in differ)
    return tuple(Change(CONSTANT, None, *pair) for pair in texts)


def _list_constants(module: HloModule) -> list[tuple[str, bytes]]:
    """Return shape and literal of all constants, in program order."""
    rows = [row for row, opcode in enumerate(module.opcodes) if opcode == "constant"]
    constants = map(module.instruction, rows)
    return [(format_shape(each.shape), bytes(each.fields().data(_LITERAL))) for each in constants]


def _format_constant(shape: str, literal: bytes) -> str:
    """Return the number of a scalar, else the shape."""
    if not shape.endswith("[]") or len(literal) > _MOST_BYTES:
        return shape
    try:
        text = "".join(format_literal(Message(memoryview(literal))))
    except (CaptureError, LookupError, ValueError):
        return shape
    return text[:_MOST_LETTERS]


def _compare_instructions(before: HloModule, after: HloModule) -> Change:
    """Return the numbers of instructions, or the first different ones if the numbers are equal."""
    old, new = _summarize(before), _summarize(after)
    if old == new:
        return Change(NOTHING)
    if len(old) != len(new):
        return Change(INSTRUCTIONS, None, f"{len(old):,} instructions", f"{len(new):,} instructions")
    first, second = next(pair for pair in zip(old, new, strict=True) if pair[0] != pair[1])
    return Change(INSTRUCTIONS, None, " ".join(first), " ".join(second))


def _summarize(module: HloModule) -> list[tuple[str, str]]:
    """Return opcode and shape of all instructions."""
    every = map(module.instruction, range(len(module)))
    return [(instruction.opcode, format_shape(instruction.shape)) for instruction in every]
