"""The house rules, held against the code: imports point down, files are short, names are homes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import rooms

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fastprof"

FLOORS = (
    ("errors", "wording"),
    ("_native",),
    ("schema",),
    ("inputs",),
    ("decode",),
    ("hlo",),
    ("tables",),
    ("derive.devices",),
    ("derive.steps",),
    ("derive.ops", "derive.serving"),
    ("derive", "derive.communication", "derive.memory", "derive.pipelines", "derive.tfprof"),
    ("derive.causes", "derive.comparison", "derive.timeline"),
    ("analyses",),
    ("engines", "export", "render", "xprof"),
    ("tfprof",),
    ("profile",),
    ("viewer",),
    ("cli",),
)
"""Rooms from the ground up; docs/architecture.md draws them. A room imports from lower floors only."""

VISITORS = {
    "cli": (),
    "viewer": ("cli",),
    "profile": ("viewer", "cli"),
    "engines": ("profile", "cli"),
    "export": ("profile", "viewer", "cli"),
    "tfprof": ("profile", "viewer", "cli"),
    "xprof": ("profile", "cli"),
    "render": ("tfprof", "profile", "viewer", "cli"),
    "analyses": ("engines", "render", "tfprof", "xprof", "profile", "viewer", "cli"),
    "derive.timeline": ("export", "xprof", "viewer"),
    "derive.serving": ("analyses", "xprof"),
    "derive.communication": ("analyses",),
    "inputs": ("decode", "hlo", "tables", "engines", "export", "profile", "viewer", "cli"),
}
"""Who may enter a room, where that is not every room above it."""

PUBLIC = ("fastprof.export.write", "fastprof.engines.processes", "fastprof.engines.ray_executor")
"""What users may import from a room itself: docs/python.md has it."""

BANNED = re.compile(r"(^|_)(utils?|helpers?|common|misc|base)(_|$)")
LONGEST = {".py": 700}
USUAL_LONGEST = 500
CODE = (".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".js", ".css", ".html")


def code_files() -> list[Path]:
    folders = [ROOT / name for name in ("fastprof", "csrc", "tests", "benchmarks", "docs", "demo")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in CODE]
    hidden = {".rivals", "data", "__pycache__", "build"}
    return sorted([*(p for p in files if not hidden & set(p.relative_to(ROOT).parts)), ROOT / "setup.py"])


def floor_of(room: str) -> int:
    for number, there in enumerate(FLOORS):
        if room in there:
            return number
    raise AssertionError(f"the room {room} stands on no floor of tests/test_layers.py")


def test_every_room_stands_on_a_floor() -> None:
    standing = [room for there in FLOORS for room in there]
    assert sorted(standing) == sorted(rooms.rooms())
    assert len(standing) <= 29 and len(FLOORS) <= 18
    assert sorted(path.name for path in PACKAGE.iterdir() if path.suffix in (".py", ".typed")) == [
        "__init__.py", "__main__.py", "_version.py", "errors.py", "py.typed",
    ]  # fmt: skip


def test_rooms_import_from_lower_floors_only() -> None:
    crossing = rooms.entries()
    assert len(crossing) > 800
    for importer, imported in crossing:
        mine, other = str(rooms.room_of(importer)), str(rooms.room_of(imported))
        assert floor_of(other) < floor_of(mine), f"{importer} imports {imported}, which is not below it"
        assert mine in VISITORS.get(other, (mine,)), f"{importer} may not enter {other}: see VISITORS"
    assert rooms.floors(rooms.arrows())


def test_a_room_is_entered_by_its_door() -> None:
    """A room's ``__init__`` lists in ``__all__`` what others may import from it, and lists nothing else."""
    known = rooms.modules()
    used: dict[str, set[str]] = {}
    for _, imported in rooms.entries():
        package, _, module = imported.rpartition(".")
        while package in known and rooms.room_of(package) == rooms.room_of(imported) and package != "fastprof":
            used.setdefault(package, set()).add(module)
            package, _, module = package.rpartition(".")
    used.setdefault("fastprof.cli", set()).add("main")
    wanted = {name for path in known.values() for name in rooms.imported_names(path)}
    checked = 0
    for package, path in known.items():
        if path.name != "__init__.py" or package == "fastprof":
            continue
        listed = {name for name in _listed(path) if f"{package}.{name}" in known}
        entered, where = used.get(package, set()), path.relative_to(ROOT)
        assert entered <= listed, f"{where}: __all__ lacks {sorted(entered - listed)}, which other rooms import"
        idle = {name for name in listed - entered if f"{package}.{name}" not in wanted}
        assert not idle, f"{where}: __all__ lists {sorted(idle)}, which no other room imports"
        checked += len(listed)
    assert checked > 100


def _listed(path: Path) -> list[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def test_a_room_says_which_question_it_answers_and_imports_nothing() -> None:
    for room in sorted(rooms.rooms() - {rooms.GROUND}):
        path = rooms.modules()[f"fastprof.{room}"]
        tree = ast.parse(path.read_text())
        question = (ast.get_docstring(tree) or "").splitlines()[0]
        assert "?" in question, f"{path.relative_to(ROOT)}: its first line is not a question"
        for node in tree.body:
            assert not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("fastprof"), path


def test_modules_do_not_import_each_other_in_circles() -> None:
    below: dict[str, set[str]] = {name: set() for name in rooms.modules()}
    for importer, imported in rooms.imports():
        below[importer].add(imported)
    assert len(rooms.floors(below)) > 250


def test_no_file_is_longer_than_700_lines_of_python_or_500_of_others() -> None:
    files = code_files()
    assert len(files) > 100
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    long = {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > LONGEST.get(p.suffix, USUAL_LONGEST)}
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
    """Where a module is at home: a room, or a folder in one that holds a family of files, one for each of something."""
    parts = path.split("/")
    families = {("viewer", "static"), ("render", "svg"), ("xprof", "pages"), ("xprof", "trace"), ("hlo", "text")}
    return "/".join(parts[1:3]) if parts[1] == "derive" or (parts[1], parts[2]) in families else parts[1]


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
