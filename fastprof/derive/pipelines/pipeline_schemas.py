"""The tables of the analysis tf_data."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import TEXT, Column, TableSchema

_HOST: Final = Column("host", TEXT, "host, as the capture's file is named")
_PIPELINE: Final = Column("pipeline", TEXT, "input pipeline: Host:k or Device:k, numbered on its host by first call")
_ITERATOR: Final = Column("iterator_id", TEXT, "id of the iterator, as TensorFlow recorded it")
_NAME: Final = Column("name", TEXT, "what the iterator does: the last part of its long name")
_LONG_NAME: Final = Column("long_name", TEXT, "its name after those of all that ask for its elements")
_BUFFER: Final = Column(
    "buffer_size", pa.int64(), "elements that its buffer holds, as recorded last; null: not recorded", True
)


def _bottleneck(what: str, of: str) -> tuple[Column, ...]:
    null = "null: no time at all"
    return (
        Column("bottleneck_id", TEXT, f"iterator with the largest critical time {what}; {null}", True),
        Column("bottleneck_name", TEXT, f"its name; {null}", True),
        Column("bottleneck_long_name", TEXT, f"its long name; {null}", True),
        Column("bottleneck_ps", pa.int64(), f"its critical time {of}; {null}", True, "ps"),
    )


TABLES: Final = {
    "pipelines": TableSchema("pipelines", "an input pipeline of a host, in order of its first call", (
        _HOST,
        _PIPELINE,
        Column("kind", TEXT, "host; device: what copies elements to a device ahead"),
        Column("root_id", TEXT, "id of the iterator that is called"),
        Column("name", TEXT, "long name of the iterator that is called"),
        Column("call_count", pa.int64(), "calls: each brings an element, which is a batch as a rule"),
        Column("slow_call_count", pa.int64(), "calls longer than slow_call_us"),
        Column("min_ps", pa.int64(), "shortest call", unit="ps"),
        Column("mean_ps", pa.int64(), "total_ps / call_count, rounded down", unit="ps"),
        Column("p50_ps", pa.int64(), "the least time that 50 of 100 calls do not exceed", unit="ps"),
        Column("p90_ps", pa.int64(), "the least time that 90 of 100 calls do not exceed", unit="ps"),
        Column("p99_ps", pa.int64(), "the least time that 99 of 100 calls do not exceed", unit="ps"),
        Column("max_ps", pa.int64(), "longest call", unit="ps"),
        Column("total_ps", pa.int64(), "sum of the calls", unit="ps"),
        Column("between_calls_ps", pa.int64(), "from the first call to the last, time in which none of them ran",
               unit="ps"),
        Column("cpu_budget", pa.int64(), "cores that tf.data takes the host to have: all, or as the program says; "
               "null: not recorded", True),
        Column("threadpool_size", pa.int64(), "threads of its own pool, which run its functions; null: it has none, or "
               "it is not recorded", True),
        *_bottleneck("over all calls, those together that are alike", "and that of those alike / call_count, rounded "
                     "down"),
        Column("bottleneck_share", pa.float64(), "critical time of these / total_ps; null: no time at all", True,
               "share"),
        Column("bottleneck_call_count", pa.int64(), "calls whose bottleneck one of these is too"),
    ), derived=True),
    "iterators": TableSchema("iterators", "an iterator of a pipeline, each before those whose elements it takes", (
        _HOST,
        _PIPELINE,
        Column("depth", pa.int32(), "how many iterators lie between it and the program"),
        _ITERATOR,
        Column("parent_id", TEXT, "id of the iterator that takes its elements; null: the program does", True),
        _NAME,
        _LONG_NAME,
        Column("is_async", pa.bool_(), "threads of its own make its elements, before they are asked for"),
        Column("call_count", pa.int64(), "its events in calls of the pipeline"),
        Column("total_ps", pa.int64(), "time of these, also while nobody waited for it", unit="ps"),
        Column("self_ps", pa.int64(), "that less the time in which its inputs run", unit="ps"),
        Column("critical_ps", pa.int64(), "its share of the time of all calls: what they waited for in it itself. Of "
               "all iterators together it is the time of the calls", unit="ps"),
        Column("critical_share", pa.float64(), "critical_ps / the time of all calls; null: that is 0", True, "share"),
        Column("is_blocking", pa.bool_(), "a call waited for it, or for what it takes part in"),
        Column("is_bottleneck", pa.bool_(), "it is the bottleneck of the pipeline"),
        Column("event_count", pa.int64(), "all of its events on the host, whether or not they are of a call"),
        Column("event_self_ps", pa.int64(), "time of these less that of iterators inside them", unit="ps"),
        Column("function_ps", pa.int64(), "time of user functions that it ran, each by itself", unit="ps"),
        Column("parallelism", pa.int64(), "how many calls it runs at a time, as recorded last; null: not recorded",
               True),
        _BUFFER,
        Column("autotune", pa.bool_(), "tf.data chooses that itself; null: not recorded", True),
        Column("deterministic", pa.bool_(), "it keeps the order of elements; null: not recorded", True),
        Column("cycle_length", pa.int64(), "inputs that it takes from in turn; null: not recorded", True),
        Column("batch_size", pa.int64(), "elements of a batch; null: not recorded", True),
    ), derived=True),
    "critical_path": TableSchema("critical_path", "a stretch of the slowest call of a pipeline, in order of time", (
        _HOST,
        _PIPELINE,
        Column("iterator_id", TEXT, "id of the iterator that the call waited for"),
        _NAME,
        Column("start_ps", pa.int64(), "begin, from the start of the host's capture", unit="ps"),
        Column("duration_ps", pa.int64(), "how long", unit="ps"),
    ), derived=True),
    "bottlenecks": TableSchema("bottlenecks", "the bottleneck of a pipeline, those first that calls take "
                               "longest of", (
        _HOST,
        _PIPELINE,
        _ITERATOR,
        _NAME,
        _LONG_NAME,
        Column("critical_ps", pa.int64(), "critical time of it and of those alike / calls, rounded down", unit="ps"),
        Column("critical_share", pa.float64(), "that / time of all calls", False, "share"),
        Column("total_ps", pa.int64(), "time of all calls of the pipeline", unit="ps"),
        Column("max_call_ps", pa.int64(), "slowest call of the pipeline", unit="ps"),
        Column("suggestion", TEXT, "how to make it faster"),
    ), derived=True),
    "self_time": TableSchema("self_time", "what the critical time of an iterator is made of, longest first", (
        _HOST,
        _PIPELINE,
        _ITERATOR,
        _NAME,
        Column("part", TEXT, "file read, user function, taking from the buffer, waiting for a buffer, other"),
        Column("time_ps", pa.int64(), "time over all calls", unit="ps"),
        Column("share", pa.float64(), "time_ps / critical time of the iterator; null: that is 0", True, "share"),
    ), derived=True),
    "step_waits": TableSchema("step_waits", "a pipeline in a step of its host", (
        _HOST,
        Column("step", pa.int64(), "number of the step on its host: group_id in the table steps of the analysis steps"),
        Column("step_name", TEXT, "name of the step"),
        _PIPELINE,
        Column("call_count", pa.int64(), "calls that belong to the step, wherever they ran"),
        Column("wait_ps", pa.int64(), "time of the step in which one of these ran", unit="ps"),
        Column("wait_share", pa.float64(), "wait_ps / duration of the step; null: that is 0", True, "share"),
        Column("ahead_ps", pa.int64(), "time of the step in which a call of no step ran, as on a thread that runs "
               "ahead; null: too many steps and pipelines to look for it", True, "ps"),
        Column("step_ps", pa.int64(), "duration of the step", unit="ps"),
    ), derived=True),
    "what_if": TableSchema("what_if", "a change of one iterator and what a batch would take, what saves most first", (
        _HOST,
        _PIPELINE,
        _ITERATOR,
        _NAME,
        Column("change", TEXT, "twice as fast; prefetched: it runs ahead of what takes from it; parallel by n"),
        Column("now_ps", pa.int64(), "time per batch: mean call and mean time between calls; null: there was a single "
               "call", True, "ps"),
        Column("then_ps", pa.int64(), "time per batch after the change, where cpu_budget is known if all threads "
               "compute; null: it does not apply", True, "ps"),
        Column("least_then_ps", pa.int64(), "the same if threads wait rather than compute, for storage or other hosts: "
               "cores do not bound it then; null: it does not apply", True, "ps"),
        Column("saved_ps", pa.int64(), "now_ps less then_ps; null: it does not apply", True, "ps"),
        Column("speedup", pa.float64(), "now_ps / then_ps; null: it does not apply, or then_ps is 0", True),
        Column("iterator_count", pa.int64(), "iterators that change together: they differ only in which of several "
               "inputs they are"),
        Column("assumption", TEXT, "what the prediction rests on; why there is none"),
    ), derived=True),
    "calls": TableSchema("calls", "a call of a pipeline, slowest first", (
        _HOST,
        _PIPELINE,
        Column("rank", pa.int64(), "0: the slowest of its pipeline"),
        Column("step", pa.int64(), "step that it belongs to, as in step_waits; null: none", True),
        Column("start_ps", pa.int64(), "begin, from the start of the host's capture", unit="ps"),
        Column("duration_ps", pa.int64(), "how long the program waited", unit="ps"),
        Column("is_slow", pa.bool_(), "it took longer than slow_call_us"),
        *_bottleneck("of the call", "in the call")[:2],
        Column("bottleneck_ps", pa.int64(), "its critical time in the call; null: no time at all", True, "ps"),
    ), derived=True),
    "call_iterators": TableSchema("call_iterators", "an iterator in a call, from the program inwards", (
        _HOST,
        _PIPELINE,
        Column("rank", pa.int64(), "of the call, as in calls"),
        _ITERATOR,
        _NAME,
        Column("start_ps", pa.int64(), "begin of its first event, from the start of the host's capture", unit="ps"),
        Column("total_ps", pa.int64(), "time of its events", unit="ps"),
        Column("self_ps", pa.int64(), "that less the time in which its inputs run", unit="ps"),
        Column("critical_ps", pa.int64(), "its share of the time of the call", unit="ps"),
        Column("call_count", pa.int64(), "its events"),
        Column("is_blocking", pa.bool_(), "the call waited for it, or for what it takes part in"),
        Column("is_bottleneck", pa.bool_(), "it has the largest critical time of the call"),
    ), derived=True),
}  # fmt: skip
