"""Changes of compiled programs between two runs: fusions split and merged, layouts, padding, arithmetic.

Programs are paired by name and structure, by structure, by name and likeness, then by likeness. Their instructions are
paired by contents, so that a renamed or renumbered fusion is the same one:

    equal contents                        the same; a layout may have changed
    most contents in common, one to one   the fusion has other contents
    one to several                        split
    several to one                        merged
    several to several                    regrouped
    the rest                              new or gone
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final

from fastprof.derive.comparison.program_parts import FUSION, Atom, ProgramInstruction, RunProgram
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_measure, list_few, shorten_name

SPLIT, MERGED, REGROUPED, CONTENTS = "split", "merged", "regrouped", "contents"
LAYOUT, SHAPE, NEW, GONE = "layout", "shape", "new", "gone"
BY_NAME, BY_STRUCTURE = "name", "structure"
_LEAST_LIKE: Final = 0.5
"""Least share of instructions that programs of different names have in common."""
_LEAST_SHARED: Final = 0.5
"""Least share of the contents of the smaller of two instructions that the other one has, too."""
_MOST_CANDIDATES: Final = 32
_LONGEST: Final = 100
"""Most letters of a name or a shape in words."""
_CHEAP: Final = frozenset(("broadcast", "iota", "reshape", "convert", "bitcast-convert", "constant", "parameter"))
"""Opcodes that compilers copy into each fusion that needs the value."""

Instructions = tuple[ProgramInstruction, ...]
_View = Callable[[Atom], Hashable]
_VIEWS: Final[tuple[_View, ...]] = (
    lambda atom: atom,
    lambda atom: atom[:2],
    lambda atom: (atom[0], atom[2]) if atom[2] else atom,
)
"""Parts of an atom that are compared: all, then without the framework op (renamed), then without the shape (another
batch) if the framework op is known."""


@dataclass(frozen=True, slots=True)
class ProgramPair:
    """A program in both runs, or in one. ``matched``: BY_NAME, BY_STRUCTURE, or "" for one run."""

    base: RunProgram | None
    new: RunProgram | None
    matched: str

    @property
    def name(self) -> str:
        program = self.new or self.base
        return "" if program is None else program.name


@dataclass(frozen=True, slots=True)
class InstructionChange:
    """A change of instructions of a program. ``kind``: one of the names above."""

    program: ProgramPair
    kind: str
    base: Instructions
    new: Instructions

    @property
    def flops(self) -> tuple[int, int]:
        base, new = (sum(each.flops for each in side) for side in (self.base, self.new))
        return base, new

    @property
    def accessed_bytes(self) -> tuple[int, int]:
        base, new = (sum(each.accessed_bytes for each in side) for side in (self.base, self.new))
        return base, new

    @property
    def padding_bytes(self) -> tuple[int, int]:
        base, new = (sum(each.padding_bytes for each in side) for side in (self.base, self.new))
        return base, new


def pair_programs(base: Sequence[RunProgram], new: Sequence[RunProgram]) -> list[ProgramPair]:
    """Return the programs of two runs, each in one pair."""
    ranked = []
    for first, old in enumerate(base):
        for second, young in enumerate(new):
            shared = sum(min(count, young.signature.get(atom, 0)) for atom, count in old.signature.items())
            likeness = shared / max(sum(old.signature.values()), sum(young.signature.values()), 1)
            is_named = old.name == young.name
            if is_named or likeness >= _LEAST_LIKE:
                order = (likeness < 1, not is_named, -likeness, abs(first - second), first)
                ranked.append((order, old, young))
    pairs, taken = [], set[int]()
    for _, old, young in sorted(ranked, key=lambda entry: entry[0]):
        if id(old) not in taken and id(young) not in taken:
            taken |= {id(old), id(young)}
            pairs.append(ProgramPair(old, young, BY_NAME if old.name == young.name else BY_STRUCTURE))
    pairs += [ProgramPair(old, None, "") for old in base if id(old) not in taken]
    return pairs + [ProgramPair(None, young, "") for young in new if id(young) not in taken]


def list_instruction_changes(pair: ProgramPair) -> Iterator[InstructionChange]:
    """Yield the changes of a program that both runs have."""
    if pair.base is None or pair.new is None:
        return
    left, right = list(pair.base.instructions), list(pair.new.instructions)
    for view in _VIEWS:
        _, left, right = _pair_equal(left, right, view, has_layout=True)
        equal, left, right = _pair_equal(left, right, view, has_layout=False)
        for old, young in equal:
            if old.plain_shape != young.plain_shape:
                yield InstructionChange(pair, SHAPE, (old,), (young,))
            elif old.shape != young.shape:
                yield InstructionChange(pair, LAYOUT, (old,), (young,))
    for view in _VIEWS:
        groups, left, right = _group_overlapping(left, right, view)
        for some_old, some_young in groups:
            kind = (
                CONTENTS if len(some_old) == len(some_young) == 1 else SPLIT if len(some_old) == 1
                else MERGED if len(some_young) == 1 else REGROUPED
            )  # fmt: skip
            yield InstructionChange(pair, kind, some_old, some_young)
    yield from (InstructionChange(pair, GONE, (old,), ()) for old in left if old.opcode != "parameter")
    yield from (InstructionChange(pair, NEW, (), (young,)) for young in right if young.opcode != "parameter")


def _pair_equal(
    left: Sequence[ProgramInstruction], right: Sequence[ProgramInstruction], view: _View, *, has_layout: bool
) -> tuple[list[tuple[ProgramInstruction, ProgramInstruction]], list[ProgramInstruction], list[ProgramInstruction]]:
    """Return pairs of equal contents, and of equal layouts if ``has_layout``: equal names first and then in order; and
    the rest of both sides."""

    def key(instruction: ProgramInstruction) -> Hashable:
        shape = instruction.shape if has_layout else None
        return instruction.opcode, shape, tuple(map(view, instruction.contents))

    waiting: dict[Hashable, list[ProgramInstruction]] = defaultdict(list)
    for young in right:
        waiting[key(young)].append(young)
    pairs, rest, taken = [], [], set[int]()
    for old in left:
        candidates = waiting.get(key(old))
        if not candidates:
            rest.append(old)
            continue
        young = next((each for each in candidates[:_MOST_CANDIDATES] if each.name == old.name), candidates[0])
        candidates.remove(young)
        taken.add(id(young))
        pairs.append((old, young))
    return pairs, rest, [young for young in right if id(young) not in taken]


def _group_overlapping(
    left: Sequence[ProgramInstruction], right: Sequence[ProgramInstruction], view: _View
) -> tuple[list[tuple[Instructions, Instructions]], list[ProgramInstruction], list[ProgramInstruction]]:
    """Return groups that share most contents, and the rest of both sides. Each atom of a side is used once; of
    many candidates those nearest in the program count."""
    available = [_count_atoms(young, view) for young in right]
    sizes = [sum(atoms.values()) for atoms in available]
    holders: dict[Hashable, list[int]] = defaultdict(list)
    for number, atoms in enumerate(available):
        for atom in atoms:
            holders[atom].append(number)
    group_of: dict[int, int] = {}  # of new instructions
    members: dict[int, list[int]] = {}  # old ones by group
    order = sorted(range(len(left)), key=lambda at: -len(left[at].contents))
    for at in order:
        atoms = _count_atoms(left[at], view)
        size, linked = sum(atoms.values()), set[int]()
        overlaps, expected = Counter[int](), at * len(right) // len(left)
        for atom, count in atoms.items():
            middle = bisect(holders[atom], expected)
            for number in holders[atom][max(middle - _MOST_CANDIDATES, 0) : middle + _MOST_CANDIDATES]:
                overlaps[number] += min(count, available[number][atom])
        for number in sorted(overlaps, key=lambda number: (-overlaps[number], abs(number - expected))):
            shared = atoms & available[number]
            if shared and sum(shared.values()) >= _LEAST_SHARED * min(size, sizes[number]):
                atoms, available[number] = atoms - shared, available[number] - shared
                linked.add(number)
        groups = {group_of[number] for number in linked if number in group_of}
        target = min(groups, default=at)
        if linked:
            members.setdefault(target, []).append(at)
        for other in groups - {target}:
            members[target] += members.pop(other)
            group_of |= {number: target for number, group in group_of.items() if group == other}
        group_of |= dict.fromkeys(linked, target)
    young_of: dict[int, list[int]] = defaultdict(list)
    for number, group in sorted(group_of.items()):
        young_of[group].append(number)
    grouped = [
        (tuple(left[at] for at in sorted(some)), tuple(right[number] for number in young_of[group]))
        for group, some in members.items()
    ]
    taken = {at for some in members.values() for at in some}
    rest = [old for at, old in enumerate(left) if at not in taken]
    return grouped, rest, [young for number, young in enumerate(right) if number not in group_of]


def _count_atoms(instruction: ProgramInstruction, view: _View) -> Counter[Hashable]:
    """Return the atoms of an instruction, without those that any fusion may have if it has others."""
    costly = [atom for atom in instruction.contents if atom[0] not in _CHEAP]
    return Counter(map(view, costly or instruction.contents))


def name_instructions(instructions: Instructions) -> str:
    """Return the names of a few instructions, "" for none."""
    return list_few([shorten_name(each.name, _LONGEST) for each in instructions])


def describe_instruction_change(change: InstructionChange) -> str:
    """Describe a change in a sentence, such as ``fusion.12 split into 2 kernels; same flops``."""
    names = [name_instructions(side) for side in (change.base, change.new)]
    kind, counts = change.kind, (len(change.base), len(change.new))
    if kind in (LAYOUT, SHAPE):
        old, young = change.base[0], change.new[0]
        shapes = (old.shape, young.shape) if kind == LAYOUT else (old.plain_shape, young.plain_shape)
        text = f"{kind} of {names[1]} changed: " + " → ".join(shorten_name(shape, _LONGEST) for shape in shapes)
    elif kind in (NEW, GONE):
        text = f"{names[0] or names[1]} is {kind}"
    elif kind == SPLIT:
        text = f"{names[0]} split into {count_noun(counts[1], 'kernel', 'kernels')}: {names[1]}"
    elif kind == MERGED:
        text = f"{count_noun(counts[0], 'kernel', 'kernels')} merged into {names[1]}: {names[0]}"
    elif kind == REGROUPED:
        text = f"{count_noun(counts[0], 'kernel', 'kernels')} regrouped into {counts[1]:,}: {names[0]} → {names[1]}"
    else:
        text = f"{names[1]} has other contents than {names[0]}"
    if kind in (NEW, GONE):
        return text
    flops, new_flops = change.flops
    parts = [text, "same flops" if flops == new_flops else f"flops {flops:,} → {new_flops:,}"]
    for label, (size, new_size) in (("accesses", change.accessed_bytes), ("padding", change.padding_bytes)):
        if size != new_size:
            parts.append(f"{label} {format_measure(size, 'bytes')} → {format_measure(new_size, 'bytes')}")
    return "; ".join(parts)


def list_program_quantities(pair: ProgramPair) -> Iterator[tuple[str, str | None, int | None, int | None]]:
    """Yield name, unit and values of exact quantities of a program in both runs; None: the run lacks the program, or
    the value is unknown. Last come opcodes whose number changed."""
    sides = [_measure_program(program) for program in (pair.base, pair.new)]
    for name in dict.fromkeys(name for side in sides for name in side):
        base, new = (side.get(name) for side in sides)
        yield name, "bytes" if name.endswith("_bytes") else None, base, new
    if pair.base is None or pair.new is None:
        return
    first, second = (Counter(each.opcode for each in side.instructions) for side in (pair.base, pair.new))
    for opcode in sorted({*first, *second} - {FUSION}):
        if first[opcode] != second[opcode]:
            yield f"{opcode} instructions", None, first[opcode], second[opcode]


def _measure_program(program: RunProgram | None) -> dict[str, int | None]:
    if program is None:
        return {}
    return {
        "compilations": len(program.ids),
        "instructions": program.instruction_count,
        "fusions": sum(each.opcode == FUSION for each in program.instructions),
        "flops": sum(each.flops for each in program.instructions),
        "accessed_bytes": sum(each.accessed_bytes for each in program.instructions),
        "padding_bytes": sum(each.padding_bytes for each in program.instructions),
        "peak_bytes": program.peak_bytes,
    }
