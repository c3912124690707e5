"""Buckets of S3, Google Cloud Storage and Azure by obstore: ranges are guarded by ETags, objects are created only if
absent."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, BinaryIO, Final, TypeVar

from fastprof.errors import UsageError
from fastprof.inputs.stores.store_verbs import (
    PIECE,
    AbsentError,
    Level,
    OtherVersionError,
    RefusedError,
    StoredObject,
    StoreError,
)

T = TypeVar("T")
_CLIENT_ARGUMENTS: Final = ("client_options", "retry_config", "credential_provider")
"""Keys of ``storage_options`` that are arguments of the client; others are its configuration."""
_RETRIES: Final = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_PART: Final = 8 << 20
_CREDENTIALS: Final = {
    "S3Store": "storage_options, AWS_* variables, web identity, container and instance metadata",
    "GCSStore": "storage_options, GOOGLE_* variables, application default credentials, instance metadata",
    "AzureStore": "storage_options, AZURE_* variables, managed identity",
}
_USERS: Final = dict[str, int]()
"""The process that used obstore first; forked ones inherit this entry."""


class ObjectStore:
    """A bucket or container. ``kind``: the class of obstore; ``options``: what the user gave; ``more``: what follows
    from the URL. The client is made at first use, in each process."""

    can_list = True
    is_guarded = True

    def __init__(self, kind: str, bucket: str, options: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        self.credentials = _CREDENTIALS[kind]
        self._made_from = kind, bucket, dict(options), dict(more)
        self._made: Any = None

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectStore, self._made_from

    @property
    def client(self) -> Any:
        """The store of obstore. UsageError: an option is unknown, a package is missing, or a fork has ended the threads
        of obstore, so that it would wait forever."""
        if _USERS.setdefault("obstore", os.getpid()) != os.getpid():
            text = "forked processes cannot use obstore: spawn workers, as fastprof.engines.processes(N) does"
            raise UsageError(text)
        if self._made is None:
            self._made = self._make_client()
        return self._made

    def _make_client(self) -> Any:
        from obstore import exceptions, store

        kind, bucket, options, more = self._made_from
        rest = {name: options[name] for name in _CLIENT_ARGUMENTS if name in options}
        config = more | {name: value for name, value in options.items() if name not in (*_CLIENT_ARGUMENTS, "profile")}
        rest.setdefault("retry_config", _RETRIES)
        profile = options.get("profile")
        if not profile and not any(name in os.environ for name in ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE")):
            profile = None if config.keys() - more.keys() else os.environ.get("AWS_PROFILE")
        if kind == "S3Store" and profile:
            rest.setdefault("credential_provider", _make_profile_provider(profile))
        try:
            return getattr(store, kind)(bucket, config=config, **rest)
        except (exceptions.BaseError, TypeError, ValueError) as error:
            raise UsageError(f"storage_options: {StoreError(str(error))}") from None

    def stat(self, key: str) -> StoredObject | None:
        import obstore

        try:
            return _describe(self._call(lambda: obstore.head(self.client, key)))
        except AbsentError:
            return None

    def read(self, key: str, begin: int, end: int, version: str) -> Iterator[memoryview]:
        import obstore

        options: Any = {"range": (begin, end)} | ({"if_match": version} if version else {})
        pieces = self._call(lambda: iter(obstore.get(self.client, key, options=options).stream(min_chunk_size=PIECE)))
        while (piece := self._call(lambda: next(pieces, None))) is not None:
            yield memoryview(piece)

    @contextmanager
    def open_reader(self, key: str) -> Generator[BinaryIO]:
        import obstore

        yield self._call(lambda: io.BytesIO(obstore.get(self.client, key).bytes()))

    def list_level(self, prefix: str) -> Level:
        import obstore

        try:
            answer = self._call(lambda: obstore.list_with_delimiter(self.client, prefix))
        except StoreError as error:
            if "empty path segment" not in str(error):
                raise
            text = "keys here have an empty part (//), which obstore cannot list; name a folder below, or rename them"
            raise StoreError(text) from None
        skipped = len(prefix)
        folders = [folder[skipped:].rstrip("/") for folder in answer["common_prefixes"]]
        objects = {about["path"][skipped:]: _describe(about) for about in answer["objects"]}
        return Level({name: about for name, about in objects.items() if name}, [name for name in folders if name])

    def put(self, key: str, data: bytes, *, overwrite: bool) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            self._call(lambda: obstore.put(self.client, key, data, mode="overwrite" if overwrite else "create"))
        except AlreadyExistsError:
            return False
        return True

    @contextmanager
    def open_writer(self, key: str) -> Generator[BinaryIO]:
        import obstore
        from obstore import exceptions

        writer: Any = self._call(lambda: obstore.open_writer(self.client, key, buffer_size=_PART))
        try:
            yield writer
        except exceptions.BaseError as error:
            raise _explain_error(error) from None
        self._call(writer.close)  # without it the upload is aborted

    def delete(self, key: str) -> None:
        import obstore

        self._call(lambda: obstore.delete(self.client, key))

    def _call(self, function: Callable[[], T]) -> T:
        from obstore import exceptions

        try:
            return function()
        except (exceptions.AlreadyExistsError, UsageError):
            raise
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise _explain_error(error) from None


def _explain_error(error: Exception) -> StoreError:
    from obstore import exceptions

    if isinstance(error, FileNotFoundError):
        return AbsentError(str(error))
    if isinstance(error, exceptions.PreconditionError):
        return OtherVersionError(str(error))
    if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        return RefusedError(str(error))
    return StoreError(str(error))


def _describe(about: Any) -> StoredObject:
    tag = about["e_tag"] or ""
    if tag and not tag.startswith(('"', "W/")):  # as lists of Azure have it
        tag = f'"{tag}"'
    return StoredObject(about["size"], tag, about["last_modified"].timestamp())


def _make_profile_provider(profile: str) -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        text = 'named AWS profiles need boto3: pip install "fastprof-arrow[remote-aws]"'
        raise UsageError(text) from None
    try:
        return Boto3CredentialProvider(boto3.session.Session(profile_name=profile))
    except Exception as error:  # noqa: BLE001 - boto3 has a class for each fault of a profile
        raise UsageError(f"the AWS profile {profile!r} cannot be used: {StoreError(str(error))}") from None
