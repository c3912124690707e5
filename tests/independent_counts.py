"""Counts of what devices ran over files: they share no code with the product, but use Python's json and the slow reader
of XSpaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import slow_reader

import fastprof


class Record(NamedTuple):
    """What a GPU ran. ROCm has kernels that copy: both. ``bytes``: of copies, None where they are not recorded."""

    name: str
    duration_ps: int
    kernel: bool
    copies: bool
    bytes: int | None


class Counts(NamedTuple):
    kernels: int
    kernel_ps: int
    collectives: int
    collective_ps: int
    copies: int
    copied_bytes: int


def count(records: list[Record]) -> Counts:
    """Counts what GPUs ran by names: the captures here have collectives of NCCL and RCCL only."""
    kernels = [record for record in records if record.kernel]
    collectives = [record for record in kernels if re.match(r"(void )?[nr]ccl", record.name, re.I)]
    copies = [record for record in records if record.copies]
    return Counts(
        len(kernels), sum(record.duration_ps for record in kernels),
        len(collectives), sum(record.duration_ps for record in collectives),
        len(copies), sum(record.bytes or 0 for record in copies),
    )  # fmt: skip


def counted_by_fastprof(profile: fastprof.Profile) -> Counts:
    kernels, kinds = profile.kernel_stats().scalars, profile.communication().tables["kinds"].to_pylist()
    streams = profile.streams().tables
    copies = streams["copies"].to_pylist() if "copies" in streams else []
    collectives = [row for row in kinds if not row["kind"].startswith("copy")]
    return Counts(
        kernels["occurrences"].value or 0, kernels["total_ps"].value or 0,
        sum(row["occurrences"] for row in collectives), sum(row["time_ps"] for row in collectives),
        sum(row["count"] for row in copies), sum(row["bytes"] or 0 for row in copies),
    )  # fmt: skip


# ---- XSpace ---------------------------------------------------------------------------------------


def _stats(plane: slow_reader.Plane, stats: list[slow_reader.Stat]) -> Iterator[tuple[str, Any]]:
    for stat in stats:
        value = plane.stat_metadata[stat.value].name if stat.kind == "ref" else stat.value
        yield plane.stat_metadata[stat.metadata_id].name, value


def records_of_xspace(space: slow_reader.Space) -> Iterator[Record]:
    for plane in space.planes:
        lines = [line for line in plane.lines if line.name.startswith("Stream #")]
        for event in (event for line in lines for event in line.events):
            metadata, stats = plane.event_metadata[event.metadata_id], dict(_stats(plane, event.stats))
            details = str(stats.get("memcpy_details") or stats.get("memset_details") or "")
            size = re.search(r"\b(?:size|num_bytes):(\d+)", details)
            copies = bool(details) or bool(re.search(r"mem(cpy|set)|copyBuffer|fillBuffer", metadata.name, re.I))
            kernel = "kernel_details" in stats or not copies
            yield Record(metadata.name, event.duration_ps, kernel, copies, int(size[1]) if size else None)


def _marks(space: slow_reader.Space) -> Iterator[int]:
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events if plane.name.startswith("/host:")):
            stats = dict(_stats(plane, event.stats))
            if "step_num" in stats:
                yield int(stats["step_num"])


def steps_of_xspace(space: slow_reader.Space) -> int:
    """The steps that devices mark, most on any one of them; without any, the numbers of steps that threads mark."""
    lines = [line for plane in space.planes for line in plane.lines if line.name == "Steps"]
    return max((len(line.events) for line in lines), default=0) or len(set(_marks(space)))


class TpuCounts(NamedTuple):
    """``kinds``: by kind of communication, how often; copies to and from the host together."""

    ops: int
    op_ps: int
    kinds: Counter[str]


_ASYNC = ("copy-start", "copy-done")


def _kind(category: str) -> str | None:
    """The kind of communication that an op of this category starts."""
    if category in _ASYNC:
        return "copy" if category == _ASYNC[0] else None
    if category in ("host send", "host recv"):
        return "host send and recv"
    name = category.removesuffix("-start")
    collective = re.fullmatch("all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute|infeed|outfeed", name)
    return name if collective else None


def count_tpu_ops(space: slow_reader.Space) -> TpuCounts:
    """The ops of the lines of ops: none of the captures here nests any."""
    ops, op_ps, kinds = 0, 0, Counter[str]()
    for plane in space.planes:
        for event in (event for line in plane.lines if line.name == "XLA Ops" for event in line.events):
            of_op = dict(_stats(plane, plane.event_metadata[event.metadata_id].stats))
            ops, op_ps = ops + 1, op_ps + dict(_stats(plane, event.stats)).get("device_duration_ps", event.duration_ps)
            kinds[_kind(of_op.get("hlo_category", "")) or ""] += 1
    del kinds[""]
    return TpuCounts(ops, op_ps, kinds)


def tpu_ops_by_fastprof(profile: fastprof.Profile) -> TpuCounts:
    kinds = Counter[str]()
    for row in profile.communication().tables["kinds"].to_pylist():
        kinds["copy" if row["kind"].startswith("copy") else row["kind"]] += row["occurrences"]
    root = profile.op_profile().tables["tree"].to_pylist()[0]
    return TpuCounts(root["occurrences"], profile.op_profile().scalars["op_ps"].value, kinds)
