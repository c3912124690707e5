"""A file with the planes of several hosts, each as a capture of its own.

XProf writes the name of a host before those of its planes; fastprof does so for the tasks of a RunMetadata:

    HOST-0 /host:CPU    HOST-0 /device:TPU:0    HOST-1 /host:CPU    Task Environment
    '------------ HOST-0 -----------------'     '--- HOST-1 ---'    of both

Planes without a host in their name are of the host that the file is named after. What is of no plane, such as ends of
flows, and what was transcribed go with every host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from fastprof.decode.flow_records import top_fields
from fastprof.decode.import_log import ImportLog
from fastprof.decode.task_environment import EVENT_FILE, RUN_METADATA, TFPROF, XPROF, parts_of, recorded_environment
from fastprof.decode.xspace_capture import Capture
from fastprof.inputs.open_files import PartsOfFile
from fastprof.inputs.resolve import CaptureFile
from fastprof.inputs.source import Source
from fastprof.wording.patterns import pattern_of

_NAME: Final = pattern_of(r"(?P<host>\S.*) /(?:host|device|job):[^ ].*", re.DOTALL)
_PLANES: Final = 1
_Range: TypeAlias = tuple[int, int]


def by_host(capture: Capture, file: CaptureFile) -> list[Capture]:
    """The capture itself, or one of each host whose planes it has. ``file``: what it was opened from."""
    hosts = list(dict.fromkeys(match["host"] for name in capture.part_names if (match := _NAME.fullmatch(name))))
    if not hosts or recorded_environment(capture).get("transcribed_from") not in (
        XPROF,
        RUN_METADATA,
        EVENT_FILE,
        TFPROF,
    ):
        return [capture]
    longest_first = sorted(hosts, key=len, reverse=True)
    owner = [_owner(name, longest_first) for name in capture.part_names]
    shared = np.isin(np.arange(len(owner)), parts_of(capture)).tolist()
    own = {None: file.host or capture.host, **{host: host for host in hosts}}
    owning = {one for one, all_ in zip(owner, shared, strict=True) if not all_}
    used = [host for host in own if host in owning]
    if len(used) == 1:
        own[used[0]] = file.host or used[0]
    ranges = _ranges(capture, used, owner, shared)
    return [_of_host(capture, replace(file, host=own[host]), host, ranges[host]) for host in used]


def _owner(name: str, hosts: Sequence[str]) -> str | None:
    """The host that a plane's name begins with. ``hosts``: the longest names first."""
    return next((host for host in hosts if name.startswith(f"{host} ")), None)


def _of_host(capture: Capture, file: CaptureFile, host: str | None, ranges: Sequence[_Range]) -> Capture:
    """The part of the capture that is of one host."""
    source = _source_of(capture.source, ranges)
    begin = f"{host} " if host is not None else ""
    found = Capture(replace(file, source=source, before_planes=begin), capture.memory, ImportLog(), capture.salvage)
    found.log = capture.log  # of the file itself, it has all rows already
    if host is not None:
        found.hostnames = [host]
    return found


def _ranges(
    capture: Capture, hosts: Sequence[str | None], owner: Sequence[str | None], shared: Sequence[bool]
) -> dict[str | None, list[_Range]]:
    """By host, offset and length of what of the file goes with its planes, in order. The file is walked once."""
    of_end = dict(zip(capture.parts["end"].tolist(), zip(owner, shared, strict=True), strict=True))
    of_all: list[_Range] = []
    of_host: dict[str | None, list[_Range]] = {host: [] for host in hosts}
    for number, at, _, end in top_fields(capture):
        if number != _PLANES:
            of_all.append((at, end - at))
        elif end in of_end:
            host, is_shared = of_end[end]
            (of_all if is_shared else of_host[host]).append((at, end - at))
    return {host: sorted([*of_all, *ranges]) for host, ranges in of_host.items()}


def _source_of(entire: Source, ranges: Sequence[_Range]) -> Source:
    if entire.memory is not None:
        joined = b"".join(entire.memory[at : at + length] for at, length in ranges)
        part = Source(entire.path, memory=memoryview(joined))
    else:
        assert entire.stored is not None
        places = [place for one in ranges for place in entire.stored.places(*one)]
        part = Source(entire.path, stored=PartsOfFile(entire.stored, np.array(places, np.uint64).tobytes()))
    part.file, part.read_size = entire.file, entire.read_size
    return part
