"""docs/cli.md documents every verb and every flag, and no others."""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path

import pytest

from fastprof.cli import check, servers
from fastprof.cli import main as command
from fastprof.cli.verb_list import get_full_name

DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT = DOCS / "cli.md"
SHARED = "Flags of every verb"
OUTPUT = "Output of all verbs but capture, export, run and serve"
ANALYSES = "The analyses"
MESSAGES = {"-q", "--quiet", "-v", "--verbose", "--progress", "-h", "--help"}
FILTERS = {"--plane", "--line", "--name", "--time"}
"""Documented among the shared flags, but not flags of reports."""


@cache
def verbs() -> dict[str, argparse.ArgumentParser]:
    return {verb: command.make_parser(verb) for verb in command.VERBS}


@cache
def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def flags_in(text: str) -> set[str]:
    """The flags in the first cell of the rows of tables."""
    cells = re.findall(r"^\| (`-.*?) \|", text.replace(r"\|", "/"), flags=re.MULTILINE)
    return {flag for cell in cells for flag in re.findall(r"`(--?[a-z-]+)", cell)}


def flags_of(verb: argparse.ArgumentParser) -> set[str]:
    return {flag for action in verb._actions for flag in action.option_strings}


def home(verb: str) -> set[str]:
    """The flags documented for a verb."""
    without = ("capture", "convert", "export", "mcp", "run", "serve", "skill", "snapshot", "trace", "warm")
    if verb in ("skill", "warm"):
        return MESSAGES | documented(f"fastprof {verb}")
    if verb == "mcp":
        return documented(SHARED) - FILTERS - {"--steps", "--host", "--jobs"}
    names = [SHARED, *([] if verb in without else [OUTPUT])]
    if verb in ("run", "capture", "snapshot", "monitor"):  # they have no SESSION
        return MESSAGES | documented(*names[1:], f"fastprof {get_full_name(verb)}")
    if verb in command._ANALYSES:
        page = (DOCS / "analyses" / f"{verb}.md").read_text(encoding="utf-8")
        return (documented(*names, ANALYSES) | flags_in(page)) - FILTERS
    if verb == "report":
        params = set().union(*(home(other) for other in command._ANALYSES))
        return (documented(*names, f"fastprof {verb}") | params) - FILTERS
    if verb in ("hlo", "tfprof"):
        return documented(*names) - FILTERS - {"--steps"} | documented(f"fastprof {verb}")
    if verb in ("compare", "check"):
        return documented(*names, f"fastprof {verb}") - FILTERS - {"--steps", "--host", "--jobs"}
    if verb == "trends":
        return documented(*names, f"fastprof {verb}") - FILTERS - {"--steps", "--host"}
    if verb in ("convert", "serve"):
        return documented(*names) - FILTERS - {"--steps"} | documented(f"fastprof {get_full_name(verb)}")
    if verb == "summary":
        return documented(*names, "fastprof summary") - FILTERS
    return documented(*names, f"fastprof {get_full_name(verb)}")


def documented(*titles: str) -> set[str]:
    """The flags in these sections."""
    return set().union(*(flags_in(sections()[title]) for title in titles))


def test_every_verb_has_its_section_and_its_line() -> None:
    assert set(verbs()) == set(command.VERBS)
    assert len(verbs()) >= 3
    text = DOCUMENT.read_text(encoding="utf-8")
    for verb in command._MODULES:
        name = get_full_name(verb)
        assert f"## fastprof {name}\n" in text
        assert f"| [`{name}`](#fastprof-{name.replace(' ', '-')}) |" in text
    listed = (DOCS / "analyses" / "README.md").read_text(encoding="utf-8")
    for verb in command._ANALYSES:
        assert f"| [`{verb}`]({verb}.md) |" in listed


@pytest.mark.parametrize("verb", command.VERBS)
def test_every_flag_is_reported_and_every_flag_reported_is_there(verb: str) -> None:
    flags = flags_of(verbs()[verb])
    assert len(flags) > (7 if verb in ("mcp", "skill", "warm") else 15), "the test looked at nothing"
    assert home(verb) == flags


@pytest.mark.parametrize("verb", command.VERBS)
def test_choices_are_reported(verb: str) -> None:
    text = DOCUMENT.read_text(encoding="utf-8").replace(r"\|", "|")
    actions = [action for action in verbs()[verb]._actions if action.choices and action.option_strings]
    assert actions
    for action in actions:
        elsewhere = ("xprof", "svg", "speedscope", "pprof", *check.FORMS)
        choices = [choice for choice in action.choices or () if choice not in elsewhere]
        if action.dest != "table" and not action.dest.startswith("param_"):  # documented on the page of the analysis
            assert f"`{action.option_strings[0]} {'|'.join(choices)}`" in text


@pytest.mark.parametrize("verb", command.VERBS)
def test_every_argument_has_help_and_a_verb_one_line_of_it(verb: str) -> None:
    parser = verbs()[verb]
    assert all(action.help for action in parser._actions)
    first = (parser.description or "").partition("\n")[0]
    assert 20 < len(first) <= 100
    assert first.endswith(".")


def test_exit_codes_are_reported() -> None:
    codes_documented = {int(code) for code in re.findall(r"^\| (\d+) \|", sections()["Exit codes"], flags=re.MULTILINE)}
    codes = {
        command.INTERNAL,
        command.USAGE,
        command.PATH,
        command.DATA,
        servers.SOME,
        servers.ALL,
        check.FAILED_CODE,
        check.UNKNOWN_CODE,
    }
    assert codes_documented == {0, *codes, command.INTERRUPTED, command.READER_GONE, command.TERMINATED}
