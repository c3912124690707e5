"""The house rules, held against the code: imports point down, files are short, names are homes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fastprof"

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "_version"}),
    frozenset({"_native"}),
    frozenset(
        {"paths", "log_directory", "session", "source", "schema", "workers", "import_log", "names", "selection"}
        | {"planes", "merged_planes", "size_text", "spelling", "time_text", "step_text"}
    ),
    frozenset(
        {
            "capture",
            "span_stats",
            "task_environment",
            "structure",
            "session_names",
            "event_order",
            "blocks",
            "wide",
            "picked_stats",
        }
        | {
            "decode",
            "nesting",
            "metadata_tables",
            "table_set",
            "event_summary",
            "host_events",
            "tf_op",
            "hlo",
            "text_column",
        }
    ),
    frozenset(
        {
            "steps",
            "op_metrics",
            "op_tree",
            "communication",
            "memory",
            "pipelines",
            "serving",
            "devices",
            "kernel_launch",
            "tensor_cores",
        }
        | {"bottleneck", "input_ops", "run_environment", "step_figures", "published_peaks"}
    ),
    frozenset({"analyses"}),
    frozenset({"timeline"}),
    frozenset({"render", "export"}),
    frozenset({"report", "analysis_methods", "step_times", "facade"}),
    frozenset({"viewer"}),
    frozenset({"cli"}),
)
"""From the bottom up; docs/architecture.md draws them."""

C_LAYERS = {
    "": {""},
    "columns": {"", "columns"},
    "formats": {"", "columns", "formats"},
    "kernels": {"", "columns", "kernels"},
    "tests": {"", "columns", "formats", "kernels", "tests"},
    "fuzz": {"", "columns", "formats", "kernels", "fuzz", "tests"},
}
"""Which folders of csrc/ the files of each may include from."""

BANNED = re.compile(r"(^|_)(utils?|helpers?|common|misc|base)(_|$)")
LONGEST = 500
CODE = (".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".js", ".css", ".html")


def code_files() -> list[Path]:
    folders = [ROOT / name for name in ("fastprof", "csrc", "tests", "benchmarks", "docs", "demo")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in CODE]
    hidden = {".rivals", "data", "__pycache__", "build"}
    return sorted([*(p for p in files if not hidden & set(p.relative_to(ROOT).parts)), ROOT / "setup.py"])


def python_modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx"))


def layer_of(unit: str) -> int:
    for number, units in enumerate(LAYERS):
        if unit in units:
            return number
    raise AssertionError(
        f"fastprof.{unit} is in no layer: give it one in tests/test_layers.py and docs/architecture.md"
    )


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].split(".")[0]


def imports_of(path: Path) -> Iterator[str]:
    """The fastprof modules that a module imports, anywhere in it."""
    if path.suffix == ".pyx":
        yield from re.findall(r"^\s*from (fastprof[\w.]*) c?import", path.read_text(), re.MULTILINE)
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fastprof":
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "fastprof")


def test_imports_point_down() -> None:
    checked = 0
    for path in python_modules():
        if path in (PACKAGE / "__init__.py", PACKAGE / "__main__.py"):
            continue  # the doors: they hand out what lives elsewhere
        mine = layer_of(unit_of(path))
        for imported in imports_of(path):
            parts = imported.split(".")
            if len(parts) < 2 or not any((PACKAGE / parts[1]).parent.glob(f"{parts[1]}*")):
                continue
            checked += 1
            assert layer_of(parts[1]) <= mine, f"{path.relative_to(ROOT)} imports {imported}, which is above it"
    assert checked > 80


def test_every_unit_of_a_layer_exists() -> None:
    present = {unit_of(path) for path in python_modules()} - {"__init__", "__main__"}
    assert present == set().union(*LAYERS)


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for path in python_modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        graph[name] = set()
        for imported in imports_of(path):
            while imported and not (ROOT / Path(*imported.split("."))).with_suffix(".py").exists():
                imported = imported.rpartition(".")[0]
            graph[name].add(imported)
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a circle of imports: {' -> '.join([*above, name])}"
        if name not in done:
            for imported in sorted(graph.get(name, ())):
                if not imported.startswith("fastprof._native") and imported not in ("", "fastprof"):
                    visit(imported, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())
    assert len(done) > 30


def test_c_includes_point_down() -> None:
    checked = 0
    for path in sorted((ROOT / "csrc").rglob("*.[ch]")):
        folder = path.parent.relative_to(ROOT / "csrc").parts
        allowed = C_LAYERS[folder[0] if folder else ""]
        text = path.read_text()
        assert "Python.h" not in text, path
        for included in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            checked += 1
            target = included.rpartition("/")[0].split("/")[0]
            local = target == "" and (path.parent / included).exists()
            assert local or target in allowed, f"{path.relative_to(ROOT)} includes {included}"
    assert checked > 30


def test_c_has_nothing_static_and_mutable() -> None:
    checked = 0
    for folder in ("", "columns", "formats", "kernels"):
        for path in sorted((ROOT / "csrc" / folder).glob("*.[ch]")):
            checked += 1
            for line in path.read_text().splitlines():
                if re.match(r"\s*static\b", line) and "(" not in line.partition("=")[0]:
                    assert re.search(r"\bconst\b", line), f"{path.relative_to(ROOT)}: {line}"
    assert checked > 20


def test_no_file_is_longer_than_500_lines() -> None:
    files = code_files()
    assert len(files) > 100
    long = {str(p.relative_to(ROOT)): n for p in files if (n := len(p.read_text().splitlines())) > LONGEST}
    assert long == {}


def test_names_are_homes() -> None:
    files = code_files()
    nowhere = [
        str(p.relative_to(ROOT))
        for p in files
        if any(BANNED.search(part) for part in [*p.parts[len(ROOT.parts) : -1], p.stem])
    ]
    assert files and nowhere == []


def _home(path: str) -> str:
    """The folder of the package that a module is in; render/xprof and render/svg are folders of their own, and what the
    viewer's page is made of is another program."""
    parts = path.split("/")
    if parts[1:3] == ["viewer", "static"]:
        return parts[2]
    return parts[2] if parts[1] == "render" and parts[2] in ("xprof", "svg") else parts[1]


@pytest.mark.parametrize("folder", ["fastprof", "csrc", "tests", "benchmarks"])
def test_stems_are_unique_in_a_tree(folder: str) -> None:
    """A name says one thing: no two modules of a tree share it, but for a module and its own declarations."""
    stems: dict[str, set[Path]] = {}
    for path in code_files():
        if path.is_relative_to(ROOT / folder) and path.stem not in ("__init__", "conftest"):
            stems.setdefault(path.stem, set()).add(path.with_suffix(""))
    twice = {stem: sorted(str(p.relative_to(ROOT)) for p in paths) for stem, paths in stems.items() if len(paths) > 1}
    assert stems
    if folder == "fastprof":  # a verb, or a renderer of each form, may be called after what it is about
        twice = {stem: paths for stem, paths in twice.items() if len({_home(p) for p in paths}) < len(paths)}
    if folder == "csrc":  # a test or a fuzz target is called after what it tests
        twice = {s: p for s, p in twice.items() if not any(part.split("/")[1] in ("tests", "fuzz") for part in p)}
    assert twice == {}
