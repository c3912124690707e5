"""The table of links between devices, and what is said where the devices are not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa

from fastprof.derive.communication.device_links import HostDevicesNamed, links, rates
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.devices.communication_kinds import KINDS
from fastprof.schema.arrow_columns import texts
from fastprof.schema.column_kinds import Bytes, Count, Kind, Picoseconds, Text
from fastprof.schema.tables import Column, Formula, TableSchema
from fastprof.wording.quantities import counted

_Rate: Final = Kind(pa.float64(), "bytes/s")


def _end(name: str, description: str, of_end: Formula) -> Column:
    return Text(name, description, lambda rows: texts([of_end(one) for one in rows.ends], getattr(rows, name[:6])))


def _known(kind: Kind, name: str, description: str) -> Column:
    """A column that is null if it is negative, or NaN."""
    return kind(name, description, lambda rows: getattr(rows, name), lambda rows: ~(getattr(rows, name) >= 0))


LINKS: Final = TableSchema(
    "links",
    "a device that sends to another one, by a kind of communication, slowest first. Only kinds whose devices are "
    "recorded: collective-permute, send and recv, copies between devices. The way between the two devices is not "
    "recorded, and may be over others",
    (
        _end("source", "device that sends, as host: device; core N: the TPU core of this number in the system, and "
             "rank N: a rank of the program, which is not captured or has several devices", lambda one: one[0]),
        _end("target", "device that receives, likewise", lambda one: one[0]),
        _end("source_host", "host of source; null: not captured", lambda one: one[1]),
        _end("target_host", "host of target; null: not captured", lambda one: one[1]),
        Text("kind", "kind of communication: collective-permute; send and recv; copy between devices",
             lambda rows: texts([kind.title for kind in KINDS], rows.kind)),
        Text("measured_by", "end that recorded the figures: target, if that is captured and records them, else source",
             lambda rows: texts(["source", "target"], rows.by_target)),
        Count("occurrences", "operations that sent from source to target", lambda rows: rows.occurrences),
        _known(Bytes, "bytes", "bytes that they sent; null: unknown for one of them"),
        Picoseconds("time_ps", "time in flight of these operations on the device that measured_by names, summed. It "
                    "includes waiting for the other device, and of a permute what the device sends itself: all devices "
                    "run it at once", lambda rows: rows.time_ps),
        _known(_Rate, "bytes_per_s", "bytes / time_ps; null: bytes are unknown, or the operations took no time"),
        _known(_Rate, "best_bytes_per_s", "the same of the fastest operation, which waited least; null: its bytes are "
               "unknown, or it took no time. For instructions, it is the shortest execution of each"),
    ),
    derived=True,
)  # fmt: skip


def table(kept: Sequence[HostCommunication]) -> pa.Table:
    hosts = [HostDevicesNamed(one.host, [device.plane for device in one.devices]) for one in kept]
    found = links(hosts, [one.links for one in kept])
    ends: list[tuple[str, Any]] = [
        (f"{hosts[host].name}: {name}" if host >= 0 else name, hosts[host].name if host >= 0 else None)
        for host, name in found.ends
    ]
    return LINKS.of(SimpleNamespace(
        **(found._asdict() | {"ends": ends}),
        bytes_per_s=rates(found.bytes, found.time_ps),
        best_bytes_per_s=rates(found.best_bytes, found.best_ps),
    ))  # fmt: skip


def remarks(kept: Sequence[HostCommunication]) -> Iterator[tuple[str, str]]:
    """Severity and text: between which devices bytes moved may not be known."""
    unknown, left_out = sum(one.links.unknown for one in kept), sum(one.links.left_out for one in kept)
    if unknown:
        many = counted(unknown, "permute, send, recv or copy", "permutes, sends, recvs and copies")
        text = (
            f"Between which devices {many} moved bytes is not known, so that the table links leaves them out: it takes "
            "pairs of devices in the instruction and the device assignment of its program, or a rank or a GPU that the "
            "event records."
        )
        yield "info", text
    if left_out:
        yield "info", f"Links are many: the table has the slowest of each host, and lacks {left_out:,} others."
