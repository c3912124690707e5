"""Install the skill that teaches an assistant the verbs of fastprof, or print it.

The skill is one Markdown file, SKILL.md, from the package: no network is needed. Assistants find it in the folder
.claude/skills of a project, or in the folder that they name.
"""

from __future__ import annotations

import argparse
import sys
from importlib import resources
from pathlib import Path
from typing import Final

from fastprof.cli import arguments
from fastprof.export.new_files import open_new_file, wrap_output_errors

FOLDER: Final = ".claude/skills/fastprof"
NAME: Final = "SKILL.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "show"), help="write the skill to a folder, or print it")
    parser.add_argument("folder", metavar="DIR", nargs="?", default=FOLDER, help=f"folder to write (default: {FOLDER})")
    group = parser.add_argument_group("output")
    group.add_argument("--force", action="store_true", help=f"overwrite an existing {NAME}")
    arguments.add_talk(parser)
    parser.set_defaults(session=(), on_error="raise", run=None)


def run(args: argparse.Namespace) -> None:
    text = (resources.files("fastprof.cli.assistants") / NAME).read_bytes()
    if args.action == "show":
        sys.stdout.buffer.write(text)
        return
    folder = Path(args.folder)
    with wrap_output_errors(args.folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    with open_new_file(str(path), args.force) as write:
        write(text)
    args.talk.note(f"Wrote {path}")
