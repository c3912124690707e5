"""Traces of PyTorch's profiler in JSON, and captures in Riegeli."""

from __future__ import annotations

import json_speed
import riegeli_speed
from measure import Outcome, interleave
from section import MB, Plan, Section, at_least, at_most, mebibytes

EVENTS = 1_000_000
RIVALS = {
    "simdjson": ("seconds to tables, of those of simdjson's DOM", json_speed.SIMDJSON_SHARE, at_most),
    "json": ("times as fast as Python's json", json_speed.JSON_TIMES, at_least),
    "hta": ("times as fast as loading in HTA", json_speed.HTA_TIMES, at_least),
}
"""What their ratio is called, and what is required of it."""


def traces(plan: Plan) -> Section:
    section = Section(
        "Traces",
        f"A trace of PyTorch's shape, {EVENTS:,} events in JSON, to the tables of events and of all stats; rivals only"
        " parse it, or load their data frame. A capture in Riegeli, not compressed, and the same as a plain XSpace."
        " Processes in turn, imports not counted; the best of all rounds.",
        ("what", "fastprof", "rival", "ratio", "asked"),
    )
    _json(plan, section)
    _riegeli(plan, section)
    return section


def _json(plan: Plan, section: Section) -> None:
    path = json_speed.trace(EVENTS)
    packed = path.with_name(path.name + ".gz")
    rivals = list(json_speed.installed(list(RIVALS)))
    jobs = [json_speed.job(reader, packed) for reader in ("fastprof", *rivals)]
    outcomes = interleave([json_speed.job("fastprof", path), *jobs], plan.part(2, 4))
    own, plain = outcomes[f"fastprof {packed.name}"], outcomes[f"fastprof {path.name}"]
    for name in rivals:
        text, limit, asked = RIVALS[name]
        rival = outcomes[f"{name} {packed.name}"]
        ratio = min(own.seconds) / min(rival.seconds)
        ratio = 1 / ratio if asked is at_least else ratio
        section.add(f"gzip: {text}", _least(own), _least(rival), f"{ratio:.2f}", asked(ratio, limit))
    speed = path.stat().st_size / min(plain.seconds)
    asked_speed = json_speed.PLAIN_SPEED
    section.add("plain text", _least(plain), "", f"{speed / MB:.0f} MB/s", at_least(speed / MB, asked_speed / MB))
    share = own.peak / own.facts["table_bytes"]
    asked_share = at_most(share, json_speed.TABLE_TIMES)
    section.add("peak memory, of the bytes of the tables", mebibytes(own), "", f"{share:.2f}", asked_share)


def _riegeli(plan: Plan, section: Section) -> None:
    files = riegeli_speed.forms()
    jobs = [riegeli_speed.job(path) for path in dict.fromkeys(path for pair in files.values() for path in pair)]
    outcomes = interleave(jobs, plan.part(2, 4))
    for form, (path, of) in files.items():
        own, plain = outcomes[path.name], outcomes[of.name]
        speed = min(plain.seconds) / min(own.seconds)
        text = f"Riegeli, {form}: speed, of the plain XSpace's"
        section.add(text, _least(own), _least(plain), f"{speed:.2f}", at_least(speed, riegeli_speed.LEAST))


def _least(outcome: Outcome) -> str:
    return f"{min(outcome.seconds):.3f} s"
