"""Paths in stores: URLs as text without secrets, together with the store that they lead to.

gs://bucket/key  gcs://…         s3://bucket/key  s3a://…         az://container/key
abfs[s]://container@account.dfs.core.windows.net/key              hdfs://host:port/key       http[s]://host/key
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from fastprof.errors import FastprofError, NotFoundError, UnreadableError, UsageError
from fastprof.inputs.stores.store_verbs import AbsentError, Level, RefusedError, Store, StoredObject, StoreError
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
_URL: Final = compile_late(r"(?:gs|gcs|s3|s3a|az|abfss?|hdfs|https?):/+")
_SINGLE_SLASH: Final = compile_late(r"([a-z0-9]+):/(?!/)")
_QUERY: Final = compile_late(r"\?[A-Za-z][\w.-]*=")
_KINDS: Final = {"gs": "GCSStore", "s3": "S3Store", "az": "AzureStore"}
_ALIASES: Final = {"gcs": "gs", "s3a": "s3", "abfs": "az", "abfss": "az"}
_REMOTE: Final = 'pip install "fastprof-arrow[remote]"'
Version = tuple[tuple[int, int], tuple[int, int, int], "StorePath"]
SIDE_BY_SIDE: Final = 16
"""Requests to stores at a time."""
_FRESH_S: Final = 2.0
"""Seconds for which a server of pages need not look at an object again."""


class OpenStore:
    """A store, and what was learnt of its objects lately. ``address``: the URL of its root, which ends with a slash.
    ``keeps``: fetched objects are kept for later sessions; not by other processes, which read each once."""

    def __init__(self, store: Store, address: str, keeps: bool = False) -> None:
        self.keeps = keeps
        self.verbs = store
        self.address = address
        self.known: dict[str, StoredObject] = {}
        """Objects by key, as they were when they were last listed or looked at."""
        self._looked: dict[str, tuple[float, StoredObject | None]] = {}
        self.opened: dict[str, Any] = {}
        """Files by key, of objects that were opened ahead."""
        self._levels: dict[str, Future[Level]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return OpenStore, (self.verbs, self.address)

    def list_ahead(self, prefixes: Iterable[str]) -> None:
        """List levels in the background, for ``take_level``."""
        with self._lock:
            for prefix in prefixes:
                if prefix not in self._levels:
                    self._levels[prefix] = get_pool().submit(self.verbs.list_level, prefix)

    def take_level(self, prefix: str) -> Level:
        """Return what is directly below a prefix; listed ahead it is used once. Raises StoreError."""
        with self._lock:
            coming = self._levels.pop(prefix, None)
        level = self.verbs.list_level(prefix) if coming is None else coming.result()
        self.known.update((prefix + name, about) for name, about in level.objects.items())
        return level

    def keep_level(self, prefix: str, level: Level) -> None:
        """Let the next ``take_level`` have a level that was listed just now."""
        from concurrent.futures import Future

        with self._lock:
            self._levels[prefix] = Future()
            self._levels[prefix].set_result(level)

    def stat_lately(self, key: str) -> StoredObject | None:
        """Return what the store had of an object within the last seconds, or None. One list serves all objects of a
        folder, as they are looked at together. Raises StoreError."""
        now = time.monotonic()
        since, about = self._looked.get(key, (0.0, None))
        if key in self._looked and now - since < _FRESH_S:
            return about
        if not self.verbs.can_list:
            self._looked[key] = now, self.stat(key)
        else:
            prefix = key[: key.rfind("/") + 1]
            objects = self.take_level(prefix).objects
            self._looked[key] = now, None
            self._looked |= {prefix + name: (now, about) for name, about in objects.items()}
        return self._looked[key][1]

    def stat(self, key: str) -> StoredObject | None:
        """Return what the store has of an object now, or None. Raises StoreError."""
        about = self.verbs.stat(key)
        if about is None:
            self.known.pop(key, None)
        else:
            self.known[key] = about
        return about


class StorePath(str):
    """The URL of an object or a folder, without its query and user. ``key``: its name in the store."""

    __slots__ = ("key", "store")

    store: OpenStore
    key: str

    def __new__(cls, text: str, store: OpenStore, key: str, known: StoredObject | None = None) -> StorePath:
        path = super().__new__(cls, text)
        path.store, path.key = store, key
        if known is not None:
            store.known.setdefault(key, known)
        return path

    def __reduce__(self) -> tuple[object, ...]:
        """Take along what is known of the object: another process must read this version."""
        return StorePath, (str(self), self.store, self.key, self.store.known.get(self.key))

    @property
    def name(self) -> str:
        return self.key.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> StorePath:
        return self._sibling(self.key.rstrip("/").rpartition("/")[0])

    @property
    def parts(self) -> tuple[str, ...]:
        """The root, then each part of the key."""
        return (self.store.address, *filter(None, self.key.split("/")))

    @property
    def prefix(self) -> str:
        """The beginning of all keys below this folder."""
        return f"{self.key.rstrip('/')}/" if self.key.strip("/") else ""

    def join(self, name: str) -> StorePath:  # type: ignore[override]
        """Return the path of an entry of this folder."""
        return self._sibling(self.prefix + name)

    def _sibling(self, key: str) -> StorePath:
        return StorePath(self.store.address + key, self.store, key)

    def call(self, verb: Callable[[], T]) -> T:
        """Return what a verb of the store returns; its failures as errors of this path."""
        try:
            return verb()
        except StoreError as error:
            raise explain_store_error(error, self) from None

    def look_up(self) -> StoredObject | Level | None:
        """Return the object, or the level of the folder; None if there is neither. A folder that is an object, too, is
        a folder, unless its name has a suffix."""
        if not self.store.verbs.can_list:
            return self.call(lambda: self.store.stat(self.key))
        if "." in self.name and not self.endswith("/") and (about := self.call(lambda: self.store.stat(self.key))):
            return about
        level = self.call(lambda: self.store.take_level(self.prefix))
        if level.objects or level.folders:
            self.store.keep_level(self.prefix, level)
            return level
        return None if "." in self.name or not self.key else self.call(lambda: self.store.stat(self.key))

    def find_version(self) -> Version | None:
        """Return the object as it is in the store now; None: there is none, or the store does not say."""
        try:
            about = self.store.stat_lately(self.key)
        except StoreError:
            return None
        return None if about is None else self.identify(about)

    def identify(self, about: StoredObject) -> Version:
        """Return place and version of an object in the form that ``open_files.find_file`` has for files."""
        import hashlib

        version = hashlib.blake2b(repr((str(self), about.version)).encode(), digest_size=8).digest()
        return (0, 0), (about.size, int.from_bytes(version) >> 1, int(about.changed_s * 1e9)), self


def explain_store_error(error: StoreError, path: StorePath, what: str = "") -> FastprofError:
    """Return the error of a path that the store refuses, has not, or could not answer for. ``what``: what was being
    done."""
    if isinstance(error, AbsentError):
        return NotFoundError("no such object", path=str(path))
    if isinstance(error, RefusedError):
        text = f"the store refuses access: {error}; credentials were looked for in: {path.store.verbs.credentials}"
        return UnreadableError(text, path=str(path))
    return UnreadableError(f"the store failed{what}: {error}", path=str(path))


def is_url(text: str) -> bool:
    """Return whether a text is the URL of a store that can be read. ``Path`` writes gs://bucket as gs:/bucket."""
    match = _URL.match(text)
    return match is not None and (match[0].endswith("://") or not os.path.lexists(match[0].rstrip("/")))


def make_store_path(
    text: str | os.PathLike[str], options: Mapping[str, Any] | None = None, filesystem: Any = None
) -> StorePath:
    """Return the path that a URL names. ``options``: of its store. ``filesystem``: a file system of pyarrow or fsspec,
    or a store of obstore, that has it; then ``text`` is a path in it, or a URL.

    UsageError: the URL has no bucket or has credentials, or an option is unknown.
    """
    url = os.fspath(text)
    if filesystem is not None:
        return _find_in_file_system(url, filesystem)
    url = _SINGLE_SLASH.sub(r"\1://", url)
    scheme, _, rest = url.partition("://")
    if scheme in ("http", "https"):
        return _find_on_server(url)
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if _QUERY.search(rest) or (at and (not scheme.startswith("abfs") or ":" in user)):
        text = "credentials in a URL are not accepted; give them in the environment or as storage_options"
        raise UsageError(text, path=f"{scheme}://…")
    bucket, _, key = rest.partition("/")
    if not bucket and scheme != "hdfs":
        raise UsageError("the URL has no bucket", path=url)
    kind = _ALIASES.get(scheme, scheme)
    more = {}
    container, _, account = bucket.partition("@")
    if account:
        more = {"azure_storage_account_name": account.partition(".")[0]}
    store: Store
    if kind in _KINDS and has_obstore():
        from fastprof.inputs.stores.object_stores import ObjectStore

        store = ObjectStore(_KINDS[kind], container, options or {}, more)
    else:
        from fastprof.inputs.stores.file_systems import ArrowStore, open_arrow_files

        given = dict(options or {}) | ({"account_name": account.partition(".")[0]} if account else {})
        store = ArrowStore(open_arrow_files(kind, bucket, given), "/" if kind == "hdfs" else f"{container}/")
    opened = OpenStore(store, f"{scheme}://{bucket}/", keeps=True)
    return StorePath(f"{scheme}://{bucket}/{key}", opened, key)


def bind_paths(what: Any, options: Mapping[str, Any] | None = None, filesystem: Any = None) -> Any:
    """Return what a user named, with URLs as paths in their stores. With ``filesystem`` all paths are in it.
    UsageError: options are given, but no URL."""
    items = what if isinstance(what, (list, tuple)) else [what]
    bound = []
    for item in items:
        is_path = isinstance(item, (str, os.PathLike)) and not isinstance(item, StorePath)
        if is_path and (filesystem is not None or is_url(os.fsdecode(item))):
            bound.append(make_store_path(os.fsdecode(item), options, filesystem))
        else:
            bound.append(item)
    if options and filesystem is not None:
        raise UsageError("storage_options belong to a URL; a file system has its own options")
    if (options or filesystem is not None) and not any(isinstance(item, StorePath) for item in bound):
        raise UsageError("storage_options and filesystem need the URL or path of a store")
    return bound if isinstance(what, (list, tuple)) else bound[0]


def has_obstore() -> bool:
    from importlib.util import find_spec

    return find_spec("obstore") is not None


def _find_on_server(url: str) -> StorePath:
    from fastprof.inputs.stores.http_server import HttpServer

    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        raise UsageError("the URL has no host", path=f"{parts.scheme}://…")
    address = urlunsplit((parts.scheme, host, "/", "", ""))
    key = quote(parts.path.removeprefix("/"), safe="/%:@!$&'()*+,;=~")
    return StorePath(address + key, OpenStore(HttpServer(address, user, parts.query), address), key)


def _find_in_file_system(text: str, filesystem: Any) -> StorePath:
    from fastprof.inputs.stores import file_systems

    scheme, mark, rest = text.partition("://")
    path = rest if mark else text
    if hasattr(filesystem, "get_file_info"):
        store: Store = file_systems.ArrowStore(filesystem, "/" if path.startswith("/") else "")
    elif hasattr(filesystem, "cat_file"):
        path = filesystem._strip_protocol(text)
        store = file_systems.FsspecStore(filesystem, "/" if path.startswith("/") else "")
    else:
        kind = type(filesystem).__name__
        raise UsageError(f"filesystem must be a file system of pyarrow or fsspec, not {kind}")
    address = f"{scheme}://" if mark else "/" if path.startswith("/") else ""
    key = path.lstrip("/")
    return StorePath(address + key, OpenStore(store, address), key)


@cache
def get_pool() -> ThreadPoolExecutor:
    """Return the threads that wait for stores."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="fastprof-store")


os.register_at_fork(after_in_child=get_pool.cache_clear)  # a forked process has none of the threads
