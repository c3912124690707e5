"""The page tf_data_bottleneck_analysis of TensorFlow 2.14, the last to have it: three tables.

Every id that is not an int64 reads as 0 there, and iterators with such ids are taken for one another: see
xprof/pipelines_as_xprof.py. Ids past 2⁶³ are hashes that TensorFlow itself writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

import numpy as np

from fastprof.analyses.contract import Report
from fastprof.derive.pipelines.reading import Records
from fastprof.schema.array_types import Int64s
from fastprof.xprof.pages.data_table import Col, Rows, anchor, number, text
from fastprof.xprof.pipelines_as_xprof import KEEPS as KEEPS
from fastprof.xprof.pipelines_as_xprof import RecordedPipelines, XprofReading, as_in_xprof, of_hosts
from fastprof.xprof.tf_data_hosts import Answered, Part, Pipeline, Pipelines, TfHost, all_pipelines

Cell = dict[str, object]

SLOW_PS = 50_000_000
"""A call is slow if it takes longer."""

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
"""Records that are rows of Python at once."""
_WHOLE = 2**53
"""Doubles hold all whole numbers up to this one."""
_TYPES: tuple[Cell, ...] = ({"v": 0}, {"v": 1}, {"v": 2})
"""Cells of iterators that nobody waits for, of those that the call waits for, and of its bottleneck."""


def answer(report: Report) -> object:
    pipelines = all_pipelines(_hosts(of_hosts(report)))
    slowest = pipelines.slowest()
    longest = int(slowest.longest_ps[0]) if len(slowest.longest_ps) else 0
    properties = {
        "is_input_bound": "true" if longest > SLOW_PS else "false",
        "summary_message": _SLOW if longest > SLOW_PS else _FAST if longest else _NONE,
    }
    return [
        {
            "cols": [column.head() for column in _GRAPH],
            "rows": Rows(lambda: ({"c": row} for pipeline in pipelines for row in _graph_rows(pipeline))),
        },
        _of_pipelines(_SUMMARY, pipelines),
        _of_pipelines(_BOTTLENECK, slowest) | {"p": properties},
    ]


def _hosts(kept: Sequence[RecordedPipelines]) -> list[TfHost]:
    hosts: dict[str, list[Answered]] = {}
    for one in kept:
        hosts.setdefault(one.recorded_host or one.host, []).append(_answered(as_in_xprof(one)))
    return [TfHost(name, captures) for name, captures in hosts.items()]


def _answered(reading: XprofReading) -> Answered:
    found, longest = np.zeros((2, len(reading.roots)), np.int64)
    for records in reading.records():
        _add_bottlenecks(records, reading.iterators.iterator_id, found, longest)
    return Answered(reading, found, longest)


def _add_bottlenecks(records: Records, iterator_id: Int64s, found: Int64s, longest: Int64s) -> None:
    """Of equal iterators the first that the call meets is its bottleneck."""
    waits = np.flatnonzero(records.is_blocking & (records.self_ps > 0))
    order = waits[np.lexsort((-records.self_ps[waits], records.call[waits]))]
    first = np.ones(len(order), bool)
    first[1:] = records.call[order[1:]] != records.call[order[:-1]]
    order = order[first]
    found[records.call[order]] = iterator_id[records.iterator[order]]
    longest[records.call[order]] = records.self_ps[order]


def _of_pipelines(columns: Sequence[Formula], pipelines: Pipelines) -> dict[str, object]:
    """A DataTable whose numbers are whole, as the tool's own page wrote them; its rows are made while it is written."""
    return {
        "cols": [column.head() for column, _ in columns],
        "rows": Rows(lambda: ({"c": [{"v": value(one)} for _, value in columns]} for one in pipelines)),
    }


def _graph_rows(pipeline: Pipeline) -> Iterator[list[Cell]]:
    """A row a call and iterator; cells that repeat are the same object, since there may be a million rows."""
    host: Cell = {"v": pipeline.host.name}
    name: Cell = {"v": pipeline.name}
    known = pipeline.host.iterator
    calls_before = 0
    for part in pipeline.parts:
        call, rank = -1, host
        for at, id, start, total, own, count, kind in _records(part):
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


def _records(part: Part) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """Call, id, start, total and self time in µs, count and type of the iterators, by call, then id."""
    for records in part.host.reading.records(part.first, part.last):
        ids = part.host.reading.iterators.iterator_id[records.iterator]
        order = np.lexsort((ids, records.call))
        for first in range(0, len(order), _SOME_RECORDS):
            yield from _some_records(part.host, records, order[first : first + _SOME_RECORDS])


def _some_records(host: Answered, records: Records, rows: Int64s) -> Iterable[tuple[int, int, int, int, int, int, int]]:
    ids, call = host.reading.iterators.iterator_id[records.iterator[rows]], records.call[rows]
    kind = np.where(records.is_blocking[rows], 1 + (ids == host.bottleneck_id[call]), 0)
    times = (_all_us(ps[rows]) for ps in (records.start_ps, records.total_ps, records.self_ps))
    return zip(call.tolist(), ids.tolist(), *times, records.count[rows].tolist(), kind.tolist(), strict=True)


def _all_us(ps: Int64s) -> list[int]:
    """As ``_us``: NumPy divides as Python does where the times are whole as doubles."""
    if len(ps) and (ps.min() < -_WHOLE or ps.max() > _WHOLE):
        return [_us(one) for one in ps.tolist()]
    us: list[int] = (ps / 1e6).astype(np.int64).tolist()
    return us


def _us(ps: int) -> int:
    """Cut to whole microseconds by way of a double, as the tool does."""
    return int(ps / 1_000_000)


def _bottleneck_text(pipeline: Pipeline) -> str:
    meta, self_ps = pipeline.bottleneck
    return (
        f"<u>Iterator Type</u>: <b>{escape(meta.name, quote=False)}</b><br/><u>Long Name</u>: "
        f"{escape(meta.long_name, quote=False)}<br/><u>Latency</u>: {_us(self_ps):,} us"
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
"""What TensorFlow's tool advises, as HTML, by the exact short name of the bottleneck: it does not know ``BatchV2``."""

# ---- columns

Formula = tuple[Col, Callable[[Pipeline], str | int]]
_NAMES: tuple[Formula, ...] = ((_GRAPH[0], lambda one: one.host.name), (_GRAPH[1], lambda one: one.name))
_SUMMARY: tuple[Formula, ...] = (
    *_NAMES,
    (number("min", "Min (us)"), lambda one: _us(min(one.latencies_ps))),
    (number("mean", "Avg (us)"), lambda one: _us(sum(one.latencies_ps) // len(one.latencies_ps))),
    (number("max", "Max (us)"), lambda one: _us(max(one.latencies_ps))),
    (number("num_calls", "# calls"), lambda one: sum(part.last - part.first for part in one.parts)),
    (number("num_slow_calls", "# slow calls"), lambda one: sum(ps > SLOW_PS for ps in one.latencies_ps)),
)
_BOTTLENECK: tuple[Formula, ...] = (
    *_NAMES,
    (number("max_latency", "Max Latency (us)"), lambda one: _us(max(one.latencies_ps))),
    (text("bottleneck", "Bottleneck"), _bottleneck_text),
    (text("suggestion", "Suggestion"), lambda one: _ADVICE.get(one.bottleneck[0].name, _OTHER)),
)
