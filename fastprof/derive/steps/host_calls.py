"""What calls and annotations on host threads are for: loading input, evaluating, logging, or running ops.

Words in names say it: ``load_batch`` and ``DataLoader`` load input. ``next``, ``read``, ``fetch`` and ``load`` alone do
not: ``next_rate`` and ``read_config`` load no input. Such a function is input if it recurs on its thread and reads,
decodes or asks an iterator for data, as far as that is recorded. So is waiting for a queue before the first launch of a
step, and a function that a training loop calls before each step: what it returns flows into the step.

    loop       |------------------------------------------------------------|
    calls        |fetch|  |step|log|  |fetch|  |step|log|  |fetch|  |step|log|
                          the first step runs after fetch and before log

The order alone does not distinguish a loader from a logger if the capture begins after a step: then no call is input by
it.

Of PyTorch's ops the outermost count, with all that they call; those that a data loader runs prepare input. If Python
calls many short ones one after the other, most of the time is what each call costs: such a run is launching, not
computing.

    Optimizer.step   |----------------------------------------|
    ops                |.|  |.| |.|  |.|  ... |.|  |.|  |.|
    run                |------------------------------------|
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.derive.devices import op_names
from fastprof.derive.devices.op_names import LOADERS, STEP, is_frame, is_kineto, is_op
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.derive.steps.event_origin import EventOrigins, has_line, parse_frame
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    add_durations,
    contain_any_time,
    find_last_started,
    find_most_by,
    measure_covered_time,
    merge_spans,
    number_values,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line, compute_once
from fastprof.wording.patterns import compile_late

_LIBRARY: Final = "torch/"
"""Part of the names of PyTorch's own files."""
_ITERATOR_OF_WORKERS: Final = "_MultiProcessingDataLoaderIter"
"""The iterator of a loader that has workers; others are of _SingleProcessDataLoaderIter."""


@dataclass(frozen=True, slots=True)
class LoaderCalls:
    """``waited_ps``: time in which threads wait for a loader; ``count``: how often they do; ``rows``: the outermost
    functions in these waits that are not PyTorch's."""

    waited_ps: int
    count: int
    rows: Int64s


@compute_once
def find_loader_calls(events: HostEvents) -> LoaderCalls:
    plane = events.plane_named(HOST_THREADS)
    waits = np.array([name.startswith(LOADERS) for name in events.names], np.bool_)
    waited, count, rows = 0, 0, [np.zeros(0, np.int64)]
    if plane is not None and is_kineto(events) and waits.any():
        own = np.array([has_line(name) and _LIBRARY not in parse_frame(name).file for name in events.names], np.bool_)
        for line in plane.lines:
            meta = events.meta[line.first : line.last]
            calls, functions = (line.first + np.flatnonzero(of[meta]) for of in (waits, own))
            begin, end = merge_spans(events.start_ps[calls], np.maximum(events.duration_ps[calls], 0))
            if not len(begin):
                continue
            place = find_last_started(begin, events.start_ps[functions])
            until = add_durations(events.start_ps[functions], np.maximum(events.duration_ps[functions], 0))
            inside = (place >= 0) & (until <= end[place])
            functions, until = functions[inside], until[inside]
            outermost = np.append(True, events.start_ps[functions[1:]] >= np.maximum.accumulate(until)[:-1])
            rows.append(functions[outermost[: len(functions)]])
            waited, count = waited + int((end - begin).sum()), count + len(calls)
    return LoaderCalls(waited, count, np.concatenate(rows))


@dataclass(frozen=True, slots=True)
class LoaderTime:
    """Duration and number of waits for a DataLoader, whether workers load for it, and the function of its own
    that takes most of that time, or None if none is recorded."""

    waited_ps: int = 0
    count: int = 0
    function: str | None = None
    function_ps: int = 0
    has_workers: bool = False


def measure_loader_time(events: HostEvents) -> LoaderTime:
    calls = find_loader_calls(events)
    has_workers = calls.count > 0 and any(_ITERATOR_OF_WORKERS in name for name in events.recorded_names)
    if not len(calls.rows):
        return LoaderTime(calls.waited_ps, calls.count, None, 0, has_workers)
    time = np.zeros(len(events.names), np.int64)
    np.add.at(time, events.meta[calls.rows], events.duration_ps[calls.rows])
    most = int(time.argmax())
    return LoaderTime(calls.waited_ps, calls.count, events.names[most], int(time[most]), has_workers)


def longest_wait(hosts: Iterable[LoaderTime]) -> LoaderTime:
    """Return the loader time of the host that waits longest."""
    return max(hosts, key=lambda host: host.waited_ps, default=LoaderTime())


def find_function_within(events: HostEvents, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
    """Return the longest call of the program's own function that takes most of each span, or -1 if none takes half of
    it. The spans are in order and do not overlap."""
    rows, longest_call = find_loader_calls(events).rows, np.full(len(begin_ps), -1, np.int64)
    if not len(rows) or not len(begin_ps):
        return longest_call
    span = find_last_started(begin_ps, events.start_ps[rows])
    inside = (span >= 0) & (add_durations(events.start_ps[rows], events.duration_ps[rows]) <= end_ps[span])
    rows, span = rows[inside], span[inside]
    key, of = number_values(span * len(events.names) + events.meta[rows])
    time, longest = np.zeros((2, len(key)), np.int64)
    np.add.at(time, of, events.duration_ps[rows])
    order = np.argsort(events.duration_ps[rows], kind="stable")
    longest[of[order]] = rows[order]  # the last that is written stays
    most = np.argsort(time, kind="stable")
    most = most[2 * time[most] >= (end_ps - begin_ps)[key[most] // len(events.names)]]
    longest_call[key[most] // len(events.names)] = longest[most]
    return longest_call


SHORT_PS: Final = 10_000_000
"""An op that takes less in the median costs more to call than to run."""
FEWEST: Final = 20
"""Short ops in a row that are a run."""
_LONG_GAP_PS: Final = 1_000_000_000
_PER_LONG_GAP: Final = 100
"""Gaps between ops of a run per long gap that may be among them: the machine does something else meanwhile. If more are
long, Python works in them."""


@dataclass(frozen=True, slots=True)
class OpRuns:
    """Runs of short ops, in order. ``first`` and ``last``: the rows of each run's first event and after its last;
    ``site``: the row of the annotation or function that calls the ops, else of the first op."""

    first: Int64s
    last: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    site: Int64s

    def __len__(self) -> int:
        return len(self.first)

    def of_time(self, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
        """Return the run that each span of time lies in, or -1."""
        if not len(self):
            return np.full(len(begin_ps), -1, np.int64)
        order = np.argsort(self.begin_ps, kind="stable")
        run = order[np.maximum(find_last_started(self.begin_ps[order], begin_ps), 0)]
        inside = (self.begin_ps[run] <= begin_ps) & (end_ps <= self.end_ps[run])
        return np.where(inside, run, -1)


@compute_once
def find_computing_ops(events: HostEvents) -> Int64s:
    """Return the rows of the outermost ops on threads of a host without devices, in order, but for those of data
    loaders and compilations."""
    none = np.zeros(0, np.int64)
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not is_kineto(events) or events.planes_of("GPU"):
        return none
    return np.concatenate([none, *(_find_line_ops(events, line) for line in plane.lines)])


def _find_line_ops(events: HostEvents, line: Line) -> Int64s:
    meta = events.meta[line.first : line.last]
    ops = line.first + np.flatnonzero(is_op(events)[meta])
    if not len(ops):
        return ops
    others = line.first + np.flatnonzero((_is_loader(events) | compiles_code(events))[meta])
    begin, end = merge_spans(events.start_ps[others], np.maximum(events.duration_ps[others], 0))
    start = events.start_ps[ops]
    if len(begin):
        place = find_last_started(begin, start)
        ops = ops[(place < 0) | (start >= end[place])]
        start = events.start_ps[ops]
    reached = np.maximum.accumulate(add_durations(start, np.maximum(events.duration_ps[ops], 0)))
    return ops[np.append(True, start[1:] >= reached[:-1])] if len(ops) else ops


_TORCH_COMPILES: Final = compile_late(r"dynamo$|entire_frame_compile$|_compile\.(?:<locals>\.)?compile_inner")
"""Names of ops in which torch.compile compiles: neither they nor the traced ops in them compute."""


@compute_once
def compiles_code(events: HostEvents) -> Bools:
    """Return whether each row of event metadata compiles a function."""
    return np.array([_TORCH_COMPILES.match(name) is not None for name in events.names], np.bool_)


@compute_once
def _is_loader(events: HostEvents) -> Bools:
    """Return whether each row of event metadata waits for a data loader."""
    return np.array([name.startswith(LOADERS) for name in events.names], np.bool_)


@compute_once
def find_op_runs(events: HostEvents) -> OpRuns:
    """Find runs of short ops. Ops count as short if those of their name that are called in the same annotation are, in
    the median."""
    ops = find_computing_ops(events)
    line, site = _find_call_sites(events, ops)
    start = events.start_ps[ops]
    end = add_durations(start, np.maximum(events.duration_ps[ops], 0))
    short = _are_short(events.meta[ops], np.where(site < 0, -1, events.meta[site]), end - start)
    apart = np.ones(len(ops), np.bool_)
    apart[1:] = (line[1:] != line[:-1]) | (site[1:] != site[:-1]) | ~short[1:] | ~short[:-1]
    long_gap = np.zeros(len(ops), np.bool_)
    long_gap[1:] = start[1:] - end[:-1] > _LONG_GAP_PS
    of = np.cumsum(apart) - 1
    often = np.bincount(of, long_gap & ~apart) * _PER_LONG_GAP > np.bincount(of)
    first = np.flatnonzero(apart | (long_gap & often[of]))
    stop = np.append(first[1:], len(ops))
    many = (stop - first >= FEWEST) & short[first]
    first, last = first[many], stop[many] - 1
    begin, until = start[first], end[last]
    after, sites = [], []
    ends = zip(ops[last].tolist(), until.tolist(), strict=True)
    for annotation, op, (row, time) in zip(site[first].tolist(), ops[first].tolist(), ends, strict=True):
        thread = next(thread for thread in events.lines if thread.first <= row < thread.last)
        after.append(thread.first + int(np.searchsorted(events.start_ps[thread.first : thread.last], time)))
        # the annotation, else the innermost function around the op whose line of source is recorded, else the op
        at = annotation if annotation >= 0 else int(find_enclosing(events)[op])
        while at >= 0 and annotation < 0 and not has_line(events.names[events.meta[at]]):
            at = int(find_enclosing(events)[at])
        sites.append(at if at >= 0 else op)
    return OpRuns(ops[first], np.array(after, np.int64), begin, until, np.array(sites, np.int64))


def _are_short(meta: Int64s, site: Int64s, duration: Int64s) -> Bools:
    if not len(meta):
        return np.zeros(0, np.bool_)
    order = sort_rows(meta, site, duration)
    new = np.append(True, (meta[order][1:] != meta[order][:-1]) | (site[order][1:] != site[order][:-1]))
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(order)))
    short = np.empty(len(order), np.bool_)
    short[order] = np.repeat(duration[order[first + count // 2]] < SHORT_PS, count)
    return short


def _find_call_sites(events: HostEvents, ops: Int64s) -> tuple[Int64s, Int64s]:
    """Return for each op the number of its thread, and the row of the innermost annotation around it, or -1 if there is
    none but that of a step."""
    line_of, site = np.zeros(len(ops), np.int64), np.full(len(ops), -1, np.int64)
    wanted = op_names.has_category(events, op_names.ANNOTATIONS)
    wanted = wanted & ~np.array([name.startswith(STEP) for name in events.names], np.bool_)
    for line in events.lines:
        low, high = np.searchsorted(ops, [line.first, line.last]).tolist()
        if low == high:
            continue
        line_of[low:high] = line.number
        marks = line.first + np.flatnonzero(wanted[events.meta[line.first : line.last]])
        begins = np.searchsorted(ops[low:high], marks) + low
        until = add_durations(events.start_ps[marks], np.maximum(events.duration_ps[marks], 0))
        ends = np.searchsorted(events.start_ps[ops[low:high]], until) + low
        for mark, begin, end in zip(marks.tolist(), begins.tolist(), ends.tolist(), strict=True):
            site[begin:end] = mark  # those within others come after them
    return line_of, site


_RELEASES_LOCK: Final = "TFE_Py_"
"""How calls of TensorFlow begin that release Python's lock, do all of their work, and take the lock again."""
_LEAST_RETURN_PS: Final = 1_000_000_000
"""Shortest wait for Python's lock that counts: frameworks return within microseconds, Python switches threads every
5 ms."""


def find_late_returns(events: HostEvents, parent: Int32s, line: Line) -> tuple[Int64s, Int64s]:
    """Return calls from Python that have done their work and do not return, and since when: another thread holds
    Python's global lock.

    call      |-TFE_Py_Execute-----------------|
      work      |-EagerExecute-|
    waits                      |---------------|
    """
    calls = _mark_lock_releases(events)
    if not calls.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows = slice(line.first, line.last)
    begin = events.start_ps[rows]
    end = add_durations(begin, np.maximum(events.duration_ps[rows], 0))
    above = parent[rows].astype(np.int64) - line.first
    done = np.maximum(begin, find_most_by(above[above >= 0], end[above >= 0], len(begin)))
    late = np.flatnonzero(calls[events.meta[rows]] & (done > begin) & (end - done >= _LEAST_RETURN_PS))
    return line.first + late, done[late]


@compute_once
def _mark_lock_releases(events: HostEvents) -> Bools:
    """Return whether each event name is a call that releases Python's lock: once for all threads."""
    return np.array([name.startswith(_RELEASES_LOCK) for name in events.names], np.bool_)


SAYS, MAYBE, NO = "says", "maybe", "no"
"""Answers to whether words name input: they do, they may, they do not."""

_WORD: Final = compile_late(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
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
INPUT_VERBS: Final = frozenset(("load", "fetch", "read", "next", "decode"))
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
_GIVEN: Final = compile_late(r"_(?:on|with|for|from|to|of|per|by)_(?:data|inputs?|batch(?:es)?|dataset)(?:_|$)")
"""Uses of data, which do not load them: ``run_on_input``."""
_OF_DEVICES: Final = compile_late(r"(?i:data_?parallel|all_?(?:2|to)_?all\w*)")
"""Training on several devices is not loading either: ``DistributedDataParallel.forward``, ``all2all_data``."""


def split_words(name: str) -> set[str]:
    """Return the words of a name in lower case, without the s of a plural."""
    return {word.lower().removesuffix("s") for word in _WORD.findall(name)}


def is_about_other_things(name: str) -> bool:
    """Return whether a name has a word for something other than input."""
    return bool(split_words(name) & _OTHER)


@lru_cache(maxsize=1 << 16)
def classify_words(name: str) -> str:
    """Return what the words of a name say of input."""
    words = split_words(_OF_DEVICES.sub("_", _GIVEN.sub("_", name)))
    if words & _OTHER:
        return NO
    loads, data = bool(words & (INPUT_VERBS | _MAKES)), words & _DATA
    if words & _LOADERS or (data and (loads or not words & _STEPS)) or (words & INPUT_VERBS and words & _PARTS):
        return SAYS
    return MAYBE if words & INPUT_VERBS else NO


@lru_cache(maxsize=1 << 16)
def may_be_loader(name: str) -> bool:
    """Return whether a call before a step may load its input: no builtin, and named after nothing else."""
    if not is_frame(name):
        return not split_words(name) & (_OTHER | _SAVES)
    function, _, line = parse_frame(name)
    return line is not None and not split_words(function) & (_OTHER | _SAVES)


def may_exchange(name: str) -> bool:
    """Return whether a name has words of input only as what something is done with: ``sdd_preprocess_splits``."""
    return not split_words(_GIVEN.sub("_", name)) & (INPUT_VERBS | _LOADERS - {"preproces", "minibatch", "minibatche"})


# ---- what functions do

_READING: Final = frozenset((
    "imread", "imdecode", "imdecode_v2", "read_csv", "read_parquet", "read_table", "read_feather", "read_image",
    "decode_jpeg", "decode_image", "decode_png", "loadtxt", "genfromtxt", "fromfile", "decompress", "readinto",
    "read_row_group", "read_batch", "iter_batches",
))  # fmt: skip
_FILES: Final = frozenset(("read", "readline", "readlines", "readall", "read1"))
_OF_FILES: Final = compile_late(r"(?:_io|<unknown>|.*(?:^|/)(?:_pyio|io|gzip|bz2|lzma|zipfile|codecs)\.py)$")
_LOADING_FILES: Final = compile_late(r".*(?:npyio\w*|_npyio_impl|format|memmap|ImageFile|Image|h5py/_hl/\w+)\.py$")
_OF_LOADS: Final = frozenset(("load", "open", "decode", "read_array", "__getitem__", "__new__"))


@lru_cache(maxsize=1 << 16)
def reads_data(name: str) -> bool:
    """Return whether a call reads or decodes data."""
    if not is_frame(name):
        return False
    function, place, _ = parse_frame(name)
    if function in _READING or (function in _FILES and _OF_FILES.match(place)):
        return True
    return function in _OF_LOADS and _LOADING_FILES.match(place) is not None


@lru_cache(maxsize=1 << 16)
def asks_queue(name: str) -> bool:
    """Return whether a call takes an element of a queue."""
    if not is_frame(name):
        return False
    function, place, _ = parse_frame(name)
    return function == "get" and place.rpartition("/")[2] in ("queue.py", "queues.py", "_queue")


@lru_cache(maxsize=1 << 16)
def _asks_iterator(name: str) -> bool:
    return is_frame(name) and parse_frame(name).function in ("next", "__next__")


# ---- where they are


@dataclass(frozen=True, slots=True)
class CandidateCalls:
    """``maybe``: rows of calls and annotations that may load input; ``known``: those that do; ``launches``: those that
    launch work, or wait for it; ``marks``: markers of steps. All ascending."""

    maybe: Int64s
    known: Int64s
    launches: Int64s
    marks: Int32s


def find_loading_calls(events: HostEvents, origins: EventOrigins, line: Line, calls: CandidateCalls) -> Bools:
    """Return which of the calls of a thread that may load input do."""
    of_line, place = number_values(events.meta[line.first : line.last])
    reads = np.array([reads_data(events.names[meta]) for meta in of_line.tolist()], np.bool_)
    loads = np.union1d(calls.known, line.first + np.flatnonzero(reads[place.reshape(-1)]))
    del of_line, place
    metas = events.meta[calls.maybe]
    does = np.zeros(len(metas), np.bool_)
    steps = int(np.count_nonzero((calls.marks >= line.first) & (calls.marks < line.last)))
    for meta in np.unique(metas).tolist():
        rows, name = calls.maybe[metas == meta], events.names[meta]
        if is_frame(name) and steps > 1 and len(rows) < max(2, steps // 2):
            continue  # what input is loaded by recurs
        some = rows[:: max(len(rows) // _LOOKED_AT, 1)]
        if asks_queue(name):
            fits = _precede_launches(events, some, calls)
        elif not is_frame(name):
            fits = np.ones(len(some), np.bool_)  # a user calls it so
        elif _asks_iterator(name):
            fits = np.array([_is_for_data(events, row, line) for row in some.tolist()], np.bool_)
        else:
            fits = np.full(len(some), reads_data(name)) | contain_rows(events, some, loads)
        around = [not (is_frame(name) and _is_in_other_function(events, origins, row)) for row in some.tolist()]
        does[metas == meta] = 2 * np.count_nonzero(fits & np.array(around, np.bool_)) > len(some)
    return does


_LOOKED_AT: Final = 16
"""Calls of a name that are looked at, spread over the run."""
_DEEPEST: Final = 64


def contain_rows(events: HostEvents, rows: Int64s, inside: Int64s) -> Bools:
    """Return which rows hold any row of ``inside`` but themselves. Both are of one thread; ``inside`` ascends."""
    end = add_durations(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
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
        if is_frame(name) and parse_frame(name).line is not None:
            return not is_about_other_things(parse_frame(name).function)
    return True


def _is_in_other_function(events: HostEvents, origins: EventOrigins, row: int) -> bool:
    """Return whether a function around a call is named after something other than input."""
    for _ in range(_DEEPEST):
        row = int(origins.parent[row])
        if row < 0:
            return False
        name = events.names[events.meta[row]]
        if is_frame(name) and parse_frame(name).line is not None and is_about_other_things(parse_frame(name).function):
            return True
    return False


def _precede_launches(events: HostEvents, rows: Int64s, calls: CandidateCalls) -> Bools:
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
    ends = add_durations(starts, np.maximum(events.duration_ps[marks], 0))
    place = find_last_started(starts, begin)
    inside = (place >= 0) & (begin < ends[place])
    first = np.append(launched, np.iinfo(np.int64).max)[np.searchsorted(launched, starts[place])]
    return ~inside | (begin <= first)


EVALUATION, LOGGING = "evaluation", "logging"

_EVALUATES: Final = frozenset(("eval", "evaluate", "evaluation", "evaluator", "validate", "validation", "val"))
_TESTS: Final = compile_late(r"^(?:run_)?test_?(?:step|epoch|loop|model|function|batch)?$")
_LOGS: Final = frozenset(("log", "logging", "logger", "metric", "tensorboard", "wandb", "mlflow", "telemetry"))
_MATHS: Final = frozenset(("softmax", "prob", "sum", "exp", "likelihood", "sigmoid", "normal", "det", "space", "add"))
"""Logarithms."""
_TRAINS: Final = frozenset(("train", "training", "forward", "backward", "optimizer"))
_LOAD_WORDS: Final = frozenset(("dataset", "dataloader", "loader", "load", "fetch", "read", "next", "data", "batch"))
_NATIVE: Final = compile_late(r"::|^\w+/\w+:")
_MOST_TIME: Final = 0.8
"""A program that evaluates for more of its time than this does not train."""


@lru_cache(maxsize=1 << 16)
def classify_other_work(name: str) -> str | None:
    """Return which work that is not training a name says, or None."""
    if _NATIVE.search(name):
        return None
    words = split_words(name)
    if words & _TRAINS or words & _LOAD_WORDS:
        return EVALUATION if words & {"evaluate"} and not words & _TRAINS else None
    if words & _EVALUATES or _TESTS.match(name):
        return EVALUATION
    return LOGGING if words & _LOGS and not words & _MATHS and name != "log" else None


def find_evaluation_markers(events: HostEvents, marked: Int32s) -> Bools:
    """Return which markers of steps are of evaluation, if others are not."""
    names = [events.names[meta] for meta in events.meta[marked].tolist()]
    is_evaluation = np.array([classify_other_work(name) == EVALUATION for name in names], np.bool_)
    return is_evaluation if not is_evaluation.all() else np.zeros(len(marked), np.bool_)


def find_evaluations(events: HostEvents, line: Line, rows: Int64s, launches: Int64s) -> Bools:
    """Return which events of a thread that are called so are evaluation: those that launch work, unless all of them
    take most of the thread's time."""
    start = events.start_ps[rows]
    end = add_durations(start, np.maximum(events.duration_ps[rows], 0))
    holds = contain_rows(events, rows, launches)
    begin, until = merge_spans(start[holds], (end - start)[holds])
    whole = slice(line.first, line.last)
    last = add_durations(events.start_ps[whole], np.maximum(events.duration_ps[whole], 0)).max()
    if (until - begin).sum() > _MOST_TIME * (last - events.start_ps[whole].min()):
        return np.zeros(len(rows), np.bool_)
    return holds


_LEAST: Final = 3
"""Fewest steps of a loop."""
_SAMPLE: Final = 256
"""Launches whose callers are looked at, spread over the run."""
_DEEPEST_LOOP: Final = 512
_MOST_LAUNCHES: Final = 0.9
"""Least part of the launches that the function with the loop holds, and of the calls that a step follows at once."""
_LEAST_SHARE: Final = 0.02
"""Least part of the loop that calls of a name take, or they cost too little to be called anything."""
_WORKS: Final = 10
"""A call is work if launches take a tenth of its time, or if it waits for what it launches."""
_SHORT: Final = 20
"""Calls between a loader and the step that take less than its time divided by this do not come between them."""


def find_calls_before_steps(
    events: HostEvents, line: Line, works: Int64s, marks: Int32s, may_load: Bools, waits: Int64s
) -> Int64s:
    """Return rows of a thread that are calls before each step of its loop.

    ``works``: rows that launch work, ascending; ``marks``: markers of steps; ``may_load``: by row of the thread,
    whether a call may be a loader; ``waits``: rows that wait for devices.
    """
    none = np.zeros(0, np.int64)
    if len(works) < _LEAST:
        return none
    parent = find_enclosing(events)
    is_mark = np.zeros(line.last - line.first, np.bool_)
    own_marks = marks[(marks >= line.first) & (marks < line.last)]
    is_mark[own_marks - line.first] = True
    loop = _find_loop(parent, works[:: max(len(works) // _SAMPLE, 1)], is_mark, line.first)
    above = parent[line.first : line.last]
    in_mark = (above >= line.first) & is_mark[np.maximum(above - line.first, 0)]
    above = np.where(in_mark, parent[np.maximum(above, 0)], above)
    calls = line.first + np.flatnonzero((above == loop) & ~is_mark)
    if loop >= 0:
        calls = calls[calls > loop]
    start = events.start_ps[calls]
    end = add_durations(start, np.maximum(events.duration_ps[calls], 0))
    worked = measure_covered_time(
        merge_spans(events.start_ps[works], np.maximum(events.duration_ps[works], 0)), start, end - start
    )
    has_waits = contain_any_time(start, end, events.start_ps[waits])
    is_work = (worked > 0) & ((worked * _WORKS >= end - start) | has_waits)
    idle = ~is_work & ~has_waits & may_load[calls - line.first]
    if np.count_nonzero(is_work) < _LEAST or not idle.any():
        return none
    loaders, first_work = [none], int(np.flatnonzero(is_work)[0])
    lasts = int(end.max()) - int(start.min())
    # a number for the function of each call: PyTorch names a generator by the line that it goes on at
    metas, place = number_values(events.meta[calls])
    names = [events.names[meta] for meta in metas.tolist()]
    keys = [parse_frame(name)[:2] if is_frame(name) else (name, "") for name in names]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    called, time = np.array([numbers[key] for key in keys], np.int64)[place.reshape(-1)], end - start
    for function in np.unique(called[:first_work][idle[:first_work]]).tolist():
        own = np.flatnonzero((called == function) & idle)
        if len(own) >= _LEAST and int(time[own].sum()) >= _LEAST_SHARE * lasts and _precede_step(own, is_work, time):
            loaders.append(calls[own])
    return np.sort(np.concatenate(loaders))


def _find_loop(parent: Int32s, works: Int64s, is_mark: Bools, first: int) -> int:
    """Return the row of the innermost call that holds nearly all launches, -1 if none does; markers are none."""
    chains = []
    for row in works.tolist():
        chain: list[int] = []
        while (row := int(parent[row])) >= 0 and len(chain) < _DEEPEST_LOOP:
            if not (row >= first and row - first < len(is_mark) and is_mark[row - first]):
                chain.append(row)
        chains.append(chain[::-1])
    loop, depth = -1, 0
    while True:
        at = [chain[depth] for chain in chains if len(chain) > depth]
        if not at:
            return loop
        rows, often = np.unique(at, return_counts=True)
        if often.max() < _MOST_LAUNCHES * len(chains):
            return loop
        loop = int(rows[often.argmax()])
        chains = [chain for chain in chains if len(chain) > depth and chain[depth] == loop] or chains
        depth += 1


def _precede_step(own: Int64s, is_work: Bools, time: Int64s) -> bool:
    """Return whether calls of a loop, given by their places, precede the step: nearly always the next call that is not
    short is work, and one call at most follows the last work."""
    upto = np.cumsum(is_work)
    between: Int64s = upto[own[1:]] - upto[own[:-1]]
    if np.count_nonzero(between > 0) < _MOST_LAUNCHES * len(between):
        return False
    long = time * _SHORT >= np.median(time[own])
    follows = 0
    last = own[upto[own] < upto[-1]]
    for place in last.tolist():
        later = place + 1
        while later < len(is_work) and not is_work[later] and not long[later]:
            later += 1
        follows += int(later < len(is_work) and bool(is_work[later]))
    return len(last) >= len(own) - 1 and follows >= _MOST_LAUNCHES * len(last)
