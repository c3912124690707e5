"""Stores behind file systems of pyarrow and fsspec. Few of them can read a given version of a file, so versions are
compared after reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Final, TypeVar
from urllib.parse import urlsplit

from fastprof.errors import UsageError
from fastprof.inputs.stores.store_verbs import (
    AbsentError,
    Level,
    RefusedError,
    Store,
    StoredObject,
    StoreError,
)

T = TypeVar("T")
_S3_NAMES: Final = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "token": "session_token",
    "endpoint": "endpoint_override",
    "endpoint_url": "endpoint_override",
    "skip_signature": "anonymous",
}
"""Options of obstore, without ``aws_``, as pyarrow calls them."""
_GCS_SECONDS: Final = 60
_WITHOUT_FOLDERS: Final = ("s3", "gcs", "abfs")
"""Stores where pyarrow would make an object for each folder."""


class _FileSystem(Store):
    """A file system. ``root``: prefix of keys, such as a bucket."""

    can_list = True
    is_guarded = False

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root

    def put(self, key: str, data: bytes, *, overwrite: bool) -> bool:
        if not overwrite:
            created = self._create(key, data)
            if created is not None:
                return created
            if self.stat(key) is not None:  # another writer may still create it first
                return False
        with self.open_writer(key) as writer:
            writer.write(data)
        return True

    def _create(self, key: str, data: bytes) -> bool | None:
        """Create a file atomically, and return whether this writer created it; None if the file system cannot."""
        if not self._is_local:
            return None
        folder, _, name = key.rpartition("/")
        hidden = f"{folder}/.{name}.{os.urandom(6).hex()}.partial"
        with self.open_writer(hidden) as writer:
            writer.write(data)
        try:
            os.link(self._root + hidden, self._root + key)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            return None
        finally:
            self.delete(hidden)
        return True

    @property
    def _is_local(self) -> bool:
        """Return whether the files are local."""
        raise NotImplementedError


class ArrowStore(_FileSystem):
    """A file system of pyarrow."""

    credentials = "the environment and the configuration files of the store's SDK"

    def stat(self, key: str) -> StoredObject | None:
        from pyarrow.fs import FileType

        about = _call(lambda: self._files.get_file_info(self._root + key))
        return _describe_arrow_file(about) if about.type == FileType.File else None

    def read(self, key: str, begin: int, end: int, version: str) -> Iterator[memoryview]:  # noqa: ARG002
        def read() -> memoryview:
            with self._files.open_input_file(self._root + key) as file:
                return memoryview(file.read_at(end - begin, begin))

        yield _call(read)

    @contextmanager
    def open_reader(self, key: str) -> Generator[BinaryIO]:
        with _call(lambda: self._files.open_input_stream(self._root + key)) as stream:
            yield stream

    @property
    def _is_local(self) -> bool:
        return bool(self._files.type_name == "local")

    def list_level(self, prefix: str) -> Level:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector((self._root + prefix).rstrip("/"), allow_not_found=True)
        objects, folders = dict[str, StoredObject](), list[str]()
        for about in _call(lambda: self._files.get_file_info(selector)):
            if about.type == FileType.Directory:
                folders.append(about.base_name)
            elif about.type == FileType.File and about.base_name:
                objects[about.base_name] = _describe_arrow_file(about)
        return Level(objects, folders)

    @contextmanager
    def open_writer(self, key: str) -> Generator[BinaryIO]:
        if self._files.type_name not in _WITHOUT_FOLDERS:
            with suppress(NotImplementedError, OSError):
                self._files.create_dir((self._root + key).rpartition("/")[0], recursive=True)
        stream = _call(lambda: self._files.open_output_stream(self._root + key))
        with _complete_or_delete(stream, lambda: self.delete(key)):
            yield stream

    def delete(self, key: str) -> None:
        _call(lambda: self._files.delete_file(self._root + key))


class FsspecStore(_FileSystem):
    """A file system of fsspec."""

    credentials = "those of the file system that was given"

    def stat(self, key: str) -> StoredObject | None:
        try:
            about = _call(lambda: self._files.info(self._root + key))
        except AbsentError:
            return None
        return _describe_fsspec_file(about) if about["type"] == "file" else None

    def read(self, key: str, begin: int, end: int, version: str) -> Iterator[bytes]:  # noqa: ARG002
        yield bytes(_call(lambda: self._files.cat_file(self._root + key, start=begin, end=end)))

    @contextmanager
    def open_reader(self, key: str) -> Generator[BinaryIO]:
        with _call(lambda: self._files.open(self._root + key, "rb")) as stream:
            yield stream

    @property
    def _is_local(self) -> bool:
        return "file" in self._files.protocol

    def _create(self, key: str, data: bytes) -> bool | None:
        """Create a local file by a link, and others by the mode "create", which s3fs and gcsfs have. None if the file
        system cannot."""
        if self._is_local:
            return super()._create(key, data)
        self._make_folder(key)
        try:
            self._files.pipe_file(self._root + key, data, mode="create")
        except FileExistsError:
            return False
        except (TypeError, ValueError, NotImplementedError):
            return None
        except OSError as error:
            raise StoreError(str(error)) from None
        return True

    def _make_folder(self, key: str) -> None:
        with suppress(NotImplementedError, OSError):
            self._files.makedirs((self._root + key).rpartition("/")[0], exist_ok=True)

    def list_level(self, prefix: str) -> Level:
        try:
            entries = _call(lambda: self._files.ls((self._root + prefix).rstrip("/"), detail=True, refresh=True))
        except AbsentError:
            return Level({}, [])
        objects, folders = dict[str, StoredObject](), list[str]()
        for about in entries:
            name = about["name"].rstrip("/").rpartition("/")[2]
            if about["type"] == "directory":
                folders.append(name)
            elif not about["name"].endswith("/") and name:
                objects[name] = _describe_fsspec_file(about)
        return Level(objects, folders)

    @contextmanager
    def open_writer(self, key: str) -> Generator[BinaryIO]:
        self._make_folder(key)
        stream = _call(lambda: self._files.open(self._root + key, "wb"))
        with _complete_or_delete(stream, lambda: self.delete(key)):
            yield stream

    def delete(self, key: str) -> None:
        _call(lambda: self._files.rm_file(self._root + key))


@contextmanager
def _complete_or_delete(stream: Any, delete: Callable[[], None]) -> Generator[None]:
    """Close a stream, which completes the object; or delete the object if the block fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError, StoreError):
            stream.close()
        with suppress(StoreError):
            delete()
        raise
    _call(stream.close)


def open_arrow_files(scheme: str, bucket: str, options: Mapping[str, Any]) -> Any:
    """Return the file system of pyarrow for a bucket. UsageError: pyarrow has none of this kind, or an option is
    unknown."""
    from pyarrow import fs

    host, _, port = bucket.partition(":")
    plain = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    makers: dict[str, Callable[[], Any]] = {
        "s3": lambda: fs.S3FileSystem(**_make_s3_options(plain)),
        "gs": lambda: fs.GcsFileSystem(**{"retry_time_limit": timedelta(seconds=_GCS_SECONDS)} | plain),
        "az": lambda: fs.AzureFileSystem(**{"account_name": os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")} | plain),
        "hdfs": lambda: fs.HadoopFileSystem(host or "default", **{"port": int(port or 0)} | plain),
    }
    try:
        return makers[scheme]()
    except (AttributeError, ImportError):
        text = f'this pyarrow cannot read {scheme}://; pip install "fastprof-arrow[remote]" adds a client'
        raise UsageError(text) from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"storage_options: {StoreError(str(error))}") from None
    except OSError as error:
        raise UsageError(f"{scheme}:// cannot be opened: {StoreError(str(error))}") from None


def _make_s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for pyarrow; where none is given, those of the environment that its SDK does not read."""
    given = {_S3_NAMES.get(name, name): value for name, value in options.items()}
    usual = {
        "endpoint_override": os.environ.get("AWS_ENDPOINT_URL"),
        "region": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        "anonymous": os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("true", "1"),
    }
    given = {name: value for name, value in usual.items() if value} | given
    given["anonymous"] = str(given.get("anonymous", False)).lower() in ("true", "1")
    given.pop("allow_http", None)
    if endpoint := given.get("endpoint_override"):
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        given |= {"endpoint_override": parts.netloc, "scheme": given.get("scheme", parts.scheme)}
    return given


def _describe_arrow_file(about: Any) -> StoredObject:
    changed = about.mtime.timestamp() if about.mtime is not None else 0.0
    return StoredObject(about.size or 0, f"{about.size}-{int(changed)}", changed)  # lists may have finer times


_VERSIONS: Final = ("ETag", "etag", "md5Hash", "generation", "version_id", "content_md5")
_TIMES: Final = ("mtime", "LastModified", "last_modified", "updated", "created")


def _describe_fsspec_file(about: Mapping[str, Any]) -> StoredObject:
    time = next((about[name] for name in _TIMES if about.get(name)), 0.0)
    if isinstance(time, str):
        with suppress(ValueError):
            time = datetime.fromisoformat(time)
    changed = time.timestamp() if isinstance(time, datetime) else time if isinstance(time, (int, float)) else 0.0
    tag = next((str(about[name]) for name in _VERSIONS if about.get(name)), "")
    return StoredObject(int(about["size"] or 0), tag or f"{about['size']}-{int(changed)}", changed)


def _call(function: Callable[[], T]) -> T:
    try:
        return function()
    except FileNotFoundError as error:
        raise AbsentError(str(error)) from None
    except PermissionError as error:
        raise RefusedError(str(error)) from None
    except OSError as error:
        text = str(error)
        is_refused = any(word in text for word in ("ACCESS_DENIED", "HTTP status 403", "HTTP status 401", "Forbidden"))
        raise (RefusedError if is_refused else StoreError)(text) from None
