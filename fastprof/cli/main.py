"""The command line: picks the verb, runs it, and turns errors into text, which no other module does.

Exit codes: 0 success, 1 a check failed, 2 usage, 3 a path that cannot be read or written, 4 bad data, 5 some and 6 all
servers delivered nothing, 7 a check cannot be judged, 70 internal error; 130 when interrupted, 141 when the reader of a
pipe is gone, 143 when terminated.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol, cast

from fastprof import errors
from fastprof._version import __version__
from fastprof.analyses import ANALYSES
from fastprof.cli import arguments, output, process, verb_list
from fastprof.cli.output import Messages
from fastprof.wording.screen import escape_text
from fastprof.wording.spelling import suggest_name

_ANALYSES = {name.replace("_", "-"): name for name in ANALYSES}
_MODULES = (
    "summary",
    "info",
    "events",
    "sql",
    "export",
    "convert",
    "report",
    "hlo",
    "tfprof",
    "trace",
    "compare",
    "check",
    "trends",
    "serve",
    "run",
    "capture",
    "snapshot",
    "monitor",
    "mcp",
    "skill",
    "warm",
)
"""Verbs with a module of their own. These modules import nothing heavy before their flags are needed."""
_MULTI_SESSION = ("compare", "check", "trends", "mcp")
"""Verbs that open several sessions, so that no session's size can limit memory."""
_FLAGS = "Flags that most verbs share. A verb accepts those that apply to it; 'fastprof VERB --help' has the others."
_USAGE = "fastprof VERB SESSION [flags]"

VERBS = (*_MODULES, *_ANALYSES)
"""Every verb, also those that the help lists as parts of others."""

USAGE, PATH, DATA, INTERNAL = 2, 3, 4, 70
INTERRUPTED, READER_GONE, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGPIPE, 128 + signal.SIGTERM

_SALVAGE = "--on-error salvage keeps what can be decoded of a damaged file; --on-error skip leaves the file out"
_SKIP = "--on-error skip leaves the file out, if the session has others"

_STATUS: tuple[tuple[type[BaseException], int], ...] = (
    (errors.UsageError, USAGE),
    (errors.NotFoundError, PATH),
    (errors.UnreadableError, PATH),
    (errors.OutputError, PATH),
    (errors.CaptureError, DATA),
    (errors.ChangedError, DATA),
    (errors.FastprofError, INTERNAL),
    (OSError, PATH),
)


class Verb(Protocol):
    """The interface of a verb's module. The first line of its docstring is its help."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int | None:
        """Run the verb, and return the exit code, None for success."""


def make_parser(verb: str) -> _Parser:
    """Return the parser of a verb; ``args.verb_module`` is its module. Imports what the flags of the verb need."""
    module: Verb
    if analysis := _ANALYSES.get(verb):
        from fastprof.cli.analysis import AnalysisVerb

        module = AnalysisVerb(analysis)
    else:
        module = cast(Verb, importlib.import_module(f"fastprof.cli.{verb}"))
    parser = _Parser(
        prog=f"fastprof {verb_list.get_full_name(verb)}",
        description=module.__doc__ or "",
        formatter_class=partial(argparse.HelpFormatter, width=1),  # each argument makes one, to check its metavar
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(verb_module=module, verb=verb)
    return parser


class _Parser(argparse.ArgumentParser):
    """Parser that shows errors in two lines, without the list of flags, and help without the flags of most verbs.
    ``given``: the arguments that were given, and their texts."""

    def __init__(self, *words: Any, **how: Any) -> None:
        super().__init__(*words, **how)
        self.given: list[tuple[argparse.Action, list[str]]] = []

    def format_help(self) -> str:
        own = [action for action in self._actions if not arguments.is_common(action)]
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, own, [])
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_arguments([action for action in group._group_actions if action in own])
            formatter.end_section()
        if len(own) < len(self._actions):
            formatter.add_text("Flags that most verbs share, such as --run, --format and -o: fastprof help flags")
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            message = f"invalid choice: {value!r}{suggest_name(str(value), choices)} (choose from {', '.join(choices)})"
            raise argparse.ArgumentError(action, message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        self.given.append((action, arg_strings))
        read = super()._get_values
        return read(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {escape_text(message)}\nTry '{self.prog} --help'.\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv``, or with the arguments of the process, and return the exit code. Never raises."""
    talk = Messages()
    try:
        code = _perform(argv, talk)
        output.flush_standard_output()
        process.wait_for_pools()
        return code
    except KeyboardInterrupt:
        talk.error("interrupted")
        code = INTERRUPTED
    except process.Terminated:
        talk.error("terminated")
        code = TERMINATED
    except BrokenPipeError:
        talk.progress.clear()
        code = READER_GONE
    except MemoryError as error:
        talk.error(f"out of memory: {error}" if str(error) else "out of memory")
        code = INTERNAL
    except (errors.FastprofError, OSError) as error:
        talk.traceback(error)
        talk.error(str(error))
        advice = list(_list_advice(error, talk))
        for sentence in advice:
            talk.note(sentence)
        if talk.verb is not None and not isinstance(error, errors.OutputError):
            output.send_brief_error(str(error), advice, talk.verb)
        code = next(status for kind, status in _STATUS if isinstance(error, kind))
    except ImportError as error:
        talk.traceback(error)
        if (error.name or "").startswith("fastprof._native"):  # absent, or older than the Python sources
            hint = "run 'make build', or install with pip again"
            talk.error(f"the native modules do not fit the Python sources: {error}; {hint}")
        else:
            talk.error(f"internal error: {error}")
        code = INTERNAL
    except Exception as error:  # noqa: BLE001  the last resort: users get one line, and a traceback only with -v
        talk.traceback(error)
        hint = "" if talk.verbose else "; -v shows where"
        talk.error(f"internal error: {type(error).__name__}: {error}{hint}")
        code = INTERNAL
    output.abandon_stream(sys.stdout)
    return code


def _perform(argv: Sequence[str] | None, talk: Messages) -> int:
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        args = parse_arguments(["summary", *words] if words and _is_session(words[0]) else words)
    except SystemExit as stop:  # argparse has written its message
        return stop.code if isinstance(stop.code, int) else USAGE
    if getattr(args, "brief", False):
        talk.verb = args.verb
        if args.format not in (None, "json", "table"):
            talk.error(f"--brief is JSON and cannot be combined with --format {args.format}")
            return USAGE
        args.format = output.BRIEF
    talk.configure(quiet=args.quiet, verbose=args.verbose, progress=args.progress)
    arguments.bind_urls(args)
    if getattr(args, "memory", None) is not None:
        from fastprof.decode.array_memory import limit_memory

        limit_memory(args.memory)
    elif args.verb in _MULTI_SESSION:
        from fastprof.decode.array_memory import limit_by_default

        limit_by_default()
    talk.session = args.session if args.on_error == "raise" else ()
    talk.log_directory = args.session[0] if args.run is None and len(args.session) == 1 else None
    args.talk = talk
    code = args.verb_module.run(args)
    talk.progress.clear()
    return code or 0


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse a verb and its arguments. Raises SystemExit after a message, or after the help."""
    if not words or words[0].startswith("-"):
        _make_command_parser().parse_args(words[:1])
        _make_command_parser().error("give a SESSION, or a VERB and its arguments")
    verb, rest = verb_list.find_verb(words)
    if verb == "help":
        _show_help(rest)
    if verb not in VERBS:
        _make_command_parser().error(verb_list.explain_unknown_verb(verb, VERBS))
    parser = make_parser(verb)
    args, unknown = parser.parse_known_args(rest)
    takes_several = any(action.dest == "session" and action.nargs == "+" for action in parser._actions)
    if takes_several and not any(word.startswith("-") and " " not in word for word in unknown):
        args.session += unknown  # argparse takes positional words only up to the next flag
        unknown = []
    args.given = parser.given
    if unknown:
        flags = {flag[2:]: flag for flag in parser._option_string_actions if flag.startswith("--")}
        wrong = (word[2:].partition("=")[0] for word in unknown if word.startswith("--"))
        likely = next((close for word in wrong if (close := suggest_name(word, flags, flags))), "")
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{likely}")
    if verb == "sql":
        args.verb_module.separate_query(args)
    return args


class _CommandParser(_Parser):
    """Parser of the command without a verb, whose help lists the verbs."""

    def format_help(self) -> str:
        others = {verb: ANALYSES[name] for verb, name in _ANALYSES.items() if verb in VERBS}
        return "\n".join([*verb_list.list_verbs(others), ""])


def _make_command_parser() -> argparse.ArgumentParser:
    command = _CommandParser(prog="fastprof", allow_abbrev=False)
    command.add_argument("--version", action="version", version=f"fastprof {__version__}")
    return command


def _show_help(words: Sequence[str]) -> NoReturn:
    """Show the help of the command, of a verb, or of the flags that verbs share. Raises SystemExit."""
    if list(words) == ["flags"]:
        parser = argparse.ArgumentParser(prog="fastprof VERB SESSION", add_help=False, description=_FLAGS, usage=_USAGE)
        for add in (arguments.add_session, arguments.add_filters, arguments.add_jobs, arguments.add_talk):
            add(parser)
        arguments.add_output(parser, "rows per table", usual="30, or as laid out by the analysis")
        parser.print_help()
        parser.exit()
    parse_arguments([*words, "--help"])
    raise SystemExit(0)


def _is_session(word: str) -> bool:
    """Return whether the first word is a path in place of a verb: one that exists, or that no verb looks like."""
    if word in (*VERBS, "help") or word.startswith("-"):
        return False
    return Path(word).exists() or os.sep in word or word.endswith((".pb", ".gz", ".zst"))


def _list_advice(error: Exception, talk: Messages) -> Iterator[str]:
    """Yield an excerpt of the file, and advice."""
    if isinstance(error, errors.CaptureError) and error.excerpt is not None:
        yield error.excerpt
    if isinstance(error, errors.CaptureError) and talk.session and error.path is not None:
        from fastprof.inputs.log_directory import is_program

        if error.salvageable and not is_program(error.path):  # a program is read in full or not at all
            yield _SALVAGE
        elif list(talk.session) != [error.path]:
            yield _SKIP
    if isinstance(error, errors.CaptureError | errors.UnreadableError) and talk.log_directory is not None:
        from fastprof.inputs.resolve import find_other_run

        if other_run := find_other_run(talk.log_directory, error.path):
            yield "{} is the newest of {} runs; read another: --run {}".format(*other_run)


def entry() -> int:
    """Run the console script."""
    _occupy_standard_descriptors()
    process.install_handlers()
    if sys.argv[1:2] != ["run"]:  # its program gets the environment as it is
        process.limit_threads()
    if sys.argv[1:2] not in (["serve"], ["run"], ["capture"], ["snapshot"]):
        process.keep_freed_memory()
    code = main(sys.argv[1:])
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        output.abandon_stream(sys.stderr)  # standard error is closed; the result is still valid
    process.restore_signals()
    process.end_process()
    return code


def _occupy_standard_descriptors() -> None:
    """Open closed descriptors among 0 to 2, so that no capture or output gets one of them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    sys.exit(entry())
