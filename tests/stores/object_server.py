"""A server of objects for tests: ranges, ETags, listing as S3 and GCS answer in XML, uploads; with faults on demand."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

PAGE = 1000
PIECE = 1 << 16


class Request:
    """What a client asked for: ``key`` below the bucket, and the range, or None."""

    def __init__(self, method: str, path: str, headers: Any) -> None:
        parts = urlsplit(path)
        self.method = method
        self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        _, _, rest = parts.path.lstrip("/").partition("/")
        self.key = unquote(rest)
        self.path = path
        self.headers = headers
        self.range: tuple[int, int] | None = None
        if given := headers.get("Range"):
            first, last = given.removeprefix("bytes=").split("-")
            self.range = int(first), int(last) + 1


Fault = Callable[[Request], "str | None"]
"""Returns what goes wrong with a request: "503", "403", "drop", "short", "long", "wait" (half of the body comes once
``ObjectServer.go_on`` is set), "no ranges", "redirect URL", or None."""


class ObjectServer:
    """Objects by key, in one bucket called ``bucket``. ``requests``: all that came; ``sent``: bytes of bodies;
    ``address``: where it is served; ``list_tag``: makes the tags in lists."""

    def __init__(self, latency_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.sent = 0
        self.fault: Fault = lambda _: None
        self.address = ""
        self.latency_s = latency_s
        self.bytes_per_s = bytes_per_s
        self.list_tag = tag
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.go_on = threading.Event()
        self._lock = threading.Lock()

    def count(self, method: str) -> int:
        return sum(request.method == method for request in self.requests)

    def forget(self) -> None:
        self.requests.clear()
        self.sent = 0

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve in threads; yields the address of the server."""
        owner = self

        class Handler(_Handler):
            server_objects = owner

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128
            """Connections that may wait to be accepted. Beyond them, a client tries again only a second later."""

        server = Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def note(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)

    def note_sent(self, size: int) -> None:
        with self._lock:
            self.sent += size


@lru_cache
def tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def is_new(headers: Any) -> bool:
    """Return whether an object is to be created only if it is absent, as S3 or as GCS is asked for that."""
    return headers.get("If-None-Match") == "*" or headers.get("x-goog-if-generation-match") == "0"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_objects: ObjectServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer_read("HEAD")

    def do_GET(self) -> None:
        self._answer_read("GET")

    def _answer_read(self, method: str) -> None:
        served = self.server_objects
        request = Request(method, self.path, self.headers)
        served.note(request)
        if served.latency_s:
            time.sleep(served.latency_s)
        fault = served.fault(request)
        if fault is not None and fault.isdecimal():
            self._send(int(fault), b"<Error><Code>Fault</Code></Error>")
        elif fault is not None and fault.startswith("redirect "):
            self._send(302, b"", {"Location": fault.removeprefix("redirect ")})
        elif not request.key and method == "GET":
            self._send(200, _list(served, request.query), {"Content-Type": "application/xml"})
        elif request.key not in served.objects:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._send_object(request, served.objects[request.key], fault)

    def _send_object(self, request: Request, content: bytes, fault: str | None) -> None:
        headers = {"ETag": tag(content), "Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != headers["ETag"]:
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        if request.range is None or fault == "no ranges":
            self._send(200, content, headers, fault)
            return
        first, end = request.range
        if first >= len(content):
            self._send(416, b"")
            return
        end = min(end, len(content))
        if fault == "short":
            end = first + (end - first) // 2
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{len(content)}"
        body = memoryview(content)[first:end]
        with contextlib.suppress(ConnectionError if fault == "long" else ()):
            self._send(206, bytes(body) + bytes(1 << 25) if fault == "long" else body, headers, fault)

    def do_PUT(self) -> None:
        served = self.server_objects
        request = Request("PUT", self.path, self.headers)
        served.note(request)
        content = self._read_body()
        if (fault := served.fault(request)) is not None and fault.isdecimal():
            self._send(int(fault), b"<Error><Code>Fault</Code></Error>")
            return
        if "partNumber" in request.query:
            served.uploads[request.query["uploadId"]][int(request.query["partNumber"])] = content
        elif is_new(self.headers) and request.key in served.objects:
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        else:
            served.objects[request.key] = content
        self._send(200, b"", {"ETag": tag(content)})

    def do_POST(self) -> None:
        served = self.server_objects
        request = Request("POST", self.path, self.headers)
        served.note(request)
        body = self._read_body()
        if (fault := served.fault(request)) is not None and fault.isdecimal():
            self._send(int(fault), b"<Error><Code>Fault</Code></Error>")
            return
        if "delete" in request.query:
            keys = re.findall("<Key>(.*?)</Key>", body.decode())
            for key in keys:
                served.objects.pop(unescape(key), None)
            text = f"<DeleteResult>{''.join(f'<Deleted><Key>{key}</Key></Deleted>' for key in keys)}</DeleteResult>"
        elif "uploads" in request.query:
            upload = str(len(served.uploads) + 1)
            served.uploads[upload] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
        else:
            parts = served.uploads.pop(request.query["uploadId"])
            served.objects[request.key] = b"".join(parts[number] for number in sorted(parts))
            text = '<CompleteMultipartUploadResult><ETag>"made"</ETag></CompleteMultipartUploadResult>'
        self._send(200, text.encode())

    def do_DELETE(self) -> None:
        request = Request("DELETE", self.path, self.headers)
        self.server_objects.note(request)
        if "uploadId" in request.query:
            self.server_objects.uploads.pop(request.query["uploadId"], None)
        else:
            self.server_objects.objects.pop(request.key, None)
        self._send(204, b"")

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = _join_chunks(self.rfile)
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _join_chunks(io.BytesIO(body)) if "aws-chunked" in self.headers.get("Content-Encoding", "") else body

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None, fault: str | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "drop":
            content = content[: len(content) // 2]
            self.close_connection = True
        speed = self.server_objects.bytes_per_s
        begin = time.perf_counter()
        for at in range(0, len(content), PIECE):
            piece = content[at : at + PIECE]
            if fault == "wait" and at >= len(content) // 2:
                self.server_objects.go_on.wait()
            self.wfile.write(piece)
            if speed and (early := (at + len(piece)) / speed - (time.perf_counter() - begin)) > 0:
                time.sleep(early)
        self.server_objects.note_sent(len(content))


def _join_chunks(stream: Any) -> bytes:
    body = b""
    while size := int(stream.readline().partition(b";")[0], 16):
        body += stream.read(size)
        stream.readline()
    return body


def _list(served: ObjectServer, query: dict[str, str]) -> bytes:
    """A page of S3's ListObjectsV2, which GCS answers too."""
    objects = served.objects
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token", "")
    entries: dict[str, bytes | None] = {}
    for key in sorted(key for key in objects if key.startswith(prefix)):
        rest = key[len(prefix) :]
        if delimiter and delimiter in rest:
            entries[prefix + rest[: rest.index(delimiter) + 1]] = None
        else:
            entries[key] = objects[key]
    left = [name for name in entries if name > after]
    page, more = left[:PAGE], len(left) > PAGE
    rows = []
    for name in page:
        content = entries[name]
        if content is None:
            rows.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
        else:
            rows.append(
                f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size><ETag>{escape(served.list_tag(content))}</ETag>"
                "<LastModified>2026-11-02T10:00:00.000Z</LastModified></Contents>"
            )
    next_page = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    text = (
        f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{next_page}{''.join(rows)}</ListBucketResult>"
    )
    return text.encode()
