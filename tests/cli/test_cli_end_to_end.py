"""The whole command over captures: built ones word for word, real ones against the API."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from gate import typical_captures
from trace_builder import aggregated, event, line, plane, task_environment, xspace

import fastprof
from fastprof.cli import process
from fastprof.cli.main import main
from fastprof.wording.screen import measure_width

START_NS = 1_763_716_800_000_000_000


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """Two hosts; names hold what a terminal must not see."""
    folder = tmp_path / "plugins" / "profile" / "run1"
    folder.mkdir(parents=True)
    step = [
        event("step", 0, 10_000_000, stats={"x": 1}),
        event("copy\x1b[2J", 2_000_000, 3_000_000, stats={"x": 2}),
    ]
    device = plane("/device:TPU:0", [line("XLA Ops", step, id=3)], stats={"device_type_string": "TPU v4"})
    alpha = xspace(device, task_environment(START_NS, START_NS + 10**9), warnings=["12 events dropped"])
    beta = xspace(plane("/host:CPU", [line("main", [event("wait", 5, 500), aggregated("sum", 3, 90)])]))
    (folder / "alpha.xplane.pb").write_bytes(alpha)
    (folder / "beta.xplane.pb").write_bytes(beta)
    return folder


def output(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert main(argv) == code
    return capsys.readouterr().out


def test_the_card_of_a_run(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "info", str(run_directory)).splitlines()
    assert shown[1:6] == [
        "Run      run1",
        f"Size     {sum(path.stat().st_size for path in run_directory.iterdir())} B, 2 hosts",
        "Events   4 on 2 lines of 3 planes",
        "Time     10.00 µs, from 0 ps to 10.00 µs",
        "Devices  1 TPU (TPU v4)",
    ]
    assert shown[shown.index("Planes") :] == [
        "Planes",
        "  host   plane             device  lines  events  first (ps)   span (ns)",
        "  alpha  /device:TPU:0     TPU         1       2           0  10,000.000",
        "  alpha  Task Environment              0       0",
        "  beta   /host:CPU         CPU         1       2           5       0.500",
        "",
        "Lines",
        "  host   plane          line     events  first (ps)   span (ns)",
        "  alpha  /device:TPU:0  XLA Ops       2           0  10,000.000",
        "  beta   /host:CPU      main          2           5       0.500",
        "",
        "Warnings recorded by the profiler",
        "  alpha: 12 events dropped",
        "",
        "Import log",
        "  notice no_common_clock in beta.xplane.pb",
        "    the start of beta is unknown: its times count from its own start and are not aligned with other",
        "    hosts",
    ]


def test_sums_and_self_times(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "events", str(run_directory), "--plane", "TPU") == (
        "count  total (µs)  self (µs)  mean (µs)  min (µs)  max (µs)  name\n"
        "    1      10.000      7.000     10.000    10.000    10.000  step\n"
        "    1       3.000      3.000      3.000     3.000     3.000  copy\\x1b[2J\n"
    )


def test_the_list_from_every_source(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = run_directory / "alpha.xplane.pb"
    expected = (
        "plane          line     start (µs)  duration (µs)  name         x\n"
        "/device:TPU:0  XLA Ops       0.000         10.000  step         1\n"
        "/device:TPU:0  XLA Ops       2.000          3.000  copy\\x1b[2J  2\n"
    )
    packed = capture.with_suffix(".gz")
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    command = [sys.executable, "-m", "fastprof.cli.main", "events", "-", "--list", "--stats", "x"]
    piped = subprocess.run(
        command, input=packed.read_bytes(), capture_output=True, timeout=120, check=True, env=utf_8()
    )
    assert piped.stdout.decode() == expected
    for path in (capture, packed):
        assert output(capsys, "events", str(path), "--list", "--stats", "x") == expected
    assert len(output(capsys, "events", str(run_directory / "*.pb"), "--list").splitlines()) == 5


def test_nothing_left_is_not_an_error_in_any_form(run_directory: Path, tmp_path: Path) -> None:
    for form in ("table", "json", "csv", "arrow"):
        for flags in ([], ["--list", "--stats", "x"]):
            out = str(tmp_path / "out")
            nothing = ["--name", "nothing", "--format", form, "-o", out, "--force"]
            assert main(["events", str(run_directory), *flags, *nothing]) == 0
    assert pa.ipc.open_file(out).read_all().num_rows == 0


def test_export(run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    paths = ["--layout", "paths", "-o", str(out)]
    assert main(["export", str(run_directory), *paths, "--tables", "events,nesting", "--host", "alpha"]) == 0
    assert capsys.readouterr() == ("", f"fastprof: Wrote {out}\n")
    assert sorted(path.name for path in out.iterdir()) == ["events", "nesting", "session.json"]
    assert pyarrow.parquet.read_table(out / "events").num_rows == 2
    assert main(["export", str(run_directory), *paths]) == 3
    assert main(["export", str(run_directory), "-o", str(out)]) == 3
    assert "and is not a dataset; give an empty or new folder" in capsys.readouterr().err


def test_faults(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = run_directory / "beta.xplane.pb"
    broken.write_bytes(broken.read_bytes()[:-7])
    assert main(["events", str(run_directory)]) == 4
    assert f"{broken}: " in capsys.readouterr().err
    assert main(["events", str(run_directory), "--on-error", "skip", "--limit", "1"]) == 0
    assert f"fastprof: error: {broken}: " in capsys.readouterr().err
    assert main(["info", str(run_directory / "gamma.pb")]) == 3
    assert main(["info", str(run_directory / "alpha.xplane.pb"), "--host", "gamma"]) == 3
    assert main(["info", str(run_directory), "--run", "other"]) == 3
    assert "Traceback" not in capsys.readouterr().err


@typical_captures
def test_a_real_capture_comes_out_whole(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = fastprof.load(capture)
    columns = ["event_id", "plane", "name", "start_ps", "duration_ps"]
    expected = profile.event_table(columns)
    chosen = ["events", str(capture), "--list", "--columns", ",".join(columns)]
    rows = json.loads(output(capsys, *chosen, "--format", "json"))["rows"]
    assert rows == expected.to_pylist()
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    types = {"plane": pa.string(), "name": pa.string(), "start_ps": pa.int64(), "duration_ps": pa.int64()}
    converting = pyarrow.csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    csv = io.BytesIO(output(capsys, *chosen, "--format", "csv").encode())
    read = pyarrow.csv.read_csv(csv, parse_options=parsing, convert_options=converting)
    assert read.to_pylist() == expected.to_pylist()
    out = tmp_path / "events.arrow"
    assert main([*chosen, "-o", str(out)]) == 0
    assert pa.ipc.open_file(out).read_all().to_pylist() == expected.to_pylist()


@typical_captures
def test_text_of_a_real_capture_fits(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["info"], ["events"], ["events", "--list"]):
        shown = output(capsys, flags[0], str(capture), *flags[1:])
        assert max(measure_width(row) for row in shown.splitlines()) <= 100
        assert shown.replace("\n", "").isprintable()


def test_a_stop_amid_imports_waits_for_their_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), process.hold_signals():
        os.kill(os.getpid(), signal.SIGINT)
        reached = True
    assert reached


def utf_8() -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": "utf-8"}


def test_spans_past_64_bits_are_blank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "far.xplane.pb"
    events = [event("a", -5 * 10**18, 1), event("b", 5 * 10**18, 1)]
    path.write_bytes(xspace(plane("p", [line("l", events)]), task_environment(1, 2**62)))
    assert "Planes" in output(capsys, "info", str(path))


@pytest.mark.parametrize("pattern", ["a{4294967296}", "(" * 3000 + ")" * 3000])
def test_a_pattern_that_python_refuses(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, "events", "anything", "--name", pattern, code=2)
    with pytest.raises(fastprof.UsageError, match="is not a regular expression"):
        fastprof.load(xspace(plane("p"))).select(names=pattern)


def test_steps_choose_events_for_tables_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three steps of 10 ns, 100 ns apart, each with an op inside; and an op between them, which is of none."""
    events = []
    for step in range(3):
        start = 100_000 * step
        events.append(event("train", start, 10_000, {"_r": 1, "step_num": step}))
        events.append(event(f"op{step}", start + 1_000, 2_000))
        events.append(event("between", start + 60_000, 5_000))
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("main", events)])))
    shown = output(capsys, "events", str(path), "--list", "--columns", "name", "--steps", "1:2", "--format", "csv")
    assert shown.splitlines() == ["name", "train", "op1"]
    summary = json.loads(output(capsys, "info", str(path), "--steps", "1:", "--format", "json"))["summary"]
    assert summary["events"] == 5
    assert main(["export", str(path), "--steps", "2", "-o", str(tmp_path / "out")]) == 0
    written = pa.parquet.read_table(tmp_path / "out" / "events")
    assert written["name"].to_pylist() == ["train", "op2"]


def test_advice_names_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a damaged capture to salvage it; for a file of another format to leave it out, if there are others."""
    trace, torn = tmp_path / "trace.json", tmp_path / "torn.xplane.pb"
    trace.write_bytes(gzip.compress(b'{"frames": [{"ph": "X"}]}'))
    torn.write_bytes(xspace(plane("p", [line("l", [event("a"), event("b")])]))[:-3])
    keys = "fastprof: its keys are frames\n"
    advice = "fastprof: --on-error salvage keeps what can be decoded of a damaged file; "
    advice += "--on-error skip leaves the file out\n"
    for argv, expected in (
        ([trace], keys),
        ([trace, "--on-error", "salvage"], keys),
        ([torn, trace], advice),
        ([trace, torn], keys + "fastprof: --on-error skip leaves the file out, if the session has others\n"),
        ([torn], advice),
        ([torn, trace, "--on-error", "salvage"], None),
    ):
        code = main(["info", *map(str, argv)])
        assert code == (0 if expected is None else 4)
        message, _, rest = capsys.readouterr().err.partition("\n")
        assert expected is None or rest == expected
        if str(trace) in message:
            assert "JSON that is not a trace: no traceEvents (at byte 0)" in message


def test_a_stat_that_no_capture_has_is_an_error(run_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run_directory / "out.csv"
    assert main(["events", str(run_directory), "--list", "--stats", "x,xx", "-o", str(out)]) == 2
    assert (
        capsys.readouterr().err
        == "fastprof: no capture has a stat 'xx'; the table stat_metadata lists all; did you mean 'x'?\n"
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("argv", "likely"),
    [
        (("report", "--table", "ops"), "op_stats.ops"),
        (("report", "--table", "op_stats.opss"), "op_stats.ops"),
        (("export", "-o", "out", "--tables", "evnts"), "events"),
        (("events", "--list", "--columns", "nme"), "name"),
    ],
)
def test_misspelt_names_are_met_with_the_nearest(
    argv: tuple[str, ...], likely: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *flags = argv
    assert main([verb, "absent", *flags]) == 2
    assert capsys.readouterr().err.endswith(f"; did you mean {likely!r}?\n")
