"""Runs where TensorFlow is installed: has it analyse the tf.data pipelines of a run directory; reports the seconds.

Usage: tensorflow_reader.py RUN. Importing TensorFlow is not counted. It answers with one message, a
CombinedTfDataStats; the pipelines in it and their calls are counted by the numbers of its fields.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tensorflow.python.profiler.internal import _pywrap_profiler

SUFFIX = ".xplane.pb"
TOOL = "tf_data_bottleneck_analysis"
PIPELINES = (2, 2, 1)
"""Of each host, its stats, and in these each pipeline."""
CALLS = (*PIPELINES, 2, 2)
VARINT, FIXED64, LENGTH_DELIMITED = 0, 1, 2


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """The varint at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def messages(data: memoryview, field: int) -> Iterator[memoryview]:
    """The messages in a field."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == VARINT:
            _, at = varint(data, at)
        elif tag & 7 == LENGTH_DELIMITED:
            size, begin = varint(data, at)
            at = begin + size
            if tag >> 3 == field:
                yield data[begin:at]
        else:
            at += 8 if tag & 7 == FIXED64 else 4


def count(data: memoryview, path: tuple[int, ...]) -> int:
    """How many messages there are at the end of a path of fields."""
    inner = list(messages(data, path[0]))
    return sum(count(one, path[1:]) for one in inner) if len(path) > 1 else len(inner)


def main(folder: str) -> None:
    captures = sorted(str(path) for path in Path(folder).iterdir() if path.name.endswith(SUFFIX))
    began = time.perf_counter()
    answer, fine = _pywrap_profiler.xspace_to_tools_data(captures, TOOL, {})
    ended = time.perf_counter()
    if not fine:
        raise SystemExit(f"TensorFlow has no answer: {bytes(answer)[:500]!r}")
    facts = {"pipelines": count(memoryview(answer), PIPELINES), "calls": count(memoryview(answer), CALLS)}
    print(json.dumps({"seconds": [ended - began], "facts": facts}))


main(*sys.argv[1:])
