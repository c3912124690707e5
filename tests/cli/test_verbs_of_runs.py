"""Verbs on several runs: each run is shown under its name, tables have the column run, and documents are of one run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pytest
from gate import few
from pyarrow.dataset import dataset
from ran import Command, Ran, run_command
from trace_builder import event, line, plane, xspace

from fastprof.analyses import ANALYSES

DEMO = Path(__file__).parents[2] / "demo"
POD, CPU = "2026_11_21_12_00_00", "2026_11_21_09_58_38"
BOTH = (str(DEMO / "pod"), str(DEMO / "logdir"))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*argv: str) -> Ran:
        return run_command(capsys, *argv)

    return run


@pytest.fixture
def logs(tmp_path: Path) -> str:
    """A log directory with the runs of both demos."""
    for place, run in zip(BOTH, (POD, CPU), strict=True):
        folder = tmp_path / "logs/plugins/profile" / run
        folder.mkdir(parents=True)
        for path in Path(place, "plugins/profile", run).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
    return str(tmp_path / "logs")


@pytest.mark.parametrize("name", few(["overview", "steps", "op_stats", "kernel_stats"], 2))
def test_an_analysis_of_two_runs_is_two_reports(name: str, command: Command) -> None:
    """Hosts of two runs are never merged without a word."""
    verb = name.replace("_", "-")
    alone = [command(verb, place) for place in BOTH]
    both = command(verb, *BOTH)
    assert both.code == 0
    assert both.out == f"Run {POD}\n\n{alone[0].out}\n\nRun {CPU}\n\n{alone[1].out}"
    documents = json.loads(command(verb, *BOTH, "--format", "json").out)
    assert documents == {
        "runs": {
            run: json.loads(command(verb, place, "--format", "json").out)
            for run, place in zip((POD, CPU), BOTH, strict=True)
        }
    }


def test_runs_of_a_log_directory_are_named(command: Command, logs: str) -> None:
    assert command("steps", logs, "--run", POD, "--run", CPU).out == command("steps", *BOTH).out
    assert command("steps", logs, "--run", CPU).out == command("steps", BOTH[1]).out
    missing = command("steps", logs, "--run", POD, "--run", "x")
    assert missing.code != 0 and f"runs, newest first: {POD}, {CPU}" in missing.err


def test_hosts_of_one_run_on_request(command: Command) -> None:
    merged = command("overview", *BOTH, "--as-hosts")
    assert merged.code == 0 and "Run " not in merged.out
    assert f"captures of 2 directories are read as hosts of one run: {POD}, {CPU}" in merged.err
    document = json.loads(command("info", *BOTH, "--as-hosts", "--format", "json").out)
    assert {row["host"] for row in document["hosts"]["rows"]} == {"host0", "host1", "vm"}


def test_a_selection_that_leaves_one_run_keeps_the_form(command: Command) -> None:
    assert list(json.loads(command("steps", *BOTH, "--host", "vm", "--format", "json").out)["runs"]) == [CPU]
    assert command("steps", *BOTH, "--host", "vm").out.startswith(f"Run {CPU}\n")
    assert command("steps", *BOTH, "--host", "vm", "--format", "csv").out.startswith("run,")
    unknown = command("steps", *BOTH, "--host", "vm9")
    assert unknown.code != 0 and "no host 'vm9' in these runs; there are: host0, host1, vm" in unknown.err


def test_tables_have_the_run(command: Command, tmp_path: Path) -> None:
    table = list(csv.DictReader(io.StringIO(command("steps", *BOTH, "--format", "csv").out)))
    assert next(iter(table[0])) == "run"
    assert [row["run"] for row in table] == [POD] * 64 + [CPU] * 10
    shown = command("steps", *BOTH, "--table", "steps", "--limit", "1").out.splitlines()
    assert shown[-2].split()[0] == "run" and shown[-1].split()[0] == POD
    folder = tmp_path / "out"
    assert command("report", *BOTH, "--only", "steps,op_stats", "--format", "csv", "-o", str(folder)).code == 0
    for path in folder.iterdir():
        with path.open() as file:
            assert next(csv.reader(file))[0] == "run", path
    one = command("report", *BOTH, "--table", "steps.steps", "--format", "csv").out
    assert list(csv.DictReader(io.StringIO(one))) == table


def test_every_report_of_every_analysis(command: Command) -> None:
    document = json.loads(command("report", *BOTH, "--format", "json", "--limit", "1").out)
    assert [list(reports) for reports in document["runs"].values()] == [list(ANALYSES)] * 2
    text = command("report", *BOTH, "--only", "steps,overview").out
    assert text.count("Run ") == 2


def test_info_shows_each_run(command: Command) -> None:
    assert command("info", *BOTH).out == "\n\n".join(
        f"Run {run}\n\n{command('info', place).out}" for run, place in zip((POD, CPU), BOTH, strict=True)
    )
    document = json.loads(command("info", *BOTH, "--format", "json").out)
    assert document["runs"][CPU] == json.loads(command("info", BOTH[1], "--format", "json").out)
    planes = list(csv.DictReader(io.StringIO(command("info", *BOTH, "--format", "csv").out)))
    assert [int(row["plane_id"]) for row in planes] == list(range(len(planes)))
    assert {row["run"] for row in planes} == {POD, CPU}


def test_events_of_several_runs(command: Command) -> None:
    sums = list(csv.DictReader(io.StringIO(command("events", *BOTH, "--format", "csv").out)))
    assert next(iter(sums[0])) == "run" and {row["run"] for row in sums} == {POD, CPU}
    listed = list(csv.DictReader(io.StringIO(command("events", *BOTH, "--list", "--format", "csv").out)))
    assert list(listed[0])[:2] == ["run", "host"] and {row["run"] for row in listed} == {POD, CPU}
    text = command("events", *BOTH, "--list", "--limit", "1").out.splitlines()
    assert text[-2].split()[:2] == ["run", "host"]
    chosen = command("events", *BOTH, "--list", "--columns", "name,run", "--limit", "1", "--format", "csv").out
    assert chosen.splitlines()[0] == "name,run"
    nothing = command("events", *BOTH, "--name", "no such event")
    assert nothing.code == 0 and "no event matches 'no such event'" in nothing.err


def test_an_export_of_several_runs(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command("export", *BOTH, "--tables", "events", "-o", str(out), "--layout", "paths").code == 0
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.parquet")) == [
        f"events/run={CPU}/host=vm/part-0.parquet",
        f"events/run={POD}/host=host0/part-0.parquet",
        f"events/run={POD}/host=host1/part-0.parquet",
    ]


def test_names_of_runs_and_hosts_are_never_read_as_null(command: Command, tmp_path: Path) -> None:
    null, out = "__HIVE_DEFAULT_PARTITION__", tmp_path / "out"
    names = ["~", "a=b c%2F", null, null.lower(), "%5F" + null[1:], "%255F" + null[1:], "%" + null]
    folders = [tmp_path / "plugins" / "profile" / name for name in names]
    for place, folder in enumerate(folders):
        folder.mkdir(parents=True)
        (folder / f"{null}.xplane.pb").write_bytes(xspace(plane("p", [line("l", [event("e", place, 1)])])))
    assert command("export", *map(str, folders), "--tables", "events", "-o", str(out), "--layout", "paths").code == 0
    read_as = ["~", "a=b c%2F", "%5F" + null[1:], null.lower(), "%255F" + null[1:], "%25255F" + null[1:], "%" + null]
    wanted = {(name, "%5F" + null[1:], place) for place, name in enumerate(read_as)}
    assert [unquote(name) if name.startswith("%") and name.endswith(null[1:]) else name for name in read_as] == names
    read = dataset(out / "events", partitioning="hive").to_table(["run", "host", "start_ps"])
    assert {tuple(row.values()) for row in read.to_pylist()} == wanted
    query = f"select run, host, start_ps from read_parquet('{out}/events/**/*.parquet', hive_partitioning = true)"
    assert set(duckdb.sql(query).fetchall()) == wanted


def test_programs_of_several_runs_are_listed(command: Command) -> None:
    xla = str(DEMO / "xla")
    listed = list(csv.DictReader(io.StringIO(command("hlo", xla, BOTH[0], "--format", "csv").out)))
    assert listed and next(iter(listed[0])) == "run"
    assert command("hlo", xla, BOTH[0]).code == 0


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("overview", "--format", "xprof"), "--format xprof"),
        (("tf-data", "--format", "svg"), "--format svg"),
        (("op-profile", "--format", "speedscope"), "--format speedscope"),
        (("op-profile", "--format", "pprof"), "--format pprof"),
        (("report", "--format", "xprof"), "--format xprof"),
        (("report", "--html", "x.html"), "--html"),
        (("trace", "--format", "chrome"), "a trace file"),
        (("hlo", "--module", "jit_f"), "--module"),
        (("serve", "--port", "0"), "the page, which offers all runs of one log directory,"),
    ],
)
def test_what_shows_one_run_says_so(
    argv: tuple[str, ...], what: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = command(argv[0], *BOTH, *argv[1:])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"fastprof: {what} shows one run, and 2 are given: {POD}, {CPU}; give one directory, choose one run with "
        "--run NAME, or read them as hosts of one run with --as-hosts\n"
    )
    assert not list(tmp_path.iterdir())
