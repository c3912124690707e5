"""The verbs that the help lists, in groups, with a line on each; former names, and names that were probably meant."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from fastprof.wording.spelling import suggest_name

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Start here": {
        "summary": "captured hosts, the three main findings, and commands to run next",
        "diagnosis": "causes of lost time: all findings, with evidence and advice",
        "overview": "step time, its breakdown, the most expensive ops",
        "serve": "the timeline and all reports in a browser",
        "info": "content of a session: hosts, planes, lines, devices, faults",
        "help": "'help VERB' explains a verb, 'help flags' the flags that verbs share",
    },
    "Record": {
        "run": "run a Python program, and record it",
        "capture": "record running programs; 'capture snapshot', 'capture monitor'",
    },
    "Ask where the time goes": {
        "steps": "every step on every host and core: categories, stragglers, percentiles",
        "gaps": "what the program did while devices did not compute",
        "input-pipeline": "wait time of steps for input, and the input ops",
        "tf-data": "tf.data pipelines: iterators, critical path, bottleneck",
        "op-stats": "time by op, on hosts and devices",
        "kernel-stats": "GPU kernels: time, launch dimensions, tensor cores",
        "streams": "GPU streams: overlap, launches, queues, copies",
        "communication": "collectives and copies, hidden and exposed; clocks of hosts",
        "critical-path": "ops and kernels that determine step time",
        "memory-profile": "memory by allocator: peaks, fragmentation, growth",
        "python-time": "Python functions: self and total time, flame graphs",
        "annotations": "time by annotation and named scope",
        "inference": "requests and batches of a model server",
        "events": "events by name, or the events themselves",
        "sql": "SQL about events, reports and programs, also of exported runs",
    },
    "Compiled programs": {
        "op-profile": "device time by program, category or name scope",
        "hlo-stats": "instructions: time, arithmetic, memory traffic, padding",
        "roofline": "how close ops and steps come to the device peaks",
        "hardware-units": "utilization of matrix units, vector units, loads and stores",
        "memory-viewer": "memory of a program: the peak, and the buffers alive at it",
        "hlo": "list of programs, and the text of one",
    },
    "Compare and share": {
        "compare": "two runs: is a step slower, and what changed",
        "check": "a run against limits or earlier runs, with exit codes for pipelines",
        "trends": "the runs of log directories as a table, figures over runs, and where they changed",
        "report": "all reports at once, also as one HTML file",
        "mcp": "serve sessions to assistants (Model Context Protocol)",
        "skill": "teach an assistant the verbs: 'skill install'",
        "warm": "keep a process ready: other commands start at once",
        "export": "tables as Parquet, Arrow or CSV; 'export trace', 'export xspace'",
    },
    "Other tools' forms": {
        "pod-viewer": "XProf's pod viewer: each step on each core, with its bottleneck",
        "tfprof": "the views and the advice of tfprof",
    },
}
"""Line of each listed verb, by group and verb."""

WITHIN: Final = {
    "capture snapshot": "snapshot",
    "capture monitor": "monitor",
    "export trace": "trace",
    "export xspace": "convert",
}
"""Modules of verbs of two words, which are also their former names."""
_FULL: Final = {module: words for words, module in WITHIN.items()}
_COLUMN: Final = 16


def find_verb(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the name of the verb and the words after it. A session is not taken for the second word of a verb."""
    module = WITHIN.get(" ".join(words[:2]))
    if module is not None and not Path(words[1]).exists():
        return module, words[2:]
    return words[0], words[1:]


def get_full_name(verb: str) -> str:
    """Return the name of a verb as users write it."""
    return _FULL.get(verb, verb)


def list_verbs(others: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the help. ``others``: lines of verbs that no group lists, by name."""
    yield "usage: fastprof SESSION                captured hosts, costliest causes, next commands"
    yield "       fastprof VERB SESSION [flags]"
    yield ""
    yield "Profiles of TensorFlow, JAX and PyTorch as tables and reports."
    listed = {verb for verbs in GROUPS.values() for verb in verbs}
    more = {verb: line for verb, line in others.items() if verb not in listed}
    for title, verbs in (*GROUPS.items(), *([("More", more)] if more else [])):
        yield ""
        yield title
        for verb, line in verbs.items():
            yield f"  {verb:<{_COLUMN}}{line}"
    yield ""
    yield "'fastprof --version' prints the version."


def explain_unknown_verb(word: str, verbs: Container[str]) -> str:
    """Return what is wrong with the first word, and up to three verbs that were probably meant."""
    listed = [verb for of_group in GROUPS.values() for verb in of_group if verb in verbs or verb == "help"]
    known = [*listed, *_FULL.values()]
    return f"{word!r} is neither a verb nor a file or directory{suggest_name(word, known, most=3)}"
