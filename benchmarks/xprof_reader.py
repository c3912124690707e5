"""Runs where XProf is installed: asks it for a page of a run directory and reports the seconds.

Usage: xprof_reader.py RUN TOOL. Importing XProf is not counted. It leaves what it has computed beside the captures,
for the next time; that is removed before and after, and a flag disables it.
"""

import json
import sys
import time
from pathlib import Path

from xprof.convert.raw_to_tool_data import xspace_to_tool_data

SUFFIX = ".xplane.pb"
STEPS = "stepnum"
KNOWN = {STEPS: "steps", "rank": "ops", "opName": "input_ops"}
LEFT_OUT = 2
"""Steps that XProf does not show: the first and the last."""


def forget(run: Path) -> None:
    for path in run.iterdir():
        if not path.name.endswith(SUFFIX):
            path.unlink()


def facts_of(answer: object) -> dict[str, int]:
    """Rows of the tables that are known by their first column: steps, ops with idle time, input ops. Of the memory
    profile, which is not a table, the allocators and their peaks together."""
    found: dict[str, int] = {}
    if isinstance(answer, dict) and "memoryProfilePerAllocator" in answer:
        summaries = [one["profileSummary"]["peakStats"] for one in answer["memoryProfilePerAllocator"].values()]
        return {"allocators": len(summaries), "peak_bytes": sum(int(peak["peakBytesInUse"]) for peak in summaries)}
    if isinstance(answer, dict) and "cols" in answer:
        answer = [answer]
    for table in answer if isinstance(answer, list) else ():
        first = table["cols"][0]["id"] if table.get("cols") else ""
        if first in KNOWN:
            found.setdefault(KNOWN[first], len(table["rows"]) + (LEFT_OUT if first == STEPS else 0))
    return found


def main(folder: str, tool: str) -> None:
    run = Path(folder)
    captures = sorted(str(path) for path in run.iterdir() if path.name.endswith(SUFFIX))
    forget(run)
    began = time.perf_counter()
    answer, _ = xspace_to_tool_data(captures, tool, {"use_saved_result": False})
    ended = time.perf_counter()
    forget(run)
    print(json.dumps({"seconds": [ended - began], "facts": facts_of(json.loads(answer))}))


main(*sys.argv[1:])
