"""The manifests of a dataset: which runs are in it, and how several writers share it.

_fastprof/format.json         layout and schema version, put once
_fastprof/begun/RUN_ID.json   who writes the run, deleted at the end
_fastprof/runs/RUN_ID.json    the manifest of a run, put last: without it, files are no run
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from fastprof._version import __version__
from fastprof.errors import OutputError
from fastprof.export.dataset_files import RunFiles, WrittenFile
from fastprof.export.destinations import Destination
from fastprof.export.hive import encode_folder_value
from fastprof.export.host_names import shorten_path_part
from fastprof.schema.tables import VERSION
from fastprof.schema.value_classes import dataclass

LAYOUT: Final = 1
_FORMAT: Final = "_fastprof/format.json"
_CURRENT: Final[dict[str, Any]] = {"layout": LAYOUT, "schema_version": VERSION}
_ATTEMPTS: Final = 100


def check_format(destination: Destination) -> None:
    """Check that a destination is a dataset, or empty. OutputError: it holds something else, or is of a newer
    version."""
    known = read_document(destination, _FORMAT)
    if known is None:
        for name in destination.list(""):
            if not name.startswith("_fastprof/") and destination.read(_FORMAT) is None:
                text = f"contains {name!r} and is not a dataset; give an empty or new folder, or use --layout paths"
                raise OutputError(text, path=destination.place)
        known = read_document(destination, _FORMAT) or _CURRENT
    layout, schema = known.get("layout"), known.get("schema_version")
    if not isinstance(layout, int) or not str(schema).isdecimal():
        raise OutputError(f"{_FORMAT} is damaged", path=destination.place)
    if layout > LAYOUT or int(str(schema)) > int(VERSION):
        text = f"has layout {layout} and schema {schema}, newer than this fastprof's {LAYOUT} and {VERSION}; update it"
        raise OutputError(text, path=destination.place)


def has_run(destination: Destination, name: str, path: str) -> bool:
    """Return whether the dataset has a run of this name from this folder, whatever its content. False while it is
    written, or if its writer was killed."""
    run = shorten_path_part(name)
    manifest = read_document(destination, name_manifest(run))
    return manifest is not None and manifest.get("path") == path and destination.read(name_claim(run)) is None


def read_document(destination: Destination, name: str) -> dict[str, Any] | None:
    """Return a JSON object, None if there is none. OutputError: it is damaged."""
    data = destination.read(name)
    if data is None:
        return None
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise OutputError(f"{name} is damaged", path=destination.place)
    return document


def encode_document(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def digest_values(values: Any) -> str:
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RunContent:
    """Origin of a dataset run. ``path``: log directory of the captures; ``content``: digest of the captures;
    ``settings``: tables and filters of the export."""

    name: str
    path: str
    content: str
    settings: Mapping[str, Any]

    @property
    def work(self) -> str:
        """Digest of all that the bytes of files follow from."""
        return digest_values([self.content, self.settings, VERSION, __version__])


class RunWriter:
    """Adds a run. ``files``: where its files are; None: it is there, and nothing is to do. ``old``: the manifest that
    is replaced."""

    def __init__(self, destination: Destination, content: RunContent, tables: Sequence[str], replace: bool) -> None:
        """``tables``: that may be written. OutputError: the run is there with other content, unless ``replace``."""
        self.destination = destination
        self.content = content
        self.tables = tables
        self.old: dict[str, Any] | None = None
        self.files: RunFiles | None = None
        self.is_taken_over = False
        short = shorten_path_part(content.name)
        for self.run in (short, f"{short}~{content.content[:8]}"):
            if self._begin(replace):
                if self.files is not None:  # after the claim, so that the next writer knows what may be left
                    destination.put_new(_FORMAT, encode_document(_CURRENT))
                return
        raise OutputError(f"other writers keep the run {self.run!r} busy", path=destination.place)

    def _begin(self, replace: bool) -> bool:
        """Return whether the run has this id, which another run of the same name may have."""
        for _ in range(_ATTEMPTS):
            manifest = read_document(self.destination, name_manifest(self.run))
            if manifest is not None and manifest.get("content") == self.content.content:
                if manifest.get("settings") == self.content.settings:
                    self._finish(manifest)
                    return True
                self._replace(manifest, "tables, reports or filters", replace)
                return True
            if manifest is not None and manifest.get("path") != self.content.path:
                return False
            if manifest is not None:
                self._replace(manifest, "captures", replace)
                return True
            claim = {"work": self.content.work, "path": self.content.path, "tables": [*self.tables]}
            if self.destination.put_new(self._claim, encode_document(claim)):
                if self.destination.read(name_manifest(self.run)) is None:
                    self._name_files()
                    return True
                self.destination.delete(self._claim)
                continue  # it was added in the meantime
            other = read_document(self.destination, self._claim)
            if other is None:
                continue  # it was added in the meantime
            if other.get("work") == self.content.work:
                self._take_over(claim, other, "")
                return True
            if other.get("path") != self.content.path:
                return False
            self._take_over(claim, other, f".{self.content.work[:8]}")
            return True
        return False

    def _name_files(self, suffix: str = "") -> None:
        self.files = RunFiles(self.destination, self.run, suffix, self.content.settings["flat"])

    @property
    def _claim(self) -> str:
        return name_claim(self.run)

    def _replace(self, manifest: dict[str, Any], what: str, replace: bool) -> None:
        if not replace:
            text = f"has the run {self.run!r} with other {what}; replace it with --replace"
            raise OutputError(text, path=self.destination.place)
        self.old = manifest
        self.tables = sorted({*self.tables, *(file["table"] for file in manifest.get("files", ()))})
        claim = {"work": self.content.work, "path": self.content.path, "tables": self.tables}
        self._take_over(claim, read_document(self.destination, self._claim) or {}, f".{self.content.work[:8]}")

    def _take_over(self, claim: dict[str, Any], other: Mapping[str, Any], suffix: str) -> None:
        """Go on after, or beside, another writer of the run. ``suffix``: of files, unless they are the same."""
        self.is_taken_over = True
        self.tables = sorted({*self.tables, *other.get("tables", ())})
        self.destination.put(self._claim, encode_document(claim | {"tables": self.tables}))
        self._name_files(suffix)

    def _finish(self, manifest: Mapping[str, Any]) -> None:
        """Clean up after a writer that was killed when it had put the manifest."""
        claim = read_document(self.destination, self._claim)
        if claim is not None and claim.get("work") == manifest.get("work"):
            self._take_over(claim, claim, "")
            self._clean(manifest)
            self.files = None

    def commit(self, files: Iterable[WrittenFile], about: Mapping[str, Any]) -> None:
        """Put the manifest, then delete what it does not list. OutputError: another writer was first, with other
        content."""
        written = [{name: getattr(file, name) for name in WrittenFile.__slots__} for file in files]
        document = {
            "run": self.run, "name": self.content.name, "path": self.content.path, "content": self.content.content,
            "settings": self.content.settings, "layout": LAYOUT, "schema_version": VERSION, "fastprof": __version__,
            "work": self.content.work, **about, "files": sorted(written, key=lambda file: file["name"]),
        }  # fmt: skip
        name, data = name_manifest(self.run), encode_document(document)
        if self.old is not None:
            self.destination.put(name, data)
        elif not self.destination.put_new(name, data):
            document = read_document(self.destination, name) or {}
        self._clean(document, [file["name"] for file in written])
        if (document["content"], document["settings"]) != (self.content.content, self.content.settings):
            text = f"the run {self.run!r} was added by another process in the meantime, with other content"
            raise OutputError(text, path=self.destination.place)

    def _clean(self, manifest: Mapping[str, Any], own: Iterable[str] = ()) -> None:
        """Delete files of the run that are not in its manifest, and what killed writers left. ``own``: files of this
        writer: if another one has taken over since, only these and the replaced ones are deleted."""
        assert self.files is not None
        listed = {file["name"] for file in manifest["files"]}
        claim = read_document(self.destination, self._claim)
        if claim is not None and claim.get("work") not in (self.content.work, manifest.get("work")):
            old = [file["name"] for file in (self.old or {}).get("files", ())]
            for name in {*old, *own} - listed:
                self.destination.delete(name)
            return
        for table in self.tables:
            for name in self.destination.list(self.files.name_folder(table)):
                if name not in listed:
                    self.destination.delete(name)
        self.destination.delete(self._claim)
        for name in self.destination.list("_fastprof/" if self.is_taken_over else "_fastprof/begun/"):
            if not name.endswith(".json"):
                self.destination.delete(name)


def name_claim(run: str) -> str:
    return f"_fastprof/begun/{encode_folder_value(run)}.json"


def name_manifest(run: str) -> str:
    return f"_fastprof/runs/{encode_folder_value(run)}.json"
