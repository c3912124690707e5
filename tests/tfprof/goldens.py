"""The reference's answers of ``../shared/conformance/tfprof``, and what the command line answers:

    PYTHONPATH=tests python tests/tfprof/goldens.py

Prints how many are met, by input and view; an answer is met if all of it is the same: files, standard output and
standard error byte for byte, what tfprof returns as JSON, files of pprof without ids.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stacks_of_pprof import resolved

from fastprof.cli.main import main as run_command

SHARED = Path(__file__).resolve().parents[3] / "shared"
GOLDENS = SHARED / "conformance" / "tfprof"
TF1, INPUTS = SHARED / "captures" / "tf1", GOLDENS / "inputs"
PROFILES = {
    "profile_1": SHARED / "spec" / "samples" / "profile_1",
    "profile_8": TF1 / "profile_8",
    "gpu_profile": INPUTS / "gpu_profile",
}
CALLS = {
    "tf1": ("--graph", TF1 / "graph.pb", "--run-metadata", TF1 / "run_metadata.pb"),
    "gpu": ("--graph", INPUTS / "gpu_graph.pb", "--run-metadata", INPUTS / "gpu_run_metadata_1.pb"),
    "gpu_op_log": ("--graph", INPUTS / "gpu_graph.pb", "--run-metadata", INPUTS / "gpu_run_metadata_0.pb",
                   "--op-log", INPUTS / "gpu_op_log"),
    "graph_only": ("--graph", TF1 / "graph.pb"),
}  # fmt: skip
"""One call of tfprof: a graph, a run and a log of ops instead of a profile."""


def load(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def list_answers(source: str) -> list[tuple[str, Path]]:
    """The answers of a profile or of a call by their views, without the files that are part of an answer."""
    found = GOLDENS.glob(f"one_call/{source}.*.json*" if source in CALLS else f"{source}/*.json*")
    paths = [path for path in sorted(found) if ".trace." not in path.name]
    return [("advise" if "advise" in path.name else path.name.split(".")[1], path) for path in paths]


class Answer:
    """Output of the command: standard output, standard error, and files."""

    def __init__(self, words: list[str], folder: Path) -> None:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.code = run_command(["tfprof", *words])
        out.seek(0)
        self.out, self.err = (text.replace(str(folder), "FOLDER") for text in (out.read(), err.getvalue()))
        self.files = {path.name: path.read_bytes() for path in sorted(folder.glob("answer*"))}


def ask(source: list[str], view: str, options: Any, folder: Path, form: str) -> Answer:
    """``options``: those of a view, or the checkers of advice."""
    path = folder / "options"
    path.write_text(json.dumps(options).replace("FOLDER", str(folder)), "utf-8")
    return Answer([*source, view, "--options", str(path), "--format", form], folder)


def differences(source: str, view: str, path: Path, *, as_json: bool = True) -> list[str]:
    """The parts of an answer that ours does not have. ``as_json``: compare what tfprof returns, too."""
    golden = load(path)
    words = [str(word) for word in CALLS.get(source, (PROFILES.get(source),))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if view == "advise":
            given = {checker: {} for checker in golden["checkers"]}
        else:
            given = {**golden["options"], "output": f"{golden['output']}:outfile=FOLDER/answer"}
        ours = ask(words, view, given, folder, "tfprof")
        made: dict[str, Any] = {"stderr": ours.err}
        if as_json:
            made["proto"] = json.loads(ask(words, view, given, folder, "json").out)
    if view == "advise":
        made["stdout by checker"] = _split_advice(ours.out)
        return [part for part, value in made.items() if golden[part] != value]
    made["stdout"] = ours.out
    files = ours.files
    if golden["output"] == "file":
        report = files.pop("answer", None)
        made["report"] = None if report is None else report.decode().replace(str(folder), "FOLDER").split("\n")
    made["files"] = sorted(files)
    if golden["output"] == "pprof" and files:
        made["profile"] = resolved(gzip.decompress(files["answer"]))
    wrong = [part for part, value in made.items() if golden[part] != value]
    return wrong + (_compare_traces(path, files) if golden["output"] == "timeline" else [])


def _compare_traces(path: Path, files: dict[str, bytes]) -> list[str]:
    stem = path.name.partition(".json")[0]
    theirs = {one.name[len(stem) :].partition(".trace")[0]: one for one in path.parent.glob(f"{stem}_*.trace.json*")}
    contents = {
        f"answer{name}": gzip.decompress(one.read_bytes()) if one.suffix == ".gz" else one.read_bytes()
        for name, one in theirs.items()
    }
    return [] if contents == files else ["traces"]


def _split_advice(text: str) -> dict[str, list[str]]:
    """The lines of each checker, as the goldens have them: checkers come in any order."""
    blocks: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.split("\n"):
        if line.endswith("Checker:"):
            current = blocks[line[:-1]] = []
        else:
            current.append(line)
    return dict(sorted(blocks.items()))


def score() -> Iterator[tuple[str, str, Path, list[str]]]:
    for source in (*PROFILES, *CALLS):
        for view, path in list_answers(source):
            yield source, view, path, differences(source, view, path)


def main() -> None:
    met, missed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for source, view, path, wrong in score():
        (missed if wrong else met)[source, view] += 1
        if wrong:
            sys.stdout.write(f"{source}/{path.name}: {', '.join(wrong)}\n")
    for key in sorted({*met, *missed}):
        sys.stdout.write(f"{' '.join(key)} {met[key]}/{met[key] + missed[key]}\n")
    sys.stdout.write(f"{met.total()} of {met.total() + missed.total()}\n")


if __name__ == "__main__":
    sys.exit(main())
