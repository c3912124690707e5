"""Freezes what fastprof answers, and says what a change of the code changes in it. Run by hand.

    python tests/frozen_behaviour.py write build/frozen.gz              before: some ten minutes on two cores
    python tests/frozen_behaviour.py compare build/frozen.gz            after, in this checkout or another
    python tests/frozen_behaviour.py compare build/frozen.gz --quick    a few captures, one minute
    python tests/frozen_behaviour.py compare FILE --only 'demo/pod::overview/table'
    python tests/frozen_behaviour.py show 'demo/pod::overview/table/steps/step'

Each value has a key, ``CAPTURE::SUBJECT/KIND/NAME``; short values are kept as they are, others as a hash:
``show`` prints the whole value in the checkout where it runs. Made captures are written beside FILE once, and read from
there by every comparison. Nothing depends on module paths, folders, times or versions, and an error is a value, too.
Only names that users have are used, so that the script outlives a change of the modules.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from frozen_answers import answers, as_text
from frozen_captures import QUICK, ROOT, Capture, captures, make
from frozen_costs import cost_table, costs

import fastprof

LONGEST = 100
"""Letters of a value that is kept as it is."""
EXAMPLES = 2
Values = dict[str, str]


def frozen(value: Any) -> str:
    """The value, or its hash and size."""
    if isinstance(value, str) and len(value) <= LONGEST:
        return value
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return f"#{hashlib.sha256(data).hexdigest()[:16]} {len(data)}"


def values_of(task: tuple[Capture, str | None]) -> tuple[str, Values]:
    capture, wanted = task
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FASTPROF_CACHE"] = f"{folder}/cache"
        return capture.name, {key: frozen(value) for key, value in answers(capture, Path(folder), wanted)}


def chosen(made: Path, only: str | None, quick: bool) -> tuple[list[Capture], str | None]:
    """The captures to read, and a pattern for keys."""
    name, _, key = (only or "").partition("::")
    listed = captures(shared_folder(), made)
    if quick:
        listed = [one for one in listed if one.name in QUICK]
    return [one for one in listed if re.search(name, one.name)], key or None


def shared_folder() -> Path | None:
    """The folder of shared captures: FASTPROF_SHARED, or the one that tests read, beside a checkout or its parents."""
    if named := os.environ.get("FASTPROF_SHARED"):
        return Path(named)
    return next((one / "shared" for one in ROOT.parents if (one / "shared" / "captures").is_dir()), None)


def all_values(listed: list[Capture], wanted: str | None) -> dict[str, Values]:
    found = {}
    # not ProcessPoolExecutor: with max_tasks_per_child it may wait for a process that it never starts
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=50) as pool:
        for done, (name, values) in enumerate(pool.imap_unordered(values_of, [(one, wanted) for one in listed]), 1):
            found[name] = values
            if done % 50 == 0:
                sys.stderr.write(f"{done} of {len(listed)} captures\n")
    return found


def made_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.made")


def write(args: argparse.Namespace) -> None:
    made = made_folder(args.file)
    args.file.parent.mkdir(parents=True, exist_ok=True)
    if not made.exists():
        unfinished = made.with_name(f"{made.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(made)
    listed, wanted = chosen(made, args.only, args.quick)
    document = {"values": all_values(listed, wanted), "costs": {} if args.only or args.quick else costs()}
    args.file.write_bytes(gzip.compress(json.dumps(document).encode(), 6, mtime=0))
    sys.stdout.write(
        f"{sum(map(len, document['values'].values())):,} values of {len(listed)} captures in {args.file}\n"
    )


def compare(args: argparse.Namespace) -> int:
    before = json.loads(gzip.decompress(args.file.read_bytes()))
    listed, wanted = chosen(made_folder(args.file), args.only, args.quick)
    after = all_values(listed, wanted)
    known = {one.name for one in listed}
    narrow = bool(args.only or args.quick)
    old = {name: values for name, values in before["values"].items() if name in known or not narrow}
    if wanted:
        old = {name: {k: v for k, v in values.items() if re.search(wanted, k)} for name, values in old.items()}
    differing = list(differences(old, after))
    count = sum(map(len, after.values()))
    lines = [*grouped(differing), f"{len(differing):,} of {count:,} values of {len(listed)} captures differ"]
    if before["costs"] and not narrow:
        lines += cost_table(before["costs"], costs())
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if differing else 0


def differences(old: Mapping[str, Values], new: Mapping[str, Values]) -> Iterator[tuple[str, str, str, str]]:
    """Capture, key, the value before and the value after."""
    for capture in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(capture, {}), new.get(capture, {})
        for key in [*before, *(key for key in after if key not in before)]:
            values = before.get(key, "(absent)"), after.get(key, "(absent)")
            if values[0] != values[1]:
                yield (capture, key, *values)


def grouped(differing: list[tuple[str, str, str, str]]) -> Iterator[str]:
    """A line for each subject and kind, with the captures and a few of the values."""
    groups = defaultdict(list)
    for one in differing:
        groups["/".join(one[1].split("/")[:2])].append(one)
    for group, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        by_capture = Counter(capture for capture, *_ in members)
        yield f"{group}: {len(members)} values of {len(by_capture)} captures"
        for capture, key, before, after in members[:EXAMPLES]:
            yield f"    {capture}::{key}\n        before  {before}\n        after   {after}"


def show(args: argparse.Namespace) -> int:
    name, _, key = args.key.partition("::")
    (capture,) = (one for one in captures(shared_folder(), made_folder(args.made)) if one.name == name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FASTPROF_CACHE"] = f"{folder}/cache"
        shown = [(each, as_text(value)) for each, value in answers(capture, Path(folder), f"^{re.escape(key)}(/|$)")]
    for each, text in shown:
        sys.stdout.write(f"== {each}\n{text}\n")
    return 0 if shown else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (write, compare):
        flags = verbs.add_parser(verb.__name__)
        flags.add_argument("file", type=Path)
        flags.add_argument("--only", metavar="PATTERN", help="captures, or CAPTURE::KEY, that regular expressions find")
        flags.add_argument("--quick", action="store_true", help="a few captures")
        flags.set_defaults(run=verb)
    flags = verbs.add_parser("show")
    flags.add_argument("key")
    flags.add_argument("--made", metavar="FILE", type=Path, default=ROOT / "build/frozen.gz", help="with made captures")
    flags.set_defaults(run=show)
    args = parser.parse_args()
    if not Path(fastprof.__file__).is_relative_to(ROOT):
        parser.error(f"fastprof is imported from {fastprof.__file__}: set PYTHONPATH to {ROOT}")
    return args.run(args) or 0


if __name__ == "__main__":
    sys.exit(main())
