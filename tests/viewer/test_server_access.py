"""Who is answered, and which headers answers have."""

from __future__ import annotations

from typing import Any

import pytest
from served import Client, Served
from trace_builder import event, line, plane, xspace

from fastprof.errors import UsageError
from fastprof.viewer.answers import check_token, is_loopback, make_token

CAPTURE = xspace(plane("/host:CPU", [line("main", [event("a", 0, 1)])]))
TOKEN = "a token; with = all sorts"


def served(token: str | None = None) -> Served:
    return Served(CAPTURE, token=token)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8791", "127.0.0.1:1", "127.1.2.3", "[::1]:99", "[::1]", "[::1]:", "x.localhost:1"]
    + ["LocalHost:8791", "localhost.", "localhost.:8791", "127.0.0.1:"],
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    answer = served().client.get("/api/runs", headers={"host": host})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8791", "localhost.evil.example", "", "127.evil.example", "[::2]"]
    + ["[::1]evil.example", "[::1]:1.evil.example", "[::1", "[[::1]]", "::1]", "::1", "[127.0.0.1]", "[::1%lo]"]
    + [
        "127.0.0.1:8791@evil.example",
        "localhost@evil.example",
        "user:localhost@evil.example",
        "localhost:@evil.example",
    ]
    + [
        "localhost:8791.evil.example",
        "localhost:8791/",
        "localhost/.localhost",
        "evil.example#.localhost",
        ".localhost",
    ]
    + ["evil.example:1@x.localhost", "localhost..", "localhost:123456", "localhost:-1", "localhost,localhost"]
    + ["127.0.0.1\t.evil.example", "0.0.0.0", "127.0.0.01", "2130706433", "http://localhost"],
)
def test_a_name_that_somebody_lets_lead_here_is_not_answered(host: str) -> None:
    answer = served().client.get("/api/runs", headers={"host": host})
    assert answer.status_code == 421
    assert "localhost" in answer.json()["error"]


def test_a_request_with_several_names_is_not_answered() -> None:
    client = served().client
    assert client.get("/api/runs", headers=[("host", "localhost"), ("host", "evil.example")]).status_code == 421
    assert client.get("/api/runs", headers=[("host", "localhost"), ("host", "localhost")]).status_code == 421


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:8791", 200), ("https://LOCALHOST:8791", 200), ("http://localhost:8792", 403), ("null", 403)]
    + [("http://localhost:8791@evil.example", 403), ("http://evil.example", 403), ("http://localhost", 403), ("", 403)],
)
def test_an_origin_is_this_server_or_not_answered(origin: str, status: int) -> None:
    headers = {"host": "localhost:8791", "origin": origin}
    assert served().client.get("/api/runs", headers=headers).status_code == status


def test_pages_at_other_ports_are_not_answered() -> None:
    client = served().client
    asked = {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}
    assert client.get("/api/runs", headers=asked).status_code == 403
    form = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/api/capture", headers=form, method="POST").status_code == 403


@pytest.mark.parametrize(
    ("site", "mode", "dest", "path", "status"),
    [
        *(("same-origin", "cors", "empty", "/api/runs", 200), ("none", "navigate", "document", "/api/runs", 200)),
        *(("cross-site", "no-cors", "script", "/api/runs", 403), ("same-site", "cors", "empty", "/api/runs", 403)),
        *(("anything", "cors", "empty", "/api/runs", 403), ("", "cors", "empty", "/api/runs", 403)),
        *(("cross-site", "navigate", "document", "/", 200), ("same-site", "navigate", "document", "/", 200)),
        ("cross-site", "navigate", "iframe", "/", 403),
        ("cross-site", "navigate", "document", "/api/report/overview", 403),  # links that make the server work unseen
        ("cross-site", "navigate", "document", "/api/save/report.html", 403),
    ],
)
def test_pages_of_other_sites_may_only_link_to_the_page(
    site: str, mode: str, dest: str, path: str, status: int
) -> None:
    asked = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert served().client.get(path, headers=asked).status_code == status


def test_one_header_of_several_that_names_another_site_is_enough() -> None:
    sites = [("host", "localhost"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")]
    assert served().client.get("/api/runs", headers=sites).status_code == 403
    origins = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")]
    assert served().client.get("/api/runs", headers=origins).status_code == 403


def test_with_a_token_nothing_is_answered_without_it() -> None:
    client = served(TOKEN).client
    client.host = "gpu-box.example:8791"
    for path in ("/", "/api/runs", "/static/app.js", "/nothing", "/api/runs?token=", "/api/runs?token=wrong-token"):
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert "token" in answer.json()["error"]
        assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/api/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/api/runs", headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    assert client.get("/api/runs", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200


def test_the_token_of_an_address_becomes_a_cookie() -> None:
    client = served(TOKEN).client
    answer = client.get("/", {"token": TOKEN, "run": "a b"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?run=a+b")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    pair = cookie.partition(";")[0]
    assert client.get("/api/runs", headers={"cookie": f"other=1; {pair}"}).status_code == 200
    assert client.get("/api/runs", headers={"cookie": pair[:-1]}).status_code == 401
    name = pair.partition("=")[0]  # one of a server of before, of the same name, comes first
    assert client.get("/api/runs", headers={"cookie": f"{name}=stale; {pair}"}).status_code == 200


def test_the_way_in_leads_nowhere_else() -> None:
    client = served(TOKEN).client
    assert client.get("//evil.example/", {"token": TOKEN}).headers["location"] == "/evil.example/"


def test_tokens_are_long_and_random() -> None:
    assert make_token() != make_token()
    assert len(check_token(make_token())) >= 32
    for token in ("short", "", "with\nnewline-in-it", "not-ascii-é-at-all"):
        with pytest.raises(UsageError, match="8 or more"):
            check_token(token)
    assert is_loopback("127.0.0.1") and is_loopback("::1") and not is_loopback("0.0.0.0")


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nothing", "/api/event", "/static/app.js"])
def test_every_answer_says_what_it_may_be_used_for(path: str) -> None:
    headers = served().client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    policy = headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert part in policy.split("; ")
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(method: str) -> None:
    answer = served().client.get("/api/runs", method=method)
    assert answer.status_code == 405
    assert answer.json() == {"error": "this server only answers GET and HEAD"}


def test_a_head_has_no_body() -> None:
    client = served().client
    whole, head = client.get("/api/runs"), client.get("/api/runs", method="HEAD")
    assert (head.status_code, head.content) == (200, b"") or head.headers["etag"] == whole.headers["etag"]


NOWHERE = (
    *("/nothing", "/api", "/api/", "/api/tiles/1/2", "/lib/", "/static/", "/static/pages", "/static/\x00"),
    *("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", f"/static/{'x' * 300}.js"),
)


@pytest.mark.parametrize("path", NOWHERE)
def test_what_is_not_there_is_reported_as_json(path: str) -> None:
    answer = served().client.get(path)
    assert answer.status_code == 404
    assert list(answer.json()) == ["error"]


def test_an_internal_error_is_a_sentence_and_is_reported_to_who_runs_the_server() -> None:
    errors: list[Any] = []
    from fastprof.viewer.server import make_application

    here = served()
    here.runs.listed = lambda *_: 1 / 0  # type: ignore[assignment, return-value]
    answer = Client(make_application(here.runs, None, errors.append)).get("/api/runs")
    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error: ZeroDivisionError; fastprof serve -v shows where"}
    assert [type(error) for error in errors] == [ZeroDivisionError]


def test_a_request_for_an_icon_is_answered_without_one() -> None:
    answer = served().client.get("/favicon.ico")
    assert (answer.status_code, answer.content) == (204, b"")
