"""The reference's answers of ``../shared/conformance/tfprof``, and what ours are: python tests/tfprof/goldens.py

Prints how many are met, by profile and view; an answer is met if all of it is the same: report, files, numbers of the
proto, standard output and standard error.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from protos import proto
from stacks_of_pprof import resolved

import fastprof
from fastprof.derive.tfprof import options as tfprof_options
from fastprof.derive.tfprof.view_set import ViewSet, make_view_set
from fastprof.tfprof import tfprof_text
from fastprof.tfprof.tfprof_answer import make_answer

SHARED = Path(__file__).resolve().parents[3] / "shared"
GOLDENS = SHARED / "conformance" / "tfprof"
PROFILES = {
    "profile_1": SHARED / "spec" / "samples" / "profile_1",
    "profile_8": SHARED / "captures" / "tf1" / "profile_8",
    "gpu_profile": GOLDENS / "inputs" / "gpu_profile",
}


@cache
def views_of(profile: str) -> ViewSet:
    return make_view_set(fastprof.load(PROFILES[profile]).tables)


def load(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def answers(folder: str) -> Iterator[Path]:
    """The files of answers, without the files that are part of one."""
    return (path for path in sorted((GOLDENS / folder).glob("*.json*")) if ".trace." not in path.name)


def differences(path: Path, views: ViewSet) -> list[str]:
    """The parts of an answer that ours does not have."""
    golden = load(path)
    if "checkers" in golden:
        return _advice_differences(golden, views)
    options = tfprof_options.read_options({**golden["options"], "output": f"{golden['output']}:outfile=FOLDER/answer"})
    ours = make_answer(views, golden["view"], options)
    made: dict[str, Any] = {
        "stderr": ours.stderr,
        "stdout": ours.stdout,
        "files": sorted(f"answer{name}" for name in ours.files),
        "proto": {} if ours.shown is None else proto(ours.shown, views.recorded, options.step),
    }
    if golden["output"] == "file":
        made["report"] = None if ours.report is None else ours.report.split("\n")
    if golden["output"] == "pprof" and golden["files"]:
        made["profile"] = resolved(gzip.decompress(ours.files[""]))
    wrong = [part for part, value in made.items() if golden[part] != value]
    return wrong + (_trace_differences(path, ours.files) if golden["output"] == "timeline" else [])


def _trace_differences(path: Path, files: Any) -> list[str]:
    stem = path.name.partition(".json")[0]
    theirs = {one.name[len(stem) :].partition(".trace")[0]: one for one in path.parent.glob(f"{stem}_*.trace.json*")}
    if sorted(theirs) != sorted(files):
        return ["names of traces"]
    contents = {
        name: gzip.decompress(one.read_bytes()) if one.suffix == ".gz" else one.read_bytes()
        for name, one in theirs.items()
    }
    return [f"trace {name}" for name, content in contents.items() if content != files[name]]


def _advice_differences(golden: Any, views: ViewSet) -> list[str]:
    reports = tfprof_text.list_advice(views, golden["checkers"])
    blocks = {name: [*"\n".join(some).split("\n"), ""] if some else [""] for name, some in reports.items()}
    made = {
        "stderr": tfprof_text.list_advice_complaints(views, golden["checkers"]),
        "stdout by checker": dict(sorted(blocks.items())),
        "proto": {"checkers": {name: {"reports": some} if some else {} for name, some in sorted(reports.items())}},
    }
    return [part for part, value in made.items() if golden[part] != value]


def main() -> None:
    met, missed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for profile in PROFILES:
        for path in answers(profile):
            view = "advise" if path.name.startswith("advise") else path.name.split(".")[1]
            wrong = differences(path, views_of(profile))
            (missed if wrong else met)[profile, view] += 1
            if wrong:
                sys.stdout.write(f"{profile}/{path.name}: {', '.join(wrong)}\n")
    for key in sorted({*met, *missed}):
        sys.stdout.write(f"{' '.join(key)} {met[key]}/{met[key] + missed[key]}\n")


if __name__ == "__main__":
    sys.exit(main())
