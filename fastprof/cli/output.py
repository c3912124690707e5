"""Output of the command. Data go to standard output, or to a file that appears complete or not at all; messages and
progress go to standard error."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from fastprof.cli import arguments, process, verb_list
from fastprof.errors import OutputError, UsageError
from fastprof.export.new_files import Write, open_new_file, wrap_output_errors
from fastprof.render.table_forms import FORMATS, WIDTH, Look, load_renderer, render_table
from fastprof.wording.screen import escape_lines, escape_text

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.profile.profile import Profile
    from fastprof.render.brief import Question

_SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".svg": "svg",
}
_TEXT = ("", ".txt", ".text", ".log", ".md", ".out")
"""Suffixes of text files."""
_STACKED = {"speedscope": (".speedscope.json",), "pprof": (".pprof", ".pprof.pb.gz")}
"""Suffixes of files of stacks."""
_STDOUT = "standard output"
BRIEF = "brief"
"""Format of --brief."""


class Sink:
    """Open output: ``send`` writes bytes to it; ``look`` describes it.

    ``clear`` is called before bytes go to a terminal, because a progress line may be on it. ``data``: the bytes are
    UTF-8 for programs, which a terminal gets as ``escape_chunks`` changes them; texts for people have their own
    escapes.
    """

    def __init__(self, write: Write, look: Look, name: str, clear: Callable[[], object], *, data: bool) -> None:
        self._write = write
        self.look = look
        self.name = name
        self._clear = clear if look.screen else lambda: None
        self._escapes = look.screen and data

    def send(self, chunks: Iterable[bytes]) -> None:
        """Write all ``chunks``. Raises OutputError, or BrokenPipeError if the reader is gone."""
        for chunk in escape_chunks(chunks, self.look.encoding) if self._escapes else chunks:
            self._clear()
            with wrap_output_errors(self.name):
                # Unbuffered outputs, as with PYTHONUNBUFFERED, may accept only some of a chunk.
                rest = memoryview(chunk)
                while len(rest):
                    taken = self._write(rest)
                    if taken is None:
                        raise OutputError("cannot write: the output is full and non-blocking", path=self.name)
                    rest = rest[taken:]


def escape_chunks(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Encode UTF-8 for a terminal, with escapes for the characters that a terminal would obey."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a chunk may end within a character
    for chunk in chunks:
        yield escape_lines(decoder.decode(bytes(chunk))).encode(encoding, "backslashreplace")
    yield decoder.decode(b"", final=True).encode(encoding, "backslashreplace")


def choose_format(requested: str | None, path: str | None, more: Container[str] = ()) -> str:
    """Return the requested format, else the one that the suffix of the file names, else text. ``more``: formats of this
    verb beyond those of all verbs."""
    if requested is not None:
        return requested
    for form, suffixes in _STACKED.items():
        if path is not None and path.lower().endswith(suffixes):
            if form not in more:
                from fastprof.render import report_graphics

                verbs = report_graphics.list_stacked_verbs()
                raise UsageError(f"{path}: this verb cannot write {form} files; verbs that can: {verbs}")
            return form
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
        raise UsageError(f"{path}: this verb cannot write Parquet; use 'fastprof export'")
    if suffix in (".html", ".htm") and "html" in more:
        return "html"
    if suffix in (".html", ".htm"):
        raise UsageError(f"{path}: this verb cannot write pages; use 'fastprof report --html'")
    if suffix == ".svg" and "svg" not in more:
        from fastprof.render import report_graphics

        verbs = report_graphics.list_drawn_verbs()
        raise UsageError(f"{path}: this verb cannot write drawings; verbs that can: {verbs}")
    if suffix not in _SUFFIXES and suffix not in _TEXT:
        known = ", ".join((_TEXT[1], *(name for name, form in _SUFFIXES.items() if form != "svg" or "svg" in more)))
        raise UsageError(f"{path}: no format has the suffix {suffix!r}; give --format, or use one of: {known}")
    return _SUFFIXES.get(suffix, "table")


@contextlib.contextmanager
def open_sink(args: argparse.Namespace, form: str) -> Iterator[Sink]:
    """Open the file that the flags name, or standard output without one and for ``-``."""
    with process.hold_signals():
        if form in FORMATS:
            load_renderer(form)
    path: str | None = args.output
    clear = args.talk.progress.clear
    if path is None or path == "-":
        look = _get_look(form, args.wide, args.talk.verbose)
        yield Sink(sys.stdout.buffer.write, look, _STDOUT, clear, data=form != "table")
        return
    look = Look(width=None if args.wide else WIDTH, file=True, verbose=args.talk.verbose)
    with open_new_file(path, args.force) as write:
        yield Sink(write, look, path, clear, data=form != "table")


def send_table(
    args: argparse.Namespace,
    sink: Sink,
    table: pa.Table,
    name: str,
    form: str,
    rows: str,
    *,
    by_worth: bool = False,
    wraps: str = "",
    first_row: int = 0,
    caveats: Sequence[str] = (),
    absent: str = "",
) -> None:
    """Write the rows of a table from ``first_row`` on, as many as --limit allows, and note what is hidden. ``rows``:
    what they are called; ``by_worth``: hide the last columns first; ``wraps``: a text column to break, not to cut.
    ``caveats``: of a brief answer; ``absent``: why there are no rows, and what to do."""
    if form == BRIEF:
        from fastprof.render import brief

        question, total = make_question(args), table.num_rows
        document = brief.summarise_table(
            name, table, question, total, first_row=first_row, caveats=caveats, absent=absent
        )
        sink.send(brief.write_document(document))
        return
    limit = arguments.get_row_limit(args.limit, form)
    shown = table.slice(first_row, limit)
    hidden: list[str] = []
    sink.send(render_table(form, shown, name=name, look=sink.look, left_out=hidden, by_worth=by_worth, wraps=wraps))
    flush_standard_output()
    note_hidden(args, hidden)
    note_left_out(args, shown.num_rows, first_row, table.num_rows, rows)


def note_left_out(args: argparse.Namespace, shown: int, first: int, total: int, rows: str) -> None:
    """Note the rows that are not shown, before row ``first`` and behind the limit. ``rows``: what they are called."""
    if 0 < shown < total or (total and not first and not shown):
        before = f" after the first {first:,}" if first else ""
        after = "; --limit all shows the others" if first + shown < total else ""
        args.talk.note(f"showing {shown:,} of {total:,} {rows}{before}{after}")


def make_question(args: argparse.Namespace) -> Question:
    """Return what a brief document says of the question: verb, session, and what was chosen or lost while reading."""
    import shlex

    from fastprof.render.brief import LARGEST_LIMIT, MOST_ROWS, Question

    verb = verb_list.get_full_name(args.verb)
    paths = [str(path) for path in getattr(args, "session", ())]
    query = getattr(args, "query", None)
    words = " ".join(map(shlex.quote, [*paths, *([query] if query else []), *list_given(args)]))
    wanted = getattr(args, "limit", None)
    limit = {None: MOST_ROWS, arguments.ALL: LARGEST_LIMIT}.get(wanted) or min(wanted or 0, LARGEST_LIMIT)
    rest = "--format json --limit 100"
    if hasattr(args, "offset"):
        rest = "--offset {first} --brief" + ("" if wanted is None else f" --limit {limit}")
    elif verb == "hlo" and args.module and not args.graph and not args.instruction:
        rest = "--format csv --limit 100"  # JSON has the entire program
    question = Question(verb, words, paths, limit=limit, rest=rest)
    profile: Profile | None = getattr(args, "opened", None)
    if profile is None:
        return question
    remarks = [remark for remarks in arguments.list_remarks(profile).values() for remark in remarks]
    hosts = sum(len(run.hosts) for run in profile.runs.values())
    examples = [row["example"] for row in remarks]
    return question._replace(run=profile.run, hosts=hosts, files=len(profile.sources), remarks=examples)


_OF_OUTPUT = (
    *("brief", "format", "output", "force", "limit", "wide", "quiet", "verbose", "progress"),
    *("session", "base", "table", "offset"),
)
"""Arguments that say how to show an answer, or stand elsewhere in a command that shows more."""


def list_given(args: argparse.Namespace, *, common: bool = False, without: Container[str] = ()) -> list[str]:
    """Return the arguments that were given, beside the session and the form of the output. ``common``: only flags that
    all reports have; ``without``: names of arguments to leave out."""
    words: list[str] = []
    for action, texts in getattr(args, "given", ()):
        if action.dest in (*_OF_OUTPUT, "against") or action.dest in without:
            continue
        if common and not arguments.is_common(action):
            continue
        flags = [flag for flag in action.option_strings if flag.startswith("--")]
        is_off = isinstance(action, argparse.BooleanOptionalAction) and not getattr(args, action.dest)
        if flags and texts and texts[0].startswith("-"):
            words.append(f"{flags[0]}={texts[0]}")
        else:
            words += [*flags[-1 if is_off else 0 :][:1], *texts]
    if getattr(args, "against", None) and not common:
        words += ["--against", str(args.against)]  # without secrets of a URL
    return words


def send_brief_error(message: str, advice: Sequence[str], verb: str) -> None:
    """Write an error as a brief document to standard output."""
    from fastprof.render import brief

    document = brief.summarise_error(message, advice, verb_list.get_full_name(verb))
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.buffer.writelines(brief.write_document(document))
        sys.stdout.flush()


def join_runs(documents: Mapping[str, Iterable[bytes]], form: str, look: Look) -> Iterator[bytes]:
    """Join JSON documents of several runs to one, or texts of several runs, each under the name of its run."""
    if form == "json":
        from fastprof.render import as_json

        yield from as_json.write_by_run(documents)
        return
    lead = ""
    for run, text in documents.items():
        yield f"{lead}{look.strong(f'Run {escape_text(run)}')}\n\n".encode(look.encoding, "backslashreplace")
        yield from text
        lead = "\n\n"


def note_hidden(args: argparse.Namespace, hidden: Iterable[str]) -> None:
    """Note the columns that did not fit, with ``-v``."""
    text = describe_hidden(hidden)
    if text:
        args.talk.detail(text)


def describe_hidden(hidden: Iterable[str]) -> str:
    """Return a sentence on the columns that did not fit, last first; empty if all did."""
    names = ", ".join(reversed([name for name in dict.fromkeys(hidden) if name]))
    return f"hidden columns: {names}; --wide shows all" if names else ""


def note_written(args: argparse.Namespace) -> None:
    """Note the file that was written."""
    if args.output not in (None, "-"):
        args.talk.note(f"Wrote {args.output}")


def flush_standard_output() -> None:
    """Write what is buffered while errors can still be reported. Raises as ``Sink.send`` does."""
    if sys.stdout is not None:
        with wrap_output_errors(_STDOUT):
            sys.stdout.flush()


def abandon_stream(stream: TextIO | None) -> None:
    """Discard what the stream still buffers, so that the interpreter's flush at exit stays silent."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        descriptor = cast(TextIO, stream).fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _get_look(form: str, wide: bool, verbose: bool) -> Look:
    stream = sys.stdout
    if stream is None or stream.closed:
        raise OutputError(f"{_STDOUT} is closed; use -o FILE")
    terminal = stream.isatty()
    if terminal and form == "arrow":
        raise UsageError("Arrow data are binary and would garble the terminal; use -o FILE or redirect the output")
    width: int | None = WIDTH
    if wide:
        width = None
    elif terminal or os.environ.get("COLUMNS", "").isdigit():
        import shutil

        width = max(40, shutil.get_terminal_size((WIDTH, 24)).columns)
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Look(width, terminal and not plain, stream.encoding or "ascii", terminal, verbose=verbose)


# ---- messages


_PERIOD_S = {"line": 0.1, "plain": 2.0}


class ProgressLine:
    """Progress, reported as ``progress(stage, done, total)``; a ``total`` of 0 means unknown.

    The first tenth of a second shows nothing, because short work needs no progress. ``hidden``: stages that are not
    shown because they are parts of a stage that is.
    """

    def __init__(self, stream: TextIO | None, mode: str = "auto") -> None:
        self.stream = stream
        self._style = _choose_style(stream, mode)
        self._next = time.monotonic() + _PERIOD_S["line"]
        self._shown = 0
        self._stage = ""
        self.hidden: set[str] = set()

    @property
    def wanted(self) -> bool:
        return self._style != "none"

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._style == "none" or stage in self.hidden:
            return
        now = time.monotonic()
        fresh_stage = self._style == "plain" and stage != self._stage
        if now < self._next and not fresh_stage:
            return
        self._stage = stage
        self._next = now + _PERIOD_S[self._style]
        text = f"{stage}: {min(done / total, 1.0):4.0%}" if total > 0 else f"{stage}: {done:,}"
        if self._style == "plain":
            self._write(f"fastprof: {text}\n")
        else:
            self._write(f"\r{text}".ljust(self._shown + 1))
            self._shown = len(text)

    def clear(self) -> None:
        """Erase the progress line, so that the next text starts on an empty line."""
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _write(self, text: str) -> None:
        assert self.stream is not None
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self._style = "none"  # standard error is closed


def _choose_style(stream: TextIO | None, mode: str) -> str:
    if stream is None or mode == "none":
        return "none"
    if mode == "plain":
        return "plain"
    if not stream.isatty() or os.environ.get("TERM") == "dumb" or _is_piped(sys.stdout):
        return "none"
    return "line"


def _is_piped(stream: TextIO | None) -> bool:
    """Return whether the data go to a program, which may be a pager on the same terminal."""
    try:
        return stream is not None and stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class Messages:
    """Messages for people. ``-q`` hides notes, ``-v`` shows more; errors are always shown.

    Messages are escaped because they quote names and paths; each is one line. Writing a message never raises.
    """

    def __init__(self) -> None:
        self.quiet = False
        self.verbose = False
        self.session: Sequence[str] = ()  # its paths, if a fault in one is an error: advice depends on them
        self.log_directory: str | None = None  # where a run may have been chosen: advice names another
        self.verb: str | None = None  # that was asked for a brief answer: errors are documents, too
        self.progress = ProgressLine(None)
        self._stream: TextIO | None = None

    def configure(self, *, quiet: bool, verbose: bool, progress: str) -> None:
        self.quiet, self.verbose = quiet, verbose
        self.progress = ProgressLine(sys.stderr, "none" if quiet else progress)

    def write_to(self, stream: TextIO) -> None:
        """Write to this stream from now on, instead of to standard error."""
        self._stream = self.progress.stream = stream

    def note(self, text: str) -> None:
        if not self.quiet:
            self._line(text)

    def detail(self, text: str) -> None:
        if self.verbose:
            self._line(text)

    def error(self, text: str) -> None:
        self._line(text)

    def write_text(self, text: str) -> None:
        """Write lines of another program as they are, without a prefix."""
        stream = self._stream or sys.stderr
        if text and stream is not None and not stream.closed:
            self._write(escape_lines(text) if stream.isatty() else text)

    def traceback(self, error: BaseException) -> None:
        import traceback

        if self.verbose:
            self._write(escape_lines("".join(traceback.format_exception(error))))

    def _line(self, text: str) -> None:
        self._write(f"fastprof: {escape_text(text)}\n")

    def _write(self, text: str) -> None:
        self.progress.clear()
        try:
            stream = self._stream or sys.stderr
            if stream is not None:
                stream.write(text)
                stream.flush()
        except (OSError, ValueError):
            pass  # there is nowhere else to report it
