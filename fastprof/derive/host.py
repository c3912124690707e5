"""One host as analyses receive it: its events, and what several analyses need of them, computed once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from fastprof.decode.workers import Workers
from fastprof.derive.steps import step_source
from fastprof.derive.steps.event_graph import STATS, EventForest
from fastprof.derive.steps.grouping import Groups, group_forest
from fastprof.derive.steps.step_source import AUTO, MARKERS, StepSource, choose_step_source
from fastprof.errors import MemoryLimitError
from fastprof.schema.columns import Int64s, Records
from fastprof.tables.host_events import HostEvents
from fastprof.tables.needs import Needs
from fastprof.wording.amounts import Steps

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import HostDeviceOps
    from fastprof.derive.ops.device_time import DeviceSpans
    from fastprof.derive.steps.host_causes import HostCauses, HostReasons
    from fastprof.derive.steps.host_steps import HostSteps, HostTimes, Periods
    from fastprof.derive.steps.tpu_steps import TpuStepEvents
    from fastprof.hlo.programs import Modules

Choice = Steps | Int64s
"""Chosen steps, or their groups on the host."""

CPU_ONLY, GPU, TPU = "CPU_ONLY", "GPU", "TPU"


class Host:
    """``raw``: the events as they were read; everything else is computed on first use. Where steps were chosen,
    ``missed`` names in words which steps the host lacks, and ``repeated`` that several have one number."""

    GROUPING: ClassVar[Needs] = Needs(stats=STATS)
    """What ``groups`` and ``events`` read: planes of all kinds."""

    def __init__(self, raw: HostEvents, workers: Workers, groups: Groups | None = None, session_hosts: int = 1) -> None:
        """``groups``: of ``raw``, or None if they are made when they are needed. ``session_hosts``: how many hosts the
        session has, this one included, as far as its files show it."""
        self.raw = raw
        self.workers = workers
        self.session_hosts = session_hosts
        self.missed: str | None = None
        self.repeated: str | None = None
        self._groups = groups
        self._entire: Host | None = None
        self._sources: dict[str, StepSource] = {}
        self._core_steps: TpuStepEvents | None = None
        self._steps: dict[str, HostSteps] = {}
        self._periods: dict[str, Periods] = {}
        self._explained: dict[str, HostSteps] = {}
        self._times: dict[str, HostTimes] = {}
        self._reasons: dict[str, HostReasons] = {}
        self._causes: dict[str, HostCauses] = {}
        self._foremost: dict[str, Records] = {}

    @property
    def name(self) -> str:
        return self.raw.host

    @property
    def hostname(self) -> str:
        """The name of the host in the capture, else localhost."""
        return self.raw.capture.hostnames[0] if self.raw.capture.hostnames else "localhost"

    @property
    def entire(self) -> Host:
        """The host with all events that were read, where this one has those of chosen steps: for what crosses the
        bounds of steps, such as memory in use and input fetched ahead."""
        return self._entire or self

    def drop(self) -> None:
        """End the use of the host. What was computed from its events refers to them, and they to it: all would stay in
        memory until Python collects such cycles, which a few large arrays do not make it do."""
        for host in (self, self.entire):
            made = (vars(host).get("forest"), host._groups)
            for events in (host.raw, *(each.events for each in made if each is not None)):
                events.kept.clear()

    @cached_property
    def hardware(self) -> str:
        """GPU where the host has GPU planes, else TPU where it has TPU planes, else CPU_ONLY."""
        for kind in (GPU, TPU):
            if self.raw.planes_of(kind):
                return kind
        return CPU_ONLY

    @cached_property
    def forest(self) -> EventForest:
        """What encloses each event and what it waits for; groups are made from it. TypeError: what it takes was not
        read."""
        missing = [stat for stat in self.GROUPING.stats if stat not in self.raw.stats]
        if missing:
            raise TypeError(
                "host.events, host.groups and host.steps take groups: declare READS = union([Host.GROUPING, Needs(…)]) "
                f"or use host.raw, the events as they were read (not read: {', '.join(missing[:3])}, …)"
            )
        return EventForest(self.raw, self.workers)

    @property
    def groups(self) -> Groups:
        """The group of each event: the step, batch or request that it belongs to."""
        if self._groups is None:
            self._groups = group_forest(self.forest)
        return self._groups

    @property
    def events(self) -> HostEvents:
        """The events that ``groups`` and ``is_eager`` describe: those read, and regions of thread pools."""
        return self.forest.events if self._groups is None else self._groups.events

    @property
    def is_eager(self) -> npt.NDArray[np.uint8]:
        """1 for ops and kernels that were executed eagerly, by row of ``events``; takes no grouping."""
        return self.forest.is_eager if self._groups is None else self._groups.is_eager

    @cached_property
    def modules(self) -> Modules:
        """The compiled programs in the capture."""
        from fastprof.hlo.programs import Modules

        return Modules(self.raw.programs, self.raw.capture.log)

    @cached_property
    def device_ops(self) -> HostDeviceOps:
        """The ops of the host's devices."""
        from fastprof.derive.ops.device_ops import sum_host_device_ops

        return sum_host_device_ops(self)

    @property
    def steps(self) -> HostSteps:
        """The steps that markers make, as XProf has them."""
        return self.steps_from(MARKERS)

    def steps_from(self, source: str) -> HostSteps:
        """Return the steps that are made from ``source``, one of the choices of STEPS_FROM, with their extents."""
        from fastprof.derive.steps.host_steps import make_host_steps

        if source not in self._steps:
            by = self.source_of_steps(source)
            is_same = by.groups is self.groups and by.spans is None and not self.raw.planes_of("TPU")
            if source != MARKERS and is_same:
                steps = replace(self.steps, source=by.source, why=by.why, kinds=by.kinds)
            else:
                steps = make_host_steps(by, self.hardware, self._collect_core_steps, together=source == MARKERS)
            if source == AUTO and by.source == MARKERS:
                steps = replace(steps, unfit=self.steps.unfit)
            self._steps[source] = steps
        return self._steps[source]

    def _collect_core_steps(self, groups: Groups) -> TpuStepEvents:
        """Return the step events of TPU cores; those of the recorded groups are kept, for several kinds of steps."""
        from fastprof.derive.steps.tpu_steps import collect_tpu_step_events

        if groups is not self.groups:
            return collect_tpu_step_events(self.events, groups, self.workers)
        if self._core_steps is None:
            self._core_steps = collect_tpu_step_events(self.events, groups, self.workers)
        return self._core_steps

    def periods_from(self, source: str) -> Periods:
        """Return the periods of these steps: each lasts until the next step begins."""
        from fastprof.derive.steps.host_steps import find_periods

        if source not in self._periods:
            self._periods[source] = find_periods(self.steps_from(source), self.source_of_steps(source))
        return self._periods[source]

    def causes_from(self, source: str) -> HostCauses:
        """Return what the host threads say that they do, with the steps made from ``source``. Reads the stats of
        derive/steps/event_origin.py."""
        from fastprof.derive.steps.host_causes import find_host_causes

        if source not in self._causes:
            self._causes[source] = find_host_causes(self.events, self.source_of_steps(source).marked.astype(np.int32))
        return self._causes[source]

    def foremost_from(self, source: str) -> Records:
        """Return what the host does at any time as PIECE, see HostCauses.foremost."""
        from fastprof.derive.lock_waits import explain_lock_waits

        if source not in self._foremost:
            causes = self.causes_from(source)
            self._foremost[source] = explain_lock_waits(self.events, causes, causes.foremost(self.events))
        return self._foremost[source]

    def reasons_from(self, source: str) -> HostReasons:
        """Return what of that counts for step times."""
        from fastprof.derive.steps.host_causes import find_host_reasons, find_other_work

        if source not in self._reasons:
            causes = self.causes_from(source)
            self._reasons[source] = find_host_reasons(
                causes, self.foremost_from(source), find_other_work(self.events, causes)
            )
        return self._reasons[source]

    def explained_steps(self, source: str) -> HostSteps:
        """Return the steps that are made from ``source``, with the times of their periods; of markers alone those of
        XProf, with the times of their extents."""
        from fastprof.derive.ops.record_checks import find_relevant_losses
        from fastprof.derive.steps.host_steps import extend_to_periods, mark_unknown_times, select_steps

        if source == MARKERS:
            return self.steps
        if source not in self._explained:
            own = self.steps_from(source)
            if (whole := self.with_all_steps(source)) is self:
                times, by = self.times_from(source), self.source_of_steps(source)
                explained = extend_to_periods(own, by, self.periods_from(source), times, self.workers)
                entire = self.entire.raw
                lost = find_relevant_losses(entire)
                explained = mark_unknown_times(explained, entire, None if lost is None else lost.times_ps)
            else:  # a chosen step lasts until the next one, whether that is chosen or not
                every = whole.explained_steps(source).database
                explained = replace(own, database=select_steps(every, np.isin(every.step, own.database.step)))
            self._explained[source] = replace(explained, marked=self.steps if source == AUTO else own)
        return self._explained[source]

    def with_all_steps(self, source: str) -> Host:
        """Return the host with all its steps; this one if the times of all take more memory than they may."""
        if self.entire is not self:
            try:
                self.entire.explained_steps(source)
            except MemoryLimitError:
                return self
        return self.entire

    def times_from(self, source: str) -> HostTimes:
        """Return the host activity by which the time of these steps is divided."""
        from fastprof.derive.ops.device_time import divide_thread_time
        from fastprof.derive.steps.host_steps import HostTimes, collect_named_work

        if source not in self._times:
            busy = divide_thread_time(self.thread_spans) if self.hardware == CPU_ONLY else None
            if busy is None and self.hardware == CPU_ONLY:
                busy = collect_named_work(self.source_of_steps(source))
            self._times[source] = HostTimes(busy, self.reasons_from(source))
        return self._times[source]

    @cached_property
    def thread_spans(self) -> list[DeviceSpans]:
        """Spans that the threads of a host without devices run as a device."""
        from fastprof.derive.ops.device_time import find_thread_spans
        from fastprof.derive.steps.host_causes import is_computing_op

        return find_thread_spans(self.events, self.forest, is_computing_op)

    def groups_from(self, source: str) -> Groups:
        """Return the groups that make these steps."""
        return self.source_of_steps(source).groups

    def source_of_steps(self, source: str) -> StepSource:
        """Return what the steps are made from."""
        if source not in self._sources:
            forest, marked = (lambda: self.forest), (lambda: self.steps.database)
            made = choose_step_source(source, self.groups, forest, marked)
            if self._entire is not None and source == MARKERS:
                number, group, _ = self._entire._numbered(MARKERS)
                made = replace(made, numbers=dict(zip(group.tolist(), number.tolist(), strict=True)))
            self._sources[source] = made
        return self._sources[source]

    def of_steps(self, choice: Choice, steps: Steps | None, source: str) -> Host:
        """Return the host with only the events of the chosen steps, which are made from ``source`` and keep their
        numbers. ``steps``: for a message if the host has none of them, or None if steps are not listed."""
        by = self.source_of_steps(source)
        number, group, label = self._numbered(source)
        groups = group[step_source.are_chosen(number, label, choice)] if isinstance(choice, Steps) else choice
        keep = np.isin(by.groups.group_id, groups)
        chosen_groups = self.groups.subset(keep)
        chosen = Host(chosen_groups.events, self.workers, chosen_groups, self.session_hosts)
        chosen._entire = self.entire
        known = dict(zip(group.tolist(), number.tolist(), strict=True))
        chosen._sources[source] = replace(by.subset(keep), numbers=known)
        here = np.isin(group, groups)
        chosen.repeated = step_source.describe_repeated_numbers(number[here], list(compress(label, here.tolist())))
        if steps is not None and not keep.any():
            chosen.missed = step_source.describe_missing_steps(steps, number, label) if len(number) else None
        return chosen

    def _numbered(self, source: str) -> tuple[Int64s, Int64s, list[str]]:
        """Return the number, group and label of each step. If all steps take too much memory, those of all groups: a
        choice of them may fit."""
        try:
            database = self.steps_from(source).database
        except MemoryLimitError:
            groups = self.source_of_steps(source).groups
            every = np.unique(groups.group_id[groups.group_id >= 0])
            return step_source.number_groups(every, *groups.step_names(every))
        return database.number, database.step, database.label
