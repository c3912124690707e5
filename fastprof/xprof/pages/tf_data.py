"""The page tf_data_bottleneck_analysis of TensorFlow 2.14, the last to have it: three tables.

There, every id that is not an int64 reads as 0, and iterators with such ids are taken for one another: see
xprof/pipelines_as_xprof.py. Ids past 2⁶³ are hashes that TensorFlow itself writes. Captures that name the same host are
joined; of equal ids, the first one counts. Everything is in columns, because each call of a capture may be a pipeline
and have an iterator of its own; objects are made while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from html import escape
from typing import NamedTuple

import numpy as np

from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.pipelines.recorded_pipelines import IteratorRecords
from fastprof.schema.columns import (
    Int64s,
    count_bounds,
    expand_ranges,
    find_group_bounds,
    find_runs,
    join_parts,
    number_keys,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.xprof.pages.data_table import Col, LazyRows, anchor, number, text
from fastprof.xprof.pipelines_as_xprof import KEEPS as KEEPS
from fastprof.xprof.pipelines_as_xprof import XprofReading, get_recorded, read_as_xprof

_SOME_ITERATORS = 1 << 12
"""Number of iterators that are objects at once; neighbouring calls share them."""


class IteratorMeta(NamedTuple):
    """Properties of an iterator; ``shown`` is its short name as HTML, ``parent`` a cell."""

    name: str
    long_name: str
    shown: str
    parent: dict[str, object]


def _describe_iterator(name: str, long_name: str, parent_id: int) -> IteratorMeta:
    return IteratorMeta(name, long_name, escape(name, quote=False), {"v": str(parent_id or "")})


_NO_ITERATOR = _describe_iterator("", "", 0)


class CaptureReading(NamedTuple):
    """A capture as the tool reads it. By call: the id of the iterator with the largest self time among those that it
    waits for, and that time in ps; 0 and 0 if it waits for none."""

    reading: XprofReading
    bottleneck_id: Int64s
    bottleneck_ps: Int64s


class PipelinePart(NamedTuple):
    """A pipeline in one capture: its calls are rows ``first`` to ``last``, slowest first."""

    host: CaptureReading
    first: int
    last: int


class Pipeline:
    """An input pipeline of a host, with its parts in the order of captures."""

    def __init__(self, host: TfHost, name: str, parts: Sequence[PipelinePart]) -> None:
        self.host = host
        self.name = name
        self.parts = parts

    @cached_property
    def latencies_ps(self) -> list[int]:
        """Latencies of the calls in the last capture that names the host."""
        first, last = self.parts[-1].first, self.parts[-1].last
        latencies: list[int] = self.parts[-1].host.reading.duration_ps[first:last].tolist()
        return latencies

    @property
    def bottleneck(self) -> tuple[IteratorMeta, int]:
        """Bottleneck of the slowest call, and its self time in ps."""
        host, call, _ = self.parts[0]
        return self.host.iterator(int(host.bottleneck_id[call])), int(host.bottleneck_ps[call])


class TfHost:
    """A host, from the captures that name it. By pipeline, in the order in which captures name them: ``is_device``, and
    ``longest_ps``, the duration of the slowest call in the last capture that has it."""

    def __init__(self, name: str, captures: Sequence[CaptureReading]) -> None:
        self.name = name
        self._captures = captures
        readings = [capture.reading for capture in captures]
        ids = [reading.iterators.iterator_id for reading in readings]
        self._ids, self._row_of_id = np.unique(np.concatenate(ids), return_index=True)
        self._first_iterator = count_bounds([len(own) for own in ids])
        self._first_pipeline = count_bounds([len(host.pipelines) for host in readings])
        roots = [of[host.pipelines.root] for of, host in zip(ids, readings, strict=True)]
        number, self._count = number_keys([np.concatenate(roots)])
        self._parts = np.argsort(number, kind="stable")  # pipelines of captures, by pipeline of the host
        self._first_part = find_group_bounds(number[self._parts], self._count)
        first, last = self._parts[self._first_part[:-1]], self._parts[self._first_part[1:] - 1]
        self.is_device = np.concatenate([host.pipelines.is_device for host in readings])[first]
        self.longest_ps = np.concatenate([_find_longest_calls(host) for host in readings])[last]
        self.iterator = lru_cache(_SOME_ITERATORS)(self._iterator)

    def __len__(self) -> int:
        return self._count

    def pipeline(self, number: int) -> Pipeline:
        rows = self._parts[self._first_part[number] : self._first_part[number + 1]].tolist()
        places = [_locate_row(self._first_pipeline, row) for row in rows]
        capture, row = places[0]
        name = self._captures[capture].reading.pipelines.name[row]
        return Pipeline(self, name, [self._part(capture, row) for capture, row in places])

    def _part(self, capture: int, row: int) -> PipelinePart:
        answered = self._captures[capture]
        first = answered.reading.pipelines.first
        return PipelinePart(answered, int(first[row]), int(first[row + 1]))

    def _iterator(self, id: int) -> IteratorMeta:
        """Describe the iterator of this id."""
        at = int(np.searchsorted(self._ids, id))
        if at == len(self._ids) or self._ids[at] != id:
            return _NO_ITERATOR
        capture, row = _locate_row(self._first_iterator, int(self._row_of_id[at]))
        known = self._captures[capture].reading.iterators
        return _describe_iterator(known.name[row], known.long_name[row], int(known.parent_id[row]))


@dataclass(frozen=True, slots=True, eq=False)
class Pipelines:
    """Pipelines of several hosts: the number of the host of each, its row there, and its ``longest_ps``. Objects are
    made one by one."""

    hosts: Sequence[TfHost]
    host: Int64s
    row: Int64s
    longest_ps: Int64s

    def __iter__(self) -> Iterator[Pipeline]:
        for host, row in zip(self.host, self.row, strict=True):
            yield self.hosts[int(host)].pipeline(int(row))

    def slowest(self) -> Pipelines:
        """Return the pipelines that no device calls, slowest first."""
        on_device = join_parts((host.is_device for host in self.hosts), np.bool_)
        rows = np.flatnonzero(~on_device)
        rows = rows[np.argsort(~self.longest_ps[rows], kind="stable")]
        return Pipelines(self.hosts, self.host[rows], self.row[rows], self.longest_ps[rows])


def join_pipelines(hosts: Sequence[TfHost]) -> Pipelines:
    counts = np.array([len(own) for own in hosts], np.int64)
    host, row = expand_ranges(np.zeros_like(counts), counts)
    return Pipelines(hosts, host, row, join_parts(own.longest_ps for own in hosts))


def _locate_row(begins: Int64s, row: int) -> tuple[int, int]:
    """Return the range of a row, and the row there."""
    place = int(np.searchsorted(begins, row, side="right")) - 1
    return place, row - int(begins[place])


def _find_longest_calls(reading: XprofReading) -> Int64s:
    """Return the duration of the slowest call of each pipeline; every pipeline has calls."""
    if not len(reading.pipelines):
        return np.zeros(0, np.int64)
    longest: Int64s = np.maximum.reduceat(reading.duration_ps, reading.pipelines.first[:-1])
    return longest


Cell = dict[str, object]

SLOW_PS = 50_000_000
"""Duration beyond which a call is slow."""

_GRAPH = (
    text("host", "Host"),
    text("input_pipeline", "Input Pipeline"),
    number("rank", "Rank"),
    text("name", "Name"),
    text("parent", "Parent"),
    number("type", "Type"),
)
_SLOW = (
    "Your profile has a tf.data input pipeline slower than 50 us. For each slow input pipeline, below shows a "
    "bottleneck in the input pipeline and a suggestion on how to fix it."
)
_FAST = (
    "Your profile does not have any tf.data input pipeline slower than 50 us. Your job could be still input bound if "
    "this profile didn't capture all workers."
)
_NONE = "No tf.data activity captured in your profile. If your job uses tf.data, try to capture a longer profile."
_SOME_RECORDS = 1 << 14
"""Number of records that are rows of Python at once."""
_WHOLE = 2**53
"""Bound up to which doubles hold all whole numbers."""
_TYPES: tuple[Cell, ...] = ({"v": 0}, {"v": 1}, {"v": 2})
"""Cells of iterators that nobody waits for, of those that the call waits for, and of its bottleneck."""


def answer(report: AnalysisReport) -> object:
    hosts: dict[str, list[CaptureReading]] = {}
    for host in get_recorded(report):
        hosts.setdefault(host.recorded_host or host.host, []).append(_read_capture(read_as_xprof(host)))
    pipelines = join_pipelines([TfHost(name, captures) for name, captures in hosts.items()])
    slowest = pipelines.slowest()
    longest = int(slowest.longest_ps[0]) if len(slowest.longest_ps) else 0
    properties = {
        "is_input_bound": "true" if longest > SLOW_PS else "false",
        "summary_message": _SLOW if longest > SLOW_PS else _FAST if longest else _NONE,
    }
    return [
        {
            "cols": [column.head() for column in _GRAPH],
            "rows": LazyRows(lambda: ({"c": row} for pipeline in pipelines for row in _list_graph_rows(pipeline))),
        },
        _make_table(_SUMMARY, pipelines),
        _make_table(_BOTTLENECK, slowest) | {"p": properties},
    ]


def _read_capture(reading: XprofReading) -> CaptureReading:
    bottleneck, longest = np.zeros((2, len(reading.roots)), np.int64)
    for records in reading.records():
        _add_bottlenecks(records, reading.iterators.iterator_id, bottleneck, longest)
    return CaptureReading(reading, bottleneck, longest)


def _add_bottlenecks(records: IteratorRecords, iterator_id: Int64s, bottleneck: Int64s, longest: Int64s) -> None:
    """Find the bottlenecks of calls; of equal iterators, the first that the call meets."""
    waits = np.flatnonzero(records.is_blocking & (records.self_ps > 0))
    order = waits[sort_rows(records.call[waits], -records.self_ps[waits])]
    order = order[find_runs(records.call[order])]
    bottleneck[records.call[order]] = iterator_id[records.iterator[order]]
    longest[records.call[order]] = records.self_ps[order]


def _make_table(columns: Sequence[Formula], pipelines: Pipelines) -> dict[str, object]:
    """Make a DataTable whose numbers are whole, as the tool's own page wrote them; rows are made while it is
    written."""
    return {
        "cols": [column.head() for column, _ in columns],
        "rows": LazyRows(lambda: ({"c": [{"v": value(pipeline)} for _, value in columns]} for pipeline in pipelines)),
    }


def _list_graph_rows(pipeline: Pipeline) -> Iterator[list[Cell]]:
    """Yield a row per call and iterator; cells that repeat are the same object, since there may be a million rows."""
    host: Cell = {"v": pipeline.host.name}
    name: Cell = {"v": pipeline.name}
    known = pipeline.host.iterator
    calls_before = 0
    for part in pipeline.parts:
        call, rank = -1, host
        for at, id, start, total, own, count, kind in _list_records(part):
            if at != call:
                call, rank = at, {"v": calls_before + at - part.first}
            meta = known(id)
            shown = (
                f"<div style='padding: 1px;'><b>{meta.shown}</b><br/><div style='text-align: left;'>"
                f"Start Time: {start} us<br/>Total Duration: {total} us<br/>Self Duration: {own} us<br/>"
                f"# Calls: {count}</div></div>"
            )
            yield [host, name, rank, {"v": str(id), "f": shown}, meta.parent, _TYPES[kind]]
        calls_before += part.last - part.first


def _list_records(part: PipelinePart) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """Yield call, id, start, total and self time in µs, count and type of the iterators, by call, then id."""
    for records in part.host.reading.records(part.first, part.last):
        ids = part.host.reading.iterators.iterator_id[records.iterator]
        order = sort_rows(records.call, ids)
        for first in range(0, len(order), _SOME_RECORDS):
            yield from _pick_records(part.host, records, order[first : first + _SOME_RECORDS])


def _pick_records(
    host: CaptureReading, records: IteratorRecords, rows: Int64s
) -> Iterable[tuple[int, int, int, int, int, int, int]]:
    ids, call = host.reading.iterators.iterator_id[records.iterator[rows]], records.call[rows]
    kind = np.where(records.is_blocking[rows], 1 + (ids == host.bottleneck_id[call]), 0)
    times = (_cut_all_to_us(ps[rows]) for ps in (records.start_ps, records.total_ps, records.self_ps))
    return zip(call.tolist(), ids.tolist(), *times, records.count[rows].tolist(), kind.tolist(), strict=True)


def _cut_all_to_us(ps: Int64s) -> list[int]:
    """Cut all as ``_cut_to_us`` does: NumPy divides as Python does if the times are whole as doubles."""
    if len(ps) and (ps.min() < -_WHOLE or ps.max() > _WHOLE):
        return [_cut_to_us(time) for time in ps.tolist()]
    us: list[int] = (ps / 1e6).astype(np.int64).tolist()
    return us


def _cut_to_us(ps: int) -> int:
    """Cut to whole microseconds by way of a double, as the tool does."""
    return int(ps / 1_000_000)


def _describe_bottleneck(pipeline: Pipeline) -> str:
    meta, self_ps = pipeline.bottleneck
    return (
        f"<u>Iterator Type</u>: <b>{escape(meta.name, quote=False)}</b><br/><u>Long Name</u>: "
        f"{escape(meta.long_name, quote=False)}<br/><u>Latency</u>: {_cut_to_us(self_ps):,} us"
    )


# ---- advice

_PLAYBOOK = "https://www.tensorflow.org/guide/data_performance_analysis"
_GUIDE = "https://www.tensorflow.org/guide/data_performance"
_SERVICE = "https://www.tensorflow.org/api_docs/python/tf/data/experimental/service?version=nightly"

_CACHE = (
    "2. Consider adding <code>cache</code> after this transformation if your data fits into memory and it is "
    "appropriate (e.g., there is no randomness in upstream transformations like <code>shuffle</code>). See "
    f"{anchor(f'{_GUIDE}#caching', 'this')} for more details.<br/>"
)
_SOURCE = (
    "1. Check the locality of a host and input data. Ideally, they should be in the same cell (or very close, like the "
    "same region).<br/>2. Parallelize reading from this dataset source. See "
    f"{anchor(f'{_PLAYBOOK}#source_datasets', 'here')} and "
    f"{anchor(f'{_GUIDE}#parallelizing_data_extraction', 'here')} for more details.<br/>"
)
_DATA_SERVICE = (
    "1. Fetching data from tf.data service took a while. Profile the tf.data service worker to analyze the issue "
    f"further.<br/>2. See {anchor(_SERVICE, 'this')} for more details on tf.data service.<br/>3. See "
    f"{anchor(_PLAYBOOK, 'this')} for other suggestions."
)
_REMOTE = (
    "1. The remote data source is slow. Profile its host to analyze the issue further.<br/>2. See "
    f"{anchor(_PLAYBOOK, 'this')} for other suggestions."
)
_PARALLEL = (
    "1. Parallelize this transformation by setting <code>num_parallel_calls=tf.data.experimental.AUTOTUNE</code>. See "
    f"{anchor(f'{_GUIDE}#parallelizing_data_transformation', 'this')} for more details.<br/>{_CACHE}"
    f"3. Find more resources {anchor(f'{_PLAYBOOK}#transformation_datasets', 'here')}."
)
_SEQUENTIAL = (
    "1. This transformation is inherently sequential. Add outer parallelism by running multiple copies of the input "
    "pipeline over sharded inputs and combining the results. See "
    f"{anchor(f'{_PLAYBOOK}#transformation_datasets', 'this')} for more details.<br/>{_CACHE}"
    f"3. Find more resources {anchor(f'{_PLAYBOOK}#3_are_you_reaching_high_cpu_utilization', 'here')}."
)
_OTHER = f"See {anchor(_PLAYBOOK, 'this')} for suggestions."

_BY_NAMES = (
    (
        "TFRecord SSTable RecordIO Spanner TFColumn SleepwalkRemoteDataset TextLine StitchedTimelineDataset "
        "DateKeyDataset CapacitorProto LMDB ExternalDataset PearModel FixedLengthRecordV2 FromTensor TensorSlice "
        "Generator SyntheticDatasetOp",
        _SOURCE,
    ),
    ("DataService", _DATA_SERVICE),
    ("GuzzlerDataGuzzlerRemoteDataset ReverbDataset DatasetSampleGame Courier ReverbEpisodeDataset", _REMOTE),
    ("Map Interleave", _PARALLEL),
    ("Filter Batch Unbatch", _SEQUENTIAL),
)
_ADVICE = {name: words for names, words in _BY_NAMES for name in names.split()}
"""Advice of TensorFlow's tool, as HTML, by the exact short name of the bottleneck: it does not know ``BatchV2``."""

# ---- columns

Formula = tuple[Col, Callable[[Pipeline], str | int]]
_NAMES: tuple[Formula, ...] = ((_GRAPH[0], lambda row: row.host.name), (_GRAPH[1], lambda row: row.name))
_SUMMARY: tuple[Formula, ...] = (
    *_NAMES,
    (number("min", "Min (us)"), lambda row: _cut_to_us(min(row.latencies_ps))),
    (number("mean", "Avg (us)"), lambda row: _cut_to_us(sum(row.latencies_ps) // len(row.latencies_ps))),
    (number("max", "Max (us)"), lambda row: _cut_to_us(max(row.latencies_ps))),
    (number("num_calls", "# calls"), lambda row: sum(part.last - part.first for part in row.parts)),
    (number("num_slow_calls", "# slow calls"), lambda row: sum(ps > SLOW_PS for ps in row.latencies_ps)),
)
_BOTTLENECK: tuple[Formula, ...] = (
    *_NAMES,
    (number("max_latency", "Max Latency (us)"), lambda row: _cut_to_us(max(row.latencies_ps))),
    (text("bottleneck", "Bottleneck"), _describe_bottleneck),
    (text("suggestion", "Suggestion"), lambda row: _ADVICE.get(row.bottleneck[0].name, _OTHER)),
)
