"""A server of objects, and the environment that leads clients of S3 to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from object_server import ObjectServer
from stored_captures import CAPTURE, KEY


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server with one capture in a log directory; s3://bucket/ leads to it. ``server.address``: its own URL."""
    objects = ObjectServer()
    objects.objects[KEY] = CAPTURE
    with objects.serving() as address:
        objects.address = address
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("FASTPROF_CACHE", "0")
        yield objects


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are as large, in blocks, as those that are read in part."""
    from fastprof.inputs.stores import remote_file

    monkeypatch.setattr(remote_file, "BLOCK", 1 << 10)
    monkeypatch.setattr(remote_file, "RANGE", 1 << 12)
    monkeypatch.setattr(remote_file, "MOST_AT_ONCE", 0)
