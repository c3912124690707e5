"""fastprof export: what it hands to the writer, and what it says."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from fastprof import export
from fastprof.errors import OutputError

PATHS = ("--layout", "paths")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def write(profile: Any, out: str, **rest: Any) -> None:
        calls.append({"events": len(profile._events), "out": out, **rest})
        if rest["progress"] is not None:
            rest["progress"]("events", 1, 2)
        if out == "taken":
            raise OutputError("already exists", path=out)

    module = types.ModuleType("fastprof.export.folders")
    module.write = write  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastprof.export.folders", module)
    monkeypatch.setattr(export, "folders", module, raising=False)
    return calls


def test_defaults(command: Callable[..., Any], written: list[dict[str, Any]]) -> None:
    assert command("export", "usual", "-o", "out", *PATHS) == (0, "", "fastprof: Wrote out\n")
    assert written == [
        {"events": 7, "out": "out", "format": "parquet", "tables": None, "force": False, "progress": None}
    ]


def test_flags(command: Callable[..., Any], written: list[dict[str, Any]]) -> None:
    ran = command(
        "export",
        "usual",
        "-o",
        "out",
        *PATHS,
        "--format",
        "csv",
        "--tables",
        "events,lines",
        "--tables",
        "nesting",
        "--force",
        "--plane",
        "GPU",
        "-q",
    )
    assert ran == (0, "", "")
    assert written[0]["events"] == 5
    assert written[0]["tables"] == ["events", "lines", "nesting"]
    assert written[0]["force"] is True


def test_progress_as_lines(command: Callable[..., Any], written: list[dict[str, Any]]) -> None:
    ran = command("export", "usual", "-o", "out", *PATHS, "--progress", "plain")
    assert ran.err == "fastprof: events:  50%\nfastprof: Wrote out\n"
    assert len(written) == 1


def test_faults(command: Callable[..., Any], written: list[dict[str, Any]]) -> None:
    ran = command("export", "usual", "-o", "out", "--tables", "events,event")
    assert ran.code == 2
    assert "there is no table 'event'; there are: hosts, planes" in ran.err
    assert written == []
    ran = command("export", "usual", "-o", "taken", *PATHS)
    assert (ran.code, ran.err) == (3, "fastprof: taken: already exists\n")
