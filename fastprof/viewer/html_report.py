"""One file that holds a session's reports and a timeline of it, to be opened from disk: nothing is beside it, and it
asks no server for anything.

The page is that of the server, with its modules and styles in the document, and data in place of requests. Data are in
script elements that no browser runs: as JSON, in which no ``<`` is left, or as gzip in base64. A policy in the document
forbids all requests.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import threading
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastprof._version import __version__
from fastprof.analyses.runner import explain_empty
from fastprof.render import report_json
from fastprof.viewer.analysis_list import explain_empty_pages, list_analyses
from fastprof.wording.patterns import compile_late
from fastprof.wording.screen import escape_text

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport
    from fastprof.profile.profile import Profile
    from fastprof.viewer.cache_folder import CacheFolder
    from fastprof.viewer.timeline_document import SavedTimeline

MOST_ROWS: Final = 10_000
MOST_LETTERS: Final = 4_000
MOST_SLICES: Final = 400_000
_PLAIN_BYTES: Final = 32_768
_LEVEL: Final = 6
_GZIP: Final = 31
"""Window bits of zlib that make a gzip file, without a time."""
_PIECE: Final = 1 << 20


def write_html_report(
    profile: Profile,
    reports: dict[str, AnalysisReport],
    *,
    title: str,
    hosts: list[str] | None = None,
    rows: int | None = MOST_ROWS,
    cache: CacheFolder | None = None,
) -> Iterator[bytes]:
    """Yield the document. ``profile``: the session, all of it; ``hosts``: those on the timeline, None for all;
    ``rows``: the most of each table, None for all. ``reports`` is emptied, so that the timeline has their memory."""
    shown = hosts or list(profile.table_set.session.hosts)
    for name in [name for name, report in reports.items() if report.inapplicable is not None]:
        del reports[name]
    yield _write_head(title).encode("utf-8")
    pages = ["timeline", *reports]
    analyses = [{**analyse, "params": []} for analyse in list_analyses(reports)]
    declared = explain_empty_pages(profile.table_set.session)
    reasons = {name: explain_empty(report) or declared.get(name) for name, report in reports.items()}
    empty = {name: reason for name, reason in reasons.items() if reason is not None}
    yield from _write_block("analyses", {"analyses": analyses, "pages": pages, "empty": empty})
    part = report_json.ReportPart(rows=rows, letters=MOST_LETTERS)
    for name in pages[1:]:
        yield from _write_json_block(f"report-{name}", report_json.write_columns(reports.pop(name), part))
    timeline = _make_timeline(profile, shown, cache)
    for name, document in timeline.documents.items():
        yield from _write_block(name, document)
    for level, tile in timeline.tiles.items():
        yield from _write_packed_block(f"tiles-{level}", (tile,))
    note = "A saved report."
    if not timeline.exact:
        note = "A saved report: at high zoom, its timeline still shows merged events."
    runs = [{"name": title, "hosts": shown, "newest": True, "open": True, "problem": None}]  # as a server lists them
    about = {"runs": runs, "directory": False, "title": title, "fastprof": __version__, "note": note}
    yield from _write_block("session", about)
    yield _END.encode("utf-8")


def _make_timeline(profile: Profile, hosts: list[str], cache: CacheFolder | None) -> SavedTimeline:
    from fastprof.viewer.snapshot import FAILED
    from fastprof.viewer.timeline_document import make_saved_timeline
    from fastprof.viewer.viewed_run import ViewedRun, give_back_memory

    give_back_memory()  # of the reports
    run = ViewedRun(profile, cache, threading.Event())
    for host in run.hosts:
        if host.name not in hosts:
            host.state = FAILED
    run.build()
    return make_saved_timeline(run, hosts, MOST_SLICES)


# ---- modules and styles as strings that stand in a document

# Modules import each other by paths. In a document they are data: addresses, which have no folder, so each is given a
# name, ``fastprof/pages/overview.js``, that the document's import map leads to its text.

_STATIC = Path(__file__).parent / "static"
ENTRY = "saved.js"
LEFT_OUT = ("pages/compare.js", "pages/hlo.js", "pages/query.js", "pages/tfprof.js")
"""Pages that nothing leads to without a server."""
_IMPORT = compile_late(r"""(\bfrom\s+|\bimport\s+|\bimport\(\s*)"(\.{1,2}/[^"]+\.js)\"""")
_STYLE = compile_late(r'<link rel="stylesheet" href="/static/([^"]+)">')


def get_module_name(path: str) -> str:
    """Return the name in a document of the module at a path below static/."""
    return f"fastprof/{path}"


def collect_modules(entry: str = ENTRY) -> dict[str, str]:
    """Return the text of the module and of all that it leads to, by name; imports are by name."""
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

        modules[get_module_name(path)] = _IMPORT.sub(named, (_STATIC / path).read_text("utf-8"))
    return modules


def make_import_map() -> dict[str, str]:
    """Return data addresses of all modules by name."""
    return {
        name: f"data:text/javascript;base64,{b64encode(text.encode()).decode('ascii')}"
        for name, text in sorted(collect_modules().items())
    }


def join_styles() -> str:
    """Join all styles that the page of the server has, in its order."""
    page = (_STATIC / "index.html").read_text("utf-8")
    return "\n".join((_STATIC / path).read_text("utf-8") for path in _STYLE.findall(page))


# ---- the document

_ENTRY: Final = f'import "{get_module_name(ENTRY)}";'
_END: Final = (
    "</head>\n<body>\n"
    "<noscript>This report needs JavaScript, which this browser does not run.</noscript>\n"
    f'<script type="module">{_ENTRY}</script>\n</body>\n</html>\n'
)


def _write_head(title: str) -> str:
    modules = json.dumps({"imports": make_import_map()}, separators=(",", ":"))
    # Nothing is fetched, and only these two scripts run, with the modules that they lead to.
    scripts = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (modules, _ENTRY))
    policy = (
        f"default-src 'none'; script-src {scripts} data: blob:; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="fastprof {__version__}">\n'
        f"<title>{html.escape(escape_text(title))} · fastprof</title>\n"
        f"<style>\n{join_styles()}</style>\n"
        f'<script type="importmap">{modules}</script>\n'
    )


def _write_block(name: str, document: Any) -> Iterable[bytes]:
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    return _write_json_block(name, (text,))


def _write_json_block(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Write JSON as it is if it is short, for readers of the file, else compressed."""
    document, rest = b"", iter(chunks)
    for chunk in rest:
        document += chunk
        if len(document) > _PLAIN_BYTES:
            yield from _write_packed_block(name, chain((document,), rest))
            return
    escaped = document.replace(b"<", b"\\u003c")  # only texts have it: no end of the element is among them
    yield from (b'<script type="application/json" id="data-%s">' % name.encode("ascii"), escaped, b"</script>\n")


def _write_packed_block(name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield b'<script type="application/gzip" id="data-%s">' % name.encode("ascii")
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    rest = b""
    for chunk in chunks:
        for first in range(0, len(chunk), _PIECE):
            rest += packer.compress(memoryview(chunk)[first : first + _PIECE])
            whole = len(rest) // 3 * 3  # base64 of other lengths is padded
            yield b64encode(rest[:whole])
            rest = rest[whole:]
    yield b64encode(rest + packer.flush())
    yield b"</script>\n"
