"""What the server of the viewer answers about a capture, asked over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

VERSIONS = ("key", "version", "progress")
"""Fields of answers that name the content of files."""


@contextmanager
def server(paths: Sequence[str], flags: Sequence[str] = ()) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a server of these captures, and its process."""
    words = [sys.executable, "-m", "fastprof", "serve", *paths, "--port", "0", "--cache", "served", *flags]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        lines = process.stderr or ()
        yield next(found[0] for line in lines if (found := re.search(r"http://[^\s/]+", line))), process
    finally:
        process.terminate()
        process.wait()


def get(address: str, path: str, **query: Any) -> bytes:
    try:
        with urlopen(f"{address}/api/{path}?{urlencode(query, doseq=True)}", timeout=60) as answer:
            data: bytes = answer.read()
    except HTTPError as error:
        data = error.read()
    return data


def ready(address: str) -> Any:
    """The timeline, once nothing more is to come."""
    for _ in range(1000):
        document = json.loads(get(address, "timeline"))
        if document.get("state") == "ready" or "error" in document:
            return document
        time.sleep(0.02)
    raise TimeoutError("the timeline did not become ready")


def served(paths: Sequence[str], flags: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Answers by address; of each level the first tiles."""
    try:
        with server(paths, flags) as (address, _):
            document = ready(address)
            yield "server/timeline/all", without_versions(document)
            if "error" in document:
                return
            yield from _tiles(address, document)
            yield from _answers(address, document)
    except StopIteration:  # it ended with an error, which the verbs show
        yield "server/start/error", "no address"


def _tiles(address: str, document: Any) -> Iterator[tuple[str, Any]]:
    for level in range(0, 42, 3):
        for index in (0, 1):
            yield f"server/tile/{level} {index}", get(address, f"tiles/{document['key']}/{level}/{index}")


def _answers(address: str, document: Any) -> Iterator[tuple[str, Any]]:
    host = document["hosts"][0]["host"]
    tracks = [track for process in document["processes"] for track in process["tracks"]["id"]]
    some = ",".join(map(str, tracks[:40]))
    for path, query in (
        ("analyses", {}), ("steps", {}), ("lanes", {"start_ps": 0, "end_ps": 10**12}),
        ("names", {"host": host, "ids": ",".join(map(str, range(60)))}),
        ("range", {"start_ps": 0, "end_ps": 10**11, "tracks": some}),
        ("flows", {"start_ps": 0, "end_ps": 10**12, "tracks": some, "limit": 200}),
        ("search", {"q": "e"}), ("search/hits", {"q": "e", "order": "duration", "down": 1, "rows": 200}),
        ("search/next", {"q": "e", "from_ps": 0, "direction": "next"}), ("hlo", {}), ("empty", {}),
        ("tfprof/about", {}), ("tfprof/rows", {"view": "scope", "rows": 50}),
    ):  # fmt: skip
        yield f"server/answer/{path}", without_versions(json.loads(get(address, path, **query)))
    for at in (0, 1, 7, 50):
        yield f"server/event/{at}", without_versions(json.loads(get(address, "event", host=host, at=at)))
        yield f"server/slice/{at}", without_versions(json.loads(get(address, "slice", host=host, at=at, count=5)))
    for track in tracks[-3:]:
        counter = get(address, "counters", track=track, start_ps=0, end_ps=10**12, width=50)
        yield f"server/counter/{track}", counter
    for analysis in json.loads(get(address, "analyses")):
        name = analysis["name"]
        yield f"server/columns/{name}", get(address, f"report/{name}", shape="columns")
        yield f"server/svg/{name}", get(address, f"report/{name}.svg")


def without_versions(document: Any) -> str:
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in VERSIONS}
    return json.dumps(document, sort_keys=True)
