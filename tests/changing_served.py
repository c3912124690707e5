"""A capture that changes while it is served: each answer is of the version that its address names.

A piece of work for the children of changing_files.py. The child serves the capture on a socket of its own and asks for
what a page asks for, until the file ``over`` says that the parent has changed the capture. The answers must be those of
a server of the first file, or of a server of the last one, as the address says; else it was refused.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastprof
from fastprof.profile.loading import load_again
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.server import ConnectionLimits, Server, bind_socket, make_application
from fastprof.viewer.viewed_runs import ViewedRuns

OVER = "over"
_CACHE_BYTES = 1 << 28
_LEVEL = 7  # of the tile that holds all events
_PATIENCE_S = 120

Answers = dict[str, str]
"""Digests of bodies, by what was asked for."""
_known: dict[str, Answers | None] = {}
"""The answers of servers of one file each, by the digest of the file; None: it cannot be opened."""


@dataclass
class Page:
    """What asks for answers at a port. ``seen``: the complete answers of each version."""

    port: int
    seen: dict[str, Answers] = field(default_factory=dict)

    def get(self, address: str) -> tuple[int, str | None, bytes]:
        """The status, the version that the answer names, and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_S)
        connection.request("GET", address)
        answer = connection.getresponse()
        found = answer.status, answer.getheader("fastprof-version"), answer.read()
        connection.close()
        return found

    def of_version(self, address: str, version: str) -> bytes | None:
        """The body of an answer; None: that version is gone, or not as far yet."""
        status, answered, body = self.get(address)
        assert status in (200, 409, 410), f"{address}: status {status}: {body[:300]!r}"
        assert status != 200 or answered == version, f"{address} is answered from {answered}, not from {version}"
        return body if status == 200 else None

    def opened(self) -> str | None:
        """The version that is opened now; None: what is there cannot be opened."""
        status, _, body = self.get("/api/open")
        assert status in (200, 404, 410, 422), f"/api/open: status {status}: {body[:300]!r}"
        assert status == 200 or list(json.loads(body)) == ["error"], body[:300]
        return str(json.loads(body)["version"]) if status == 200 else None

    def ask(self, version: str) -> bool:
        """Asks for all once the timeline is complete; whether all of it was answered."""
        key, state = "", ""
        while state != "ready":
            body = self.of_version(f"/api/timeline?version={version}&after={key}", version)
            if body is None:
                return False
            found = json.loads(body)
            key, state = found["key"], found["state"]
        addresses = {
            "tile": f"/api/tiles/{key}/{_LEVEL}/0",
            "event": f"/api/event?at=0&version={version}",
            "report": f"/api/report/op_stats?version={version}",
        }
        seen = self.seen.setdefault(version, {})
        bodies = {name: self.of_version(address, version) for name, address in addresses.items()}
        for name, body in bodies.items():
            if body is not None:
                digest = hashlib.sha256(body).hexdigest()
                assert seen.setdefault(name, digest) == digest, f"two answers of {addresses[name]} differ"
        return None not in bodies.values()


@contextmanager
def serving(path: Path, cache: CacheFolder) -> Iterator[tuple[Page, str]]:
    """A server of the capture, and the version that it has loaded."""
    runs = ViewedRuns(str(path), fastprof.load(str(path)), lambda _: load_again(str(path)), cache)
    first = next(iter(runs._open.values())).version
    listening, started = bind_socket("127.0.0.1", 0), threading.Event()
    server = Server(make_application(runs), ConnectionLimits(), started.set, lambda _: None)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        assert started.wait(_PATIENCE_S)
        yield Page(listening.getsockname()[1]), first
    finally:
        server.should_exit = True
        thread.join()
        runs.stop()
        listening.close()


def answers_of(file: Path, folder: Path, cache: CacheFolder) -> Answers | None:
    """What a server of a copy answers; None: the file cannot be opened."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest not in _known:
        alone = folder / "alone" / "h.xplane.pb"
        alone.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, alone)
        try:
            with serving(alone, cache) as (page, version):
                assert page.ask(version)
                _known[digest] = page.seen[version]
        except fastprof.CaptureError:
            _known[digest] = None
    return _known[digest]


def serve(path: str, out: str) -> str:
    """The answers of the only version there was, as text. ChangedError: all were right, and the capture changed."""
    capture, folder = Path(path), Path(out).parent
    cache = CacheFolder(folder / "cache", _CACHE_BYTES)
    with serving(capture, cache) as (page, first):
        last: str | None = first
        is_over = False
        while not is_over:
            is_over = (folder / OVER).exists()
            last = page.opened()
            for version in dict.fromkeys((first, last)):
                if version is not None:
                    answered = page.ask(version)
                    assert not is_over or answered == (version == last), f"{version} was left, {last} is opened"
    expected: dict[Any, Answers | None] = {last: answers_of(capture, folder, cache)}
    assert (last is None) == (expected[last] is None), f"opened: {last}, but a new server answers {expected[last]}"
    expected[first] = answers_of(capture.with_name("right"), folder, cache)
    for version, seen in page.seen.items():
        assert seen.items() <= (expected.get(version) or seen).items(), f"{version} of {first}, {last}: {seen}"
    if last != first:
        raise fastprof.ChangedError("the capture changed while it was served")
    return json.dumps(page.seen[first])
