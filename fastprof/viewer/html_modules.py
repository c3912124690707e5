"""The page's own modules and styles as texts that stand in a document: no file is beside it.

Modules import each other by paths. In a document they are data: addresses, which have no folder, so each is given a
name, ``fastprof/pages/overview.js``, that the document's import map leads to its text.
"""

from __future__ import annotations

import posixpath
import re
from base64 import b64encode
from pathlib import Path

from fastprof.wording.patterns import compile_late

STATIC = Path(__file__).parent / "static"
ENTRY = "saved.js"
LEFT_OUT = ("pages/hlo.js", "pages/tfprof.js")
"""What nothing leads to without a server."""
_IMPORT = compile_late(r"""(\bfrom\s+|\bimport\s+|\bimport\(\s*)"(\.{1,2}/[^"]+\.js)\"""")
_STYLE = compile_late(r'<link rel="stylesheet" href="/static/([^"]+)">')


def get_module_name(path: str) -> str:
    """What the module of a path below static/ is called in a document."""
    return f"fastprof/{path}"


def collect_modules(entry: str = ENTRY) -> dict[str, str]:
    """The text of the module and of all that it leads to, by name; imports are by name."""
    modules: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if get_module_name(path) in modules:
            continue
        folder = posixpath.dirname(path)

        def named(match: re.Match[str], folder: str = folder) -> str:
            reached = posixpath.normpath(posixpath.join(folder, match[2]))
            if reached not in LEFT_OUT:
                waiting.append(reached)
            return f'{match[1]}"{get_module_name(reached)}"'

        modules[get_module_name(path)] = _IMPORT.sub(named, (STATIC / path).read_text("utf-8"))
    return modules


def make_import_map() -> dict[str, str]:
    """Data addresses of all modules by name."""
    return {
        name: make_data_address(text.encode(), "text/javascript") for name, text in sorted(collect_modules().items())
    }


def make_data_address(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{b64encode(content).decode('ascii')}"


def join_styles() -> str:
    """All styles that the page of the server has, in its order."""
    page = (STATIC / "index.html").read_text("utf-8")
    return "\n".join((STATIC / path).read_text("utf-8") for path in _STYLE.findall(page))
