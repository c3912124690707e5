"""Addresses of profiler servers, and flags that do not fit; ``fastprof capture monitor``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from profiler_server import ProfilerServer, message, serving

from fastprof.cli.main import main
from fastprof.errors import NotFoundError, UsageError
from fastprof.inputs.profiler_client import profiler_servers


@pytest.mark.parametrize(
    ("text", "address", "host"),
    [
        ("node7:8466", "node7:8466", "node7_8466"),
        ("grpc://10.0.0.3:1", "10.0.0.3:1", "10.0.0.3_1"),
        (" [::1]:8466 ", "[::1]:8466", "[__1]_8466"),
        ("[fe80::1%eth0]:5", "[fe80::1%eth0]:5", "[fe80__1%eth0]_5"),
        ("9012", "localhost:9012", "localhost_9012"),
    ],
)
def test_addresses_and_what_their_hosts_are_called(text: str, address: str, host: str) -> None:
    one = profiler_servers.parse_address(text)
    assert (str(one), one.as_host) == (address, host)


@pytest.mark.parametrize(
    "text",
    ["", "node7", "node7:", ":5", "a:b", "a:0", "a:65536", "http://x:1", "a/b:1", "a b:1", "[::1]", "[1.2.3.4]:5",
     "[zz]:5", "a\0b:1", "unix:/tmp/x:1", "a:1?x"],
)  # fmt: skip
def test_texts_that_are_not_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        profiler_servers.parse_address(text)


def test_an_ipv6_address_without_brackets_gets_advice() -> None:
    with pytest.raises(ValueError, match=r"\[::1\]:PORT"):
        profiler_servers.parse_address("::1:8466")


def test_addresses_of_a_file_and_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("a:1, b:2 # the third is away: c:3\n\n[::1]:4\n")
    assert [str(one) for one in profiler_servers.read_addresses(str(tmp_path / "workers"))] == ["a:1", "b:2", "[::1]:4"]
    (tmp_path / "wrong").write_text("a:1\nb\n")
    (tmp_path / "empty").write_text("# a:1\n")
    for name, problem in (("wrong", "'b' is not an address"), ("empty", "it has no address")):
        with pytest.raises(UsageError, match=problem):
            profiler_servers.read_addresses(str(tmp_path / name))
    with pytest.raises(NotFoundError, match="does not exist"):
        profiler_servers.read_addresses(str(tmp_path / "absent"))
    assert "127.0.0.1:77" in [str(one) for one in profiler_servers.resolve_name("localhost:77")]
    with pytest.raises(NotFoundError, match="no address of"):
        profiler_servers.resolve_name("nowhere.invalid:77")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "logs"], "give a server"),
        (["a:1,b", "-o", "logs"], "'b' is not an address"),
        (["a:1", "-o", "logs", "--duration", "0s"], "is not an integer number of milliseconds"),
        (["a:1", "-o", "logs", "--duration", "1us"], "is not an integer number of milliseconds"),
        (["a:1", "b:1", "-o", "logs", "--hosts", "one"], "1 names for 2 addresses"),
        (["a:1", "-o", "logs", "--hosts", "../x"], "a name that no file can have"),
        (["a:1", "-o", "logs", "--run", "../x"], "cannot be the name of a run"),
        (["a:1", "-o", "logs", "--on-server"], "a path on the servers"),
        (["a:1", "-o", "logs", "--then", "snapshot"], "does not show a run"),
        (["a:1", "-o", "logs", "--then", "nothing"], "does not show a run"),
        (["a:1", "-o", "logs", "--then", "steps --nothing"], "is not a verb with its flags"),
        (["a:1", "-o", "logs", "--set", "x"], "write KEY=VALUE"),
    ],
)
def test_flags_that_do_not_fit(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["capture", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_h2_the_command_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert main(["capture", "a:1", "-o", "logs"]) == 2
    assert "pip install h2" in capsys.readouterr().err


def test_monitor_shows_what_the_server_says(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"response_type": 2, "device_idle_time_percent": 17.9, "matrix_unit_utilization_percent": 0.058}
    answer = message(
        "MonitorResponse", data="TPU idle time: 17.9%\n\x1b[2J", monitor_result=figures
    ).SerializeToString()
    server = ProfilerServer(monitor=answer)
    with serving(server) as address:
        assert main(["monitor", address, "--duration", "10ms", "--level", "1", "--count", "2"]) == 0
        assert capsys.readouterr().out.count("TPU idle time: 17.9%\n\\x1b[2J\n") == 2
        assert main(["monitor", address, "--duration", "10ms", "--format", "json"]) == 0
    assert [(one.duration_ms, one.monitoring_level, one.timestamp) for one in server.monitored[1:]] == [
        (10, 1, True), (10, 2, True),
    ]  # fmt: skip
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["device_idle_time_percent"] == 17.9 and row["matrix_unit_utilization_percent"] == 0.058
    assert row["step_time_ms_avg"] is None and row["status"] == "answered"


def test_monitor_of_a_server_that_does_not_offer_it(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(ProfilerServer()) as address:
        assert main(["monitor", address, "--duration", "10ms"]) == 6
    assert "unsupported: UNIMPLEMENTED: unimplemented." in capsys.readouterr().err
