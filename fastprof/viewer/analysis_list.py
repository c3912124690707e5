"""The analyses as a page needs them: their titles and parameters, and the layout of their reports.

All follows from the registry and from the modules, as docs and flags do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fastprof.analyses import ANALYSES, content, runner
from fastprof.analyses.contract import Analysis, Evidence, Opening, Section
from fastprof.render import report_svg

if TYPE_CHECKING:
    from fastprof.tables.open_session import OpenSession


def listed(names: Iterable[str] = ANALYSES) -> list[dict[str, Any]]:
    """A document of each analysis: names, parameters, tables and sections, as JSON takes it."""
    return [_document(name, runner.module(name)) for name in names]


OF_PROGRAMS: Final = Evidence("No programs: the capture carries no compiled programs.", programs=True)


def empty_pages(session: OpenSession) -> dict[str, str | None]:
    """Why pages have nothing to show of a session, by name, as far as its captures declare it; None: no capture of its
    kind has, and the page is not listed."""
    no_programs = {"hlo": OF_PROGRAMS.absent} if content.lack(session.captures, OF_PROGRAMS) else {}
    not_of_torch = runner.not_of_torch(session)
    never = dict.fromkeys([*not_of_torch, *no_programs] if not_of_torch else ())
    return {**content.declared_empty(session.captures), **no_programs, **never}


def _document(name: str, analysis: Analysis) -> dict[str, Any]:
    return {
        "name": name,
        "verb": name.replace("_", "-"),
        "title": runner.title(analysis),
        "summary": ANALYSES[name],
        "opening": _opening(analysis),
        "params": [_param(one) for one in runner.fields_of([name])],
        "drawn": name in report_svg.DRAWN,
        "labels": {scalar: spec.label for scalar, spec in analysis.SCALARS.items() if spec.label},
        "tables": {table: schema.row for table, schema in analysis.TABLES.items()},
        "sections": [_section(one) for one in analysis.SECTIONS],
    }


def _opening(analysis: Analysis) -> dict[str, Any]:
    given: Opening = getattr(analysis, "OPENING", Opening((), tuple(analysis.SCALARS)))
    return {"headlines": list(given.headlines), "figures": list(given.figures)}


def _param(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """A parameter: ``type`` is int, float, bool or str, or time or bytes if it may be written as a text."""
    kinds = [part.strip() for part in str(field.type).split("|") if part.strip() != "None"]
    return {
        "name": field.name,
        "type": field.metadata.get("type", kinds[0]),
        "default": None if field.default is dataclasses.MISSING else field.default,
        "choices": list(field.metadata["choices"]) if "choices" in field.metadata else None,
        "min": field.metadata.get("min"),
        "help": field.metadata["help"],
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "table": section.table,
        "columns": list(section.columns),
        "bar": section.bar,
        "rows": section.rows,
        "scalars": list(section.scalars),
        "depth": section.depth,
    }
