"""fastprof hlo, over captures that carry programs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hlo_builder import Op, Program, f32
from ran import Command, Ran, run_command
from trace_builder import Metadata, len_field, line, plane, xspace

import fastprof
from fastprof.cli.main import main

x = Op("x", "parameter", f32(4))
NAMES = {"jit_f(3)": "jit_f", "jit_g(4)": "jit_g", "jit_g(18446744073709551615)": "jit_g"}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*argv: str) -> Ran:
        return run_command(capsys, "hlo", *argv)

    return run


def program(name: str) -> bytes:
    made = Program(name)
    fused = made.computation("fused", x, Op("e", "exponential", f32(4), "x"))
    made.entry(x, Op("y", "fusion", f32(4), "x", [fused], fusion_kind="kLoop", op_name="jit(f)/exp"))
    return made.proto()


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run of one host, with three programs."""
    metadata = [
        Metadata(title, number + 3 if number < 2 else -1, stats={"Hlo Proto": program(name)})
        for number, (title, name) in enumerate(NAMES.items())
    ]
    (tmp_path / "host0.xplane.pb").write_bytes(xspace(plane("/host:metadata", event_metadata=metadata)))
    return str(tmp_path)


SHORT = """\
HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

fused {
  x = f32[4]{0} parameter(0)
  ROOT e = f32[4]{0} exponential(x)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  ROOT y = f32[4]{0} fusion(x), kind=kLoop, calls=fused
}

"""


# ---- the list


def test_without_a_module_the_programs_are_listed(command: Command, run: str) -> None:
    ran = command(run, "--wide")
    assert (ran.code, ran.err) == (0, "")
    head, *rows = [line.split() for line in ran.out.splitlines()]
    assert head == ["module", "program_id", "size", "computation_count", "instruction_count", "is_scheduled"]
    assert [row[:2] + row[-3:] for row in rows] == [  # by name and id
        ["jit_f(3)", "3", "2", "4", "no"],
        ["jit_g(4)", "4", "2", "4", "no"],
        ["jit_g(18446744073709551615)", "18446744073709551615", "2", "4", "no"],
    ]


def test_the_list_is_the_table_of_modules_in_other_forms(command: Command, run: str) -> None:
    document = json.loads(command(run, "--format", "json").out)
    assert (document["table"], [row["module"] for row in document["rows"]]) == ("hlo_modules", list(NAMES))
    assert command(run, "--format", "csv", "--limit", "1").out.count("\n") == 2


def test_without_programs_a_note_says_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "h.xplane.pb").write_bytes(xspace(plane("p", [line("l")])))
    ran = command(str(tmp_path))
    assert (ran.code, "no compiled programs" in ran.err) == (0, True)
    ran = command(str(tmp_path), "--module", "jit_f")
    assert (ran.code, "no program 'jit_f': the session has no compiled programs" in ran.err) == (2, True)


# ---- one


@pytest.mark.parametrize("name", ["jit_f(3)", "jit_f", "3"])
def test_a_program_by_title_name_and_id(command: Command, run: str, name: str) -> None:
    assert command(run, "--module", name) == (0, SHORT, "")


def test_an_id_is_unsigned(command: Command, run: str) -> None:
    assert command(run, "--module", str(2**64 - 1)).out.startswith("HloModule jit_g,")


def test_misspelt_and_ambiguous_names(command: Command, run: str) -> None:
    ran = command(run, "--module", "jit_f(33)")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "fastprof: no program 'jit_f(33)'; there are: jit_f(3), jit_g(4), jit_g(18446744073709551615); "
        "did you mean 'jit_f(3)'?\n"
    )
    ran = command(run, "--module", "jit_g")
    assert ran.err == (
        "fastprof: several programs are called 'jit_g': jit_g(4), jit_g(18446744073709551615); name one\n"
    )


def test_forms_of_a_program(command: Command, run: str, tmp_path: Path) -> None:
    assert "%fused (x: f32[4]) -> f32[4] {" in command(run, "--module", "3", "--format", "long-txt").out
    assert 'metadata={op_name="jit(f)/exp"}' in command(run, "--module", "3", "--metadata").out
    assert json.loads(command(run, "--module", "3", "--format", "json").out)["title"] == "jit_f(3)"
    for name, first in (("a.txt", "HloModule"), ("a.hlo", "HloModule"), ("a.json", '{"title"')):
        ran = command(run, "--module", "3", "-o", str(tmp_path / name))
        assert (ran.out, ran.err) == ("", f"fastprof: Wrote {tmp_path / name}\n")
        assert (tmp_path / name).read_text().startswith(first)


def test_a_program_as_a_table_of_its_instructions(command: Command, run: str) -> None:
    head, *rows = [line.split() for line in command(run, "--module", "3", "--format", "table").out.splitlines()]
    assert head[:4] == ["name", "opcode", "category", "computation"]
    assert [row[0] for row in rows] == ["x", "e", "x", "y"]
    rows = command(run, "--module", "3", "--format", "csv").out.splitlines()
    assert rows[0].startswith("host,program_id,module,computation,") and len(rows) == 5
    assert all(line.startswith("host0,3,jit_f(3),") for line in rows[1:])


def test_hosts_with_other_programs_of_the_id_are_reported(command: Command, tmp_path: Path) -> None:
    for host, name in (("a", "jit_f"), ("b", "jit_g"), ("c", "jit_f")):
        metadata = [Metadata("jit_f(3)", 3, stats={"Hlo Proto": program(name)})]
        (tmp_path / f"{host}.xplane.pb").write_bytes(xspace(plane("/host:metadata", event_metadata=metadata)))
    ran = command(str(tmp_path), "--module", "3")
    assert (
        ran.err == "fastprof: showing the program of host a; b ran another with this id; choose one with --host NAME\n"
    )
    assert ran.out == SHORT
    ran = command(str(tmp_path), "--module", "3", "--host", "b")
    assert ran.err == "" and ran.out.startswith("HloModule jit_g,")


def test_a_file_that_is_not_a_program_gets_no_advice_that_does_not_help(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "f(1).hlo_proto.pb"
    path.write_bytes(b"")
    ran = command(str(path))
    assert ran.code == 4 and ran.err.count("\n") == 1 and "--on-error" not in ran.err


def test_around_an_instruction(command: Command, run: str) -> None:
    text = command(run, "--module", "3", "--instruction", "y", "--width", "1").out
    assert text == SHORT.split("\n\n")[2] + "\n"
    assert command(run, "--module", "3", "--instruction", "%fused").out == SHORT.split("\n\n")[1] + "\n"
    table = command(run, "--module", "3", "--instruction", "y", "--format", "csv").out.splitlines()
    assert table == [
        "distance,relation,name,opcode,shape,computation,instruction",
        "1,operand,x,parameter,f32[4]{0},main,x = f32[4]{0} parameter(0)",
        '0,itself,y,fusion,f32[4]{0},main,"y = f32[4]{0} fusion(x), kind=kLoop, calls=fused"',
    ]
    assert command(run, "--module", "3", "--instruction", "y", "--format", "dot").out.startswith("digraph")
    ran = command(run, "--module", "3", "--instruction", "fusedd")
    assert (ran.code, ran.err) == (
        2,
        "fastprof: no instruction or computation 'fusedd' in jit_f(3); did you mean 'fused'?\n",
    )


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--instruction", "y"], "--instruction needs --module NAME; without --module the programs are listed"),
        (["--width", "2"], "--width needs --module NAME; without --module the programs are listed"),
        (["--metadata"], "--metadata needs --module NAME; without --module the programs are listed"),
        (["--format", "long-txt"], "--format long-txt needs --module NAME"),
        (["--module", "3", "--width", "2"], "--width needs --instruction NAME"),
        (
            ["--module", "3", "--format", "csv", "--metadata"],
            "--metadata applies only to short-txt, long-txt and json; csv always",
        ),
        (["--module", "3", "--format", "dot"], "dot needs --instruction NAME; formats of an entire program"),
    ],
)
def test_flags_that_do_not_go_together(command: Command, run: str, flags: list[str], why: str) -> None:
    ran = command(run, *flags)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err


def test_nothing_in_a_program_steers_a_terminal(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Program("jit_e")
    raw = len_field(43, '{"a": "\x1b[2J\x9b\u202e",\n"b": 1}')
    made.entry(x, Op("y", "negate\x1b[31m", f32(4), "x", raw=raw))
    metadata = [Metadata("jit_e(1)", 1, stats={"Hlo Proto": made.proto()})]
    (tmp_path / "h.xplane.pb").write_bytes(xspace(plane("/host:metadata", event_metadata=metadata)))
    asked = (str(tmp_path), "--module", "1")
    y = r"ROOT y = f32[4]{0} negate\033[31m(x), backend_config="
    plain = command(*asked).out
    assert f'{y}{{"a": "\x1b[2J\x9b\u202e",\n"b": 1}}\n' in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for flags in ((), ("--instruction", "y")):
        assert y + r'{"a": "\x1b[2J\x9b\u202e",' + '\n"b": 1}\n' in command(*asked, *flags).out
    text = command(*asked, "--format", "json").out
    assert text.replace("\n", "").isprintable() and text.isascii()
    assert json.loads(text)["computations"][0]["instructions"][1]["opcode"] == "negate\x1b[31m"


def test_a_broken_program(command: Command, tmp_path: Path) -> None:
    metadata = [Metadata("jit_b(5)", 5, stats={"Hlo Proto": len_field(1, b"\x0a\x7f")})]
    (tmp_path / "h.xplane.pb").write_bytes(xspace(plane("/host:metadata", event_metadata=metadata)))
    listed = command(str(tmp_path))
    assert (listed.code, "problem" in listed.out, "jit_b(5)" in listed.out) == (0, True, True)
    ran = command(str(tmp_path), "--module", "jit_b(5)")
    assert (ran.code, ran.out) == (4, "")


# ---- in Python


def test_text_in_python(run: str) -> None:
    profile = fastprof.load(run)
    assert profile.hlo_text("jit_f(3)") == profile.hlo_text(3) == SHORT
    assert "%fused" in profile.hlo_text(3, "long-txt", metadata=True)
    with pytest.raises(fastprof.UsageError, match="no form 'shrt'"):
        profile.hlo_text(3, "shrt")


def test_arrow_around_an_instruction(run: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["hlo", run, "--module", "3", "--instruction", "y", "--format", "arrow"]) == 0
    table = pa.ipc.open_stream(io.BytesIO(capsysbinary.readouterr().out)).read_all()
    assert table["name"].to_pylist() == ["x", "y"]
