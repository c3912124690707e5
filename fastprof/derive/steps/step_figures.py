"""Figures of steps, one value a step: how long it took, and what of that went where; and columns of step tables.

On GPUs and CPUs the times of a step are means over the hosts that took part: the devices of a host are one core of the
step database. On TPUs they follow the critical core, see TpuStepValues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, CommunicationKind, find_communication
from fastprof.derive.steps import step_advice
from fastprof.derive.steps.step_database import (
    CATEGORIES,
    HOST_TRANSFERS,
    IDLE,
    NO_HOSTNAME,
    OFF_DUTY,
    OWN_CATEGORIES,
    EventType,
    StepDatabase,
    sum_by_category,
)
from fastprof.schema.columns import Bools, Float64s, Int64s, find_first_rows, number_keys, sort_rows
from fastprof.schema.tables import Count, Flag, Formula, Picoseconds, Text, encode_texts
from fastprof.schema.value_classes import dataclass

T = TypeVar("T", np.int64, np.float64)

COMPUTE, DEVICE_TO_DEVICE, COLLECTIVES, HOST_COMPUTE, LAUNCH, INPUT, OUTPUT, COMPILATION, OTHER = range(len(CATEGORIES))
"""The columns of GenericSteps.category_ps and of break_down_cores."""
COPIES, NOT_TRAINING = len(CATEGORIES), len(CATEGORIES) + 1
"""The last columns of break_down_cores."""

PS_PER_MS: Final = 1e9


def compute_step_times(db: StepDatabase) -> Int64s:
    """Return [n] time of each step in ps: of the core that took longest, SparseCores left out; 0 where none took
    part."""
    dense = ~db.cores.sparse
    on_cores = (np.where(some.present & dense, some.duration_ps, 0) for some in db.stretches())
    return np.concatenate([on_core.max(axis=1, initial=0) for on_core in on_cores])


@dataclass(frozen=True, slots=True)
class GenericSteps:
    """Steps of GPUs or of CPUs: n of them, those that any of the cores took part in. Times in ps."""

    row: Int64s  # row of the step database
    step_ps: Float64s  # [n]
    type_ps: Float64s  # [n, 18] by event type

    def __len__(self) -> int:
        return len(self.row)

    @property
    def category_ps(self) -> Float64s:
        """[n, 9] by category of CATEGORIES."""
        return self.categories()

    @property
    def wait_input_ps(self) -> Float64s:
        """[n] part of the category input: the host waits for its input pipeline."""
        return self.type_ps[:, EventType.HOST_WAIT_INPUT]

    @property
    def to_device_ps(self) -> Float64s:
        """[n] part of the category input: copies to the device, and their enqueuing."""
        return self.type_ps[:, EventType.HOST_TO_DEVICE]

    def categories(self, unit_ps: float = 1.0) -> Float64s:
        """Return [n, 9] times by category, of types that are in this unit before they are added up."""
        of_types = self.type_ps / unit_ps
        times: Float64s = np.stack([of_types[:, list(category.types)].sum(axis=1) for category in CATEGORIES], axis=1)
        return times

    @property
    def own_category_ps(self) -> Float64s:
        """[n, 11] by category of OWN_CATEGORIES."""
        return _split_copies(self.category_ps, self.type_ps)

    def bottleneck(self, uses_tf_data: bool, *, copies_apart: bool) -> step_advice.Bottleneck:
        """Return the verdicts on these steps together. ``copies_apart``: copies to devices are no input, and computing
        threads of a host without devices are its device, unlike to XProf."""
        total, copied = self.category_ps.sum(axis=0), float(self.to_device_ps.sum())
        other_work = float(self.type_ps[:, EventType.HOST_BATCH_FORMATION].sum())
        return step_advice.judge_generic(
            step=float(self.step_ps.sum()),
            input=float(self.wait_input_ps.sum()) + (0.0 if copies_apart else copied),
            copies=copied + other_work if copies_apart else 0.0,
            output=float(total[OUTPUT]),
            compute=float(total[COMPUTE]) + (float(total[HOST_COMPUTE]) if copies_apart else 0.0),
            collectives=float(total[COLLECTIVES]),
            launch=float(total[LAUNCH]),
            other=float(total[OTHER]),
            tf_data=uses_tf_data,
        )


def _split_copies(category_ps: npt.NDArray[T], type_ps: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return [..., 11] times by category of OWN_CATEGORIES off TPUs. Copies to the device, which XProf takes for input,
    are copies; input is what loads or waits for it."""
    copied = type_ps[..., EventType.HOST_TO_DEVICE]
    others = type_ps[..., EventType.HOST_BATCH_FORMATION]
    times = np.concatenate([category_ps, copied[..., None], others[..., None]], axis=-1)
    times[..., INPUT] -= copied
    return times


def make_generic_steps(db: StepDatabase, core_id: int | None = None) -> GenericSteps:
    """Return the steps of all cores whose device work is fully recorded, or all steps of the core of this id."""
    parts, first = [], 0
    for some in db.stretches():
        part = _make_generic_steps(some, core_id)
        parts.append(replace(part, row=part.row + first))
        first += len(some)
    return GenericSteps(*(np.concatenate([getattr(part, name) for part in parts]) for name in GenericSteps.__slots__))


def _make_generic_steps(db: StepDatabase, core_id: int | None) -> GenericSteps:
    columns = np.arange(len(db.cores)) if core_id is None else np.flatnonzero(db.cores.id == core_id)
    present = (db.present & ~db.lost if core_id is None else db.present)[:, columns]
    rows = np.flatnonzero(present.any(axis=1))
    present = present[rows]
    cores = np.maximum(present.sum(axis=1), 1).astype(np.float64)

    def mean(values: Int64s) -> Float64s:
        on = np.where(present if values.ndim == 2 else present[:, :, None], values, 0).sum(axis=1)
        result: Float64s = on / (cores if values.ndim == 2 else cores[:, None])
        return result

    return GenericSteps(rows, mean(db.duration_ps[rows][:, columns]), mean(db.type_ps[rows][:, columns]))


# ---- TPUs

SCV0_INFEED, SCV0_OUTFEED = "sparsecorev0 infeed", "sparsecorev0 outfeed"
SCV0_WAIT, SCV0_TRANSFORM = "sparsecorev0 infeed wait", "sparsecorev0 infeed transform"


@dataclass(frozen=True, slots=True)
class TpuStepValues:
    """One value a step. Cores are TensorCores unless the name begins with sc."""

    step: Int64s
    tc_compute_ms: Float64s  # least over cores: the step less waiting for the host or the SparseCore
    tc_infeed_ms: Float64s  # most over cores
    max_infeed_core: Int64s  # id of that core; 0: no core waits for input
    tc_outfeed_ms: Float64s  # mean
    tc_idle_ms: Float64s  # the shortest step over cores, less the non-idle time; 0 at least
    host_transfer_ms: Float64s  # most over cores
    scv0_compute_ms: Float64s  # of the core that waits longest for the SparseCore
    scv0_infeed_ms: Float64s
    tc_collectives_ms: Float64s  # part of tc_compute_ms, of the same core
    tc_copies_ms: Float64s  # another part of it
    all_reduce_compute_ms: Float64s  # of the core with most time in collectives: as long as the fastest core takes
    all_reduce_sync_ms: Float64s  # and the rest
    step_ms: Float64s  # idle time, compute, which collectives are part of, infeed and outfeed
    infeed_percent_average: Float64s  # over cores, of the core's step
    infeed_percent_minimum: Float64s
    infeed_percent_maximum: Float64s
    tc_active_ms: Float64s  # mean
    sc_active_ms: Float64s  # mean over SparseCores
    active_ms: Float64s  # the larger one
    sc_compute_ms: Float64s  # least over SparseCores: the step less idle time, infeed and outfeed
    sc_idle_ms: Float64s  # mean
    sc_infeed_ms: Float64s
    sc_outfeed_ms: Float64s
    sc_step_ms: Float64s


@dataclass(frozen=True, slots=True)
class _CoreFold:
    """Folds [n, c] times of some cores into one a step; 0 where none of them took part."""

    there: npt.NDArray[np.bool_]

    def most(self, times: Int64s | Float64s) -> Float64s:
        most: Float64s = np.where(self.there, times, 0).max(axis=1, initial=0).astype(np.float64)
        return most

    def least(self, values: Float64s) -> Float64s:
        least: Float64s = np.where(self.there, values, np.inf).min(axis=1, initial=np.inf)
        return np.where(np.isfinite(least), least, 0.0)

    def mean(self, values: Float64s) -> Float64s:
        """Average over cores, added up core by core, as XProf does."""
        count = self.there.sum(axis=1)
        total = (
            np.cumsum(np.where(self.there, values, 0.0), axis=1)[:, -1] if values.shape[1] else np.zeros(len(values))
        )
        mean: Float64s = np.divide(total, count, out=np.zeros(len(count)), where=count > 0)
        return mean


def compute_tpu_steps(database: StepDatabase) -> TpuStepValues:
    """Return the values of each step of a database of TPU steps."""
    parts = [_compute_tpu_steps(some) for some in database.stretches()]
    return TpuStepValues(*(np.concatenate([getattr(part, name) for part in parts]) for name in TpuStepValues.__slots__))


def _compute_tpu_steps(database: StepDatabase) -> TpuStepValues:
    cores = _CoreFold(database.present & ~database.cores.sparse)
    sparse = _CoreFold(database.present & database.cores.sparse)
    step = database.duration_ps
    infeed, outfeed, transfers = (database.category(*names) for names in (("infeed",), ("outfeed",), HOST_TRANSFERS))
    wait = _measure_scv0_wait(database)
    # ops may add up to more than the step: then idle time is negative, and there is no compute if all waiting is
    waiting = infeed + outfeed + transfers + wait + _measure_unfilled(database)
    compute = np.where(waiting < 0, 0, step - waiting)
    tc_compute, tc_infeed, tc_outfeed = (
        cores.least(compute / PS_PER_MS),
        cores.most(infeed) / PS_PER_MS,
        cores.mean(outfeed / PS_PER_MS),
    )
    scv0_compute = cores.most(wait) / PS_PER_MS
    parts = (_read_least_computing(database, cores.there, compute, place) for place in (COLLECTIVES, COPIES))
    in_collectives, in_copies = (part / PS_PER_MS for part in parts)
    tc_collectives = np.minimum(in_collectives, tc_compute)
    together, alone = _measure_collectives(database)
    non_idle = tc_compute + scv0_compute + tc_infeed + tc_outfeed
    tc_idle = np.maximum(0.0, cores.least(step / PS_PER_MS) - non_idle)
    percent = np.divide(100.0 * infeed, step, out=np.zeros(step.shape), where=step > 0)
    busy = np.where(database.knows_categories, measure_busy_time(database), database.sparse_busy_ps)
    tc_active, sc_active = cores.mean(busy / PS_PER_MS), sparse.mean(busy / PS_PER_MS)
    sc_idle = np.where(database.knows_categories, database.category(IDLE), step - database.sparse_busy_ps)
    return TpuStepValues(
        step=database.step,
        tc_compute_ms=tc_compute,
        tc_infeed_ms=tc_infeed,
        max_infeed_core=_find_core_of_most(database, np.where(cores.there, infeed, 0)),
        tc_outfeed_ms=tc_outfeed,
        tc_idle_ms=tc_idle,
        host_transfer_ms=cores.most(transfers) / PS_PER_MS,
        scv0_compute_ms=scv0_compute,
        scv0_infeed_ms=np.zeros(len(database)),
        tc_collectives_ms=tc_collectives,
        tc_copies_ms=np.minimum(in_copies, tc_compute - tc_collectives),
        all_reduce_compute_ms=together,
        all_reduce_sync_ms=alone,
        step_ms=non_idle + tc_idle,
        infeed_percent_average=cores.mean(percent),
        infeed_percent_minimum=cores.least(percent),
        infeed_percent_maximum=cores.most(percent),
        tc_active_ms=tc_active,
        sc_active_ms=sc_active,
        active_ms=np.maximum(tc_active, sc_active),
        sc_compute_ms=sparse.least(np.maximum(step - sc_idle - infeed - outfeed, 0) / PS_PER_MS),
        sc_idle_ms=sparse.mean(sc_idle / PS_PER_MS),
        sc_infeed_ms=sparse.mean(infeed / PS_PER_MS),
        sc_outfeed_ms=sparse.mean(outfeed / PS_PER_MS),
        sc_step_ms=sparse.mean(step / PS_PER_MS),
    )


def _read_least_computing(
    database: StepDatabase, there: npt.NDArray[np.bool_], compute: Int64s, category: int
) -> Int64s:
    """Return [n] time of ops of a step category on the core that computes least, or 0 where no core is there."""
    if not compute.shape[1]:
        return np.zeros(len(compute), np.int64)
    core = np.where(there, compute, np.iinfo(np.int64).max).argmin(axis=1)
    times = database.category(*(op for op in database.categories if classify_op_category(op) == category))
    chosen: Int64s = np.where(there.any(axis=1), times[np.arange(len(compute)), core], 0)
    return chosen


def _measure_scv0_wait(database: StepDatabase) -> Int64s:
    """Return [n, c] time that a core waits for the first kind of SparseCore. A core that records only its infeed from
    there transforms data while it feeds out, and waits for the rest."""
    infeed, outfeed = database.category(SCV0_INFEED), database.category(SCV0_OUTFEED)
    return np.where(infeed > 0, infeed - np.minimum(infeed, outfeed), database.category(SCV0_WAIT))


def _measure_unfilled(database: StepDatabase) -> Int64s:
    """Return [n, c] the step less its ops; less than 0 where they add up to more."""
    unfilled: Int64s = database.duration_ps - database.category_ps[:, :, 1:].sum(axis=2) - database.infeed_ps
    return unfilled


def measure_busy_time(database: StepDatabase) -> Int64s:
    """Return [n, c] time in which a core works, by its op categories."""
    off_duty = np.maximum(database.category(*OFF_DUTY) + _measure_unfilled(database), 0)
    busy: Int64s = np.maximum(database.duration_ps - off_duty - _measure_scv0_wait(database), 0)
    return busy


def _find_core_of_most(database: StepDatabase, infeed: Int64s) -> Int64s:
    if not infeed.shape[1]:
        return np.zeros(len(database), np.int64)
    core = database.cores.id[infeed.argmax(axis=1)]
    return np.where(infeed.max(axis=1) > 0, core, 0)


def _measure_collectives(database: StepDatabase) -> tuple[Float64s, Float64s]:
    """Return collective time of the core that has most of it: as long as the fastest core takes, which is work, and the
    rest, which is waiting for the others."""
    every = database.collectives
    if not len(every):
        return np.zeros(len(database)), np.zeros(len(database))
    duration = np.maximum(every.end_ps - every.begin_ps, 0)
    place, count = number_keys([every.step, every.unique_id])
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, place, duration)
    fastest = least[place]
    place, count = number_keys([every.step, every.core_id])
    at = find_first_rows(place, count)
    compute, total = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(compute, place, fastest)
    np.add.at(total, place, duration)
    order = sort_rows(every.step[at], -total, every.core_id[at])
    step, first = np.unique(every.step[at[order]], return_index=True)
    chosen = order[first]
    together, alone = np.zeros(len(database)), np.zeros(len(database))
    together[step] = compute[chosen] / PS_PER_MS
    alone[step] = (total[chosen] - compute[chosen]) / PS_PER_MS
    return together, alone


TPU_CATEGORIES: Final = (
    ("compute", "tc_compute_ms"),  # less the next two
    ("collectives", "tc_collectives_ms"),
    ("copies", "tc_copies_ms"),
    ("input", "tc_infeed_ms"),
    ("output", "tc_outfeed_ms"),
    ("idle", "tc_idle_ms"),
    ("sparse_core_v0_compute", "scv0_compute_ms"),
    ("sparse_core_v0_input", "scv0_infeed_ms"),
)
"""What the time of a step on TPUs is divided into, and where TpuStepValues has it. They add up to its step_ms."""


def split_tpu_categories(steps: TpuStepValues) -> tuple[list[str], Float64s]:
    """Return names of the categories, and times [n, k] in ps; copies and the first SparseCores only where there are
    any."""
    times = {name: np.asarray(getattr(steps, column), np.float64) * PS_PER_MS for name, column in TPU_CATEGORIES}
    times["compute"] = times["compute"] - times["collectives"] - times["copies"]
    shown = {
        name: time for name, time in times.items() if time.any() or not name.startswith(("copies", "sparse_core_v0"))
    }
    return list(shown), np.stack(list(shown.values()), axis=1)


def find_longest_wait_cores(db: StepDatabase, steps: TpuStepValues) -> list[str | None]:
    """Return the core that waits longest for input in each step, as host:ordinal, or None if none waits, or it is not
    described."""
    cores = db.cores
    names = {
        core: name
        for core, name, known in zip(cores.id.tolist(), cores.name, cores.has_details.tolist(), strict=True)
        if known
    }
    waits = (steps.tc_infeed_ms > 0).tolist()
    return [names.get(core) if wait else None for core, wait in zip(steps.max_infeed_core.tolist(), waits, strict=True)]


def has_sparse_cores(db: StepDatabase) -> bool:
    """Return whether any SparseCore took part in a step."""
    return any(bool(some.present[:, db.cores.sparse].any()) for some in db.stretches())


def judge_tpu_steps(steps: TpuStepValues, step_ms: Float64s | None = None) -> step_advice.Bottleneck:
    """Return the verdicts on steps of TPUs together. ``step_ms``: how long the steps are taken to be, if not as they
    were."""
    return step_advice.judge_tpu(
        step=float((steps.step_ms if step_ms is None else step_ms).sum()),
        input=float(steps.tc_infeed_ms.sum() + steps.scv0_infeed_ms.sum()),
        output=float(steps.tc_outfeed_ms.sum()),
        idle=float(steps.tc_idle_ms.sum()),
        copies=float(steps.tc_copies_ms.sum()),
        all_reduce_compute=float(steps.all_reduce_compute_ms.sum()),
        all_reduce_sync=float(steps.all_reduce_sync_ms.sum()),
        sparse_core=float(steps.scv0_compute_ms.sum()),
    )


def fit_parts(times: Int64s, duration: Int64s) -> Int64s:
    """Fit [..., k] times that are parts of [...] durations: what they are together beyond it is taken from the longest
    of them. Ops of a core add up to more than its step if they overlap each other or its end."""
    excess = times.sum(axis=-1) - np.maximum(duration, 0)
    if not (excess > 0).any():
        return times
    order = np.argsort(-times, axis=-1, kind="stable")
    ordered = np.take_along_axis(times, order, axis=-1)
    before = np.cumsum(ordered, axis=-1) - ordered
    cut = np.clip(excess[..., None] - before, 0, np.maximum(ordered, 0))
    left = times.copy()
    np.put_along_axis(left, order, ordered - cut, axis=-1)
    return left


_OF_SPARSE_CORES: Final = {SCV0_WAIT: INPUT, SCV0_TRANSFORM: INPUT, "megacore fusion": DEVICE_TO_DEVICE}
_OF_KINDS: Final = {
    CommunicationKind.SEND_RECV: DEVICE_TO_DEVICE,
    CommunicationKind.PEER_COPY: DEVICE_TO_DEVICE,
    CommunicationKind.OFFLOAD: DEVICE_TO_DEVICE,
    CommunicationKind.INFEED: INPUT,
    CommunicationKind.OUTFEED: OUTPUT,
}
"""Other kinds between devices are collectives, and the rest are copies."""


@lru_cache(maxsize=1 << 12)
def classify_op_category(op: str) -> int:
    """Return the category of step time that a category of TPU ops is in: all that do not communicate compute."""
    if op in (IDLE, *_OF_SPARSE_CORES):
        return _OF_SPARSE_CORES.get(op, OTHER)
    part = find_communication(op, "", "")
    if part is None:
        return COMPUTE
    if part.kind is CommunicationKind.HOST_SEND_RECV:
        return OUTPUT if op.startswith("host send") else INPUT
    return _OF_KINDS.get(part.kind, COLLECTIVES if part.kind.scope == BETWEEN_DEVICES else COPIES)


def sum_own_categories(type_ps: Int64s) -> Int64s:
    """Return [..., 11] time by category, in the order of OWN_CATEGORIES, from [..., 18] time by type of event."""
    return _split_copies(sum_by_category(type_ps), type_ps)


def break_down_cores(database: StepDatabase, place: Callable[[str], int] = classify_op_category) -> Int64s:
    """Return [n, c, 11] time of each core by category, in the order of OWN_CATEGORIES, on any hardware. A SparseCore
    that does not mark its steps computes while it is busy. ``place``: of the category of an op of a TPU."""
    if not database.is_tpu:
        return sum_own_categories(database.type_ps)
    duration_ps, category_ps = database.duration_ps, database.category_ps
    times = np.zeros((*duration_ps.shape, len(OWN_CATEGORIES)), np.int64)
    for number, op in enumerate(database.categories):
        times[:, :, place(op)] += category_ps[:, :, number]
    times[:, :, INPUT] += database.infeed_ps
    times[:, :, OTHER] -= database.infeed_ps
    busy, busy_ps = database.cores.sparse & ~category_ps.any(axis=2), database.sparse_busy_ps
    times[:, :, COMPUTE] = np.where(busy, busy_ps, times[:, :, COMPUTE])
    times[:, :, OTHER] = np.where(busy, duration_ps - busy_ps, times[:, :, OTHER])
    return times


@dataclass(frozen=True, slots=True)
class StepsOnCores:
    """Steps on the cores that took part: places of steps and cores in a database, a row each. ``number``: of the step
    in the session, or -1 if there is none; ``times_ps``: [n, 11] by category."""

    database: StepDatabase
    step: npt.NDArray[np.intp]
    core: npt.NDArray[np.intp]
    number: Int64s
    times_ps: Int64s

    @classmethod
    def of(cls, database: StepDatabase, numbers: Int64s) -> StepsOnCores:
        """Select steps on cores. ``numbers``: step numbers of the database."""
        step, core = np.nonzero(database.present)
        times = fit_parts(break_down_cores(database)[step, core], database.duration_ps[step, core])
        return cls(database, step, core, numbers[step], times)

    @property
    def duration_ps(self) -> Int64s:
        """[n] the time that is divided: periods, or extents."""
        return self.database.duration_ps[self.step, self.core]

    @property
    def has_devices(self) -> Bools:
        """[n] whether work of a device is recorded in any step of the core."""
        shown = np.bincount(self.core, show_devices(self.times_ps))[self.core]
        return np.asarray(shown > 0)

    @property
    def shows_input(self) -> Bools:
        """[n] whether the records would show input."""
        return self.database.cores.shows_input[self.core]

    @property
    def lost(self) -> Bools:
        """[n] whether device work in the step is not fully recorded."""
        return self.database.lost[self.step, self.core]


HOST_COLUMN = Text("host", "host, named after its capture file",
            lambda rows: encode_texts(rows.database.hosts, rows.database.cores.host_number[rows.core]))  # fmt: skip
CORE_ID_COLUMN = Count("core_id", "core id on its host; on a host without TPUs 1, for all of its devices",
                lambda rows: rows.database.cores.local_id[rows.core])  # fmt: skip


def _name_cores(database: StepDatabase) -> list[str]:
    """Name cores. A host that its capture does not name, such as a rank of PyTorch, is called as its file."""
    hosts = database.cores.host_number.tolist()
    return [
        database.hosts[host] if name == NO_HOSTNAME else name
        for host, name in zip(hosts, database.cores.name, strict=True)
    ]


CORE_COLUMNS = (
    HOST_COLUMN,
    Text("core_name", "core as host:ordinal; only the host if the capture does not describe its cores",
         lambda rows: encode_texts(_name_cores(rows.database), rows.core)),
    CORE_ID_COLUMN,
    Text("device", "device, as in the other tables: plane of the core, or CPU for host threads; null: all GPUs of the "
         "host together", lambda rows: encode_texts(rows.database.cores.device, rows.core)),
)  # fmt: skip
STEP_COLUMN = Count("step", "step number, as in the steps analysis", lambda rows: rows.database.number[rows.step])
SPAN_COLUMNS = (
    Flag("sparse_core", "the core is a SparseCore", lambda rows: rows.database.cores.sparse[rows.core]),
    Flag("complete", "false if the step does not count for averages: it may be cut off (the first and the last of more "
         "than five steps of a host, except on TPUs and of PyTorch's profiler), or its end is not recorded",
         lambda rows: rows.database.complete[rows.step]),
    Picoseconds("start_ps", "start of the step's marker or of its work on the core, from the start of the host's "
                "capture; on TPUs by the clock of the device if it is recorded",
                lambda rows: rows.database.extent_begin_ps[rows.step, rows.core]),
    Picoseconds("duration_ps", "extent of the step on the core: its longest marker, or the interval of its work",
                lambda rows: rows.database.extent_ps[rows.step, rows.core]),
    Picoseconds("period_ps", "time until the next step begins, to which categories add up; for the last step, "
                "duration_ps; null: no later steps are recorded, or steps are only markers, so categories add up to "
                "duration_ps",
                lambda rows: rows.database.duration_ps[rows.step, rows.core],
                lambda rows: ~rows.database.has_period[rows.step]),
)  # fmt: skip
"""What kind of step it is on the core, and when."""


def _get_category(place: int, rows: Any) -> Int64s:
    times: Int64s = rows.times_ps[:, place]
    return times


def show_devices(times_ps: Int64s) -> Bools:
    """Return a mask of rows with device time, by category."""
    return np.asarray(times_ps[:, _OF_DEVICES].any(axis=1))


_OF_DEVICES = [
    place
    for place, category in enumerate(OWN_CATEGORIES)
    if category.name.startswith("device_") or category.name in ("output", "copies")
]
NOT_FULLY_RECORDED = "device work in the step is not fully recorded"
_NO_DEVICE = f"no device work is recorded on the core, or {NOT_FULLY_RECORDED}"
_UNKNOWN: Final[dict[int, tuple[str, Formula]]] = {
    **dict.fromkeys(_OF_DEVICES, (_NO_DEVICE, lambda rows: ~rows.has_devices | rows.lost)),
    INPUT: ("the host's records would not show input", lambda rows: ~rows.shows_input),
    OTHER: (NOT_FULLY_RECORDED, attrgetter("lost")),
}
"""Categories whose time may be unknown: the reason, and the rows."""


_CATEGORIES = (
    "time that devices computed: ops and kernels, without copies",
    "time of copies between devices; on TPUs time of send, recv, asynchronous ops of unknown kind and "
    "megacore fusion, which wait for others",
    "time of collectives: kernels of libraries such as NCCL; on TPUs all-reduce, all-gather, reduce-scatter, "
    "all-to-all, collective-permute",
    "time that host threads ran ops, or events of no other category; only of hosts without devices",
    "time to prepare kernels on the host; always 0, because it is not distinguished at present",
    "time to wait for input, or to load it while nothing computes; on TPUs infeed, and idle time that the host's input "
    "explains",
    "time of copies from devices; on TPUs time of outfeed and host send",
    "time to trace and compile while nothing computes",
    "rest of the step, in which no event ran; on TPUs idle time",
    "time of copies between host and device, or within the device; on GPUs of copies to the device",
    "time of evaluation, logging and saving, including device compute for them; on TPUs always 0",
)


CATEGORY_COLUMNS = tuple(
    Picoseconds(
        f"{category.name}_ps", f"{what}; null: {why}" if why else what, partial(_get_category, place), is_unknown
    )
    for place, (category, what) in enumerate(zip(OWN_CATEGORIES, _CATEGORIES, strict=True))
    for why, is_unknown in [_UNKNOWN.get(place, ("", None))]
)
"""Time of a step on a core by category."""
UNKNOWN_CATEGORIES: Final = {f"{OWN_CATEGORIES[place].name}_ps": why for place, (why, _) in _UNKNOWN.items()}
"""Why cells of these columns are null."""
