"""Steps of several hosts: which step of one is which step of another, by their names and by when they ran."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from gate import few
from reports import session_of
from step_captures import US, found, host, pod_viewer, ran, rows, shown, spaces, step, tpu
from trace_builder import event, line, plane

from fastprof.derive.steps import step_alignment
from fastprof.derive.steps.step_alignment import SessionSteps, StepExtents, combine_hosts, describe_pairing
from fastprof.derive.steps.step_database import BY_CORE
from fastprof.xprof.steps import get_shown_steps


def on_host(starts: Sequence[float], duration: float = 8, name: str = "vm", first: int = 0) -> bytes:
    """A host whose steps, numbered from ``first`` on, begin at these times, in microseconds."""
    events = [one for k, at in enumerate(starts, first) for one in (step(k, at, duration), ran("op", at + 1, 2))]
    return spaces(host(events), hostnames=[name])


def pairs(*captures: bytes) -> list[list[int]]:
    """Of each step of the session, which step it is on each host, by when they ran."""
    return shown(*captures).group.tolist()


def every(count: int, first: float = 0) -> list[float]:
    return [first + 10 * k for k in range(count)]


def test_steps_of_the_same_name_are_the_same() -> None:
    """Whenever they ran, and whatever the number of their group is."""
    database = found(on_host(every(5), name="a"), on_host(every(3, 21), name="b", first=1))
    assert database.group.tolist() == [[1, 0], [2, 1], [3, 2]] and database.step.tolist() == [1, 2, 3]
    assert database.number.tolist() == [1, 2, 3] and database.label == ["train 1", "train 2", "train 3"]
    assert describe_pairing(database) == [
        "Steps of hosts are paired by name. XProf pairs them by time, with b shifted by 1.",
    ]


def test_hosts_that_agree_in_all_need_no_remark() -> None:
    database = found(on_host(every(3), name="a"), on_host(every(3, 1), name="b"))
    assert database.step.tolist() == [0, 1, 2] and describe_pairing(database) == []


def unnumbered(starts: Sequence[float], name: str) -> bytes:
    """Markers without a number: groups are only counted."""
    marks = [event("train", round(at * US), 8 * US, {"_r": 1}) for at in starts]
    return spaces(host([*marks, *(ran("op", at + 1, 2) for at in starts)]), hostnames=[name])


def test_steps_whose_names_do_not_record_are_aligned_by_time() -> None:
    captures = unnumbered(every(5), "a"), unnumbered(every(3, 21), "b")
    database = found(*captures)
    assert database.group.tolist() == [[2, 0], [3, 1], [4, 2]] and database.step.tolist() == [2, 3, 4]
    assert shown(*captures).step.tolist() == [0, 1, 2]
    assert describe_pairing(database) == [
        "Steps of hosts cannot be paired by name: they are aligned by time, with b shifted by 2.",
        "Hosts number their steps differently: numbers here are those of a.",
    ]


def test_names_that_come_twice_and_names_that_no_two_hosts_share_do_not_record() -> None:
    twice = spaces(host([one for at in every(2) for one in (step(0, at, 8), ran("op", at + 1, 2))]))
    assert found(twice, on_host(every(2))).shifts == {0: 0, 1: 0}
    assert found(on_host(every(2)), on_host(every(2), first=7)).group.tolist() == [[0, 0], [1, 1]]


def test_tpus_name_their_steps_in_their_line_of_steps() -> None:
    def pod(name: str, first: int, late: float) -> bytes:
        marks = [ran(str(first + k), 100 * k + late, 90) for k in range(3)]
        return spaces(tpu(0, marks, [("f", "fusion", 100 * k + late + 1, 80) for k in range(3)]), hostnames=[name])

    captures = pod("a", 4, 0), pod("b", 5, 10)
    database = found(*captures)
    assert database.group.tolist() == [[1, 0], [2, 1]] and database.label == ["5", "6"]
    assert shown(*captures).group.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_steps_at_the_same_time_are_the_same() -> None:
    assert pairs(on_host(every(3)), on_host(every(3, 1))) == [[0, 0], [1, 1], [2, 2]]


def test_a_host_that_began_later_is_shifted() -> None:
    assert pairs(on_host(every(5)), on_host(every(3, 21))) == [[2, 0], [3, 1], [4, 2]]
    assert pairs(on_host(every(3, 21)), on_host(every(5))) == [[0, 2], [1, 3], [2, 4]]


def test_only_what_all_hosts_have_is_a_step() -> None:
    hosts = [on_host(every(6)), on_host(every(4, 20)), on_host(every(4, 10))]
    assert pairs(*hosts) == [[2, 0, 1], [3, 1, 2], [4, 2, 3]]


def test_hosts_whose_steps_never_overlap_are_paired_in_order() -> None:
    assert pairs(on_host(every(3)), on_host(every(4, 1000))) == [[0, 0], [1, 1], [2, 2]]


def test_of_equal_overlaps_the_first_step_of_the_host_comes_first() -> None:
    """Each step of the long one overlaps two of the other, which goes by shifts 0 and -1 alike."""
    long, short = on_host([0, 100], 100), on_host([50, 150], 100)
    assert pairs(long, short) == [[0, 0], [1, 1]]


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_steps_in_order_overlap_as_a_walk_along_both_finds(seed: int) -> None:
    chosen = np.random.default_rng(seed)

    def spans() -> StepExtents:
        times = np.cumsum(chosen.integers(0, 4, 2 * int(chosen.integers(0, 30))))
        some = times.reshape(-1, 2)[np.diff(times.reshape(-1, 2))[:, 0] > 0]
        return StepExtents(some[:, 0], some[:, 1])

    host, chief = spans(), spans()
    walked = {k: time for k, time in step_alignment._measure_overlaps(host, chief).items() if time}
    assert step_alignment._measure_ordered_overlaps(host, chief) == walked


def test_a_host_without_steps_is_left_out_but_for_xprof() -> None:
    captures = on_host(every(3)), spaces(host([ran("op", 0, 5)]))
    database = found(*captures)
    assert database.group.tolist() == [[0, -1], [1, -1], [2, -1]] and database.without == ("vm#2",)
    assert not len(shown(*captures))


def test_steps_that_leave_nothing_in_common_are_distinguished_from_none() -> None:
    """Two hosts that each overlap the chief's steps, but not the same ones."""
    chief, early, late = on_host([100, 110, 120, 130]), on_host([0, 100, 110]), on_host([120, 130, 1000])
    assert pairs(chief, early) == [[0, 1], [1, 2]]
    assert pairs(chief, late) == [[2, 0], [3, 1]]
    database = shown(chief, early, late)
    assert len(database) == 0
    assert not database.empty_intersect  # the stretches meet, at step 2
    farther = shown(on_host([100, 110, 120, 130, 140]), early, on_host([130, 140, 1000]))
    assert farther.empty_intersect and farther.group.shape == (0, 3)


def test_incomplete_steps_go_before_hosts_are_aligned() -> None:
    report = pod_viewer(on_host(every(8)), on_host(every(4)))
    database = get_shown_steps(report)
    assert database.complete.tolist() == [False, True, True, True]
    complete = get_shown_steps(report, complete=True)
    assert complete.group.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert complete.step.tolist() == [0, 1, 2]


def on_tpu(count: int, name: str, busy: float) -> bytes:
    steps = [ran("0", 100 * k, 90) for k in range(count)]
    ops = [("f", f"fusion of {name}", 100 * k + 10, busy) for k in range(count)]
    return spaces(tpu(0, steps, ops), tpu(1, steps, ops), hostnames=[name])


def test_cores_of_all_hosts_lie_beside_each_other() -> None:
    database = found(on_tpu(3, "a", 20), on_tpu(2, "b", 30))
    assert database.cores.id.tolist() == [2, 3, 1002, 1003] and database.cores.local_id.tolist() == [2, 3, 2, 3]
    assert database.cores.name == ["a:0", "a:1", "b:0", "b:1"] and database.cores.host_number.tolist() == [0, 0, 1, 1]
    assert database.categories == ["IDLE", "fusion of a", "fusion of b"]
    lasts = [(100.0, 100.0), (100.0, 90.0)]  # host b does not record what follows its second step
    assert rows(database) == [
        (k, core, 100.0 * k, lasts[core > 1000][k], {"IDLE": lasts[core > 1000][k] - busy, category: busy})
        for k in range(2)
        for core, category, busy in (
            (2, "fusion of a", 20.0),
            (3, "fusion of a", 20.0),
            (1002, "fusion of b", 30.0),
            (1003, "fusion of b", 30.0),
        )
    ]


def test_a_host_that_only_coordinates_takes_no_part() -> None:
    coordinator = on_host(every(4), name="boss")
    database = found(coordinator, on_tpu(3, "a", 20), on_tpu(2, "b", 30))
    assert database.hardware == "TPU" and database.group.tolist() == [[-1, 0, 0], [-1, 1, 1]]
    assert database.cores.id.tolist() == [1002, 1003, 2002, 2003]  # hosts keep their numbers
    assert database.cores.host_number.tolist() == [1, 1, 2, 2]


def gpu_host(copies: int) -> bytes:
    main = [step(0, 0, 100), ran("launch", 1, 1, correlation_id=1)]
    events = [ran("gemm_half", 5, 50, correlation_id=1), ran("ncclReduce", 60, 5, correlation_id=1)]
    events += [ran("MEMCPYDtoH", 70 + k, 1, correlation_id=1, memcpy_details="num_bytes:8") for k in range(copies)]
    return spaces(host(main), plane("/device:GPU:3", [line("Stream #1", events)], id=3))


def test_collectives_keep_their_device() -> None:
    database = found(gpu_host(1), gpu_host(2))
    assert database.collectives.core_id.tolist() == [3, 1003] and database.collectives.step.tolist() == [0, 0]
    assert database.compute_16bit_ps == 100 * US and database.cores.id.tolist() == [1, 1001]


def test_no_hosts_have_no_steps() -> None:
    assert len(combine_hosts([])) == 0


@pytest.mark.parametrize("count", [1, 2])
def test_steps_keep_the_numbers_of_their_groups(count: int) -> None:
    events = [ran("op", 15, 1), step(0, 0, 8), step(1, 10, 8)]  # the first step has no op
    captures = [spaces(host(events), hostnames=[f"vm{number}"]) for number in range(count)]
    assert found(*captures).step.tolist() == [1]
    assert shown(*captures).step.tolist() == ([1] if count == 1 else [0])


def test_hosts_of_a_session_have_all_their_own_steps() -> None:
    """Also those that not all hosts have."""

    def pod(name: str, count: int, late: float) -> bytes:
        marks = [ran(str(k), 100 * k, 90) for k in range(count)]
        ops = [("f", "fusion", 100 * k + 1 + late, 80) for k in range(count)]
        return spaces(tpu(0, marks, ops), hostnames=[name])

    captures = pod("a", 3, 0), pod("b", 4, 2), pod("c", 3, 4)
    session = session_of(*captures).report("steps").answer.detail_as(SessionSteps)
    assert len(session.database) == 3
    assert [len(one.database) for one in session.hosts] == [3, 4, 3]
    for one, capture in zip(session.hosts, captures, strict=True):
        alone = found(capture)
        assert all(np.array_equal(getattr(one.database, name), getattr(alone, name)) for name in BY_CORE)
