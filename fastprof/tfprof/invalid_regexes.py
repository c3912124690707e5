"""Regular expressions that are not valid, as tfprof treats them: they match nothing, and RE2 writes two lines to
standard error whenever one is tried. Their order follows tfprof's walks: it accounts rows from the leaves to the root,
then searches for start rows, then walks the remaining rows from the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.derive.tfprof.forest import EVERYTHING, NOTHING, Flags, Ints, find_fault, match_regex
from fastprof.derive.tfprof.options import ViewOptions
from fastprof.derive.tfprof.recorded import RecordedGraph, get_plain
from fastprof.derive.tfprof.view_set import ViewSet
from fastprof.derive.tfprof.views import SCOPE_TYPE, AccountedOps, AccountedRows, NodeGroups, ViewTree
from fastprof.schema.columns import sort_rows
from fastprof.wording.patterns import compile_late

_LISTS: Final = ("account_type_regexes", "start_name_regexes", "trim_name_regexes", "show_name_regexes",
                 "hide_name_regexes")  # fmt: skip
_FAULT: Final = (
    "external/com_googlesource_code_re2/re2/re2.cc:232: Error parsing '{}': {fault}\n"
    "external/com_googlesource_code_re2/re2/re2.cc:916: Invalid RE2: {fault}\n"
)
_MOST_SHOWN: Final = 100  # bytes of an expression
_NEW_GROUP: Final = compile_late(r"\(\?<")
_NO_GROUP: Final = "(?@"
"""Beginning of a group that no version of RE2 knows."""
_BAD_GROUP: Final = "invalid perl operator: "
_MOST_TRIED: Final = 100


def try_regexes(views: ViewSet, view: str, options: ViewOptions, steps: Sequence[int]) -> tuple[ViewOptions, str]:
    """Return the options with invalid expressions replaced by one that matches nothing, and RE2's output while tfprof
    makes the view of each step."""
    faults: dict[str, str] = {}
    for regex in {regex for name in _LISTS for regex in getattr(options, name)}:
        if fault := _find_old_fault(regex):
            data = regex.encode("utf-8", "replace")
            shown = regex if len(data) < _MOST_SHOWN else f"{data[:_MOST_SHOWN].decode('utf-8', 'replace')}..."
            faults[regex] = _FAULT.format(shown, fault=fault)
    if not faults:
        return options, ""
    lists = {name: [NOTHING if regex in faults else regex for regex in getattr(options, name)] for name in _LISTS}
    valid = options.replaced(**lists)
    return valid, "".join(
        line
        for step in steps
        for line in _walk_view(views, view, options.replaced(step=step), valid.replaced(step=step), faults)
    )


def _find_old_fault(regex: str) -> str:
    """Return the error of tfprof's RE2, or "". It is older than Arrow's and stops at ``(?<``, which begins none of its
    groups, unless an earlier part is invalid or the characters are literal."""
    places = islice(_NEW_GROUP.finditer(regex.partition(_NO_GROUP)[0]), _MOST_TRIED)
    if any(find_fault(regex[: place.start()] + _NO_GROUP) == _BAD_GROUP + _NO_GROUP for place in places):
        return f"{_BAD_GROUP}(?<"
    return find_fault(regex)


def _walk_view(
    views: ViewSet, view: str, options: ViewOptions, valid: ViewOptions, faults: Mapping[str, str]
) -> Iterator[str]:
    """Yield RE2's output in order. ``valid``: the options without ``faults``."""
    if view == "op":
        yield from _walk_ops(views, options, valid, faults)
        return
    tree = views.tree(view, valid)
    ends = sort_rows(tree.forest.end, -tree.forest.depth).tolist()  # leaves come first
    rows = [row for row in ends if row]
    if view == "code":
        yield from _account_groups(views.recorded, views.lines.groups, rows, options, faults)
    else:
        yield from _account_rows(views.recorded, tree, rows, options, faults)
    yield from _walk_rows(tree, options, valid, faults)


class _Tries:
    """RE2's output for a list of expressions, tried on each text up to the first match."""

    def __init__(self, regexes: Sequence[str], texts: pa.Array, faults: Mapping[str, str]) -> None:
        self.first = np.full(len(texts), len(regexes), np.int64)
        """Position of the first expression that matches each text; after the last if none does."""
        self._lines = [""]
        for place, regex in enumerate(regexes):
            self._lines.append(self._lines[-1] + faults.get(regex, ""))
            if regex not in faults:
                self.first[match_regex(texts, regex) & (self.first > place)] = place
        self.matched: Flags = self.first < len(regexes)

    def lines(self, place: int) -> str:
        return self._lines[int(self.first[place])]


class _ShowTries:
    """RE2's output for names: expressions to show, then to hide."""

    def __init__(self, options: ViewOptions, names: pa.Array, faults: Mapping[str, str]) -> None:
        is_all = options.show_name_regexes == EVERYTHING
        self._show = None if is_all else _Tries(options.show_name_regexes, names, faults)
        self._hide = _Tries(options.hide_name_regexes, names, faults)

    def lines(self, place: int) -> str:
        if self._show is None or self._show.matched[place]:
            return ("" if self._show is None else self._show.lines(place)) + self._hide.lines(place)
        return self._show.lines(place)


def _count_types(recorded: RecordedGraph) -> Ints:
    return np.array([len(set(some or ())) for some in get_plain(recorded.nodes["types"]).to_pylist()], np.int64)


def _account_rows(
    recorded: RecordedGraph, tree: ViewTree, rows: Sequence[int], options: ViewOptions, faults: Mapping[str, str]
) -> Iterator[str]:
    """Yield RE2's output for nodes: each expression is tried on all types of a node, up to the first match."""
    regexes = options.account_type_regexes
    if not any(regex in faults for regex in regexes):
        return
    assert tree.node is not None
    counts = _count_types(recorded)
    matched = [np.zeros(len(counts), np.bool_) if regex in faults else recorded.times_accounted([regex]) > 0
               for regex in regexes]  # fmt: skip
    of_scopes = _Tries(regexes, pa.array([SCOPE_TYPE]), faults).lines(0)
    for row in rows:
        node = int(tree.node[row])
        if node < 0:
            yield of_scopes
            continue
        for regex, matches in zip(regexes, matched, strict=True):
            if matches[node]:
                break
            yield faults.get(regex, "") * int(counts[node])


def _account_groups(
    recorded: RecordedGraph, groups: NodeGroups, rows: Sequence[int], options: ViewOptions, faults: Mapping[str, str]
) -> Iterator[str]:
    """Yield RE2's output for rows: each expression is tried on the types of all nodes of a row."""
    counts = _count_types(recorded)
    for row in rows:
        size = int(counts[groups.of_row(row)].sum())
        for regex in options.account_type_regexes:
            yield faults.get(regex, "") * size


def _walk_rows(tree: ViewTree, options: ViewOptions, valid: ViewOptions, faults: Mapping[str, str]) -> Iterator[str]:
    part = AccountedRows.of(tree, valid)
    names = part.names if part.names is not None else tree.names(part.rows)
    if options.start_name_regexes != EVERYTHING:
        starts = _Tries(options.start_name_regexes, names, faults)
        starts.matched[0] = False
        passed = part.forest.under(starts.matched)
        yield from (starts.lines(row) for row in range(1, len(names)) if not passed[row])
    part.begin(valid)
    names = part.names if part.names is not None else tree.names(part.rows)
    depth, large = part.forest.depth, part.are_large_enough(tree, valid)
    trims, shows = _Tries(options.trim_name_regexes, names, faults), _ShowTries(options, names, faults)
    hidden = part.forest.under(trims.matched) | (depth > options.max_depth)
    for row in np.flatnonzero(~hidden).tolist():
        show = shows.lines(row) if row and large[row] and depth[row] < options.max_depth else ""
        if tree.of_nodes:
            yield show + trims.lines(row)
        else:
            yield trims.lines(row) + ("" if trims.matched[row] else show)


def _walk_ops(views: ViewSet, options: ViewOptions, valid: ViewOptions, faults: Mapping[str, str]) -> Iterator[str]:
    ops = views.ops
    yield from _account_groups(views.recorded, ops.groups, range(len(ops.names)), options, faults)
    part = AccountedOps(views.recorded, ops, valid)
    begin = 0
    if options.start_name_regexes not in (EVERYTHING, ()):
        starts = _Tries(options.start_name_regexes, part.names, faults)
        while begin < len(part.order):
            yield starts.lines(begin)
            if starts.matched[begin]:
                break
            begin += 1
    large = part.are_large_enough(valid)
    trims, shows = _Tries(options.trim_name_regexes, part.names, faults), _ShowTries(options, part.names, faults)
    for row in range(begin, len(part.order)):
        yield trims.lines(row)
        if trims.matched[row] or row - begin > options.max_depth:
            break
        yield shows.lines(row) if large[row] else ""
