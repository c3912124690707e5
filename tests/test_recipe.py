"""The recipe for an analysis in CONTRIBUTING.md, followed step by step in a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses import ANALYSES
from fastprof.profile.profile import check_names
from fastprof.tables.needs import Needs

ROOT = Path(__file__).resolve().parent.parent
CAPTURE = xspace(plane("/host:CPU", [line("main", [event("a", n, 1) for n in range(7)])]), hostnames=["vm"])


def followed(folder: Path) -> None:
    """Steps 1 to 4 of the recipe."""
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("### An analysis, step by step\n")[2]
    module = re.search(r"```python\n(.*?)```", recipe, re.DOTALL)
    entry = re.search(r"`(\"event_counts\": .*,)`", recipe)
    assert module is not None and entry is not None
    shutil.copytree(ROOT / "fastprof", folder / "fastprof", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "fastprof/analyses/event_counts.py").write_text(textwrap.dedent(module[1]), "utf-8")
    registry = folder / "fastprof/analyses/__init__.py"
    registry.write_text(
        registry.read_text("utf-8").replace("ANALYSES = {\n", f"ANALYSES = {{\n    {entry[1]}\n"), "utf-8"
    )
    (folder / "docs/analyses/event-counts.md").write_text("# Event counts\n\nHow many events there are.\n", "utf-8")
    ran(folder, "docs/write_analyses.py")


def ran(folder: Path, *argv: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, *argv], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_recipe_makes_a_verb_a_method_and_a_page(tmp_path: Path) -> None:
    followed(tmp_path)
    (tmp_path / "vm.xplane.pb").write_bytes(CAPTURE)
    shown = ran(tmp_path, "-m", "fastprof", "event-counts", "vm.xplane.pb", "--table", "hosts", "--format", "csv")
    assert shown.splitlines() == ["host,event_count", "vm,7"]
    asked = "import fastprof; print(fastprof.load('vm.xplane.pb').event_counts(least=8).tables['hosts'].num_rows)"
    assert ran(tmp_path, "-c", asked) == "0\n"
    page = (tmp_path / "docs/analyses/event-counts.md").read_text("utf-8")
    assert page.startswith("# Event counts\n\nHow many events there are.\n\n## Reference\n")
    assert "`--least`" in page and "| `event_count` |" in page
    assert "[`event-counts`](event-counts.md)" in (tmp_path / "docs/analyses/README.md").read_text("utf-8")


def test_names_of_a_profile_are_refused() -> None:
    check_names(ANALYSES)
    with pytest.raises(TypeError, match=r"an analysis cannot be called 'events', because Profile\.events exists"):
        check_names([*ANALYSES, "events"])


def test_events_without_groups_say_what_to_declare() -> None:
    from fastprof.derive.host import Host
    from fastprof.tables.host_reader import read_host

    tables = fastprof.load(CAPTURE).table_set
    needs = Needs(stats=("_r",))
    host = Host(read_host(tables, 0, needs.planes, needs.stats, needs.metadata_stats), tables.session.workers)
    for use in (lambda: host.events, lambda: host.groups, lambda: host.steps):
        with pytest.raises(
            TypeError, match=r"declare READS = union\(\[Host\.GROUPING, Needs\(…\)\]\) or use host\.raw"
        ):
            use()
    assert len(host.raw) == 7
