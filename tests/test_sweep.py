"""All reports of a capture agree: see sweep.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate import few, rounds, typical_captures
from sweep import faults

import fastprof

LOGDIRS = sorted(path for path in (Path(__file__).resolve().parent.parent / "demo").iterdir() if path.is_dir())
OTHERS = ("chrome", "nsys", "perfetto", "rocprof", "riegeli", "tf1", "snapshots")
"""Folders of the real captures beside the project that do not hold XSpaces."""


@pytest.mark.parametrize("path", [path for path in LOGDIRS if path.name != "__pycache__"], ids=lambda path: path.name)
def test_reports_of_the_demos_agree(path: Path) -> None:
    assert faults(fastprof.load(path)) == []


@typical_captures
def test_reports_of_real_captures_agree(capture: Path) -> None:
    assert faults(fastprof.load(capture)) == []


def test_reports_of_captures_of_other_formats_agree(captures: Path) -> None:
    wrong, read = {}, 0
    files = (sorted(path for path in (captures / folder).rglob("*") if path.is_file()) for folder in OTHERS)
    for path in (path for of_format in files for path in few(of_format, 4)):
        try:
            profile = fastprof.load(path)
        except fastprof.FastprofError:
            continue
        read += 1
        if of_capture := faults(profile):
            wrong[path.name] = of_capture
    assert wrong == {} and read > rounds(20, 10)
