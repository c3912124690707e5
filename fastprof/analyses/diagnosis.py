"""Causes of lost time, the one to fix first on top, with evidence and advice.

Every finding rests on a table of another analysis, which it names. Causes and formulas: docs/analyses/diagnosis.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from fastprof.analyses.contract import (
    AnalysisReport,
    Known,
    Opening,
    ScalarSpec,
    Section,
    get_known,
    has_rows,
    is_known,
    make_scalars,
)
from fastprof.analyses.findings import idle_findings, op_findings, reports, step_findings
from fastprof.analyses.findings.facts import (
    MOST_SHOWN,
    RECORDERS,
    UNKNOWN_RECORDER,
    DiagnosisFacts,
    EventNames,
    Finding,
    collect_names,
    join_names,
    limit_to_run,
    rank_findings,
    sum_start_up,
)
from fastprof.analyses.findings.guides import Unrecorded, add_advice, list_unproven_causes, list_unrecorded
from fastprof.analyses.findings.idle_findings import add_context, split_start_up
from fastprof.analyses.findings.recompilation import (
    RECOMPILATIONS,
    build_table,
    number_recompilations,
)
from fastprof.decode.plane_kinds import find_device_of_plane, get_device_word, pluralise_device
from fastprof.decode.span_stats import has_tfprof_profile
from fastprof.derive.causes import recompilations
from fastprof.derive.causes.cause_names import CAUSE_LABELS, CAUSES
from fastprof.derive.causes.compilations import Compilation
from fastprof.derive.causes.python_calls import LongestFunction, find_longest_function
from fastprof.derive.causes.slow_steps import FEWEST_ON_LEVELS
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.device_peaks import find_capability
from fastprof.derive.devices.gpu_kernels import maker_of
from fastprof.derive.devices.op_names import PYTORCH, UNKNOWN, choose_framework, find_host_framework
from fastprof.derive.devices.run_environment import HARDWARE, TracerLevels, find_least_levels, read_tracer_levels
from fastprof.derive.host import CPU_ONLY, GPU, Host
from fastprof.derive.ops import record_checks
from fastprof.derive.ops.device_time import find_extent_of_spans
from fastprof.derive.ops.launches import has_launches
from fastprof.derive.ops.record_checks import Flaw, HostRecords
from fastprof.derive.serving import MODEL, is_of_server
from fastprof.derive.steps import event_origin
from fastprof.derive.steps.event_origin import parse_frame
from fastprof.derive.steps.host_calls import LoaderTime, longest_wait, measure_loader_time
from fastprof.derive.steps.step_alignment import SessionSteps
from fastprof.schema.tables import Column, Flag, ObjectRows, Picoseconds, Share, String, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.needs import Needs, unite_needs
from fastprof.wording.quantities import count_noun, format_cost, format_measure, format_time

if TYPE_CHECKING:
    from fastprof.decode.xspace_capture import Capture
    from fastprof.derive.tfprof.view_set import AdvisorResult

NAME = "diagnosis"
READS = unite_needs([
    recompilations.READS, Needs(stats=(MODEL, *event_origin.STATS, *record_checks.RECORD_STATS))
])  # fmt: skip
AFTER = ("tf_data", "gaps", "steps", "communication", "kernel_stats", "hlo_stats", "roofline", "memory_profile",
         "op_stats")  # fmt: skip
"""Prerequisites. tf_data is first: it takes much memory for a while, and host states of the others do not exist yet."""

RULES: Final = (
    idle_findings.find_idle_time, step_findings.find_collective_waits, op_findings.find_slow_ops,
    op_findings.find_unfused_ops, step_findings.find_slow_host, step_findings.find_long_steps,
    step_findings.find_slowdowns, op_findings.find_leaks, op_findings.find_full_memory, op_findings.find_tfprof_advice,
)  # fmt: skip
NO_WORK: Final = "no device work is recorded"
_NOTHING_RAN: Final = "No device work is recorded: device time is neither used nor lost."
_SERVES: Final = " Host threads serve model requests: the report inference shows where their time goes."
OF_GPUS: Final = ("precision", "low_occupancy", "layout", "elementwise")
OF_PEAKS: Final = ("memory_bound", "low_utilization")
"""Causes that need GPUs, and causes that need devices with known peaks."""


@dataclass(frozen=True, slots=True)
class Params:
    recorded_with: str = field(
        default=UNKNOWN_RECORDER,
        metadata={"help": "command that recorded the run; hints use its flags", "choices": RECORDERS, "alone": True},
    )


TABLES = {
    "findings": TableSchema("findings", "a cause of lost time, the one to fix first at the top", (
        Column("rank", pa.int32(), "place of the finding, from 1", of=lambda rows: range(1, len(rows.each) + 1)),
        Text("cause", "cause of the lost time, one of the list in docs/analyses/diagnosis.md"),
        String("title", "finding as a sentence"),
        String("detail", "details from other reports; null: none"),
        Picoseconds("cost_ps", "run time that the cause takes, mean over devices; null: not recorded"),
        Share("share", "cost_ps / window_ps; null: cost_ps is unknown", lambda rows: [
            None if finding.cost_ps is None or not rows.window_ps else finding.cost_ps / rows.window_ps
            for finding in rows.each]),
        Share("rest_share", "cost_ps / (window_ps without start-up); null: the capture has no start-up, the finding is "
              "of it, or cost_ps is unknown", lambda rows: [
                  None if finding.cost_ps is None or finding.is_once or not 0 < rows.start_up_ps < rows.window_ps
                  else finding.cost_ps / (rows.window_ps - rows.start_up_ps) for finding in rows.each]),
        Flag("is_bound", "whether cost_ps is an upper bound of what can be saved"),
        Text("certainty", "certain: the cause is recorded; likely: it follows from the records; possible: other "
             "causes fit too"),
        String("ranked_by", "cost_ps with the factors that decide the rank; null: cost_ps decides", lambda rows: [
            finding.explain_rank() for finding in rows.each]),
        Text("host", "host; null: several"),
        Text("device", "device; null: several"),
        Column("step", pa.int64(), "step; null: several, or none", True),
        String("op", "op with most of the time; null: unknown"),
        String("annotation", "host annotation, function or event with most of the time; null: unknown"),
        String("source", "source line with most of the time; null: unknown"),
        String("evidence", "rows of evidence, as ANALYSIS.TABLE?COLUMN=VALUE"),
        String("advice", "what to do, in the framework that made the capture"),
    ), derived=True),
    "examined": TableSchema("examined", "a checked cause, the costliest first", (
        Text("cause", "cause of lost time", lambda rows: rows.causes),
        String("label", "display name of the cause", lambda rows: [CAUSE_LABELS[cause] for cause in rows.causes]),
        String("meaning", "what the cause is", lambda rows: [CAUSES[cause] for cause in rows.causes]),
        Picoseconds("cost_ps", "run time that it takes, mean over devices; null: unknown",
                    lambda rows: rows.costs),
        Share("share", "cost_ps / window_ps; null: cost_ps is unknown", lambda rows: rows.shares),
        String("reason", "why cost_ps is unknown; null: known", lambda rows: rows.reasons),
    ), derived=True),
    "unrecorded": TableSchema("unrecorded", "something that the capture lacks", (
        Text("what", "events or figures that the capture lacks"),
        Text("causes", "causes that may be missed for it"),
        String("how", "how to record it"),
    ), derived=True),
    "recompilations": RECOMPILATIONS,
}  # fmt: skip

SCALARS = {
    "headline": ScalarSpec(None, "costliest cause, as a sentence"),
    "finding_count": ScalarSpec(None, "number of findings"),
    "window_ps": ScalarSpec("ps", "run time: from the first to the last work of a device, mean over the devices that "
                            "computed or communicated; window_ps of gaps is the sum over all that ran anything", "run"),
    "start_up_ps": ScalarSpec("ps", "one-time cost at the start of the run, such as allocation or compilation, "
                              "without device compute; part of window_ps; null: none was found"),
    "compute_share": ScalarSpec(
        "share", "compute time, mean over devices / (window_ps without time whose records are lost)",
        "compute share of the run"),
    "incomplete": ScalarSpec(None, "which records of the capture are missing or contradict others, and what to do"),
    "device_count": ScalarSpec(None, run_environment.IN_WORDS),
    "used_device_count": ScalarSpec(None, "number of these devices that ran anything, copies included"),
    "computing_device_count": ScalarSpec(
        None, "number of these devices that computed or communicated: findings are about them"
    ),
    "framework": ScalarSpec(None, "framework that made the capture, by names in it"),
}  # fmt: skip
OPENING = Opening(("{headline}",), ("window_ps", "compute_share", "device_count", "finding_count", "framework"))
IN_WORDS: Final = (
    "title", "cost_ps", "share", "rest_share", "is_bound", "advice", "detail", "host", "device", "op", "source",
    "certainty", "ranked_by", "evidence",
)  # fmt: skip
FINDINGS: Final = Section("What costs the time", "findings", IN_WORDS, rows=MOST_SHOWN, shown=has_rows("findings"),
                          in_words=True, details=("ranked_by",),
                          beside=("host", "device", "op", "source", "certainty"))  # fmt: skip
INCOMPLETE: Final = Section("Capture incomplete", scalars=("incomplete",), shown=is_known("incomplete"))


def _summarize_run(report: AnalysisReport) -> str:
    figures = report.scalars
    count, used, framework = (figures[name].value for name in ("device_count", "used_device_count", "framework"))
    if count is None:
        return f"Run: unknown ({figures['device_count'].reason})"
    is_part = used and int(used) < int(count)
    many = f"{used:,} of {count:,} listed devices" if is_part else count_noun(int(count), "device", "devices")
    devices = f"{many}, {framework or 'unknown framework'}"
    values = [(name, figures[name].value, figures[name].unit) for name in ("window_ps", "compute_share")]
    known = {name: format_measure(value, unit) for name, value, unit in values if isinstance(value, int | float)}
    if "window_ps" not in known:
        return f"Run: {devices}"
    return f"Run: {known['window_ps']} on {devices}; compute share {known.get('compute_share', 'unknown')}"


def summarize_examined(report: AnalysisReport, how_to_list: str = "") -> str:
    """Count the causes without a finding. ``how_to_list``: how those that cannot be judged are listed."""
    findings = set(report.tables["findings"]["cause"].to_pylist())
    causes, costs = (report.tables["examined"][name].to_pylist() for name in ("cause", "cost_ps"))
    known = [cause for cause, cost in zip(causes, costs, strict=True) if cost is not None and cause not in findings]
    unknown = sum(cost is None and cause not in findings for cause, cost in zip(causes, costs, strict=True))
    if not known:
        return "No other cause could be checked" if findings else "No cause could be checked"
    rest = f"; {unknown} cannot be judged from this capture{how_to_list}" if unknown else ""
    return f"Checked and harmless: {count_noun(len(known), 'cause', 'causes')}{rest}"


def _summarize_unrecorded(report: AnalysisReport) -> str:
    return f"Not recorded: {', '.join(report.tables['unrecorded']['what'].to_pylist())}"


SECTIONS = (
    INCOMPLETE,
    FINDINGS,
    Section("Recompilations", "recompilations", ("function", "number", "step", "duration_ps", "change", "argument",
            "before", "after", "source", "reason"), rows=20, wraps="reason", shown=has_rows("recompilations")),
    Section("Run", scalars=("window_ps", "compute_share", "device_count", "used_device_count",
                            "computing_device_count", "framework"), summary=_summarize_run),
    Section("Checked causes", "examined", ("cause", "cost_ps", "share", "reason"), "share", rows=30,
            nonzero="cost_ps", wraps="reason", words={"cause": CAUSE_LABELS}, summary=summarize_examined,
            shown=lambda report: report.scalars["window_ps"].value is not None),
    Section("Not recorded", "unrecorded", rows=10, shown=has_rows("unrecorded"), in_words=True,
            words={"causes": CAUSE_LABELS}, summary=_summarize_unrecorded),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiagnosisHostState:
    """Event names of a host, and what its capture does and does not record."""

    framework: str
    hardware: str
    has_threads: bool
    names: EventNames
    levels: TracerLevels | None
    capability: tuple[int, int] | None
    serves: bool
    """True if its threads serve requests for models."""
    graph: AdvisorResult | None
    """Result of tfprof's advisor, if the capture is a tfprof profile."""
    records: HostRecords
    device: str
    """Display name of its devices."""
    maker: str | None
    loader: LoaderTime
    has_launches: bool
    """True if any launch of GPU work is recorded."""
    name: str
    compilations: list[Compilation]
    longest: LongestFunction | None
    """The longest Python function of a host whose devices ran nothing, else None."""


def of_host(host: Host, params: Params) -> DiagnosisHostState:
    raw, threads = host.raw, host.raw.plane_named(HOST_THREADS)
    gpus = [name for name in raw.plane_names if find_device_of_plane(name)[0] == GPU]
    if host.hardware == CPU_ONLY:
        has_work = find_extent_of_spans(host.thread_spans) is not None
    else:
        has_work = any(line.last > line.first for plane in raw.planes_of(host.hardware) for line in plane.lines)
    return DiagnosisHostState(
        framework=find_host_framework(raw),
        hardware=host.hardware,
        has_threads=threads is not None and threads.last > threads.first,
        levels=read_tracer_levels(raw),
        graph=_read_advisor(raw.capture),
        names=collect_names(host.entire.events),
        capability=find_capability(raw.planes),
        serves=is_of_server(raw),
        records=record_checks.check_records(host.entire.raw),
        device=get_device_word(gpus) if host.hardware == GPU else host.hardware,
        maker=maker_of(raw),
        loader=measure_loader_time(raw),
        has_launches=has_launches(host.entire.raw),
        name=host.name,
        compilations=recompilations.find_compilations(host),
        longest=None if has_work else find_longest_function(host.raw),
    )


def _read_advisor(capture: Capture) -> AdvisorResult | None:
    if not has_tfprof_profile(capture):
        return None
    from fastprof.derive.tfprof.view_set import examine_host, read_views  # most captures are none

    views = read_views(capture)
    return None if views is None else examine_host(capture.host, views)


def run(kept: Sequence[DiagnosisHostState], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    hardware = max((host.hardware for host in kept), key=HARDWARE.index, default=CPU_ONLY)  # TPUs before GPUs
    used = [host for host in kept if host.hardware == hardware]
    devices, makers = {host.device for host in used}, {host.maker for host in used}
    facts = DiagnosisFacts(
        framework=choose_framework(host.framework for host in kept),
        hardware=hardware,
        reports=after,
        names=join_names(host.names for host in kept),
        levels=find_least_levels(host.levels for host in kept),
        capability=min((host.capability for host in kept if host.capability is not None), default=None),
        graphs=tuple(host.graph for host in kept if host.graph is not None),
        device=devices.pop() if len(devices) == 1 else "device",
        maker=makers.pop() if len(makers) == 1 else None,
        loader=longest_wait(host.loader for host in kept),
        compilations=Counter(each.function for host in kept for each in host.compilations),
        recompilations=number_recompilations(
            [(host.name, host.compilations) for host in kept], after["steps"].detail_as(SessionSteps).database
        ),
        recorded_with=params.recorded_with,
    )
    costs = [limit_to_run(cost, facts.window_ps) for rule in RULES for cost in rule(facts) if facts.window_ps]
    every = [add_context(facts, part) for cost in costs for part in split_start_up(facts, cost)]
    findings = [add_advice(facts, finding) for finding in rank_findings(every, facts.window_ps)]
    flaws = record_checks.list_flaws([host.records for host in kept])
    has_threads, has_python = all(host.has_threads for host in kept), facts.names.has_python
    missing = [*list_unrecorded(facts, flaws, has_threads=has_threads, has_python=has_python)]
    start_up_ps = sum_start_up(every)
    causes = {finding.cause for finding in findings}
    counted = findings + [finding for finding in every if finding.cause not in causes]
    shown = ObjectRows(findings, window_ps=facts.window_ps, start_up_ps=start_up_ps)
    tables = {
        "findings": TABLES["findings"].of(shown),
        "examined": TABLES["examined"].of(_list_causes(facts, counted, [*_list_absent(facts, kept, missing)], flaws)),
        "unrecorded": TABLES["unrecorded"].of(ObjectRows(missing)),
        "recompilations": build_table(facts.recompilations),
    }
    values = _compute_values(facts, findings, start_up_ps, flaws, kept)
    return AnalysisReport(NAME, tables, make_scalars(SCALARS, values), (), dict(after))


def _explain_no_work(flaws: Sequence[Flaw]) -> str:
    return next((flaw.text for flaw in flaws if flaw.hides_devices), NO_WORK)


def _describe_idle_run(kept: Sequence[DiagnosisHostState]) -> str:
    """Return the headline of a run in which no device ran anything, with the Python function that took its time."""
    known = [host.longest for host in kept if host.longest is not None]
    longest = max(known, key=lambda function: function.time_ps, default=None)
    if longest is None or 2 * longest.time_ps < longest.window_ps:
        return _NOTHING_RAN
    frame = parse_frame(longest.name)
    return (
        f"No device work is recorded: {frame.function} ({frame.file}:{frame.line}) takes "
        f"{format_time(longest.time_ps)} of "
        f"the {format_time(longest.window_ps)} on its thread. Make it faster, or record for longer."
    )


def _list_causes(
    facts: DiagnosisFacts, every: Sequence[Finding], absent: Sequence[tuple[str, str]], flaws: Sequence[Flaw]
) -> SimpleNamespace:
    """List what every cause costs: 0 if nothing shows it, None if the capture lacks the records that would.

    Costs of one cause are added, apart from upper bounds, which may hold the same time, so that the larger counts.
    ``every``: findings that are shown, and of other causes findings that are too small; ``absent``: causes without
    evidence, and why; ``flaws``: may explain an empty run."""
    costs: Counter[str] = Counter()
    for finding in every:
        costs[finding.cause] += 0 if finding.is_bound else finding.cost_ps or 0
    for finding in every:
        costs[finding.cause] = max(costs[finding.cause], finding.cost_ps or 0)
    costs["lost_records"] = facts.per_device(facts.lost_records_ps)
    reasons = dict(reversed(absent)) if facts.window_ps else dict.fromkeys(CAUSES, _explain_no_work(flaws))
    unknown = {cause: reasons[cause] for cause in CAUSES if cause in reasons and not costs.get(cause)}
    known = {cause: None if cause in unknown else costs[cause] for cause in CAUSES}
    causes = sorted(CAUSES, key=lambda cause: -(known[cause] or 0))
    costs_in_order = [known[cause] for cause in causes]
    return SimpleNamespace(
        causes=causes,
        costs=costs_in_order,
        shares=[None if cost is None or not facts.window_ps else cost / facts.window_ps for cost in costs_in_order],
        reasons=[unknown.get(cause) for cause in causes],
    )


def _list_absent(
    facts: DiagnosisFacts, kept: Sequence[DiagnosisHostState], missing: Sequence[Unrecorded]
) -> Iterator[tuple[str, str]]:
    """Yield causes without evidence in the capture, each with a missing record."""
    for lack in missing:
        yield from ((cause, f"the capture does not record {lack.what}") for cause in lack.causes.split(", "))
    if facts.hardware != GPU:
        yield from ((cause, "the capture has no GPU") for cause in OF_GPUS)
    if facts.figures(reports.Roofline).peak_flops_per_s is None:
        yield from ((cause, "the device peaks are unknown") for cause in OF_PEAKS)
    steps = facts.figures(reports.Steps)
    if 0 < (steps.step_count or 0) < FEWEST_ON_LEVELS + (steps.incomplete_step_count or 0):
        yield "slowdown", f"fewer than {FEWEST_ON_LEVELS} complete steps"
    yield from list_unproven_causes(facts, has_launches=any(host.has_launches for host in kept))


def _compute_values(
    facts: DiagnosisFacts,
    findings: Sequence[Finding],
    start_up_ps: int,
    flaws: Sequence[Flaw],
    kept: Sequence[DiagnosisHostState],
) -> dict[str, Known]:
    hidden = next((flaw.sentence for flaw in flaws if flaw.hides_devices), "")
    incomplete = " ".join(f"{flaw.text[0].upper()}{flaw.text[1:]}. {flaw.remedy}" for flaw in flaws)
    gaps = facts.scalars(reports.Gaps)
    values = {figure.name: get_known(figure) for figure in (gaps.device_count, gaps.used_device_count)}
    values["incomplete"] = incomplete or (None, "no contradictory records")
    nameless = facts.framework == UNKNOWN
    values["framework"] = (None, "no name in the capture shows the framework") if nameless else facts.framework
    if not facts.window_ps:
        count = facts.figures(reports.KernelStats).occurrences
        timeless = f"All {count:,} recorded kernels have a duration of 0: device time is unknown." if count else ""
        unknown = (None, timeless.removesuffix(".") if timeless and not hidden else _explain_no_work(flaws))
        headline = hidden or timeless or _describe_idle_run(kept)
        headline += _SERVES if any(host.serves for host in kept) else ""
        values |= {"headline": headline, "finding_count": 0, "computing_device_count": unknown if hidden else 0}
        return dict.fromkeys(SCALARS, unknown) | values
    return values | {
        "headline": f"{hidden} {_write_headline(facts, findings, start_up_ps)}".lstrip(),
        "finding_count": len(findings),
        "window_ps": facts.window_ps,
        "start_up_ps": start_up_ps or (None, "no start-up cost was found"),
        "compute_share": facts.compute_share,
        "computing_device_count": facts.computing_count,
    }


def _write_headline(facts: DiagnosisFacts, findings: Sequence[Finding], start_up_ps: int) -> str:
    first = next((finding for finding in findings if finding.cost_ps is not None), None)
    if first is None or first.cost_ps is None:
        share = format_measure(facts.compute_share, "share")
        return f"{_describe_devices(facts)}No cause takes 1 % of the run or more; devices compute for {share} of it."
    once = 0 if first.is_once else start_up_ps
    cost = format_cost(first.cost_ps, first.cost_ps / max(facts.window_ps - once, 1), is_bound=first.is_bound)
    start = f"One-time start-up: {format_measure(once, 'ps')}. " if once else ""
    rest = "rest of the run" if once else "run"
    return f"{_describe_devices(facts)}{start}{first.title}: {cost} of the {rest}."


def _describe_devices(facts: DiagnosisFacts) -> str:
    """Say that only some devices compute. PyTorch lists all GPUs of a machine, including GPUs of other processes."""
    count, used = facts.figures(reports.Gaps).device_count or 0, facts.figures(reports.Gaps).used_device_count or 0
    computing = facts.computing_count
    if facts.framework == PYTORCH or facts.hardware == CPU_ONLY or not computing or computing >= count:
        return ""
    copying = used - computing
    copies = f"; {copying} only {'copies' if copying == 1 else 'copy'}" if copying > 0 else ""
    return f"{computing} of {count} {pluralise_device(facts.device)} compute{'s' if computing == 1 else ''}{copies}. "
