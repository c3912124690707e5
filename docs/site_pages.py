"""Add pages that stand outside of docs to the site: README.md as its first page, CONTRIBUTING.md and CHANGELOG.md.

A hook of MkDocs, named in mkdocs.yml. Screenshots, if `docs/take_screenshots.py` has taken them, follow the first
paragraph of the first page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
SCREENSHOTS = ROOT / "docs" / "screenshots"
OUTSIDE = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
FOLDERS = r"(?:tests|demo|benchmarks|csrc|fastprof|LICENSE)"
"""Folders that are not on the site: links to them become plain text."""


def move_links(text: str) -> str:
    """Return a page of the root folder with the links that it has as a page of docs."""
    text = re.sub(r"\]\(docs/", "](", text).replace("](README.md", "](index.md")
    return drop_links_to_code(text)


def drop_links_to_code(text: str) -> str:
    """Return a page with the text only of links to files that are not pages."""
    return re.sub(rf"\[([^\]]*)\]\((?:\.\./)*{FOLDERS}[^)]*\)", r"\1", text)


def show_screenshots(text: str) -> str:
    """Return the first page with the screenshots that there are, by their names."""
    pictures = [
        f"![{path.stem.replace('-', ' ')}](screenshots/{path.name})" for path in sorted(SCREENSHOTS.glob("*.png"))
    ]
    return text.replace("\n## Try it", "\n" + "\n\n".join(pictures) + "\n\n## Try it", 1)


def on_files(files: Files, config: Any) -> Files:
    for name, source in OUTSIDE.items():
        text = move_links((ROOT / source).read_text("utf-8"))
        content = show_screenshots(text) if name == "index.md" else text
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return drop_links_to_code(markdown).replace("](../README.md", "](index.md").replace("](../C", "](C")


def on_config(config: Any) -> Any:
    """List every analysis in the navigation, by the files that there are."""
    for section in config.nav:
        for title, pages in section.items():
            if title == "Analyses":
                names = sorted(path.name for path in (ROOT / "docs" / "analyses").glob("*.md"))
                pages[:] = [f"analyses/{name}" for name in sorted(names, key=lambda name: name != "README.md")]
    return config
