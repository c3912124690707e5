"""Compiled programs as pages need them: which there are, the lines of one, and what is around an instruction."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from typing import Any, Final
from weakref import WeakKeyDictionary

from fastprof.errors import UsageError
from fastprof.hlo.text.instruction_text import InstructionText
from fastprof.schema.value_classes import dataclass
from fastprof.tables import program_choice
from fastprof.tables.program_choice import Chosen, choose_program, choose_text_form, join_pieces
from fastprof.tables.table_set import OpenSession, TableSet
from fastprof.viewer.server_state import ApiCall

LINES: Final = 2_000
"""Lines of a program that are sent at once."""
MOST_LINES: Final = 20_000
_FORMS: Final = ("short-txt", "long-txt")
_USUAL_WIDTH, _MOST_WIDTH = 2, 20
MOST_NODES: Final = 400
"""Nodes of a neighbourhood, nearest first."""
_MOST_LETTERS: Final = 20_000
"""Letters of a line or a shape: those of tuples and constants can be megabytes."""
_KEPT_LETTERS: Final = 64 << 20
_MODULES = (
    "host", "program_id", "module", "name", "instruction_count", "computation_count", "size_bytes", "is_scheduled",
    "problem",
)  # fmt: skip


def answer_hlo(call: ApiCall) -> dict[str, Any]:
    """Answer with the programs, the text of one, or what is around an instruction."""
    tables = call.run.tables
    host, module, instruction = call.given("host"), call.given("module"), call.given("instruction")
    if module is None:
        return list_modules(tables, host)
    if call.truth("around"):
        width = call.whole("width", _USUAL_WIDTH, least=1, most=_MOST_WIDTH)
        return get_neighbourhood(tables, host, module, call.text("instruction"), width)
    first = call.whole("first", -1, least=-1)
    lines = call.whole("lines", LINES, least=1, most=MOST_LINES)
    form, metadata = call.choice("form", _FORMS, _FORMS[0]), call.truth("metadata")
    return get_module_text(tables, host, module, form, metadata, None if first < 0 else first, lines, instruction)


def list_modules(tables: TableSet, host: str | None) -> dict[str, Any]:
    """Return ``{"modules": [...]}``: the programs of a host, or of all; ids are strings."""
    modules = tables["hlo_modules"].select(list(_MODULES))
    modules = modules.set_column(1, "program_id", modules["program_id"].cast("uint64", safe=False))
    rows = [row for row in modules.to_pylist() if host is None or row["host"] == host]
    for row in rows:
        row["program_id"] = str(row["program_id"])
    return {"modules": rows}


def get_module_text(
    tables: TableSet,
    host: str | None,
    module: str,
    form: str = "short-txt",
    metadata: bool = False,
    first: int | None = None,
    lines: int = LINES,
    instruction: str | None = None,
) -> dict[str, Any]:
    """Return lines of a program from ``first`` on; without it, those around ``instruction``, or the first ones.

    UsageError: there is no such program, form or instruction.
    """
    chosen = _choose_module(tables, host, module)
    program = _get_program_text(tables, chosen, form, metadata)
    at = None if instruction is None else program.find(chosen, instruction)
    count = max(1, min(lines, MOST_LINES))
    begin = max(0, first if first is not None else (at or 0) - count // 4)
    return {
        "module": chosen.program.title,
        "host": chosen.host,
        "others": list(chosen.others),
        "form": form,
        "metadata": metadata,
        "first": begin,
        "lines": len(program.begins),
        "text": [_cut_line(line) for line in program.part(begin, begin + count)],
        "at": at,
    }


def get_neighbourhood(tables: TableSet, host: str | None, module: str, instruction: str, width: int) -> dict[str, Any]:
    """Return the graph of what lies within ``width`` uses of an instruction: edges go from operand to user, by
    number."""
    chosen = _choose_module(tables, host, module)
    near = program_choice.find_around(chosen, instruction, max(0, width))
    rows = sorted(near.distances, key=near.distances.__getitem__)[:MOST_NODES]
    nearest = set(rows)
    rows = [row for row in near.rows() if row in nearest]
    number = {row: place for place, row in enumerate(rows)}
    writer = InstructionText(near.module, choose_text_form("short-txt"))
    nodes = [
        {
            "name": near.module.names[row],
            "opcode": near.module.opcodes[row],
            "shape": _cut_line(near.module.shape_text(near.module.shape_rows[row])),
            "distance": near.distances[row],
            "relation": near.relation(row),
            "instruction": _cut_line(writer.line(row)),
        }
        for row in rows
    ]
    return {
        "module": chosen.program.title,
        "host": chosen.host,
        "instruction": near.module.names[near.centre],
        "computation": near.module.computation_names[near.computation],
        "nodes": nodes,
        "edges": [[number[a], number[b]] for a, b in near.edges() if a in number and b in number],
        "more": len(near.distances) - len(rows),
    }


def _choose_module(tables: TableSet, host: str | None, module: str) -> Chosen:
    if not module:
        raise UsageError("the argument module names no program")
    of_host = tables if host is None else TableSet(tables.session, tables.selection.narrowed([host]))
    return choose_program(of_host, module)


def _cut_line(line: str) -> str:
    return line if len(line) <= _MOST_LETTERS else f"{line[:_MOST_LETTERS]}… ({len(line):,} letters)"


# ---- texts of programs, which are read page by page


@dataclass(slots=True)
class _ProgramText:
    """Text of a program, and where its lines begin."""

    content: str
    begins: list[int]

    def part(self, first: int, end: int) -> list[str]:
        begins = self.begins[first:end]
        if not begins:
            return []
        last = self.begins[end] if end < len(self.begins) else len(self.content)
        return self.content[begins[0] : last].removesuffix("\n").split("\n")

    def find(self, chosen: Chosen, name: str) -> int:
        """Return the line of an instruction, or of a computation. UsageError: there is neither."""
        near = program_choice.find_around(chosen, name, 0)
        module = near.module
        computation = self._line_of(module.printed_computations[near.computation], "", 0)
        printed = module.printed_names[near.centre]
        if computation is None or name.removeprefix("%") not in (module.names[near.centre], printed):
            return computation or 0
        line = self._line_of(printed, "  ", self.begins[computation])
        return computation if line is None else line

    def _line_of(self, name: str, indent: str, start: int) -> int | None:
        """Return the first line from ``start`` on that is of this name, or None."""
        leads = ("", "%", "ROOT ", "ROOT %") if indent else ("", "%", "ENTRY ", "ENTRY %")
        places = [self.content.find(f"\n{indent}{lead}{name} ", max(start - 1, 0)) for lead in leads]
        first = min((place for place in places if place >= 0), default=None)
        return None if first is None else bisect_right(self.begins, first + 1) - 1


_texts: WeakKeyDictionary[OpenSession, OrderedDict[tuple[str, int, str, bool], _ProgramText]] = WeakKeyDictionary()
_lock = threading.Lock()


def _get_program_text(tables: TableSet, chosen: Chosen, form: str, metadata: bool) -> _ProgramText:
    """Return the text of a program, from the cache of those used last if it is there."""
    key = (chosen.host, chosen.program.id, form, metadata)
    with _lock:
        texts = _texts.setdefault(tables.session, OrderedDict())
        if key in texts:
            texts.move_to_end(key)
            return texts[key]
    if form not in _FORMS:
        raise UsageError(f"no form {form!r} of text; there are {' and '.join(_FORMS)}")
    content = "".join(join_pieces(chosen.text(form, metadata)))
    begins = [0]
    while (place := content.find("\n", begins[-1])) >= 0:
        begins.append(place + 1)
    if begins[-1] == len(content) and len(begins) > 1:
        begins.pop()
    program_text = _ProgramText(content, begins)
    with _lock:
        texts[key] = program_text
        while len(texts) > 1 and sum(len(text.content) for text in texts.values()) > _KEPT_LETTERS:
            texts.popitem(last=False)
    return program_text
