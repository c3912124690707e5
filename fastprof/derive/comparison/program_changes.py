"""Changes of compiled programs between two runs: fusions split and merged, layouts, padding, arithmetic.

Programs are paired by name and structure, by structure, by name and likeness, then by likeness. Their instructions are
paired by contents, so that a renamed or renumbered fusion is the same one:

    equal contents                        the same; a layout may have changed
    most contents in common, one to one   the fusion has other contents
    one to several                        split
    several to one                        merged
    several to several                    regrouped
    the rest                              new or gone

Contents of an instruction survive renaming and renumbering. The work per step is compared by op shapes (another
batch), or by op arithmetic; all ops may also take longer by one factor.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Final

from fastprof.decode.import_log import ImportLog
from fastprof.derive.comparison.part_matching import OP, Pair, get_stem
from fastprof.errors import CaptureError
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.programs import Program
from fastprof.hlo.work import GENERAL
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import count_noun, format_measure, list_few, shorten_name

MOST_PROGRAMS: Final = 16
"""Programs of a run that are compared: those with most device time."""
_MOST_READ: Final = 64
"""Programs of a run that are decoded: recompilations mostly give equal ones."""
_LONGEST_PART: Final = 200
"""Most letters of the name of a program."""
FUSION: Final = "fusion"
_FREE: Final = frozenset(
    ("tuple", "get-tuple-element", "constant", "bitcast", "after-all", "partition-id", "replica-id")
)
"""Opcodes that take no time and say nothing about a program."""
_RUN_OTHERS: Final = frozenset(("while", "conditional", "call", "async-start"))
_MOST_CONTENTS, _DEEPEST = 4_096, 16
"""Most atoms of a fusion, and fusions in each other that are looked into."""

Atom = tuple[str, str, str]
"""Opcode, shape without layout, and framework op of an instruction."""


@dataclass(frozen=True, slots=True)
class ProgramInstruction:
    """An instruction that runs by itself: not part of a fusion. ``contents``: its own atom, or those of all fused
    instructions, sorted. ``shape``: with layout. ``flops``, ``accessed_bytes``: of one execution, 0 if unknown;
    ``padding_bytes``: of its result."""

    name: str
    opcode: str
    shape: str
    plain_shape: str
    op_name: str
    contents: tuple[Atom, ...]
    flops: int
    accessed_bytes: int
    padding_bytes: int


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A program, or several of one name and structure, such as after recompilations. ``name``: title without numbers;
    ``ids``: all program ids; ``instruction_count``: with fused instructions; ``peak_bytes``: of device memory, None if
    unknown; ``signature``: how often each opcode with its shape occurs."""

    title: str
    name: str
    ids: frozenset[int]
    instructions: tuple[ProgramInstruction, ...]
    instruction_count: int
    peak_bytes: int | None
    signature: Mapping[tuple[str, str], int]


def list_run_programs(
    programs: Sequence[Program], time_by_id: Mapping[int, float], peaks: Mapping[int, int | None]
) -> tuple[list[RunProgram], int]:
    """Return the programs that ran, longest device time first; all if none is known to have run; and the number of
    programs beyond the most that are compared. ``time_by_id``: device time; ``peaks``: peak of device memory. Programs
    that do not decode are left out."""
    listed = {(program.id, program.title): program for program in reversed(programs)}  # hosts mostly have the same ones
    ran = [program for program in reversed(listed.values()) if program.id in time_by_id] or [*reversed(listed.values())]
    distinct: dict[bytes, list[Program]] = {}
    for program in sorted(ran, key=lambda program: -time_by_id.get(program.id, 0)):
        distinct.setdefault(program.digest, []).append(program)
    grouped: dict[object, list[RunProgram]] = {}
    tried = 0
    for same in islice(distinct.values(), _MOST_READ):
        if len(grouped) == MOST_PROGRAMS:
            break
        tried += 1
        try:
            read = _read_program(same, peaks)
        except (LookupError, ValueError, CaptureError):
            continue
        grouped.setdefault((read.name, frozenset(read.signature.items())), []).append(read)
    every = [
        replace(versions[0], ids=frozenset(number for version in versions for number in version.ids))
        for versions in grouped.values()
    ]
    return every, len(distinct) - tried


def _read_program(same: Sequence[Program], peaks: Mapping[int, int | None]) -> RunProgram:
    program = same[0]
    module = program.read(ImportLog())
    instructions = tuple(_list_instructions(module))
    signature = Counter(atom[:2] for instruction in instructions for atom in instruction.contents)
    ids = frozenset(each.id for each in same)
    title = shorten_name(program.title, _LONGEST_PART)
    name = get_stem(shorten_name(module.name, _LONGEST_PART) or title)
    peak = next((peaks[number] for number in ids if peaks.get(number) is not None), None)
    return RunProgram(title, name, ids, instructions, len(module), peak, signature)


def _list_instructions(module: HloModule) -> Iterator[ProgramInstruction]:
    """Yield the instructions of the entry computation, and of the loops and branches that it runs."""
    costs, fused = CostModel(module, GENERAL), dict[int, tuple[Atom, ...]]()
    waiting, seen = [module.entry], set[int]()
    while waiting:
        computation = waiting.pop()
        if computation in seen or computation < 0:
            continue
        seen.add(computation)
        for row in module.rows_of(computation):
            opcode = module.opcodes[row]
            if opcode in _RUN_OTHERS:
                waiting.extend(module.calls_of(row))
            if opcode in _FREE or opcode in _RUN_OTHERS:
                continue
            calls = module.calls_of(row) if opcode == FUSION else []
            contents = _list_contents(module, calls[0], fused) if calls and calls[0] >= 0 else ()
            instruction, cost = module.instruction(row), costs.cost(row)
            plain, op_name = module.plain_shape_text(row), module.op_name(row)
            padded = instruction.shape.padded_bytes
            yield ProgramInstruction(
                module.names[row], opcode, module.shape_text(module.shape_rows[row]), plain, op_name,
                contents or ((opcode, plain, op_name),),
                cost.model_flops if cost.is_known else 0,
                cost.bytes_accessed if cost.is_known else 0,
                0 if padded is None else max(padded - instruction.shape.leaf_bytes, 0),
            )  # fmt: skip


def _list_contents(
    module: HloModule, computation: int, fused: dict[int, tuple[Atom, ...]], depth: int = 0
) -> tuple[Atom, ...]:
    """Return the sorted atoms of a fused computation, with those of fusions in it. ``fused``: contents by computation,
    which it extends."""
    if computation not in fused:
        fused[computation] = ()  # ends cycles of damaged programs
        atoms: list[Atom] = []
        for row in module.rows_of(computation):
            opcode = module.opcodes[row]
            calls = module.calls_of(row) if opcode == FUSION else []
            if len(atoms) >= _MOST_CONTENTS:
                break
            if calls and calls[0] >= 0 and depth < _DEEPEST:
                atoms += fused.get(calls[0]) or _list_contents(module, calls[0], fused, depth + 1)
            elif opcode not in _FREE and opcode != "parameter":
                atoms.append((opcode, module.plain_shape_text(row), module.op_name(row)))
        fused[computation] = tuple(sorted(atoms[:_MOST_CONTENTS]))
    return fused[computation]


SPLIT, MERGED, REGROUPED, CONTENTS = "split", "merged", "regrouped", "contents"
LAYOUT, SHAPE, NEW, GONE = "layout", "shape", "new", "gone"
BY_NAME, BY_STRUCTURE = "name", "structure"
# ---- pairs of programs and of their instructions


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


# ---- work per step


_LEAST_SHARE: Final = 0.5
"""Least share of the time of matched ops whose shapes or arithmetic grow by one factor."""
_TOLERANCE: Final = 0.01
_LEAST_OPS, _NEARLY_ALL = 4, 0.9
"""Least ops, and least share of their time, that change by one factor if a device has another clock."""


def find_batch_change(
    pairs: Sequence[Pair], base: Sequence[RunProgram] = (), new: Sequence[RunProgram] = ()
) -> tuple[float, float] | None:
    """Return the batches of both runs if they differ: sizes of the dimension that changes, 1 and the factor if only
    arithmetic is known; None if nothing shows that they differ. ``base``, ``new``: programs of the runs. Equal programs
    have one batch, and arithmetic says nothing if they have equal arguments: a step may just run them more often."""
    programs = [sorted(sorted(program.signature.items()) for program in of_run) for of_run in (base, new)]
    if programs[0] and programs[0] == programs[1]:
        return None
    arguments = [[atom for listed in of_run for atom in listed if atom[0][0] in _ARGUMENTS] for of_run in programs]
    have_equal_arguments = bool(arguments[0]) and sorted(arguments[0]) == sorted(arguments[1])
    return _find_shape_change(pairs) or (None if have_equal_arguments else _find_flops_change(pairs))


_ARGUMENTS: Final = frozenset(("parameter", "infeed"))
"""Opcodes whose shapes are those of the input."""


def _find_shape_change(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return the smallest sizes of the dimension that changes by the factor that most ops share."""
    weights: dict[Fraction, float] = defaultdict(float)
    sizes: dict[Fraction, tuple[int, int]] = {}
    total = 0.0
    for pair in pairs:
        if pair.kind != OP or not pair.base or not pair.new or not pair.base[0].shape or not pair.new[0].shape:
            continue
        total += pair.new_ps
        dimension = _compare_shapes(pair.base[0].shape, pair.new[0].shape)
        if dimension is not None:
            factor = Fraction(dimension[1], dimension[0])
            weights[factor] += pair.new_ps
            sizes[factor] = min(sizes.get(factor, dimension), dimension)
    if not weights:
        return None
    factor = max(weights, key=weights.__getitem__)
    return sizes[factor] if weights[factor] >= total * _LEAST_SHARE else None


def _compare_shapes(base: str, new: str) -> tuple[int, int] | None:
    """Return the sizes of the only dimension in which two arrays of one type differ, or None."""
    first, second = _read_dimensions(base), _read_dimensions(new)
    if first is None or second is None or first[0] != second[0] or len(first[1]) != len(second[1]):
        return None
    different = [pair for pair in zip(first[1], second[1], strict=True) if pair[0] != pair[1]]
    return different[0] if len(different) == 1 and all(different[0]) else None


_ARRAY: Final = re.compile(r"([a-z][a-z0-9]{0,15})\[(\d{1,12}(?:,\d{1,12}){0,15})\]")
_MOST: Final = 200
"""Characters of a shape that are looked at."""


def _read_dimensions(shape: str) -> tuple[str, list[int]] | None:
    array = _ARRAY.search(shape, 0, _MOST)
    return None if array is None else (array[1], [int(size) for size in array[2].split(",")])


def _find_flops_change(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return 1 and the factor by which the arithmetic of most ops grows; ops of equal shapes count as unchanged."""
    ratios: list[tuple[float, float]] = []
    for pair in pairs:
        known = [[part.flops for part in parts if part.flops is not None] for parts in (pair.base, pair.new)]
        first, second = map(sum, known)
        if pair.kind == OP and first and second and len(known[0] + known[1]) == len(pair.base + pair.new):
            shapes = [sorted({part.shape for part in parts}) for parts in (pair.base, pair.new)]
            is_alike = shapes[0] == shapes[1] and all(shapes[0])
            ratios.append((1.0 if is_alike else second / first, pair.new_ps))
    total = sum(weight for _, weight in ratios)
    if not total:
        return None
    middle = _find_weighted_median(ratios, total)
    near = sum(weight for ratio, weight in ratios if abs(ratio / middle - 1) < _TOLERANCE)
    return (1.0, round(middle, 4)) if abs(middle - 1) > _TOLERANCE and near >= total * _LEAST_SHARE else None


def find_common_factor(pairs: Sequence[Pair]) -> float | None:
    """Return the factor by which the time of nearly all ops changes alike, as with another clock, or None."""
    ratios = [
        (pair.new_ps / pair.base_ps, pair.base_ps) for pair in pairs if pair.kind == OP and pair.base_ps and pair.new
    ]
    total = sum(weight for _, weight in ratios)
    of_ops = sum(pair.change_ps for pair in pairs if pair.kind == OP)
    if len(ratios) < _LEAST_OPS or abs(of_ops) < _LEAST_SHARE * abs(sum(pair.change_ps for pair in pairs)):
        return None
    middle = _find_weighted_median(ratios, total)
    near = sum(weight for ratio, weight in ratios if abs(ratio / middle - 1) < _TOLERANCE)
    return middle if abs(middle - 1) > 2 * _TOLERANCE and near >= total * _NEARLY_ALL else None


def _find_weighted_median(values: Sequence[tuple[float, float]], total: float) -> float:
    passed = 0.0
    for value, weight in sorted(values):
        passed += weight
        if passed >= total / 2:
            return value
    return sorted(values)[-1][0]
