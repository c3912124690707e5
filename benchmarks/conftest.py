"""What the in-process benchmarks share: a capture, and a title for the results page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from captures import Capture, capture

Timed = Callable[[Callable[[], Any]], Any]
"""Runs a function many times, notes its times, returns its last result."""


@pytest.fixture(scope="session")
def taken() -> Capture:
    """A capture of 10 MB, in the page cache."""
    found = capture("host-10mb")
    found.warm()
    return found


@pytest.fixture
def timed(request: pytest.FixtureRequest, benchmark: Any) -> Timed:
    """Times a function; the docstring of the benchmark is its title on the results page."""
    title = request.function.__doc__
    parameters = getattr(request.node, "callspec", None)
    if parameters is not None:
        title += f" ({', '.join(f'{key} {value}' for key, value in parameters.params.items())})"
    benchmark.extra_info["title"] = title
    timer: Timed = benchmark
    return timer
