"""Which of a session's compiled programs a name means, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from fastprof.errors import UsageError
from fastprof.schema.value_classes import dataclass
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.decode.import_log import ImportLog
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.programs import Program
    from fastprof.hlo.text.instruction_text import Form
    from fastprof.hlo.text.module_text import Neighbourhood
    from fastprof.tables.table_set import TableSet

Listed: TypeAlias = tuple[int, str]
"""Id and title of a program."""

FORMS = ("short-txt", "long-txt", "json")
"""The forms of a program's text: short and long as XLA prints it, and a complete one of our own."""
_NO_PROGRAMS = "the session has no compiled programs, which captures have in the plane /host:metadata, or beside them"
NO_PROGRAMS = f"No programs: {_NO_PROGRAMS}. Profile a compiled program while it runs."
_MOST_NAMED = 8


def match_programs(listed: Sequence[Listed], requested: str) -> list[Listed]:
    """Return the programs of a title, ``jit_f(12)``; else of an id; else of a name, ``jit_f``."""
    by_title = [entry for entry in listed if entry[1] == requested]
    by_id = [entry for entry in listed if requested in (str(entry[0]), str(entry[0] % 2**64))]
    return by_title or by_id or [entry for entry in listed if entry[1].rpartition("(")[0] == requested]


def find_named_programs(listed: Sequence[Listed], requested: str, none: str = _NO_PROGRAMS) -> list[Listed]:
    """Return the programs of the requested id. UsageError: no program matches, or several do. ``none``: why nothing is
    listed."""
    matches = match_programs(listed, requested)
    if not listed:
        raise UsageError(f"no program {requested!r}: {none}")
    if not matches:
        titles = [title for _, title in listed]
        raise UsageError(
            f"no program {requested!r}; there are: {_list_titles(listed)}{suggest_name(requested, titles)}"
        )
    if len({number for number, _ in matches}) > 1:
        raise UsageError(f"several programs are called {requested!r}: {_list_titles(matches)}; name one")
    return matches


def _list_titles(listed: Sequence[Listed]) -> str:
    names = list(dict.fromkeys(title for _, title in listed))
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


@dataclass(frozen=True, slots=True)
class Chosen:
    """A program, opened."""

    host: str
    program: Program
    module: HloModule
    others: tuple[str, ...] = ()
    """Hosts that have another program of this id."""

    def text(self, form: str = "short-txt", metadata: bool = False) -> Iterator[str]:
        """Yield the text in pieces. ``metadata``: with where instructions come from. UsageError: there is no such
        form."""
        if form == "json":
            from fastprof.hlo.text.module_text import format_module_json

            return format_module_json(self.module, self.program.title, self.program.id)
        from fastprof.hlo.text.module_text import format_module

        return format_module(self.module, choose_text_form(form, metadata))

    def instructions(self, log: ImportLog) -> pa.Table:
        """Its rows of the table hlo_instructions."""
        from fastprof.hlo.capture_tables import make_hlo_tables

        return make_hlo_tables(["hlo_instructions"], [(self.host, self.program, log)])["hlo_instructions"]


def choose_text_form(form: str, metadata: bool = False) -> Form:
    """UsageError: not a form of HLO text."""
    from fastprof.hlo.text.instruction_text import LONG, SHORT

    if form not in FORMS[:2]:
        raise UsageError(f"no form {form!r} of HLO; there are: {', '.join(FORMS)}{suggest_name(form, FORMS)}")
    return replace(SHORT if form == FORMS[0] else LONG, metadata=metadata)


def choose_program(tables: TableSet, requested: str | int) -> Chosen:
    """Return the program of a title, an id or a name, see ``match_programs``, on the first host that has it.
    UsageError: none, or several. CaptureError: it does not decode."""
    programs = tables.programs()
    matches = find_named_programs([(program.id, program.title) for _, program in programs], str(requested))
    same_id = [(host, program) for host, program in programs if (program.id, program.title) in matches]
    host, program = same_id[0]
    others = dict.fromkeys(name for name, listed in same_id if not program.is_same(listed))
    return Chosen(host, program, program.read(tables.session.log), tuple(others))


def find_around(chosen: Chosen, name: str, width: int) -> Neighbourhood:
    """Return the instructions around the first one of a name; or the entire computation of that name, around its root.
    UsageError: there is neither."""
    from fastprof.hlo.text.module_text import Neighbourhood

    module = chosen.module
    plain = name.removeprefix("%")
    row = int(module.find([plain])[0])
    if row < 0 and plain in module.printed_names:
        row = module.printed_names.index(plain)
    if row >= 0:
        return Neighbourhood(module, row, width)
    names = module.computation_names
    for computation in range(len(names)):
        has_name = plain in (names[computation], module.printed_computations[computation])
        if has_name and module.roots[computation] >= 0:
            return Neighbourhood(module, module.roots[computation], width, entire=True)
    raise UsageError(
        f"no instruction or computation {name!r} in {chosen.program.title}{suggest_name(name, [*module.names, *names])}"
    )


def join_pieces(pieces: Iterator[str], size: int = 1 << 16) -> Iterator[str]:
    """Pieces of text joined to larger ones, of at least ``size`` letters."""
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
