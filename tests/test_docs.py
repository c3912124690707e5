"""README and docs are true: their code and commands run, their tables are those of the code."""

from __future__ import annotations

import builtins
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.cli.main import main
from fastprof.tables.table_set import TABLES

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run_python_of(page: Path) -> None:
    """Runs the blocks of a page, one after another."""
    code = blocks(page, "python")
    assert len(code) >= 2
    names: dict[str, Any] = {}
    for block in code:
        exec(compile(block, str(page), "exec"), names)  # our own page


@pytest.fixture
def beside_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the demo's captures in it, as the current one."""
    shutil.copytree(ROOT / "demo", tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_of_the_readme_runs(beside_demo: Path) -> None:
    pytest.importorskip("duckdb")
    run_python_of(README)
    assert list((beside_demo / "demo-dataset" / "events").rglob("host-00000-00000-0.parquet"))


def test_python_of_the_api_page_runs(beside_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_python_of(ROOT / "docs" / "python.md")
    assert (beside_demo / "demo-csv" / "events" / "host=vm" / "part-0.csv").exists()
    assert "no/such/capture.xplane.pb" in capsys.readouterr().out


@pytest.mark.usefixtures("beside_demo")
def test_python_of_the_page_on_sessions_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(ROOT / "docs" / "sessions.md", "python")
    exec(compile(code, "sessions.md", "exec"), {})  # our own page
    counts = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert {name.partition("/")[0]: int(steps) > 0 for name, steps in counts.items()} == {
        "kernel": True, "logdir": True, "memory": True, "pod": True, "serving": False, "tf-data": True, "xla": True,
    }  # fmt: skip


def test_errors_of_the_api_page_are_all_there_are() -> None:
    listed = re.findall(r"^\| `(\w+Error)` \| `(\w+)`", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE)
    for name, builtin in listed:
        assert issubclass(getattr(fastprof, name), (getattr(builtins, builtin), fastprof.FastprofError))
        assert issubclass(getattr(fastprof, name), getattr(builtins, builtin))
    public = {name for name in fastprof.__all__ if name.endswith("Error")} - {"FastprofError"}
    assert {name for name, _ in listed} == public


def commands(page: Path) -> list[str]:
    lines = [line.partition("#")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("fastprof ")]


TRACE = ROOT / "tests" / "planted" / "recorded" / "torch_sleeping_loader.pt.trace.json.gz"


def commands_on_traces(page: Path) -> list[str]:
    """Return the commands of a page about the user's own traces, which the page indents."""
    found = re.findall(r"^    (fastprof \S+ \S*traces\b.*)", page.read_text(), re.MULTILINE)
    return [line.partition("#")[0].strip() for line in found if " serve " not in line]


TASKS = sorted((ROOT / "docs" / "tasks").glob("*.md"))


def test_pages_of_tasks_fit_one_screen_of_reading() -> None:
    assert len(TASKS) >= 8
    assert {page.name: words for page in TASKS if (words := len(page.read_text().split())) > 1200} == {}


@pytest.mark.parametrize("page", [README, *TASKS], ids=lambda page: page.name)
def test_commands_of_pages_run(page: Path, beside_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = commands(page) + commands_on_traces(page)
    assert listed
    for command in listed:
        words = [str(TRACE) if word.endswith("traces") else word for word in shlex.split(command)[1:]]
        if words[0] == "serve":
            assert_serves([word for word in words if word != "--open"], beside_demo)
            continue
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
        assert capsys.readouterr().out or {"-o", "--html"} & set(words), command


def assert_serves(words: list[str], folder: Path) -> None:
    start = [sys.executable, "-c", "from fastprof.cli.main import entry; entry()", *words, "--port", "0"]
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        with urllib.request.urlopen(re.findall(r"http://\S+", line)[0], timeout=30) as page:
            assert b"<title>fastprof</title>" in page.read()
        server.terminate()


@pytest.mark.usefixtures("beside_demo")
def test_sql_of_the_export_page_runs() -> None:
    duckdb = pytest.importorskip("duckdb")
    fastprof.load("demo/logdir").to_parquet("OUT")
    found = blocks(ROOT / "docs" / "export.md", "sql")
    assert found
    for query in found:
        assert duckdb.sql(query).fetchall()


def test_demo_ends_with_one_screen(beside_demo: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo"], cwd=beside_demo, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100
    assert "equal when read back" in done.stdout
    assert (beside_demo / "demo-out" / "overview.txt").read_text().startswith("Overview\n")
    assert (beside_demo / "demo-out" / "xla.html").stat().st_size > 100_000


def test_reference_of_tables_is_the_schema() -> None:
    written = runpy.run_path(str(ROOT / "docs" / "write_tables.py"))
    assert (ROOT / "docs" / "tables.md").read_text() == written["page"](), "run `make docs`"
    for name in TABLES:
        assert f"## {name}\n" in written["page"]()


def test_links_lead_somewhere() -> None:
    checked = 0
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "csrc" / "README.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                checked += 1
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
    assert checked > 5


def test_the_site_has_every_page() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not page.startswith("analyses/")} <= set(listed)


def test_targets_of_the_makefile_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for page in (README, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "benchmarks.md")
        for name in re.findall(r"make ([a-z]+)`| {4}make ([a-z]+)", page.read_text())
    }
    assert {one or other for one, other in named} <= targets
    assert named


def test_public_names() -> None:
    assert fastprof.__all__ == sorted(fastprof.__all__)
    for name in fastprof.__all__:
        assert getattr(fastprof, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fastprof.nothing
