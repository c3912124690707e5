"""The tables of ops: what their columns hold."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.derive.ops.hlo_schemas import ENERGY, MIN_PS, ON_TPUS
from fastprof.schema.tables import TEXT, Column, TableSchema

_TIMES = (
    Column("occurrences", pa.int64(), "how often it ran, on GPUs its kernels; 0 for IDLE"),
    Column("executions", pa.int64(), "how often it ran as a whole: on GPUs of one or more kernels; 0 for IDLE"),
    Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
    Column("mean_ps", pa.int64(), "total_ps / occurrences, rounded down; null: that is 0", True, "ps"),
    Column("self_ps", pa.int64(), "sum of durations less the time of ops nested in them", unit="ps"),
    Column("self_share", pa.float64(), "self_ps / that of all ops of this side and idle time; null: that is 0",
           True, "share"),
    Column("cumulative_self_share", pa.float64(), "self_share of this row and those before it; null: as there", True,
           "share"),
    Column("busy_share", pa.float64(), "self_ps / self_ps of all ops of this side; null: idle time, or that is 0",
           True, "share"),
    Column("cumulative_busy_share", pa.float64(), "busy_share of this row and those before it; null: as there", True,
           "share"),
)  # fmt: skip


def _work_columns(side: str) -> tuple[Column, ...]:
    """``side``: the rows that have no work, or nothing."""
    unknown = f"{side}{', or ' if side else ''}a call of a library that does not tell its work"
    why = f"; null: {unknown}"
    rate = f"{why}, or total_ps is 0"
    return (
        Column("flops", pa.float64(), f"floating point operations that the device did{why}", True, "flop"),
        Column("model_flops", pa.float64(), f"those that the model asks for{why}", True, "flop"),
        Column("accessed_bytes", pa.float64(), f"bytes read and written{why}", True, "bytes"),
        Column("flops_per_s", pa.float64(), f"flops / total_ps{rate}", True, "flop/s"),
        Column("model_flops_per_s", pa.float64(), f"model_flops / total_ps{rate}", True, "flop/s"),
        Column("bytes_per_s", pa.float64(), f"accessed_bytes / total_ps{rate}", True, "bytes/s"),
        Column("flops_per_byte", pa.float64(), f"flops / accessed_bytes; null: {unknown}, or no bytes are known", True),
        Column("bound_by", TEXT, "the resource that it came nearest to exhaust: Compute, HBM, Shm/L1, or a memory of "
               f"the TPU and a direction; null: {unknown}, or it did no known work, or the peaks of the device are not "
               "known", True),
    )  # fmt: skip


_RANK = Column("rank", pa.int64(), "place by self_ps on this side, from 1")
_SIDE = Column("host_or_device", TEXT, "Device or Host")
_IS_EAGER = Column("is_eager", pa.bool_(), "some occurrence was executed eagerly, outside any tf.function")

TABLES: Final = {
    "ops": TableSchema("ops", "a framework op on devices or hosts, or their idle time (IDLE): devices first, largest "
                       "self time first", (
        _RANK,
        _SIDE,
        Column("type", TEXT, "type of the op; Unknown: of device ops of which no framework op is known"),
        Column("name", pa.string(), "name of the op; of device ops without a known framework op the instruction's"),
        *_TIMES,
        *_work_columns("on the host"),
        Column("tensor_core_share", pa.float64(), "share of the time of its GPU kernels that is of kernels on Tensor "
               "Cores; null: it launched no kernels", True, "share"),
        _IS_EAGER,
    ), derived=True),
    "device_ops": TableSchema("device_ops", "a compiled instruction of a program on devices, largest self time first", (
        _RANK,
        Column("program_id", pa.int64(), "program, uint64 as two's complement; 0: the op is of no program"),
        Column("program", TEXT, "name of the program; null: the capture does not carry it", True),
        Column("category", TEXT, "category of the instruction"),
        Column("name", pa.string(), "name of the instruction"),
        Column("framework_op", pa.string(), "framework op that it comes from; null: not known", True),
        *_TIMES,
        MIN_PS,
        *ON_TPUS,
        *_work_columns(""),
        Column("hbm_bytes", pa.float64(), "bytes to and from HBM; all bytes where it is not told which are",
               unit="bytes"),
        ENERGY,
        Column("cores", pa.int64(), "cores or devices that ran it"),
        Column("source", pa.string(), "file:line of the program's source; null: not known", True),
        Column("long_name", pa.string(), "the instruction in full; null: not known", True),
        _IS_EAGER,
    ), derived=True),
    "sparse_core_ops": TableSchema("sparse_core_ops", "an instruction that SparseCores ran on behalf of an op of a "
                                   "TensorCore, whose time it is no part of; longest first", (
        Column("parent", pa.string(), "the op of the TensorCore"),
        Column("program_id", pa.int64(), "program, uint64 as two's complement"),
        Column("category", TEXT, "category of the instruction"),
        Column("name", pa.string(), "name of the instruction"),
        Column("occurrences", pa.int64(), "how often it ran"),
        Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
        Column("self_ps", pa.int64(), "sum of durations less the time of ops nested in them", unit="ps"),
    ), derived=True),
    "host_ops": TableSchema("host_ops", "an op of host threads, largest self time first", (
        _RANK,
        Column("stage_id", pa.int64(), "stage of an input pipeline; null: it is none", True),
        Column("type", TEXT, "type of the op; IDLE: time of threads without any op"),
        Column("name", pa.string(), "name of the op"),
        *_TIMES,
        Column("min_ps", pa.int64(), "shortest occurrence", unit="ps"),
        _IS_EAGER,
    ), derived=True),
    "hosts": TableSchema("hosts", "a host", (
        Column("host", TEXT, "the host"),
        Column("thread_count", pa.int64(), "threads with a line in the capture"),
        Column("host_total_ps", pa.int64(), "of each thread the span of its ops, summed", unit="ps"),
        Column("host_op_ps", pa.int64(), "self time of ops of threads", unit="ps"),
        Column("host_op_share", pa.float64(), "host_op_ps / host_total_ps; null: that is 0", True, "share"),
        Column("device_count", pa.int64(), "GPUs, or TensorCores of TPUs"),
        Column("device_total_ps", pa.int64(), "of each device the span of its ops and steps, summed", unit="ps"),
        Column("device_op_ps", pa.int64(), "self time of ops of devices", unit="ps"),
        Column("device_op_share", pa.float64(), "device_op_ps / device_total_ps; null: that is 0", True, "share"),
        Column("infeed_enqueue_ps", pa.int64(), "durations of infeed enqueues, the last of each thread left out",
               unit="ps"),
        Column("is_training", pa.bool_(), "programs hold ops of backpropagation; null: none are recorded", True),
    ), derived=True),
    "ops_by_host": TableSchema("ops_by_host", "a framework op on the devices or threads of one host", (
        Column("host", TEXT, "the host"),
        _RANK,
        _SIDE,
        Column("type", TEXT, "as in ops"),
        Column("name", pa.string(), "as in ops"),
        *_TIMES,
    ), derived=True),
    "tf_functions": TableSchema("tf_functions", "a tf.function, by how its calls were executed", (
        Column("name", pa.string(), "name of the function"),
        Column("mode", TEXT, "eager, concrete, traced (traced anew for the call), not_traced, or invalid"),
        Column("calls", pa.int64(), "calls executed so"),
        Column("self_ps", pa.int64(), "time of these calls less that of functions called within", unit="ps"),
        Column("compiler", TEXT, "of the function: xla, other, mixed; null: not recorded", True),
        Column("tracing_count", pa.int64(), "how often the function has been traced, since the program began"),
        Column("expensive_percent", pa.float64(), "self time of traced and eager calls of the function, of all its "
               "calls", unit="%"),
    ), derived=True),
}  # fmt: skip
