"""Who makes whom wait: the critical path against a slow oracle, stragglers that are named, and those that are none."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import median_low

import numpy as np
import pyarrow.compute as pc
import pytest
from clock_pods import CROSSED, US_PS, Pod, attended, judged, seen, write_clocks
from gate import rounds

import fastprof
from fastprof.derive.communication.blame import assign_blame
from fastprof.derive.communication.clocks import (
    HostMeetings,
    MeetingRows,
    compare_clocks,
    find_step_shifts,
    measure_others,
)

POD = Pod(hosts=9, steps=12, collectives=2)


def slow_path(rows: MeetingRows) -> tuple[int, list[tuple[int, int]], dict[int, int]]:
    """The longest chain of work and transfers that ends last, by trying at each collective who came last, host by host:
    its time, its hosts and meetings, and by host what it works beyond the median."""
    came = {(m, h): (b, e) for m, h, b, e in zip(rows.meeting.tolist(), rows.host.tolist(), rows.begin_ps.tolist(),
                                                 rows.end_ps.tolist(), strict=True)}  # fmt: skip
    before = {}
    for meeting, host in came:
        done = [m for m, h in came if h == host and came[m, h][1] <= came[meeting, host][0] and m != meeting]
        before[meeting, host] = max(done, key=lambda m: came[m, host][1], default=None)

    def work(meeting: int, host: int) -> int | None:
        own = before[meeting, host]
        return None if own is None else came[meeting, host][0] - came[own, host][1]

    here, leaver = max(came, key=lambda place: came[place][1])
    end, chain, excess = came[here, leaver][1], [], dict.fromkeys(rows.host.tolist(), 0)
    while True:
        hosts = [h for m, h in came if m == here]
        last = max(hosts, key=lambda h: came[here, h][0])
        chain.append((here, last))
        own = work(here, last)
        if own is None:
            return end - came[here, last][0], chain[::-1], excess
        known = sorted(one for h in hosts if h != last and (one := work(here, h)) is not None)
        usual = (median_low(known) + known[len(known) // 2]) // 2
        excess[last] += max(0, own - usual)
        here = before[here, last]


@pytest.mark.parametrize("pod", [replace(POD, steps=4), replace(POD, steps=4, groups=CROSSED, straggler=4)])
def test_the_critical_path_is_that_of_a_slow_walk(pod: Pod) -> None:
    found, _ = judged(pod)
    (path,) = found.paths
    time, chain, excess = slow_path(found.rows)
    assert path.work_ps + path.transfer_ps == path.time_ps == time
    assert list(zip(path.meetings, path.hosts, strict=True)) == chain
    assert found.excess_ps.tolist() == [excess[host] for host in range(pod.hosts)]


def test_waiting_and_direct_blame_are_those_of_each_meeting() -> None:
    found, _ = judged(replace(POD, steps=3, groups=CROSSED))
    waited, caused, last = np.zeros(9, np.int64), np.zeros(9, np.int64), np.zeros(9, np.int64)
    for meeting in np.unique(found.rows.meeting).tolist():
        mine = found.rows.take(found.rows.meeting == meeting)
        order = np.argsort(mine.begin_ps)
        begin, host = mine.begin_ps[order], mine.host[order]
        waited[host] += begin[-1] - begin
        caused[host[-1]] += (begin[-1] - begin[-2]) * (len(host) - 1)
        last[host[-1]] += 1
    assert found.waited_ps.tolist() == waited.tolist()
    assert found.caused_alone_ps.tolist() == caused.tolist()
    assert found.last_count.tolist() == last.tolist()


def test_the_path_is_that_of_the_true_clock() -> None:
    pod = replace(POD, steps=30, straggler=4)
    found, truth = judged(pod)
    assert abs(found.paths[0].time_ps - truth.time_ps) < 2 * US_PS
    _, rows, _ = seen(pod)
    true = MeetingRows(rows.meeting, rows.host, truth.begin_ps[rows.meeting, rows.host],
                    truth.end_ps[rows.meeting, rows.host])  # fmt: skip
    time, chain, _ = slow_path(true)
    assert time == truth.time_ps
    agree = set(chain) & set(zip(found.paths[0].meetings, found.paths[0].hosts, strict=True))
    assert len(agree) > 0.95 * len(chain)


def test_stragglers_are_named_and_nobody_else() -> None:
    named, wrong = 0, 0
    pods = rounds(100, 30)
    for seed in range(pods):
        pod = Pod(seed=seed, hosts=16, steps=20, collectives=3)
        named += judged(replace(pod, straggler=seed % 16))[0].paths[0].named == seed % 16
        wrong += judged(pod)[0].paths[0].named >= 0
    assert named == pods and wrong <= 1


def test_with_crossing_groups_the_path_finds_who_makes_others_late() -> None:
    found, _ = judged(replace(POD, steps=25, collectives=4, groups=CROSSED, straggler=4))
    assert found.paths[0].named == 4
    assert found.excess_ps[4] > 5 * np.delete(found.excess_ps, 4).max()
    assert found.caused_alone_ps[4] < found.caused_alone_ps.sum() / 2


def test_what_is_saved_is_at_least_what_the_straggler_takes() -> None:
    for groups in ("all", CROSSED):
        pod = replace(POD, steps=40, groups=groups, straggler=4)
        found, _ = judged(pod)
        true = pod.saving_ps()
        assert 0 < true < 1.1 * found.saved_ps[4]
        assert groups == CROSSED or found.saved_ps[4] < 1.5 * true


def test_a_slow_link_is_not_blamed_on_a_host() -> None:
    pod = replace(POD, steps=25, groups=CROSSED)
    found, slow = judged(pod)[0], judged(replace(pod, slow_link=(0, 300 * US_PS)))[0]
    assert slow.paths[0].named < 0
    assert slow.paths[0].transfer_ps > found.paths[0].transfer_ps + 20 * 300 * US_PS


def test_the_order_of_hosts_does_not_matter() -> None:
    pod = replace(POD, groups=CROSSED, straggler=4)
    known, _, truth = seen(pod)
    mixed = known.rows.take(np.random.default_rng(0).permutation(len(known.rows)))
    first, second = assign_blame(known, truth.step), assign_blame(replace(known, rows=mixed), truth.step)
    for name in ("waited_ps", "caused_alone_ps", "on_path_ps", "excess_ps", "saved_ps", "steps"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    assert first.paths == second.paths


def test_rows_of_hosts_that_took_no_part_are_left_out() -> None:
    stamps, _ = replace(POD, without=(3,)).stamps()
    assert len(attended(stamps)) == 12 * (9 + 8)


def test_damaged_stamps_leave_sums_exact() -> None:
    """Any times of any hosts: those that make no sense are left out, and of the others work and transfer add up."""
    rng = np.random.default_rng(0)
    paths = 0
    for _ in range(200):
        hosts, meetings = int(rng.integers(1, 6)), int(rng.integers(1, 12))
        meeting, host = np.nonzero(rng.random((meetings, hosts)) < 0.8)
        scale = int(rng.choice([3, 10**6, 10**12, 2**59, 2**63 - 1]))
        begin = rng.integers(-scale if rng.random() < 0.5 else 0, scale, len(meeting))
        end = begin + rng.integers(0, max(min(scale, 2**63 - 1 - scale), 1), len(meeting))
        step, series = rng.integers(-1, 4, meetings), rng.integers(0, 2, meetings)
        met = HostMeetings(MeetingRows(meeting, host, begin, end), step, series)
        known = compare_clocks(met, [str(number % 4) for number in range(hosts)])
        assert set(find_step_shifts(met, known).tolist()) <= set(range(-3, 4))
        found = assign_blame(known, step)
        assert all(path.work_ps + path.transfer_ps == path.time_ps for path in found.paths)
        assert (found.saved_ps <= found.excess_ps).all() and (found.excess_ps <= found.on_path_ps).all()
        paths += len(found.paths)
    assert paths > 30


def test_medians_of_others_are_exact_beyond_what_floats_hold() -> None:
    large = 2**60 + 1
    values, joined = measure_others(np.array([0, 0, 0, 1]), np.array([large, large + 2, large + 4, 7]))
    assert values.tolist() == [large + 3, large + 2, large + 1, 7] and joined.tolist() == [3, 3, 3, 1]


# ---- of captures


def test_hosts_that_are_late_together_cost_what_the_others_wait(tmp_path: Path) -> None:
    write_clocks(tmp_path, Pod(seed=5, hosts=4, steps=16, collectives=3, cores=2, straggler=2))
    straggler = next(tmp_path.rglob("host002*"))
    shutil.copy(straggler, straggler.with_name(straggler.name.replace("host002", "host004")))
    session = fastprof.load(tmp_path)
    figures = {name: one.value for name, one in session.communication().scalars.items()}
    (finding,) = (one for one in session.diagnosis().tables["findings"].to_pylist() if one["cause"] == "straggler")
    assert figures["straggler_host"] == "host002" and figures["straggler_saved_ps"] == 0
    assert finding["host"] is None and finding["cost_ps"] > 0 and "other hosts are late too" in finding["detail"]
    by_step = session.gaps().tables["by_step"].filter(pc.field("cause") == "communication").to_pylist()
    devices = {(row["host"], row["device"]) for row in by_step}
    time: dict[int, dict[tuple[str, str], int]] = {row["step"]: dict.fromkeys(devices, 0) for row in by_step}
    for row in by_step:
        time[row["step"]][row["host"], row["device"]] += row["time_ps"]
    beyond = ([one - min(some.values()) for one in some.values()] for some in time.values())
    waits = ([one for one in some if 2 * one > max(some)] for some in beyond)
    assert finding["cost_ps"] == sum(sum(some) // len(some) for some in waits if some)


def test_reports_name_the_straggler_with_its_numbers(tmp_path: Path) -> None:
    pod = Pod(seed=5, hosts=4, steps=16, collectives=3, cores=2, straggler=2)
    write_clocks(tmp_path, pod)
    session = fastprof.load(tmp_path)
    report = session.communication()
    rows = report.tables["blame"].to_pylist()
    figures = {name: figure.value for name, figure in report.scalars.items()}
    assert rows[0]["host"] == figures["straggler_host"] == "host002"
    assert rows[0]["excess_ps"] == figures["straggler_excess_ps"] and rows[0]["steps"] > 8
    assert rows[0]["excess_share"] == pytest.approx(rows[0]["excess_ps"] / figures["path_ps"])
    assert figures["straggler_saved_ps"] == rows[0]["saved_ps"]
    words = "host002 delays the other hosts. On the critical path it works "
    late, hide = (notice.text for notice in report.notices if notice.severity == "recommendation")
    assert late.startswith(words) and "at most" in late
    assert "of collective time is waiting for the last device" in hide
    assert any("table blame of communication" in notice.text for notice in session.steps().notices)
    steps = report.tables["host_steps"].to_pylist()
    assert len(steps) == 4 * 16 and all(row["meetings"] == 3 for row in steps)
    (finding,) = (one for one in session.diagnosis().tables["findings"].to_pylist() if one["cause"] == "straggler")
    assert (finding["host"], finding["device"], finding["is_bound"]) == ("host002", None, False)
    assert finding["cost_ps"] == rows[0]["saved_ps"] + figures["straggler_before_ps"]
    assert finding["evidence"] == "communication.blame"
    assert finding["detail"].rstrip(".") in next(
        notice.text for notice in report.notices if notice.text.startswith(words[:40])
    )
    assert all(row["saved_ps"] <= row["excess_ps"] <= row["on_path_ps"] for row in rows)
    beyond = [sum(row["beyond_ps"] for row in steps if row["host"] == f"host{n:03}") for n in range(4)]
    assert beyond[2] > 4 * max(beyond[0], beyond[1], beyond[3])


def test_reports_say_if_no_single_host_delays_the_others(tmp_path: Path) -> None:
    write_clocks(tmp_path, Pod(seed=5, hosts=4, steps=16, collectives=3))
    session = fastprof.load(tmp_path)
    report = session.communication()
    figure = report.scalars["straggler_host"]
    assert figure.value is None and (figure.reason or "").startswith("no single host delays the others: the largest")
    assert any(notice.text.startswith("No single host delays the others") for notice in report.notices)
    (finding,) = (one for one in session.diagnosis().tables["findings"].to_pylist() if one["cause"] == "straggler")
    assert finding["host"] is None and finding["detail"].startswith("No single host delays the others: the largest")


def test_that_devices_wait_for_the_last_is_possible_only_if_none_was_seen_to_meet_another(tmp_path: Path) -> None:
    write_clocks(tmp_path, Pod(seed=3, hosts=2, steps=8, collectives=2, pods=2))
    rows = fastprof.load(tmp_path).diagnosis().tables["findings"].to_pylist()
    (finding,) = (row for row in rows if row["title"].startswith("Devices wait in collectives"))
    assert (finding["certainty"], finding["evidence"]) == ("possible", "gaps.by_step?cause=communication")
    assert finding["detail"].startswith("No collective has records of several devices. ")
