"""Step databases and reports made by hand, for analyses that come after others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastprof.analyses import steps
from fastprof.analyses.contract import AnalysisReport, Notice, Scalar
from fastprof.analyses.op_stats import OpDatabase
from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.device_ops import SessionOps
from fastprof.derive.ops.host_op_stats import TfFunction
from fastprof.derive.ops.op_table import Ops, OpTable
from fastprof.derive.steps import step_database
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.derive.steps.step_database import Cores, StepDatabase, make_empty_database

MS = 1_000_000_000


def cores(*ids: int, sparse: Sequence[int] = (), hosts: Sequence[str] = ("host0",)) -> Cores:
    number = np.array([0 if core >= 1_000_000 else core // 1000 for core in ids], np.int32)
    names = [f"{hosts[at]}:{core % 1000}" for at, core in zip(number, ids, strict=True)]
    flags = np.array([core in sparse for core in ids], bool)
    local = np.array([core if core >= 1_000_000 else core % 1000 for core in ids])
    on = [hosts[at] for at in number]
    yes = np.ones(len(ids), bool)
    return Cores(np.array(ids), local, number, on, names, flags, yes, [None] * len(ids), yes)


def generic_db(
    times: Sequence[Mapping[str, int] | Sequence[Mapping[str, int]]],
    *,
    hardware: str = "GPU",
    names: Sequence[str] = (),
    hosts: Sequence[str] = ("host0",),
    precision: tuple[int, int] = (0, 0),
) -> StepDatabase:
    """Steps of GPUs or CPUs: of each host its times by event type in ms; `step` is what they leave, unknown time."""
    every = [[one] if isinstance(one, Mapping) else list(one) for one in times]
    count, width = len(every), len(hosts)
    type_ps = np.zeros((count, width, len(step_database.TYPES)), np.int64)
    for row, on_hosts in enumerate(every):
        for column, parts in enumerate(on_hosts):
            for name, milliseconds in parts.items():
                type_ps[row, column, step_database.TYPES.index(name)] = milliseconds * MS
    present = np.array([[bool(parts) for parts in on_hosts] for on_hosts in every], bool).reshape(count, width)
    complete = np.ones(count, bool)
    if count > 5:
        complete[[0, -1]] = False
    blank = make_empty_database(hardware, list(hosts), cores(*(1000 * at + 1 for at in range(width)), hosts=hosts))
    return replace(
        blank,
        step=np.arange(count),
        number=np.arange(count),
        name=list(names) or [""] * count,
        label=list(names) or [""] * count,
        numbered=np.zeros(count, np.bool_),
        complete=complete,
        group=np.tile(np.arange(count)[:, None], (1, width)),
        present=present,
        has_period=np.zeros(count, np.bool_),
        begin_ps=np.zeros((count, width), np.int64),
        duration_ps=type_ps.sum(axis=2),
        extent_begin_ps=np.zeros((count, width), np.int64),
        extent_ps=type_ps.sum(axis=2),
        type_ps=type_ps,
        category_ps=np.zeros((count, width, 0), np.int64),
        infeed_ps=np.zeros((count, width), np.int64),
        sparse_busy_ps=np.zeros((count, width), np.int64),
        lost=np.zeros((count, width), bool),
        compute_16bit_ps=precision[0],
        compute_32bit_ps=precision[1],
    )


def tpu_db(
    given: Sequence[Sequence[Mapping[str, float]]], *, ids: Sequence[int] = (0,), sparse: Sequence[int] = ()
) -> StepDatabase:
    """Steps of TPUs: of each core its times by op category in ms, and `step`, how long it took."""
    width, count = len(ids), len(given)
    blank = make_empty_database("TPU", ["host0"], cores(*ids, sparse=sparse))
    names = sorted({name for step in given for times in step for name in times} - {"step", "IDLE", "busy"})
    categories = ["IDLE", *names]
    category_ps = np.zeros((count, width, len(categories)), np.int64)
    duration, busy = np.zeros((count, width), np.int64), np.zeros((count, width), np.int64)
    for row, step in enumerate(given):
        for column, times in enumerate(step):
            duration[row, column] = round(times["step"] * MS)
            busy[row, column] = round(times.get("busy", 0) * MS)
            for name in names:
                category_ps[row, column, categories.index(name)] = round(times.get(name, 0) * MS)
    category_ps[:, :, 0] = np.where(blank.cores.sparse, 0, duration - category_ps.sum(axis=2))
    return replace(
        blank,
        step=np.arange(count),
        number=np.arange(count),
        name=[""] * count,
        label=[""] * count,
        numbered=np.zeros(count, np.bool_),
        complete=np.ones(count, bool),
        group=np.arange(count)[:, None],
        present=np.ones((count, width), bool),
        has_period=np.zeros(count, np.bool_),
        begin_ps=np.zeros((count, width), np.int64),
        duration_ps=duration,
        extent_begin_ps=np.zeros((count, width), np.int64),
        extent_ps=duration,
        type_ps=np.zeros((count, width, 0), np.int64),
        categories=categories,
        category_ps=category_ps,
        infeed_ps=np.zeros((count, width), np.int64),
        sparse_busy_ps=busy,
        lost=np.zeros((count, width), bool),
    )


def ops(*rows: Mapping[str, Any], total_ps: int | None = None, **rest: Any) -> Ops:
    """Ops, a row each; columns that are not given are 0 or empty."""
    columns = {key: [row.get(key, 0) for row in rows] for row in rows for key in row}
    for key, default in (("category", ""), ("provenance", ""), ("long_name", "")):
        columns[key] = [row.get(key, default) for row in rows]
    table = OpTable.of(columns.pop("name", []), **columns)
    spent = int(table.self_ps.sum())
    return Ops(table, spent if total_ps is None else total_ps, spent, **rest)


def op_stats(
    host: Ops | None = None,
    device: Ops | None = None,
    framework: OpTable | None = None,
    *,
    is_training: bool | None = None,
    functions: Sequence[TfFunction] = (),
    peaks: Peaks | None = None,
) -> OpDatabase:
    """The detail of op_stats, as the overview and the input pipeline read it."""
    host, device = host or ops(), device or ops()
    by_framework = framework if framework is not None else device.table
    return OpDatabase(host, SessionOps(device, peaks, {}, ()), by_framework, list(functions), [is_training], [])


def steps_report(db: StepDatabase, *notices: Notice) -> AnalysisReport:
    """The report on these steps; its figures are their numbers, or unknown where there are none."""
    why = None if len(db) else notices[0].text if notices else "no steps"
    figures = {
        name: Scalar(name, None if why else at, spec.unit, spec.definition, why)
        for at, (name, spec) in enumerate(steps.SCALARS.items())
    }
    tables = {"stragglers": steps.TABLES["stragglers"].arrow().empty_table()}
    return AnalysisReport("steps", tables, figures, notices, {}, SessionSteps((), db))
