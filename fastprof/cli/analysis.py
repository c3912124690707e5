"""The verbs of the analyses: each has the flags of its parameters, and writes its report.

All follows from the registry. What an analysis computes with is imported when its verb is used, its flags included,
so that the list of verbs stays quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastprof.analyses import ANALYSES
from fastprof.cli import arguments, opening, output, signals
from fastprof.errors import UsageError
from fastprof.render import report_svg, speedscope
from fastprof.render.look import Look
from fastprof.render.table_forms import FORMATS, chunks

if TYPE_CHECKING:
    import dataclasses

    import pyarrow as pa

    from fastprof.analyses.contract import Analysis, Report

REPORT_FORMATS = (*FORMATS, "xprof")
DOCUMENTS = ("xprof", "svg", "speedscope")
"""Formats that hold a whole report as others read it, whatever its tables."""
_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}


class AnalysisVerb:
    """The verb of one analysis, as cli/main.py takes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = ANALYSES[name]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        analysis = imported([self.name])[self.name]
        parser.description = analysis.__doc__
        arguments.add_session(parser)
        add_choice(parser)
        add_params(parser, [self.name])
        group = add_output(parser, formats_of(self.name))
        group.add_argument(
            "--table",
            metavar="NAME",
            choices=tuple(analysis.TABLES),
            help=f"only this table: {', '.join(analysis.TABLES)} (default in CSV and Arrow: the first)",
        )
        arguments.add_talk(parser)

    def run(self, args: argparse.Namespace) -> None:
        form = output.format_for(args.format, args.output, formats_of(self.name))
        if form in DOCUMENTS and args.table:
            raise UsageError(f"--table goes with the other formats; {form} is one document")
        profile = opening.chosen(opening.open_session(args), args)
        with output.opened(args, form) as sink:
            report = profile.answers([self.name], params_given(args), form)[self.name]
            args.talk.progress.clear()
            table = args.table or (next(iter(report.tables)) if form in ("csv", "arrow") else None)
            if table is not None:
                send_table(sink, report, table, form, args)
            else:
                sink.send(report_chunks({self.name: report}, form, sink.look, args.limit, several=False))
        if table is not None and args.table is None:
            _note_other_tables(args, table, report.tables)
        opening.tell_log(profile, args.talk)
        output.note_written(args)


def formats_of(name: str) -> tuple[str, ...]:
    """In which forms a report can be had."""
    drawn = ("svg",) if name in report_svg.DRAWN else ()
    stacked = ("speedscope",) if name in speedscope.STACKED else ()
    return (*REPORT_FORMATS, *drawn, *stacked)


def _note_other_tables(args: argparse.Namespace, shown: str, tables: Iterable[str]) -> None:
    others = ", ".join(name for name in tables if name != shown)
    if others:
        args.talk.note(f"this is the table {shown}; --table gives another: {others}")


def imported(names: Iterable[str]) -> dict[str, Analysis]:
    """These analyses and those that they come after, with all that they and their renderers need."""
    with signals.held():
        from fastprof.analyses import runner
        from fastprof.render import report_json, report_text  # noqa: F401
        from fastprof.xprof import report_xprof  # noqa: F401

        return runner.closure(names)


# ---- flags


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Which hosts and steps to look at."""
    group = parser.add_argument_group("choosing hosts and steps")
    group.add_argument("--host", metavar="NAME", action="append", help="only this host, by its exact name; repeatable")
    arguments.add_steps(group)


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = REPORT_FORMATS) -> Any:
    """In which form to write, and where to; the group of these flags."""
    return arguments.add_output(parser, "rows of each table", formats, usual="as many as suit")


def add_params(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """A flag for each parameter of the analyses and of those that they come after; one that several have goes to all
    of them."""
    from fastprof.analyses import runner

    fields = runner.fields_of(names)
    if fields:
        group = parser.add_argument_group("parameters")
        for field in fields:
            group.add_argument(flag(field.name), dest=f"param_{field.name}", default=None, **_reading(field))
    parser.set_defaults(params=tuple(field.name for field in fields))


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _reading(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """How argparse reads the value of a parameter, by its annotation."""
    told = str(field.metadata["help"]).replace("%", "%%")
    kinds = [part.strip() for part in str(field.type).split("|") if part.strip() != "None"]
    if kinds == ["bool"]:
        usual = "yes" if field.default else "no"
        return {"action": argparse.BooleanOptionalAction, "help": f"{told} (default: {usual})"}
    if field.metadata.get("type") == "time":
        return {"type": arguments.time, "help": told, "metavar": "TIME"}
    if field.metadata.get("type") == "bytes":
        return {"type": arguments.size, "help": told, "metavar": "SIZE"}
    usual = "" if field.default is None else f" (default: {field.default})".replace("%", "%%")
    reading = {"type": _type(kinds[0], field.metadata.get("min")), "help": told + usual}
    if "choices" in field.metadata:
        return {**reading, "choices": tuple(field.metadata["choices"])}
    return {**reading, "metavar": field.metadata.get("metavar", {"int": "N", "float": "X"}.get(kinds[0], "TEXT"))}


def _type(kind: str, least: float | None) -> Callable[[str], Any]:
    """Reads a value of the kind, none below ``least``."""
    if least is None:
        return _TYPES[kind]

    def bounded(text: str) -> Any:
        value = _TYPES[kind](text)
        if not value >= least:
            raise argparse.ArgumentTypeError(f"{text!r} is not {least} or more")
        return value

    bounded.__name__ = kind  # argparse names it where the text is no number
    return bounded


def params_given(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters that flags set; the others keep their defaults."""
    given = {name: getattr(args, f"param_{name}") for name in args.params}
    return {name: value for name, value in given.items() if value is not None}


# ---- writing


def send_table(sink: output.Sink, report: Report, table: str, form: str, args: argparse.Namespace) -> None:
    """Write one table of a report, and say which columns it had no room for."""
    left_out: list[str] = []
    limit = arguments.row_limit(args.limit, form)
    sink.send(table_chunks(report, table, form, sink.look, limit, left_out))
    output.note_left_out(args, left_out)
    if not report.tables[table].num_rows:
        args.talk.note(f"the table {table} is empty")
    for notice in report.notices:  # the table has no place for them
        if notice.severity in ("warning", "error"):
            args.talk.note(notice.text)


def table_chunks(
    report: Report, table: str, form: str, look: Look, limit: int | None, left_out: list[str] | None = None
) -> Iterator[bytes]:
    """One table of a report; ``left_out`` takes the names of columns that text has no room for."""
    whole: pa.Table = report.tables[table]
    kept = whole if limit is None else whole.slice(0, limit)
    if form == "table":
        from fastprof.render import report_text

        kept = kept.select(report_text.by_worth(report, table))
    return chunks(form, kept, name=table, look=look, left_out=left_out, by_worth=True)


def report_chunks(
    reports: Mapping[str, Report], form: str, look: Look, limit: int | None, *, several: bool
) -> Iterator[bytes]:
    """Reports as text, JSON or XProf's JSON, or one as a drawing or as stacks; ``several``: an object of all of them,
    where the form has objects."""
    from fastprof.render import report_json, report_text
    from fastprof.xprof import report_xprof

    (first, *_) = reports.values()
    if form == "xprof":
        document = report_xprof.several(reports) if several else report_xprof.text(first)
        return iter([document.encode("ascii"), b"\n"])
    if form == "svg":
        return iter([report_svg.text(first).encode("utf-8"), b"\n"])
    if form == "speedscope":
        return speedscope.chunks(first)
    if form == "json":
        rows = arguments.row_limit(limit, form)
        return report_json.several(reports, rows) if several else report_json.chunks(first, rows)
    texts = ("\n".join(report_text.lines(report, look, limit)) + "\n" for report in reports.values())
    return _parted(text.encode(look.encoding, "backslashreplace") for text in texts)


def _parted(texts: Iterable[bytes]) -> Iterator[bytes]:
    """The texts with two empty lines between them."""
    for number, text in enumerate(texts):
        yield b"\n\n" + text if number else text
