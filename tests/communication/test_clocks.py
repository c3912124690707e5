"""The clocks of hosts, from when they leave collectives: offsets, errors that hold, and what contradicts them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clock_pods import CROSSED, ROWS, US_PS, Pod, of_reference, seen, write_clocks

import fastprof
from fastprof.derive.communication.clocks import HostMeetings, MeetingRows, compare_clocks, fit_clocks

SMALL = Pod(hosts=8, steps=15, collectives=2)


def errors(pod: Pod) -> tuple[Any, Any, Any]:
    """By host but references: the largest error of a corrected end, and what was reported: error and bound."""
    found, rows, truth = seen(pod)
    assert found.known.all() and not found.violated.any()
    true = of_reference(truth, rows.host, found.fit.reference[rows.host], rows.end_ps)
    worst = np.zeros(pod.hosts)
    np.maximum.at(worst, rows.host, np.abs(found.fit.corrected(rows.host, rows.end_ps) - true))
    others = found.fit.reference != np.arange(pod.hosts)
    return worst[others], found.fit.error_ps[others], found.fit.bound_ps[others]


@pytest.mark.parametrize(
    "pod",
    [
        SMALL,
        replace(SMALL, end_skew_ps=20 * US_PS),
        replace(SMALL, drift_ppm=50),
        replace(SMALL, hosts=9, groups=CROSSED),
        replace(SMALL, noise_ps=10 * US_PS),
        replace(SMALL, straggler=3, cores=2),
    ],
    ids=["base", "uneven ends", "drift", "crossed", "noise", "straggler"],
)
def test_errors_are_those_reported_and_bounds_always_hold(pod: Pod) -> None:
    found = [errors(replace(pod, seed=seed)) for seed in range(50 if pod is SMALL else 20)]
    worst, error, bound = (np.concatenate(part) for part in zip(*found, strict=True))
    assert (worst <= 3 * error).mean() >= 0.99
    assert (worst <= bound).all()
    assert np.median(worst) > np.median(error) / 4  # the error is not large to be safe


def test_offsets_are_far_smaller_than_what_transfers_take() -> None:
    worst, error, bound = errors(replace(SMALL, steps=60))
    assert worst.max() < 1 * US_PS and error.max() < 1 * US_PS
    assert 55 * US_PS < np.median(bound) < 90 * US_PS  # about the least time of a transfer


def test_pods_that_never_meet_are_two_parts() -> None:
    found, _, _ = seen(replace(SMALL, pods=2))
    assert found.fit.part.tolist() == [0] * 4 + [1] * 4
    assert found.fit.reference.tolist() == [0] * 4 + [4] * 4
    rows, _, _ = seen(replace(SMALL, hosts=9, groups=ROWS))
    assert rows.fit.part.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_the_order_of_hosts_and_events_does_not_matter() -> None:
    found, rows, truth = seen(replace(SMALL, hosts=9, groups=CROSSED))
    names = [f"host{number}" for number in range(9)]
    rng = np.random.default_rng(1)
    place, order, meeting = rng.permutation(9), rng.permutation(len(rows)), rng.permutation(len(truth.step))
    mixed = MeetingRows(meeting[rows.meeting], place[rows.host], rows.begin_ps, rows.end_ps).take(order)
    step = np.zeros_like(truth.step)
    step[meeting] = truth.step
    others = compare_clocks(HostMeetings(mixed, step, 0 * step), [names[one] for one in np.argsort(place).tolist()])
    for name in ("part", "offset_ps", "at_ps", "error_ps", "bound_ps", "residual_ps"):
        assert getattr(others.fit, name)[place].tolist() == getattr(found.fit, name).tolist()


def test_few_meetings_are_known_by_their_bounds_alone() -> None:
    found, rows, truth = seen(replace(SMALL, steps=2))
    assert (found.fit.error_ps == found.fit.bound_ps).all() and (found.fit.drift == 0).all()
    true = of_reference(truth, rows.host, 0 * rows.host, rows.end_ps)
    assert (np.abs(found.fit.corrected(rows.host, rows.end_ps) - true) <= found.fit.bound_ps[rows.host] + 1).all()


def test_a_chain_of_hosts_has_errors_that_grow() -> None:
    """Host n only meets n - 1 and n + 1."""
    rng = np.random.default_rng(3)
    meeting, host, end = [], [], []
    for number in range(40 * 9):
        left = number % 9
        meeting += [number, number]
        host += [left, left + 1]
        end += [number * 10**9 + int(rng.normal(0, 10**6)) for _ in range(2)]
    stamps = np.array(end)
    found = fit_clocks(MeetingRows(np.array(meeting), np.array(host), stamps - 50 * US_PS, stamps), 10)
    assert (np.diff(found.error_ps) > 0).all() and (np.diff(found.bound_ps) > 0).all()
    assert (np.abs(found.corrected(np.arange(10), 10**11 + 0 * np.arange(10)) - 10**11) <= 3 * found.error_ps).all()


def test_meetings_that_contradict_each_other_give_no_clock() -> None:
    _, rows, truth = seen(SMALL)
    wrong = rows.host == 5
    shuffled = rows.begin_ps[wrong][::-1], rows.end_ps[wrong][::-1]
    rows.begin_ps[wrong], rows.end_ps[wrong] = shuffled
    found = compare_clocks(HostMeetings(rows, truth.step, 0 * truth.step), [str(number) for number in range(8)])
    assert not found.known.any() and found.violated[5] > 10 and not len(found.rows)


# ---- of captures


def report(folder: Path, pod: Pod) -> fastprof.Report:
    write_clocks(folder, pod)
    return fastprof.load(folder).communication()


def test_captures_have_the_clocks_of_their_arrays(tmp_path: Path) -> None:
    pod = Pod(seed=4, hosts=4, steps=8, collectives=4, groups=CROSSED, cores=2, without=(2,))
    found, _, truth = seen(pod)
    table = report(tmp_path, pod).tables["clocks"].to_pydict()
    assert table["host"] == ["host000", "host001", "host002", "host003"]
    for name in ("part", "offset_ps", "at_ps", "error_ps", "bound_ps", "residual_ps"):
        assert table[name] == getattr(found.fit, name).tolist()
    assert table["reference"] == ["host000"] * 4 and table["violated"] == [0] * 4
    assert table["meetings"] == [8 * 4, 8 * 4, 8 * 3, 8 * 3]  # without host 2, host 3 is alone in the first
    starts = (truth.start_unix_ns - truth.start_unix_ns[0]) * 1000
    assert table["ntp_error_ps"] == (starts - found.fit.offset_ps).tolist()


def test_the_last_of_several_hosts_follows_from_their_clocks(tmp_path: Path) -> None:
    pod = Pod(seed=2, hosts=4, steps=10, collectives=2)
    meetings = report(tmp_path, pod).tables["meetings"].to_pydict()
    _, truth = pod.stamps()
    last = [f"host{number:03}: /device:TPU:0" for number in truth.last.tolist()]
    skew = truth.begin_ps.max(axis=1) - truth.begin_ps.min(axis=1)
    known = [place for place, value in enumerate(meetings["skew_ps"]) if value is not None]
    assert len(known) > 15
    assert [meetings["last_device"][place] for place in known] == [last[place] for place in known]
    assert all(abs(meetings["skew_ps"][place] - skew[place]) < 2 * US_PS for place in known)
    gaps = np.sort(truth.begin_ps, axis=1)
    assert all(gaps[place, -1] - gaps[place, -2] > US_PS for place in known)  # others are too near to say


@pytest.mark.parametrize("late", [{1: 2}, {0: 3}])
def test_a_host_that_counts_steps_from_another_one_on_is_shifted(late: dict[int, int], tmp_path: Path) -> None:
    found = report(tmp_path, Pod(seed=1, hosts=2, steps=20, collectives=3, late=late))
    shift = 2 if 1 in late else -3
    assert found.tables["clocks"]["step_shift"].to_pylist() == [0, shift]
    assert max(found.tables["clocks"]["residual_ps"].to_pylist()) < 4 * US_PS
    assert any("meet those that other hosts number" in notice.text for notice in found.notices)


def test_meetings_of_one_host_stay_if_the_numbers_of_its_steps_are_shifted_below_0(tmp_path: Path) -> None:
    """Of 9 steps on a host and 6 on the other, 3 are common after the shift."""
    found = report(tmp_path, Pod(seed=1, hosts=2, steps=9, collectives=20, cores=2, late={0: 3}))
    assert found.tables["clocks"]["step_shift"].to_pylist() == [0, -3]
    assert found.tables["meetings"].num_rows == 20 * (9 + 6 - 3)


def test_one_host_has_no_clocks_to_compare(tmp_path: Path) -> None:
    found = report(tmp_path, Pod(hosts=1, steps=3))
    assert [found.tables[name].num_rows for name in ("clocks", "blame", "host_steps")] == [0, 0, 0]
    assert found.scalars["straggler_host"].reason == "no host met another in a collective"


def test_hosts_that_contradict_each_other_say_so() -> None:
    """The hosts of the demo were made one by one: their collectives do not end together."""
    found = fastprof.load(Path(__file__).resolve().parent.parent.parent / "demo" / "pod").communication()
    assert found.tables["clocks"]["offset_ps"].to_pylist() == [None, None]
    assert found.tables["blame"].num_rows == 0
    assert any("clocks of 2 hosts" in notice.text for notice in found.notices)
    stragglers = found.tables["stragglers"]
    for name in ("last_count", "caused_ps"):
        assert stragglers[name].to_pylist() == [None] * 8
        reason = stragglers.schema.field(name).metadata[b"reason"].decode()
        assert reason.startswith("no meeting of the device shows which one was last")
    assert min(stragglers["waited_ps"].to_pylist()) > 0
    assert found.scalars["last_device"].reason == "no collective shows which device came last"
    assert not any("comes last" in notice.text for notice in found.notices)


def test_two_ranks_of_one_machine_have_one_clock(captures: Path) -> None:
    """Traces of PyTorch count from Unix epoch, so the offset has to be the difference of their starts."""
    ranks = [captures / "chrome" / "kineto" / f"a100_rank-{number}.json.gz" for number in range(2)]
    found = fastprof.load(ranks).communication()
    first, second = found.tables["clocks"].to_pylist()
    assert first["ntp_error_ps"] == 0 and second["meetings"] == 5
    assert abs(second["ntp_error_ps"]) <= min(second["error_ps"], 100 * US_PS)
    for name in ("straggler_host", "last_device"):
        assert found.scalars[name].reason == "2 of 128 ranks are recorded"
