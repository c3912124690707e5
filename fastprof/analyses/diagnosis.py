"""What costs the time: causes of lost time, the one to fix first on top, with evidence and advice.

Every finding rests on a table of another analysis, which it names. Causes and formulas: docs/analyses/diagnosis.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from fastprof.analyses.contract import (
    Known,
    Needs,
    Opening,
    Report,
    ScalarSpec,
    Section,
    has_rows,
    is_known,
    known,
    scalars,
)
from fastprof.analyses.findings import of_communication, of_elementwise, of_gaps, of_memory, of_ops, of_steps, of_tfprof
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import MOST_SHOWN, Finding, once_ps, ranked, within_run
from fastprof.analyses.findings.knowledge import advised
from fastprof.analyses.findings.names_of_host import NamesOfHost, joined, names_of
from fastprof.analyses.findings.specifics import specific
from fastprof.analyses.findings.start_up import parts
from fastprof.analyses.findings.unrecorded import Unrecorded, causes_without_evidence, unrecorded
from fastprof.decode.plane_kinds import device_of, device_word, several
from fastprof.decode.tfprof_profile import carries_profile
from fastprof.derive.causes.cause_names import CAUSES
from fastprof.derive.devices import device_count
from fastprof.derive.devices.devices import recorded_capability
from fastprof.derive.devices.framework import PYTORCH, UNKNOWN, framework_of_host, together
from fastprof.derive.devices.gpu_vendor import maker_of
from fastprof.derive.devices.run_environment import HARDWARE
from fastprof.derive.devices.tracer_levels import TracerLevels, least, tracer_levels
from fastprof.derive.host import CPU_ONLY, GPU, Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.launches import has_launches
from fastprof.derive.ops.record_checks import Flaw, HostRecords
from fastprof.derive.serving import MODEL, is_of_server
from fastprof.derive.steps import event_origin
from fastprof.derive.steps.torch_loaders import LoaderTime, loader_time, longest_wait
from fastprof.schema.column_kinds import Flag, Picoseconds, Share, String, Text
from fastprof.schema.tables import Column, Formula, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.wording.quantities import measured

if TYPE_CHECKING:
    from fastprof.decode.xspace_capture import Capture
    from fastprof.derive.tfprof.advisor import Examined

NAME = "diagnosis"
READS = Needs(stats=(MODEL, *event_origin.STATS, *record_checks.STATS))
AFTER = ("tf_data", "gaps", "steps", "communication", "kernel_stats", "hlo_stats", "roofline", "memory_profile",
         "op_stats")  # fmt: skip
"""tf_data is first: it takes much memory for a while, and the groups that the others keep are not made yet."""

RULES: Final = (of_gaps, of_communication, of_ops, of_elementwise, of_steps, of_memory, of_tfprof)
NO_WORK: Final = "no device of the capture ran anything"
_NOTHING_RAN: Final = "No device of the capture ran anything: no time of devices is lost or used."
_SERVES: Final = " Threads of the host serve requests for models: the report inference shows where their time goes."
OF_GPUS: Final = ("precision", "low_occupancy", "layout", "elementwise")
OF_PEAKS: Final = ("memory_bound", "low_utilization")
"""Causes that are looked for on GPUs only, and on devices with known peaks only."""


@dataclass(frozen=True, slots=True)
class Params:
    pass


def _of(name: str) -> Formula:
    return lambda rows: [getattr(one, name) for one in rows.findings]


TABLES = {
    "findings": TableSchema("findings", "a cause of lost time, the one to fix first at the top", (
        Column("rank", pa.int32(), "place of the finding, from 1", of=lambda rows: range(1, len(rows.findings) + 1)),
        Text("cause", "cause of the lost time, one of the list in docs/analyses/diagnosis.md", _of("cause")),
        String("title", "finding as a sentence", _of("title")),
        String("detail", "what other reports know of it; null: nothing more", _of("detail")),
        Picoseconds("cost_ps", "time of the run that the cause takes, on the mean device; null: not recorded",
                    _of("cost_ps")),
        Share("share", "cost_ps / window_ps; null: cost_ps is unknown", lambda rows: [
            None if one.cost_ps is None or not rows.window_ps else one.cost_ps / rows.window_ps
            for one in rows.findings]),
        Share("rest_share", "cost_ps / (window_ps without start-up); null: the capture has no start-up, the finding is "
              "of it, or cost_ps is unknown", lambda rows: [
                  None if one.cost_ps is None or one.is_once or not 0 < rows.start_up_ps < rows.window_ps
                  else one.cost_ps / (rows.window_ps - rows.start_up_ps) for one in rows.findings]),
        Flag("is_bound", "whether cost_ps is an upper bound of what can be saved", _of("is_bound")),
        Text("certainty", "certain: the cause is recorded; likely: it follows from what is recorded; possible: other "
             "causes fit, too", _of("certainty")),
        String("ranked_by", "what decides the rank, and which part of cost_ps that is; null: cost_ps", lambda rows: [
            one.ranked_by() for one in rows.findings]),
        Text("host", "host; null: several", _of("host")),
        Text("device", "device; null: several", _of("device")),
        Column("step", pa.int64(), "step; null: several, or none", True, of=_of("step")),
        String("op", "op with most of the time; null: unknown", _of("op")),
        String("annotation", "annotation, function or event of the host with most of the time; null: unknown",
               _of("annotation")),
        String("source", "line of source with most of the time; null: unknown", _of("source")),
        String("evidence", "rows that show it, as ANALYSIS.TABLE?COLUMN=VALUE", _of("evidence")),
        String("advice", "what to do, in the framework that made the capture", _of("advice")),
    ), derived=True),
    "examined": TableSchema("examined", "a cause that was looked at, the costliest first", (
        Text("cause", "cause of lost time", lambda rows: rows.causes),
        String("meaning", "what the cause is", lambda rows: [CAUSES[cause] for cause in rows.causes]),
        Picoseconds("cost_ps", "time of the run that it takes, on the mean device; null: unknown",
                    lambda rows: rows.costs),
        Share("share", "cost_ps / window_ps; null: cost_ps is unknown", lambda rows: rows.shares),
        String("reason", "why cost_ps is unknown; null: it is known", lambda rows: rows.reasons),
    ), derived=True),
    "unrecorded": TableSchema("unrecorded", "something that the capture does not record", (
        Text("what", "events or figures that the capture lacks", lambda rows: [one.what for one in rows]),
        Text("causes", "causes that may be missed for it", lambda rows: [one.causes for one in rows]),
        String("how", "how to record it", lambda rows: [one.how for one in rows]),
    ), derived=True),
}  # fmt: skip

SCALARS = {
    "headline": ScalarSpec(None, "what costs most, as a sentence"),
    "finding_count": ScalarSpec(None, "number of findings"),
    "window_ps": ScalarSpec("ps", "time of the run: from the first to the last work of the mean device", "run"),
    "compute_share": ScalarSpec(
        "share",
        "time in which the mean device computes / (window_ps without time whose records are lost)",
        "compute share of the run",
    ),
    "incomplete": ScalarSpec(None, "which records of the capture are missing or contradict others, and what to do"),
    "device_count": ScalarSpec(None, device_count.IN_WORDS),
    "used_device_count": ScalarSpec(None, "of these, devices that ran anything"),
    "computing_device_count": ScalarSpec(None, "of these, devices that computed or communicated; findings are of them"),
    "framework": ScalarSpec(None, "framework that made the capture, by names in it"),
}
OPENING = Opening(("{headline}",), ("window_ps", "compute_share", "device_count", "finding_count", "framework"))
IN_WORDS: Final = (
    "title", "cost_ps", "share", "rest_share", "is_bound", "detail", "host", "device", "op", "source", "certainty",
    "ranked_by", "advice", "evidence",
)  # fmt: skip
FINDINGS: Final = Section("What costs the time", "findings", IN_WORDS, rows=MOST_SHOWN, shown=has_rows("findings"),
                          in_words=True)  # fmt: skip
INCOMPLETE: Final = Section("Capture incomplete", scalars=("incomplete",), shown=is_known("incomplete"))
SECTIONS = (
    INCOMPLETE,
    FINDINGS,
    Section(
        "Run",
        scalars=(
            "window_ps",
            "compute_share",
            "device_count",
            "used_device_count",
            "computing_device_count",
            "framework",
        ),
    ),
    Section(
        "Causes that were looked at",
        "examined",
        ("cause", "cost_ps", "share", "reason"),
        "share",
        rows=30,
        nonzero="cost_ps",
        wraps="reason",
        shown=lambda report: report.scalars["window_ps"].value is not None,
    ),
    Section("Not recorded", "unrecorded", rows=10, shown=has_rows("unrecorded"), in_words=True),
)


@dataclass(frozen=True, slots=True)
class KeptHost:
    """What decides what a capture does not record."""

    framework: str
    hardware: str
    has_threads: bool
    names: NamesOfHost
    levels: TracerLevels | None
    capability: tuple[int, int] | None
    serves: bool
    """Whether its threads serve requests for models."""
    graph: Examined | None
    """What tfprof's advisor finds, if the capture is a profile of tfprof."""
    records: HostRecords
    device: str
    """What to call its devices."""
    maker: str | None
    loader: LoaderTime
    has_launches: bool
    """Whether the call is recorded that launched anything that GPUs ran."""


def of_host(host: Host, params: Params) -> KeptHost:
    threads = host.raw.plane_named(HOST_THREADS)
    has_threads = threads is not None and threads.last > threads.first
    levels = tracer_levels(host.raw)
    graph = _examined_graph(host.raw.capture)
    names = names_of(host.raw, host.entire.events)
    return KeptHost(framework_of_host(host.raw), host.hardware, has_threads, names, levels,
                    recorded_capability(host.raw.planes), is_of_server(host.raw), graph,
                    record_checks.records_of(host.entire.raw), _device(host), maker_of(host.raw),
                    loader_time(host.raw), has_launches(host.entire.raw))  # fmt: skip


def _device(host: Host) -> str:
    planes = [name for name in host.raw.plane_names if device_of(name)[0] == GPU]
    return device_word(planes) if host.hardware == GPU else host.hardware


def _examined_graph(capture: Capture) -> Examined | None:
    if not carries_profile(capture):
        return None
    from fastprof.derive.tfprof.advisor import examined  # most captures are none
    from fastprof.derive.tfprof.view_set import views_of_profile

    views = views_of_profile(capture)
    return None if views is None else examined(capture.host, views)


def run(kept: Sequence[KeptHost], params: Params, after: Mapping[str, Report]) -> Report:
    framework, hardware = together(one.framework for one in kept), _hardware(kept)
    levels = least(one.levels for one in kept)
    capability = min((one.capability for one in kept if one.capability is not None), default=None)
    graphs = tuple(one.graph for one in kept if one.graph is not None)
    words, makers = ({getattr(one, name) for one in kept if one.hardware == hardware} for name in ("device", "maker"))
    device, maker = words.pop() if len(words) == 1 else "device", makers.pop() if len(makers) == 1 else None
    loader = longest_wait(one.loader for one in kept)
    names = joined(one.names for one in kept)
    facts = Facts(framework, hardware, after, names, levels, capability, graphs, device, maker, loader)
    costs = [within_run(one, facts.window_ps) for rule in RULES for one in rule.found(facts) if facts.window_ps]
    every = [specific(facts, part) for one in costs for part in parts(facts, one)]
    findings = [advised(facts, one) for one in ranked(every, facts.window_ps)]
    flaws = record_checks.all_flaws([one.records for one in kept])
    missing = list(
        unrecorded(
            facts,
            flaws,
            has_threads=all(one.has_threads for one in kept),
            has_python=facts.names.has_python,
        )
    )
    start_up_ps = once_ps(every)
    counted = findings + [one for one in every if one.cause not in {shown.cause for shown in findings}]
    shown = SimpleNamespace(findings=findings, window_ps=facts.window_ps, start_up_ps=start_up_ps)
    tables = {
        "findings": TABLES["findings"].of(shown),
        "examined": TABLES["examined"].of(_examined(facts, counted, [*_absent(facts, kept, missing)], flaws)),
        "unrecorded": TABLES["unrecorded"].of(missing),
    }
    values = _values(facts, findings, start_up_ps, flaws, serves=any(one.serves for one in kept))
    return Report(NAME, tables, scalars(SCALARS, values), (), dict(after))


def _why_no_work(flaws: Sequence[Flaw]) -> str:
    return next((one.text for one in flaws if one.hides_devices), NO_WORK)


def _hardware(kept: Sequence[KeptHost]) -> str:
    """The kind of the devices; TPUs before GPUs."""
    return max((one.hardware for one in kept), key=HARDWARE.index, default=CPU_ONLY)


def _examined(
    facts: Facts, every: Sequence[Finding], absent: Sequence[tuple[str, str]], flaws: Sequence[Flaw]
) -> SimpleNamespace:
    """Every cause: what it costs, 0 if nothing shows it, unknown if the capture lacks what would. Of one cause, costs
    that are no upper bounds are added; an upper bound may hold the same time, so the larger counts. ``every``: the
    findings that are shown, and of other causes those that are too small; ``absent``: causes without evidence, and why;
    ``flaws``: may be the reason why there is no run."""
    costs: Counter[str] = Counter()
    for one in every:
        costs[one.cause] += 0 if one.is_bound else one.cost_ps or 0
    for one in every:
        costs[one.cause] = max(costs[one.cause], one.cost_ps or 0)
    costs["lost_records"] = facts.per_device(facts.lost_records_ps)
    reasons = dict(reversed(absent)) if facts.window_ps else dict.fromkeys(CAUSES, _why_no_work(flaws))
    unknown = {cause: reasons[cause] for cause in CAUSES if cause in reasons and not costs.get(cause)}
    known = {cause: None if cause in unknown else costs[cause] for cause in CAUSES}
    causes = sorted(CAUSES, key=lambda cause: -(known[cause] or 0))
    return SimpleNamespace(
        causes=causes,
        costs=[known[cause] for cause in causes],
        shares=[_share(known[cause], facts.window_ps) for cause in causes],
        reasons=[unknown.get(cause) for cause in causes],
    )


def _absent(facts: Facts, kept: Sequence[KeptHost], missing: Sequence[Unrecorded]) -> Iterator[tuple[str, str]]:
    """Causes that the capture lacks the evidence of, and what it lacks; the first reason of each counts."""
    for lack in missing:
        yield from ((cause, f"the capture does not record {lack.what}") for cause in lack.causes.split(", "))
    if facts.hardware != GPU:
        yield from ((cause, "the capture has no GPU") for cause in OF_GPUS)
    if facts.figure("roofline", "peak_flops_per_s") is None:
        yield from ((cause, "the peaks of the device are not known") for cause in OF_PEAKS)
    yield from causes_without_evidence(facts, has_launches=any(one.has_launches for one in kept))


def _share(cost: int | None, window: int) -> float | None:
    return None if cost is None or not window else cost / window


def _values(
    facts: Facts, findings: Sequence[Finding], start_up_ps: int, flaws: Sequence[Flaw], *, serves: bool
) -> dict[str, Known]:
    hidden = next((one.sentence for one in flaws if one.hides_devices), "")
    incomplete = " ".join(f"{one.text[0].upper()}{one.text[1:]}. {one.remedy}" for one in flaws)
    flawed: dict[str, Known] = {"incomplete": incomplete or (None, "no record contradicts another")}
    of_gaps = facts.reports["gaps"].scalars
    devices: dict[str, Known] = {name: known(of_gaps[name]) for name in ("device_count", "used_device_count")}
    if not facts.window_ps:
        unknown = dict.fromkeys(SCALARS, (None, _why_no_work(flaws)))
        headline = (hidden or _NOTHING_RAN) + (_SERVES if serves else "")
        answers: dict[str, Known] = {"headline": headline, "framework": _framework(facts), "finding_count": 0}
        none = (None, _why_no_work(flaws)) if hidden else 0
        return {**unknown, **devices, **answers, **flawed, "computing_device_count": none}
    return flawed | {
        "headline": f"{hidden} {_headline(facts, findings, start_up_ps)}".lstrip(),
        "finding_count": len(findings),
        "window_ps": facts.window_ps,
        "compute_share": facts.compute_share,
        **devices,
        "computing_device_count": facts.computing_count,
        "framework": _framework(facts),
    }


def _framework(facts: Facts) -> Known:
    return (None, "no name in the capture shows it") if facts.framework == UNKNOWN else facts.framework


def _headline(facts: Facts, findings: Sequence[Finding], start_up_ps: int) -> str:
    first = next((one for one in findings if one.cost_ps is not None), None)
    if first is None or first.cost_ps is None:
        share = measured(facts.compute_share, "share")
        return f"{_of_devices(facts)}No cause takes 1 % of the run or more; devices compute for {share} of it."
    bound, once = "up to " if first.is_bound else "", 0 if first.is_once else start_up_ps
    share = measured(first.cost_ps / max(facts.window_ps - once, 1), "share")
    start = f"Start-up takes {measured(once, 'ps')} and does not come again. " if once else ""
    rest = "rest of the run" if once else "run"
    return f"{_of_devices(facts)}{start}{first.title}: {bound}{measured(first.cost_ps, 'ps')}, {share} of the {rest}."


def _of_devices(facts: Facts) -> str:
    """That only some devices compute. PyTorch lists all GPUs of a machine, also those of other processes."""
    count, computing = int(facts.figure("gaps", "device_count") or 0), facts.computing_count
    if facts.framework == PYTORCH or facts.hardware == CPU_ONLY or not computing or computing >= count:
        return ""
    return f"Of {count} {several(facts.device)}, {computing} compute{'s' if computing == 1 else ''}. "
