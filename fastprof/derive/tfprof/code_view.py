"""The code view: lines of code below the lines that called them.

A node is at the line that made it, the last of its frames. Nodes of gradients have rows of their own, with the frames
of the node that they belong to. Rows are in the order in which nodes, by name, first have them; they are named as
tfprof names frames: file without folder, number of the line, and function, if long in part.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Forest, Ints, depths, preorder
from fastprof.derive.tfprof.groups import Groups, accounts
from fastprof.derive.tfprof.name_scopes import ROOT
from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.recorded import Recorded, coded, numbers, plain
from fastprof.derive.tfprof.views import Tree

GRADIENT = " (gradient)"
_BEFORE_NAME, _AFTER_NAME = "gradients/", "_grad/"
_LONG, _PART = 20, 17  # letters of a function
_LINE_BITS = 32
_LINE = (1 << _LINE_BITS) - 1


class CodeLines:
    """The rows: 0 is the root. ``frame`` is the place of a row's first frame in ``frames``, of the root -1."""

    def __init__(self, recorded: Recorded) -> None:
        traces = plain(recorded.nodes["trace"])
        self.frames = pc.list_flatten(traces)
        lengths = numbers(pc.fill_null(pc.list_value_length(traces), 0))
        self.is_known = bool(lengths.any())
        begins = np.cumsum(lengths) - lengths
        made = _Made(recorded, np.flatnonzero(lengths))
        self.unmatched_gradients = made.unmatched
        """How many nodes, without frames or absent, have gradients with frames, which are in no row then."""
        labels, label_of = _labels(self.frames)
        parent, frame, label, leaf = _rows(made, begins, lengths, label_of, len(labels))
        order = preorder(parent)
        place = np.argsort(order)
        self.forest = Forest(depths(parent)[order])
        self.frame, label = frame[order], label[order]
        self.is_gradient = label >= len(labels)
        both = pa.concat_arrays([labels, pc.binary_join_element_wise(labels, GRADIENT, "")])
        self.names = pc.fill_null(both.take(pa.array(label, mask=label < 0)), ROOT)
        self.groups = Groups.of(place[leaf[made.entry]], made.node, len(order))


class _Made:
    """In the order of insertion: the nodes whose frames become rows, and the nodes that are put at the last of them."""

    def __init__(self, recorded: Recorded, traced: Ints) -> None:
        names = recorded.names.take(pa.array(traced))
        gradients = defaultdict[str, list[int]](list)
        others = np.ones(len(traced), np.bool_)
        marked = (numbers(pc.find_substring(names, mark)) >= 0 for mark in (_BEFORE_NAME, _AFTER_NAME))
        for place in np.flatnonzero(np.logical_and(*marked)).tolist():
            of = forward_name(names[place].as_py())
            if of is not None:
                others[place] = False
                gradients[of].append(int(traced[place]))
        known = sorted(gradients, key=str.encode)
        forward = names.filter(pa.array(others))
        place_of = numbers(pc.fill_null(pc.index_in(pa.array(known, pa.string()), forward), -1))
        found = [(gradients[name], place) for name, place in zip(known, place_of.tolist(), strict=True) if place >= 0]
        self.unmatched = len(known) - len(found)
        self.gradients = len(found)
        """How many of the last entries are of gradients."""
        forward_nodes = traced[others]
        self.path: Ints = np.r_[forward_nodes, forward_nodes[[place for _, place in found]]]
        self.entry: Ints = np.r_[
            np.arange(len(forward_nodes)),
            np.repeat(len(forward_nodes) + np.arange(len(found)), [len(nodes) for nodes, _ in found]),
        ]
        self.node: Ints = np.r_[forward_nodes, [node for nodes, _ in found for node in nodes]].astype(np.int64)


def forward_name(name: str) -> str | None:
    """The node that a node of a gradient belongs to, by name; None: for others.

    tfprof takes the text between the first ``gradients/`` and the first ``_grad/``, or all that follows the former if
    the latter comes before it.
    """
    before, after = name.find(_BEFORE_NAME), name.find(_AFTER_NAME)
    if before < 0 or after < 0:
        return None
    begin = before + len(_BEFORE_NAME)
    if after == begin:
        return None
    return name[begin:after] if after > begin else name[begin:]


def _labels(frames: pa.Array) -> tuple[pa.Array, Ints]:
    """The different texts of frames, and which of them each frame has. Of a damaged profile some have no text."""
    files, functions = coded(frames.field("file")), coded(frames.field("function"))
    short_files = [(one or "").rpartition("/")[2] for one in files.dictionary.to_pylist()]
    short_functions = [_short(one or "") for one in functions.dictionary.to_pylist()]
    both = numbers(files.indices) * max(1, len(short_functions)) + numbers(functions.indices)
    places = pa.array(both).dictionary_encode()
    lines = numbers(pc.fill_null(frames.field("line"), 0)) & _LINE
    frames_of = pa.array((numbers(places.indices) << _LINE_BITS) + lines).dictionary_encode()
    place, line = numbers(frames_of.dictionary) >> _LINE_BITS, numbers(frames_of.dictionary) & _LINE
    file, function = np.divmod(numbers(places.dictionary)[place], max(1, len(short_functions)))
    rows = zip(file.tolist(), line.astype(np.uint32).view(np.int32).tolist(), function.tolist(), strict=True)
    encoded = pa.array([f"{short_files[a]}:{n}:{short_functions[b]}" for a, n, b in rows], pa.string())
    encoded = encoded.dictionary_encode()
    return encoded.dictionary, numbers(encoded.indices)[numbers(frames_of.indices)]


def _short(function: str) -> str:
    data = function.encode()
    return function if len(data) < _LONG else data[:_PART].decode(errors="replace") + "..."


def _rows(made: _Made, begins: Ints, lengths: Ints, label_of: Ints, labels: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows level by level, in the order of insertion: parent, first frame, label (that of a gradient is ``labels``
    more); and for each entry of ``made`` its last row."""
    path = made.path
    shift = np.zeros(len(path), np.int64)
    shift[len(path) - made.gradients :] = labels
    current = np.zeros(len(path), np.int64)
    parents, frames, names = [np.array([-1])], [np.array([-1])], [np.array([-1])]
    rows, level = 1, 0
    left = np.arange(len(path))
    while len(left := left[lengths[path[left]] > level]):
        frame = begins[path[left]] + level
        name = label_of[frame] + shift[left]
        distinct = pa.array(current[left] * (2 * labels) + name).dictionary_encode()  # in the order of insertion
        which = numbers(distinct.indices)
        parent, label = np.divmod(numbers(distinct.dictionary), 2 * labels)
        first = np.empty(len(parent), np.int64)
        first[which[::-1]] = frame[::-1]
        parents.append(parent)
        frames.append(first)
        names.append(label)
        current[left] = rows + which
        rows += len(parent)
        level += 1
    return np.concatenate(parents), np.concatenate(frames), np.concatenate(names), current


def tree(recorded: Recorded, lines: CodeLines, options: Options) -> Tree:
    """Lines of code. Lines that are not accounted stay if something below them is."""
    account = accounts(recorded, lines.groups, options)
    accounted = account.accounted.copy()
    accounted[0] = False
    kept = lines.forest.below(accounted.astype(np.int64)) > 0
    kept[0] = True

    def names(rows: Ints) -> pa.Array:
        return lines.names.take(pa.array(rows))

    return Tree(lines.forest, account.figures, accounted, kept, names, groups=account.groups)
