"""What fastprof answers about one capture, as values by key: what ``frozen_behaviour`` keeps and compares."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from frozen_captures import Capture

Answers = Iterator[tuple[str, Any]]
"""Keys, and texts, bytes or columns of Arrow."""

STEPS_FROM = ("markers", "loader", "modules", "annotations", "launches")
PARAMETERS = {"op_stats": {"limit": 3}, "memory_profile": {"limit": 5}, "op_profile": {"limit": 5}}
FULL = ("demo/", "ranks/", "runs/", "shared/run/", "made/clocks_of_36_hosts", "made/tpu_3", "made/gpu_3", "made/tpu_4")
"""Captures that are also read by selections, workers, single analyses and a server."""
SELDOM = ("exports", "pages", "full")
"""Answers that only these captures have; those of exports and pages a third of the others as well."""


def answers(capture: Capture, folder: Path, wanted: str | None = None) -> Answers:
    """All answers about a capture whose key ``wanted`` matches."""
    warnings.simplefilter("ignore")
    before = Path.cwd()
    asked = Asked(capture, folder)
    os.chdir(folder)
    try:
        for area, ask in AREAS.items():
            if (
                area in SELDOM
                and not capture.name.startswith(FULL)
                and (area == "full" or crc32(capture.name.encode()) % 3)
            ):
                continue
            try:
                for key, value in ask(asked):
                    if wanted is None or re.search(wanted, key):
                        yield key, asked.neutral(value)
            except Exception as error:  # noqa: BLE001  an error is an answer, too
                yield f"{area}/unanswered/{type(error).__name__}", asked.neutral(str(error))
    finally:
        os.chdir(before)


def as_text(value: Any) -> str:
    """A value for people; long bytes are cut."""
    return value if isinstance(value, str) else value[:100_000].decode("utf-8", "backslashreplace")


class Asked:
    """A capture in a folder of its own."""

    def __init__(self, capture: Capture, folder: Path) -> None:
        self.capture, self.folder = capture, folder
        (folder / "in").mkdir()
        self.paths = []
        for path in capture.paths:
            self.paths.append(f"in/{path.name}")
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / self.paths[-1])
        self.flags = ["--threads", "1", *(f"--on-error={value}" for value in capture.options.values())]

    def load(self, **options: Any) -> Any:
        import fastprof

        paths = self.paths if len(self.paths) > 1 else self.paths[0]
        return fastprof.load(paths, threads=1, **self.capture.options, **options)

    def neutral(self, value: Any) -> Any:
        """The value without the folder and the version."""
        import fastprof

        if isinstance(value, str):
            text = value.replace(f"{self.folder}/", "").replace(str(self.folder), "")
            return text.replace(f'"{fastprof.__version__}"', '"VERSION"').replace(
                f"fastprof {fastprof.__version__}", "fastprof VERSION"
            )
        if isinstance(value, bytes):
            return self.neutral(value.decode("latin-1")).encode("latin-1")
        return self.neutral(column_text(value))


def attempt(ask: Callable[[], Any]) -> Any:
    """The answer, or the error."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001  an error is an answer, too
        return f"{type(error).__name__}: {error}"


def column_text(column: Any) -> bytes:
    """Type, validity and values of a column, whatever its chunks, dictionary and offsets are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    column = pa.chunked_array(column.chunks, column.type).cast(kind) if kind != column.type else column
    head = f"{kind} {len(column)} {column.null_count}\n".encode()
    is_fixed = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if len(column) < 500 or not is_fixed:
        return head + "\n".join(map(repr, column.to_pylist())).encode("utf-8", "surrogatepass")
    values = pc.fill_null(column, pa.scalar(0, kind)).to_numpy()
    return head + column.is_null().to_numpy().tobytes() + values.tobytes()


def of_table(key: str, table: Any) -> Answers:
    if isinstance(table, str):
        yield key, table
        return
    if not table.num_rows:
        yield key, f"no rows: {', '.join(f'{field.name} {field.type}' for field in table.schema)}"
        return
    yield key, f"{table.num_rows} rows: {', '.join(table.column_names)}"
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield f"{key}/{name}", column


# ---- tables


def tables(asked: Asked) -> Answers:
    profile = attempt(asked.load)
    if isinstance(profile, str):
        yield "load", profile
        return
    yield "load/hosts", str(profile.host_names)
    for name in profile.tables:
        yield from of_table(f"tables/{name}", attempt(lambda name=name: profile.tables[name]))
    names = attempt(profile.stat_names)
    yield "tables/stat_names", str(names)
    yield from of_table("tables/event_table", attempt(lambda: profile.event_table(["event_id"], names)))
    yield from of_table("tables/event_summary", attempt(profile.event_summary))
    yield from of_table("tables/remarks", attempt(profile.remarks))
    yield "tables/page", attempt(profile._repr_html_)
    modules = attempt(lambda: profile.tables["hlo_modules"]["module"].to_pylist()[:2])
    for number, module in enumerate(modules if isinstance(modules, list) else []):
        for form in ("short-txt", "long-txt", "json"):
            for metadata in (False, True):
                key = f"program/{form}/{number}{' with metadata' * metadata}"
                yield key, attempt(lambda m=module, f=form, d=metadata: profile.hlo_text(m, f, metadata=d))


# ---- reports


def of_report(key: str, report: Any) -> Answers:
    if isinstance(report, str):
        yield f"{key}/error", report
        return
    for name, table in report.tables.items():
        yield from of_table(f"{key}/table/{name}", table)
    for name, figure in attempt(lambda: report.scalars.items()) if len(report.runs) == 1 else ():
        yield f"{key}/figure/{name}", f"{figure.value!r} {figure.unit} {figure.reason or ''}"
        yield f"{key}/definition/{name}", figure.definition
    for number, notice in enumerate(report.notices):
        yield f"{key}/notice/{number}", f"{notice.severity}: {notice.text}"
    for form in ("json", "text", "svg", "speedscope", "pprof"):
        ask = getattr(report, f"to_{form}")
        value = attempt(ask)
        yield f"{key}/{form}/all", gzip.decompress(value) if form == "pprof" and isinstance(value, bytes) else value
    yield f"{key}/text/wide", attempt(lambda: report.to_text(limit="all", wide=True))
    yield f"{key}/html/all", attempt(report._repr_html_)


def reports(asked: Asked) -> Answers:
    found = attempt(lambda: asked.load().reports())
    if isinstance(found, str):
        yield "reports/error", found
        return
    for name, report in found.items():
        yield from of_report(name, report)


def by_command(asked: Asked) -> Answers:
    """What verbs write, and what they say beside it."""
    for name, words in {
        "info": ["info", "--format", "json"], "info as text": ["info"], "events": ["events", "--format", "csv"],
        "list": ["events", "--list", "--limit", "200"], "programs": ["hlo", "--format", "json"],
    }.items():  # fmt: skip
        yield f"verb/{name}/all", command(asked, words)
    said = command(asked, ["report", "--format", "xprof", "-o", "xprof.json"])
    document = attempt(lambda: json.loads(Path("xprof.json").read_text()))
    yield "xprof/verb/said", said
    for name, page in document.items() if isinstance(document, dict) else ():
        yield f"{name}/xprof/all", json.dumps(page, sort_keys=True)
    yield "csv/verb/said", command(asked, ["report", "--format", "csv", "-o", "csv"])
    for path in sorted(Path("csv").glob("*")):
        yield f"{path.name.partition('.')[0]}/csv/{path.name}", path.read_bytes()
    yield "convert/verb/said", command(asked, ["convert", "-o", "converted"])
    for path in sorted(path for path in Path("converted").rglob("*") if path.is_file()):
        yield f"convert/file/{path.name}", path.read_bytes()


def command(asked: Asked, words: list[str]) -> str:
    """Exit code, standard output and standard error of a verb, in this process."""
    from fastprof.cli.main import main as run

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = attempt(lambda: run([words[0], *asked.paths, *words[1:], *asked.flags]))
    return f"{code}\n{out.buffer.getvalue().decode()}\n{err.getvalue()}"


# ---- files


def traces(asked: Asked) -> Answers:
    profile = attempt(asked.load)
    if isinstance(profile, str):
        return
    for form in ("chrome", "perfetto", "xprof", "xprof-streaming"):
        for derived in (True, False) if form in ("chrome", "perfetto") else (True,):
            key = f"trace/{form}/{'all' if derived else 'raw'}"
            said = attempt(lambda f=form, d=derived: profile.to_trace("out", format=f, derived=d, force=True))
            yield key, said or Path("out").read_bytes()


def exports(asked: Asked) -> Answers:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fastprof.export import write

    profile = attempt(asked.load)
    if isinstance(profile, str):
        return
    for form in ("parquet", "arrow", "csv"):
        said = attempt(lambda form=form: write(profile, form, format=form, layout="paths"))
        yield f"export/{form}/said", str(said)
        for path in sorted(path for path in Path(form).rglob(f"*.{form}")):
            key = f"export/{form}/{path.relative_to(form).as_posix()}"
            if form == "csv":
                yield key, path.read_bytes()
            else:
                read = pq.ParquetFile(path).read() if form == "parquet" else pa.ipc.open_file(path).read_all()
                yield key, b"\n".join(column_text(column) for column in read.columns)


def pages(asked: Asked) -> Answers:
    """The data of a saved report, without its page."""
    yield "page/verb/said", command(asked, ["report", "--html", "report.html"])
    text = Path("report.html").read_text() if Path("report.html").exists() else ""
    for kind, name, data in re.findall(
        r'<script type="application/(\w+)" id="data-([^"]+)">(.*?)</script>', text, re.S
    ):
        content = gzip.decompress(base64.b64decode(data)) if kind == "gzip" else data.encode()
        yield f"page/data/{name}", re.sub(rb'"key":"[^"]*"', b"", content)


def views(asked: Asked) -> Answers:
    profile = attempt(asked.load)
    if isinstance(profile, str):
        return
    columns = ["micros", "bytes", "params", "float_ops", "occurrence"]
    for name in ("scope", "graph", "op", "code"):
        options = {"select": columns, "max_depth": 100, "order_by": "micros"}
        for variant, given in {"usual": {}, "full": options}.items():
            view = attempt(lambda n=name, g=given: profile.tfprof(n, **g))
            if isinstance(view, str):
                yield f"tfprof/{name}/{variant}", view
                continue
            yield from of_table(f"tfprof/{name}/{variant} table", attempt(lambda v=view: v.table))
            yield from of_table(f"tfprof/{name}/{variant} nodes", attempt(lambda v=view: v.nodes))
            yield f"tfprof/{name}/{variant} text", attempt(lambda v=view: v.text)
            yield f"tfprof/{name}/{variant} unknown", str(dict(view.unknown))
            yield f"tfprof/{name}/{variant} complaints", attempt(lambda v=view: str(v.complaints))
            yield f"tfprof/{name}/{variant} timeline", attempt(view.timeline)
    yield "tfprof/advice/all", attempt(lambda: profile.tfprof_advice().text)


# ---- fewer captures


def in_full(asked: Asked) -> Answers:
    """Each analysis alone, parameters, selections, processes, and what a server answers."""
    from frozen_server import served

    profile = asked.load()
    yield "verb/report/all", command(asked, ["report"])
    for name in profile.reports():
        alone = attempt(lambda name=name: asked.load().report(name))
        yield f"{name}/alone/json", attempt(lambda r=alone: r.to_json()) if not isinstance(alone, str) else alone
        page = attempt(lambda r=alone: r.to_xprof()) if len(profile.runs) == 1 else ""
        yield f"{name}/alone/xprof", page
    for source in STEPS_FROM:
        found = attempt(lambda source=source: asked.load().reports(steps_from=source))
        yield from _documents(f"steps from {source}", found)
    for name, given in PARAMETERS.items():
        yield from _documents(f"parameters {given}", attempt(lambda n=name, g=given: asked.load().reports(n, **g)))
    for selection in ({"steps": (1, 3)}, {"time_ps": (0, 5 * 10**9)}, {"planes": "(?i)host"}, {"hosts": None}):
        narrow = attempt(lambda s=selection: asked.load().select(**s))
        found = narrow if isinstance(narrow, str) else attempt(narrow.reports)
        yield from _documents(f"selection {selection}", found)
        if not isinstance(narrow, str):
            yield from of_table(f"selection {selection}/events", attempt(lambda n=narrow: n.events))
    yield from _by_workers(asked)
    yield from served(asked.paths, asked.flags)


def _documents(subject: str, found: Any) -> Answers:
    if isinstance(found, str):
        yield f"{subject}/error", found
        return
    for name, report in found.items():
        yield f"{subject}/json/{name}", attempt(report.to_json)


def _by_workers(asked: Asked) -> Answers:
    from fastprof.engines import processes

    yield from _documents("by workers", attempt(lambda: asked.load(executor=processes(2)).reports()))


AREAS: Mapping[str, Callable[[Asked], Answers]] = {
    "tables": tables, "reports": reports, "verbs": by_command, "traces": traces, "exports": exports, "pages": pages,
    "views": views, "full": in_full,
}  # fmt: skip
