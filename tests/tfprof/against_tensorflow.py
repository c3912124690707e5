"""Random profiles and options through fastprof and through the tfprof of TensorFlow, by hand: two Pythons, one folder.

    python tests/tfprof/against_tensorflow.py make FOLDER 500     with fastprof: profiles, options, and our reports
    python tests/tfprof/against_tensorflow.py ask FOLDER          with tensorflow-cpu 2.21: prints what differs

Reports are compared byte for byte. A view that ends TensorFlow's process is counted, and the next one is asked.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

VIEWS = ("scope", "graph", "op", "code")
_OPTIONS_A_VIEW = 3
_SELECT = (
    *("bytes", "peak_bytes", "residual_bytes", "output_bytes", "micros", "accelerator_micros", "cpu_micros", "params"),
    *("float_ops", "device", "op_types", "occurrence", "input_shapes"),
)


def make(folder: Path, count: int) -> None:
    import dataclasses

    from profile_messages import profile_class
    from random_graphs import random_options, random_profile

    import fastprof

    for seed in range(count):
        chance = random.Random(seed)
        data = random_profile(seed, chance.choice([1, 5, 20, 40, 80]))
        steps, profile, cases = list(profile_class().FromString(data).steps), fastprof.load(data), []
        for view in VIEWS:
            for _ in range(_OPTIONS_A_VIEW):
                options = random_options(chance, steps)
                select = sorted(chance.sample(_SELECT, chance.randint(1, 4)))
                given = {**dataclasses.asdict(options), "select": select}
                try:
                    text = profile.tfprof(view, options=given).text
                except fastprof.UsageError as error:
                    text = f"UsageError: {error}"
                cases.append({"view": view, "options": given, "text": text})
        (folder / f"{seed}.pb").write_bytes(data)
        (folder / f"{seed}.json").write_text(json.dumps(cases), "utf-8")


def _answer(profile: str, view: str, options: dict[str, Any], path: str) -> None:
    from tensorflow.python.profiler import model_analyzer
    from tensorflow.python.util import _pywrap_tfprof as engine

    engine.ProfilerFromFile(profile)
    given = {**options, "output": f"file:outfile={path}"}
    engine.Profile(view.encode(), model_analyzer._build_options(given).SerializeToString())
    engine.DeleteProfiler()  # it remembers what it accounted


def _serve(calls: Any) -> None:
    while True:
        _answer(*calls.recv())
        calls.send(True)


class Asked:
    """TensorFlow in a process of its own, begun again if a view ends it."""

    def __init__(self) -> None:
        self._process: Any = None

    def answer(self, profile: Path, case: dict[str, Any]) -> str | None:
        """The report; None: the view ended the process."""
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._calls, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "answer")
            try:
                self._calls.send((str(profile), case["view"], case["options"], str(path)))
                self._calls.recv()
            except (EOFError, OSError):
                self._process.join()
                return None
            return path.read_bytes().decode("utf-8", "replace") if path.exists() else ""


def ask(folder: Path) -> None:
    counts = {"equal": 0, "different": 0, "ended": 0}
    asked = Asked()
    for listed in sorted(folder.glob("*.json"), key=lambda path: int(path.stem)):
        for case in json.loads(listed.read_text("utf-8")):
            text = asked.answer(listed.with_suffix(".pb"), case)
            verdict = "ended" if text is None else "equal" if text == case["text"] else "different"
            counts[verdict] += 1
            if verdict != "equal":
                sys.stdout.write(
                    f"{verdict}: {listed.stem} {case['view']} {case['options']}\n{case['text']}{text or ''}\n"
                )
    sys.stdout.write(f"{counts}; ended: views that end TensorFlow's process\n")


if __name__ == "__main__":
    what, into = sys.argv[1], Path(sys.argv[2])
    into.mkdir(parents=True, exist_ok=True)
    make(into, int(sys.argv[3])) if what == "make" else ask(into)
