"""Writes what follows from the registry of analyses: the reference of each page, the page that lists them, and
``fastprof/profile/analysis_methods.py``, the methods of Profile. A test compares all of it with the files.

A page is ``docs/analyses/VERB.md``: prose by hand down to the heading Reference, which this writes.
"""

from __future__ import annotations

import dataclasses
import json
import runpy
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fastprof.analyses import ANALYSES, runner
from fastprof.analyses.contract import Analysis

DOCS = Path(__file__).parent
METHODS = DOCS.parent / "fastprof" / "profile" / "analysis_methods.py"
INDEX = DOCS / "analyses" / "README.md"
HEADING = "## Reference\n"
LIST_HEADING = "## The analyses\n"
WIDTH = 120

_table_section: Any = runpy.run_path(str(DOCS / "write_tables.py"))["section"]


def verb(name: str) -> str:
    return name.replace("_", "-")


def page_path(name: str) -> Path:
    return DOCS / "analyses" / f"{verb(name)}.md"


# ---- pages


def page(name: str) -> str:
    """The page of an analysis with a new reference."""
    path = page_path(name)
    title = runner.get_title(runner.get_analysis(name))
    prose = path.read_text().partition(f"\n{HEADING}")[0].rstrip() if path.exists() else ""
    return (prose or f"# {title}\n\n{ANALYSES[name]}") + f"\n\n{HEADING}\n" + reference(runner.get_analysis(name))


def reference(analysis: Analysis) -> str:
    parts = [
        f"This part is generated from `fastprof/analyses/{analysis.NAME}.py` by `make docs`. Names end in their unit;\n"
        "a share is a number from 0 to 1.\n",
        _parameters(analysis),
        _figures(analysis),
        *(_table_section(table).replace("## ", "### Table ", 1) for table in analysis.TABLES.values()),
    ]
    return "\n".join(part for part in parts if part)


_SIGNS = {"time": "TIME", "bytes": "SIZE"}
"""Placeholders for values of types that may be written as text."""


def _parameters(analysis: Analysis) -> str:
    fields = runner.list_fields([analysis.NAME])
    if not fields:
        return ""
    rows = "\n".join(
        f"| {_flags(field)} | `{field.name}={_literal(field.default)}` | {field.metadata['help']} |" for field in fields
    )
    return f"### Parameters\n\n| flag | argument | meaning |\n|---|---|---|\n{rows}\n"


def _flags(field: dataclasses.Field[Any]) -> str:
    name = verb(field.name)
    if field.type == "bool":
        return f"`--{name}`, `--no-{name}`"
    if field.metadata.get("type") in _SIGNS:
        return f"`--{name} {_SIGNS[field.metadata['type']]}`"
    choices = "\\|".join(field.metadata.get("choices", ()))
    return f"`--{name} {choices}`" if choices else f"`--{name}`"


def _figures(analysis: Analysis) -> str:
    if not analysis.SCALARS:
        return ""
    rows = "\n".join(
        f"| `{name}` | {spec.unit or ''} | {spec.definition}{f'; null: {spec.need.absent}' if spec.need else ''} |"
        for name, spec in analysis.SCALARS.items()
    )
    return f"### Figures\n\nIn `scalars`.\n\n| name | unit | meaning |\n|---|---|---|\n{rows}\n"


def index() -> str:
    """The page of all analyses with a new list."""
    rows = "\n".join(
        f"| [`{verb(name)}`]({verb(name)}.md) | `p.{name}()` | {summary} |" for name, summary in ANALYSES.items()
    )
    table = f"| verb | method | content |\n|---|---|---|\n{rows}\n"
    before, _, after = INDEX.read_text().partition(LIST_HEADING)
    rest = after.partition("\n## ")
    return before + LIST_HEADING + "\n" + table + "".join(rest[1:])


# ---- methods of Profile

MODULE = '''"""The analyses as methods of Profile. Generated from the registry of analyses by `make docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fastprof.profile.report import Report


class AnalysisMethods:
    """The part of Profile with one method per analysis."""

    def report(self, name: str, **params: Any) -> Report:
        """Return the report of the analysis ``name``."""
        raise NotImplementedError
'''


def methods() -> str:
    return MODULE + "".join(_method(name) for name in ANALYSES)


def _method(name: str) -> str:
    fields = runner.list_fields([name])
    arguments = [f"{field.name}: {_annotation(field)} = {_literal(field.default)}" for field in fields]
    passed = [f'"{name}"', *(f"{field.name}={field.name}" for field in fields)]
    analysis = runner.get_analysis(name)
    prose = [
        ANALYSES[name],
        *([""] if fields else []),
        *(f"{field.name}: {field.metadata['help']}" for field in fields),
        "",
        f"Tables: {', '.join(analysis.TABLES)}.",
        *([f"Figures: {', '.join(analysis.SCALARS)}."] if analysis.SCALARS else []),
    ]
    lines = [
        "",
        *_call(f"    def {name}", ["self", *(["*"] if fields else []), *arguments], " -> Report:"),
        *_docstring(prose),
        *_call("        return self.report", passed, ""),
    ]
    return "\n".join(lines) + "\n"


def _annotation(field: dataclasses.Field[Any]) -> str:
    """The annotation of a parameter; its choices if it has any."""
    if field.metadata.get("type") in _SIGNS:
        return "int | str | None"
    choices = None if field.metadata.get("or_name") else field.metadata.get("choices")
    return f"Literal[{', '.join(map(_literal, choices))}]" if choices else str(field.type)


def _call(opening: str, arguments: Sequence[str], closing: str) -> list[str]:
    """A call or definition in the layout of the formatter."""
    line = f"{opening}({', '.join(arguments)}){closing}"
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(opening) - len(opening.lstrip()))
    inner = [line for argument in arguments for line in _argument(f"{indent}    {argument},")]
    return [f"{opening}(", *inner, f"{indent}){closing}"]


def _argument(line: str) -> list[str]:
    """The lines of an argument: one, or one per choice if they do not fit."""
    if len(line) <= WIDTH:
        return [line]
    before, _, rest = line.partition("[")
    choices, _, after = rest.partition("]")
    indent = " " * (len(line) - len(line.lstrip()))
    return [f"{before}[", *(f"{indent}    {choice}," for choice in choices.split(", ")), f"{indent}]{after}"]


def _docstring(prose: Sequence[str]) -> Iterator[str]:
    first, *rest = (line for text in prose for line in textwrap.wrap(text, WIDTH - 12) or [""])
    yield f'        """{first}' + ("" if rest else '"""')
    yield from (f"        {line}".rstrip() for line in rest)
    if rest:
        yield '        """'


def _literal(value: object) -> str:
    """As the formatter writes it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def outputs() -> dict[Path, str]:
    """Every generated file with its text."""
    return {METHODS: methods(), INDEX: index(), **{page_path(name): page(name) for name in ANALYSES}}


if __name__ == "__main__":
    for written, text in outputs().items():
        written.write_text(text)
