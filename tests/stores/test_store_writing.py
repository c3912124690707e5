"""Writing to stores: objects are created once or replaced, large ones come in parts, and deleted ones are gone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from object_server import ObjectServer

from fastprof.inputs.stores import store_path
from fastprof.inputs.stores.store_path import StorePath, make_store_path


@pytest.fixture(params=["obstore", "pyarrow", "fsspec"])
def folder(
    request: pytest.FixtureRequest, server: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> StorePath:
    """A folder of a store by each client."""
    if request.param == "fsspec":
        import fsspec

        return make_store_path(str(tmp_path), filesystem=fsspec.filesystem("file"))
    monkeypatch.setattr(store_path, "has_obstore", lambda: request.param == "obstore")
    assert server.address
    return make_store_path("s3://bucket/out")


def test_an_object_is_created_once(folder: StorePath) -> None:
    verbs, key = folder.store.verbs, folder.join("runs/a.json").key
    assert verbs.put(key, b"first", overwrite=False)
    assert not verbs.put(key, b"second", overwrite=False)
    assert b"".join(verbs.read(key, 0, 5, "")) == b"first"
    assert verbs.put(key, b"third", overwrite=True)
    about = verbs.stat(key)
    assert about is not None and about.size == 5
    assert b"".join(verbs.read(key, 1, 3, about.version)) == b"hi"
    assert verbs.list_level(folder.prefix).folders == ["runs"]
    assert list(verbs.list_level(folder.join("runs").prefix).objects) == ["a.json"]
    verbs.delete(key)
    assert verbs.stat(key) is None


@pytest.mark.parametrize("client", ["pyarrow", "fsspec"])
def test_one_of_several_writers_creates_a_file(client: str, tmp_path: Path) -> None:
    import fsspec
    from pyarrow.fs import LocalFileSystem

    files = LocalFileSystem() if client == "pyarrow" else fsspec.filesystem("file")
    folder = make_store_path(str(tmp_path), filesystem=files)
    everybody = threading.Barrier(8)

    def put(writer: int) -> list[bool]:
        won = []
        for number in range(40):
            everybody.wait()
            key = folder.join(f"runs/{number}.json").key
            won.append(folder.store.verbs.put(key, b"%d" % writer, overwrite=False))
        return won

    with ThreadPoolExecutor(8) as pool:
        won = [*zip(*pool.map(put, range(8)), strict=True)]
    assert [sum(of_file) for of_file in won] == [1] * 40
    assert [int((tmp_path / "runs" / f"{number}.json").read_text()) for number in range(40)] == [
        of_file.index(True) for of_file in won
    ]
    assert len([*(tmp_path / "runs").iterdir()]) == 40


def test_fsspec_is_asked_to_create(tmp_path: Path) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    class Conditional(MemoryFileSystem):  # as s3fs and gcsfs do
        protocol = "conditional"
        asked: ClassVar[list[str]] = []

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> Any:
            self.asked.append(mode)
            return super().pipe_file(path, value, mode, **kwargs)

    class Old(MemoryFileSystem):
        protocol = "old"

        def pipe_file(self, path: str, value: bytes, **kwargs: Any) -> Any:
            if kwargs:
                raise TypeError("unexpected keyword argument")
            return super().pipe_file(path, value)

    for kind in (Conditional, Old):
        path = make_store_path(f"/{tmp_path.name}/{kind.protocol}.json", filesystem=kind())
        assert path.store.verbs.put(path.key, b"first", overwrite=False)
        assert not path.store.verbs.put(path.key, b"second", overwrite=False)
        assert b"".join(path.store.verbs.read(path.key, 0, 5, "")) == b"first"
    assert Conditional.asked == ["create", "create"]


def test_a_large_object_is_uploaded_in_parts(folder: StorePath) -> None:
    verbs, key = folder.store.verbs, folder.join("large.parquet").key
    piece = bytes(range(256)) * 4096
    with verbs.open_writer(key) as writer:
        for _ in range(20):
            writer.write(piece)
    about = verbs.stat(key)
    assert about is not None and about.size == 20 << 20
    assert b"".join(verbs.read(key, 255, 1025, "")) == piece[255:1025]


def test_an_upload_that_fails_leaves_no_object(server: ObjectServer) -> None:
    path = make_store_path("s3://bucket/out/broken.parquet")
    with pytest.raises(ZeroDivisionError), path.store.verbs.open_writer(path.key) as writer:
        writer.write(bytes(10 << 20))
        raise ZeroDivisionError
    assert path.key not in server.objects
