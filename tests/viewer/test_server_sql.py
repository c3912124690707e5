"""SQL queries of the page: the rows are those of the library, the limits those of the command line."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from demo_captures import DEMO
from served import Answer, Served

import fastprof

PAGE = {"x-fastprof": "page"}
SECRET = "the text of a private file"


@pytest.fixture(scope="module")
def served() -> Served:
    return Served(str(DEMO / "pod"))


def ask(served: Served, query: str, path: str = "/api/sql", **params: Any) -> Answer:
    return served.client.get(path, {"query": query, **params}, PAGE)


def refusal(answer: Answer) -> tuple[int, str]:
    assert list(answer.json()) == ["error"]
    return answer.status_code, answer.json()["error"]


def test_rows_are_those_of_the_library(served: Served) -> None:
    query = "select host, name, sum(duration_ps) as ps from events group by all order by all"
    answer = ask(served, query).json()
    rows = fastprof.load(DEMO / "pod").sql(query).to_pylist()
    assert answer["answer"]["rows"] == rows
    assert answer["of"] == len(rows)
    assert [column["type"] for column in answer["answer"]["columns"]] == ["string", "string", "int64"]
    assert answer["seconds"] >= 0


def test_the_first_rows_and_the_count_of_all(served: Served) -> None:
    answer = ask(served, "select range as i from range(5000)").json()
    assert (len(answer["answer"]["rows"]), answer["of"]) == (1000, 5000)
    short = ask(served, "select range as i from range(5000)", limit=2).json()
    assert (short["answer"]["rows"], short["of"]) == ([{"i": 0}, {"i": 1}], 5000)
    none = ask(served, "select event_id from events where false").json()
    assert (none["answer"]["rows"], none["of"]) == ([], 0)
    assert none["answer"]["columns"][0]["name"] == "event_id"


def test_all_rows_as_a_file(served: Served) -> None:
    answer = ask(served, "select range as i, 'a,b' as t from range(3000)", "/api/sql.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert (rows[0], rows[-1], len(rows)) == (["i", "t"], ["2999", "a,b"], 3001)
    assert refusal(ask(served, "selct 1", "/api/sql.csv"))[0] == 400


def test_reports_are_those_of_the_pages(served: Served) -> None:
    assert ask(served, "select count(*) as n from steps.steps").json()["answer"]["rows"][0]["n"] > 0
    kept = served.client.app.app.routes and len(served.profile._reports)  # type: ignore[union-attr]
    page = served.get("/api/report/steps", shape="rows")
    rows = ask(served, "select step, duration_ps from steps.steps").json()["answer"]["rows"]
    shown = [{"step": row["step"], "duration_ps": row["duration_ps"]} for row in page["tables"]["steps"]["rows"]]
    assert sorted(map(repr, rows)) == sorted(map(repr, shown))
    assert kept == len(served.profile._reports)  # type: ignore[union-attr]


def test_hosts_can_be_chosen(served: Served) -> None:
    answer = ask(served, "select distinct host from events", host="host1").json()
    assert answer["answer"]["rows"] == [{"host": "host1"}]
    assert refusal(ask(served, "select 1", host="nobody"))[0] == 404


def test_tables_are_listed(served: Served) -> None:
    tables = {row["table"]: row for row in served.get("/api/sql/tables")["tables"]}
    assert tables["events"]["columns"][:2] == ["event_id", "host"]
    assert {"op_stats.ops", "steps.figures", "hlo_instructions"} <= set(tables)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select nme from events", "no column 'nme'"),
        ("select * from event", "did you mean 'events'?"),
        ("select * from read_text('{file}')", "cannot be read as a table"),
        ("copy events to '{file}.out'", "not COPY"),
        ("select 1; select 2", "2 statements"),
        ("set memory_limit = '1TB'", "not SET"),
    ],
)
def test_errors_are_sentences(query: str, message: str, served: Served, tmp_path: Any) -> None:
    file = tmp_path / "private.txt"
    file.write_text(SECRET)
    status, sentence = refusal(ask(served, query.format(file=file)))
    assert status == 400
    assert message in sentence and SECRET not in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["private.txt"]


def test_only_the_page_may_ask(served: Served) -> None:
    assert served.refused("/api/sql", query="select 1") == (403, "a request with a query has the header x-fastprof")
    assert served.refused("/api/sql.csv", query="select 1")[0] == 403
    foreign = served.client.get("/api/sql", {"query": "select 1"}, {**PAGE, "sec-fetch-site": "cross-site"})
    assert refusal(foreign) == (403, "pages of other sites must not read this server")
    origin = served.client.get("/api/sql", {"query": "select 1"}, {**PAGE, "origin": "http://elsewhere"})
    assert origin.status_code == 403
    assert refusal(served.client.get("/api/sql", {}, PAGE)) == (400, "the argument query is missing")
