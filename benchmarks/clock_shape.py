"""Pods whose hosts have clocks of their own: what each clock shows of the collectives, and what was true.

Hosts work, then meet in a collective, which all leave together once the last has come:

    host 0   |==work==|....wait....|transfer|==work==| ...
    host 1   |========work=========|transfer|===work===| ...      the last: nobody waits longer

``Pod.stamps()`` has the times as arrays, ``write_clocks`` the same as captures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from event_kinds import BYTES, INT64, STR, UINT64, Kind, PlaneVocabulary, Stat, Times, constant
from trace_writer import (
    PLANE_ID,
    PLANE_NAME,
    PLANE_STATS,
    CaptureWriter,
    Ints,
    bytes_field,
    line_head,
    number_field,
    text_field,
    varint,
)

Floats = npt.NDArray[np.float64]

US_PS, MS_PS = 10**6, 10**9
START_NS = 1_700_000_000 * 10**9
FIRST_PS = 60 * MS_PS
"""When the first step begins; clocks that are behind by less show no times below 0."""
PROGRAM_ID = 7
SHAPE = 50
"""Of the gamma distribution of work: with 50, one time in six is 14 % beyond the mean or more."""

ALL, ROWS, CROSSED = "all", "rows", "rows and columns"
"""Who meets: all hosts; those of a row of the square of hosts; those of a row, then those of a column, in turn."""


@dataclass(frozen=True)
class Truth:
    """By host ``offset_ps``, ``drift``: its clock shows ``t + offset + drift * t``; ``begin_ps``, ``end_ps``:
    [meetings, hosts], by the true clock, -1: the host did not take part; ``last``: the host that came last to each
    meeting; ``step``: of each meeting; ``time_ps``: from the first last arrival to the end; ``start_unix_ns``: what
    each host recorded as its start, on a clock of its own."""

    offset_ps: Floats
    drift: Floats
    begin_ps: Ints
    end_ps: Ints
    last: Ints
    step: Ints
    time_ps: int
    start_unix_ns: Ints

    def shown(self, host: int | Ints, time_ps: Ints) -> Floats:
        """What the clocks of hosts show beyond the true time."""
        return np.asarray(self.offset_ps[host] + self.drift[host] * time_ps)


@dataclass(frozen=True)
class Stamps:
    """A row per core of a host at a meeting; times as the clock of the host shows them."""

    meeting: Ints
    host: Ints
    core: Ints
    begin_ps: Ints
    end_ps: Ints


@dataclass(frozen=True)
class Pod:
    """``offset_ps``, ``drift_ppm``, ``end_skew_ps``, ``noise_ps``: standard deviations, of clocks, of how much later
    than the first a host leaves a collective, and of stamps; ``slow_link``: the number of a group, and the picoseconds
    that its collectives take longer; ``late``: by host, how many steps later than others it began to record and count;
    ``without``: hosts that leave out the first collective of each step; ``pods``: parts that never meet."""

    seed: int = 0
    hosts: int = 8
    steps: int = 20
    collectives: int = 3
    groups: str = ALL
    offset_ps: float = 3 * MS_PS
    drift_ppm: float = 5
    end_skew_ps: float = 2 * US_PS
    noise_ps: float = 0
    straggler: int | None = None
    factor: float = 1.25
    slow_link: tuple[int, int] | None = None
    late: Mapping[int, int] = field(default_factory=dict)
    without: Sequence[int] = ()
    cores: int = 1
    pods: int = 1
    work_ps: float = 400 * US_PS
    wire_ps: float = 60 * US_PS

    def stamps(self) -> tuple[Stamps, Truth]:
        rng = np.random.default_rng(self.seed)
        offset, drift = rng.normal(0, self.offset_ps, self.hosts), rng.normal(0, self.drift_ppm * 1e-6, self.hosts)
        begin, end, last, step = self._run(rng.spawn(1)[0])
        took = int(end.max() - begin[0, last[0]])
        ntp_ns = rng.normal(0, 1e6, self.hosts)
        start = (START_NS - offset / 1000 + ntp_ns).astype(np.int64)
        truth = Truth(offset, drift, begin, end, last, step, took, start)
        return self._shown(rng, truth), truth

    def saving_ps(self) -> int:
        """What of the time is saved if the straggler is none, with the same chances otherwise."""
        return self.stamps()[1].time_ps - replace(self, factor=1.0).stamps()[1].time_ps

    def members(self, collective: int) -> list[Ints]:
        """The groups of hosts that meet in a collective of each step."""
        every = np.arange(self.hosts)
        groups: list[Ints] = []
        for pod in np.split(every, self.pods):
            if self.groups == ALL:
                groups.append(pod)
                continue
            square = pod.reshape(int(len(pod) ** 0.5), -1)
            turned = self.groups == CROSSED and collective % 2
            groups += list(square.T if turned else square)
        left_out = list(self.without) if collective == 0 else []
        return [np.setdiff1d(group, left_out) for group in groups]

    def _run(self, rng: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints]:
        """See Truth. The same chances whatever the factor of the straggler is."""
        size = (self.steps, self.collectives, self.hosts)
        work = rng.gamma(SHAPE, self.work_ps / SHAPE, size)
        wire = self.wire_ps + rng.exponential(self.wire_ps / 10, size)
        skew = np.abs(rng.normal(0, 1, size)) * self.end_skew_ps
        if self.straggler is not None:
            work[:, :, self.straggler] *= self.factor
        groups = [self.members(collective) for collective in range(self.collectives)]
        now = np.full(self.hosts, float(FIRST_PS))
        begins, ends, lasts, steps = [], [], [], []
        for step, collective in np.ndindex(self.steps, self.collectives):
            for number, group in enumerate(groups[collective]):
                at = (step, collective, group)
                begin, end = np.full((2, self.hosts), -1, np.int64)
                begin[group] = now[group] + work[at]
                slow = self.slow_link[1] if self.slow_link is not None and self.slow_link[0] == number else 0
                now[group] = end[group] = begin[group].max() + wire[step, collective, group[0]] + slow + skew[at]
                begins.append(begin)
                ends.append(end)
                lasts.append(int(group[begin[group].argmax()]))
                steps.append(step)
        return np.array(begins), np.array(ends), np.array(lasts), np.array(steps)

    def _shown(self, rng: np.random.Generator, truth: Truth) -> Stamps:
        """Stamps of the true times. Of several cores the first begins last and ends first."""
        meeting, host = np.nonzero(truth.begin_ps >= 0)
        meeting, host = np.repeat(meeting, self.cores), np.repeat(host, self.cores)
        core = np.arange(len(meeting)) % self.cores
        begin, end = truth.begin_ps[meeting, host], truth.end_ps[meeting, host]
        early = rng.integers(0, 20 * US_PS, len(core)) * (core > 0)
        late = rng.integers(0, US_PS, len(core)) * (core > 0)
        shown = []
        for time in (begin - early, end + late):
            noise = rng.normal(0, self.noise_ps, len(core)) if self.noise_ps else 0
            shown.append(np.rint(time + truth.shown(host, time) + noise).astype(np.int64))
        return Stamps(meeting, host, core, shown[0], np.maximum(shown[1], shown[0]))


# ---- captures


def write_clocks(folder: Path, pod: Pod) -> Truth:
    """A capture for each host; the numbers of hosts that began to record late count from 0."""
    folder.mkdir(parents=True, exist_ok=True)
    stamps, truth = pod.stamps()
    for host in range(pod.hosts):
        with CaptureWriter(folder / f"host{host:03}.xplane.pb") as out:
            for core in range(pod.cores):
                rows = np.flatnonzero((stamps.host == host) & (stamps.core == core))
                _write_core(out, pod, host, core, stamps, truth.step, rows)
            _write_programs(out, pod)
            start = Stat("profile_start_time", UINT64, constant(int(truth.start_unix_ns[host])))
            _write_plane(out, "Task Environment", (), [start])
    return truth


def _write_core(out: CaptureWriter, pod: Pod, host: int, core: int, stamps: Stamps, step_of: Ints, rows: Ints) -> None:
    first = pod.late.get(host, 0)
    step = step_of[stamps.meeting[rows]]
    rows, step = rows[step >= first], step[step >= first] - first
    begin, end = stamps.begin_ps[rows], stamps.end_ps[rows]
    came = np.concatenate([begin[:1] - int(pod.work_ps), end[:-1]])  # work follows the collective before
    came = np.minimum(came, begin)
    collective = _place_in_step(step) + (pod.collectives - np.bincount(step)[step])  # hosts may leave out the first
    opens = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    closes = np.append(opens[1:], len(step)) - 1
    marks = [Kind(str(number)) for number in step[opens].tolist()]
    ops = [_op(f"fusion.{n}", "loop fusion", n) for n in range(pod.collectives)]
    ops += [_op(_reduce_text(pod, n), "all-reduce", pod.collectives + n) for n in range(pod.collectives)]
    vocabulary = PlaneVocabulary([*marks, *ops])
    order = np.arange(len(rows))
    places = len(marks) + np.column_stack([collective, pod.collectives + collective]).reshape(-1)
    times = Times(np.column_stack([came, begin]).reshape(-1), np.column_stack([begin - came, end - begin]).reshape(-1))
    rng = np.random.default_rng(0)
    with out.plane() as plane:
        plane.write(number_field(PLANE_ID, 2 + core) + text_field(PLANE_NAME, f"/device:TPU:{core}"))
        spans = Times(came[opens], end[closes] - came[opens])
        for number, name, kinds, when in ((1, "Steps", order[: len(opens)], spans), (3, "XLA Ops", places, times)):
            encoded, _ = vocabulary.encode(rng, kinds, when)
            plane.line(line_head(number, name, 0), encoded.data, b"")
        details = number_field(2, core) + number_field(4, core) + number_field(6, host * pod.cores + core)
        stat = vocabulary.stat(Stat("core_details", BYTES, text=details.decode("latin-1")))
        plane.write(vocabulary.metadata(rng) + bytes_field(PLANE_STATS, stat))


def _place_in_step(step: Ints) -> Ints:
    return np.arange(len(step)) - np.searchsorted(step, step)


def _op(text: str, category: str, number: int) -> Kind:
    stats = (
        Stat("program_id", UINT64, constant(PROGRAM_ID)),
        Stat("symbol_id", INT64, constant(number + 1)),
        Stat("hlo_category", STR, text=category),
    )
    name = text.removeprefix("%").partition(" = ")[0]
    return Kind(text if "=" in text else f"%{text} = f32[8] fusion(f32[8] %x)", (), name, metadata_stats=stats)


def _reduce_text(pod: Pod, collective: int) -> str:
    cores = np.arange(pod.hosts * pod.cores).reshape(pod.hosts, pod.cores)
    groups = ",".join("{" + ",".join(map(str, cores[one].ravel())) + "}" for one in pod.members(collective))
    ids = f"replica_groups={{{groups}}}, use_global_device_ids=true"
    return f"%all-reduce.{collective} = f32[256] all-reduce(f32[256] %x), channel_id=1, {ids}, to_apply=%add"


def _write_programs(out: CaptureWriter, pod: Pod) -> None:
    """The program, as far as groups of devices need it: which device is which replica."""
    count = pod.hosts * pod.cores
    devices = bytes_field(1, b"".join(map(varint, range(count))))
    assignment = number_field(1, count) + number_field(2, 1) + bytes_field(3, devices)
    proto = bytes_field(1, text_field(1, "jit_train") + bytes_field(15, assignment))
    own = (Stat("Hlo Proto", BYTES, text=proto.decode("latin-1")), Stat("program_id", UINT64, constant(PROGRAM_ID)))
    _write_plane(out, "/host:metadata", [Kind(f"jit_train({PROGRAM_ID})", metadata_stats=own)], ())


def _write_plane(out: CaptureWriter, name: str, kinds: Sequence[Kind], stats: Sequence[Stat]) -> None:
    """A plane without events."""
    vocabulary = PlaneVocabulary(kinds)
    written = b"".join(bytes_field(PLANE_STATS, vocabulary.stat(stat)) for stat in stats)
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, name) + vocabulary.metadata(np.random.default_rng(0)) + written)
