"""S3 as another project's server speaks it, and Azure's if azurite is installed (``make test-engines``)."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.engines import processes
from fastprof.inputs.stores import store_path
from fastprof.inputs.stores.store_path import make_store_path

LOGDIR = Path(__file__).resolve().parent.parent.parent / "demo" / "logdir"
AZURITE = shutil.which("azurite-blob")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of the emulator, which its documentation names."""


@pytest.fixture(params=["obstore", "pyarrow"])
def s3(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket, for each client."""
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "ENDPOINT_URL": f"http://{host}:{port}",
        "ALLOW_HTTP": "true",
        "ACCESS_KEY_ID": "any",
        "SECRET_ACCESS_KEY": "any",
        "REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(store_path, "has_obstore", lambda: request.param == "obstore")
    import boto3

    boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1").create_bucket(
        Bucket=request.param
    )
    yield f"s3://{request.param}"
    server.stop()


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Options of a store with an empty container ``runs``."""
    if AZURITE is None:
        pytest.skip("azurite is not installed")
    command = [AZURITE, "--skipApiVersionCheck", "--silent", "--location", str(tmp_path), "--blobPort", "10010"]
    from pyarrow.fs import AzureFileSystem

    process = subprocess.Popen(command)
    authority = {"blob_storage_authority": "127.0.0.1:10010", "blob_storage_scheme": "http"}
    files = AzureFileSystem(account_name=ACCOUNT, account_key=KEY, **authority)
    while not connects("127.0.0.1", 10010):
        assert process.poll() is None
    files.create_dir("runs")
    endpoint = f"http://127.0.0.1:10010/{ACCOUNT}"
    yield {"account_name": ACCOUNT, "account_key": KEY, "endpoint": endpoint, "client_options": {"allow_http": True}}
    process.terminate()
    process.wait()


def connects(host: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((host, port)) == 0


def upload(url: str, **options: Any) -> None:
    for file in LOGDIR.rglob("*.xplane.pb"):
        path = make_store_path(f"{url}/logs/{file.relative_to(LOGDIR)}", **options)
        assert path.store.verbs.put(path.key, file.read_bytes(), overwrite=False)
        assert not path.store.verbs.put(path.key, b"", overwrite=False)


def check(url: str, **options: Any) -> None:
    local = fastprof.load(LOGDIR)
    remote = fastprof.load(f"{url}/logs", **options)
    assert remote.events.equals(local.events)
    assert [run.hosts for run in fastprof.runs(url, **options)] == [["vm"]]
    there = fastprof.load(f"{url}/logs", executor=processes(2), **options).report("steps")
    assert there.to_json() == local.report("steps").to_json()


@pytest.mark.filterwarnings("ignore")
def test_s3_is_read_and_written(s3: str) -> None:
    upload(s3)
    check(s3)
    path = make_store_path(f"{s3}/large")
    with path.store.verbs.open_writer(path.key) as writer:
        for _ in range(12):
            writer.write(bytes(1 << 20))
    about = path.look_up()
    assert getattr(about, "size", None) == 12 << 20
    path.store.verbs.delete(path.key)
    assert path.store.stat(path.key) is None


def test_azure_is_read_and_written(azure: dict[str, Any]) -> None:
    upload("az://runs", options=azure)
    check("az://runs", storage_options=azure)
