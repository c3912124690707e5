"""Which of a session's compiled programs is meant by a name, and what its text is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from fastprof.errors import UsageError
from fastprof.hlo.capture_tables import hlo_tables
from fastprof.hlo.module import HloModule
from fastprof.hlo.programs import Program
from fastprof.hlo.text.instruction_text import LONG, SHORT, Form
from fastprof.hlo.text.json_form import module_json
from fastprof.hlo.text.module_text import module_text
from fastprof.hlo.text.neighbourhood import Neighbourhood
from fastprof.hlo.text.program import program_of
from fastprof.schema.import_log import ImportLog
from fastprof.tables.table_set import TableSet
from fastprof.wording.spelling import meant

FORMS = ("short-txt", "long-txt", "json")
"""Of the text of a program: as XLA prints it, short and long; and a form of our own that has all."""
_NO_PROGRAMS = "the session has no compiled programs, which captures have in the plane /host:metadata, or beside them"
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Chosen:
    """A program, opened."""

    host: str
    program: Program
    module: HloModule
    others: tuple[str, ...] = ()
    """Hosts that have another program of this id."""

    def text(self, form: str = "short-txt", metadata: bool = False) -> Iterator[str]:
        """In pieces. ``metadata``: with where instructions come from. UsageError: there is no such form."""
        if form == "json":
            return module_json(self.module, self.program.title, self.program.id)
        return module_text(self.module, text_form(form, metadata))

    def instructions(self, log: ImportLog) -> pa.Table:
        """Its rows of the table hlo_instructions."""
        return hlo_tables(["hlo_instructions"], [(self.host, self.program, log)])["hlo_instructions"]


def text_form(form: str, metadata: bool = False) -> Form:
    """UsageError: it is not a form of HLO text."""
    if form not in FORMS[:2]:
        raise UsageError(f"no form {form!r} of HLO; there are: {', '.join(FORMS)}{meant(form, FORMS)}")
    return replace(SHORT if form == FORMS[0] else LONG, metadata=metadata)


def chosen_program(tables: TableSet, asked: str | int) -> Chosen:
    """The program that a title (``jit_f(12)``), the name of a module (``jit_f``) or a program id names, literally; of
    several hosts the first.

    Raises UsageError where none is called so, or several are, and CaptureError where it does not decode.
    """
    programs = tables.programs()
    found = _matching(programs, str(asked))
    distinct = {program.id: (host, program) for host, program in reversed(found)}
    if not distinct:
        raise UsageError(_unknown(str(asked), [program.title for _, program in programs]))
    if len(distinct) > 1:
        raise UsageError(f"several programs are called {asked!r}: {_named([one.title for _, one in found])}; name one")
    ((host, program),) = distinct.values()
    others = dict.fromkeys(name for name, one in found if not program.is_same(one))
    return Chosen(host, program, program.read(tables.session.log), tuple(others))


def _matching(programs: Sequence[tuple[str, Program]], asked: str) -> list[tuple[str, Program]]:
    """By title, else by id, else by what stands before the id in the title."""
    by_title = [one for one in programs if one[1].title == asked]
    by_id = [one for one in programs if asked in (str(one[1].id), str(one[1].id % 2**64))]
    return by_title or by_id or [one for one in programs if one[1].title.rpartition("(")[0] == asked]


def _unknown(asked: str, titles: list[str]) -> str:
    if not titles:
        return f"no program {asked!r}: {_NO_PROGRAMS}"
    return f"no program {asked!r}; there are: {_named(titles)}{meant(asked, titles)}"


def _named(titles: list[str]) -> str:
    names = list(dict.fromkeys(titles))
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def around(chosen: Chosen, name: str, width: int) -> Neighbourhood:
    """What is around an instruction, in the first computation that has one of this name; or all of the computation of
    this name, around its root. UsageError: there is neither."""
    program = program_of(chosen.module)
    plain = name.removeprefix("%")
    row = int(chosen.module.find([plain])[0])
    if row < 0 and plain in program.printed_names:
        row = program.printed_names.index(plain)
    if row >= 0:
        return Neighbourhood(program, row, width)
    names = program.computation_names
    for computation in range(len(names)):
        found = plain in (names[computation], program.printed_computations[computation])
        if found and program.roots[computation] >= 0:
            return Neighbourhood(program, program.roots[computation], width, entire=True)
    raise UsageError(
        f"no instruction or computation {name!r} in {chosen.program.title}{meant(name, [*program.names, *names])}"
    )


def joined(pieces: Iterator[str], size: int = 1 << 16) -> Iterator[str]:
    """Pieces of text put together to such as are worth writing."""
    waiting: list[str] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length >= size:
            yield "".join(waiting)
            waiting, length = [], 0
    if waiting:
        yield "".join(waiting)
