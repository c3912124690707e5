"""The results page: machine, date, versions, and the sections as tables."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import rivals
from section import Section

INTRODUCTION = """\
Written by `make bench`. Timings on shared machines vary: look at the ratios, whose two sides ran in turn
within the same minutes, and take differences below a tenth as none. Captures are generated from a seed by
`benchmarks/make_traces.py`, with the mix of events and stats of real ones, or scaled from a real one where
that is said, and read from the page cache. Every count of events, stats and rows is checked while measuring.
Seconds are medians.
"""

OURS = ("fastprof-arrow", "pyarrow", "numpy", "duckdb", "pytest-benchmark")


def render(sections: Sequence[Section]) -> str:
    """The page as Markdown."""
    head = ["# Benchmarks\n", INTRODUCTION, _table(("machine", "measured on"), _machine())]
    return "\n".join([*head, *map(_render_section, sections)])


def replace_sections(text: str, sections: Sequence[Section]) -> str:
    """The page with these sections in place of those of the same title; new ones at its end."""
    head, *parts = text.split("\n## ")
    by_title = {part.partition("\n")[0]: part for part in parts}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for section in sections:
        section.remarks.append(f"Measured on {today}.")
        by_title[section.title] = _render_section(section).removeprefix("## ")
    return "\n## ".join([head, *by_title.values()])


def _render_section(section: Section) -> str:
    parts = [f"## {section.title}\n\n{section.prose}\n", _table(section.header, section.rows)]
    return "\n".join([*parts, *(f"{remark}\n" for remark in section.remarks)])


def _machine() -> list[tuple[str, str]]:
    ours = ", ".join(f"{name} {_version(name)}" for name in OURS)
    return [
        ("date", datetime.datetime.now(datetime.UTC).date().isoformat()),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.0f} GiB"),
        ("system", f"{platform.system()} {platform.machine()}, Python {sys.version.split()[0]}"),
        ("versions", ours),
        ("rivals", ", ".join(rival.title for rival in rivals.ALL)),
    ]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
