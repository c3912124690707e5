"""The rooms of the package, measured from its imports: which there are, on which floor, and who enters which.

A room is a folder of the package, or a folder of its wing ``derive``; folders inside a room belong to it. ``errors.py``
and ``_version.py`` are one room, and the package's own ``__init__`` and ``__main__`` are the front door, which is none.
A room stands one floor above the highest room that it imports from.

    python tests/rooms.py            rooms, floors and arrows of this checkout
    python tests/rooms.py FOLDER     the same of another checkout
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WING = "derive"
FRONT_DOOR = ("fastprof", "fastprof.__main__")
GROUND = "errors"


class Entry(NamedTuple):
    """One module's import of another."""

    importer: str
    imported: str


@cache
def modules(root: Path = ROOT) -> Mapping[str, Path]:
    """The modules of the package by dotted name, compiled ones too."""
    found = {}
    for path in sorted((root / "fastprof").rglob("*")):
        if path.suffix in (".py", ".pyx") and "__pycache__" not in path.parts:
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


@cache
def imported_names(path: Path) -> tuple[str, ...]:
    """What a module imports from the package, anywhere in it, as dotted names of modules or of what they define."""
    return tuple(_imported_names(path))


def _imported_names(path: Path) -> Iterator[str]:
    if path.suffix == ".pyx":
        for module, names in re.findall(r"^\s*from (fastprof[\w.]*) c?import (.+)$", path.read_text(), re.MULTILINE):
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fastprof":
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "fastprof")


@cache
def imports(root: Path = ROOT) -> tuple[Entry, ...]:
    """Every import of one module of the package by another."""
    known = modules(root)
    found = set()
    for importer, path in known.items():
        for name in imported_names(path):
            while name not in known:
                name = name.rpartition(".")[0]
            if name not in (importer, *FRONT_DOOR):
                found.add(Entry(importer, name))
    return tuple(sorted(found))


def room_of(module: str) -> str | None:
    """The room that a module is in; None: the front door."""
    if module in FRONT_DOOR:
        return None
    parts = module.split(".")[1:]
    if parts[0] == "_version":
        return GROUND
    if parts[0] == WING and len(parts) > 1 and (ROOT / "fastprof" / WING / parts[1]).is_dir():
        return f"{WING}.{parts[1]}"
    return parts[0]


def rooms(root: Path = ROOT) -> set[str]:
    return {room for module in modules(root) if (room := room_of(module)) is not None}


def entries(root: Path = ROOT) -> list[Entry]:
    """The imports that cross from one room to another; the front door's are not counted."""
    crossing = []
    for entry in imports(root):
        mine, other = room_of(entry.importer), room_of(entry.imported)
        if mine is not None and other is not None and mine != other:
            crossing.append(entry)
    return crossing


def arrows(root: Path = ROOT) -> dict[str, set[str]]:
    """By room: the rooms that it imports from."""
    found: dict[str, set[str]] = {room: set() for room in rooms(root)}
    for entry in entries(root):
        found[str(room_of(entry.importer))].add(str(room_of(entry.imported)))
    return found


def floors(below: Mapping[str, set[str]]) -> dict[str, int]:
    """By room: its floor, 1 is the ground. Raises ValueError where rooms import from each other in a circle."""
    floor: dict[str, int] = {}

    def visit(room: str, above: tuple[str, ...]) -> int:
        if room in above:
            raise ValueError(f"a circle of rooms: {' -> '.join([*above, room])}")
        if room not in floor:
            floor[room] = 1 + max((visit(one, (*above, room)) for one in sorted(below[room])), default=0)
        return floor[room]

    for room in sorted(below):
        visit(room, ())
    return floor


def report(root: Path) -> Iterator[str]:
    below = arrows(root)
    yield f"{len(below)} rooms, {sum(map(len, below.values()))} arrows, {len(entries(root))} imports between rooms"
    try:
        floor = floors(below)
    except ValueError as circle:
        yield str(circle)
        return
    yield f"{max(floor.values())} floors"
    for room in sorted(floor, key=lambda room: (-floor[room], room)):
        yield f"{floor[room]:>3}  {room:<22} {', '.join(sorted(below[room]))}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(report(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)) + "\n")
