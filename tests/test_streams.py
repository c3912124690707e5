"""Whatever can be read from front to back: bytes, file objects and pipes give the tables of the file."""

from __future__ import annotations

import array
import gc
import gzip
import io
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from exported import capture
from trace_builder import event, len_field, line, plane, varint, xspace

import fastprof

ROOT = Path(__file__).resolve().parent.parent
DATA = capture(0, steps=40)
Check = Callable[..., None]


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


class Reader:
    """Gives at most ``most`` bytes a call, and only read() makes it a file."""

    def __init__(self, data: bytes, most: int, kind: Callable[[bytes], Any] = bytes) -> None:
        self.rest = io.BytesIO(data)
        self.most = most
        self.kind = kind

    def read(self, size: int) -> Any:
        assert size > 0, "reading everything at once takes memory"
        return self.kind(self.rest.read(min(size, self.most)))


class Generous(Reader):
    """Gives more than it is asked for."""

    def read(self, size: int) -> Any:
        return self.rest.read(max(size, self.most))


# ---- one capture, in every way ----------------------------------------------------------------------


@pytest.fixture
def feeding() -> Iterator[Callable[[Any, bytes], None]]:
    """feeding(file, data) writes into a pipe on a thread of its own, and closes it."""
    with ExitStack() as ended:

        def feed(to: Any, data: bytes) -> None:
            def write() -> None:
                with open(to, "wb") as file:  # noqa: PTH123 - may be a descriptor
                    file.write(data)

            thread = threading.Thread(target=write)
            thread.start()
            ended.callback(thread.join)

        yield feed


WAYS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memoryview of every second byte": lambda data: memoryview(bytes(b for byte in data for b in (byte, 0)))[::2],
    "memoryview of wide items": lambda data: memoryview(array.array("H", data + len_field(9, b"")[: len(data) % 2])),
    "BytesIO": io.BytesIO,
    "1 byte a read": lambda data: Reader(data, 1),
    "7 bytes a read": lambda data: Reader(data, 7),
    "64 bytes a read": lambda data: Reader(data, 64),
    "4,096 bytes a read": lambda data: Reader(data, 4096),
    "bytearrays": lambda data: Reader(data, 1000, bytearray),
    "memoryviews": lambda data: Reader(data, 1000, memoryview),
    "more than asked for": lambda data: Generous(data, 5000),
    "gzip": gzip.compress,
    "gzip, 1 byte a read": lambda data: Reader(gzip.compress(data), 1),
    "gzip, more than asked for": lambda data: Generous(gzip.compress(data), 5000),
    "gzip of many members": lambda data: b"".join(gzip.compress(data[i : i + 99]) for i in range(0, len(data), 99)),
    "gzip with empty members": lambda data: gzip.compress(b"") + gzip.compress(data) + gzip.compress(b""),
    "gzip without compression": lambda data: gzip.compress(data, 0),
    "zstd": zstd,
    "zstd, 7 bytes a read": lambda data: Reader(zstd(data), 7),
    "zstd of many frames": lambda data: b"".join(zstd(data[i : i + 99]) for i in range(0, len(data), 99)),
    "zstd with frames to skip": lambda data: b"\x50\x2a\x4d\x18\4\0\0\0skip" + zstd(data) + b"\x5f\x2a\x4d\x18\0\0\0\0",
}


EVEN = DATA + b"\x52\x00" * (len(DATA) % 2)


@pytest.fixture(scope="module")
def from_file(tmp_path_factory: pytest.TempPathFactory) -> fastprof.Profile:
    path = tmp_path_factory.mktemp("file") / "vm0.xplane.pb"
    path.write_bytes(EVEN)
    return fastprof.load(path, threads=1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_tables_of_the_file(
    way: str, threads: int, from_file: fastprof.Profile, check_same: Check
) -> None:
    profile = fastprof.load(WAYS[way](EVEN), threads=threads)
    check_same(profile.tables, from_file.tables)
    [host], [file] = profile.hosts.to_pylist(), from_file.hosts.to_pylist()
    assert host.pop("path") in ("<bytes>", "<stream>") and [file.pop("path")] == from_file.sources
    assert host == file and host["size_bytes"] == len(EVEN)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_files_and_pipes(
    pack: Callable[[bytes], bytes], tmp_path: Path, feeding: Callable[[Any, bytes], None], check_same: Check
) -> None:
    """The name does not say whether a file is compressed; its first bytes do."""
    expected = fastprof.load(DATA)
    packed = pack(DATA)
    for name in ("vm0.xplane.pb", "vm0.xplane.pb.gz", "vm0.pb"):
        (tmp_path / name).write_bytes(packed)
        check_same(fastprof.load(tmp_path / name).tables, expected.tables)
    for buffering in (0, 100, -1):
        with (tmp_path / "vm0.pb").open("rb", buffering=buffering) as file:
            assert fastprof.load(file).sources == [str(tmp_path / "vm0.pb")]
            file.seek(0)
            check_same(fastprof.load(file).tables, expected.tables)
            assert not file.closed and file.read(1) == b""
    for buffering in (0, -1):
        reader, writer = os.pipe()
        feeding(writer, packed)
        with open(reader, "rb", buffering=buffering) as file:  # noqa: PTH123
            check_same(fastprof.load(file).tables, expected.tables)
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    feeding(fifo, packed)
    check_same(fastprof.load(fifo).tables, expected.tables)
    reader, writer = os.pipe()
    feeding(writer, packed)
    check_same(fastprof.load(f"/dev/fd/{reader}").tables, expected.tables)
    os.close(reader)
    here, there = socket.socketpair()
    with here, there, here.makefile("rb") as file:
        feeding(there.detach(), packed)
        check_same(fastprof.load(file).tables, expected.tables)


def test_a_stream_is_read_from_where_it_stands(check_same: Check) -> None:
    stream = io.BytesIO(b"something before" + DATA)
    stream.seek(16)
    check_same(fastprof.load(stream).tables, fastprof.load(DATA).tables)


def test_several_streams_are_a_session() -> None:
    session = fastprof.load([io.BytesIO(capture(0)), Reader(gzip.compress(capture(1)), 99), capture(0)])
    assert session.hosts["host"].to_pylist() == ["vm0", "vm1", "vm0#2"]
    assert session.events.num_rows == 3 * fastprof.load(capture(0)).events.num_rows


def test_bytes_are_not_copied_and_are_let_go() -> None:
    data = bytearray(DATA)
    profile = fastprof.load(data)
    events = profile.events
    with pytest.raises(BufferError):
        data.clear()
    del profile
    gc.collect()
    data.clear()
    assert events.equals(fastprof.load(DATA).events)


# ---- readers that fail ------------------------------------------------------------------------------


class Failing(Reader):
    """Gives a third of its bytes, then raises, or ends early."""

    def __init__(self, data: bytes, then: Any) -> None:
        super().__init__(data, len(data) // 9)
        self.calls = 0
        self.then = then

    def read(self, size: int) -> Any:
        self.calls += 1
        if self.calls <= 3:
            return super().read(size)
        if isinstance(self.then, BaseException):
            raise self.then
        return self.then


REFUSED: list[tuple[Any, str]] = [
    (OSError(5, "Input/output error"), "<stream>: reading failed: Input/output error"),
    (TimeoutError("timed out"), "<stream>: reading failed: timed out"),
    (None, "<stream>: the file object is non-blocking; a blocking one is needed"),
    ("text", "<stream>: the file object returns text; open it in binary mode"),
    (5, "<stream>: the file object returns int, not bytes"),
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize(("then", "says"), REFUSED)
def test_a_reader_that_fails(pack: Callable[[bytes], bytes], then: Any, says: str) -> None:
    """No fault of the data, which salvage could keep; skip leaves that host out."""
    for mode in ("raise", "salvage", "skip"):
        with pytest.raises(fastprof.UnreadableError) as caught:
            fastprof.load(Failing(pack(DATA), then), on_error=mode)
        assert (str(caught.value), caught.value.path) == (says, "<stream>")
    both = fastprof.load([Failing(pack(DATA), then), DATA], on_error="skip")
    assert both.hosts["host"].to_pylist() == ["vm0"]
    [row] = [row for row in both.import_log.to_pylist() if row["severity"] == "error"]
    assert (row["code"], row["path"]) == ("skipped_host", "<stream>") and row["example"] in says


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("fault", [RuntimeError("mine"), ValueError("mine"), EOFError("mine"), KeyboardInterrupt()])
def test_what_a_reader_raises_of_its_own_goes_through(pack: Callable[[bytes], bytes], fault: BaseException) -> None:
    for mode in ("raise", "salvage", "skip"):
        with pytest.raises(type(fault)) as caught:
            fastprof.load([DATA, Failing(pack(DATA), fault)], on_error=mode)
        assert caught.value is fault


def test_streams_that_cannot_be_read(tmp_path: Path) -> None:
    closed = io.BytesIO(DATA)
    closed.close()
    with pytest.raises(fastprof.UnreadableError, match="the file object is closed"):
        fastprof.load(closed)
    with (tmp_path / "out").open("wb") as file, pytest.raises(fastprof.UnreadableError, match="reading failed"):
        fastprof.load(file)
    with (tmp_path / "out").open("r") as text, pytest.raises(fastprof.UsageError, match="open it as binary"):
        fastprof.load(text)  # type: ignore[arg-type]
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    waits_not = open(reader, "rb", buffering=0)  # noqa: PTH123, SIM115
    with waits_not, pytest.raises(fastprof.UnreadableError, match="is non-blocking"):
        fastprof.load(waits_not)
    os.close(writer)


# ---- damaged compression ----------------------------------------------------------------------------

PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd}


@pytest.mark.parametrize(
    ("codec", "trailing"),
    [("zstd", bytes(1)), ("zstd", bytes(512)), ("zstd", b"garbage behind it"), ("zstd", DATA), ("gzip", b"\x1f"),
     ("gzip", gzip.compress(DATA, mtime=0)[:9])],
)  # fmt: skip
def test_what_may_be_a_member_that_was_cut_off_is_an_error(
    codec: str, trailing: bytes, tmp_path: Path, check_same: Check
) -> None:
    """Salvage keeps what came before it."""
    path = tmp_path / "vm0.xplane.pb"
    path.write_bytes(PACKERS[codec](DATA) + trailing)
    with pytest.raises(fastprof.CaptureError, match=f"the {codec} data are damaged or cut off: ") as caught:
        fastprof.load(path)
    assert caught.value.path == str(path)
    profile = fastprof.load(path, on_error="salvage")
    check_same(profile.tables, fastprof.load(DATA).tables, but=("hosts", "import_log"))
    [row] = profile.import_log.to_pylist()
    assert (row["severity"], row["code"], row["count"], row["first_offset"], row["path"]) == (
        "data_loss", "damaged_stream", 1, len(DATA), str(path),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trailing", "severity"),
    [(bytes(1), "info"), (bytes(70_000), "info"), (b"garbage behind it", "data_loss"), (bytes(9) + DATA, "data_loss")],
)
def test_bytes_behind_gzip_that_begin_no_member_are_passed_over(
    trailing: bytes, severity: str, tmp_path: Path, check_same: Check
) -> None:
    """Writers to tapes and blocks pad with zeros."""
    path = tmp_path / "vm0.xplane.pb"
    path.write_bytes(gzip.compress(DATA[:50]) + gzip.compress(DATA[50:]) + trailing)
    for what in (path, io.BytesIO(path.read_bytes())):
        profile = fastprof.load(what)
        check_same(profile.tables, fastprof.load(DATA).tables, but=("hosts", "import_log"))
        [row] = profile.import_log.to_pylist()
        assert (row["severity"], row["code"], row["count"], row["first_offset"]) == (
            severity, "trailing_bytes", len(trailing), len(DATA),
        )  # fmt: skip


def noisy_capture() -> bytes:
    """A capture of several blocks of zstd, which are 128 KiB at most."""
    noise = random.Random(5)
    events = [event(f"e{i % 5}", i, 1, {"raw": noise.randbytes(2000), "i": i}) for i in range(300)]
    return xspace(plane("p", [line("l", events[:100]), line("m", events[100:])]), hostnames=["vm"])


@pytest.mark.parametrize("codec", PACKERS)
def test_truncated_compression_keeps_what_decompresses(codec: str, tmp_path: Path, check_same: Check) -> None:
    """To the last byte that zlib gives, or block that zstd gives; read on as an XSpace cut there."""
    data = noisy_capture()
    packed = PACKERS[codec](data)
    path, cut = tmp_path / "vm.xplane.pb", tmp_path / "cut" / "vm.xplane.pb"
    cut.parent.mkdir()
    for size in (len(packed) - 1, len(packed) - 30, len(packed) // 2, 150_000):
        path.write_bytes(packed[:size])
        for mode in ("raise", "skip"):
            with pytest.raises(fastprof.CaptureError) as caught:
                fastprof.load(path, on_error=mode)
            assert str(caught.value) == f"{path}: the {codec} data are damaged or cut off: Truncated compressed stream"
        profile = fastprof.load(path, on_error="salvage")
        damage = [row for row in profile.import_log.to_pylist() if row["code"] == "damaged_stream"]
        [kept] = [row["first_offset"] for row in damage]
        if codec == "gzip":
            assert kept == len(zlib.decompressobj(31).decompress(packed[:size]))
        else:
            assert size - kept < 1 << 18
        assert profile.hosts["size_bytes"].to_pylist() == [kept]
        cut.write_bytes(data[:kept])
        check_same(profile.tables, fastprof.load(cut, on_error="salvage").tables, but=("hosts", "import_log"))
        assert profile.events.num_rows > 30


@pytest.mark.parametrize("mode", ["raise", "skip", "salvage"])
@pytest.mark.parametrize(
    "packed", [gzip.compress(DATA, mtime=0)[:9], zstd(DATA)[:40], b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
)
def test_compressed_streams_cut_to_nothing(packed: bytes, mode: str) -> None:
    """It is said to be damaged, and not to be an empty capture."""
    with pytest.raises(fastprof.CaptureError, match=r"<bytes>: the (gzip|zstd) data are damaged or cut off"):
        fastprof.load(packed, on_error=mode)


# ---- temporary files --------------------------------------------------------------------------------


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many temporary files there are now, with a name or without."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("no /proc here that lists unnamed files")

    def count() -> int:
        gc.collect()
        held = [path for path in Path("/proc/self/fd").iterdir() if _target(path).startswith(str(folder))]
        mapped = [text for text in maps.read_text().splitlines() if str(folder) in text]
        return len(held) + len(mapped) + len(list(folder.iterdir()))

    return count


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""  # of listing the folder itself


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_temporary_files_go_with_the_profile(pack: Callable[[bytes], bytes], spools: Callable[[], int]) -> None:
    profile = fastprof.load(io.BytesIO(pack(DATA)))
    assert spools() > 0
    chosen = profile.select(names="step")
    batches = chosen.scan(["name"])
    assert next(batches).num_rows == 40
    events = chosen.events
    del profile, chosen
    assert spools() > 0
    del batches
    assert spools() == 0
    assert events["name"].to_pylist() == ["step"] * 40


def test_temporary_files_go_with_an_error(spools: Callable[[], int]) -> None:
    bad: list[Any] = [
        io.BytesIO(b"this is no capture"),
        io.BytesIO(b""),
        Failing(DATA, OSError(5, "Input/output error")),
        Failing(gzip.compress(DATA), RuntimeError("mine")),
        gzip.compress(DATA)[:-5],
        zstd(DATA)[:-5],
        io.BytesIO(DATA[:-3]),
        gzip.compress(DATA[:-3]),
        [io.BytesIO(DATA), io.BytesIO(DATA[:-3])],
    ]
    for what in bad:
        with pytest.raises((fastprof.FastprofError, RuntimeError)):
            fastprof.load(what)
        assert spools() == 0, what


def test_salvage_keeps_one_temporary_file(spools: Callable[[], int]) -> None:
    """The copy of the compressed data, kept to look at damage, is gone when loading ends."""
    plain, salvaged = fastprof.load(gzip.compress(DATA)), None
    alone = spools()
    del plain
    for packed in (gzip.compress(DATA), gzip.compress(DATA) + b"garbage"):
        salvaged = fastprof.load(packed, on_error="salvage")
        assert spools() == alone > 0
        del salvaged
    assert spools() == 0


def test_no_room_for_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    for what in (io.BytesIO(DATA), gzip.compress(DATA)):
        with pytest.raises(fastprof.UnreadableError, match=r"copying to a temporary file failed: No such .*TMPDIR"):
            fastprof.load(what)
    assert fastprof.load(DATA).events.num_rows > 0


BOMB = """\
import resource, sys
import fastprof
fastprof.load(b"\\n\\0").events
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[1], "rb") as file:
    profile = fastprof.load(file, on_error=sys.argv[2])
    print(profile.events.num_rows, profile.hosts["size_bytes"][0].as_py())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("mode", ["raise", "salvage"])
def test_what_swells_by_a_thousand_stays_on_disk(mode: str, tmp_path: Path) -> None:
    """256 MiB of zeros in a field that nobody knows, in a file of 300 kB: memory is that of a chunk."""
    zeros, times = 1 << 24, 16
    head = xspace(plane("p", [line("l", [event("e")])])) + b"\x7a" + varint(zeros * times)
    packed = gzip.compress(head) + times * gzip.compress(bytes(zeros)) + gzip.compress(xspace(plane("q")))
    (tmp_path / "bomb").write_bytes(packed)
    assert len(packed) < 300_000
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(tmp_path / "bomb"), mode],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows, size, grown = map(int, done.stdout.split())
    assert (rows, size) == (1, len(head) + zeros * times + len(xspace(plane("q"))))
    assert grown < 64 << 10, f"{grown} KiB"
    assert [path.name for path in tmp_path.iterdir()] == ["bomb"]
