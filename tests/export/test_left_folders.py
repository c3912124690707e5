"""Unfinished folders of processes that were killed are deleted by the next export to the same place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from exported import put_run

import fastprof
from fastprof.export import folders
from fastprof.export.new_files import make_hidden_folder

BEGINS = """
import sys, time
from pathlib import Path
from fastprof.export.new_files import make_hidden_folder
with make_hidden_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("unfinished")
    print(folder.name, flush=True)
    time.sleep(600)
"""


def test_only_folders_of_dead_processes_are_deleted(tmp_path: Path) -> None:
    run, place = put_run(tmp_path / "run"), tmp_path / "place"
    place.mkdir()
    similar = place / ".other.0123abcd.partial"
    named = place / ".out.notes.partial"
    for folder in (similar, named):
        folder.mkdir()
    children = []
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", BEGINS, place / "out"], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        children.append((child, place / child.stdout.readline().strip()))
    (dead, gone), (alive, held) = children
    try:
        dead.kill()
        dead.communicate()
        assert gone.is_dir() and held.is_dir()
        folders.write(fastprof.load(run), place / "out", tables=["hosts"])
        assert sorted(place.iterdir()) == sorted([held, similar, named, place / "out"])
    finally:
        alive.kill()
        alive.communicate()
    with make_hidden_folder(place / "out") as folder:
        assert sorted(place.iterdir()) == sorted([folder, similar, named, place / "out"])
