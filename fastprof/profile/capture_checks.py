"""What a fresh capture lacks, and how the next one gets it: checks in the words of ``fastprof capture``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fastprof.wording.quantities import counted, time_text

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report

_FEWEST_STEPS: Final = 3
_ENOUGH_STEPS: Final = 10
_OF_DURATION: Final = 0.9
_MOST_TEXTS: Final = 5
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Check:
    """``code``: what is missing, for programs. ``host``: None if it is so of all."""

    code: str
    host: str | None
    text: str
    advice: str


def checks(profile: Profile, duration_ps: int, host_level: int, device_level: int) -> list[Check]:
    """Of a run that was captured for this time with these levels. Reads all events."""
    reports = profile.reports("steps", "diagnosis")
    lacks = {row["what"]: row["how"] for row in reports["diagnosis"].tables["unrecorded"].to_pylist()}
    found = list(_steps(reports["steps"], lacks, duration_ps)) if host_level else []
    if host_level == 0:
        found.append(Check("host_tracer_off", None, "the host tracer was off: nothing shows what threads did, and "
                           "what devices waited for", "--host-level 2"))  # fmt: skip
    elif "host threads" in lacks:
        found.append(Check("no_host_threads", None, "a host has no events of threads: its program did nothing that the "
                           "profiler records", "look whether the program was running, or waited"))  # fmt: skip
    if device_level == 0:
        found.append(Check("device_tracer_off", None, "the device tracer was off: nothing shows what devices did",
                           "--device-level 1"))  # fmt: skip
    for host in profile.tables["hosts"].to_pylist():
        found += _of_host(host, duration_ps)
    return found


def _steps(steps: Report, lacks: dict[str, str], duration_ps: int) -> Iterator[Check]:
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
                    "outliers need about ten", f"--duration {enough}s")  # fmt: skip


def _whole(figure: object) -> int:
    """0: unknown."""
    return round(figure) if isinstance(figure, int | float) else 0


def _of_host(host: dict[str, Any], duration_ps: int) -> Iterator[Check]:
    name, start, stop = host["host"], host["start_unix_ns"], host["stop_unix_ns"]
    if start is not None and stop is not None and 0 <= (took := 1000 * (stop - start)) < _OF_DURATION * duration_ps:
        yield Check("too_short", name, f"{time_text(took)} of the requested {time_text(duration_ps)} were recorded",
                    "the capture was ended early: by an interrupt, or because the program ended")  # fmt: skip
    for code in ("errors", "warnings"):
        for text in host[code][:_MOST_TEXTS]:
            dropped = "drop" in text.casefold()
            advice = "fewer events fit: a shorter --duration, --python-level 0 or --host-level 1" if dropped else ""
            yield Check("events_dropped" if dropped else f"profiler_{code}", name, text[:_LONGEST], advice)
