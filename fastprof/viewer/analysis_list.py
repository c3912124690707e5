"""The analyses as a page needs them: their titles and parameters, and the layout of their reports.

All follows from the registry and from the modules, as docs and flags do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fastprof.analyses import ANALYSES, runner
from fastprof.analyses.contract import Analysis, Evidence, Opening, Section
from fastprof.decode.span_stats import has_tfprof_profile
from fastprof.render import report_graphics

if TYPE_CHECKING:
    from fastprof.tables.table_set import OpenSession


def list_analyses(names: Iterable[str] = ANALYSES) -> list[dict[str, Any]]:
    """Return a document of each analysis: names, parameters, tables and sections, as JSON takes it."""
    return [_describe_analysis(name, runner.get_analysis(name)) for name in names]


OF_PROGRAMS: Final = Evidence("No programs: the capture carries no compiled programs.", programs=True)


def explain_empty_pages(session: OpenSession) -> dict[str, str | None]:
    """Return why pages of a session have nothing to show, by name, as far as its captures declare it. None if no
    capture of its kind has it; the page is not listed then."""
    no_programs = {"hlo": OF_PROGRAMS.absent} if runner.lack_evidence(session.captures, OF_PROGRAMS) else {}
    not_of_torch = runner.find_inapplicable(session)
    never = dict.fromkeys([*not_of_torch, *no_programs] if not_of_torch else ())
    if not any(map(has_tfprof_profile, session.captures)):
        never["tfprof"] = None
    return {**runner.find_declared_empty(session.captures), **no_programs, **never}


def _describe_analysis(name: str, analysis: Analysis) -> dict[str, Any]:
    opening: Opening = getattr(analysis, "OPENING", Opening((), tuple(analysis.SCALARS)))
    return {
        "name": name,
        "verb": name.replace("_", "-"),
        "title": runner.get_title(analysis),
        "summary": ANALYSES[name],
        "opening": {"headlines": list(opening.headlines), "figures": list(opening.figures)},
        "params": [_describe_param(field) for field in runner.list_fields([name])],
        "drawn": name in report_graphics.DRAWN,
        "labels": {scalar: spec.label for scalar, spec in analysis.SCALARS.items() if spec.label},
        "tables": {table: schema.row for table, schema in analysis.TABLES.items()},
        "sections": [_describe_section(section) for section in analysis.SECTIONS],
    }


def _describe_param(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """Describe a parameter: ``type`` is int, float, bool or str, or time or bytes if it may be written as a text."""
    kinds = [part.strip() for part in str(field.type).split("|") if part.strip() != "None"]
    return {
        "name": field.name,
        "type": field.metadata.get("type", kinds[0]),
        "default": None if field.default is dataclasses.MISSING else field.default,
        "choices": list(field.metadata["choices"]) if "choices" in field.metadata else None,
        "min": field.metadata.get("min"),
        "help": field.metadata["help"],
    }


def _describe_section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "table": section.table,
        "columns": list(section.columns),
        "bar": section.bar,
        "rows": section.rows,
        "scalars": list(section.scalars),
        "depth": section.depth,
        "words": {name: dict(words) for name, words in section.words.items()},
    }
