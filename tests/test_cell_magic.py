"""%%fastprof: a cell is a query of the profile that the line names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastprof

COUNT = "select count(*) as n from events"


class FakeShell:
    """IPython's shell, as far as the magic uses it."""

    def __init__(self, **variables: Any) -> None:
        self.user_ns: dict[str, Any] = variables
        self.magics: dict[tuple[str, str], Callable[[str, str], Any]] = {}

    def register_magic_function(self, func: Callable[..., Any], magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind, magic_name] = func

    def run(self, line: str, cell: str) -> Any:
        return self.magics["cell", "fastprof"](line, cell)


@pytest.fixture
def shell() -> FakeShell:
    shell = FakeShell(p=fastprof.load("demo/pod"), path="demo/pod", least=10**9)
    fastprof.load_ipython_extension(shell)
    return shell


@pytest.mark.parametrize("line", ["p", "path", "demo/pod", "'demo/pod'"])
def test_the_line_names_a_profile_or_a_path(line: str, shell: FakeShell) -> None:
    assert shell.run(line, COUNT).table.to_pylist() == [{"n": 576}]


def test_a_path_may_be_that_of_exported_runs(shell: FakeShell, tmp_path: Path) -> None:
    shell.user_ns["p"].to_parquet(tmp_path / "out")
    assert shell.run(str(tmp_path / "out"), COUNT).table.to_pylist() == [{"n": 576}]


def test_the_answer_is_stored_and_shown(shell: FakeShell) -> None:
    answer = shell.run("p -o counts", "select range as i, '<b>' as markup from range(100)")
    assert shell.user_ns["counts"] is answer.table
    html = answer._repr_html_()
    assert "50 of 100 rows" in html and "&lt;b&gt;" in html and "<b>" not in html
    assert pa.table(answer).num_rows == 100
    assert "markup" in repr(answer)


def test_variables_are_parameters(shell: FakeShell) -> None:
    answer = shell.run("p", f"{COUNT} where duration_ps > $least")
    assert answer.table.to_pylist() == fastprof.load("demo/pod").sql(f"{COUNT} where duration_ps > {10**9}").to_pylist()
    with pytest.raises(fastprof.UsageError, match="missing"):
        shell.run("p", f"{COUNT} where duration_ps > $missing")


@pytest.mark.parametrize(
    ("line", "cell", "error"),
    [
        ("", COUNT, "the following arguments are required: profile; usage: %%fastprof"),
        ("p --nothing", COUNT, "unrecognized arguments: --nothing"),
        ("p -o 1a", COUNT, "'1a' is not a name of a variable"),
        ("p -o 'a", COUNT, "No closing quotation"),
        ("p", "select nme from events", "did you mean 'name'"),
        ("p", "copy events to 'x'", "not COPY"),
    ],
)
def test_errors_are_sentences(line: str, cell: str, error: str, shell: FakeShell) -> None:
    with pytest.raises(fastprof.UsageError, match=error):
        shell.run(line, cell)


def test_a_missing_path_is_named(shell: FakeShell) -> None:
    with pytest.raises(fastprof.NotFoundError, match="nowhere"):
        shell.run("nowhere", COUNT)


def test_fastprof_is_imported_without_the_magic() -> None:
    code = "import sys, fastprof; fastprof.load_ipython_extension; print([m for m in sys.modules if 'profile.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
