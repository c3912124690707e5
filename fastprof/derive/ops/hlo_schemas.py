"""The tables of HLO statistics: what their columns hold."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import TEXT, Column, TableSchema

PROGRAM: Final = (
    Column("program_id", pa.int64(), "program, uint64 as two's complement; 0: the op is of no program"),
    Column("program", TEXT, "name of the program; null: the capture does not carry it", True),
)
IDENTITY: Final = (
    *PROGRAM,
    Column("category", TEXT, "category of the instruction"),
    Column("name", pa.string(), "name of the instruction"),
    Column("core_type", TEXT, "TensorCore or SparseCore; null: the device is no TPU", True),
)
_UNTOLD = "null: neither the capture nor its programs tell"
_RATE = f"{_UNTOLD}, or total_ps is 0"
_SHARE_OF_ALL = "self_ps / that of all ops and idle time; null: that is 0"

_WAITS: Final = ", or it starts, awaits or is a transfer that does not go at the speed of the device's memory"
_EXECUTIONS: Final = Column("executions", pa.int64(), "how often it ran as a whole: on GPUs of one or more kernels, "
                            "elsewhere as occurrences")  # fmt: skip
MIN_PS: Final = Column("min_ps", pa.int64(), "shortest occurrence, by the host's clock; null: not recorded", True, "ps")
ON_TPUS: Final = (
    Column("normalized_ps", pa.int64(), "total_ps at the nominal clock; null: not on TPUs", True, "ps"),
    Column("dma_stall_ps", pa.int64(), "time that it waited for memory transfers; null: not on TPUs", True, "ps"),
)
ENERGY: Final = Column(
    "energy_joules", pa.float64(), "energy that the device recorded; null: not recorded", True, "joules"
)
TIMES: Final = (
    Column("occurrences", pa.int64(), "how often it ran; of GPUs how many kernels"),
    _EXECUTIONS,
    Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
    Column("mean_ps", pa.int64(), "total_ps / occurrences, rounded down; null: that is 0", True, "ps"),
    MIN_PS,
    Column("self_ps", pa.int64(), "sum of durations less the time of ops nested in them", unit="ps"),
    Column("self_share", pa.float64(), _SHARE_OF_ALL, True, "share"),
    Column("cumulative_self_share", pa.float64(), "self_share of this row and those before it; null: as there", True,
           "share"),
    Column("busy_share", pa.float64(), "self_ps / self_ps of all ops; null: that is 0", True, "share"),
)  # fmt: skip

WORK: Final = (
    Column("flops", pa.float64(), f"floating point operations that the device did; {_UNTOLD}", True, "flop"),
    Column("model_flops", pa.float64(), f"those that the model asks for; {_UNTOLD}", True, "flop"),
    Column("accessed_bytes", pa.float64(), f"bytes read and written; {_UNTOLD}", True, "bytes"),
    Column("flops_source", TEXT, f"where flops are from: capture, or hlo, its program; {_UNTOLD}", True),
    Column("bytes_source", TEXT, f"where bytes are from, likewise; {_UNTOLD}", True),
)  # fmt: skip
RATES: Final = (
    Column("flops_per_s", pa.float64(), f"flops / total_ps; {_RATE}", True, "flop/s"),
    Column("model_flops_per_s", pa.float64(), f"model_flops / total_ps; {_RATE}", True, "flop/s"),
    Column("bytes_per_s", pa.float64(), f"accessed_bytes / total_ps; {_RATE}{_WAITS}", True, "bytes/s"),
    Column("flops_per_byte", pa.float64(), f"flops / accessed_bytes; {_UNTOLD}, or that is 0", True),
)  # fmt: skip


def memory_columns(column: str, name: str) -> tuple[Column, ...]:
    """Bytes and rate of one memory."""
    whole = ", or all bytes of an op of which nothing tells where they go" if column == "hbm" else ""
    known = f"{_UNTOLD} the op's bytes"
    return (
        Column(f"{column}_bytes", pa.float64(), f"bytes of {name}{whole}; {known}", True, "bytes"),
        Column(f"{column}_bytes_per_s", pa.float64(), f"{column}_bytes / total_ps; {known}, or total_ps is 0"
               f"{_WAITS}", True,
               "bytes/s"),
    )  # fmt: skip


MEMORY: Final = tuple(
    one
    for column, name in (("hbm", "HBM"), ("cmem_read", "CMEM read"), ("cmem_write", "CMEM written"),
                         ("vmem_read", "VMEM read"), ("vmem_write", "VMEM written"))
    for one in memory_columns(column, name)
)  # fmt: skip

BOUND_BY: Final = Column(
    "bound_by", TEXT, "the resource that it came nearest to exhaust: Compute, HBM, or a memory of the TPU and a "
    "direction; null: its work or the peaks of the device are not known, or it did none" + _WAITS, True)  # fmt: skip
SOURCE: Final = (
    Column("framework_op", pa.string(), "framework op that it comes from; null: not known", True),
    Column("source", pa.string(), "file:line of the program's source; null: not known", True),
)

_GROUPED: Final = (
    Column("op_count", pa.int64(), "how many ops"),
    Column("occurrences", pa.int64(), "how often they ran; of GPUs how many kernels"),
    Column("executions", pa.int64(), "how often they ran as a whole"),
    Column("self_ps", pa.int64(), "sum of their self times", unit="ps"),
    Column("self_share", pa.float64(), _SHARE_OF_ALL, True, "share"),
    Column("busy_share", pa.float64(), "self_ps / self_ps of all ops; null: that is 0", True, "share"),
)
_GROUPED_WORK: Final = (
    Column("flops", pa.float64(), "flops of the ops that tell them; null: none does", True, "flop"),
    Column("accessed_bytes", pa.float64(), "bytes of the ops that tell them, of transfers that start and end both tell "
           "once; null: none does", True, "bytes"),
    Column("flops_per_s", pa.float64(), "flops / self_ps of the ops that tell them; null: none does, or that is 0",
           True, "flop/s"),
    Column("bytes_per_s", pa.float64(), "accessed_bytes / self_ps of the ops that tell them; null: none does, or that "
           "is 0", True, "bytes/s"),
    Column("unknown_work_ps", pa.int64(), "self time of ops with neither known flops nor known bytes", unit="ps"),
)  # fmt: skip

TABLES: Final = {
    "ops": TableSchema("ops", "an instruction of a program on devices, or what else ran there, the largest "
                       "self time first", (
        Column("rank", pa.int64(), "place by self_ps, from 1"),
        *IDENTITY,
        *TIMES,
        *ON_TPUS,
        Column("dma_stall_share", pa.float64(), "dma_stall_ps / total_ps; null: as there, or that is 0", True, "share"),
        *WORK,
        *RATES,
        *MEMORY,
        BOUND_BY,
        *SOURCE,
        Column("source_stack", pa.string(), "calls that lead there, a line each; null: not known", True),
        Column("is_rematerialized", pa.bool_(), "it computes again what was computed before, to save memory"),
        Column("is_outside_compilation", pa.bool_(), "it serves what runs on the host, as XLA did not compile it"),
        Column("is_eager", pa.bool_(), "some occurrence was executed eagerly, outside any compiled function"),
        Column("replica_groups", pa.string(), "devices that a collective op is among, as its text has them; null: none",
               True),
        Column("attribution", TEXT, "how its events are known to be of the op, if they do not say so themselves; null: "
               "they do", True),
        Column("unattributed", TEXT, "why the op of these events is not known; null: it is", True),
        Column("array_bytes", pa.int64(), "bytes of its output and operands, once; null: its text does not tell", True,
               "bytes"),
        Column("padded_bytes", pa.int64(), "what these take in memory, with the padding of their tiles; null: as there",
               True, "bytes"),
        Column("padding_share", pa.float64(), "share of padded_bytes that is padding; null: as there", True, "share"),
        Column("cores", pa.int64(), "cores or devices that ran it"),
        ENERGY,
        Column("deduplicated_name", pa.string(), "the instruction that XLA says it is a copy of; null: it says none",
               True),
        Column("expression", pa.string(), "the instruction in full; null: not known", True),
    ), derived=True),
    "categories": TableSchema("categories", "a category of ops, largest self time first", (
        Column("category", TEXT, "category of the instructions"),
        *_GROUPED,
        *_GROUPED_WORK,
        Column("rematerialized_ps", pa.int64(), "self time of those that compute again what was computed before",
               unit="ps"),
    ), derived=True),
    "programs": TableSchema("programs", "a program, largest self time first", (*PROGRAM, *_GROUPED, *_GROUPED_WORK),
                            derived=True),
    "rematerialization": TableSchema("rematerialization", "ops that compute again what was computed before; or "
                                    "the others", (
        Column("is_rematerialized", pa.bool_(), "they compute it again, to save memory"),
        *_GROUPED,
    ), derived=True),
    "outside_compilation": TableSchema("outside_compilation", "ops that serve what runs on the host instead; or "
                                      "the others", (
        Column("is_outside_compilation", pa.bool_(), "they serve what XLA did not compile"),
        *_GROUPED,
    ), derived=True),
    "replica_groups": TableSchema("replica_groups", "a category of collective ops among the same groups of devices, "
                                  "largest self time first", (
        Column("category", TEXT, "category of the instructions"),
        Column("replica_groups", pa.string(), "the groups, as the text of the instructions has them"),
        Column("group_size", pa.int64(), "devices of each group; null: they differ, or it does not tell", True),
        *_GROUPED,
        Column("accessed_bytes", pa.float64(), "bytes of the ops that tell them; null: none does", True, "bytes"),
    ), derived=True),
    "attribution": TableSchema("attribution", "how it is known of which op events are, or why not", (
        Column("is_attributed", pa.bool_(), "their op is known"),
        Column("how", TEXT, "how it is known, or why not; the event itself: it names its op"),
        *_GROUPED,
    ), derived=True),
    "padding": TableSchema("padding", "an op whose arrays are padded, the most bytes of padding first", (
        Column("rank", pa.int64(), "of the op, in ops"),
        *IDENTITY,
        Column("occurrences", pa.int64(), "as in ops"),
        Column("self_ps", pa.int64(), "as in ops", unit="ps"),
        Column("padding_bytes", pa.float64(), "padded_bytes less array_bytes, times occurrences", unit="bytes"),
        Column("array_bytes", pa.int64(), "as in ops: once", unit="bytes"),
        Column("padded_bytes", pa.int64(), "as in ops: once", unit="bytes"),
        Column("padding_share", pa.float64(), "as in ops", unit="share"),
        Column("worst_operand", pa.string(), "the array of most padding: output, or the name of the instruction that "
               "it is the output of"),
        Column("worst_shape", pa.string(), "its type and dimensions"),
        Column("worst_share", pa.float64(), "share of padding in it", unit="share"),
    ), derived=True),
    "layouts": TableSchema("layouts", "an array that an op reads or writes", (
        Column("rank", pa.int64(), "of the op, in ops"),
        Column("name", pa.string(), "of the op"),
        Column("operand", pa.string(), "output, or the name of the instruction that it is the output of"),
        Column("padding_share", pa.float64(), "share of padded_bytes that is padding; null: not known", True, "share"),
        Column("bytes", pa.int64(), "without padding; null: not known", True, "bytes"),
        Column("padded_bytes", pa.int64(), "with padding; null: not known", True, "bytes"),
        Column("shape", pa.string(), "type and dimensions"),
        Column("layout", pa.string(), "order of the dimensions, tiles and memory space, as HLO writes them"),
        Column("tile", pa.string(), "the tile; empty: there is none"),
        Column("padded_dimensions", pa.list_(pa.int64()), "sizes of the dimensions with padding; null: not known",
               True),
        Column("semantics", pa.list_(pa.string()), "what each dimension is: batch, feature, spatial or "
               "contracting; null: the text of the op does not say"),
        Column("memory_space", pa.int64(), "as the layout has it: S(n)"),
        Column("position", pa.int64(), "place among the operands, from 0; -1: output"),
        Column("program_id", pa.int64(), "as in ops"),
    ), derived=True),
    "sparse_core_ops": TableSchema("sparse_core_ops", "an instruction that SparseCores ran on behalf of an op of a "
                                   "TensorCore, whose time it is no part of; longest first", (
        Column("parent", pa.string(), "the op of the TensorCore"),
        *IDENTITY,
        Column("occurrences", pa.int64(), "how often it ran"),
        Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
        Column("self_ps", pa.int64(), "sum of durations less the time of ops nested in them", unit="ps"),
        *WORK,
        Column("expression", pa.string(), "the instruction in full; null: not known", True),
    ), derived=True),
}  # fmt: skip
