"""The tools of ``fastprof mcp``: each answers one kind of question with a brief document, as ``--brief`` does."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.cli.analysis import parse_table_choice
from fastprof.cli.assistants.warm_sessions import WarmSessions
from fastprof.cli.summary import FIRST_REPORTS, summarise_run
from fastprof.errors import FastprofError, UsageError
from fastprof.inputs.paths import show_path
from fastprof.profile import sql
from fastprof.profile.event_page import list_events, parse_order, sort_rows
from fastprof.render import brief
from fastprof.wording import amounts
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp.types import CallToolResult

    from fastprof.analyses.contract import AnalysisReport
    from fastprof.profile.profile import Profile

INSTRUCTIONS: Final = """\
Answers questions about profiles (captures) of TensorFlow, JAX and PyTorch programs. Each answer is a JSON document of
at most 4,096 bytes: status (ok, cannot_answer, error), answer, figures, tables with totals and first rows, and in
`more` the calls that show more; `limit` (10, at most 50) and `offset` choose the rows. Times are picoseconds (_ps);
shares go from 0 to 1. Start with `sessions`, then `diagnose` a session. Use `report` for one analysis, `table` for SQL,
`events` for single events, `program` for compiled programs, `compare` for two runs, `check` for limits. Keys without
content are left out. A missing figure is unknown, not zero: `unknown` says why. Read `caveats`."""
_EVENT_COLUMNS: Final = ("host", "plane", "line", "name", "start_ps", "duration_ps")
_MOST_NUMBER: Final = 2**31 - 1
Document = brief.Document


class Tools:
    """The tools, by name; their docstrings and signatures are what assistants see. ``tool``, ``given``: the tool that
    is asked, and its arguments, which calls that show more repeat."""

    def __init__(self, sessions: WarmSessions, tool: str, given: Mapping[str, Any]) -> None:
        self._sessions = sessions
        self._tool = tool
        self._given = given

    def sessions(self, offset: int = 0, limit: int = 10) -> Document:
        """List the runs that can be asked about, newest first: session and run are the arguments of other tools."""
        rows = self._sessions.list_runs()
        table = pa.table({
            "session": pa.array([show_path(folder) for folder, _ in rows], pa.string()),
            "run": pa.array([run and run.name for _, run in rows], pa.string()),
            "host_count": pa.array([None if run is None else len(run.hosts) for _, run in rows], pa.int64()),
        })  # fmt: skip
        question = self._start("sessions", limit)
        return brief.summarise_table("runs", table, question, len(rows), first_row=offset)

    def diagnose(self, session: str, run: str | None = None) -> Document:
        """Say what costs the time: main figures, and the findings with cost, place, evidence and advice.

        The evidence of a finding names a report and its table: `report(session, "roofline", table="ops?bound_by=HBM")`.
        """
        question, profile = self._ask("summary", session, run)
        question = question._replace(given={key: self._given[key] for key in ("session", "run") if key in self._given})
        runs = profile.by_job.runs
        documents = {
            name: functools.partial(summarise_run, of_run.answers(FIRST_REPORTS, {}, "json"), question)
            for name, of_run in runs.items()
        }
        return _join(documents)

    def report(
        self,
        session: str,
        name: str,
        run: str | None = None,
        table: str | None = None,
        host: str | None = None,
        steps: str | None = None,
        parameters: dict[str, Any] | None = None,
        columns: bool = False,
        offset: int = 0,
        limit: int = 10,
    ) -> Document:
        """Return an analysis: its answer, figures and first rows of its tables.

        name: overview, diagnosis, steps, gaps, input_pipeline, tf_data, python_time, op_stats, op_profile, hlo_stats,
        roofline, kernel_stats, streams, critical_path, hardware_units, communication, memory_profile, memory_viewer,
        annotations, inference or pod_viewer. table: only this table, or rows of it: `ops?bound_by=HBM`; columns=true
        lists the tables and their columns instead. steps: `3:5` or `3`. parameters: of this analysis by name; few have
        any, and the error for an unknown one lists those that there are.
        """
        question, profile = self._ask(name.replace("_", "-"), session, run, limit)
        if host is not None or steps is not None:
            profile = profile.select(hosts=host, steps=None if steps is None else amounts.parse_step_range(steps))
        choice = None if table is None else parse_table_choice(table)

        def summarise(of_run: Profile, most: int = brief.MOST_BYTES) -> Document:
            answer = of_run.report(name.replace("-", "_"), **(parameters or {})).answer
            if columns:
                chosen = choice.name if choice is not None and choice.name in answer.tables else None
                return brief.summarise_columns(answer, question, chosen)
            return _show_table(answer, question, most, table, offset)

        return _join({run: functools.partial(summarise, of_run) for run, of_run in profile.by_job.runs.items()})

    def events(
        self,
        session: str,
        run: str | None = None,
        name: str | None = None,
        plane: str | None = None,
        line: str | None = None,
        host: str | None = None,
        time: str | None = None,
        by_name: bool = True,
        sort: str | None = None,
        offset: int = 0,
        limit: int = 10,
        min_duration: str | None = None,
    ) -> Document:
        """Return events summed by name with percentiles, or single events with by_name=false.

        name, plane, line: regular expressions. time: `1.5s:2s`, from the start of the host. sort: a column, largest
        first, or `COLUMN:asc`; usually self_ps by name, duration_ps of single events. min_duration: `10us`, of single
        events.
        """
        question, profile = self._ask("events", session, run, limit)
        start, _, end = (time or ":").partition(":")
        window = tuple(amounts.parse_time(bound) if bound else None for bound in (start, end))
        chosen: Any = {"hosts": host, "planes": plane, "lines": line, "names": name}
        chosen |= {} if time is None else {"time_ps": window}
        profile = profile.select(**{key: value for key, value in chosen.items() if value is not None})
        if by_name:
            sums = profile.event_summary((50, 90, 99))
            sums = sums if sort is None else sort_rows(sums, *parse_order(sort, sums.column_names))
            return brief.summarise_table("event_summary", sums, question, sums.num_rows, first_row=offset)
        least = None if min_duration is None else amounts.parse_duration(min_duration)
        most = offset + question.limit
        page = list_events(
            profile, columns=_EVENT_COLUMNS, sort=sort or "duration_ps", limit=most, min_duration_ps=least
        )
        return brief.summarise_table("events", page.rows, question, page.total, first_row=offset)

    def compare(
        self, base: str, new: str, base_run: str | None = None, new_run: str | None = None, table: str | None = None,
        offset: int = 0, limit: int = 10
    ) -> Document:  # fmt: skip
        """Compare two runs: is the mean step slower, by how much, with which certainty, and what changed.

        base, new: sessions; base_run, new_run: runs of them. table: changes, ops, categories, steps, environment, ….
        """
        from fastprof.profile.comparison import compare

        sides = [self._sessions.open(session, run) for session, run in ((base, base_run), (new, new_run))]
        answer = compare(*sides).answer
        question = self._start("compare", limit)._replace(paths=(base, new))
        return _show_table(answer, question, brief.MOST_BYTES, table, offset)

    def check(
        self, session: str, fail_if: list[str], against: str | None = None, run: str | None = None,
        table: str | None = None, offset: int = 0, limit: int = 10
    ) -> Document:  # fmt: skip
        """Check a run against conditions that describe a bad run: `step_time_p50 > +5%`, `peak_memory > 14GiB`.

        against: an earlier session, or a log directory of earlier runs, for conditions with a sign.
        """
        from fastprof.profile.gate import check

        question, profile = self._ask("check", session, run, limit)
        place = None if against is None else self._sessions.confine_all(against)
        return _show_table(check(profile, fail_if, against=place).answer, question, brief.MOST_BYTES, table, offset)

    def table(self, session: str, query: str, run: str | None = None, offset: int = 0, limit: int = 10) -> Document:
        """Answer a SQL query (DuckDB) over the tables of a session: events, lines, planes, hosts, steps.steps,
        op_stats.device_ops, hlo_instructions, …. Read-only. `show tables` lists them, `describe events` their columns.
        """
        question, profile = self._ask("sql", session, run, limit)
        rows = sql.collect_table(sql.query_profile(profile, query, is_confined=True), sql.MEMORY)
        why = [] if rows.num_rows else sql.explain_no_rows(profile, query)
        return brief.summarise_table("rows", rows, question, rows.num_rows, first_row=offset, caveats=why)

    def program(
        self, session: str, run: str | None = None, module: str | None = None, graph: str | None = None,
        instruction: str | None = None, to: str | None = None, direction: str = "both", follow_calls: bool = False,
        width: int = 2, opcode: str | None = None, offset: int = 0, limit: int = 10
    ) -> Document:  # fmt: skip
        """List compiled programs; with module the instructions of one, or its graph.

        graph: walk (what the instruction needs, and what needs it, up to width uses away), path (the shortest chain
        from instruction to `to`), calls (computations as a tree), blockers (of fusion, with reasons), opcodes.
        direction: operands, users or both. opcode: only instructions of this opcode, such as fusion or all-reduce.
        """
        from fastprof.hlo.program_graph import ProgramGraph
        from fastprof.tables.program_choice import NO_PROGRAMS, choose_program

        question, profile = self._ask("hlo", session, run, limit)
        if module is None:
            programs = profile.tables["hlo_modules"]
            return brief.summarise_table(
                "hlo_modules", programs, question, programs.num_rows, first_row=offset, absent=NO_PROGRAMS
            )
        chosen = choose_program(profile.table_set, module)
        kind = graph or ("walk" if instruction is not None else "instructions")
        if kind in ("walk", "path") and (instruction is None or (kind == "path" and to is None)):
            raise UsageError(f"the graph {kind} needs instruction{' and to' if kind == 'path' else ''}")
        of_program = ProgramGraph(chosen.module)
        tables: dict[str, Callable[[], pa.Table]] = {
            "instructions": lambda: chosen.instructions(profile.table_set.session.log),
            "walk": lambda: of_program.walk(
                str(instruction), direction=direction, width=width, follow_calls=follow_calls
            ),
            "path": lambda: of_program.find_path(str(instruction), str(to)),
            "calls": of_program.list_calls,
            "blockers": of_program.list_blockers,
            "opcodes": of_program.count_opcodes,
        }
        if kind not in tables:
            raise UsageError(f"no graph {kind!r}; there are: {', '.join(tables)}")
        table = tables[kind]()
        if opcode is not None:
            table = table.filter(pc.equal(table["opcode"].cast(pa.string()), opcode))
        return brief.summarise_table(f"hlo_{kind}", table, question, table.num_rows, first_row=offset)

    def _start(self, verb: str, limit: int) -> brief.Question:
        """Return the question of this tool. UsageError: no such row."""
        if self._given.get("offset", 0) < 0 or limit < 1:
            raise UsageError("offset is 0 or more, and limit 1 or more")
        return brief.Question(verb, limit=min(limit, brief.LARGEST_LIMIT), tool=self._tool, given=self._given)

    def _ask(
        self, verb: str, session: str, run: str | None, limit: int = brief.MOST_ROWS
    ) -> tuple[brief.Question, Profile]:
        from fastprof.cli import arguments

        profile = self._sessions.open(session, run)
        remarks = [row["example"] for rows in arguments.list_remarks(profile).values() for row in rows]
        hosts = sum(len(of_run.hosts) for of_run in profile.runs.values())
        question = self._start(verb, limit)._replace(paths=(session,), run=profile.run, hosts=hosts, remarks=remarks)
        return question._replace(files=len(profile.sources)), profile


def _show_table(answer: AnalysisReport, question: brief.Question, most: int, table: str | None, first: int) -> Document:
    """Return the document of a report, or of one of its tables. UsageError: no such table."""
    if table is None:
        return brief.summarise_report(answer, question, most, first_row=first)
    choice = parse_table_choice(table)
    if choice.name not in answer.tables:
        known = ", ".join(answer.tables) + suggest_name(choice.name, answer.tables)
        raise UsageError(f"{answer.analysis} has no table {choice.name!r}; there are: {known}")
    rows = {choice.name: choice.rows_of(answer.tables[choice.name])}
    return brief.summarise_report(answer, question, most, tables=rows, first_row=first, choice=table)


def _join(documents: Mapping[str, Callable[..., Document]]) -> Document:
    """Return the document of the only run, or of several."""
    if len(documents) == 1:
        return next(iter(documents.values()))()
    return brief.summarise_several(documents, "runs")


def make_server(sessions: WarmSessions) -> MCPServer:
    """Return the server with all tools."""
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    from fastprof._version import __version__

    server: MCPServer = MCPServer("fastprof", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    marks = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    for name in ("sessions", "diagnose", "report", "table", "events", "program", "compare", "check"):
        server.add_tool(_wrap_tool(sessions, name), name=name, annotations=marks, structured_output=True)
    return server


def _wrap_tool(sessions: WarmSessions, name: str) -> Callable[..., CallToolResult]:
    """Return the tool with its document as structured content, and errors as documents."""
    from mcp.types import CallToolResult, TextContent

    described = getattr(Tools(sessions, name, {}), name)
    usual = {key: parameter.default for key, parameter in inspect.signature(described).parameters.items()}

    @functools.wraps(described)
    def answer(**given: Any) -> CallToolResult:
        chosen = {key: value for key, value in given.items() if value != usual[key]}
        try:
            for number in ("offset", "limit", "width"):
                if not 0 <= given.get(number, 0) <= _MOST_NUMBER:
                    raise UsageError(f"{number} is an integer from 0 to {_MOST_NUMBER:,}")
            document = getattr(Tools(sessions, name, chosen), name)(**given)
        except (FastprofError, ValueError, OSError) as error:
            document = brief.summarise_error(str(error), [], name)
        except Exception as error:  # noqa: BLE001  assistants get a document, whatever happens
            document = brief.summarise_error(f"internal error: {type(error).__name__}: {error}", [], name)
        text = next(iter(brief.write_document(document))).decode("ascii").rstrip()
        return CallToolResult(
            content=[TextContent(type="text", text=text)],
            structured_content=json.loads(text),
            is_error=document["status"] == "error",
        )

    return answer
