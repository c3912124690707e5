"""A file with the planes of several hosts, each as a capture of its own.

XProf writes the name of a host before those of its planes; fastprof does so for the tasks of a RunMetadata:

    HOST-0 /host:CPU    HOST-0 /device:TPU:0    HOST-1 /host:CPU    Task Environment
    '------------ HOST-0 -----------------'     '--- HOST-1 ---'    of both

Planes without a host in their name are of the host that the file is named after. What is of no plane, such as ends of
flows, and what was transcribed go with every host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.decode.flow_records import top_fields
from fastprof.decode.import_log import ImportLog
from fastprof.decode.task_environment import EVENT_FILE, PLANE, RUN_METADATA, XPROF, recorded_environment
from fastprof.decode.xspace_capture import Capture
from fastprof.inputs.open_files import PartsOfFile
from fastprof.inputs.resolve import CaptureFile
from fastprof.inputs.source import Source
from fastprof.wording.patterns import pattern_of

_NAME: Final = pattern_of(r"(?P<host>\S.*) /(?:host|device|job):[^ ].*", re.DOTALL)
_PLANES: Final = 1


def by_host(capture: Capture, file: CaptureFile) -> list[Capture]:
    """The capture itself, or one of each host whose planes it has. ``file``: what it was opened from."""
    hosts = list(dict.fromkeys(match["host"] for name in capture.part_names if (match := _NAME.fullmatch(name))))
    if not hosts or recorded_environment(capture).get("transcribed_from") not in (XPROF, RUN_METADATA, EVENT_FILE):
        return [capture]
    owner = [_owner(name, hosts) for name in capture.part_names]
    shared = [name == PLANE for name in capture.part_names]
    own = {None: file.host or capture.host, **{host: host for host in hosts}}
    used = [host for host in own if any(one == host and not all_ for one, all_ in zip(owner, shared, strict=True))]
    if len(used) == 1:
        own[used[0]] = file.host or used[0]
    return [_of_host(capture, replace(file, host=own[host]), host, owner, shared) for host in used]


def _owner(name: str, hosts: Sequence[str]) -> str | None:
    """The host that a plane's name begins with."""
    return next((host for host in sorted(hosts, key=len, reverse=True) if name.startswith(f"{host} ")), None)


def _of_host(
    capture: Capture, file: CaptureFile, host: str | None, owner: Sequence[str | None], shared: Sequence[bool]
) -> Capture:
    """The part of the capture that is of one host."""
    wanted = [one == host or all_ for one, all_ in zip(owner, shared, strict=True)]
    source = _source_of(capture.source, list(_ranges(capture, wanted)))
    begin = f"{host} " if host is not None else ""
    found = Capture(replace(file, source=source, before_planes=begin), capture.memory, ImportLog(), capture.salvage)
    found.log = capture.log  # of the file itself, it has all rows already
    if host is not None:
        found.hostnames = [host]
    return found


def _ranges(capture: Capture, wanted: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Offset and length of what of the file goes with the planes that are wanted."""
    ends = dict(zip(capture.parts["end"].tolist(), wanted, strict=True))
    for number, at, _, end in top_fields(capture):
        if number != _PLANES or ends.get(end):
            yield at, end - at


def _source_of(entire: Source, ranges: Sequence[tuple[int, int]]) -> Source:
    if entire.memory is not None:
        joined = b"".join(entire.memory[at : at + length] for at, length in ranges)
        part = Source(entire.path, memory=memoryview(joined))
    else:
        assert entire.stored is not None
        places = [place for one in ranges for place in entire.stored.places(*one)]
        part = Source(entire.path, stored=PartsOfFile(entire.stored, np.array(places, np.uint64).tobytes()))
    part.file, part.read_size = entire.file, entire.read_size
    return part
