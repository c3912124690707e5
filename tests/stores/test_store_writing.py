"""Writing to stores: objects are created once or replaced, large ones come in parts, and deleted ones are gone."""

from __future__ import annotations

from pathlib import Path

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
