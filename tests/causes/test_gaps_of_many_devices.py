"""Memory of gaps of many devices grows with the devices, not with the pieces of all of them together."""

from __future__ import annotations

import subprocess
import sys

from gate import left_to_test_all

PROGRAM = """
import json, resource, sys
import fastprof


def written(devices):
    '''Each device waits, cut in equal pieces by what the host does, until its only kernel begins.'''
    events = []
    for device in range(devices):
        shared = {"ph": "X", "tid": 7, "ts": device, "args": {"device": device, "stream": 7, "correlation": device + 1}}
        events.append({**shared, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "dur": 0.5})
        events.append({**shared, "cat": "kernel", "name": "gemm", "pid": device, "ts": device + 1, "dur": 5})
    return fastprof.load(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}).encode())


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

written(10).gaps()
before = peak()
table = written(int(sys.argv[1])).gaps().tables["gaps"]
print(peak() - before, set(table["duration_ps"].to_pylist()), table["device"].to_pylist()[:3])
"""


@left_to_test_all
def test_equal_pieces_of_many_devices_are_not_held() -> None:
    """The longest of each of 1,000 devices are hundreds, equally long."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "1000"], capture_output=True, text=True, check=True, timeout=300
    )
    grown, shown = ran.stdout.split(maxsplit=1)
    assert shown.split("]")[0] == "{5500000} ['/device:GPU:0', '/device:GPU:1', '/device:GPU:2'"
    assert int(grown) < 100_000
