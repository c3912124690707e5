"""A pprof file without its writer's ids, as the goldens have it: stacks leaf first, files without folders."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from pprof_messages import PROFILE


def resolved(data: bytes) -> dict[str, Any]:
    profile = PROFILE.FromString(data)
    text = profile.string_table
    functions = {
        one.id: [text[one.name], PurePosixPath(text[one.filename]).name, one.start_line] for one in profile.function
    }
    frames = {one.id: [*functions[line.function_id], line.line] for one in profile.location for line in one.line}
    used = sorted(map(list, {tuple(frame) for frame in frames.values()}))
    number = {tuple(frame): place for place, frame in enumerate(used)}
    samples = [
        {
            "labels": [[text[label.key], text[label.str]] for label in one.label],
            "value": list(one.value),
            "stack": [number[tuple(frames[location])] for location in one.location_id],
        }
        for one in profile.sample
    ]
    return {
        "sample_type": [[text[one.type], text[one.unit]] for one in profile.sample_type],
        "comment": [text[comment] for comment in profile.comment],
        "frames: function, file, start line, line": used,
        "samples": sorted(samples, key=lambda one: (one["labels"], one["stack"])),
    }
