"""The tables of communication: their columns, with units and what they mean."""

from __future__ import annotations

import pyarrow as pa

from fastprof.derive.communication.kinds import KINDS, SCOPES
from fastprof.schema.tables import TEXT, Column, TableSchema

INT, SHARE = pa.int64(), pa.float64()

_HOST = Column("host", TEXT, "host, as the capture's file is named")
_DEVICE = Column("device", TEXT, "plane of the device: a TensorCore, a SparseCore or a GPU")
_STEP = Column("step", INT, "number of the step, as in the analysis steps; null: of no step that all hosts have", True)
_KIND = Column("kind", TEXT, "; ".join(kind.name for kind in KINDS))
_SCOPE = Column("scope", TEXT, ", ".join(SCOPES))


def _ps(name: str, description: str, nullable: bool = False) -> Column:
    return Column(name, INT, description, nullable, "ps")


def _rate(name: str, description: str) -> Column:
    return Column(name, SHARE, description, True, "bytes/s")


def _split(span: str) -> tuple[Column, ...]:
    """Time of a device over ``span``, and what it was spent on."""
    return (
        _ps("duration_ps", f"time of {span} = compute_ps + exposed_ps + idle_ps"),
        _ps("compute_ps", "time in which the device computes: on TPUs an op that does not communicate is the innermost "
            "one of the op line; on GPUs a kernel runs on any stream that neither communicates nor copies"),
        _ps("communication_ps", "time in which anything is on the way = hidden_ps + exposed_ps"),
        _ps("hidden_ps", "time in which anything is on the way while the device computes"),
        _ps("exposed_ps", "time in which anything is on the way and the device does not compute"),
        _ps("idle_ps", "time in which nothing is on the way and the device does not compute"),
        Column("exposed_share", SHARE, "exposed_ps / duration_ps; null: the duration is 0", True, "share"),
        Column("hidden_share", SHARE, "hidden_ps / communication_ps; null: there is none", True, "share"),
        _ps("exposed_between_devices_ps", "exposed_ps of kinds whose scope that is"),
        _ps("exposed_with_host_ps", "likewise"),
        _ps("exposed_within_device_ps", "likewise"),
        _ps("if_hidden_ps", "what duration_ps could be if all communication were hidden: duration_ps - exposed_ps, but "
            "not less than communication_ps"),
    )  # fmt: skip


def _of_kind(span: str) -> tuple[Column, ...]:
    return (
        _ps("time_ps", f"time of {span} in which anything of the kind is on the way"),
        _ps("hidden_ps", "the same while the device computes"),
        _ps("exposed_ps", "time in which the device does not compute, and this kind is what it waits for: that of the "
            "op that it stands at, else the first of the list that is on the way. Adds up to exposed_ps of all"),
    )  # fmt: skip


TABLES = {
    "steps": TableSchema("steps", "a step on a device; of a capture without steps all that the device recorded", (
        _STEP,
        Column("name", TEXT, "what the step is called; null: all that the device recorded", True),
        _HOST,
        _DEVICE,
        Column("core_name", TEXT, "device as in the analysis steps, host:ordinal; of GPUs as in device"),
        Column("sparse_core", pa.bool_(), "the device is a SparseCore"),
        Column("complete", pa.bool_(), "the step is not cut off, as far as is known"),
        _ps("start_ps", "begin, on the clock of the device's ops"),
        *_split("the step on the device: of TPUs as in the analysis steps, of each GPU of its own events"),
    ), derived=True),
    "devices": TableSchema("devices", "a device, over all that it recorded", (
        _HOST,
        _DEVICE,
        Column("core_name", TEXT, "as in steps"),
        Column("sparse_core", pa.bool_(), "the device is a SparseCore"),
        Column("step_count", INT, "its steps"),
        *_split("the capture, from the device's first to its last op"),
    ), derived=True),
    "kinds": TableSchema("kinds", "a kind of communication, over all devices and all that they recorded", (
        _KIND,
        _SCOPE,
        Column("device_count", INT, "devices that have it"),
        Column("occurrences", INT, "operations that were done, on each device"),
        *_of_kind("all devices together"),
        Column("exposed_share", SHARE, "exposed_ps / what the devices recorded; null: that is 0", True, "share"),
        Column("moved_bytes", INT, "moved_bytes of its operations; null: of some they are not known", True,
               "bytes"),
    ), derived=True),
    "step_kinds": TableSchema("step_kinds", "a kind of communication in a step on a device, in rows as of steps", (
        _STEP, _HOST, _DEVICE, _KIND, _SCOPE, *_of_kind("the step"),
    ), derived=True),
    "operations": TableSchema("operations", "an op that communicates, over all devices, the most exposed first", (
        Column("program_id", INT, "program, uint64 as two's complement; 0: of none"),
        Column("name", TEXT, "instruction; of an asynchronous one that which starts it; of GPUs without HLO the kernel "
               "or copy, with its framework op"),
        _KIND,
        _SCOPE,
        Column("framework_op", TEXT, "op of the framework that it comes from; null: unknown", True),
        Column("device_count", INT, "devices that ran it"),
        Column("occurrences", INT, "how often, on all devices together"),
        _ps("total_ps", "time on the way: of an asynchronous operation from the begin of the op that starts it to the "
            "end of the one that ends it, else of the op"),
        _ps("mean_ps", "total_ps / occurrences, rounded down"),
        _ps("min_ps", "shortest"),
        _ps("max_ps", "longest"),
        _ps("wait_ps", "time in which devices stand at ops of it: on TPUs the op, or those that start and end it, are "
            "innermost; on GPUs total_ps"),
        _ps("hidden_ps", "time on the way in which the device computes"),
        _ps("exposed_ps", "time in which the device does not compute, and this is what it waits for"),
        Column("exposed_share", SHARE, "exposed_ps / that of all operations; null: that is 0", True, "share"),
        Column("replica_groups", TEXT, "devices that take part, as the HLO has them, or pairs of source and target; "
               "null: it has none, or is unknown", True),
        Column("group_size", INT, "devices of the largest group; null: unknown, or all", True),
        Column("payload_bytes", INT, "bytes of an occurrence, without padding: the buffer of an all-reduce, what an "
               "all-gather gathers, what a reduce-scatter is given, what others send; of copies on GPUs the mean; "
               "null: unknown", True, "bytes"),
        Column("moved_bytes", INT, "bytes of all occurrences; null: unknown, or too many for 64 bits", True, "bytes"),
        _rate("algorithm_bytes_per_s", "moved_bytes / total_ps; null: unknown"),
        _rate("bus_bytes_per_s", "the same times what passes the links of each of n devices for each byte: all-reduce "
              "2 (n - 1) / n; all-gather, reduce-scatter, all-to-all (n - 1) / n; others 1; null: unknown"),
        _rate("best_bus_bytes_per_s", "the same of min_ps, which holds least waiting for others; null: unknown, or of "
              "several sizes"),
        Column("text", TEXT, "instruction in full; null: unknown", True),
    ), derived=True),
    "meetings": TableSchema("meetings", "a collective operation that several devices had together", (
        _STEP,
        Column("number", INT, "which occurrence of the op it is in the step, or in a capture without steps: "
               "from 0 on, or, where devices were captured from different times on, up to -1, the last"),
        Column("program_id", INT, "program of the op"),
        Column("name", TEXT, "op, as in operations"),
        _KIND,
        Column("host_count", INT, "hosts whose devices took part"),
        Column("device_count", INT, "devices that took part, of those captured"),
        Column("first_device", TEXT, "device that came first, as host: device; null: hosts have no clock in common",
               True),
        Column("last_device", TEXT, "device that came last; of several hosts that which took the shortest; null: "
               "unknown", True),
        _ps("skew_ps", "from the begin of the first to the begin of the last device, on their host's clock; null: as "
            "for first_device", True),
        _ps("shortest_ps", "time of the device that took the shortest: what the operation takes when all are there"),
        _ps("longest_ps", "time of the device that took the longest"),
        _ps("wait_ps", "time of all devices beyond shortest_ps: waiting for the last one; null: asynchronous, so that "
            "it may end late for other reasons", True),
    ), derived=True),
    "stragglers": TableSchema("stragglers", "a device that took part in meetings, the one most waited for first", (
        _HOST,
        _DEVICE,
        Column("core_name", TEXT, "as in steps"),
        Column("meetings", INT, "in which it took part"),
        Column("last_count", INT, "in which it came last"),
        _ps("late_ps", "how long after the first device it began, summed; null: meetings are of several hosts", True),
        _ps("waited_ps", "how long it waited for others: its time beyond shortest_ps, summed"),
        _ps("caused_ps", "how long others waited in meetings to which it came last"),
    ), derived=True),
}  # fmt: skip
