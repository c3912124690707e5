"""Reads a trace of JSON, plain or gzip, with one reader; reports seconds, processor seconds and facts.

Usage: json_reader.py TRACE fastprof|fastprof-flows|fastprof-scan|simdjson|json|hta. Imports are not counted. Runs in
the environment of the reader. ``fastprof``: events and all stats as tables; ``-flows``: and the table of flows;
``-scan``: batches of names and times, none of them kept. ``simdjson``, ``json``: the document; ``hta``: its data frame.
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

Facts = dict[str, int]
Work = Callable[[str], tuple[Facts, object]]


def _text(path: str) -> bytes:
    content = Path(path).read_bytes()
    return gzip.decompress(content) if path.endswith(".gz") else content


def _fastprof(*tables: str) -> Work:
    import fastprof

    tiny = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}'
    fastprof.load(tiny).read(*tables)  # imports what is imported when needed

    def work(path: str) -> tuple[Facts, object]:
        made = fastprof.load(path).read(*tables)
        facts = {name: table.num_rows for name, table in made.items()}
        return {**facts, "table_bytes": sum(table.nbytes for table in made.values())}, made

    return work


def _scan() -> Work:
    import fastprof

    def work(path: str) -> tuple[Facts, object]:
        profile = fastprof.load(path)
        rows = sum(batch.num_rows for batch in profile.scan(columns=["name", "start_ps", "duration_ps"]))
        return {"events": rows}, None

    return work


def _simdjson() -> Work:
    import simdjson

    def work(path: str) -> tuple[Facts, object]:
        parser = simdjson.Parser()
        document = parser.parse(_text(path))
        return {}, (parser, document)

    return work


def _json() -> Work:
    return lambda path: ({}, json.loads(_text(path)))


def _hta() -> Work:
    from hta.trace_analysis import TraceAnalysis

    logging.disable()

    def work(path: str) -> tuple[Facts, object]:
        analysis = TraceAnalysis(trace_files={0: path}, trace_dir=".")
        return {"events": len(analysis.t.get_trace(0))}, analysis

    return work


READERS: dict[str, Callable[[], Work]] = {
    "fastprof": lambda: _fastprof("events", "event_stats"),
    "fastprof-flows": lambda: _fastprof("events", "event_stats", "flows"),
    "fastprof-scan": _scan,
    "simdjson": _simdjson,
    "json": _json,
    "hta": _hta,
}


def main(path: str, reader: str) -> None:
    work = READERS[reader]()
    began, processor = time.perf_counter(), time.process_time()
    facts, made = work(path)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    print(json.dumps({"seconds": [seconds], "processor": [processor], "facts": facts}))
    del made


if __name__ == "__main__":
    main(*sys.argv[1:])
