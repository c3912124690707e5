"""Memory of reading a trace is bounded: no blanks are held, one value is limited, and a text has no room for marks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from gate import few

import fastprof

PROGRAM = """
import io, resource, sys, zlib
import fastprof

HEAD = b'{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}'


def packed(before, fill, mebibytes, after):
    '''A document with many copies of a byte, compressed.'''
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [packer.compress(HEAD + before)]
    parts += [packer.compress(fill * (1 << 20)) for _ in range(mebibytes)]
    return io.BytesIO(b"".join(parts) + packer.compress(after) + packer.flush())


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

fastprof.load(packed(b"", b" ", 1, b"]}"))
before = peak()
try:
    seen = fastprof.load(packed(*map(str.encode, sys.argv[1:3]), int(sys.argv[3]), sys.argv[4].encode()))
    seen = seen.events.num_rows
except fastprof.CaptureError as error:
    seen = error.message
print(peak() - before, seen)
"""
EVENT = ',{"ph":"X","pid":1,"tid":1,"ts":5,"dur":1,'
TOO_LARGE = "an event is larger than 64 MiB"
CASES = {
    "blanks between events": (",", " ", 512, EVENT[1:] + '"name":"b"}]}', "2", 200),
    "blanks between members": ("],", " ", 512, '"a":1}', "1", 200),
    "blanks in an event": (EVENT, " ", 512, '"name":"b"}]}', TOO_LARGE, 300),
    "a value of an argument": (EVENT + '"name":"b","args":{"x":"', "x", 256, '"}}]}', TOO_LARGE, 300),
    "a name": (EVENT + '"name":"', "x", 256, '"}]}', TOO_LARGE, 300),
    "stacks": ('],"stackFrames":{"1":{"name":"', "x", 512, '"}}}', "1", 400),
    "a value below the limit": (EVENT + '"name":"b","args":{"x":"', "x", 60, '"}}]}', "2", 400),
}  # fmt: skip


@pytest.mark.parametrize("case", few(CASES, 3))
def test_37_what_is_held_of_a_trace_is_bounded(case: str) -> None:
    *arguments, seen, most_mebibytes = CASES[case]
    command = [sys.executable, "-P", "-c", PROGRAM, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    grown, found = ran.stdout.strip().split(maxsplit=1)
    assert found == seen
    assert int(grown) < most_mebibytes * 1024


@pytest.mark.parametrize("recorded", ["1e308", "-1e308", "1e999", "NaN", '"Infinity"'])
def test_an_impossible_bandwidth_is_unknown(recorded: str) -> None:
    """1,000 bytes in 5 us are 0.2 GB/s."""
    event = (
        '{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":%d,"dur":5,"args":'
        '{"device":0,"stream":7,"bytes":1000,"memory bandwidth (GB/s)":%s}}'
    )
    events = ",".join(event % (time, recorded) for time in (100, 110))
    profile = fastprof.load(f'{{"schemaVersion":1,"traceEvents":[{events}]}}'.encode())
    (row,) = profile.streams().tables["copies"].to_pylist()
    assert row["peak_gbps"] == row["p75_at_points_gbps"] == row["mean_gbps"] == 0.2
