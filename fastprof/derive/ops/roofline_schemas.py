"""The tables of the roofline: what their columns hold."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.derive.ops.hlo_schemas import BOUND_BY, IDENTITY, MEMORY, PROGRAM, RATES, SOURCE, TIMES, WORK
from fastprof.derive.ops.roofline import MEMORIES
from fastprof.schema.tables import TEXT, Column, TableSchema

_UNKNOWN = "null: the peak or the work is not known (of a sum, of more than 10 % of the time), the op is a transfer"

INTENSITIES: Final = tuple(
    Column(f"flops_per_{one.column}_byte", pa.float64(), f"flops / {one.column}_bytes; null: either is not known, or "
           "the bytes are 0", True)
    for one in MEMORIES
)  # fmt: skip
PEAK_PERCENTS: Final = tuple(
    Column(f"{column}_peak_percent", pa.float64(), f"{rate} / the peak of {name}; {_UNKNOWN}, or the time is 0", True,
           "%")
    for column, rate, name in (
        ("compute", "flops_per_s", "arithmetic"),
        *((one.column, f"{one.column}_bytes_per_s", one.name) for one in MEMORIES),
    )
)  # fmt: skip
BENEATH: Final = (
    *INTENSITIES,
    *PEAK_PERCENTS,
    BOUND_BY,
    Column("roofline_percent", pa.float64(), "the largest of these: the time that the work takes at the roofline / "
           "total_ps; null: the work or the peak of arithmetic or of HBM is not known, or it starts, awaits or is a "
           "transfer", True, "%"),
    Column("attainable_flops_per_s", pa.float64(), "flops_per_s / roofline_percent: what the roofline allows the same "
           "flops and bytes; null: as there, or there are no flops", True, "flop/s"),
)  # fmt: skip
_WORK_IN_ALL = (
    Column("flops", pa.float64(), "flops of the ops that tell them; null: none does", True, "flop"),
    Column("model_flops", pa.float64(), "those that the model asks for; null: likewise", True, "flop"),
    Column(
        "accessed_bytes",
        pa.float64(),
        "bytes of the ops that tell them, of transfers that start and end both tell once; null: none does",
        True,
        "bytes",
    ),
)

TABLES: Final = {
    "device": TableSchema("device", "a peak of the device: of one TensorCore, or of one GPU", (
        Column("resource", TEXT, "Compute, HBM, or a memory on the chip and a direction"),
        Column("peak", pa.float64(), "at best; null: not known", True),
        Column("unit", TEXT, "flop/s or bytes/s"),
        Column("ridge_flops_per_byte", pa.float64(), "from so many flops per byte on arithmetic is the limit, not this "
               "memory; null: it is none, or a peak is not known", True),
        Column("peak_source", TEXT, "capture; published table: what the maker publishes; unknown"),
    ), derived=True),
    "totals": TableSchema("totals", "all that ran, the average step, a step, or a program", (
        Column("scope", TEXT, "session, average step, step or program"),
        Column("step", pa.int64(), "number of the step; null: it is none", True),
        *(Column(one.name, one.type, f"{one.description}; null: no single one", True) for one in PROGRAM),
        Column("with_feeds", pa.bool_(), "infeed and outfeed count; false: neither their work nor their time. Rows of "
               "false are there only where any ran"),
        Column("total_ps", pa.int64(), "time observed on all cores, idle time included; of a program self time of its "
               "ops", unit="ps"),
        Column("per_core_ps", pa.int64(), "total_ps / cores, rounded down; null: there are none", True, "ps"),
        Column("busy_ps", pa.int64(), "time of that in which ops ran", unit="ps"),
        Column("busy_share", pa.float64(), "busy_ps / total_ps; null: that is 0", True, "share"),
        *_WORK_IN_ALL,
        *RATES,
        *MEMORY,
        *BENEATH,
    ), derived=True),
    "ops": TableSchema("ops", "an instruction of a program on devices, largest self time first", (
        Column("rank", pa.int64(), "place by self_ps, from 1"),
        *IDENTITY,
        *TIMES,
        Column("is_feed", pa.bool_(), "infeed or outfeed: it waits for the host"),
        Column("without_feeds_share", pa.float64(), "self_ps / time observed less that of infeed and outfeed; "
               "null: it is such an op, or that is 0", True, "share"),
        *WORK,
        *RATES,
        *MEMORY,
        *BENEATH,
        Column("least_ps", pa.int64(), "total_ps x roofline_percent: time at the roofline; null: as there", True, "ps"),
        Column("lost_ps", pa.int64(), "self_ps less least_ps, at least 0: what could be won; null: as there, or its "
               "work is that of ops within it", True, "ps"),
        Column("lost_share", pa.float64(), "lost_ps / self time of all ops and idle time; null: as lost_ps, or that "
               "is 0", True, "share"),
        *SOURCE,
        Column("expression", pa.string(), "the instruction in full; null: not known", True),
    ), derived=True),
    "lost_time": TableSchema("lost_time", "an op that took longer than at the roofline, the most lost time first", (
        Column("rank", pa.int64(), "place by lost_ps, from 1"),
        *IDENTITY,
        Column("self_ps", pa.int64(), "as in ops", unit="ps"),
        Column("least_ps", pa.int64(), "as in ops", unit="ps"),
        Column("lost_ps", pa.int64(), "as in ops", unit="ps"),
        Column("lost_share", pa.float64(), "as in ops; null: as there", True, "share"),
        Column("cumulative_lost_share", pa.float64(), "lost_share of this row and those before it; null: as there",
               True, "share"),
        Column("roofline_percent", pa.float64(), "as in ops", unit="%"),
        BOUND_BY,
        *SOURCE,
    ), derived=True),
    "memory": TableSchema("memory", "what an op moves to or from a memory", (
        Column("rank", pa.int64(), "of the op, in ops"),
        Column("program_id", pa.int64(), "as in ops"),
        Column("name", pa.string(), "of the op"),
        Column("space", TEXT, "HBM, CMEM, VMEM, host memory, layout space n of the program, memory n as the capture "
               "has it, or not told"),
        Column("direction", TEXT, "read, write; null: not told", True),
        Column("bytes", pa.float64(), "of all executions", unit="bytes"),
        Column("bytes_per_s", pa.float64(), "bytes / total_ps of the op; null: that is 0", True, "bytes/s"),
        Column("flops_per_byte", pa.float64(), "flops of the op / bytes; null: either is not known or 0", True),
        Column("peak_percent", pa.float64(), "bytes_per_s / the peak of the memory in this direction, of HBM that of "
               "both together; null: either is not known", True, "%"),
    ), derived=True),
}  # fmt: skip
