"""The verbs of analyses and `report`: forms, choices, folders, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sample_analysis
from ran import Ran, run_command
from trace_builder import event, line, plane, xspace

from fastprof.analyses import ANALYSES, runner
from fastprof.analyses.contract import AnalysisReport, Notice, Section
from fastprof.cli import arguments
from fastprof.cli import main as command
from fastprof.cli.verb_list import WITHIN
from fastprof.wording.amounts import Steps
from fastprof.wording.screen import measure_width


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Two hosts of three events."""
    folder = tmp_path / "run"
    folder.mkdir()
    for host, names in (("alpha", ("a", "b\x1b[2J")), ("beta", ("c",))):
        events = [event(name, 10 * number, 4_000_000) for number, name in enumerate(names)]
        (folder / f"{host}.xplane.pb").write_bytes(xspace(plane("/host:CPU", [line("main", events)])))
    return folder


@pytest.fixture
def only_sample(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry that holds the sample alone."""
    held = dict(ANALYSES)
    ANALYSES.clear()
    monkeypatch.setattr(command, "_ANALYSES", {"sample-analysis": "sample_analysis"})
    monkeypatch.setattr(command, "VERBS", (*command._MODULES, "sample-analysis"))
    with sample_analysis.registered():
        yield
    ANALYSES.update(held)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], only_sample: None, session: Path) -> Callable[..., Ran]:  # noqa: ARG001
    def run(verb: str, *flags: str) -> Ran:
        return run_command(capsys, verb, str(session), *flags)

    return run


VERB = "sample-analysis"


def test_text_is_the_usual_form(ask: Callable[..., Ran]) -> None:
    ran = ask(VERB)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Sample analysis\n\nRecommendation\n  Look at a.\n\nFigures\n  event count      3\n")
    assert "  b\\x1b[2J\n" in ran.out


def test_json(ask: Callable[..., Ran]) -> None:
    document = json.loads(ask(VERB, "--format", "json").out)
    assert document["scalars"]["total_ps"]["value"] == 12_000_000
    assert [row["host"] for row in document["tables"]["hosts"]["rows"]] == ["alpha", "beta"]
    limited = json.loads(ask(VERB, "--format", "json", "--limit", "1").out)
    assert [len(table["rows"]) for table in limited["tables"].values()] == [1, 1]


def test_csv_and_arrow_hold_one_table(ask: Callable[..., Ran], tmp_path: Path) -> None:
    ran = ask(VERB, "--format", "csv")
    assert ran.out.splitlines()[0] == "host,events,duration_ps,event_share"
    assert ran.err == "fastprof: showing the table hosts; choose another with --table: names\n"
    assert ask(VERB, "--format", "csv", "--table", "names") == (0, "name\na\nb\x1b[2J\nc\n", "")
    out = tmp_path / "names.arrow"
    assert ask(VERB, "--table", "names", "-o", str(out)).code == 0
    assert pa.ipc.open_file(out).read_all()["name"].to_pylist() == ["a", "b\x1b[2J", "c"]


def test_a_table_alone_in_the_other_forms(ask: Callable[..., Ran]) -> None:
    assert ask(VERB, "--table", "names", "--limit", "1").out == "name\na\n"
    assert json.loads(ask(VERB, "--table", "names", "--format", "json").out)["rows"][2] == {"name": "c"}
    ran = ask(VERB, "--table", "names", "--format", "xprof")
    assert (ran.code, ran.out) == (2, "")
    ran = ask(VERB, "--table", "nomes")
    assert ran.code == 2 and "invalid choice: 'nomes'; did you mean 'names'? (choose from hosts, names)" in ran.err


def test_rows_of_a_table_with_a_value(ask: Callable[..., Ran]) -> None:
    assert ask(VERB, "--format", "csv", "--table", "names?name=c") == (0, "name\nc\n", "")
    assert ask("report", "--format", "csv", "--table", "sample_analysis.names?name=b%1B%5B2J").out == "name\nb\x1b[2J\n"
    both = ask(VERB, "--format", "csv", "--table", "hosts?host=beta&events=1").out.splitlines()
    assert [row.split(",")[:2] for row in both[1:]] == [["beta", "1"]]
    assert ask(VERB, "--table", "hosts?host=beta&events=7").err == "fastprof: the table hosts has no such row\n"
    assert ask(VERB, "--table", "hosts?host=\udcff").err == "fastprof: the table hosts has no such row\n"
    ran = ask(VERB, "--table", "hosts?hots=beta")
    assert ran.code == 2 and "has no column 'hots'; it has: host, events, " in ran.err
    assert "did you mean 'host'?" in ran.err
    ran = ask(VERB, "--table", "hosts?beta")
    assert ran.code == 2 and "'beta' is not COLUMN=VALUE" in ran.err


def test_a_table_alone_is_not_a_wider_than_the_screen(ask: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    columns = [f"host_{number}" for number in range(6)]
    wide = pa.table({column: ["a" * 30] for column in columns})
    monkeypatch.setattr(
        runner, "run", lambda *_: {"sample_analysis": AnalysisReport("sample_analysis", {"hosts": wide}, {})}
    )
    for verb, table in ((VERB, "hosts"), ("report", "sample_analysis.hosts")):
        ran = ask(verb, "--table", table, "-v")
        assert ran.out == "host_0               host_1\naaaaaaaaa…aaaaaaaaa  aaaaaaaaa…aaaaaaaaa\n"
        assert ran.err == "fastprof: hidden columns: host_2, host_3, host_4, host_5; --wide shows all\n"
        assert len(ask(verb, "--table", table, "--wide").out.splitlines()[0]) > 150


def test_a_table_alone_shows_first_what_the_report_shows_of_it(
    ask: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of columns without room the last go first, be they numbers or not; important notices are written too."""
    monkeypatch.setenv("COLUMNS", "40")
    section = Section("Hosts", "hosts", ("events", "host"))
    monkeypatch.setattr(sample_analysis, "SECTIONS", (section,))
    wide = pa.table({"note": ["a" * 30], "host": ["b" * 20], "more": ["c" * 30], "events": [7]})
    notices = (Notice("warning", "Beware."), Notice("info", "By the way."))
    report = AnalysisReport("sample_analysis", {"hosts": wide}, {}, notices)
    monkeypatch.setattr(runner, "run", lambda *_: {"sample_analysis": report})
    ran = ask(VERB, "--table", "hosts", "-v")
    assert ran.out == "events  host\n     7  bbbbbbbbbbbbbbbbbbbb\n"
    assert ran.err == "fastprof: hidden columns: note, more; --wide shows all\nfastprof: Beware.\n"
    report = AnalysisReport("sample_analysis", {"hosts": wide.slice(0, 0)}, {})
    assert ask(VERB, "--table", "hosts", "--wide").err == "fastprof: the table hosts is empty\n"


def test_parameters_are_flags(ask: Callable[..., Ran]) -> None:
    assert ask(VERB, "--format", "csv", "-q", "--least", "2").out.splitlines()[1:] == ["alpha,2,8000000,1"]
    assert "  loud           yes\n" in ask(VERB, "--loud").out
    assert "  loud            no\n" in ask(VERB, "--no-loud").out
    for flags, complaint in (
        (["--least", "x"], "argument --least: 'x' is not an integer"),
        (["--least", "-1"], "argument --least: -1 is not an integer of at least 0"),
        (["--order", "size"], "invalid choice"),
        (["--ratio", "half"], "argument --ratio: 'half' is not a number"),
        (["--lust", "3"], "unrecognized arguments: --lust 3"),
    ):
        ran = ask(VERB, *flags)
        assert (ran.code, ran.out) == (2, "")
        assert complaint in ran.err


def test_a_host_is_chosen_by_name(ask: Callable[..., Ran]) -> None:
    assert ask(VERB, "--format", "csv", "-q", "--host", "beta").out.splitlines()[1:] == ["beta,1,4000000,1"]
    ran = ask(VERB, "--host", "delta")
    assert (ran.code, ran.out) == (3, "")
    assert "no host 'delta' in this session; there are: alpha, beta" in ran.err


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("3:5", Steps(3, 5)),
        ("3:", Steps(3, None)),
        (":5", Steps(None, 5)),
        ("3", Steps(3, 4)),
        (" 0 : 1 ", Steps(0, 1)),
        ("1234567890123:", Steps(1234567890123, None)),
        ("train=8:12", Steps(8, 12, "train")),
        ("a=b = 8", Steps(8, 9, "a=b")),
    ],
)
def test_ranges_of_steps(text: str, steps: Steps) -> None:
    assert arguments.parse_step_range(text) == steps
    assert arguments.parse_step_range(str(steps)) == steps


@pytest.mark.parametrize(
    "text", ["", ":", "a", "1:2:3", "-1:2", "5:3", "3:3", "1 2", "1.5:2", "=3:5", "train=", "train=a", "train=5:3"]
)
def test_ranges_of_steps_that_make_no_sense(ask: Callable[..., Ran], text: str) -> None:
    ran = ask(VERB, f"--steps={text}")
    assert (ran.code, ran.out) == (2, "")
    assert "argument --steps: " in ran.err


@pytest.mark.parametrize("text", ["3-5", "3 - 5"])
def test_a_range_with_a_dash_is_shown_with_a_colon(ask: Callable[..., Ran], text: str) -> None:
    assert "for steps 3 to 5 write 3:6" in ask(VERB, f"--steps={text}").err


@pytest.mark.parametrize("text", ["9223372036854775807", "1:9223372036854775807", "train=1234567890123456789:"])
def test_numbers_of_steps_have_18_digits_at_most(ask: Callable[..., Ran], text: str) -> None:
    assert "is not a range of steps; step numbers have at most 18 digits" in ask(VERB, f"--steps={text}").err


def test_steps_reach_the_analysis(ask: Callable[..., Ran]) -> None:
    ran = ask(VERB, "--steps", "0:1")
    assert (ran.code, ran.out, ran.err) == (2, "", "fastprof: no step 0; the session has no steps\n")


def test_a_broken_host_is_an_error_unless_it_is_left_out(ask: Callable[..., Ran], session: Path) -> None:
    data = (session / "beta.xplane.pb").read_bytes()
    (session / "beta.xplane.pb").write_bytes(data[:-3])
    ran = ask(VERB)
    assert (ran.code, ran.out) == (4, "")
    assert "beta.xplane.pb" in ran.err
    ran = ask(VERB, "--on-error", "skip")
    remark = "beta.xplane.pb cannot be read and is left out"
    assert ran.code == 0 and "alpha" in ran.out and remark in ran.out and ran.out.count("beta") == 1
    assert "beta.xplane.pb" in ran.err


def test_nothing_is_left_of_output_that_fails(ask: Callable[..., Ran], session: Path, tmp_path: Path) -> None:
    (session / "beta.xplane.pb").write_bytes(b"\xff\xff")
    assert ask(VERB, "-o", str(tmp_path / "out.json")).code == 4
    assert ask("report", "--format", "csv", "-o", str(tmp_path / "out")).code == 4
    assert list(tmp_path.iterdir()) == [session]


# ---- report


def test_report_is_all_of_them_as_text(ask: Callable[..., Ran]) -> None:
    assert ask("report").out == ask(VERB).out


def test_report_as_json_is_an_object_by_name(ask: Callable[..., Ran]) -> None:
    document = json.loads(ask("report", "--format", "json").out)
    assert document == {"sample_analysis": json.loads(ask(VERB, "--format", "json").out)}


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_report_as_a_folder(ask: Callable[..., Ran], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "tables"
    ran = ask("report", "--format", "csv", "-o", str(out))
    assert (ran.code, ran.out, ran.err) == (0, "", f"fastprof: Wrote {out}\n")
    assert listed(out) == ["sample_analysis.hosts.csv", "sample_analysis.names.csv"]
    assert (out / "sample_analysis.names.csv").read_text() == "name\na\nb\x1b[2J\nc\n"
    assert listed(out.parent) == ["tables"]

    ran = ask("report", "--format", "csv", "-o", str(out))
    assert (ran.code, ran.out) == (3, "")
    assert "already exists" in ran.err

    (out / "mine.txt").write_text("mine")
    assert ask("report", "--format", "csv", "-o", str(out), "--force", "--limit", "1").code == 0
    assert (out / "sample_analysis.names.csv").read_text() == "name\na\n"
    assert (out / "mine.txt").read_text() == "mine"
    assert listed(out.parent) == ["tables"]


@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_tables_are_not_written_beside_captures(ask: Callable[..., Ran], tmp_path: Path, flags: list[str]) -> None:
    run = tmp_path / "captures"
    run.mkdir()
    (run / "b.xplane.pb.gz").write_bytes(b"b")
    (run / "a.xplane.pb").write_bytes(b"a")
    ran = ask("report", "--format", "csv", "-o", str(run), *flags)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == (
        f"fastprof: {run}: has captures, such as a.xplane.pb; a report is never mixed with them: give a new "
        "directory with -o DIR\n"
    )
    assert listed(run) == ["a.xplane.pb", "b.xplane.pb.gz"]


def test_a_folder_is_not_a_file_and_no_standard_output(ask: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ran = ask("report", "--format", "arrow", "-o", str(tmp_path / "file"), "--force")
    assert ran.code == 3 and "is not a directory" in ran.err
    for flags in ([], ["-o", "-"]):
        ran = ask("report", "--format", "csv", *flags)
        assert ran.code == 2 and "-o DIR" in ran.err


def test_one_table_of_a_report(ask: Callable[..., Ran], tmp_path: Path) -> None:
    asked = ("report", "--table", "sample-analysis.names", "--format", "csv")
    assert ask(*asked).out == "name\na\nb\x1b[2J\nc\n"
    out = tmp_path / "names.csv"
    assert ask(*asked, "-o", str(out)).code == 0
    assert out.read_text() == "name\na\nb\x1b[2J\nc\n"
    ran = ask("report", "--table", "names")
    assert ran.code == 2
    assert "there are: sample_analysis.hosts, sample_analysis.names" in ran.err


def test_only_some_analyses(ask: Callable[..., Ran]) -> None:
    assert ask("report", "--only", "sample-analysis").out == ask("report", "--only", "sample_analysis").out
    ran = ask("report", "--only", "nonsense")
    assert ran.code == 2 and "there is no analysis 'nonsense'" in ran.err
    assert "; did you mean 'sample_analysis'?" in ask("report", "--only", "sample-analyses").err


# ---- the registry's own verbs


@pytest.mark.parametrize("verb", sorted(set(command.VERBS) - set(command._MODULES)))
def test_every_verb_answers_in_every_form(
    verb: str, session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ("table", "json", "csv", "xprof"):
        code = command.main([verb, str(session), "--format", form, "-q"])
        out = capsys.readouterr().out
        assert code == 0 or (form, code) == ("xprof", 2)
        assert out.isascii() or form in ("table", "csv")
        assert form != "table" or max(map(measure_width, out.splitlines())) <= 100
    assert command.main([verb, str(session), "-o", str(tmp_path / "out.arrow"), "-q"]) == 0
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all().num_columns


@pytest.mark.parametrize(
    ("typed", "likely"),
    [("op_stats", "op-stats"), ("opstats", "op-stats"), ("kernels", "kernel-stats"), ("Overview", "overview"),
     ("expotr", "export")],
)  # fmt: skip
def test_a_verb_that_was_probably_meant(typed: str, likely: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([typed, "session"]) == 2
    err = capsys.readouterr().err
    assert f"'{typed}' is neither a verb nor a file or directory; did you mean " in err
    assert f"'{likely}'" in err
    assert command.main(["qqq", "session"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_report_has_all_verbs(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["report", str(session), "--format", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(ANALYSES)


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_lists_the_verbs(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([flag]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 100
    listed = {*command.VERBS, "help"} - set(WITHIN.values())
    assert flag == "--version" or all(f"\n  {verb} " in out for verb in listed)
    assert flag == "--version" or all(f"'{words}'" in out for words in WITHIN)


def test_help_of_a_verb_is_that_of_its_analysis(capsys: pytest.CaptureFixture[str], only_sample: Any) -> None:  # noqa: ARG001
    assert command.main([VERB, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: fastprof sample-analysis ")
    for flag in ("--least N", "--order {host,events}", "--loud, --no-loud", "say more than 100 % of it", "--ratio X"):
        assert flag in out


@pytest.mark.parametrize("argv", [["--help"], ["info", "--help"], ["nonsense"]])
def test_the_verbs_of_analyses_cost_the_others_nothing(argv: list[str]) -> None:
    code = f"from fastprof.cli.main import main\nmain({argv!r})\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "fastprof.cli.main" in loaded
    assert loaded.isdisjoint({"numpy", "pyarrow", "fastprof.analyses.runner", "dataclasses"})
