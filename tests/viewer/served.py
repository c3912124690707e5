"""A viewer's server in the process of the test: what is asked of it is answered without a socket."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

import fastprof
from fastprof.inputs.resolve import Run
from fastprof.profile.loading import load_again
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.page_capture import PageCapture
from fastprof.viewer.server import make_application
from fastprof.viewer.viewed_runs import ViewedRuns


@dataclass(frozen=True)
class Answer:
    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Sends requests to an ASGI application, each as one message."""

    def __init__(self, app: Any, host: str = "localhost") -> None:
        self.app = app
        self.host = host

    def get(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        method: str = "GET",
    ) -> Answer:
        return asyncio.run(self.send(path, params, headers, method))

    async def send(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        method: str = "GET",
    ) -> Answer:
        fields = [*headers] if isinstance(headers, list) else [*{"host": self.host, **(headers or {})}.items()]
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": (query or urlencode(params or {}, doseq=True)).encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in fields],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        sent: list[Any] = []
        received: list[Any] = []

        async def receive() -> Any:
            if received:
                await asyncio.Event().wait()  # the client stays
            received.append(scope)
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        try:
            await self.app(scope, receive, send)
        except Exception:  # the server logs it, and the client has its answer
            if not sent:
                raise
        head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], head, b"".join(part.get("body", b"") for part in sent[1:]))


class Served:
    """``source``: what is loaded; a path can be opened again, bytes cannot. ``opened``: whether that is done at the
    start."""

    def __init__(
        self,
        source: Any,
        *,
        token: str | None = None,
        run: str | None = None,
        cache: CacheFolder | None = None,
        opened: bool = True,
        on_error: str = "raise",
        capture: PageCapture | None = None,
    ) -> None:
        def load(named: Run | str | None) -> fastprof.Profile:
            if isinstance(named, Run):
                return load_again(named, on_error=on_error)
            return load_again(source, run=named or run, on_error=on_error)

        self.profile = fastprof.load(source, run=run, on_error=on_error) if opened else None
        self.runs = ViewedRuns(source, self.profile, load, cache, on_error)
        self.runs._runs.quick_s = float("inf")  # a list is made again each time, however busy the machine is
        self.client = Client(make_application(self.runs, token, capture=capture))

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of an answer that is fine."""
        answer = self.client.get(path, params)
        assert answer.status_code == 200, (answer.status_code, answer.text[:300])
        return answer.json()

    def refused(self, path: str, **params: Any) -> tuple[int, str]:
        """Status and sentence of an answer that is an error."""
        answer = self.client.get(path, params)
        assert answer.status_code >= 400, answer.text[:300]
        assert list(answer.json()) == ["error"]
        return answer.status_code, answer.json()["error"]

    def timeline(self) -> Any:
        """All that there is to show, once nothing more is to come."""
        for _ in range(500):
            found = self.get("/api/timeline")
            if found["state"] == "ready":
                return found
            time.sleep(0.02)
        raise AssertionError("the timeline did not become ready within ten seconds")

    def tracks(self) -> dict[str, int]:
        """Ids of tracks by name; of several of a name, the last."""
        found = {}
        for process in self.timeline()["processes"]:
            found |= dict(zip(process["tracks"]["name"], process["tracks"]["id"], strict=True))
        return found

    def tile(self, level: int, index: int = 0, tracks: str | None = None) -> Tile:
        key = self.timeline()["key"]
        params = {} if tracks is None else {"tracks": tracks}
        answer = self.client.get(f"/api/tiles/{key}/{level}/{index}", params)
        assert answer.status_code == 200, answer.text
        return Tile(answer.content)


class Tile:
    """The columns of a tile, read as docs/viewer.md describes them."""

    def __init__(self, data: bytes) -> None:
        self.magic, self.version, rows, slices, self.level, _, low, high = struct.unpack_from("<8I", data)
        self.index = low | high << 32
        at = 32

        def take(kind: str, count: int) -> Any:
            nonlocal at
            found = np.frombuffer(data, kind, count, at)
            at += found.nbytes
            return found

        self.track, self.lane, self.end = (take("<u4", rows) for _ in range(3))
        at += -at % 8
        self.start, self.duration = take("<f8", slices), take("<f8", slices)
        self.busy = take("<f4", slices)
        self.count, self.name, self.at = (take("<u4", slices) for _ in range(3))
        assert at == len(data)

    def row(self, track: int, lane: int = 0) -> slice:
        """Where the slices of a lane are."""
        place = int(np.flatnonzero((self.track == track) & (self.lane == lane))[0])
        return slice(int(self.end[place - 1]) if place else 0, int(self.end[place]))


def written(folder: Path, *captures: bytes, names: Sequence[str] = ("host0", "host1")) -> Path:
    """A log directory with one run, a file a host."""
    run = folder / "plugins" / "profile" / "2026_11_22_03_00_00"
    run.mkdir(parents=True)
    for name, data in zip(names, captures, strict=False):
        (run / f"{name}.xplane.pb").write_bytes(data)
    return folder
