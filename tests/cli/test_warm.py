"""`fastprof warm`: commands that run in a copy of a ready process, and commands that it does not take."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gate import few

REPOSITORY = Path(__file__).resolve().parents[2]
COMMANDS = (
    "--help", "help flags", "demo/xla", "info demo/logdir --format json", "events demo/logdir --limit 5",
    "events demo/xla --format csv", "diagnosis demo/xla", "diagnosis demo/logdir --brief", "hlo demo/xla",
    "overview demo/xla --nosuch", "nosuch demo/xla", "info absent", "-v info demo/README.md", "steps demo/pod",
    "tf-data demo/tf-data", "compare demo/xla demo/kernel --format json", "export demo/xla",
)  # fmt: skip


def run(words: str, address: Path | str, **how: Any) -> subprocess.CompletedProcess[str]:
    settings = {"cwd": REPOSITORY, "capture_output": True, "text": True, "stdin": subprocess.DEVNULL} | how
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "FASTPROF_WARM": str(address)}
    environment |= settings.pop("env", {})
    command = [sys.executable, "-X", "importtime", "-m", "fastprof"] if settings.pop("timed", False) else PROGRAM
    return subprocess.run([*command, *words.split()], env=environment, timeout=120, **settings)


PROGRAM = [sys.executable, "-m", "fastprof"]


def start(address: Path, *words: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "FASTPROF_WARM": str(address)}
    helper = subprocess.Popen([*PROGRAM, "warm", *words], env=environment, stderr=subprocess.PIPE, text=True)
    assert helper.stderr is not None
    assert helper.stderr.readline().startswith(f"fastprof: commands run through {address}")
    return helper


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a helper, which runs until the last test of this file."""
    address = tmp_path_factory.mktemp("warm") / "socket"
    process = start(address)
    yield address
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[1] == "fastprof: terminated\n"  # and nothing of the commands
    assert process.returncode == 143
    assert not address.exists()


@pytest.mark.parametrize("words", few(COMMANDS, 8))
def test_a_command_in_the_helper_answers_as_by_itself(helper: Path, words: str) -> None:
    inside, alone = run(words, helper), run(words, 0)
    assert (inside.stdout, inside.stderr, inside.returncode) == (alone.stdout, alone.stderr, alone.returncode)


def test_a_command_in_the_helper_loads_neither_numpy_nor_the_command_line(helper: Path) -> None:
    inside, alone = (run("info demo/xla", address, timed=True).stderr for address in (helper, 0))
    assert "numpy" in alone
    assert "argparse" in alone
    assert "fastprof.cli.warm_client" in inside
    assert not [name for name in ("numpy", "pyarrow", "argparse", "fastprof.cli.main") if name in inside]


def test_folder_environment_mask_and_input_are_those_of_the_command(helper: Path, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "demo/logdir", tmp_path / "runs")
    done = run("info runs -o out.txt", helper, cwd=tmp_path, umask=0o027)
    assert (done.returncode, done.stderr) == (0, "fastprof: Wrote out.txt\n")
    assert (tmp_path / "out.txt").stat().st_mode & 0o777 == 0o640
    capture = next((tmp_path / "runs").rglob("*.xplane.pb"))
    with capture.open("rb") as bytes_of_it:
        assert "Session  <stream>" in run("info -", helper, stdin=bytes_of_it).stdout
    narrow, wide = (run("diagnosis demo/xla", helper, env={"COLUMNS": columns}).stdout for columns in ("80", "200"))
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, wide.splitlines()))


def test_a_reader_that_is_gone_ends_the_command(helper: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert (
            run("events demo/logdir --list --limit all", helper, capture_output=False, stdout=writing).returncode == 141
        )
    finally:
        os.close(writing)


def start_endless(address: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a command, wait until it reads its input, and return both."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "FASTPROF_WARM": str(address)}
    reading, writing = os.pipe()
    command = [*PROGRAM, "info", "-"]
    process = subprocess.Popen(command, env=environment, stdin=reading, stderr=subprocess.PIPE, text=True)
    wait_until_read(reading, writing)
    os.close(reading)
    return process, writing


def wait_until_read(reading: int, writing: int) -> None:
    os.write(writing, b"\0")
    for _ in range(6_000):
        if fcntl.ioctl(reading, termios.FIONREAD, b"\1\0\0\0") == bytes(4):
            return
        time.sleep(0.01)
    pytest.fail("nobody has read a byte for a minute")


@pytest.mark.parametrize(("number", "code", "text"), [
    (signal.SIGINT, 130, "fastprof: interrupted\n"), (signal.SIGTERM, 143, "fastprof: terminated\n"),
    (signal.SIGHUP, 143, "fastprof: terminated\n"), (signal.SIGKILL, -9, ""),
])  # fmt: skip
def test_a_signal_to_the_command_ends_its_copy(helper: Path, number: signal.Signals, code: int, text: str) -> None:
    command, writing = start_endless(helper)
    command.send_signal(number)
    _, said = command.communicate(timeout=60)  # until the last process that holds standard error has ended
    os.close(writing)
    assert (command.returncode, said) == (code, text)


def test_a_command_runs_by_itself_without_a_helper(tmp_path: Path) -> None:
    expected = run("info demo/xla", 0)
    assert expected.returncode == 0
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stale))
    plain = tmp_path / "plain"
    plain.write_text("no socket")
    silent = tmp_path / "silent"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(silent))
        listener.listen()  # and never answers, as a helper that was stopped
        for address in (stale, plain, silent, tmp_path / "absent", tmp_path / ("long" * 40)):
            done = run("info demo/xla", address)
            assert (done.stdout, done.stderr, done.returncode) == (expected.stdout, "", 0), address


def test_a_command_of_another_installation_runs_by_itself(helper: Path, tmp_path: Path) -> None:
    (tmp_path / "fastprof").symlink_to(REPOSITORY / "fastprof")
    code = "import sys, fastprof; sys.argv[1:] = ['info', 'demo/xla']; from fastprof.__main__ import entry; entry()"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "FASTPROF_WARM": str(helper)}
    shown = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}; print('numpy' in sys.modules)"],
        env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown.endswith("True\n")


@pytest.mark.parametrize(
    "request_bytes", [b"", b"\0" * 8, b"\xff" * 8, b"\0" * 7 + b"\5abcd\0", b"\0" * 7 + b"\4a\0b\0"]
)
def test_bytes_that_are_no_request_leave_the_helper_at_work(helper: Path, request_bytes: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(helper))
        if request_bytes:
            socket.send_fds(connection, [request_bytes], [0, 1, 2])
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"\1"
        assert connection.recv(1) == b""
    assert run("info demo/xla", helper).returncode == 0


def test_a_second_helper_and_a_place_that_cannot_be_used_are_refused(helper: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no socket")
    for address, message, code in (
        (helper, f"fastprof: a helper answers already: {helper}\n", 2),
        (plain, f"fastprof: {plain}: a file that helpers cannot use: it is not a socket\n", 3),
        (0, "fastprof: FASTPROF_WARM turns helpers off: unset it, or let it name a socket\n", 2),
        (
            tmp_path / ("long" * 40),
            f"fastprof: {tmp_path / ('long' * 40)}: cannot make a socket: AF_UNIX path too long\n",
            3,
        ),
    ):
        done = run("warm", address)
        assert (done.stderr, done.returncode) == (message, code)
    assert plain.read_text() == "no socket"


def test_a_helper_ends_when_no_command_comes_and_replaces_the_socket_of_one_that_was_killed(tmp_path: Path) -> None:
    address = tmp_path / "socket"
    first = start(address)
    first.kill()
    first.communicate()
    assert address.exists()
    second = start(address, "--idle", "1s")
    assert second.communicate(timeout=60)[1] == ""
    assert second.returncode == 0
    assert not address.exists()


def test_signals_that_come_with_the_request_end_the_command(helper: Path) -> None:
    reading, writing = os.pipe()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(helper))
        connection.settimeout(60)
        assert connection.recv(1) == b"\1"
        code = (
            "import sys; from fastprof.cli import warm_client;"
            " sys.stdout.buffer.write(warm_client._make_request(['info', '-']))"
        )
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        request = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
        with Path(os.devnull).open("w") as nowhere:
            socket.send_fds(connection, [request[:8]], [reading, nowhere.fileno(), nowhere.fileno()])
        connection.sendall(request[8:] + bytes([signal.SIGINT]))
        assert connection.recv(1) == b"\1"
        assert connection.recv(1) == bytes([130])
    os.close(reading)
    os.close(writing)


def test_a_command_that_is_refused_can_be_interrupted(helper: Path, tmp_path: Path) -> None:
    (tmp_path / "fastprof").symlink_to(REPOSITORY / "fastprof")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "FASTPROF_WARM": str(helper)}
    reading, writing = os.pipe()
    command = subprocess.Popen(
        [sys.executable, "-P", "-m", "fastprof", "info", "-"],
        env=environment, cwd=tmp_path, stdin=reading, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until_read(reading, writing)
    command.send_signal(signal.SIGINT)
    assert command.communicate(timeout=60)[1] == "fastprof: interrupted\n"
    assert command.returncode == 130
    os.close(reading)
    os.close(writing)


def test_an_interrupt_while_the_helper_does_not_answer_ends_the_command(tmp_path: Path) -> None:
    address = tmp_path / "silent"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "FASTPROF_WARM": str(address)}
        command = subprocess.Popen([*PROGRAM, "info", "demo/xla"], env=environment, stderr=subprocess.PIPE, text=True)
        accepted, _ = listener.accept()
        command.send_signal(signal.SIGINT)
        assert command.communicate(timeout=60)[1] == "fastprof: interrupted\n"
        assert command.returncode == 130
        accepted.close()


def test_paths_of_descriptors_are_those_of_the_command(helper: Path) -> None:
    capture = next((REPOSITORY / "demo/xla").rglob("*.xplane.pb"))
    with capture.open("rb") as file:
        os.set_inheritable(file.fileno(), True)
        done = run(f"info /dev/fd/{file.fileno()}", helper, pass_fds=[file.fileno()])
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_helper_leaves_the_socket_of_its_successor(tmp_path: Path) -> None:
    address = tmp_path / "socket"
    first = start(address)
    address.unlink()
    second = start(address)
    first.terminate()
    first.communicate(timeout=60)
    assert address.exists()
    second.terminate()
    second.communicate(timeout=60)
    assert not address.exists()
