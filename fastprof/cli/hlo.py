"""The list of compiled programs, and the text of one as XLA prints it.

Without --module, the programs of the session are listed. --module takes a title from that list (literally, with its
parentheses), the name before the parentheses if only one program has it, or a program id. --instruction limits the
text to the surroundings of one instruction, or to one computation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fastprof.cli import arguments, output
from fastprof.errors import UsageError
from fastprof.render.table_forms import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.profile.profile import Profile
    from fastprof.tables.program_choice import Chosen

TEXTS = ("short-txt", "long-txt")
DIRECTIONS = ("operands", "users", "both")
DOT = "dot"
WIDTH = 3
GRAPHS = ("walk", "path", "calls", "blockers", "opcodes")
_SUFFIXES = {".txt": "short-txt", ".hlo": "short-txt", ".dot": DOT, ".gv": DOT}
_LISTED = (
    *("module", "program_id", "size_bytes", "computation_count", "instruction_count", "is_scheduled", "embedded"),
    *("host", "problem"),
)

_INSTRUCTIONS = ["name", "opcode", "category", "computation", "shape", "padded_bytes", "op_name"]
"""Columns of the text table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("selecting a program")
    group.add_argument("--host", metavar="NAME", action="append", help="only the host of this exact name; repeatable")
    group.add_argument("--module", metavar="NAME", help="program title, module name or program id")
    group.add_argument(
        "--instruction", metavar="NAME", help="only this instruction and its neighbours, or only this computation"
    )
    group.add_argument(
        "--width",
        metavar="N",
        type=arguments.parse_positive,
        help=f"with --instruction: include instructions up to N uses away (default: {WIDTH})",
    )
    group.add_argument(
        "--metadata", action="store_true", help="with --module: add the origin of each instruction, and stack frames"
    )
    group = parser.add_argument_group("graph of a program")
    group.add_argument(
        "--graph",
        choices=GRAPHS,
        help="with --module: walk from --instruction; path from --instruction to --to; calls as a tree; blockers of "
        "fusion; opcodes",
    )
    group.add_argument("--direction", choices=DIRECTIONS, help="with --graph walk: what to follow (default: both)")
    group.add_argument("--follow-calls", action="store_true", help="with --graph walk: into called computations")
    group.add_argument(
        "--opcode", metavar="A,B", type=arguments.split_names, help="with --graph walk: show only these opcodes"
    )
    group.add_argument("--to", metavar="NAME", help="with --graph path: the other instruction")
    out = arguments.add_output(parser, "programs, or instructions around one", (*TEXTS, *FORMATS, DOT))
    out.description = (
        "short-txt (the default with --module) and long-txt are XLA's formats; json holds the entire program. "
        "table (the default without --module), csv and arrow list programs, with --module the instructions of one, "
        "and with --instruction the surroundings of an instruction; dot is a graph of these"
    )
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    form = _check_form(args)
    profile = arguments.select_events(arguments.open_session(args), args)
    if args.module is not None:
        arguments.check_one_run(profile, "--module")
    with output.open_sink(args, form) as sink:
        if args.module is None:
            _list_programs(profile, args, sink, form)
        else:
            _write_program(profile, args, sink, form)
    arguments.note_log(profile, args)
    output.note_written(args)


def _check_form(args: argparse.Namespace) -> str:
    """Return the form to write. UsageError: flags do not go together."""
    suffix = "" if args.output is None else Path(args.output).suffix.lower()
    if args.format is None and suffix in _SUFFIXES:
        form = _SUFFIXES[suffix]
    elif args.format is None and suffix == "" and args.module is not None and args.graph is None:
        form = TEXTS[0]
    else:
        form = output.choose_format(args.format, args.output)
    if args.module is None:
        for given, name in (
            (args.instruction, "--instruction"),
            (args.width, "--width"),
            (args.metadata, "--metadata"),
            (args.graph, "--graph"),
        ):
            if given:
                raise UsageError(f"{name} needs --module NAME; without --module the programs are listed")
        if form not in (*FORMATS, output.BRIEF):
            raise UsageError(f"--format {form} needs --module NAME")
        if args.to is not None or args.direction or args.follow_calls or args.opcode:
            raise UsageError("--to, --direction, --follow-calls and --opcode need --module NAME and --graph")
    elif args.graph is not None:
        _check_graph(args, form)
    elif args.to is not None:
        raise UsageError("--to needs --graph path")
    elif args.direction or args.follow_calls or args.opcode:
        given = "--direction" if args.direction else "--follow-calls" if args.follow_calls else "--opcode"
        raise UsageError(f"{given} needs --graph walk")
    elif args.instruction is None:
        if args.width is not None:
            raise UsageError("--width needs --instruction NAME")
        if form == DOT:
            forms = ", ".join((*TEXTS, *FORMATS))
            raise UsageError(f"--format {form} needs --instruction NAME; formats of an entire program: {forms}")
        if args.metadata and form not in (*TEXTS, "json"):
            raise UsageError(f"--metadata applies only to {', '.join(TEXTS)} and json; {form} always has metadata")
    return form


def _check_graph(args: argparse.Namespace, form: str) -> None:
    """UsageError: flags do not fit the graph."""
    if form not in (*FORMATS, output.BRIEF):
        raise UsageError(f"--graph gives a table; it cannot be combined with --format {form}")
    wanted = {"walk": ("instruction",), "path": ("instruction", "to")}.get(args.graph, ())
    for name in ("instruction", "to"):
        if (getattr(args, name) is None) == (name in wanted):
            needs = "needs" if name in wanted else "does not take"
            raise UsageError(f"--graph {args.graph} {needs} --{name} NAME")
    others = {"--direction": args.direction, "--follow-calls": args.follow_calls, "--opcode": args.opcode}
    given = [name for name, value in ({"--width": args.width} | others).items() if value]
    if given and args.graph != "walk":
        raise UsageError(f"{given[0]} needs --graph walk")


# ---- the list


def _list_programs(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str) -> None:
    from fastprof.tables.program_choice import NO_PROGRAMS

    table = profile.tables["hlo_modules"]
    if form == "table":
        table = _make_readable(table, any(len(run.sources) > 1 for run in profile.runs.values()))
    output.send_table(args, sink, table, "hlo_modules", form, "programs", absent=NO_PROGRAMS)
    if not table.num_rows:
        args.talk.note(NO_PROGRAMS)


def _make_readable(table: pa.Table, several_hosts: bool) -> pa.Table:
    """Return the columns that differ between programs, sorted by name and id."""
    import pyarrow.compute as pc

    same_for_all = {
        "host": not several_hosts,
        "problem": table["problem"].null_count == len(table),
        "embedded": table.num_rows and pc.all(table["embedded"]).as_py(),
    }
    table = table.set_column(
        table.column_names.index("program_id"), "program_id", table["program_id"].cast("uint64", safe=False)
    )
    titles, ids = table["module"].to_pylist(), table["program_id"].to_pylist()
    order = sorted(range(len(titles)), key=lambda row: (titles[row].rpartition("(")[0], ids[row]))
    table = table.take(order) if order else table
    runs = ["run"] if "run" in table.column_names else []
    return table.select([*runs, *(name for name in _LISTED if not same_for_all.get(name))])


# ---- a program


def _write_program(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str) -> None:
    from fastprof.tables.program_choice import choose_program, join_pieces

    chosen = choose_program(profile.table_set, args.module)
    if chosen.others:
        names = ", ".join(chosen.others[:8]) + (" and others" if len(chosen.others) > 8 else "")
        args.talk.note(
            f"showing the program of host {chosen.host}; {names} ran another with this id; choose one with --host NAME"
        )
    if args.graph is not None:
        table = _make_graph_table(chosen, args)
        args.talk.progress.clear()
        output.send_table(args, sink, table, f"hlo_{args.graph}", form, "rows")
        if not table.num_rows:
            args.talk.note("no row: neither instruction needs the other" if args.graph == "path" else "no row")
        return
    if args.instruction is None and form in ("table", "csv", "arrow", output.BRIEF):
        table = chosen.instructions(profile.table_set.session.log)
        table = table.select(_INSTRUCTIONS) if form == "table" else table
        output.send_table(args, sink, table, "hlo_instructions", form, "instructions")
        return
    if args.instruction is None:
        args.talk.progress.clear()
        _send_text(join_pieces(chosen.text(form, args.metadata)), sink)
        return
    _write_around(chosen, args, sink, form)


def _make_graph_table(chosen: Chosen, args: argparse.Namespace) -> pa.Table:
    from fastprof.hlo.program_graph import ProgramGraph

    graph = ProgramGraph(chosen.module)
    if args.graph == "walk":
        return graph.walk(
            args.instruction,
            direction=args.direction or "both",
            width=args.width or WIDTH,
            follow_calls=args.follow_calls,
            opcodes=args.opcode or (),
        )
    if args.graph == "path":
        return graph.find_path(args.instruction, args.to)
    tables = {"calls": graph.list_calls, "blockers": graph.list_blockers, "opcodes": graph.count_opcodes}
    return tables[args.graph]()


def _send_text(pieces: Iterator[str], sink: output.Sink) -> None:
    """Write text as it is."""
    encoding = "utf-8" if sink.look.file or sink.look.screen else sink.look.encoding
    sink.send(piece.encode(encoding, "backslashreplace") for piece in pieces)


def _write_around(chosen: Chosen, args: argparse.Namespace, sink: output.Sink, form: str) -> None:
    from fastprof.hlo.text.instruction_text import InstructionText
    from fastprof.hlo.text.module_text import draw_dot, format_part
    from fastprof.tables.program_choice import choose_text_form, find_around, join_pieces

    near = find_around(chosen, args.instruction, args.width or WIDTH)
    shown = choose_text_form(form if form in TEXTS else TEXTS[0], args.metadata)
    writer = InstructionText(near.module, shown)
    if form in TEXTS or form == DOT:
        pieces: Iterator[str] = draw_dot(near) if form == DOT else format_part(near, writer)
        _send_text(join_pieces(pieces), sink)
        return
    output.send_table(args, sink, near.table(writer), "hlo_neighbourhood", form, "instructions")
