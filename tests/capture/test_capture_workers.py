"""``fastprof capture`` against servers that answer, refuse, stay silent, die and lie."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from gate import few
from profiler_server import ProfilerServer, breaking_after, captured, free_port, message, serving
from trace_builder import event, line, plane, task_environment, xspace

from fastprof.cli.main import main

NS = 10**9


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def workers(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.out)["workers"]["rows"]
        return rows

    @property
    def statuses(self) -> list[str]:
        return [row["status"] for row in self.workers]


Run = Callable[..., Ran]


@pytest.fixture
def take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Captures 20 ms to tmp_path/logs; the table is JSON."""

    def run(*words: str, checks: bool = False) -> Ran:
        usual = ["-o", str(tmp_path / "logs"), "--duration", "20ms", "--format", "json"]
        code = main(["capture", *usual, *words, *([] if checks else ["--no-checks"])])
        return Ran(code, *capsys.readouterr())

    return run


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden and unfinished ones too, by the part of its path below the run."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder / "plugins" / "profile")).partition("/")[2]: path.read_bytes() for path in found
    }


def sample(steps: int = 12) -> bytes:
    """A capture of 20 ms that has steps."""
    rows = [event("train", 1000 * i, 900, {"step_num": i, "_r": 1}) for i in range(steps)]
    rows += [event("dot.1", 1000 * i + 9, 500, {"hlo_op": "dot.1", "hlo_module": "m"}) for i in range(steps)]
    return xspace(plane("/host:CPU", [line("main", rows)]), task_environment(NS, NS + 20 * 10**6))


def refusing(code: grpc.StatusCode, text: str) -> ProfilerServer:
    return ProfilerServer(lambda _request, context: context.abort(code, text))


def until_left(_request: object, context: grpc.ServicerContext) -> bytes:
    """Silent until the client gives up."""
    while context.is_active():
        time.sleep(0.005)
    return b""


def test_the_file_is_what_the_answer_holds(take: Run, tmp_path: Path) -> None:
    sent = xspace(os.urandom(3000))  # whatever a plane holds, it is kept
    server = ProfilerServer(captured(sent))
    with serving(server) as address:
        ran = take(address)
    assert (ran.code, ran.statuses) == (0, ["written"])
    name = f"127.0.0.1_{server.port}.xplane.pb"
    assert files(tmp_path / "logs") == {name: sent}
    (row,) = ran.workers
    assert row["size_bytes"] == len(sent) and row["attempts"] == 1 and row["file"].endswith(name)
    run = Path(row["file"]).parent
    assert time.strptime(run.name, "%Y_%m_%d_%H_%M_%S") and server.requests[0].session_id == run.name


def test_the_server_gets_what_was_requested(take: Run) -> None:
    server = ProfilerServer(captured(xspace(b"x")))
    settings = ("tpu_trace_mode=TRACE_COMPUTE", "number=-3", "flag=true", 'text="5"')
    flags = ("--host-level", "3", "--device-level", "0", "--python-level", "1", "--hosts", "node7")
    with serving(server) as address:
        ran = take(f"grpc://{address}", *flags, *(word for one in settings for word in ("--set", one)))
    (request,) = server.requests
    options = request.opts
    assert (request.duration_ms, options.duration_ms, options.version) == (20, 20, 1)
    assert (options.host_tracer_level, options.device_tracer_level, options.python_tracer_level) == (3, 0, 1)
    assert options.include_dataset_ops and options.enable_hlo_proto and options.start_timestamp_ns == 0
    assert request.emit_xspace and not request.repository_root and not options.repository_path
    assert request.host_name == f"127.0.0.1_{server.port}" and options.override_hostname == "node7"
    assert request.session_id == options.session_id != ""
    sent = {one.key: getattr(one.value, one.value.WhichOneof("kind")) for one in options.advanced_configuration}
    assert sent == {"tpu_trace_mode": "TRACE_COMPUTE", "number": -3, "flag": True, "text": "5"}
    assert ran.workers[0]["host"] == "node7" and ran.workers[0]["file"].endswith("/node7.xplane.pb")


def test_eight_workers_record_at_once_from_one_moment(take: Run, tmp_path: Path) -> None:
    together = threading.Barrier(8, timeout=20)  # all eight are called before one answers

    def profile(request: Any, _context: object) -> bytes:
        together.wait()
        return captured(xspace(request.host_name.encode()))

    every = [ProfilerServer(profile) for _ in range(8)]
    before = time.time_ns()
    with ExitStack() as stack:
        addresses = [stack.enter_context(serving(one)) for one in every]
        ran = take(",".join(addresses), "--delay", "200ms")
    assert (ran.code, set(ran.statuses)) == (0, {"written"})
    starts = {one.requests[0].opts.start_timestamp_ns for one in every}
    assert len(starts) == 1 and before + NS // 5 <= starts.pop() <= time.time_ns() + NS // 5
    assert len({one.requests[0].session_id for one in every}) == 1
    assert files(tmp_path / "logs") == {
        f"127.0.0.1_{one.port}.xplane.pb": xspace(f"127.0.0.1_{one.port}".encode()) for one in every
    }


def test_each_failure_is_shown_and_costs_the_others_nothing(take: Run, tmp_path: Path) -> None:
    good, dying = ProfilerServer(captured(xspace(b"good"))), ProfilerServer(captured(os.urandom(1 << 21)))
    with ExitStack() as stack:
        addresses = [
            stack.enter_context(serving(refusing(grpc.StatusCode.INTERNAL, "no \x1b[2J disk"))),
            stack.enter_context(serving(good)),
            f"127.0.0.1:{free_port()}",
            stack.enter_context(serving(refusing(grpc.StatusCode.UNIMPLEMENTED, ""))),
            stack.enter_context(serving(ProfilerServer(captured(b"", empty=True)))),
            stack.enter_context(breaking_after(int(stack.enter_context(serving(dying)).rpartition(":")[2]), 1 << 20)),
        ]
        ran = take(*addresses, "--delay", "0s", "--attempts", "2")
    assert ran.code == 5
    assert ran.statuses == ["refused", "written", "unreachable", "unsupported", "empty", "lost"]
    assert [row["attempts"] for row in ran.workers] == [1, 1, 2, 1, 1, 1]  # what may have begun is not begun again
    assert files(tmp_path / "logs") == {f"127.0.0.1_{good.port}.xplane.pb": xspace(b"good")}
    errors = [text for text in ran.err.splitlines() if text.startswith("fastprof: 127")]
    assert len(errors) == 5 and r"INTERNAL: no \x1b[2J disk" in errors[0]
    assert "jax.profiler.start_server(PORT)" in errors[1]


def test_a_silent_server_is_late_and_not_left_busy(take: Run, tmp_path: Path) -> None:
    good, silent = ProfilerServer(captured(xspace(b"good"))), ProfilerServer(until_left)
    with serving(good) as one, serving(silent) as other:
        ran = take(other, one, "--delay", "0s", "--timeout", "2s")
        assert silent.left.wait(10)
    assert (ran.code, ran.statuses) == (5, ["late", "written"])
    assert "--delay 0s" in ran.err
    assert files(tmp_path / "logs") == {f"127.0.0.1_{good.port}.xplane.pb": xspace(b"good")}


def test_nothing_is_left_if_nothing_came(take: Run, tmp_path: Path) -> None:
    ran = take(f"127.0.0.1:{free_port()}", "--attempts", "1")
    assert (ran.code, ran.statuses) == (6, ["unreachable"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "text"),
    few(
        [
            (grpc.StatusCode.INTERNAL, "Another profiling session active."),
            (grpc.StatusCode.ALREADY_EXISTS, "A profiling session is already running."),
        ],
        1,
    ),
)
def test_a_busy_server_is_called_again(take: Run, code: grpc.StatusCode, text: str) -> None:
    def profile(_request: object, context: grpc.ServicerContext) -> bytes:
        if len(server.requests) == 1:
            context.abort(code, text)
        return captured(xspace(b"second"))

    server = ProfilerServer(profile)
    with serving(server) as address:
        ran = take(address)
        assert (ran.code, ran.statuses, ran.workers[0]["attempts"]) == (0, ["written"], 2)
    with serving(refusing(code, text)) as address:
        ran = take(address, "--attempts", "1")
    assert (ran.code, ran.statuses) == (6, ["busy"]) and text in ran.workers[0]["reason"]


def test_ipv6(take: Run, tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    server = ProfilerServer(captured(xspace(b"six")))
    with serving(server, "[::1]") as address:
        assert take(address).code == 0
    assert files(tmp_path / "logs") == {f"[__1]_{server.port}.xplane.pb": xspace(b"six")}


def test_a_large_answer(take: Run, tmp_path: Path) -> None:
    sent = xspace(os.urandom(1 << 20) * 40)
    with serving(ProfilerServer(captured(sent))) as address:
        assert take(address).workers[0]["size_bytes"] == len(sent)
    (written,) = files(tmp_path / "logs").values()
    assert hashlib.sha256(written).digest() == hashlib.sha256(sent).digest()


HOSTILE = [
    "../../outside",
    "/etc/host",
    "a\0b",
    "..",
    ".hidden",
    "",
    "~",
    "n" * 5000,
    "ä" * 300,
    "same",
    "same",
    "x\\..\\y",
]


def test_names_that_servers_record_stay_in_the_run(take: Run, tmp_path: Path) -> None:
    spaces = [xspace(b"", hostnames=[name]) for name in HOSTILE]
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(ProfilerServer(captured(one)))) for one in spaces]
        ran = take(*servers, "--delay", "0s", "--recorded-hosts")
    assert (ran.code, set(ran.statuses)) == (0, {"written"})
    run = Path(ran.workers[0]["file"]).parent
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(run.iterdir())
    assert sorted(path.read_bytes() for path in run.iterdir()) == sorted(spaces)
    assert {"same.xplane.pb", "same#2.xplane.pb", "a_b.xplane.pb", ".._outside.xplane.pb"} - {
        path.name for path in run.iterdir()
    } == {".._outside.xplane.pb"}
    assert not any(path.name.startswith((".", "~")) for path in run.iterdir())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\x42\x7f12", "the message ends within a field"),
        (b"\x38\x00" * 20_000, "more than 10,000 fields"),
        (b"\xff" * 30, "an integer has no end"),
        (b"", "the answer has no capture"),
        (captured(b"\x00random bytes"), "13 bytes came that are not a capture, and were not written: field 0 of"),
        (captured(xspace(b"x")[:-1]), "the message ends within a field"),
        (captured(b"\x08\x01"), "field 1 of an XSpace is not a number"),
        (captured(xspace(errors=["no permission"])), "it has no plane, and says: no permission"),
    ],
)
def test_answers_that_are_damaged(take: Run, tmp_path: Path, answer: bytes, reason: str) -> None:
    with serving(ProfilerServer(answer)) as address:
        ran = take(address)
    assert (ran.code, ran.statuses) == (6, ["bad answer"]) and reason in ran.workers[0]["reason"]
    assert list(tmp_path.iterdir()) == []


def test_servers_that_are_old_send_the_capture_as_a_tool(take: Run, tmp_path: Path) -> None:
    tools = [{"name": "../x", "data": b"other"}, {"name": "xplane.pb", "data": xspace(b"old")}]
    with serving(ProfilerServer(message("ProfileResponse", tool_data=tools).SerializeToString())) as address:
        assert take(address).code == 0
    assert list(files(tmp_path / "logs").values()) == [xspace(b"old")]


def test_the_server_writes_if_that_is_requested(take: Run, tmp_path: Path) -> None:
    server = ProfilerServer(message("ProfileResponse").SerializeToString())
    with serving(server) as address:
        ran = take(address, "-o", "gs://bucket/logs/", "--on-server", "--run", "mine")
    (request,) = server.requests
    assert request.repository_root == request.opts.repository_path == "gs://bucket/logs/plugins/profile"
    assert not request.emit_xspace and request.session_id == "mine"
    (row,) = ran.workers
    assert (ran.code, row["status"], row["size_bytes"]) == (0, "on the server", None)
    assert row["file"] == f"gs://bucket/logs/plugins/profile/mine/127.0.0.1_{server.port}.xplane.pb"
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_is_behind_is_late_and_no_clock_is_not(take: Run) -> None:
    def profile(request: Any, context: grpc.ServicerContext) -> bytes:
        an_hour_behind = time.time_ns() - 3600 * NS
        if request.opts.start_timestamp_ns > an_hour_behind:
            return until_left(request, context)
        return captured(xspace(b"x"))

    with serving(ProfilerServer(profile)) as address:
        assert take(address, "--delay", "100ms", "--timeout", "200ms").statuses == ["late"]
        assert take(address, "--delay", "0s").statuses == ["written"]


def test_two_captures_within_a_second_are_two_runs(take: Run, tmp_path: Path) -> None:
    with serving(ProfilerServer(captured(xspace(b"x")))) as address:
        runs = {Path(take(address).workers[0]["file"]).parent for _ in range(3)}
    assert len(runs) == 3 and len(list((tmp_path / "logs" / "plugins" / "profile").iterdir())) == 3


def test_then_shows_the_run(take: Run) -> None:
    with serving(ProfilerServer(captured(sample()))) as address:
        ran = take(address, "--format", "table", "--then", "steps --table steps --format json")
    assert ran.code == 0 and len(json.loads(ran.out)["rows"]) == 12


@pytest.mark.parametrize(
    ("space", "flags", "codes"),
    [
        (sample(), (), []),
        (sample(0), (), ["no_steps", "no_host_threads"]),
        (sample(2), ("--host-level", "0", "--device-level", "0"), ["host_tracer_off", "device_tracer_off"]),
        (sample(2), (), ["few_steps"]),
        (sample(), ("--duration", "30ms"), ["too_short"]),
        (sample() + xspace(warnings=["5 events were dropped"]), (), ["events_dropped"]),
        (sample().replace(b"train", b"\xff\xff\xff\xff\xff"), (), ["damaged"]),
    ],
)  # fmt: skip
def test_what_a_capture_lacks_is_a_remark(take: Run, space: bytes, flags: tuple[str, ...], codes: list[str]) -> None:
    with serving(ProfilerServer(captured(space))) as address:
        ran = take(address, *flags, checks=True)
    assert ran.code == (4 if codes == ["damaged"] else 0)
    assert [row["code"] for row in json.loads(ran.out)["remarks"]["rows"]] == codes


def started(*words: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        "from fastprof.cli.main import entry; raise SystemExit(entry())",
        "capture",
        *words,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    def profile(_request: object, _context: object) -> bytes:
        assert first.terminated.wait(20)
        return captured(xspace(b"until then"))

    first, deaf = ProfilerServer(profile), ProfilerServer(until_left)
    logs = tmp_path / "logs"
    with serving(first) as one, serving(deaf) as other:
        flags = ("-o", str(logs), "--duration", "1000s", "--delay", "0s", "--no-checks")
        with started(one, other, *flags) as command:
            assert first.began.wait(20) and deaf.began.wait(20)
            command.send_signal(signal.SIGINT)
            assert first.terminated.wait(20) and deaf.terminated.wait(20)
            while not files(logs):
                time.sleep(0.005)
            assert command.poll() is None  # it waits for the other
            command.send_signal(signal.SIGINT)
            out, err = command.communicate(timeout=20)
        assert deaf.left.wait(10)
    assert command.returncode == 130
    assert "written" in out and "cancelled" in out and "Ctrl-C again gives up" in err
    assert files(logs) == {f"127.0.0.1_{first.port}.xplane.pb": xspace(b"until then")}


def test_a_terminated_command_leaves_neither_files_nor_busy_servers(tmp_path: Path) -> None:
    server = ProfilerServer(until_left)
    with serving(server) as address, started(address, "-o", str(tmp_path / "logs"), "--duration", "1000s") as command:
        assert server.began.wait(20)
        command.terminate()
        command.communicate(timeout=20)
        assert server.left.wait(10)
    assert command.returncode == 143 and list(tmp_path.iterdir()) == []
