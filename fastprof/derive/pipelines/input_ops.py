"""Input ops of hosts: their categories, and how input time divides over them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import DATASET
from fastprof.derive.ops.op_table import Ops
from fastprof.schema.value_classes import dataclass

ENQUEUE: Final = "Enqueue"
DEMANDED_READ: Final = "Demanded file read"
ADVANCED_READ: Final = "Advanced file read"
PREPROCESSING: Final = "Preprocessing"
UNKNOWN: Final = "Unknown"

COPY_TO_DEVICE: Final = "MemcpyHToD"
INFEED_ENQUEUE: Final = "InfeedEnqueue"

_STAGES: Final = {
    "enqueue": ENQUEUE,
    "read": DEMANDED_READ,
    "preprocessing": PREPROCESSING,
    "unknown": UNKNOWN,
}
"""Categories that an input pipeline gives its own stages (stat _ipl_stage_cat)."""

_READERS: Final = ("::TFRecord", "::TextLine", "::FixedLengthRecord", "::SSTable", "::RecordIO", "::ArrayRecord")
"""Last parts of the names of tf.data iterators that read files."""

_AHEAD: Final = ("::MemoryReader", "::MemoryWriter", "::Interleave", "::Prefetch", "::ParallelMap")
"""Stages that, further out, make a reader read ahead of requests; XProf's list."""


def find_input_category(op_category: str, name: str) -> str | None:
    """Return the category of an input op, or None for other ops."""
    if op_category.startswith(INFEED_ENQUEUE) or op_category == COPY_TO_DEVICE:
        return ENQUEUE
    if op_category == DATASET:
        if not name.endswith(_READERS):
            return PREPROCESSING
        return ADVANCED_READ if any(stage in name for stage in _AHEAD) else DEMANDED_READ
    return _STAGES.get(op_category.lower())


@dataclass(frozen=True, slots=True)
class InputOps:
    """The input ops of all hosts, largest self time first, then by name."""

    name: list[str]
    category: list[str]
    count: npt.NDArray[np.int64]
    time_ps: npt.NDArray[np.int64]
    self_ps: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)

    def self_of(self, *categories: str) -> int:
        """Return the self time of the ops of these categories, in ps."""
        return sum(ps for ps, what in zip(self.self_ps.tolist(), self.category, strict=True) if what in categories)

    @property
    def uses_tf_data(self) -> bool:
        """Return whether the pipeline records its stages: any time reads or preprocesses."""
        return self.self_of(DEMANDED_READ, ADVANCED_READ, PREPROCESSING) > 0


def list_input_ops(host: Ops) -> InputOps:
    """List the input ops among the ops of hosts."""
    table = host.table
    categories = [
        find_input_category(category, name) for category, name in zip(table.category, table.name, strict=True)
    ]
    rows = [row for row, what in enumerate(categories) if what is not None]
    self_ps = table.self_ps
    rows.sort(key=lambda row: (-int(self_ps[row]), table.name[row], int(table.program_id[row])))
    at = np.array(rows, np.int64)
    return InputOps(
        [table.name[row] for row in rows],
        [categories[row] or UNKNOWN for row in rows],
        table.occurrences[at],
        table.time_ps[at],
        self_ps[at],
    )


@dataclass(frozen=True, slots=True)
class InputTime:
    """Input time by category, in ps; ``other_ps`` is what no op accounts for."""

    enqueue_ps: float = 0.0
    demanded_read_ps: float = 0.0
    advanced_read_ps: float = 0.0
    preprocessing_ps: float = 0.0
    other_ps: float = 0.0

    def total_ps(self) -> float:
        return sum(self.parts())

    def parts(self) -> tuple[float, ...]:
        return (self.enqueue_ps, self.demanded_read_ps, self.advanced_read_ps, self.preprocessing_ps, self.other_ps)


def divide_input_time(ops: InputOps, enqueue_share: float) -> InputTime:
    """Divide input time. ``enqueue_share``: the part of the time that the host spends on enqueuing, 0 to 1.

    Enqueuing takes the time of its ops, so that all other input work takes ``(1 - share) / share`` of that. It divides
    like the self times of the ops that read and preprocess. Without ops that enqueue, these self times stand."""
    enqueue = ops.self_of(ENQUEUE)
    parts = [ops.self_of(what) for what in (DEMANDED_READ, ADVANCED_READ, PREPROCESSING)]
    total = sum(parts)
    share = min(1.0, enqueue_share)
    rest = enqueue * (1.0 - share) / share if enqueue and share > 0 else float(total)
    read, ahead, prepared = (rest * part / total if total else 0.0 for part in parts)
    return InputTime(float(enqueue), read, ahead, prepared, max(0.0, rest - read - ahead - prepared))


def measure_enqueue_share(host: Ops) -> float | None:
    """Return the share of enqueuing in the time between infeed enqueues, or None if no two were seen in a row."""
    between = host.infeed_enqueue_start_diff_ps
    return host.infeed_enqueue_ps / between if between > 0 else None
