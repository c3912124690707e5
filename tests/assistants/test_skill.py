"""The skill for assistants: its commands are those of the command line, and it is written whole or not at all."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fastprof.analyses import ANALYSES
from fastprof.cli import main as command
from fastprof.cli.skill import FOLDER

ROOT = Path(__file__).resolve().parents[2]
SKILL = (ROOT / "fastprof/cli/assistants/SKILL.md").read_text(encoding="utf-8")
CODE = re.compile(r"`(fastprof [^`]+)`|^    (fastprof [^\n]+?)(?:\s{2,}.*)?$", re.MULTILINE)
COMMANDS = [(first or second).rstrip() for first, second in CODE.findall(SKILL)]
NOT_COMMANDS = ("fastprof VERB --help", "fastprof skill install")


def test_the_skill_has_commands_and_stays_short() -> None:
    assert len(COMMANDS) > 35 and len(SKILL.splitlines()) < 300
    assert SKILL.startswith("---\nname: fastprof\ndescription: ")


@pytest.mark.parametrize("words", sorted({*COMMANDS} - {*NOT_COMMANDS}))
def test_a_command_of_the_skill_is_one_of_the_command_line(words: str) -> None:
    given = shlex.split(words)[1:]
    if given[0] == "SESSION":
        given = ["summary", *given]
    args = command.parse_arguments(given)  # ends the process if a flag or a choice is unknown
    assert args.verb in command.VERBS


def test_every_analysis_is_a_command_of_the_skill() -> None:
    named = {shlex.split(words)[1] for words in COMMANDS}
    missing = {name.replace("_", "-") for name in ANALYSES} - named
    assert missing == {"overview", "pod-viewer"}  # the summary has the one, the other is in XProf's terms


def test_flags_in_the_text_are_known() -> None:
    flags = set(re.findall(r"`(--[a-z-]+)", SKILL))
    known = {flag for verb in command.VERBS for flag in command.make_parser(verb)._option_string_actions}
    assert flags and flags <= known


def test_it_is_installed_in_a_folder_and_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(["skill", "install"]) == 0
    path = tmp_path / FOLDER / "SKILL.md"
    assert path.read_text(encoding="utf-8") == SKILL
    path.write_text("mine")
    assert command.main(["skill", "install"]) == 3
    assert "already exists; use --force to overwrite it" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert command.main(["skill", "install", "--force"]) == 0 and path.read_text(encoding="utf-8") == SKILL
    (tmp_path / "file").write_text("")
    assert command.main(["skill", "install", "file"]) == 3
    assert command.main(["skill", "install", str(tmp_path / "elsewhere")]) == 0


def test_it_is_printed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert command.main(["skill", "show"]) == 0
    assert capsysbinary.readouterr().out.decode() == SKILL
