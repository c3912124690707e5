"""Answers about runs: which there are, and which is opened."""

from __future__ import annotations

from typing import Any

from fastprof._version import __version__
from fastprof.viewer.server_state import Call


def runs(call: Call) -> Any:
    """All runs, as they are now. A request that names a version is refused once that is gone, as any other."""
    shown = call.state.runs
    if call.given("version") is not None:
        assert call.run
    return {
        "runs": shown.listed(),
        "directory": shown.directory is not None,
        "title": shown.title,
        "fastprof": __version__,
    }


def opened(call: Call) -> Any:
    """The run of that name, or the one that is shown first, opened as it is now: the other addresses take its name and
    version. Without a run: why there is none yet."""
    found = call.state.runs.opened(call.given("run"))
    return {"run": found.name, "version": found.version, "hosts": found.hosts, "notice": found.notice}
