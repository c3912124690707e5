"""The views of tfprof: a graph by name scope, by input, by op or by line of code; or its advice.

VIEW is scope, graph, op, code or advise. --graph replaces SESSION. Options have tfprof's names, and the
defaults of its command line; --preset and --options start from other ones. --format tfprof prints tfprof's own report.
With --options FILE, the option output in FILE sets the destination: stdout, file:outfile=PATH, timeline:outfile=PATH,
pprof:outfile=PATH or none.
Regular expressions are RE2's and match entire names.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments, output
from fastprof.errors import UsageError
from fastprof.export.new_files import open_new_file
from fastprof.render.table_forms import FORMATS
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    import dataclasses

    import pyarrow as pa

    from fastprof.inputs.directory_content import GraphFiles
    from fastprof.profile.profile import Profile
    from fastprof.tfprof.tfprof_views import TfprofView

ADVISE = "advise"
_OWN = ("tfprof", "timeline", "pprof")
_TABLE = "table"
_NO_OUTPUT = 2
"""Exit code where tfprof does not have the requested output."""


def _list_fields() -> list[dataclasses.Field[Any]]:
    """Return the options but ``output``, which --format and -o replace. Imported late: the list of verbs must stay
    quick."""
    import dataclasses

    from fastprof.derive.tfprof.options import ViewOptions

    return [field for field in dataclasses.fields(ViewOptions) if field.name != "output"]


def _list_views() -> tuple[str, ...]:
    from fastprof.derive.tfprof.options import VIEWS

    return (*VIEWS, ADVISE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fastprof.derive.tfprof.options import PRESETS

    arguments.add_session(parser, "*")
    group = parser.add_argument_group("a graph and its runs, instead of SESSION")
    group.add_argument("--graph", metavar="FILE", help="GraphDef, binary or text")
    group.add_argument(
        "--run-metadata",
        metavar="FILE",
        action="append",
        default=[],
        help="RunMetadata of a step, binary or text; the step is the last number in the name, or else 0, 1, …; "
        "repeatable",
    )
    group.add_argument("--op-log", metavar="FILE", help="OpLogProto: types, float operations and code of the nodes")
    parser.add_argument("view", metavar="VIEW", help=f"one of {', '.join(_list_views())}")
    parser.add_argument("--host", metavar="NAME", help="profile of this host, if several hosts have one")
    group = parser.add_argument_group("options of tfprof")
    group.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="start from an option set of tfprof's Python interface",
    )
    group.add_argument(
        "--options",
        metavar="FILE",
        help="start from the options in FILE (JSON, OptionsProto as text, or flags of tfprof), with the defaults of "
        "tfprof's Python interface. With --format tfprof, the option output sets the destination; --format json "
        "writes what tfprof returns",
    )
    for field in _list_fields():
        _add_option(group, field)
    group.add_argument(
        "--checkers",
        metavar="A,B",
        type=_parse_list,
        action="extend",
        help="with advise: only these checkers; repeatable",
    )
    arguments.add_output(parser, "rows", (*FORMATS, *_OWN))
    arguments.add_talk(parser)


def _add_option(group: argparse._ArgumentGroup, field: dataclasses.Field[Any]) -> None:
    from fastprof.derive.tfprof.options import ORDERS, get_help

    name = field.name
    flag = f"--{name.replace('_', '-')}"
    shown = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    usual = "no" if field.default is False else shown
    text = get_help(name) + (f" (default: {usual})" if usual != "" else "")
    text = text.replace("%", "%%")
    if isinstance(field.default, bool):
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
    elif isinstance(field.default, int):
        group.add_argument(flag, metavar="N", type=_parse_number, help=text)
    elif name == "order_by":
        group.add_argument(flag, choices=ORDERS, help=text)
    else:
        group.add_argument(flag, metavar="A,B", type=_parse_list, action="extend", help=f"{text}; repeatable")


@arguments.make_reader
def _parse_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an integer") from None


def _parse_list(text: str) -> list[str]:
    """Split regular expressions or names at commas; an empty text is an empty list."""
    return [name.strip() for name in text.split(",")] if text.strip() else []


def run(args: argparse.Namespace) -> int:
    views = _list_views()
    if args.view not in views and not args.session and not args.graph:
        raise UsageError(f"which view of {args.view}? Add one of {', '.join(views)}")
    if args.view not in views:
        raise UsageError(f"unknown view {args.view!r}{suggest_name(args.view, views)} (choose from {', '.join(views)})")
    if (args.run_metadata or args.op_log) and not args.graph:
        raise UsageError("--run-metadata and --op-log need --graph")
    form = output.choose_format(args.format, args.output, (*FORMATS, *_OWN))
    if args.checkers is not None and args.view != ADVISE:
        raise UsageError(f"--checkers needs the view {ADVISE}")
    as_tfprof = args.options is not None and form in ("tfprof", "json")
    args.session = [_get_graph_files(args, as_tfprof)] if args.graph else args.session
    if not args.session:
        raise UsageError("a SESSION is missing; or give --graph FILE")
    profile = arguments.open_session(args)
    arguments.check_one_run(profile, "a view of tfprof")
    code = 0
    with output.open_sink(args, form) as sink:
        if args.view == ADVISE:
            _write_advice(profile, args, sink, form)
        elif as_tfprof:
            code = _write_answer(profile, args, sink, form)
        else:
            _write_view(profile, args, sink, form)
    arguments.note_log(profile, args)
    output.note_written(args)
    return code


def _get_graph_files(args: argparse.Namespace, as_tfprof: bool) -> GraphFiles:
    """``as_tfprof``: read them as tfprof does; a single run is step 0."""
    from fastprof.inputs import directory_content, open_files

    if args.session:
        raise UsageError(f"--graph replaces SESSION, but {args.session[0]} is also given")
    runs = directory_content.number_runs(args.run_metadata)
    if as_tfprof and len(runs) == 1:
        runs = ((0, args.run_metadata[0]),)
    most = open_files.check_limit(args.max_unpacked)
    return directory_content.GraphFiles(args.graph, runs, args.op_log, most, as_tfprof or args.format == "tfprof")


def _write_advice(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str) -> None:
    if form in ("timeline", "pprof"):
        raise UsageError(f"--format {form} needs a view, not {ADVISE}")
    from fastprof.tfprof import option_files, tfprof_answer

    checkers = args.checkers
    if checkers is None and args.options is not None:
        checkers = option_files.read_checker_file(args.options)
    advice = profile.tfprof_advice(checkers, host=args.host)
    args.talk.progress.clear()
    of_graph = args.session[0].complaints if form == "tfprof" and args.graph else []
    _write_complaints(args, form, [*of_graph, *advice.complaints])
    if form == "tfprof":
        sink.send([_encode_text(advice.text, sink)])
        return
    if form == "json":
        sink.send([tfprof_answer.write_advice_proto(advice.reports).encode()])
        return
    table = advice.by_line() if form == _TABLE else advice.table
    output.send_table(args, sink, table, "tfprof_advice", form, "reports")
    if not advice.table.num_rows:
        args.talk.note("the advisor reports nothing")


def _write_complaints(args: argparse.Namespace, form: str, complaints: list[str]) -> None:
    """Write tfprof's messages: in its own form with --format tfprof, else as notes."""
    if form == "tfprof":
        args.talk.write_text("".join(f"{complaint}\n" for complaint in complaints))
    else:
        for complaint in complaints:
            args.talk.note(complaint)


def _get_given(args: argparse.Namespace) -> dict[str, Any]:
    return {field.name: value for field in _list_fields() if (value := getattr(args, field.name)) is not None}


def _write_answer(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str) -> int:
    """Write tfprof's answer to the destination in its option output, or what its Python interface returns. Without this
    option, or with -o, write the report alone. Return the exit code: tfprof's own message is all if it has no such
    output."""
    from fastprof.derive.tfprof.options import DUMP
    from fastprof.tfprof.option_files import read_option_file

    options = read_option_file(args.options)
    has_target = (args.output is None and ("output" in options or options.get(DUMP))) or form == "json"
    options = options if has_target else options | {"output": f"file:outfile={args.output or '-'}", DUMP: ""}
    of_graph = args.graph is not None
    answer = profile.tfprof_answer(args.view, options, host=args.host, of_graph=of_graph, **_get_given(args))
    args.talk.progress.clear()
    if form == "json":
        sink.send(piece.encode("utf-8", "replace") for piece in answer.proto())
        return 0
    args.talk.write_text("".join(f"{complaint}\n" for complaint in args.session[0].complaints) if of_graph else "")
    args.talk.write_text(answer.stderr)
    if answer.target is None:
        return _NO_OUTPUT
    files = dict(answer.files)
    if answer.target.form == "file" and answer.report is not None:
        if not has_target:
            sink.send([_encode_text(answer.report, sink)])
            return 0
        files[""] = answer.report.encode("utf-8", "replace")
    for suffix, content in files.items():
        with open_new_file(f"{answer.target.path}{suffix}", force=True) as write:
            output.Sink(write, sink.look, f"{answer.target.path}{suffix}", lambda: None, data=False).send([content])
    sink.send([_encode_text(answer.stdout, sink)])
    return 0


def _write_view(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str) -> None:
    from fastprof.tfprof.option_files import read_option_file

    given = _get_given(args)
    from_file = None if args.options is None else read_option_file(args.options)
    view = profile.tfprof(args.view, host=args.host, preset=args.preset, options=from_file, **given)
    args.talk.progress.clear()
    for name in view.options.select:
        if name in view.unknown:
            args.talk.note(f"{name}: {view.unknown[name]}")
    _write_complaints(args, form, view.complaints)
    if form == "pprof":
        sink.send([view.to_pprof()])
    elif form == "timeline":
        sink.send([view.timeline().encode("utf-8", "replace")])
    elif form == "tfprof":
        sink.send(_encode_text(piece, sink) for piece in view.pieces())
    elif form == "json":
        from fastprof.tfprof.tfprof_text import write_view_json

        limit = arguments.get_row_limit(args.limit, "json")
        tables = (table.slice(0, limit) for table in (view.table, view.nodes))
        sink.send(write_view_json(view.view, view.options, view.unknown, *tables))
    else:
        table = _make_readable(view) if form == _TABLE else view.table
        output.send_table(args, sink, table, "tfprof_view", form, "rows", by_worth=True)


def _encode_text(text: str, sink: output.Sink) -> bytes:
    encoding = "utf-8" if sink.look.file or not sink.look.screen else sink.look.encoding
    return text.encode(encoding, "backslashreplace")


def _make_readable(view: TfprofView) -> pa.Table:
    """Return the selected columns, and names indented by depth."""
    import pyarrow as pa

    table = view.table
    wanted = {*view.options.select} - {*view.unknown} | (
        {"accelerator_micros", "cpu_micros"} & set(view.options.select)
    )
    columns = [name for name in table.column_names if name.removeprefix("total_") in wanted]
    more = {"occurrence": ("run_count", "total_run_count", "definition_count", "total_definition_count"),
            "device": ("devices",), "op_types": ("types",), "input_shapes": ("input_shapes",)}  # fmt: skip
    for name, others in more.items():
        columns += [
            other for other in others if name in wanted and other in table.column_names and other not in columns
        ]
    indented = (
        ["  " * depth + name for depth, name in zip(table["depth"].to_pylist(), table["name"].to_pylist(), strict=True)]
        if view.view != "op"
        else table["name"].to_pylist()
    )
    return table.select(columns).append_column("name", pa.array(indented, pa.string()))
