"""A server of objects, and the environment that leads clients of S3 to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from object_server import ObjectServer

LOGDIR = Path(__file__).parent.parent.parent / "demo" / "logdir"
RUN = "plugins/profile/2026_11_21_09_58_38"
KEY = f"logs/{RUN}/vm.xplane.pb"
CAPTURE = LOGDIR.joinpath(RUN, "vm.xplane.pb").read_bytes()


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
        yield objects


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are as large, in blocks, as those that are read in part."""
    from fastprof.inputs.stores import remote_file

    monkeypatch.setattr(remote_file, "BLOCK", 1 << 10)
    monkeypatch.setattr(remote_file, "RANGE", 1 << 12)
    monkeypatch.setattr(remote_file, "MOST_AT_ONCE", 0)
