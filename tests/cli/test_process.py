"""The command as a process: pipes, signals, closed descriptors, encodings, start-up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import left_to_test_all

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
import sys
import stand_in
from fastprof.cli.main import entry
stand_in.install()
sys.exit(entry())
"""


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "PYTHONPATH": path, "LC_ALL": "C.UTF-8", **more}


def start(*argv: str, env: dict[str, str] | None = None, close: str = "", **how: Any) -> subprocess.Popen[bytes]:
    """The command as a process; ``close`` is what a shell closes before it, such as ``>&-``."""
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    command = [sys.executable, "-c", PROGRAM, *argv]
    if close:
        command = ["sh", "-c", f'exec "$@" {close}', "sh", *command]
    return subprocess.Popen(command, env=env or environment(), **how)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, (out or b"").decode("utf-8", "surrogateescape"), (err or b"").decode()


@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_a_reader_that_goes_ends_it_quietly(form: str) -> None:
    process = start("events", "long", "--list", "--limit", "all", "--format", form)
    assert process.stdout is not None
    process.stdout.read(100)
    process.stdout.close()
    process.stdout = None
    assert ended(process) == (141, "", "")


def test_a_reader_gone_before_the_first_byte() -> None:
    for argv in (["events", "usual"], ["info", "usual"], ["--help"], ["--version"]):
        reader, writer = os.pipe()
        os.close(reader)
        process = start(*argv, stdout=writer)
        os.close(writer)
        assert ended(process) == (141, "", "")


def test_a_reader_of_errors_that_goes_changes_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("events", "usual", "--limit", "1", stderr=writer)
    os.close(writer)
    code, out, _ = ended(process)
    assert (code, out.count("\n")) == (0, 2)


def until_writing(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Until the process has opened a file of the folder, which has no name yet."""
    deadline = time.monotonic() + 60
    while not any(target.startswith(str(folder)) for target in open_files(process.pid)):
        assert time.monotonic() < deadline, "the output was never begun"
        time.sleep(0.01)


def open_files(process: int) -> list[str]:
    names = []
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(str(descriptor.readlink()))
    return names


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_is_one_line_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int, message: str
) -> None:
    process = start("events", "hangs", "--list", "-o", str(tmp_path / "out.csv"))
    until_writing(process, tmp_path)
    process.send_signal(number)
    assert ended(process) == (code, "", f"fastprof: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_no_file(tmp_path: Path) -> None:
    process = start("events", "hangs", "--list", "-o", str(tmp_path / "out.csv"))
    until_writing(process, tmp_path)
    process.kill()
    assert ended(process)[0] == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flags", [[], ["--format", "csv"], ["--format", "arrow"], ["--list"]])
def test_a_full_disk_behind_standard_output(flags: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = ended(start("events", "usual", *flags, stdout=full))
    assert (code, err) == (3, "fastprof: standard output: cannot write: No space left on device\n")


@pytest.mark.parametrize("argv", [["events", "usual"], ["info", "usual"]])
def test_closed_standard_output(argv: list[str]) -> None:
    assert ended(start(*argv, close=">&-")) == (3, "", "fastprof: standard output is closed; use -o FILE\n")


def test_closed_descriptors_stay_out_of_the_output(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert ended(start("events", "usual", "-o", str(out), close="<&- >&- 2>&-")) == (0, "", "")
    assert out.read_text().startswith("name,count")
    assert "fastprof" not in out.read_text()


@left_to_test_all
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_encoding_without_the_characters(encoding: str) -> None:
    for argv in (["events", "usual"], ["info", "salvaged"], ["events", "usual", "--list", "--format", "csv"]):
        code, out, err = ended(start(*argv, env=environment(PYTHONIOENCODING=encoding)))
        assert (code, err) == (0, "")
        assert out
        if encoding == "ascii" and "csv" not in argv:
            assert out.isascii()


def test_a_capture_path_that_is_not_a_utf_8() -> None:
    process = subprocess.Popen(
        [os.fsencode(sys.executable), b"-c", PROGRAM.encode(), b"events", b"absent\xff"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert ended(process) == (3, "", "fastprof: absent\\udcff: no such file or directory\n")


def test_arrow_through_a_pipe() -> None:
    process = start("events", "usual", "--list", "--format", "arrow")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert pa.ipc.open_stream(out).read_all().num_rows == 7


_HELPED = ("events", "capture", "trends", "serve")


@pytest.mark.parametrize(
    "argv", [["--version"], ["--help"], *([verb, "--help"] for verb in _HELPED), ["events", "usual", "--name", "("]]
)
def test_what_needs_no_capture_loads_no_arrow(argv: list[str]) -> None:
    program = (
        "import sys\nfrom fastprof.cli.main import entry\nentry()\n"
        "heavy = {'pyarrow', 'numpy', 'difflib', 'dataclasses'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    command = [sys.executable, "-c", program, *argv]
    process = subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
