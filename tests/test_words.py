"""Counts words of a dialect that readers stumble over. CONTRIBUTING.md's glossary says what to write instead.

Each count may only fall: lower its ceiling in budget.toml when it does.
"""

from __future__ import annotations

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
"""How often each may stand in the repository; identifiers count too."""

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


def test_there_is_something_to_count(texts: dict[str, str]) -> None:
    assert len(texts) > 900
    for part in (*FOLDERS, *SUFFIXES[:2], ".c", ".js", ".md"):
        assert any(name.startswith(part + "/") or name.endswith(part) for name in texts), part


@pytest.mark.parametrize("word", CEILINGS)
def test_a_word_is_not_used_more_often(texts: dict[str, str], word: str) -> None:
    pattern = _pattern(word)
    counts = Counter({name: count for name, text in texts.items() if (count := len(pattern.findall(text)))})
    sys.stdout.write(f"{word!r}: {counts.total()}\n")
    worst = ", ".join(f"{name} {count}" for name, count in counts.most_common(20))
    assert counts.total() <= CEILINGS[word], f"{word!r} stands {counts.total()} times: {worst}"
