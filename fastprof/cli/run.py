"""Run a Python program as 'python SCRIPT' does, and record it: by steps or by time.

The profiler is that of the framework that the program imports (JAX, TensorFlow or PyTorch); the program needs no
change. Its arguments, output and exit code stay as they are. When it has ended, --then shows the recording.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from fastprof.cli import arguments, output, process, servers
from fastprof.errors import UsageError

_NOTHING: Final = servers.ALL
"""Exit code if nothing was recorded, and the program has ended well."""
_OF_SIGNALS: Final = 128
"""Exit codes above this are of programs that a signal ended."""
_AFTER_S, _DURATION_MS = 5.0, 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT [ARG ...]", nargs=argparse.REMAINDER, help="as after 'python'")
    parser.add_argument(
        "-m", dest="module", metavar="MODULE [ARG ...]", nargs=argparse.REMAINDER, help="a module, as after 'python -m'"
    )
    group = parser.add_argument_group("what to record")
    group.add_argument(
        "--steps",
        metavar="A:B",
        type=arguments.parse_step_range,
        help="steps from A to B (exclusive), counted from 0 in the order that the program starts them",
    )
    group.add_argument(
        "--after",
        metavar="TIME",
        type=servers.parse_waiting_time,
        help="record by time: start this long after the program first uses its framework (default: 5s)",
    )
    group.add_argument("--duration", metavar="TIME", type=servers.parse_milliseconds, help="for duration (default: 2s)")
    servers.add_levels(group, python=None)
    group = servers.add_run(parser)
    group.add_argument("--no-checks", action="store_true", help="do not check the capture for missing records")
    parser.set_defaults(session=(), on_error="raise", then="diagnosis")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    words = ["-m", *args.module] if args.module is not None else list(args.script)
    if words in ([], ["-m"]):
        raise UsageError("name a program, SCRIPT or -m MODULE, after the flags of fastprof")
    settings = _make_settings(args)
    name = servers.get_run_name(args)
    with servers.stage_runs(args, name, is_shared=True):
        return _record_program(args, words, settings, name)


def _record_program(args: argparse.Namespace, words: list[str], settings: dict[str, Any], name: str | None) -> int:
    then = servers.parse_then_verb(args)
    with process.hold_signals():
        from fastprof.inputs import own_profiler
        from fastprof.profile.captured_run import make_unfinished_folder
    with make_unfinished_folder(args.logdir) as folder:
        code = _run_program(args, words, folder, settings)
        report = own_profiler.read_report(folder)
        windows = _move_windows(args, report.get("windows") or [{"folder": str(folder)}], name)
    process.limit_threads()
    if not windows:
        ended = f"signal {code - _OF_SIGNALS} ended the program; end it with Ctrl-C, or give a smaller --after"
        why = report.get("why") or (
            ended if code > _OF_SIGNALS else "the program ended before it could report the reason"
        )
        args.talk.error(f"nothing was recorded: {why}")
        return code or _NOTHING
    path = windows[0]["path"]
    args.content = ""
    if not args.no_checks:
        duration_ps = 0 if args.duration is None else args.duration * 10**9
        servers.note_remarks(args, servers.check_run(args, path, duration_ps, "run"))
    after = servers.show_run(args, then, path, "run")
    _note_end(args, windows)
    return code or after


def _move_windows(args: argparse.Namespace, windows: list[dict[str, Any]], name: str | None) -> list[dict[str, Any]]:
    """Move the recorded windows to runs, and return those with a capture, with the ``path`` of the run added."""
    from fastprof.profile.captured_run import move_to_run, name_without_python

    written: list[dict[str, Any]] = []
    for window in windows:
        path = move_to_run(Path(window["folder"]), args.logdir, name)
        if path is not None:
            written.append(window | {"path": path})
            name = name_without_python(written[0]["path"])
    return written


def _note_end(args: argparse.Namespace, windows: list[dict[str, Any]]) -> None:
    """Report what was recorded, its cost and its path."""
    from fastprof.inputs.step_times import RecordingCost
    from fastprof.wording.screen import escape_text

    output.flush_standard_output()
    first = windows[0]
    took = f"{first['took_s']:.3g} s" if "took_s" in first else "an unknown time"
    args.talk.note(f"recorded {args.content or took}")
    for number, window in enumerate(windows):
        cost = RecordingCost(**window.get("cost", {"why": "the program ended without a report"}))
        which = f"{'without' if number else 'with'} Python functions: " if len(windows) > 1 else ""
        use = ""
        if len(windows) > 1:
            use = ": use it for step times and rates" if number else ": use it for causes and Python functions"
        args.talk.note(f"{which}{cost}")
        args.talk.note(f"wrote {servers.publish_run(args, window['path'])}{use}")
    logdir = escape_text(args.logdir if args.upload is None else args.upload.url)
    args.talk.note(f"next: fastprof diagnosis {logdir}, or in a browser: fastprof serve {logdir}")


def _make_settings(args: argparse.Namespace) -> dict[str, Any]:
    if args.steps is not None and (args.after, args.duration) != (None, None):
        raise UsageError("--steps excludes --after and --duration")
    if args.steps is not None and (None in args.steps[:2] or args.steps.name):
        raise UsageError("--steps needs a first step and the one after the last, as in 10:20")
    waits, extends = args.after is None, args.duration is None
    if args.steps is None:
        args.after = _AFTER_S if args.after is None else args.after
        args.duration = args.duration or _DURATION_MS
    levels = servers.make_options(args, 1)
    return {
        "steps": None if args.steps is None else args.steps[:2],
        "waits": waits,
        "extends": extends,
        "after_s": args.after,
        "duration_s": None if args.duration is None else args.duration / 1000,
        "without_python": args.python_level is None,
        "levels": {
            "host": levels.host_level,
            "device": levels.device_level,
            "python": levels.python_level,
            "advanced": dict(levels.advanced),
        },
    }


def _run_program(args: argparse.Namespace, words: list[str], folder: Path, settings: dict[str, Any]) -> int:
    """Run the program, and return its exit code, or 128 plus the number of the signal that ended it."""
    from fastprof.inputs import own_profiler

    environment = own_profiler.make_environment(folder.absolute(), settings, dict(os.environ))
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # then the program ignores it, too
    interrupts = contextlib.nullcontext(list[int]()) if ignored else process.count_interrupts()
    with interrupts as stops, subprocess.Popen([sys.executable, *words], env=environment) as child:
        code = _wait_for_child(child)
    args.interrupted = bool(stops)
    return code if code >= 0 else _OF_SIGNALS - code


def _wait_for_child(child: subprocess.Popen[bytes]) -> int:
    """Wait for the program. A terminal interrupts it directly; a request to this process to end is passed on."""
    while True:
        try:
            return child.wait()
        except process.Terminated:
            child.send_signal(signal.SIGTERM)
