"""Files of other formats are refused by the name of the format, with what shows them; JSON in UTF-16 is read."""

from __future__ import annotations

import cProfile
import gzip
import io
import json
import marshal
import pickle
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gate import rounds
from trace_builder import event, int_field, len_field, line, plane, xspace

import fastprof
from fastprof.errors import CaptureError, NotFoundError
from fastprof.schema.message_fields import put

_SHAPES = {"traceEvents": [{"ph": "X", "name": "a ✓", "pid": 1, "tid": 2, "ts": 3, "dur": 4}]}


def _statistics() -> bytes:
    profile = cProfile.Profile()
    profile.runcall(sorted, [2, 1])
    profile.create_stats()
    return marshal.dumps(profile.stats)  # type: ignore[attr-defined]


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    target = io.BytesIO()
    save(target)
    return target.getvalue()


def _zipped(target: io.BytesIO) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("model/data.pkl", b"content")


def _packet(*fields: bytes) -> bytes:
    return len_field(1, b"".join(fields))


FOREIGN = {
    "a pickle, such as a memory snapshot": pickle.dumps({"segments": [], "device_traces": []}),
    "a pickle, such as a memory snapshot of PyTorch": pickle.dumps([1, 2], protocol=2),
    "statistics of cProfile": _statistics(),
    "arrays of NumPy (.npz)": _saved(lambda target: np.savez(target, a=np.arange(3))),
    "an array of NumPy (.npy)": _saved(lambda target: np.save(target, np.arange(3))),
    "a ZIP archive": _saved(_zipped),
    "a Parquet file": _saved(lambda target: pq.write_table(pa.table({"a": [1]}), target)),
    "an executable or a library": Path(sys.executable).resolve().read_bytes()[:4096],
    "a report of Nsight Compute": b"NVR\0" + bytes(100),
    "a recording of Linux perf": b"PERFILE2" + bytes(100),
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "a model in ONNX": int_field(1, 7) + len_field(2, "pytorch"),
    "a report of Nsight Systems": b"NVIDIA Tegra Profiler Report 1" + bytes(100),
    "a trace of Perfetto": _packet(int_field(8, 5), int_field(10, 1)) * 3,
    "a trace of Perfetto in protobuf": _packet(len_field(50, b"\x78\x9c" + bytes(2_000))),
    "format of pprof": len_field(1, int_field(1, 1) + int_field(2, 2)) + len_field(2, int_field(1, 1)),
    "format of pprof, such as": gzip.compress(
        int_field(9, 1_700_000_000) + len_field(1, int_field(1, 1) + int_field(2, 2)) + len_field(6, b"")
    ),
    "a CPU profile of gperftools": bytes(8) + b"\x03" + bytes(15) + b"\x10\x27" + bytes(64),
    "a table in CSV, such as rocprof": b'"Domain","Function","Process_Id","Thread_Id"\n"HIP_API","hipMalloc",1,2\n',
    "a table in CSV, such as rocprof and `nsys stats`": b"Time (%),Total Time (ns),Count,Name\n1.5,20,3,a\n",
    "the results of rocprofv3": json.dumps({"rocprofiler-sdk-tool": [{"metadata": {}, "buffer_records": {}}]}).encode(),
    "a profile in the format of speedscope": json.dumps(
        {"$schema": "https://a", "shared": {}, "profiles": []}
    ).encode(),
    "a CPU profile of V8": json.dumps({"nodes": [], "startTime": 1, "endTime": 2, "samples": []}).encode(),
    "an execution trace of PyTorch": json.dumps({"schema": "1.1.1", "pid": 3, "time": "x", "nodes": []}).encode(),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("on_error", ["raise", "salvage"])
def test_a_file_of_another_format_is_refused_by_its_name(name: str, on_error: str, tmp_path: Path) -> None:
    path = tmp_path / "given.data"
    path.write_bytes(FOREIGN[name])
    with pytest.raises(CaptureError) as caught:
        fastprof.load(path, on_error=on_error)
    assert name in str(caught.value)
    assert str(caught.value).count("the file") == 1
    assert not caught.value.salvageable


def test_a_database_is_refused_by_its_name(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "report.sqlite") as database:
        database.execute("create table a (b)")
    with pytest.raises(CaptureError, match="an SQLite database"):
        fastprof.load(tmp_path / "report.sqlite")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_json_in_utf_16_is_read(encoding: str, size: int) -> None:
    """Python writes the mark of the order of bytes for ``utf-16`` only."""
    text = json.dumps(_SHAPES, ensure_ascii=False)
    data = text.encode(encoding) if encoding == "utf-16" else ("\ufeff" + text).encode(encoding)

    class Chunks(io.RawIOBase):
        inner = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def read(self, most: int = -1) -> bytes:
            return self.inner.read(size if most < 0 else min(size, most))

    profile = fastprof.load(Chunks())
    assert profile.events["name"].to_pylist() == ["a ✓"]
    assert "utf_16" in profile.import_log["code"].to_pylist()


@pytest.mark.parametrize("data", [b"\xff", b"\xfe", b"\xff\xfe", b"\xff\xfe{", b"\xff\xfe{\x00\x00\xd8"])
def test_cut_utf_16_is_an_error(data: bytes) -> None:
    with pytest.raises(CaptureError):
        fastprof.load(data)


_NAME, _NUMBER = "hunter2", 7355608
_QUOTED = {
    "XSpace": xspace(plane(_NAME, [line(_NAME, [event(_NAME, _NUMBER, 1, stats={_NAME: _NUMBER})])])),
    "Chrome": b'{"traceEvents": [{"ph": "X", "name": "%s", "pid": %d, "tid": "%s", "ts": %d, "args": {"%s": 1}}]}'
    % (_NAME.encode(), _NUMBER, _NAME.encode(), _NUMBER, _NAME.encode()),
    "GraphDef": put(1, put(1, _NAME) + put(2, _NAME) + put(3, _NAME) + put(5, put(1, _NAME) + put(2, put(3, _NUMBER)))),
    "GraphDef as text": b'node { name: "%s" op: "%s" input: "%s" attr { key: "%s" value { i: %d } } }'
    % (*[_NAME.encode()] * 4, _NUMBER),
    "ProfileProto": put(1, put(1, 4) + put(2, put(1, _NAME) + put(2, put(1, 0) + put(2, _NUMBER)))),
    "RunMetadata": put(1, put(1, put(1, "/cpu:0") + put(2, put(1, _NAME) + put(2, _NUMBER) + put(8, _NAME)))),
    "RunMetadata as text": b'step_stats { dev_stats { device: "/cpu:0" node_stats { node_name: "%s" '
    b"all_start_micros: %d } } }" % (_NAME.encode(), _NUMBER),
}


@pytest.mark.parametrize("form", _QUOTED)
def test_an_error_quotes_no_name_and_no_number_of_the_file(form: str) -> None:
    """Errors are shown over HTTP, and a link in a log directory may lead to any file."""
    said = set()
    for at in range(0, len(_QUOTED[form]), rounds(1, 4)):
        for damaged in (_QUOTED[form][:at], _QUOTED[form][:at] + b"\x7f}" + _QUOTED[form][at + 2 :]):
            for on_error in ("raise", "salvage"):
                try:
                    loaded = fastprof.load(damaged, on_error=on_error)
                    assert (loaded.events.num_rows, loaded.tfprof_nodes.num_rows) >= (0, 0)
                except CaptureError as error:
                    said.add(str(error))
    assert said and not [text for text in said if _NAME[:4] in text or str(_NUMBER)[:4] in text.replace(",", "")]


def test_an_export_of_fastprof_is_named(tmp_path: Path) -> None:
    fastprof.load(Path(__file__).resolve().parents[1] / "demo" / "xla").to_parquet(tmp_path / "out", tables=["planes"])
    with pytest.raises(NotFoundError, match="an export of fastprof, not captures: `fastprof sql`"):
        fastprof.load(tmp_path / "out")
