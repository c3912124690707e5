"""Memory of reading a trace is bounded, however long it and its lines are (hard case 37)."""

from __future__ import annotations

import subprocess
import sys

from gate import left_to_test_all

PROGRAM = """
import io, resource, sys
import fastprof

EVENT = ',{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":%d,"dur":3,"args":{"External id":%d}}'


class Line(io.RawIOBase):
    '''A document of one line, made as it is read.'''

    def __init__(self, events):
        self.left, self.at = events, 0
        self.rest = b'{"traceEvents":[{"ph":"M","name":"process_name","pid":1,"args":{"name":"x"}}'

    def readable(self):
        return True

    def readinto(self, room):
        while len(self.rest) < len(room) and self.left:
            many = min(self.left, 5000)
            self.rest += "".join([EVENT % (i * 10, i) for i in range(self.at, self.at + many)]).encode()
            self.at, self.left = self.at + many, self.left - many
            if not self.left:
                self.rest += b"]}"
        part = self.rest[: len(room)]
        room[: len(part)] = part
        self.rest = self.rest[len(part) :]
        return len(part)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

fastprof.load(io.BufferedReader(Line(20_000)))
before = peak()
profile = fastprof.load(io.BufferedReader(Line(int(sys.argv[1]))))
print(peak() - before, profile.tables["lines"]["event_count"].to_pylist())
"""


@left_to_test_all
def test_37_one_line_of_any_length_takes_bounded_memory() -> None:
    """Neither the line, nor the document, nor all events are in memory: the text is 300 MB."""
    events = 3_000_000
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(events)], capture_output=True, text=True, check=True, timeout=300
    )
    grown, counts = ran.stdout.split(maxsplit=1)
    assert counts.strip() == f"[{events}]"
    assert int(grown) < 150_000
