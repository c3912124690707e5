"""The command line: picks the verb, runs it, and is the only place where an error becomes text.

Exit codes: 0 fine, 1 internal, 2 usage, 3 a path that cannot be read or written, 4 bad data; 130, 141
and 143 when interrupted, when the reader of a pipe has gone, and when terminated.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from fastprof import errors
from fastprof._version import __version__
from fastprof.cli import output, signals
from fastprof.cli.talk import Talk

VERBS = {
    "info": "fastprof.cli.info",
    "events": "fastprof.cli.events",
    "export": "fastprof.cli.export",
}
"""Every verb and its module, in the order of the help. A module imports nothing heavy before it runs."""

INTERNAL, USAGE, PATH, DATA = 1, 2, 3, 4
INTERRUPTED, READER_GONE, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGPIPE, 128 + signal.SIGTERM

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
    """What a verb's module offers; the first line of its docstring is its help."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> None: ...


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command; ``args.verb_module`` is the module of the verb chosen."""
    whole = _Parser(
        prog="fastprof",
        description="Profiles of TensorFlow, JAX and PyTorch/XLA as tables.",
        epilog="'fastprof VERB --help' shows a verb's flags.",
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=f"fastprof {__version__}")
    verbs = whole.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)
    for name, path in VERBS.items():
        module = cast(Verb, importlib.import_module(path))
        prose = module.__doc__ or ""
        verb = verbs.add_parser(
            name,
            help=prose.partition("\n")[0],
            description=prose,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(verb)
        verb.set_defaults(verb_module=module, verb_parser=verb)
    return whole


class _Parser(argparse.ArgumentParser):
    """Errors in two lines, not after a screenful of flags."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\nTry '{self.prog} --help'.\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv``, else the process's own arguments; the exit code, never an exception."""
    talk = Talk()
    try:
        code = _perform(argv, talk)
        output.flush_standard_output()
        return code
    except KeyboardInterrupt:
        talk.error("interrupted")
        code = INTERRUPTED
    except signals.Terminated:
        talk.error("terminated")
        code = TERMINATED
    except BrokenPipeError:
        talk.progress.clear()
        code = READER_GONE
    except MemoryError as error:
        talk.error(f"memory ran out: {error}" if str(error) else "memory ran out")
        code = INTERNAL
    except (errors.FastprofError, OSError) as error:
        talk.traceback(error)
        talk.error(str(error))
        code = next(status for kind, status in _STATUS if isinstance(error, kind))
    except Exception as error:  # noqa: BLE001  the last resort: a user gets one line, never a traceback unasked
        talk.traceback(error)
        hint = "" if talk.verbose else "; -v shows where"
        talk.error(f"internal error: {type(error).__name__}: {error}{hint}")
        code = INTERNAL
    output.abandon(sys.stdout)
    return code


def _perform(argv: Sequence[str] | None, talk: Talk) -> int:
    try:
        args, unknown = parser().parse_known_args(argv)
        if unknown:
            args.verb_parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:  # argparse has said all there is to say
        return stop.code if isinstance(stop.code, int) else USAGE
    talk.configure(quiet=args.quiet, verbose=args.verbose, progress=args.progress)
    args.talk = talk
    args.verb_module.run(args)
    talk.progress.clear()
    return 0


def entry() -> int:
    """The console script."""
    _occupy_standard_descriptors()
    signals.install()
    code = main(sys.argv[1:])
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        output.abandon(sys.stderr)  # nobody listened, which is no fault of the result
    signals.finish()
    return code


def _occupy_standard_descriptors() -> None:
    """Open descriptors 0 to 2 where they are closed, so that no capture or output gets one of them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    sys.exit(entry())
