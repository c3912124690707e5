"""The tables of the op profile: what their columns hold."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import TEXT, Column, TableSchema

_NODE = (
    Column("node", pa.int64(), "number of the node, in preorder, from 0: children follow their parent, largest first"),
    Column("parent", pa.int64(), "node that it is a part of; null: the root", True),
    Column("depth", pa.int64(), "how many nodes are above it"),
)
_COUNTS = (
    Column("children", pa.int64(), "nodes right below it"),
    Column("ops", pa.int64(), "ops below it; 1 of an op, 0 within one"),
)
_KNOWN = "null: of no op below it is that known"
_RATE = "null: as there, or no time"
_UTILIZATION = ("null: unknown, as the peak of the device may be, or the work of more than 10 % of the time; all of "
                "its ops start, await or are transfers; or no time")  # fmt: skip


def _work(of_instructions: str = "") -> tuple[Column, ...]:
    """``of_instructions``: what is said of those within fusions."""
    return (
        Column("flops", pa.float64(), f"floating point operations that the device did; of an op that others are nested "
               f"in null: they did it{of_instructions}; {_KNOWN}", True, "flop"),
        Column("model_flops", pa.float64(), f"those that the model asks for{of_instructions}; {_KNOWN}", True, "flop"),
        Column("flops_per_s", pa.float64(), f"flops / self_ps; {_RATE}", True, "flop/s"),
        Column("compute_peak_percent", pa.float64(), f"flops_per_s / peak of a core, * 100; {_UTILIZATION}", True, "%"),
        Column("accessed_bytes", pa.float64(), f"bytes read and written, of all memories{of_instructions}; {_KNOWN}",
               True, "bytes"),
        Column("hbm_bytes", pa.float64(), f"those of HBM, of ops that do not tell memories all; {_KNOWN}", True,
               "bytes"),
        Column("hbm_bytes_per_s", pa.float64(), f"hbm_bytes / self_ps; {_RATE}", True, "bytes/s"),
        Column("hbm_peak_percent", pa.float64(), f"hbm_bytes_per_s / bandwidth of a core, * 100; {_UTILIZATION}", True,
               "%"),
        Column("lost_ps", pa.int64(), "self_ps less what the ops below would take if each used the arithmetic or "
               "memory that it comes nearest to exhaust to its peak; of ops of which that is known; null: of none",
               True, "ps"),
        Column("work_known_share", pa.float64(), "part of self_ps that is of ops of which flops and bytes are known; "
               "null: no time", True, "share"),
    )  # fmt: skip


_SELF = Column("self_ps", pa.int64(), "sum of the self times of the ops below it, and idle time; null: within an op, "
               "where no time of its own is recorded", True, "ps")  # fmt: skip
_OCCURRENCES = (
    Column("occurrences", pa.int64(), "how often the ops below it ran, of GPUs how many kernels; of an instruction, "
           "its fusion"),
    Column("executions", pa.int64(), "how often they ran as a whole: on GPUs of one or more kernels"),
)  # fmt: skip

_TREE = TableSchema("tree", "a part of the program, an op, or what an op is made of", (
    *_NODE,
    Column("kind", TEXT, "root, idle, program, category, scope, duplicates (ops that XLA made alike), op, instruction "
           "(within a fusion), sparse core op (that an op waits for)"),
    Column("name", TEXT, "program, category, part of the framework op's name, op or instruction"),
    *_COUNTS,
    *_OCCURRENCES,
    _SELF,
    Column("total_ps", pa.int64(), "of an op, sum of its durations, nested ops included; null: no op", True, "ps"),
    Column("mean_ps", pa.int64(), "total_ps / occurrences, rounded down; null: no op, or that is 0", True, "ps"),
    Column("share", pa.float64(), "self_ps / that of the root, idle time included; null: no time", True, "share"),
    Column("busy_share", pa.float64(), "self_ps / that of all ops; null: idle time, the root, or no time", True,
           "share"),
    *_work("; of an instruction that XLA's cost model reckons, times executions, of the longest fusions"),
    Column("cost_share", pa.float64(), "of an instruction, its flops / those of its fusion's instructions, or of bytes "
           "where these have no flops; null: no instruction, or unknown", True, "share"),
    Column("flops_source", TEXT, "of an op: capture, hlo (reckoned from the program); null: unknown, or no op", True),
    Column("bytes_source", TEXT, "of the bytes of an op, likewise; null: as there", True),
    Column("program_id", pa.int64(), "of a program or an op, uint64 as two's complement; null: neither", True),
    Column("program", TEXT, "how the capture lists it; null: it does not", True),
    Column("category", TEXT, "of an op or instruction; null: unknown", True),
    Column("framework_op", TEXT, "that an op or instruction comes from; null: unknown", True),
    Column("attribution", TEXT, "how the op of events was found that do not name it; null: they do", True),
    Column("unattributed", TEXT, "why the op of events is not known; null: it is", True),
    Column("source", TEXT, "file:line of the program's author; null: unknown", True),
    Column("expression", TEXT, "the HLO instruction in full; null: unknown", True),
), derived=True)  # fmt: skip


def _scope_table(name: str, what: str, *more: Column) -> TableSchema:
    return TableSchema(name, what, (
        *_NODE,
        Column("name", TEXT, "of a scope, or at the end of the framework op; (no scope): of ops that tell none, by "
               "category"),
        Column("path", TEXT, "the names from the top down to it, with slashes between them; of more than "
               "1,000 letters the middle is left out"),
        *more,
        *_COUNTS,
        *_OCCURRENCES,
        Column("self_ps", pa.int64(), "sum of the self times of the ops below it", unit="ps"),
        Column("category", TEXT, "of the ops of own_ps, that of most time; null: there are none, or it is unknown",
               True),
        Column("own_ps", pa.int64(), "part of self_ps of ops that are named so themselves, not of what is in the scope",
               unit="ps"),
        Column("busy_share", pa.float64(), "self_ps / that of all ops; null: no time", True, "share"),
        Column("forward_ps", pa.int64(), "part of self_ps of ops in jvp(…)", unit="ps"),
        Column("backward_ps", pa.int64(), "of those in transpose(…), gradient_tape or gradients…", unit="ps"),
        Column("recompute_ps", pa.int64(), "of those that compute again what was not kept (rematted_computation)",
               unit="ps"),
        Column("other_ps", pa.int64(), "of those whose name tells no pass, as in inference and of optimizers",
               unit="ps"),
        *_work(),
    ), derived=True)  # fmt: skip


TABLES: Final = {
    "tree": _TREE,
    "scopes": _scope_table("scopes", "a scope of the model, or a framework op in it, whichever programs ran it"),
    "layers": _scope_table(
        "layers", "the same, layers that only a number tells apart taken together",
        Column("instances", pa.int64(), "scopes that were taken together"),
    ),
    "memory": TableSchema("memory", "what a node of the tree read from or wrote to a memory", (
        Column("node", pa.int64(), "number in the table tree"),
        Column("kind", TEXT, "of the node"),
        Column("name", TEXT, "of the node"),
        Column("memory", TEXT, "HBM, or a memory of the TPU's core and a direction"),
        Column("accessed_bytes", pa.float64(), "bytes of the ops below the node of which they are known", unit="bytes"),
        Column("bytes_per_s", pa.float64(), "accessed_bytes / self_ps of the node; null: no time, or all of its "
               "ops start, await or are transfers", True, "bytes/s"),
        Column("peak_bytes_per_s", pa.float64(), "bandwidth of a core; null: unknown", True, "bytes/s"),
        Column("peak_percent", pa.float64(), "bytes_per_s / peak_bytes_per_s, * 100; null: as these", True, "%"),
    ), derived=True),
    "devices": TableSchema("devices", "a device", (
        Column("host", TEXT, "host it belongs to"),
        Column("device", TEXT, "name of its plane"),
        Column("ops", pa.int64(), "ops that it ran"),
        Column("total_ps", pa.int64(), "time observed", unit="ps"),
        Column("op_ps", pa.int64(), "sum of the self times of its ops", unit="ps"),
        Column("busy_ps", pa.int64(), "time in which any op ran: op_ps, what ran at the same time counted once",
               unit="ps"),
        Column("idle_ps", pa.int64(), "total_ps less busy_ps", unit="ps"),
        Column("busy_share", pa.float64(), "busy_ps / total_ps; null: no time", True, "share"),
        *(one for one in _work() if one.name in ("flops", "compute_peak_percent", "hbm_bytes", "hbm_peak_percent",
                                                 "lost_ps")),
    ), derived=True),
}  # fmt: skip
