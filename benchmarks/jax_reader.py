"""Runs where JAX is installed: walks a capture through jax.profiler.ProfileData and reports the seconds.

Usage: jax_reader.py CAPTURE names|stats. Importing JAX is not counted.
"""

import json
import sys
import time

from jax.profiler import ProfileData


def main(capture: str, what: str) -> None:
    with_stats = what == "stats"
    events = stats = 0
    began = time.perf_counter()
    profile = ProfileData.from_file(capture)
    parsed = time.perf_counter()
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                events += 1
                _ = event.name, event.start_ns, event.duration_ns
                if with_stats:
                    for _name, _value in event.stats:
                        stats += 1
    ended = time.perf_counter()
    facts = {"events": events, "parse_ms": round((parsed - began) * 1000)}
    if with_stats:
        facts["stats"] = stats
    print(json.dumps({"seconds": [ended - began], "facts": facts}))


main(*sys.argv[1:])
