"""fastprof sql: queries from the command line, files and standard input, in each format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ran import Command, Ran, run_command

import fastprof

DEMO = Path(__file__).parents[2] / "demo"
POD = str(DEMO / "pod")
HOSTS = "select host, count(*) as n from events group by host order by host"
ROWS = [{"host": "host0", "n": 288}, {"host": "host1", "n": 288}]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*argv: str) -> Ran:
        return run_command(capsys, "sql", *argv)

    return run


def test_the_answer_is_a_table(command: Command) -> None:
    assert command(POD, HOSTS) == (0, "host     n\nhost0  288\nhost1  288\n", "")
    limited = command(POD, HOSTS, "--limit", "1")
    assert limited.out == "host     n\nhost0  288\n"
    assert limited.err == "fastprof: showing 1 of 2 rows; --limit all shows the others\n"


def test_each_format_has_the_rows(command: Command, tmp_path: Path) -> None:
    document = json.loads(command(POD, HOSTS, "--format", "json").out)
    assert document["rows"] == ROWS
    assert list(csv.DictReader(io.StringIO(command(POD, HOSTS, "--format", "csv").out))) == [
        {"host": "host0", "n": "288"}, {"host": "host1", "n": "288"},
    ]  # fmt: skip
    for name, read in (("a.parquet", pq.read_table), ("a.arrow", lambda path: pa.ipc.open_file(path).read_all())):
        ran = command(POD, HOSTS, "-o", str(tmp_path / name))
        assert (ran.code, ran.err) == (0, f"fastprof: Wrote {tmp_path / name}\n")
        assert read(tmp_path / name).to_pylist() == ROWS
    again = command(POD, HOSTS, "-o", str(tmp_path / "a.parquet"))
    assert again.code == 3 and "already exists" in again.err


def test_a_query_without_rows_has_its_columns(command: Command, tmp_path: Path) -> None:
    query = "select event_id from events where false"
    assert command(POD, query, "--format", "csv").out == "event_id\n"
    command(POD, query, "-o", str(tmp_path / "none.parquet"))
    assert pq.read_table(tmp_path / "none.parquet").schema.names == ["event_id"]


def test_the_query_may_be_in_a_file_or_on_standard_input(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "query.sql").write_text(f"-- events by host\n{HOSTS};\n")
    assert json.loads(command(POD, "--file", str(tmp_path / "query.sql"), "--format", "json").out)["rows"] == ROWS
    for words in (["-"], ["--file", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(HOSTS))
        assert json.loads(command(POD, *words, "--format", "json").out)["rows"] == ROWS
    (tmp_path / "bad.sql").write_bytes(b"\xff")
    assert command(POD, "--file", str(tmp_path / "bad.sql")).code == 3
    assert command(POD, "--file", str(tmp_path / "none.sql")).code == 3


def test_parameters_have_types(command: Command) -> None:
    query = "select $a as a, $b as b, $c as c, $d as d, $e as e"
    given = ["a=1", "b=1.5", "c=true", "d=null", "e=a=b"]
    ran = command(POD, query, "--format", "json", *(word for text in given for word in ("--param", text)))
    assert json.loads(ran.out)["rows"] == [{"a": 1, "b": 1.5, "c": True, "d": None, "e": "a=b"}]
    assert command(POD, query, "--param", "1a=2").code == 2


def test_events_can_be_selected_first(command: Command) -> None:
    ran = command(POD, HOSTS, "--host", "host1", "--format", "json")
    assert json.loads(ran.out)["rows"] == ROWS[1:]


def test_tables_are_listed(command: Command) -> None:
    rows = json.loads(command(POD, "--tables", "--format", "json").out)["rows"]
    (name,) = [row for row in rows if (row["table"], row["column"]) == ("op_stats.ops", "self_ps")]
    assert (name["type"], name["unit"]) == ("int64", "ps") and name["description"]
    assert {row["table"] for row in rows} > {"events", "steps.figures", "hlo_costs"}


def test_values_of_all_types_are_written(command: Command, tmp_path: Path) -> None:
    query = """select date '2026-01-02' as d, timestamp '2026-01-02 10:00:00' as t, interval 1 day as i,
        'ab'::blob as b, [1.5, 2] as l, {'a': [interval 1 day]} as s, map {'k': 1} as m, union_value(u := 2) as u,
        null as n, 'nan'::double as f, 1::hugeint as h, time '10:00' as o,
        uuid()::varchar is not null as q, 5::bignum as g"""
    (row,) = json.loads(command(POD, query, "--format", "json").out)["rows"]
    assert row == {
        "d": "2026-01-02", "t": "2026-01-02 10:00:00.000000", "i": "1 day", "b": "YWI=", "l": [1.5, 2.0],
        "s": "{'a': [1 day]}", "m": {"k": 1}, "u": "2", "n": None, "f": "NaN", "h": 1, "o": "10:00:00", "q": True,
        "g": "5",
    }  # fmt: skip
    assert command(POD, query, "--format", "csv").out.splitlines()[1].startswith("2026-01-02,2026-01-02 10:00:00")
    assert "2026-01-02  2026-01-02 10:00:00" in command(POD, query, "--wide").out
    exact = command(POD, "select '2026-01-02 10:00:00.123456789'::timestamp_ns as t")
    assert exact.out == "t\n2026-01-02 10:00:00.123456789\n"
    for name in ("a.parquet", "a.arrow"):
        assert command(POD, query, "-o", str(tmp_path / name)).code == 0
    assert str(pq.read_table(tmp_path / "a.parquet").schema.field("t").type) == "timestamp[us]"
    assert command(POD, 'select 1 as "a ""b", interval 1 day as x', "--format", "csv").out == '"a ""b",x\n1,1 day\n'


def test_brief_lists_of_tables_and_columns_are_whole(command: Command) -> None:
    (listed,) = json.loads(command(POD, "show tables", "--brief").out)["tables"].values()
    names = [name for line in listed["names"] for name in line.rpartition(": ")[2].split(", ")]
    assert len(names) == listed["total"] > 150 and any(line.startswith("steps: steps, ") for line in listed["names"])
    (described,) = json.loads(command(POD, "describe hlo_instructions", "--brief").out)["tables"].values()
    assert len(described["columns"]) == described["total"] and "name VARCHAR" in described["columns"]


def test_a_brief_answer_of_few_cells_has_them_in_words(command: Command) -> None:
    document = json.loads(command(POD, "select 1210 as n, 'x' as text", "--brief").out)
    assert (document["answer"], "more" in document) == ("n = 1,210; text = x", False)


def test_a_brief_answer_is_a_short_document(command: Command) -> None:
    ran = command(POD, "select range as i, repeat('x', 50) as t from range(500)", "--brief")
    document = json.loads(ran.out)
    assert (ran.code, document["status"], document["answer"]) == (0, "ok", "500 rows")
    assert document["tables"]["sql"]["total"] == 500 and len(ran.out) <= 4096
    assert document["more"][0].startswith(f"fastprof sql {POD} 'select range")
    failed = json.loads(command(POD, "select nme from events", "--brief").out)
    assert failed["status"] == "error" and "did you mean" in json.dumps(failed)


def test_a_plan_is_text(command: Command) -> None:
    assert "PYTHON_ARROW_SCAN" in command(POD, "explain select count(*) from events").out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "give a query, --file FILE, or --tables"),
        ([HOSTS, "--file", "x"], 2, "give the query, or --file, not both"),
        (["select nme from events"], 2, "did you mean 'name'?"),
        (["copy events to 'x'"], 2, "not COPY"),
        ([HOSTS, "--format", "parquet"], 2, "give -o FILE"),
        (["select count(*) from range(1000000000000)", "--timeout", "50ms"], 2, "stopped after 0.05 s; --timeout"),
        (["select list(range) from range(100000000)", "--memory", "32MiB"], 70, "more than 32.00 MiB of memory"),
    ],
)
def test_errors(words: list[str], code: int, message: str, command: Command) -> None:
    ran = command(POD, *words)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err and ran.err.count("\n") == 1


def test_exported_runs_are_queried(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    fastprof.load([POD, str(DEMO / "logdir")]).to_parquet(out)
    query = "select run, count(*) as n from events group by run order by run"
    rows = json.loads(command(out, query, "--format", "json").out)["rows"]
    assert [row["n"] for row in rows][-1] == 576 and len(rows) == 2
    listed = command(out, "--tables", "--format", "csv").out
    assert "events,run,large_string" in listed and "steps.steps" not in listed
    assert "exported runs are selected in the query" in command(out, query, "--host", "host1").err
    assert "no table 'steps.steps'" in command(out, "from steps.steps").err


RUNS = "select run, count(*) as n from events group by run order by n"


@pytest.mark.parametrize(
    "words",
    [
        [POD, HOSTS, "--format", "json"],
        [POD, "--format", "json", HOSTS],
        ["--format", "json", POD, HOSTS],
        [POD, "--format", "json", "--wide", f"-- by host\n{HOSTS}"],
        ["--limit", "5", POD, "--format", "json", HOSTS, "-q"],
    ],
)
def test_flags_may_stand_anywhere(words: list[str], command: Command) -> None:
    assert json.loads(command(*words).out)["rows"] == ROWS


def test_several_sessions_are_several_runs(command: Command, tmp_path: Path) -> None:
    xla = str(DEMO / "xla")
    (tmp_path / "query.sql").write_text(RUNS)
    for words in (
        [POD, xla, RUNS],
        [POD, "--threads", "1", xla, RUNS],
        [POD, xla, "--file", str(tmp_path / "query.sql")],
    ):
        counts = [row["n"] for row in json.loads(command(*words, "--format", "json").out)["rows"]]
        assert counts == [576, 1210]
    assert "events,run," in command(POD, xla, "--tables", "--format", "csv").out
    assert "give a query after the sessions" in command(POD, xla).err
    out = str(tmp_path / "out")
    fastprof.load(POD).to_parquet(out)
    assert f"give only {out}" in command(out, xla, HOSTS).err


def test_an_unknown_flag_is_named(command: Command) -> None:
    ran = command(POD, "--forma", "json", HOSTS)
    assert ran.code == 2 and "unrecognized arguments: --forma" in ran.err and "did you mean '--format'" in ran.err


def test_first_rows_may_be_left_out(command: Command, tmp_path: Path) -> None:
    query = "select range as i from range(300000)"
    for form, row in (("csv", "299999"), ("table", "299,999")):
        ran = command(POD, query, "--offset", "299998", "--format", form)
        assert len(ran.out.splitlines()) == 3 and ran.out.splitlines()[-1] == row
    paged = command(POD, query, "--offset", "2", "--limit", "2")
    assert paged.out == "i\n2\n3\n" and "--limit all shows the others" in paged.err
    command(POD, query, "--offset", "299999", "-o", str(tmp_path / "a.parquet"))
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"i": 299_999}]
    assert command(POD, HOSTS, "--offset", "5", "--format", "csv").out == "host,n\n"
