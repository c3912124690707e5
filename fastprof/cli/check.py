"""Check a run against limits, for pipelines: exit code 0 passed, 1 failed, 7 cannot judge.

A condition describes a run that fails: 'step_time_p50 > +5%' (a change from --against), 'peak_memory > 14GiB' (a
limit). Conditions can also be in fastprof.toml: [check], fail-if = [...], against = "...".
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any, Final

from fastprof.cli import analysis, arguments, output
from fastprof.errors import OutputError, UsageError
from fastprof.render.table_forms import FORMATS

NAME: Final = "check"
FAILED_CODE, UNKNOWN_CODE = 1, 7
CONFIGURATION: Final = "fastprof.toml"
FORMS: Final = ("junit", "sarif", "markdown", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="NEW", nargs=1, help="run to check: capture file, run or log directory, or glob"
    )
    arguments.add_reading(parser)
    group = parser.add_argument_group("check")
    group.add_argument(
        "--fail-if", metavar="CONDITION", action="append", help="FIGURE > LIMIT or FIGURE < LIMIT; repeatable"
    )
    group.add_argument(
        "--against", metavar="PATH", help="earlier run, log directory of earlier runs, or saved baseline"
    )
    group.add_argument("--save-baseline", metavar="FILE", help="write the figures of NEW to FILE.baseline.json")
    arguments.add_output(parser, "conditions", (*FORMATS, *FORMS), usual="all")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    form = output.choose_format(args.format, args.output, FORMS)
    given = read_configuration(Path(CONFIGURATION))
    conditions = args.fail_if or given.get("fail-if", [])
    if not conditions and args.save_baseline is None:
        raise UsageError(f"no condition: give --fail-if 'step_time > +5%', or fail-if in {CONFIGURATION}")
    from fastprof.profile.gate import BASELINE_SUFFIX, check

    baseline = args.save_baseline
    if baseline is not None and not baseline.endswith(BASELINE_SUFFIX):
        baseline += BASELINE_SUFFIX
    if baseline is not None and not args.force and Path(baseline).exists():
        raise OutputError("already exists; use --force to overwrite it", path=baseline)
    against = args.against or given.get("against")
    with output.open_sink(args, form) as sink:
        report = check(
            args.session[0], conditions, against=against, save_baseline=baseline, **arguments.get_reading(args)
        ).answer
        args.talk.progress.clear()
        if form in FORMS:
            from fastprof.render import gate_forms

            sink.send([gate_forms.FORMS[NAME][form](report).encode(sink.look.encoding, "backslashreplace")])
        elif form == output.BRIEF:
            analysis.send_brief(sink, {"": {NAME: report}}, args)
        elif form in ("csv", "arrow"):
            analysis.send_table(sink, report, analysis.TableChoice("conditions"), form, args)
        else:
            sink.send(analysis.write_run({NAME: report}, form, sink.look, args.limit, several=False))
    output.note_written(args)
    if baseline is not None:
        args.talk.note(f"wrote {baseline}")
    return {"failed": FAILED_CODE, "cannot judge": UNKNOWN_CODE}.get(str(report.scalars["verdict"].value), 0)


def read_configuration(path: Path) -> dict[str, Any]:
    """Return the table [check] of a configuration file, or nothing without one. UsageError: it is not valid."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("check", {})
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: values are nested too deeply") from error
    conditions = table.get("fail-if", []) if isinstance(table, dict) else None
    if not isinstance(conditions, list) or not all(isinstance(text, str) for text in conditions):
        raise UsageError(f"{path}: fail-if in [check] is a list of conditions")
    if not isinstance(table.get("against", ""), str):
        raise UsageError(f"{path}: against in [check] is a path")
    unknown = set(table) - {"fail-if", "against"}
    if unknown:
        raise UsageError(f"{path}: [check] has fail-if and against, not {min(unknown)}")
    return dict(table)
