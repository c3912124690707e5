"""Secrets of URLs: no message, table or file has them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from object_server import ObjectServer
from stored_captures import CAPTURE, KEY

import fastprof
from fastprof.cli.main import main
from fastprof.errors import FastprofError, UsageError
from fastprof.inputs.stores.store_path import make_store_path
from fastprof.inputs.stores.store_verbs import hide_secrets

SECRET = "Sesame1234"


def signed(server: ObjectServer, key: str = KEY) -> str:
    host = server.address.removeprefix("http://")
    return f"http://user:{SECRET}@{host}/bucket/{key}?X-Amz-Signature={SECRET}"


def test_a_signature_is_sent_and_never_shown(server: ObjectServer, tmp_path: Path) -> None:
    profile = fastprof.load(signed(server))
    profile.reports()
    assert all(SECRET in request.path for request in server.requests)
    assert all(request.headers["Authorization"].startswith("Basic ") for request in server.requests)
    shown = [repr(profile), str(profile.sources), profile._repr_html_()]
    shown += [json.dumps(table.to_pylist(), default=str) for table in (profile.hosts, profile.import_log)]
    profile.to_parquet(tmp_path / "out")
    shown += [path.read_bytes().decode("latin-1") + path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert all(SECRET not in text for text in shown)
    assert f"{server.address}/bucket/{KEY}" in shown[1]


@pytest.mark.parametrize("fault", ["403", "404", "500", "drop", "short"])
def test_errors_have_no_secret(server: ObjectServer, fault: str) -> None:
    server.fault = lambda request: fault if request.range != (0, 1) or fault.isdecimal() else None
    with pytest.raises(FastprofError) as caught:
        fastprof.load(signed(server))
    assert SECRET not in str(caught.value)
    assert f"{server.address}/bucket/{KEY}" == caught.value.path


@pytest.mark.parametrize(
    "url",
    [
        f"s3://key:{SECRET}@bucket/logs",
        f"s3://bucket/a.xplane.pb?X-Amz-Signature={SECRET}",
        f"az://box/a.xplane.pb?sv=1&sig={SECRET}",
        f"abfs://box:{SECRET}@account.dfs.core.windows.net/logs",
    ],
)
def test_credentials_in_urls_of_stores_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="credentials in a URL are not accepted") as caught:
        fastprof.load(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "verb", [["info"], ["steps"], ["report", "--html", "OUT"], ["events", "--format", "csv"], ["trace", "-o", "OUT"]]
)
def test_verbs_take_urls_and_show_no_secret(
    server: ObjectServer, verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / ("out.html" if "--html" in verb else "out.json.gz")
    words = [str(out) if word == "OUT" else word for word in verb]
    assert main([words[0], signed(server), *words[1:], "-v"]) == 0
    shown = capsys.readouterr()
    text = shown.out + shown.err + (out.read_bytes().decode("latin-1") if out.exists() else "")
    assert SECRET not in text
    assert len(text) > 100


def test_a_message_of_a_client_loses_queries_and_users() -> None:
    text = f"GET https://me:{SECRET}@host/a?sig={SECRET} failed\nDebug source: {SECRET}"
    assert hide_secrets(text) == "GET https://host/a failed"


def test_a_pickle_has_what_is_needed_to_read_again(server: ObjectServer) -> None:
    again = pickle.loads(pickle.dumps(make_store_path(signed(server))))
    assert fastprof.load(again).events.num_rows == 752
    assert len(CAPTURE) == again.store.known[again.key].size
