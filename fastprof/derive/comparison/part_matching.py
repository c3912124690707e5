"""Parts of two runs that are the same thing, although names, scopes, shapes or numbers changed.

Keys are tried one after the other, the strictest first; what has a key in both runs is one pair, and later keys only
see the rest::

    change of programs       fusions that were split or merged, by their contents: program_changes
    name, scope, shape       convolution_fusion.106 of head/dot_general, bf16[4096,1024]
    stem, scope, shape       numbers of instructions changed
    stem, scope              shapes changed: another batch
    stem, shape              the scope was renamed
    scope                    another kernel or fusion for the same op
    stem                     a kernel family, or an op without a scope
    outer scopes, inner first    a fusion was split or merged: the lowest scope that both runs have

What remains is new or gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final

from fastprof.derive.comparison.step_parts import OP, StepPart
from fastprof.derive.devices.op_names import drop_serial
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

BY_NAME, BY_SCOPE, BY_CONTENTS, UNMATCHED = "name", "scope", "contents", "none"
_LEAST_PART, _LEAST_CHANGE = 0.05, 0.02
"""Least change of an op that was split: as a share of what the new op takes, and of the op's own time."""
_DEEPEST: Final = 8
"""Levels of scopes that are tried for split fusions."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One thing in both runs, or in one of them. ``base``, ``new``: its parts; ``matched``: BY_NAME, BY_SCOPE,
    BY_CONTENTS or UNMATCHED; ``name``: of the thing."""

    kind: str
    name: str
    base: tuple[StepPart, ...]
    new: tuple[StepPart, ...]
    matched: str

    @property
    def base_ps(self) -> float:
        return sum(part.time_ps for part in self.base)

    @property
    def new_ps(self) -> float:
        return sum(part.time_ps for part in self.new)

    @property
    def change_ps(self) -> float:
        return self.new_ps - self.base_ps


_TEMPLATE: Final = compile_late(r"<[^<>]*>|\([^()]*\)")
_TILING: Final = compile_late(r"(?:_?\d+)+(?:x\d+)*")
_MOST: Final = 4_096
"""Characters of a name that are looked at."""


@lru_cache(1 << 15)
def get_stem(name: str) -> str:
    """Return an op or kernel name without its serial number, template arguments and parameters."""
    bare, length = name[:_MOST], -1
    while length != len(bare):
        length, bare = len(bare), _TEMPLATE.sub("", bare)
    words = bare.split()
    return drop_serial(words[-1] if words else name)


def get_family(name: str) -> str:
    """Return the family of a kernel: its stem without all numbers."""
    return _TILING.sub("", get_stem(name).rpartition("::")[2])


_Key = Callable[[StepPart], Hashable]
_KEYS: Final[tuple[tuple[str, _Key], ...]] = (
    (BY_CONTENTS, lambda part: part.change if part.change >= 0 else None),
    (BY_NAME, lambda part: (part.name, part.scope, part.shape)),
    (BY_NAME, lambda part: (get_stem(part.name), part.scope, part.shape)),
    (BY_NAME, lambda part: (get_stem(part.name), part.scope)),
    (BY_NAME, lambda part: (get_stem(part.name), part.shape) if part.shape else None),
    (BY_SCOPE, lambda part: part.scope or None),
    (BY_NAME, lambda part: get_family(part.name)),
    (BY_SCOPE, lambda part: None if part.kind == OP else part.kind),
)
"""How a pair is matched, by key; parts whose key is None have none."""


def match_parts(base: Sequence[StepPart], new: Sequence[StepPart]) -> list[Pair]:
    """Return what the parts of two runs have in common, each part in one pair."""
    pairs: list[Pair] = []
    left, right = list(base), list(new)
    for matched, key in _KEYS:
        left, right = _take_pairs(pairs, left, right, matched, key)
    for depth in range(_DEEPEST, 0, -1):
        left, right = _take_pairs(pairs, left, right, BY_SCOPE, partial(_get_outer_scope, depth))
    pairs += [_make_pair([part], [], UNMATCHED) for part in left]
    pairs += [_make_pair([], [part], UNMATCHED) for part in right]
    return list(_join_splits(pairs))


def _take_pairs(
    pairs: list[Pair], left: list[StepPart], right: list[StepPart], matched: str, key: _Key
) -> tuple[list[StepPart], list[StepPart]]:
    """Add the pairs that a key makes, and return what it leaves of both runs."""
    groups: dict[Hashable, tuple[list[StepPart], list[StepPart]]] = defaultdict(lambda: ([], []))
    rest: tuple[list[StepPart], list[StepPart]] = ([], [])
    for side, parts in enumerate((left, right)):
        for part in parts:
            value = key(part)
            (rest if value is None else groups[part.kind, value])[side].append(part)
    for of_base, of_new in groups.values():
        if of_base and of_new:
            pairs.append(_make_pair(of_base, of_new, matched))
        else:
            rest[0].extend(of_base)
            rest[1].extend(of_new)
    return rest


def _make_pair(base: Sequence[StepPart], new: Sequence[StepPart], matched: str) -> Pair:
    longest = max([*new, *base], key=lambda part: part.time_ps)
    several = matched in (BY_SCOPE, BY_CONTENTS) and len(base) + len(new) > 2
    name = _join_scopes([*base, *new]) if several else longest.name
    return Pair(longest.kind, name or longest.name, tuple(base), tuple(new), matched)


def _get_outer_scope(depth: int, part: StepPart) -> str | None:
    """Return the first ``depth`` levels of an op's scope, or None if it has fewer."""
    levels = part.scope.split("/")
    return "/".join(levels[:depth]) if part.kind == OP and part.scope and len(levels) >= depth else None


def _join_scopes(parts: Sequence[StepPart]) -> str:
    """Return the lowest scope that holds all ops."""
    levels = [part.scope.split("/") for part in parts]
    shared = 0
    while all(len(path) > shared and path[shared] == levels[0][shared] for path in levels):
        shared += 1
    return "/".join(levels[0][:shared])


def _get_parent_scope(pair: Pair) -> str:
    return _join_scopes([*pair.base, *pair.new]).rpartition("/")[0]


def _join_splits(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Join a new or gone op with the op of its scope whose time changed the other way: a fusion that was split or
    merged."""
    partners: dict[tuple[str, bool], Pair] = {}
    for pair in pairs:
        place = _get_parent_scope(pair), pair.change_ps > 0
        if pair.kind == OP and pair.matched != UNMATCHED and place[0]:
            partners[place] = max(partners.get(place, pair), pair, key=lambda pair: abs(pair.change_ps))
    joined: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        partner = partners.get((_get_parent_scope(pair), pair.change_ps <= 0))
        if pair.kind == OP and pair.matched == UNMATCHED and partner is not None:
            least = max(_LEAST_PART * abs(pair.change_ps), _LEAST_CHANGE * max(partner.base_ps, partner.new_ps))
            if abs(partner.change_ps) >= least:
                joined[id(partner)].append(pair)
    taken = {id(pair) for some in joined.values() for pair in some}
    for pair in pairs:
        if id(pair) in joined:
            some = [pair, *joined[id(pair)]]
            yield _make_pair([*chain(*(pair.base for pair in some))], [*chain(*(pair.new for pair in some))], BY_SCOPE)
        elif id(pair) not in taken:
            yield pair
