"""How to make an iterator of tf.data faster, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastprof.derive.pipelines.iterator_kinds import Kind, kind_of

_PREFETCH = "end the pipeline with prefetch(tf.data.AUTOTUNE)"
_ADVICE: Final = {
    Kind.SOURCE: "Reading is slow: read several files at a time with interleave(..., num_parallel_calls=tf.data."
    "AUTOTUNE), keep the data close to the host, in few large files, and cache() it if it fits into memory.",
    Kind.SERVICE: "The workers of the tf.data service are slow: profile one of them, or add workers.",
    Kind.REMOTE: "The remote source is slow: profile its host.",
    Kind.FUNCTION: "Run it in parallel: num_parallel_calls=tf.data.AUTOTUNE. If its results fit into memory and are "
    "the same every time, put cache() after it.",
    Kind.INTERLEAVING: "Read several inputs at a time: interleave(..., num_parallel_calls=tf.data.AUTOTUNE), also "
    "in place of flat_map.",
    Kind.SEQUENTIAL: "It takes its elements one after another: give it less to do (filter or map earlier, batch "
    "before it), cache() after it, or run several copies of the pipeline over shards and interleave them.",
    Kind.BUFFER: "Its buffer was empty: what fills it is slower than what takes from it. Make that faster; a larger "
    "buffer helps only if single elements are slow.",
    Kind.PARALLEL: "Its function is slow. Make it cheaper, or look whether all cores are busy.",
    Kind.PARALLEL_INTERLEAVING: "Reading is slow although several inputs are read at a time: read more at a time "
    "(cycle_length, num_parallel_calls), or look at the storage.",
    Kind.WRAPPER: "tf.data puts it around a pipeline to tune it: what calls waited for inside it left no events. If "
    f"the pipeline does not do so yet, {_PREFETCH}.",
    Kind.OTHER: f"Do less in it or do it less often (batch before it), cache() after it, and {_PREFETCH}.",
}
_GENERATOR: Final = (
    "It brings elements from the host's pipeline to the device: make that pipeline faster, and copy ahead with "
    "prefetch_to_device(..., buffer_size=2) or more."
)
_PYTHON: Final = "A generator in Python runs one element at a time: let it give batches, or read with tf.data itself."
_BATCH: Final = (
    "It copies elements into batches: batch(..., num_parallel_calls=tf.data.AUTOTUNE) copies several batches at a time."
)
_READS: Final = (
    "Most of it is reading files: read several at a time with interleave(..., num_parallel_calls=tf.data.AUTOTUNE)."
)
_MOSTLY = 0.5
_LATE: Final = (
    "No change of one iterator makes batches faster: what makes its elements takes less time than there is, by what "
    "its events record. They came late for another reason, such as threads that wait for a core or a lock: look at its "
    "slowest calls on the timeline."
)
_NOTHING: Final = "No change of one iterator makes batches faster."
_ELSEWHERE: Final = "To change it alone makes batches no faster: other iterators set the pace (table what_if)."
_CHEAPER: Final = (
    "Make what it does cheaper, or cache() after it if the results are the same every time: to run more of it "
)


@dataclass(frozen=True, slots=True)
class Helps:
    """Whether a change of an iterator makes batches faster; None: not predicted. ``faster``: less work in it,
    ``several``: several of its calls at a time; ``any_change``: of any iterator of the pipeline; ``cores``: of the
    host, if they keep several calls from helping, else 0."""

    faster: bool | None = None
    several: bool | None = None
    any_change: bool | None = None
    cores: int = 0


def suggestion(
    name: str,
    long_name: str,
    recorded: Mapping[str, int | float | str | None],
    *,
    to_device: bool = False,
    reading: float = 0.0,
    helps: Helps = Helps(),
) -> str:
    """What to do about an iterator that takes the time. ``recorded``: its attributes; ``to_device``: it brings elements
    to a device; ``reading``: share of its time that is reading files; ``helps``: predictions: no change is proposed
    that saves nothing."""
    kind = kind_of(name)
    if kind is not Kind.WRAPPER and helps.any_change is False:
        ahead = kind in (Kind.BUFFER, Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING)
        return _LATE if ahead else _NOTHING
    if helps.faster is False and not helps.several:
        return _ELSEWHERE
    if helps.faster and helps.several is False:
        cores = f", as there {'is 1 core' if helps.cores == 1 else f'are {helps.cores:,} cores'}" if helps.cores else ""
        return f"{_CHEAPER}at a time saves nothing{cores}."
    if to_device:
        return _GENERATOR
    if kind is Kind.SOURCE and name.partition("[")[0] == "Generator":
        return _PYTHON
    if kind is Kind.SOURCE and "::ParallelInterleave" in long_name:
        return _ADVICE[Kind.PARALLEL_INTERLEAVING]
    if name.startswith(("Batch", "PaddedBatch")):
        return _BATCH
    text = _ADVICE[kind]
    if kind in (Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING):
        text = _more_at_a_time(recorded) or text
    if reading >= _MOSTLY and kind not in (Kind.SOURCE, Kind.INTERLEAVING, Kind.PARALLEL_INTERLEAVING):
        text = _READS
    return text


def _more_at_a_time(recorded: Mapping[str, int | float | str | None]) -> str | None:
    """To raise the parallelism, if it is recorded and fixed."""
    count, autotune = recorded.get("parallelism"), recorded.get("autotune")
    if not isinstance(count, int) or count < 1 or is_true(autotune):
        return None
    calls = "1 call" if count == 1 else f"{count:,} calls"
    return f"It runs {calls} at a time: raise num_parallel_calls, or let tf.data choose with tf.data.AUTOTUNE."


def is_true(value: int | float | str | None) -> bool | None:
    """A truth as TensorFlow writes it; None: unknown."""
    if isinstance(value, str):
        return {"true": True, "false": False, "1": True, "0": False}.get(value.lower())
    return None if value is None else bool(value)
