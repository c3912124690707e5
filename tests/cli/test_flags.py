"""Values of flags: what is understood, what is refused, and in which words."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stand_in

import fastprof
from fastprof.cli import arguments
from fastprof.cli.verb_list import WITHIN


@pytest.mark.parametrize(
    ("text", "range_ps"),
    [
        ("1:2", (1, 2)),
        ("1.5s:2s", (1_500_000_000_000, 2_000_000_000_000)),
        (":300ms", (None, 300_000_000_000)),
        ("10us:", (10_000_000, None)),
        ("10µs:", (10_000_000, None)),
        ("-1ns:.5ns", (-1_000, 500)),
        ("0.1ns : 1 ns", (100, 1_000)),
        ("9223372036854775806:9223372036854775807", ((1 << 63) - 2, (1 << 63) - 1)),
    ],
)
def test_times(text: str, range_ps: tuple[int | None, int | None]) -> None:
    assert arguments.parse_time_range(text) == range_ps


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a time range"),
        (":", "is not a time range"),
        ("1s", "is not a time range"),
        ("1s:1s", "ends before it starts"),
        ("2s:1s", "ends before it starts"),
        ("a:b", "'a' is not a time"),
        ("1m:2m", "'1m' is not a time"),
        ("1e3s:", "is not a time"),
        ("0.5:1", "not an integer number of picoseconds"),
        ("0:9223372037s", "more than 106 days"),
        ("1:2:3", "'2:3' is not a time"),
    ],
)
def test_times_that_make_no_sense(text: str, complaint: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=complaint):
        arguments.parse_time_range(text)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--name", "("], "argument --name: '(' is not a regular expression: missing )"),
        (["--plane", "[a"], "argument --plane: '[a' is not a regular expression: unterminated character set"),
        (["--line", "*"], "argument --line: '*' is not a regular expression: nothing to repeat"),
        (["--limit", "-1"], "argument --limit: '-1' is neither a number nor 'all'"),
        (["--limit", "ten"], "argument --limit: 'ten' is neither a number nor 'all'"),
        (["--threads", "0"], "argument --threads: '0' is not an integer above 0"),
        (["--time", "1s"], "argument --time: '1s' is not a time range"),
        (["--format", "xml"], "argument --format: invalid choice"),
        (["--on-error", "ignore"], "argument --on-error: invalid choice"),
        (["-q", "-v"], "not allowed with argument"),
        (["--list", "--stats", "a,,b"], "argument --stats: 'a,,b' has an empty name"),
        (["--limi", "3"], "unrecognized arguments: --limi"),
    ],
)
def test_a_value_that_makes_no_sense_is_a_usage_error(
    command: Callable[..., Any], flags: list[str], complaint: str
) -> None:
    ran = command("events", "usual", *flags)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.endswith("Try 'fastprof events --help'.\n") or "unrecognized" in complaint
    assert stand_in.calls == []


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--stats", "flops"], "--stats, --columns, --min-duration and --max-duration need --list"),
        (["--columns", "name"], "--stats, --columns, --min-duration and --max-duration need --list"),
        (["--list", "--columns", "name,nome"], "events have no column 'nome'; there are: event_id, host"),
        (
            ["-o", "o.xlsx"],
            "o.xlsx: no format has the suffix '.xlsx'; give --format, or use one of: .txt, .json,",
        ),
        (["--colums", "name"], "unrecognized arguments: --colums name; did you mean '--columns'?"),
        (["--tim", "1:2", "--tables", "x"], "unrecognized arguments: --tim 1:2 --tables x; did you mean '--time'?"),
        (["--html", "x"], "unrecognized arguments: --html x\n"),
        (["-o", "out.parquet"], "out.parquet: this verb cannot write Parquet; use 'fastprof export'"),
    ],
)
def test_flags_that_do_not_go_together(command: Callable[..., Any], flags: list[str], complaint: str) -> None:
    ran = command("events", "usual", *flags)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["info"], ["export", "usual"]])
def test_what_is_missing_is_a_usage_error(command: Callable[..., Any], argv: list[str]) -> None:
    ran = command(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert "--help'.\n" in ran.err


def test_reading_flags_reach_the_engine(command: Callable[..., Any]) -> None:
    flags = ["--run", "r", "--on-error", "skip", "--threads", "3", "--max-unpacked", "2KiB"]
    assert command("info", "a", "b", *flags).code == 0
    given = {"run": "r", "on_error": "skip", "threads": 3, "max_unpacked": 2048}
    assert stand_in.calls == [{"path": ["a", "b"], **given}]


def test_a_path_wins_unless_it_is_the_name_of_a_verb(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("absent.xplane.pb").code == 3
    assert "no such file or directory" in command("absent.xplane.pb").err
    (tmp_path / "events").touch()
    assert "the following arguments are required: SESSION" in command("events").err
    (tmp_path / "trace").touch()
    assert command("export", "trace", "--help").out.startswith("usage: fastprof export [-h]")


def test_former_names_are_those_of_parts_of_other_verbs(command: Callable[..., Any]) -> None:
    for words, module in WITHIN.items():
        ran = command(*words.split(), "--help")
        assert ran.out.startswith(f"usage: fastprof {words} ")
        assert command(module, "--help") == ran == command("help", *words.split()) == command("help", module)


def test_shared_flags_are_explained_once(command: Callable[..., Any]) -> None:
    shared = command("help", "flags").out
    assert all(f"  {flag} " in shared for flag in ("--run", "--on-error", "--plane", "--steps", "--jobs", "--limit"))
    shown = command("events", "--help").out
    assert "fastprof help flags" in shown and "--columns" in shown
    assert not any(f"  {flag} " in shown for flag in ("--run", "--on-error", "--plane", "--steps", "--limit", "-q"))


def test_up_to_three_verbs_are_suggested(command: Callable[..., Any]) -> None:
    assert "; did you mean 'memory-viewer', 'summary' or 'memory-profile'?" in command("memory").err
    assert "did you mean" not in command("qqq").err
    assert command("help", "overviw").err == command("overviw").err


def test_help_and_version(command: Callable[..., Any]) -> None:
    from fastprof._version import __version__

    assert command("--version") == (0, f"fastprof {__version__}\n", "")
    shown = command("--help").out
    assert all(verb in shown for verb in ("info", "events", "export"))
    for verb in ("info", "events", "export"):
        ran = command(verb, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"usage: fastprof {verb} ")


def test_native_modules_that_do_not_fit_are_named_as_the_cause(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise ImportError("cannot import name 'Bytes' from 'fastprof._native.xspace'", name="fastprof._native.xspace")

    monkeypatch.setattr(fastprof, "load", load)
    ran = command("info", "usual")
    assert (ran.code, ran.err) == (
        70,
        "fastprof: the native modules do not fit the Python sources: cannot import name 'Bytes' from "
        "'fastprof._native.xspace'; run 'make build', or install with pip again\n",
    )
