"""The house rules of the C core: includes and calls point down, and nothing is static and mutable."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parent.parent / "csrc"

LAYERS = {
    "": {""},
    "columns": {"", "columns"},
    "formats": {"", "columns", "formats"},
    "kernels": {"", "columns", "kernels"},
    "tests": {"", "columns", "formats", "kernels", "tests"},
    "fuzz": {"", "columns", "formats", "kernels", "fuzz", "tests"},
}
"""Which folders of csrc/ the files of each may include from."""
LIBRARY = ("", "columns", "formats", "kernels")
"""The folders that the package compiles."""

_NOT_CODE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^\s*#(?:\\\n|[^\n])*", re.S | re.M
)
_DEFINED = re.compile(r"(\w+)\s*\([^{};]*\)\s*$")


def _library() -> list[Path]:
    return sorted(path for folder in LIBRARY for path in (CSRC / folder).glob("*.[ch]"))


def _blocks(path: Path) -> Iterator[tuple[str, str]]:
    """(what comes before the brace, what is in the braces) of each block of a file that lies in no other."""
    text = _NOT_CODE.sub(" ", path.read_text())
    depth, begin, opened = 0, 0, 0
    for match in re.finditer(r"[{};]", text):
        mark, at = match.group(), match.start()
        if mark == "{":
            if depth == 0:
                opened = at
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth == 0:
                yield text[begin:opened].strip(), text[opened:at]
                begin = at + 1
        elif depth == 0:
            begin = at + 1
    assert depth == 0, path


def test_includes_point_down() -> None:
    checked = 0
    for path in sorted(CSRC.rglob("*.[ch]")):
        folder = path.parent.relative_to(CSRC).parts
        allowed = LAYERS[folder[0] if folder else ""]
        text = path.read_text()
        assert "Python.h" not in text, path
        for included in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            checked += 1
            target = included.rpartition("/")[0].split("/")[0]
            local = target == "" and (path.parent / included).exists()
            assert local or target in allowed, f"{path.relative_to(CSRC)} includes {included}"
    assert checked > 30


def test_nothing_is_static_and_mutable() -> None:
    files = _library()
    assert len(files) > 20
    for path in files:
        for line in path.read_text().splitlines():
            if re.match(r"\s*static\b", line) and "(" not in line.partition("=")[0]:
                assert re.search(r"\bconst\b", line), f"{path.relative_to(CSRC)}: {line}"


def uses_between_files(files: list[Path]) -> dict[str, dict[str, str]]:
    """For each unit (a .c file with its header), the units whose functions its blocks name, and one such function."""
    home: dict[str, str] = {}
    own: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for path in files:
        unit = path.stem
        for before, inside in _blocks(path):
            named.setdefault(unit, set()).update(re.findall(r"\w+", inside))
            defined = _DEFINED.search(before)
            if defined and re.match(r"static\b(?! inline)", before):
                own.setdefault(unit, set()).add(defined.group(1))
            elif defined:
                name = defined.group(1)
                assert home.setdefault(name, unit) == unit, f"{name} is defined in {home[name]} and in {unit}"
    return {
        unit: {home[name]: name for name in sorted(names & home.keys() - own.get(unit, set())) if home[name] != unit}
        for unit, names in named.items()
    }


def circle_in(graph: dict[str, dict[str, str]]) -> list[str]:
    """One circle of a graph, as names from one unit back to itself; empty if there is none."""
    done: set[str] = set()

    def visit(unit: str, above: tuple[str, ...]) -> list[str]:
        if unit in above:
            return [*above[above.index(unit) :], unit]
        if unit not in done:
            for used in sorted(graph.get(unit, {})):
                if found := visit(used, (*above, unit)):
                    return found
            done.add(unit)
        return []

    for unit in sorted(graph):
        if found := visit(unit, ()):
            return found
    return []


def test_files_do_not_call_each_other_in_circles() -> None:
    graph = uses_between_files(_library())
    assert len(graph) > 40
    assert "wire_varint" in graph["xspace_scan"].values() and graph["hlo"]["hlo_shape"] == "hlo_read_shape"
    found = circle_in(graph)
    calls = [f"{user} uses {graph[user][used]} of {used}" for user, used in itertools.pairwise(found)]
    assert calls == []


def test_headers_do_not_include_each_other_in_circles() -> None:
    headers = [path for path in _library() if path.suffix == ".h"]
    graph = {
        path.relative_to(CSRC).as_posix(): dict.fromkeys(
            re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE), ""
        )
        for path in headers
    }
    assert len(graph) > 30
    assert circle_in(graph) == []


@pytest.mark.parametrize("table", [False, True], ids=["a call", "a table of functions"])
def test_a_circle_of_calls_is_seen(tmp_path: Path, table: bool) -> None:
    use = "int (*const table[])(void) = {second};" if table else "int first(void) { return second(); }"
    (tmp_path / "one.c").write_text(f"/* first() {{ */\nint second(void);\nint third(void) {{ return '{{'; }}\n{use}\n")
    (tmp_path / "two.c").write_text(
        '#define X {\nint third(void);\nint second(\n  void) {\n  return third() + *"}";\n}\n'
    )
    graph = uses_between_files(sorted(tmp_path.glob("*.c")))
    assert graph == {"one": {"two": "second"}, "two": {"one": "third"}}
    assert circle_in(graph) == ["one", "two", "one"]
