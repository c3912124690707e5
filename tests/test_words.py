"""Counts words of a dialect that readers stumble over, and sentences of patterns that make users read twice.
CONTRIBUTING.md's glossary says what to write instead.

Each count may only fall: lower its ceiling in budget.toml when it does.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("fastprof", "csrc", "docs", "demo", "tests", "benchmarks")
SUFFIXES = (".py", ".pyx", ".pxd", ".pxi", ".pyi", ".c", ".h", ".js", ".mjs", ".css", ".html", ".md")

CEILINGS: dict[str, int] = tomllib.loads((ROOT / "tests/budget.toml").read_text())["words"]
"""How often each word may stand in the repository, identifiers included, and each pattern in sentences of users."""

PATTERNS = {
    "sentence begins with of": r"^(?:null: )?Of\b",
    "sentence begins with by": r"^By (?!default)",
    "sentence begins with what": r"^What\b(?!.*\?)",
    "three times of": r"\bof [^.,;:()]*\bof [^.,;:()]*\bof ",
    "clause for a noun": r"\b(?:of|in|for|from|with|to) what (?:is|are|was|were|has|have|it|they)\b",
    "minus one as a riddle": r"(?<!default )(?<!\()-1: ",
    "moment": r"\bmoments?\b",
    "stretch": r"\bstretch(?:es)?\b",
    "meanwhile": r"\bmeanwhile\b",
    "not known": r"\b(?:is|are) not known\b",
    "nobody": r"\bnobody\b",
    "alike": r"\balike\b",
    "out of line": r"\bout of line\b",
    "aloft": r"\baloft\b",
    "set aside": r"\bset aside\b",
    "is due": r"\b(?:is|are) due\b",
    "the like": r"\bthe like\b",
    "maker": r"\bmakers?\b",
    "whole number": r"\bwhole numbers?\b",
    "if threads compute": r"\bif threads compute\b",
}
"""Patterns with ceilings in messages, descriptions, docs and on the page."""

_FORMS = {
    "tell": "tells?|telling",
    "reckon": "reckon(?:s|ed|ing)?",
}


def _pattern(word: str) -> re.Pattern[str]:
    forms = _FORMS.get(word, re.escape(word)).replace(r"\ ", " ").replace(" ", r"[\s_*#/]+")
    return re.compile(rf"(?<![A-Za-z])(?:{forms})(?![A-Za-z])", re.IGNORECASE)


def _files() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and path != Path(__file__) and path.is_file():
                yield path


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The text of every file, by path from the root, without generated C, installed rivals and the glossary itself."""
    read = {
        name: path.read_text(errors="replace")
        for path in _files()
        if not re.search(r"/(\.|build/|node_modules/|data/)", name := path.relative_to(ROOT).as_posix())
        and not (name.startswith("fastprof/_native/") and path.suffix == ".c")
    }
    read["CONTRIBUTING.md"] = re.sub("## Glossary.*?## Tests", "", read["CONTRIBUTING.md"], flags=re.DOTALL)
    return read


@pytest.fixture(scope="module")
def lowered(texts: dict[str, str]) -> dict[str, str]:
    return {name: text.lower() for name, text in texts.items()}


def test_there_is_something_to_count(texts: dict[str, str]) -> None:
    assert len(texts) > 900
    for part in (*FOLDERS, *SUFFIXES[:2], ".c", ".js", ".md"):
        assert any(name.startswith(part + "/") or name.endswith(part) for name in texts), part


@pytest.mark.parametrize("word", [word for word in CEILINGS if word not in PATTERNS])
def test_a_word_is_not_used_more_often(texts: dict[str, str], lowered: dict[str, str], word: str) -> None:
    pattern = _pattern(word)
    beginning = word.split()[0].lower()  # most files do not have it, and the pattern takes longer to say so
    may_have = (name for name, text in lowered.items() if beginning in text)
    counts = Counter({name: count for name in may_have if (count := len(pattern.findall(texts[name])))})
    sys.stdout.write(f"{word!r}: {counts.total()}\n")
    worst = ", ".join(f"{name} {count}" for name, count in counts.most_common(20))
    assert counts.total() <= CEILINGS[word], f"{word!r} stands {counts.total()} times: {worst}"


OTHERS = ("fastprof/xprof/", "fastprof/tfprof/")
"""Folders with sentences of XProf and tfprof."""


def _split(text: str) -> list[str]:
    """Return the sentences of three words or more."""
    parts = re.split(r"(?<=[.!?]) (?=[A-Z`*(])", " ".join(text.split()))
    return [part.strip("*`| ") for part in parts if part.count(" ") > 1]


def _list_prose(text: str) -> Iterator[str]:
    """Yield paragraphs, items of lists, headings and cells of tables of a page, without code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\s*(?:[-*]|\d+\.) |#+ |\|)", r"\n\1", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        yield from (cell.strip("-*# \n") for cell in (block.split(" | ") if block.startswith("|") else [block]))


def _list_strings(text: str) -> Iterator[str]:
    """Yield the strings of a module, without docstrings; those in braces of f-strings are left out."""
    tree = ast.parse(text)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def _list_literals(text: str) -> Iterator[str]:
    """Yield the strings of a module of the page, line by line."""
    for line in text.splitlines():
        if not re.match(r"\s*(?://|/?\*)", line):
            yield from (found[2] for found in re.finditer(r"""(["'`])((?:(?!\1)[^\\]|\\.)*)\1""", line) if found[2])


@pytest.fixture(scope="module")
def sentences(texts: dict[str, str]) -> list[tuple[str, str]]:
    """Return the sentences that users read, each with its file."""
    readers = {".md": _list_prose, ".py": _list_strings, ".js": _list_literals}
    return [
        (name, sentence)
        for name, text in texts.items()
        if name.startswith(("docs/", "fastprof/", "README.md")) and not name.startswith(OTHERS)
        for block in readers.get(Path(name).suffix, lambda _text: iter(()))(text)
        for sentence in _split(block)
    ]


def test_there_are_sentences_of_users(sentences: list[tuple[str, str]]) -> None:
    assert len(sentences) > 9000
    read = {sentence for _, sentence in sentences}
    assert "Copies never count as compute, whether between host and device or within a device." in read
    assert "A leak: something grows" not in read and "the op is known" in {text.partition("null: ")[2] for text in read}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_not_used_more_often(sentences: list[tuple[str, str]], pattern: str) -> None:
    found = [f"{name}: {text[:120]}" for name, text in sentences if re.search(PATTERNS[pattern], text)]
    sys.stdout.write(f"{pattern!r}: {len(found)}\n")
    assert len(found) <= CEILINGS[pattern], f"{pattern!r} stands {len(found)} times:\n" + "\n".join(found)
