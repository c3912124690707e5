"""Python functions and annotations that load input: by words in their names, or by their calls if words are vague.

``load_batch`` and ``DataLoader`` say it. ``next``, ``read``, ``fetch`` and ``load`` alone do not: ``next_rate`` and
``read_config`` load no input. Such a function is input if it recurs on its thread and reads, decodes or asks an
iterator for data, as far as that is recorded. So is waiting for a queue before the first launch of a step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.derive.devices.op_names import is_frame
from fastprof.derive.steps.event_origin import EventOrigins
from fastprof.derive.steps.python_frames import frame_of
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line
from fastprof.wording.patterns import pattern_of

SAYS, MAYBE, NO = "says", "maybe", "no"
"""Answers to whether words name input: they do, they may, they do not."""

_WORD: Final = pattern_of(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LOADERS: Final = frozenset(
    ("dataset", "dataloader", "loader", "prefetch", "minibatch", "minibatche", "augment", "tokenize", "tokenizer",
     "preproces", "shuffle", "reader")
)  # fmt: skip
"""Words that say it beside any other but those of _OTHER."""
_DATA: Final = frozenset(("data", "input", "batch", "batche"))
_PARTS: Final = frozenset(
    ("record", "sample", "example", "image", "row", "shard", "jpeg", "png", "audio", "video", "sentence", "document")
)
"""Parts of a dataset, which are input beside a verb that loads: ``read_records``."""
VERBS: Final = frozenset(("load", "fetch", "read", "next", "decode"))
_MAKES: Final = frozenset(("get", "make", "build", "prepare", "create", "collate", "stack", "sample"))
_STEPS: Final = frozenset(("train", "training", "step", "test", "forward", "backward"))
"""Uses of a batch, no input by themselves: ``train_batch``. Beside a verb that loads they are: ``next_train_batch``."""
_OTHER: Final = frozenset((
    "metric", "rate", "lr", "schedule", "scheduler", "config", "configuration", "conf", "cfg", "flag", "setting",
    "option", "arg", "argument", "los", "log", "logger", "logging", "stat", "statistic", "state", "weight", "param",
    "parameter", "model", "norm", "gradient", "grad", "shape", "size", "optimizer", "score", "accuracy", "counter",
    "count", "timer", "temperature", "momentum", "decay", "seed", "version", "summary", "progres", "result", "report",
    "env", "environment", "attr", "attribute", "module", "constant", "kernel", "program", "validate", "check", "print",
))  # fmt: skip
"""Words for other things than input: ``next_rate``, ``fetch_metrics``, ``read_config``."""
_SAVES: Final = frozenset(("save", "checkpoint", "ckpt", "restore", "evaluate", "eval", "zero", "wait", "sync"))
_GIVEN: Final = pattern_of(r"_(?:on|with|for|from|to|of|per|by)_(?:data|inputs?|batch(?:es)?|dataset)(?:_|$)")
"""Uses of data, which do not load them: ``run_on_input``."""
_OF_DEVICES: Final = pattern_of(r"(?i:data_?parallel|all_?(?:2|to)_?all\w*)")
"""Training on several devices is not loading either: ``DistributedDataParallel.forward``, ``all2all_data``."""


def words_of(name: str) -> set[str]:
    """Return the words of a name in lower case, without the s of a plural."""
    return {word.lower().removesuffix("s") for word in _WORD.findall(name)}


def is_of_other_things(name: str) -> bool:
    """Return whether a name has a word for something other than input."""
    return bool(words_of(name) & _OTHER)


@lru_cache(maxsize=1 << 16)
def said_by(name: str) -> str:
    """Return what the words of a name say of input."""
    words = words_of(_OF_DEVICES.sub("_", _GIVEN.sub("_", name)))
    if words & _OTHER:
        return NO
    loads, data = bool(words & (VERBS | _MAKES)), words & _DATA
    if words & _LOADERS or (data and (loads or not words & _STEPS)) or (words & VERBS and words & _PARTS):
        return SAYS
    return MAYBE if words & VERBS else NO


@lru_cache(maxsize=1 << 16)
def may_be_loader(name: str) -> bool:
    """Return whether what is called before a step may load its input: no builtin, and named after nothing else."""
    if not is_frame(name):
        return not words_of(name) & (_OTHER | _SAVES)
    function, _, line = frame_of(name)
    return line is not None and not words_of(function) & (_OTHER | _SAVES)


def may_exchange(name: str) -> bool:
    """Return whether a name has words of input only as what something is done with: ``sdd_preprocess_splits``."""
    return not words_of(_GIVEN.sub("_", name)) & (VERBS | _LOADERS - {"preproces", "minibatch", "minibatche"})


# ---- what functions do

_READING: Final = frozenset((
    "imread", "imdecode", "imdecode_v2", "read_csv", "read_parquet", "read_table", "read_feather", "read_image",
    "decode_jpeg", "decode_image", "decode_png", "loadtxt", "genfromtxt", "fromfile", "decompress", "readinto",
    "read_row_group", "read_batch", "iter_batches",
))  # fmt: skip
_FILES: Final = frozenset(("read", "readline", "readlines", "readall", "read1"))
_OF_FILES: Final = pattern_of(r"(?:_io|<unknown>|.*(?:^|/)(?:_pyio|io|gzip|bz2|lzma|zipfile|codecs)\.py)$")
_LOADS: Final = pattern_of(r".*(?:npyio\w*|_npyio_impl|format|memmap|ImageFile|Image|h5py/_hl/\w+)\.py$")
_OF_LOADS: Final = frozenset(("load", "open", "decode", "read_array", "__getitem__", "__new__"))


@lru_cache(maxsize=1 << 16)
def reads(name: str) -> bool:
    """Return whether a call reads or decodes data."""
    if not is_frame(name):
        return False
    function, place, _ = frame_of(name)
    if function in _READING or (function in _FILES and _OF_FILES.match(place)):
        return True
    return function in _OF_LOADS and _LOADS.match(place) is not None


@lru_cache(maxsize=1 << 16)
def asks_queue(name: str) -> bool:
    """Return whether a call takes an element of a queue."""
    if not is_frame(name):
        return False
    function, place, _ = frame_of(name)
    return function == "get" and place.rpartition("/")[2] in ("queue.py", "queues.py", "_queue")


@lru_cache(maxsize=1 << 16)
def _asks_iterator(name: str) -> bool:
    return is_frame(name) and frame_of(name).function in ("next", "__next__")


# ---- where they are


@dataclass(frozen=True, slots=True)
class Calls:
    """``maybe``: rows of calls and annotations that may load input; ``known``: those that do; ``launches``: those that
    launch work, or wait for it; ``marks``: markers of steps. All ascending."""

    maybe: Int64s
    known: Int64s
    launches: Int64s
    marks: Int32s


def loading(events: HostEvents, origins: EventOrigins, line: Line, calls: Calls) -> Bools:
    """Return which of the calls of a thread that may load input do."""
    metas, loads = events.meta[calls.maybe], _rows_that_load(events, line, calls.known)
    does = np.zeros(len(metas), np.bool_)
    steps = int(np.count_nonzero((calls.marks >= line.first) & (calls.marks < line.last)))
    for meta in np.unique(metas).tolist():
        rows, name = calls.maybe[metas == meta], events.names[meta]
        if is_frame(name) and steps > 1 and len(rows) < max(2, steps // 2):
            continue  # what input is loaded by recurs
        some = rows[:: max(len(rows) // _LOOKED_AT, 1)]
        if asks_queue(name):
            fits = _before_launches(events, some, calls)
        elif not is_frame(name):
            fits = np.ones(len(some), np.bool_)  # a user calls it so
        elif _asks_iterator(name):
            fits = np.array([_is_for_data(events, row, line) for row in some.tolist()], np.bool_)
        else:
            fits = np.full(len(some), reads(name)) | hold_rows(events, some, loads)
        around = [not (is_frame(name) and _is_around(events, origins, row)) for row in some.tolist()]
        does[metas == meta] = 2 * np.count_nonzero(fits & np.array(around, np.bool_)) > len(some)
    return does


_LOOKED_AT: Final = 16
"""Calls of a name that are looked at, spread over the run."""
_DEEPEST: Final = 64


def _rows_that_load(events: HostEvents, line: Line, known: Int64s) -> Int64s:
    """Return rows of a thread that are ``known`` to load input, or read or decode; they ascend."""
    metas, place = np.unique(events.meta[line.first : line.last], return_inverse=True)
    reading = np.array([reads(events.names[meta]) for meta in metas.tolist()], np.bool_)
    return np.union1d(known, line.first + np.flatnonzero(reading[place.reshape(-1)]))


def hold_rows(events: HostEvents, rows: Int64s, inside: Int64s) -> Bools:
    """Return which rows hold any row of ``inside`` but themselves. Both are of one thread; ``inside`` ascends."""
    end = ends_of(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
    begins = np.append(events.start_ps[inside], np.iinfo(np.int64).max)
    holds: Bools = begins[np.searchsorted(inside, rows, side="right")] < end
    return holds


def _is_for_data(events: HostEvents, row: int, line: Line) -> bool:
    """Return whether an iterator gives data: no generator within its call is named after something else."""
    end = int(events.start_ps[row]) + max(int(events.duration_ps[row]), 0)
    for inner in range(row + 1, min(row + _LOOKED_AT, line.last)):
        if events.start_ps[inner] >= end:
            break
        name = events.names[events.meta[inner]]
        if is_frame(name) and frame_of(name).line is not None:
            return not is_of_other_things(frame_of(name).function)
    return True


def _is_around(events: HostEvents, origins: EventOrigins, row: int) -> bool:
    """Return whether a function around a call is named after something other than input."""
    for _ in range(_DEEPEST):
        row = int(origins.parent[row])
        if row < 0:
            return False
        name = events.names[events.meta[row]]
        if is_frame(name) and frame_of(name).line is not None and is_of_other_things(frame_of(name).function):
            return True
    return False


def _before_launches(events: HostEvents, rows: Int64s, calls: Calls) -> Bools:
    """Return whether calls begin before their step launches anything, or between steps. Without steps, all do if
    something is launched after each."""
    begin = events.start_ps[rows]
    launched = np.sort(events.start_ps[calls.launches])
    if not len(launched):
        return np.zeros(len(rows), np.bool_)
    marks = calls.marks[np.argsort(events.start_ps[calls.marks], kind="stable")]
    if not len(marks):
        after: Bools = launched[-1] > begin
        return after
    starts = events.start_ps[marks]
    ends = ends_of(starts, np.maximum(events.duration_ps[marks], 0))
    place = np.searchsorted(starts, begin, side="right") - 1
    inside = (place >= 0) & (begin < ends[place])
    first = np.append(launched, np.iinfo(np.int64).max)[np.searchsorted(launched, starts[place])]
    return ~inside | (begin <= first)
