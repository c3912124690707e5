"""Captures in S3 by moto, in Azure by azurite, and in Google's stores by our server of their XML interface, are read,
served, analysed by workers and exported (``make test-engines``)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores.object_server import ObjectServer
from viewer.served import Served

import fastprof
from fastprof.cli.main import main
from fastprof.engines import processes
from fastprof.inputs.stores import store_path
from fastprof.inputs.stores.store_path import make_store_path

POD = Path(__file__).resolve().parent.parent.parent / "demo" / "pod"
AZURITE = shutil.which("azurite-blob")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of the emulator, which its documentation names."""


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket of moto."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    for name, value in {
        "ENDPOINT_URL": endpoint,
        "ALLOW_HTTP": "true",
        "ACCESS_KEY_ID": "any",
        "SECRET_ACCESS_KEY": "any",
        "REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    import boto3

    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket="runs")
    yield "s3://runs"
    urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()  # buckets outlive their server
    server.stop()


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty container of azurite."""
    if AZURITE is None:
        pytest.skip("azurite is not installed; make test-engines installs it")
    from pyarrow.fs import AzureFileSystem

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [AZURITE, "--skipApiVersionCheck", "--silent", "--location", str(tmp_path), "--blobPort", str(port)]
    process = subprocess.Popen(command, start_new_session=True)  # the Node of .venv is started by another process
    try:
        while not connects("127.0.0.1", port):
            assert process.poll() is None
            time.sleep(0.05)
        authority = {"blob_storage_authority": f"127.0.0.1:{port}", "blob_storage_scheme": "http"}
        AzureFileSystem(account_name=ACCOUNT, account_key=KEY, **authority).create_dir("runs")
        for name, value in {
            "STORAGE_ACCOUNT_NAME": ACCOUNT,
            "STORAGE_ACCOUNT_KEY": KEY,
            "ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
            "ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(f"AZURE_{name}", value)
        yield "az://runs"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # SIGTERM leaves it with open connections
        process.wait()


def connects(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0


@pytest.fixture
def gcs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the bucket of our server, which asks for no token."""
    with ObjectServer().serving() as address:
        account = {"gcs_base_url": address, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
        yield "gs://bucket"


def upload(url: str) -> None:
    """Put the captures below ``logs``. An object that is there is left alone."""
    for file in POD.rglob("*.xplane.pb"):
        path = make_store_path(f"{url}/logs/{file.relative_to(POD)}")
        assert path.store.verbs.put(path.key, file.read_bytes(), overwrite=False)
        assert not path.store.verbs.put(path.key, b"", overwrite=False)


def read_objects(url: str) -> dict[str, bytes]:
    """Return the objects below a URL by the rest of their key."""
    top = make_store_path(f"{url}/")
    verbs, found, left = top.store.verbs, dict[str, bytes](), [""]
    while left:
        prefix = left.pop()
        level = verbs.list_level(top.key + prefix)
        for name in level.objects:
            with verbs.open_reader(top.key + prefix + name) as stream:
                found[prefix + name] = stream.read()
        left += [f"{prefix}{folder}/" for folder in level.folders]
    return found


def check_reading(url: str) -> None:
    """Read a store in this process, in workers and in the viewer's server, and compare with a local file."""
    local, remote = fastprof.load(POD), fastprof.load(f"{url}/logs")
    assert remote.events.equals(local.events)
    assert [run.hosts for run in fastprof.runs(url)] == [["host0", "host1"]]
    by_workers = fastprof.load(f"{url}/logs", executor=processes(2))
    assert by_workers.report("steps").to_json() == local.report("steps").to_json()
    here, there = Served(POD), Served(f"{url}/logs")
    assert there.get("/api/runs")["runs"][0]["hosts"] == ["host0", "host1"]
    assert there.tracks() == here.tracks()
    assert there.get("/api/report/overview") == here.get("/api/report/overview")


def check_writing(url: str, tmp_path: Path) -> None:
    """A dataset has the bytes of a local one, and a run that is added again changes nothing; nor do workers matter."""
    fastprof.load(POD).to_parquet(tmp_path / "local", reports=["overview"])
    expected = {
        path.relative_to(tmp_path / "local").as_posix(): path.read_bytes()
        for path in (tmp_path / "local").rglob("*")
        if path.is_file()
    }
    for _ in range(2):
        fastprof.load(POD).to_parquet(f"{url}/out", reports=["overview"])
        assert read_objects(f"{url}/out") == expected
    fastprof.load(POD, executor=processes(2)).to_parquet(f"{url}/by-workers", reports=["overview"])
    assert read_objects(f"{url}/by-workers") == expected
    how = ["--all-runs", "--jobs", "2", "--reports", "overview", "-q"]
    assert main(["export", f"{url}/logs", "-o", f"{url}/copied", *how]) == 0
    copied = read_objects(f"{url}/copied")
    assert copied.keys() == expected.keys()
    events = next(name for name in expected if name.startswith("events/"))
    of_copy, of_local = (pq.read_table(pa.BufferReader(files[events])) for files in (copied, expected))
    assert of_copy.equals(of_local)  # not byte for byte: a file also says where its captures were


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("client", ["obstore", "pyarrow"])
def test_s3(client: str, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read with each client in this process; workers use the installed client."""
    monkeypatch.setattr(store_path, "has_obstore", lambda: client == "obstore")
    upload(s3)
    check_reading(s3)
    check_writing(s3, tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("client", ["obstore", "pyarrow"])
def test_a_large_object_is_uploaded_in_parts(client: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_path, "has_obstore", lambda: client == "obstore")
    path = make_store_path(f"{s3}/large")
    with path.store.verbs.open_writer(path.key) as writer:
        for _ in range(12):
            writer.write(bytes(1 << 20))
    about = path.look_up()
    assert getattr(about, "size", None) == 12 << 20
    path.store.verbs.delete(path.key)
    assert path.store.stat(path.key) is None


def test_azure(azure: str, tmp_path: Path) -> None:
    upload(azure)
    check_reading(azure)
    check_writing(azure, tmp_path)


def test_google_cloud_storage(gcs: str, tmp_path: Path) -> None:
    upload(gcs)
    check_reading(gcs)
    check_writing(gcs, tmp_path)
