"""All that tfprof answers to one request: its report, the files of its outputs, and what it prints.

Where tfprof refuses, it prints a line to standard error and answers with nothing; so does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastprof.derive.tfprof.options import Options
from fastprof.derive.tfprof.view_set import ViewSet, check_view
from fastprof.derive.tfprof.views import Shown, nothing
from fastprof.render import tfprof_stacks, tfprof_timeline
from fastprof.render.tfprof_advice import unmatched
from fastprof.render.tfprof_text import report
from fastprof.render.tfprof_words import MISSES_STREAM, around

_STARS = "*" * 54


@dataclass
class Answer:
    """What a request yields."""

    shown: Shown | None = None
    """The view; None: tfprof refuses, or answers with files only."""
    report: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents of the files of the output, by what follows the path that the output has."""
    stdout: str = ""
    stderr: str = ""


def answer(views: ViewSet, view: str, options: Options) -> Answer:
    """What tfprof answers. UsageError: an unknown view."""
    check_view(view)
    made = _answer(views, view, options)
    if options.output.partition(":")[0] == "stdout":
        made.stdout = around(options, made.report or "")
    return made


def _answer(views: ViewSet, view: str, options: Options) -> Answer:
    output, _, more = options.output.partition(":")
    path = output_path(more)
    if not views.has_step(options.step):
        steps = "".join(f"{step} " for step in views.recorded.steps)
        return Answer(stderr=f"Options -step={options.step} not found.\nAvailable steps: {steps}\n")
    if view == "code" and not views.lines.is_known:
        return Answer(stderr="No code trace information\n")
    refusal = _refusal(view, output, options)
    if refusal:
        return Answer(nothing(), stderr=(unmatched(views) if view == "code" else "") + refusal)
    stderr = complaints(views, view, options)
    if output == "timeline":
        return _timeline(views, view, options, path, stderr)
    shown = views.shown(view, options)
    if output == "pprof":
        stacks = tfprof_stacks.compressed(shown, views, options, as_tfprof=True)
        printed = f"\nRun pprof -png --nodecount=100 --sample_index=1 <{path}>\n"
        return Answer(shown, files={"": stacks}, stdout=printed, stderr=stderr)
    if output == "none":
        return Answer(shown, stderr=stderr)
    prefix = MISSES_STREAM if views.recorded.misses_accelerator_stream else ""
    text = prefix + "".join(report(shown, view, views.recorded, options))
    return Answer(shown, text, stderr=stderr)


def output_path(parameters: str) -> str:
    """The path of ``outfile=PATH``, as the output of tfprof's options has it."""
    return parameters.partition("outfile=")[2].partition(",")[0]


def complaints(views: ViewSet, view: str, options: Options) -> str:
    """What tfprof writes to standard error beside a view."""
    if view != "code":
        return ""
    ignored = "Note: code view ignores account_displayed_op_only\n" if options.account_displayed_op_only else ""
    return unmatched(views) + ignored


def _refusal(view: str, output: str, options: Options) -> str:
    if output == "pprof" and view != "code":
        return "Only 'code' view supports pprof output now.\n"
    if output == "timeline" and view == "op":
        return "op view doesn't support timeline yet. Consider graph/scope/code view.\n"
    if output == "pprof":
        if len(set(options.select)) != 1:
            return "Can only select 1 attribute for pprof output.\n"
        if options.select[0] not in tfprof_stacks.MEASURES:
            return f"pprof doesn't support -select={options.select[0]}\n"
    return ""


def _timeline(views: ViewSet, view: str, options: Options, path: str, stderr: str) -> Answer:
    files, stdout = {}, ""
    by_steps = view == "graph" and options.step < 0
    shown = None
    for step in views.recorded.steps if by_steps else [options.step]:
        shown = views.shown(view, options.replaced(step=step))
        if view == "graph":
            graph = tfprof_timeline.GraphTimeline(shown, views.recorded, step)
            trace = tfprof_timeline.document(graph.events())
            peaks = (f"{device} peak memory: {size / 1e6:.2f} MB\n" for device, size in graph.peaks.items())
            stdout += f"generating trace file.\n{''.join(peaks)}"
        else:
            trace = tfprof_timeline.document(tfprof_timeline.boxes(shown))
        stderr += tfprof_timeline.warning(trace)
        files[f"_{step}"] = trace.encode()
        stdout += (
            f"\n{_STARS}\nTimeline file is written to {path}_{step}.\n"
            f"Open a Chrome browser, enter URL chrome://tracing and load the timeline file.\n{_STARS}\n"
        )
    return Answer(None if by_steps else shown, files=files, stdout=stdout, stderr=stderr)
