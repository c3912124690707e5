"""Show what a session captured, what costs the most time, and the next commands.

Shows the framework, devices, duration and steps of a session, its most important figures, the three most important
findings of the diagnosis, with an action for each, and commands that show more. 'fastprof SESSION' is short for this.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastprof.cli import analysis, arguments, output
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport, Scalar
    from fastprof.render.brief import Question
    from fastprof.render.table_forms import Look

FIRST_REPORTS: Final = ("overview", "diagnosis")
MOST_BRIEF: Final = 4096
_SHOWN: Final = 3
"""Findings that are shown, unless --limit says otherwise."""
_CAPTURED: Final = ("framework", "device_type", "device_count", "host_count", "window_ps", "step_count")
_FIGURES: Final = (
    "step_time_p50_ps", "step_time_max_ps", "compute_share", "input_percent", "flops_utilization_percent",
    "memory_utilization_percent",
)  # fmt: skip
_MORE_FIGURES: Final = ("duty_cycle_percent", "device_idle_percent", "mxu_utilization_percent")
_OF_MEMORY: Final = {"peak_memory_bytes": "peak_bytes", "peak_memory_share": "peak_share"}
"""Figures of documents, and names of those of the memory profile there."""
_OF_FINDING: Final = (
    "rank", "cause", "title", "cost_ps", "share", "is_bound", "certainty", "advice", "evidence",
)  # fmt: skip
_SENTENCE_END: Final = compile_late(r"(?<=[.!?]) (?=[A-Z])", re.ASCII)
_NO_PYTHON: Final = frozenset(("host threads", "Python functions"))
"""Missing records of captures without Python functions."""
_HOW_TO_LIST: Final = " (fastprof diagnosis --verbose lists them)"
_TITLE_LINES, _ACTION_LINES, _NOTICE_LINES = 2, 3, 2
_MOST_NOTICES: Final = 2


class _Source(NamedTuple):
    """A run of the session. ``words``: the session in a command."""

    paths: Sequence[str]
    run: str
    words: str


class _Next(NamedTuple):
    """A command to run next: its verb, its flags, and what it shows."""

    verb: str
    flags: Sequence[str]
    shows: str

    def join(self, session: str) -> str:
        return " ".join(("fastprof", self.verb, session, *map(shlex.quote, self.flags)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    arguments.add_choice(parser)
    arguments.add_jobs(parser)
    arguments.add_output(parser, "findings", usual=str(_SHOWN))
    arguments.add_talk(parser)
    parser.set_defaults(params=())


def run(args: argparse.Namespace) -> None:
    form = output.choose_format(args.format, args.output)
    session = arguments.select_events(arguments.open_session(args), args)
    profile = session.by_job
    most = _SHOWN if args.limit is None else arguments.get_row_limit(args.limit, form)
    with output.open_sink(args, form) as sink:
        reports = analysis.make_reports(profile, FIRST_REPORTS, args, form)
        if form in ("csv", "arrow"):
            table = analysis.merge_runs(profile, reports, args)["diagnosis"].tables["findings"]
            output.send_table(args, sink, table.slice(0, most), "findings", form, "findings")
        else:
            sources = {}
            for name in reports:
                named = [name] if profile.has_runs and len(args.session) == 1 else args.run or []
                words = [*map(shlex.quote, args.session), *(f"--run {shlex.quote(run)}" for run in named)]
                sources[name] = _Source(args.session, name, " ".join(words))
            if form == output.BRIEF:
                flags = output.list_given(args, common=True, without=("run",))
                sink.send(_write_brief(sources, reports, output.make_question(args), flags))
            else:
                write = _write_json if form == "json" else _write_text
                documents = {name: write(source, reports[name], sink.look, most) for name, source in sources.items()}
                several = output.join_runs(documents, form, sink.look)
                sink.send(several if profile.has_runs else next(iter(documents.values())))
    arguments.note_log(session, args)
    output.note_written(args)


def list_next(
    findings: Sequence[Mapping[str, Any]], source: _Source, reports: Mapping[str, AnalysisReport]
) -> Iterator[_Next]:
    """Yield the commands that show the evidence of findings, all findings, what else the capture has, and the pages,
    which are of one path."""
    ranks: dict[str, list[str]] = {}
    for finding in findings:
        ranks.setdefault(finding["evidence"], []).append(str(finding["rank"]))
    for evidence, numbers in ranks.items():
        name, _, table = evidence.partition(".")
        yield _Next(name.replace("_", "-"), ("--table", table), f"evidence of {', '.join(numbers)}")
    many = reports["diagnosis"].tables["findings"].num_rows
    every = f"all {many} findings" if many > len(findings) else "all findings"
    yield _Next("diagnosis", (), every if findings else "causes that were examined, and missing records")
    if reports["overview"].tables["latency"].num_rows:
        yield _Next("inference", (), "latency of serving requests")
    if not _NO_PYTHON.intersection(reports["diagnosis"].tables["unrecorded"]["what"].to_pylist()):
        yield _Next("python-time", (), "Python functions by time")
    if len(source.paths) == 1:
        yield _Next("serve", ("--open",), "timeline and reports in a browser")


def get_action(advice: str) -> str:
    """Return the first sentence of an advice."""
    return _SENTENCE_END.split(advice, 1)[0]


def collect_figures(reports: Mapping[str, AnalysisReport]) -> dict[str, Scalar]:
    """Return what was captured and the key figures of the overview and of the memory profile."""
    overview, memory = reports["overview"], reports["diagnosis"].after.get("memory_profile")
    figures = {name: overview.scalars[name] for name in (*_CAPTURED, *_FIGURES, *_MORE_FIGURES)}
    return figures | {name: memory.scalars[of] for name, of in _OF_MEMORY.items() if memory is not None}


# ---- JSON


def _write_json(
    source: _Source, reports: Mapping[str, AnalysisReport], _look: Look, most: int | None
) -> Iterator[bytes]:
    import json

    diagnosis, figures = reports["diagnosis"], collect_figures(reports)
    findings = _list_findings(diagnosis, most)
    examined = diagnosis.tables["examined"].select(["cause", "cost_ps"]).to_pylist()
    named = set(diagnosis.tables["findings"]["cause"].to_pylist())
    others = [(row["cause"], row["cost_ps"]) for row in examined if row["cause"] not in named]
    document = {
        "session": list(source.paths),
        "run": source.run or None,
        **{name: figures[name].value for name in _CAPTURED},
        "figures": {name: figure.value for name, figure in figures.items() if name not in _CAPTURED},
        "reasons": {name: figure.reason for name, figure in figures.items() if figure.reason is not None},
        "headline": diagnosis.scalars["headline"].value,
        "findings": [finding | {"action": get_action(finding["advice"])} for finding in findings],
        "harmless": [cause for cause, cost in others if cost is not None],
        "unknown": [cause for cause, cost in others if cost is None],
        "unrecorded": diagnosis.tables["unrecorded"]["what"].to_pylist(),
        "next": [command.join(source.words) for command in list_next(findings, source, reports)],
    }
    yield json.dumps(document, allow_nan=False).encode("ascii") + b"\n"


def _write_brief(
    sources: Mapping[str, _Source],
    reports: Mapping[str, Mapping[str, AnalysisReport]],
    question: Question,
    flags: Sequence[str],
) -> Iterator[bytes]:
    """Return the first figures and the findings of each run as one brief document. ``flags``: of the next commands."""
    from fastprof.render import brief

    runs = {
        name: partial(
            summarise_run,
            reports[name],
            question._replace(words=" ".join([source.words, *map(shlex.quote, flags)]), paths=source.paths),
        )
        for name, source in sources.items()
    }
    return brief.write_document(brief.summarise_several(runs, "runs") if len(runs) > 1 else next(iter(runs.values()))())


def summarise_run(reports: Mapping[str, AnalysisReport], question: Question, room: int = MOST_BRIEF) -> dict[str, Any]:
    """Return the first figures, the findings and the next commands as a document of at most ``room`` bytes."""
    from fastprof.render import brief

    diagnosis, figures = reports["diagnosis"], collect_figures(reports)
    source = _Source(question.paths, question.run or "", question.words)
    every = list_next(_list_findings(diagnosis, _SHOWN), source, reports)
    commands = [command for command in every if command.verb != "serve"]  # whose answer is for people
    more = [command.join(source.words) for command in commands]
    if question.tool:
        more = []
        for verb, flags, _ in commands:
            table = {"table": flags[1]} if flags else {}
            more.append(question.call("report", name=verb.replace("-", "_"), **table))
    return brief.summarise_report(diagnosis, question, room, chosen=figures, more=more)


def _list_findings(diagnosis: AnalysisReport, most: int | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = diagnosis.tables["findings"].select(_OF_FINDING).slice(0, most).to_pylist()
    return rows


# ---- text


def _write_text(
    source: _Source, reports: Mapping[str, AnalysisReport], look: Look, most: int | None
) -> Iterator[bytes]:
    lines = _list_lines(source, reports, look, most)
    yield "".join(f"{line}\n" for line in lines).encode(look.encoding, "backslashreplace")


def _list_lines(source: _Source, reports: Mapping[str, AnalysisReport], look: Look, most: int | None) -> Iterator[str]:
    from fastprof.analyses.diagnosis import summarize_examined
    from fastprof.render import as_text

    overview, diagnosis = (reports[name] for name in FIRST_REPORTS)
    yield from as_text.wrap_paragraph(_describe_capture(overview, diagnosis, source), look, "")
    yield ""
    incomplete = diagnosis.scalars["incomplete"].value
    texts = [str(incomplete)] if incomplete else []
    texts += [notice.text for notice in overview.notices if notice.severity in ("warning", "error")]
    for text in texts[:_MOST_NOTICES]:
        yield from _cut(as_text.wrap_paragraph(text, look), _NOTICE_LINES, look)
    yield from _list_figures(overview, look)
    findings = _list_findings(diagnosis, most)
    if not findings:
        yield from as_text.wrap_paragraph(str(diagnosis.scalars["headline"].value), look)
    else:
        yield ""
        yield look.strong("What costs the time")
        if start_up := _describe_start_up(diagnosis):
            yield from as_text.wrap_paragraph(start_up, look)
    for finding in findings:
        lead = f"  {finding['rank']}. "
        yield from _cut(as_text.wrap_paragraph(_format_finding(finding), look, lead), _TITLE_LINES, look)
        action = as_text.wrap_paragraph(get_action(finding["advice"]), look, " " * len(lead))
        yield from _cut(action, _ACTION_LINES, look)
    yield ""
    yield from as_text.wrap_paragraph(summarize_examined(diagnosis, _HOW_TO_LIST), look)
    yield from _list_commands(source.words, list_next(findings, source, reports), look)


def _cut(lines: Sequence[str], most: int, look: Look) -> Iterator[str]:
    """Yield the first lines; the last one ends with an ellipsis if lines are left out."""
    yield from lines[: most - 1]
    if lines[most - 1 : most]:
        rest = lines[most - 1]
        yield rest if len(lines) <= most else rest[: (look.width or len(rest) + 2) - 2] + look.fit(" …")


def _describe_capture(overview: AnalysisReport, diagnosis: AnalysisReport, source: _Source) -> str:
    """Describe framework, used devices, hosts, duration and steps. Each PyTorch rank lists all GPUs of its machine."""
    from fastprof.wording.quantities import count_noun, format_measure

    known = {name: overview.scalars[name].value for name in _CAPTURED}
    count, hosts = int(known["device_count"] or 0), int(known["host_count"] or 0)
    used = int(diagnosis.scalars["used_device_count"].value or 0)
    many = f"{used:,} of {count:,} listed " if 0 < used < count else f"{count:,} " if count else ""
    ran_on = f"{known['framework'] or 'unknown framework'} on {many}{known['device_type']}"
    window, steps = known["window_ps"], known["step_count"]
    duration = format_measure(window, "ps") if isinstance(window, int) else "no device work"
    marked = count_noun(int(steps), "step", "steps") if steps else "no steps"
    cut = overview.scalars["incomplete_step_count"].value
    marked += f" ({cut:,} incomplete)" if cut else ""
    session = ", ".join(source.paths)
    named = f"{session} (run {source.run})" if source.run and source.run not in session else session
    return f"{named}: {ran_on}, {count_noun(hosts, 'host', 'hosts')}; {duration}, {marked}"


def _describe_start_up(diagnosis: AnalysisReport) -> str:
    """Describe the start-up time, which the first findings leave out; empty below a tenth of the run."""
    from fastprof.wording.quantities import format_measure

    start_up, window = (diagnosis.scalars[name].value for name in ("start_up_ps", "window_ps"))
    if not isinstance(start_up, int) or not isinstance(window, int) or 10 * start_up < window:
        return ""
    share = format_measure(start_up / window, "share")
    return f"One-time start-up: {format_measure(start_up, 'ps')}, {share} of the run. Costs without start-up:"


def _list_figures(overview: AnalysisReport, look: Look) -> Iterator[str]:
    """Yield a line per known figure."""
    from fastprof.analyses import runner
    from fastprof.render import report_text

    module = runner.get_analysis("overview")
    known = [overview.scalars[name] for name in _FIGURES if overview.scalars[name].value is not None]
    names = [report_text.get_figure_name(figure.name, module) for figure in known]
    width = max(map(len, names), default=0)
    for name, figure in zip(names, known, strict=True):
        yield look.fit(f"  {name:<{width}}  {report_text.format_value(figure)}")


def _format_finding(finding: Mapping[str, Any]) -> str:
    from fastprof.wording.quantities import format_cost

    if finding["cost_ps"] is None:
        return str(finding["title"])
    cost = format_cost(finding["cost_ps"], finding["share"], is_bound=finding["is_bound"])
    sure = "" if finding["certainty"] == "certain" else f" ({finding['certainty']})"
    return f"{finding['title']}: {cost}{sure}"


def _list_commands(session: str, commands: Iterator[_Next], look: Look) -> Iterator[str]:
    """Yield the commands, with SESSION for a long session."""
    from fastprof.wording.screen import escape_text, measure_width

    every = list(commands)
    is_long = max(measure_width(escape_text(command.join(session))) for command in every) > (look.width or 0) - 2 > 0
    shown = [(escape_text(command.join("SESSION" if is_long else session)), command.shows) for command in every]
    yield ""
    yield look.strong("Next" + (", with SESSION as above" if is_long else ""))
    width = max(measure_width(command) for command, _ in shown)
    for command, shows in shown:
        line = f"  {command:<{width}}  # {shows}"
        yield line if look.width is None or measure_width(line) <= look.width else f"  {command}"
