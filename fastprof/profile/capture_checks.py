"""What a fresh capture lacks, and how the next one gets it: in the flags of ``fastprof capture`` or ``run``, or in the
parameters of ``fastprof.record``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fastprof.derive.ops.record_checks import CODES, PROFILER_ERROR
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import counted, time_text

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report

_FEWEST_STEPS: Final = 3
_ENOUGH_STEPS: Final = 10
_OF_DURATION: Final = 0.9
_MOST_TEXTS: Final = 5
_LONGEST: Final = 300
DAMAGED: Final = "damaged"
_SALVAGE: Final = "read it with on_error=salvage, which keeps what is sound"


@dataclass(frozen=True, slots=True)
class Check:
    """``code``: what is missing, for programs. ``host``: None if it is so of all."""

    code: str
    host: str | None
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class _Words:
    host_tracer: str
    device_tracer: str
    longer: str
    fewer_events: str


_LESS: Final = "--python-level 0 or --host-level 1"
_OFF: Final = ("--host-level 2", "--device-level 1")
_WORDS: Final = {
    "capture": _Words(*_OFF, "--duration {seconds}s", f"a shorter --duration, {_LESS}"),
    "run": _Words(*_OFF, "--steps 10:20", f"fewer --steps, a shorter --duration, {_LESS}"),
    "record": _Words("host_level=2", "device_level=1", "steps=(10, 20)", "fewer steps, python_level=0 or host_level=1"),
}


def checks(
    profile: Profile, duration_ps: int, host_level: int, device_level: int, verb: str = "capture"
) -> list[Check]:
    """Of a run that was captured with these levels. ``duration_ps``: as requested; 0: not for a time. ``verb``: what
    captured it: "capture", "run", or "record" of the API. Reads all events."""
    words = _WORDS[verb]
    reports = profile.reports_together("steps", "diagnosis")
    lacks = {row["what"]: row["how"] for row in reports["diagnosis"].tables["unrecorded"].to_pylist()}
    found = list(_steps(reports["steps"], lacks, duration_ps, words)) if host_level else []
    if host_level == 0:
        found.append(Check("host_tracer_off", None, "the host tracer was off: nothing shows what threads did, and "
                           "what devices waited for", words.host_tracer))  # fmt: skip
    elif "host threads" in lacks:
        found.append(Check("no_host_threads", None, "a host has no events of threads: its program did nothing that the "
                           "profiler records", "look whether the program was running, or waited"))  # fmt: skip
    if device_level == 0:
        found.append(Check("device_tracer_off", None, "the device tracer was off: nothing shows what devices did",
                           words.device_tracer))  # fmt: skip
    for host in profile.tables["hosts"].to_pylist():
        found += _of_host(host, duration_ps, words)
    return [*_losses(profile), *found]


def _losses(profile: Profile) -> Iterator[Check]:
    """What is damaged in captures that were loaded with ``on_error="salvage"``, and which records contradict others.
    What the profiler itself recorded as errors is in the table of hosts."""
    for row in profile.tables["import_log"].to_pylist():
        if row["code"] in CODES:
            if row["code"] != PROFILER_ERROR:
                yield Check(row["code"], row["path"], f"the capture is incomplete: {row['example'][:_LONGEST]}", "")
        elif row["severity"] == "data_loss":
            yield Check(DAMAGED, row["path"], f"the capture is damaged: {row['example'][:_LONGEST]}", _SALVAGE)


def _steps(steps: Report, lacks: dict[str, str], duration_ps: int, words: _Words) -> Iterator[Check]:
    count, time = (_whole(steps.scalars[name].value) for name in ("step_count", "step_time_mean_ps"))
    if not count:
        why = "; ".join(one.text.rstrip(".") for one in steps.notices if one.severity == "warning")
        yield Check(
            "no_steps", None, f"there are no steps{why and f': {why}'}", lacks.get("steps", "mark steps in the program")
        )
    elif count < _FEWEST_STEPS:
        longest = max(duration_ps // count, time)
        enough = -(-_ENOUGH_STEPS * longest // 10**12)
        yield Check("few_steps", None, f"there are only {counted(count, 'complete step', 'complete steps')}; means and "
                    "outliers need about ten", words.longer.format(seconds=enough))  # fmt: skip


def _whole(figure: object) -> int:
    """0: unknown."""
    return round(figure) if isinstance(figure, int | float) else 0


def _of_host(host: dict[str, Any], duration_ps: int, words: _Words) -> Iterator[Check]:
    name, start, stop = host["host"], host["start_unix_ns"], host["stop_unix_ns"]
    if start is not None and stop is not None and 0 <= (took := 1000 * (stop - start)) < _OF_DURATION * duration_ps:
        yield Check("too_short", name, f"{time_text(took)} of the requested {time_text(duration_ps)} were recorded",
                    "the capture was ended early: by an interrupt, or because the program ended")  # fmt: skip
    for code in ("errors", "warnings"):
        for text in host[code][:_MOST_TEXTS]:
            dropped = "drop" in text.casefold()
            advice = f"fewer events fit: {words.fewer_events}" if dropped else ""
            yield Check("events_dropped" if dropped else f"profiler_{code}", name, text[:_LONGEST], advice)
