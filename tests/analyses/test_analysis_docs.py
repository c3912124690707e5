"""The pages of the analyses: their examples run, and what is made from the registry is as `make docs` would make it."""

from __future__ import annotations

import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from test_docs import blocks, commands

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "analyses"
PAGES = sorted(FOLDER.glob("*.md"))


@pytest.fixture(autouse=True)
def beside_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "demo", tmp_path / "demo")
    monkeypatch.chdir(tmp_path)


def test_what_is_made_from_the_registry_is_up_to_date() -> None:
    outputs = runpy.run_path(str(ROOT / "docs" / "write_analyses.py"))["outputs"]()
    assert len(outputs) == len(ANALYSES) + 2
    for path, text in outputs.items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)}: run `make docs`"


def test_there_is_a_page_for_each_and_no_other() -> None:
    assert {page.stem for page in PAGES} == {name.replace("_", "-") for name in ANALYSES} | {"README"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_the_page_runs(page: Path) -> None:
    """``p`` is the profile that the list of analyses loads."""
    names: dict[str, object] = {"p": fastprof.load("demo/pod")}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)  # our own page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_page_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands(page):
        words = shlex.split(command.partition(" > ")[0].partition(" | ")[0])
        assert main(words[1:]) == 0, command
        assert capsys.readouterr().out


@pytest.mark.parametrize(
    "name", [name for name in ANALYSES if name not in ("kernel_stats", "streams", "critical_path")]
)  # no demo has a GPU
def test_the_first_example_of_a_page_shows_something(name: str) -> None:
    session = shlex.split(commands(FOLDER / f"{name.replace('_', '-')}.md")[0])[2]
    assert fastprof.load(session).report(name).to_arrow().num_rows


def test_the_list_of_analyses_has_examples() -> None:
    assert commands(FOLDER / "README.md") and blocks(FOLDER / "README.md", "python")
