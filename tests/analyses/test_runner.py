"""How analyses are run: which ones, in what order, with what parameters, on what they read together."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES, accumulation, runner, steps
from fastprof.analyses.contract import AnalysisReport
from fastprof.derive.host import Host
from fastprof.derive.ops.record_checks import RECORD_STATS
from fastprof.errors import UsageError
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host
from fastprof.tables.needs import Needs, unite_needs


@dataclass
class Seen:
    """What the analyses were asked, in order."""

    of_host: list[tuple[str, str]]
    run: list[str]


@dataclass(frozen=True)
class Timed:
    at: int | None = field(default=None, metadata={"type": "time", "help": "a moment"})


TIMED: Any = SimpleNamespace(Params=Timed)
Add = Callable[..., None]
NOTHING = Needs()


@pytest.fixture
def seen() -> Seen:
    return Seen([], [])


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> Add:
    """add(name, …): an analysis that reports what it was given."""

    def add(
        name: str,
        after: tuple[str, ...] = (),
        reads: Needs = NOTHING,
        of_host: Callable[[Host], Any] = lambda host: host.name,
        **params: Any,
    ) -> None:
        def asked_of_host(host: Host, _given: Any) -> Any:
            seen.of_host.append((name, host.name))
            return of_host(host)

        def run(kept: list[Any], given: Any, reports: dict[str, AnalysisReport]) -> AnalysisReport:
            seen.run.append(name)
            return AnalysisReport(name, {}, {}, after=reports, detail=(kept, given))

        kind = make_dataclass("Params", [(key, type(value), value) for key, value in params.items()], frozen=True)
        fake = SimpleNamespace(
            NAME=name, READS=reads, AFTER=after, Params=kind, of_host=asked_of_host, run=run, TABLES={}
        )
        monkeypatch.setitem(ANALYSES, name, name)
        monkeypatch.setitem(sys.modules, f"fastprof.analyses.{name}", fake)

    return add


def host(name: str, *events: Any) -> bytes:
    return xspace(plane("/host:CPU", [line("main", list(events) or [event("e", 0, 1, {"x": 1})])]), hostnames=[name])


def write(folder: Path, **captures: bytes) -> fastprof.Profile:
    for name, data in captures.items():
        (folder / f"{name}.xplane.pb").write_bytes(data)
    return fastprof.load(folder)


# ---- which, and in what order ------------------------------------------------------------------------


def test_each_comes_after_what_it_needs_and_once(add: Add, seen: Seen, tmp_path: Path) -> None:
    add("last", after=("left", "right"))
    add("left", after=("first",))
    add("right", after=("first",))
    add("first")
    profile = write(tmp_path, a=host("a"), b=host("b"))
    reports = runner.run(profile.table_set, ["last"])
    assert seen.run == ["first", "left", "right", "last"]
    assert seen.of_host == [(name, one) for one in ("a", "b") for name in seen.run]
    assert list(reports) == ["last"] and reports["last"].detail[0] == ["a", "b"]
    assert {name: list(report.after) for name, report in reports["last"].after.items()} == {
        "left": ["first"],
        "right": ["first"],
    }
    assert reports["last"].after["left"].after["first"] is reports["last"].after["right"].after["first"]


def test_reports_are_in_the_order_asked_for_and_each_once(add: Add, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        add(name, after=("two",) if name == "one" else ())
    reports = runner.run(write(tmp_path, a=host("a")).table_set, ["three", "one", "two", "three"])
    assert list(reports) == ["three", "one", "two"]
    assert reports["one"].after["two"] is reports["two"]


def test_names_may_come_from_anything_that_is_gone_through_once(add: Add, tmp_path: Path) -> None:
    add("one")
    assert list(runner.run(write(tmp_path, a=host("a")).table_set, iter(["one"]))) == ["one"]


def test_an_unknown_analysis_is_reported_before_anything_is_read(add: Add, seen: Seen, tmp_path: Path) -> None:
    add("one")
    profile = write(tmp_path, a=host("a"))
    with pytest.raises(UsageError, match=r"no analysis 'two'; there are: .*one"):
        runner.run(profile.table_set, ["one", "two"])
    assert not seen.of_host


def test_every_analysis_there_is_has_an_end() -> None:
    assert sorted(runner.add_prerequisites(ANALYSES)) == sorted(ANALYSES)
    for name in ANALYSES:
        before: set[str] = set()
        for other, analysis in runner.add_prerequisites([name]).items():
            assert before.issuperset(analysis.AFTER)
            before.add(other)
        assert list(runner.add_prerequisites([name]))[-1] == name


# ---- parameters --------------------------------------------------------------------------------------


def test_an_analysis_has_the_parameters_of_those_it_comes_after() -> None:
    """But for those that make a difference to their own page alone."""
    named = {name: [one.name for one in runner.list_fields([name])] for name in ANALYSES}
    assert named["overview"] == ["top_ops", "steps_from", "device", "peak"]
    assert named["annotations"] == named["input_pipeline"] == ["steps_from", "device", "peak"]
    assert named["diagnosis"] == ["recorded_with", "steps_from", "device", "peak"]
    assert named["pod_viewer"] == ["steps_from"]
    assert named["inference"] == ["request_order", "batch_order"]
    assert named["op_stats"] == ["device", "peak"]
    assert named["kernel_stats"] == []
    assert {one.name for one in runner.list_fields(ANALYSES)} == {
        "top_ops", "steps_from", "request_order", "batch_order", "at", "request", "short_lived_us", "parallel",
        "slow_call_us", "queue_length", "kernel_wait_us", "long_call_us", "long_delay_us", "group_by", "module",
        "memory_space", "device", "peak", "top", "nodes", "annotation", "instance",
        "recorded_with", "percentiles", "sequence_length",
    }  # fmt: skip


def test_a_parameter_goes_to_all_that_have_it_and_others_keep_their_own(add: Add, tmp_path: Path) -> None:
    add("one", after=("two",), top=10, order="time")
    add("two", top=20)
    tables = write(tmp_path, a=host("a")).table_set
    one = runner.run(tables, ["one"], {"top": 3})["one"]
    assert (one.detail[1].top, one.detail[1].order, one.after["two"].detail[1].top) == (3, "time", 3)
    one = runner.run(tables, ["one"])["one"]
    assert (one.detail[1].top, one.after["two"].detail[1].top) == (10, 20)


@pytest.mark.parametrize(("params", "there"), [({"top": 1}, "order, top"), ({}, None)])
def test_an_unknown_parameter_is_reported(add: Add, tmp_path: Path, params: dict[str, Any], there: str | None) -> None:
    add("one", **params | ({"order": "x"} if there else {}))
    tables = write(tmp_path, a=host("a")).table_set
    with pytest.raises(UsageError, match=f"no parameter 'tpo'; there are{f': {there}' if there else ' none'}"):
        runner.run(tables, ["one"], {"tpo": 1})


@pytest.mark.parametrize(
    ("given", "ps"), [("1.5us", 1_500_000), (" 20 ms ", 20 * 10**9), ("7", 7), (-3, -3), (None, None)]
)
def test_a_time_may_be_written_as_text(given: Any, ps: int | None) -> None:
    assert runner.make_params({"one": TIMED}, {"at": given})["one"].at == ps


@pytest.mark.parametrize(("given", "why"), [
    ("soon", "at: 'soon' is not a time; write a number and ps, ns, us, ms or s"),
    ("0.1ps", "at: '0.1ps' is not an integer number of picoseconds"),
    ("9" * 30, "at: '9{30}' is more than 106 days"),
    ("9" * 999, "at: '9{60}' is not a time"),
    (1.5, "at: 1.5 is not a time such as '1.5s', or an integer number of picoseconds"),
    (True, "at: True is not a time"),
    (1 << 63, "at: 9223372036854775808 does not fit 64 bits"),
])  # fmt: skip
def test_what_is_not_a_time_is_reported(given: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        runner.make_params({"one": TIMED}, {"at": given})


def test_numbers_beyond_64_bits_are_reported() -> None:
    many = SimpleNamespace(Params=make_dataclass("Params", [("most", int, field(default=1, metadata={"min": 0}))]))
    assert runner.make_params({"one": many}, {"most": 2**63 - 1})["one"].most == 2**63 - 1  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="most: 9223372036854775808 does not fit 64 bits"):
        runner.make_params({"one": many}, {"most": 2**63})  # type: ignore[dict-item]


# ---- what is read ------------------------------------------------------------------------------------


def test_needs_are_read_together() -> None:
    one = Needs(("CPU",), ("x", "y"), ("m",))
    assert unite_needs([one, Needs(("GPU", "CPU"), ("y", "z"))]) == Needs(("CPU", "GPU"), ("x", "y", "z"), ("m",))
    assert unite_needs([one, Needs((), ("z",))]) == Needs((), ("x", "y", "z"), ("m",))  # () means all planes
    assert unite_needs([one]) == one


def test_each_host_is_read_once_for_all_analyses(add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[Any, ...]] = []
    real = accumulation.read_host

    def counted(tables: Any, number: int, *needs: Any) -> Any:
        read.append((number, *needs))
        return real(tables, number, *needs)

    monkeypatch.setattr(accumulation, "read_host", counted)
    add("one", reads=Needs(("CPU",), ("x",)), of_host=lambda host: (id(host), list(host.raw.stats)))
    add("two", after=("one",), reads=Needs(("CPU", "GPU"), ("y",), ("m",)), of_host=lambda host: id(host))
    profile = write(tmp_path, a=host("a"), b=host("b"))
    two = runner.run(profile.table_set, ["two"])["two"]
    assert [(n, planes[:2], stats[:2], rest) for n, planes, stats, *rest in read] == [
        (n, ("CPU", "GPU"), ("x", "y"), [("m",)]) for n in (0, 1)
    ]
    one = two.after["one"]
    assert [kept for kept, _ in one.detail[0]] == two.detail[0]
    assert [names[:2] for _, names in one.detail[0]] == [["x", "y"]] * 2


def test_hosts_that_are_selected(add: Add, tmp_path: Path) -> None:
    add("one", of_host=lambda host: (host.name, host.hostname, len(host.raw)))
    profile = write(tmp_path, a=host("as it calls itself"), b=xspace(plane("p")), c=host("c"))
    assert runner.run(profile.table_set, ["one"])["one"].detail[0] == [
        ("a", "as it calls itself", 1), ("b", "localhost", 0), ("c", "c", 1),
    ]  # fmt: skip
    chosen = profile.select(hosts=["c", "b"])
    assert [kept[0] for kept in runner.run(chosen.table_set, ["one"])["one"].detail[0]] == ["b", "c"]


def test_planes_and_times_that_are_selected(add: Add, tmp_path: Path) -> None:
    add("one", of_host=lambda host: [host.raw.names[meta] for meta in host.raw.meta.tolist()])
    cpu = plane("/host:CPU", [line("main", [event("early", 0, 5), event("late", 10, 5)])])
    gpu = plane("/device:GPU:0", [line("stream", [event("kernel", 11, 1)])])
    profile = write(tmp_path, a=xspace(cpu, gpu))
    for options, names in [
        ({}, ["early", "late", "kernel"]),
        ({"planes": "CPU"}, ["early", "late"]),
        ({"time_ps": (10, None)}, ["late", "kernel"]),
        ({"names": "e$"}, ["late"]),
    ]:
        assert runner.run(profile.select(**options).table_set, ["one"])["one"].detail[0] == [names]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ((7, 8), ["train", "in 0"]),
        ((8, 10), ["train", "in 1", "train", "in 2"]),
        ((None, 9), ["train", "in 0", "train", "in 1"]),
        ((9, None), ["train", "in 2"]),
        ((None, None), ["train", "in 0", "train", "in 1", "train", "in 2"]),
        ((8, 9, "train"), ["train", "in 1"]),
    ],
)
def test_steps_that_are_chosen(add: Add, tmp_path: Path, steps: Any, names: list[str]) -> None:
    """Steps have the numbers of the program; an open end takes all; what is in no step is left out."""
    marks = [event("train", 100 * i, 50, {"_r": 1, "step_num": 7 + i}) for i in range(3)]
    inside = [event(f"in {i}", 100 * i + 10, 5) for i in range(3)]
    data = host("a", *marks, *inside, event("between", 60, 10), event("after", 900, 1))
    add("one", of_host=lambda host: (
        [host.events.names[meta] for meta in host.events.meta.tolist()],
        sorted({host.groups.names[group] for group in host.groups.group_id.tolist()}),
        host.raw is host.events,
    ))  # fmt: skip
    (kept,) = runner.run(write(tmp_path, a=data).table_set, ["one"], steps=steps)["one"].detail[0]
    assert kept[0] == names and kept[2]
    assert kept[1] == [f"train {7 + int(name[3:])}" for name in names if name != "train"]


def test_steps_are_read_with_the_stats_that_record_them(add: Add, tmp_path: Path) -> None:
    add("one", reads=Needs(("GPU",), ("x",)), of_host=lambda host: set(host.raw.stats) - {*RECORD_STATS})
    marked = host("a", event("train", 0, 9, {"_r": 1}), event("op", 1, 5))
    tables = write(tmp_path, a=marked).table_set
    assert runner.run(tables, ["one"])["one"].detail[0] == [{"x"}]
    assert runner.run(tables, ["one"], steps=(0, 1))["one"].detail[0] == [{"x", *steps.READS.stats} - {*RECORD_STATS}]


def test_hosts_compute_what_is_shared_once(add: Add, tmp_path: Path) -> None:
    add("one", reads=Host.GROUPING, of_host=lambda host: (id(host.groups), id(host.forest), id(host.events)))
    add("two", after=("one",), of_host=lambda host: (id(host.groups), id(host.forest), id(host.events)))
    two = runner.run(write(tmp_path, a=host("a")).table_set, ["two"])["two"]
    assert two.detail[0] == two.after["one"].detail[0]


def test_what_computes() -> None:
    def hardware(*names: str) -> str:
        tables = fastprof.load(xspace(*[plane(name, [line("l")]) for name in names])).table_set
        return Host(read_host(tables, 0, (), (), ()), tables.session.workers).hardware

    assert hardware("/host:CPU") == "CPU_ONLY"
    assert hardware("/host:CPU", "/device:TPU:0") == "TPU"
    assert hardware("/device:TPU:0", "/device:GPU:0") == "GPU"
    assert hardware("/device:GPU:x", "/device:TPU:0 SparseCore 0") == "CPU_ONLY"


def test_reports_keep_no_events_of_hosts_alive(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do circles of references, which are collected late: memory would hold several hosts."""
    read: list[weakref.ref[HostEvents]] = []

    def remembered(*args: Any) -> HostEvents:
        events = read_host(*args)
        read.append(weakref.ref(events))
        return events

    monkeypatch.setattr(accumulation, "read_host", remembered)
    profile = fastprof.load(captures / "xspace" / "gpu-mi300x-jax-conv-minimal-08")
    gc.collect()
    gc.disable()
    try:
        reports = profile.reports()
        alive = [one for one in read if one() is not None]
    finally:
        gc.enable()
    assert read and len(reports) == len(ANALYSES) and not alive


def in_a_fresh_process(*lines: str, path: Path) -> str:
    """What a program prints that imports analyses for the first time, with ``path`` as ``sys.argv[1]``."""
    program = "\n".join(("import sys, fastprof", *lines))
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.stdout.strip()


REPORTED = "print(*fastprof.load(sys.argv[1], threads=2).report('op_stats').tables['ops']['name'].to_pylist())"


def test_events_found_while_analyses_are_imported_are_those_of_the_capture(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("main", [event("a:Add", 0, 10), event("m:MatMul", 20, 5)])])))
    assert in_a_fresh_process(REPORTED, path=path) == "IDLE a m"


def test_events_that_are_broken_are_reported_once_analyses_are_imported(tmp_path: Path) -> None:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("main", [event("a:Add", 0, 10), b"\x0f"])])))
    message = in_a_fresh_process("try:", f"    {REPORTED}", "except fastprof.CaptureError as e: print(e)", path=path)
    assert "byte" in message
    assert str(path) in message
