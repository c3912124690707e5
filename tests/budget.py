"""Counts what the package weighs and how it is written; tests/budget.toml has the numbers that may only fall, or rise.

    python tests/budget.py            what is above its budget or out of date
    python tests/budget.py --write    lower the budget to what is there
    python tests/budget.py --moved    the same after code moved between rooms: rooms may grow, no total does

To raise a number, add an entry to ``raised`` in budget.toml: the feature, and by how much it raises which rooms.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import rooms

BUDGET = Path(__file__).with_name("budget.toml")
FIELDS = ("lines", "modules", "functions", "imports")
HOME_OF_IDIOMS = "fastprof.schema.columns"
LONGEST_FUNCTION, SMALL_FUNCTION = 80, 6
STALE_SHARE, STALE_COUNT = 0.02, 10
"""A budget is out of date if it is further above the count than both."""
PREPOSITIONS = frozenset({
    "about", "above", "across", "after", "against", "along", "among", "around", "as", "at", "before", "below",
    "beneath", "beside", "between", "beyond", "by", "during", "for", "from", "in", "into", "of", "off", "on", "onto",
    "out", "outside", "over", "since", "than", "through", "to", "toward", "towards", "under", "until", "upon", "with",
    "within", "without", "those",
})  # fmt: skip
"""First words of docstrings without subject and verb."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Document = dict[str, Any]


class Module:
    """What is counted of a module, from one walk through it."""

    def __init__(self, text: str) -> None:
        self.lines = len(text.splitlines())
        self.functions: list[Function] = []
        self.imports: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
        """With whether it stands in a function."""
        self.calls: list[ast.Call] = []
        self.docstrings: list[str] = []
        self.used: Counter[str] = Counter()
        self.bound: Counter[str] = Counter()
        tree = ast.parse(text)
        self.top_level = [node for node in tree.body if isinstance(node, Function)]
        waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
        while waiting:
            node, inside = waiting.pop()
            self._add(node, inside)
            inside = inside or isinstance(node, Function)
            waiting.extend((child, inside) for child in ast.iter_child_nodes(node))

    def _add(self, node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Name):
            self.used[node.id] += 1
            self.bound[node.id] += isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.Attribute):
            self.used[node.attr] += 1
        elif isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, ast.arg):
            self.bound[node.arg] += 1
        elif isinstance(node, Function):
            self.functions.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imports.append((node, inside))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self.docstrings.append(node.value.value)


Modules = Mapping[str, Module]


@cache
def parsed_modules(root: Path = rooms.ROOT) -> Modules:
    """The package's modules in Python by dotted name."""
    return {name: Module(path.read_text()) for name, path in rooms.modules(root).items() if path.suffix == ".py"}


def length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


# ---- weight


def weigh_rooms(known: Modules) -> dict[str, dict[str, int]]:
    """The fields of each room, and of all together."""
    weights: dict[str, Counter[str]] = {"total": Counter()}
    for name, module in known.items():
        own = Counter(
            lines=module.lines,
            modules=1,
            functions=len(module.functions),
            imports=sum(length(node) for node, _ in module.imports),
        )
        weights.setdefault(rooms.room_of(name) or "front door", Counter()).update(own)
        weights["total"].update(own)
    return {room: {field: weights[room][field] for field in FIELDS} for room in sorted(weights)}


# ---- style


def long_functions(known: Modules) -> Iterator[str]:
    for name, module in known.items():
        yield from (f"{name}.{node.name}" for node in module.functions if length(node) > LONGEST_FUNCTION)


def single_importer_modules(known: Modules) -> Iterator[str]:
    """Modules that one module of their own room imports, and nobody else, unless it imports them late."""
    importers: dict[str, set[str]] = {}
    early: dict[str, set[str]] = {}
    for importer, module in known.items():
        for node, inside in module.imports:
            for imported in _imported_modules(node, known):
                importers.setdefault(imported, set()).add(importer)
                if not inside:
                    early.setdefault(imported, set()).add(importer)
    for imported, by in sorted(importers.items()):
        if len(by) == 1 and by == early.get(imported) and rooms.room_of(*by) == rooms.room_of(imported):
            yield imported


def _imported_modules(node: ast.Import | ast.ImportFrom, known: Modules) -> Iterator[str]:
    prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        name = prefix + alias.name
        while "." in name and name not in known:
            name = name.rpartition(".")[0]
        if "." in name:
            yield name


def small_functions_used_once(known: Modules) -> Iterator[str]:
    """Private functions of a few lines that their module calls once; those that are passed as a value are none."""
    for name, module in known.items():
        called = Counter(getattr(call.func, "id", getattr(call.func, "attr", "")) for call in module.calls)
        for node in module.functions:
            is_private = node.name.startswith("_") and not node.name.endswith("__") and not node.decorator_list
            if is_private and length(node) <= SMALL_FUNCTION and module.used[node.name] == called[node.name] == 1:
                yield f"{name}.{node.name}"


def idioms(known: Modules) -> Iterator[str]:
    """Joins, groups and sums by hand, outside of their home."""
    for name, module in known.items():
        for call in module.calls if name != HOME_OF_IDIOMS else ():
            called = ast.unparse(call.func) if isinstance(call.func, ast.Attribute) else ""
            is_at = called.startswith(("np.", "numpy.")) and called.endswith(".at")
            is_group = called.endswith(".unique") and any(keyword.arg == "return_inverse" for keyword in call.keywords)
            if is_at or is_group or called.endswith((".searchsorted", ".lexsort")):
                yield f"{name}: {called}"


def prepositional_docstrings(known: Modules) -> Iterator[str]:
    """Also those of attributes."""
    for name, module in known.items():
        for text in module.docstrings:
            if re.split(r"\W", text.lower(), maxsplit=1)[0] in PREPOSITIONS:
                yield f"{name}: {text}"


def same_docstrings(known: Modules) -> Iterator[str]:
    for name, module in known.items():
        yield from (f"{name}: {text}" for text in module.docstrings if text.startswith("The same"))


def bindings(known: Modules, variable: str) -> Iterator[str]:
    """Variables and parameters of this name."""
    for name, module in known.items():
        yield from [name] * module.bound[variable]


AT_MOST: Mapping[str, Callable[[Modules], Iterable[str]]] = {
    "functions_over_80_lines": long_functions,
    "modules_with_one_importer": single_importer_modules,
    "small_functions_used_once": small_functions_used_once,
    "idioms_outside_columns": idioms,
    "docstrings_from_preposition": prepositional_docstrings,
    "docstrings_from_the_same": same_docstrings,
    "names_found": lambda known: bindings(known, "found"),
    "names_one": lambda known: bindings(known, "one"),
}


def verb_percent(known: Modules, verbs: Iterable[str], nouns_too: Iterable[str], promised: Iterable[str]) -> float:
    """How many functions of modules begin with a verb, without those whose names are promised to users.

    ``nouns_too``: words that are verbs where an object follows, as in ``group_events`` but not in ``group_of_event``.
    """
    plain, ambiguous, exempt = set(verbs), set(nouns_too), set(promised)
    names = [node.name for module in known.values() for node in module.top_level]
    names = [name.lstrip("_") for name in names if name not in exempt and not name.endswith("__")]
    words = [name.split("_") for name in names]
    count = sum(
        first in plain or (first in ambiguous and rest != [] and rest[0] not in PREPOSITIONS) for first, *rest in words
    )
    return 1000 * count // max(len(names), 1) / 10


def median_function_lines(known: Modules) -> float:
    """Without properties and dunders."""
    lengths = [
        length(node)
        for module in known.values()
        for node in module.functions
        if not node.name.endswith("__") and not any("property" in ast.unparse(one) for one in node.decorator_list)
    ]
    return float(median(lengths))


# ---- the budget


def measured(budget: Document) -> Document:
    known = parsed_modules()
    return {
        "rooms": weigh_rooms(known),
        "at_most": {name: sum(1 for _ in count(known)) for name, count in AT_MOST.items()},
        "at_least": {
            "verb_percent": verb_percent(known, budget["verbs"], budget["verbs_with_object"], budget["promised"]),
            "median_function_lines": median_function_lines(known),
        },
    }


def limits(budget: Document) -> dict[str, dict[str, float]]:
    """What each room and each count may be at most, with what was raised."""
    allowed = {room: dict(fields) for room, fields in budget["rooms"].items()}
    for entry in budget.get("raised", ()):
        for room, more in entry["rooms"].items():
            for raised in (room, "total"):
                fields = allowed.setdefault(raised, dict.fromkeys(FIELDS, 0))
                fields.update({field: fields.get(field, 0) + count for field, count in more.items()})
    return {**allowed, "at_most": budget["at_most"]}


def complaints(budget: Document, now: Document) -> Iterator[str]:
    for entry in budget.get("raised", ()):
        amounts = [(field, by) for more in entry["rooms"].values() for field, by in more.items()]
        is_valid = all(field in FIELDS and by > 0 for field, by in amounts)
        if not str(entry.get("feature", "")).strip() or not amounts or not is_valid:
            yield f"raised: {entry} states no feature, or no field and amount"
    counts = {**now["rooms"], "at_most": now["at_most"]}
    for room, allowed in limits(budget).items():
        for field, most in allowed.items():
            count = counts.get(room, {}).get(field, 0)
            if count > most:
                how = (
                    "write it without" if room == "at_most" else "lower it, or add the feature that needs it to raised"
                )
                yield f"{room}.{field} is {count}, above its budget of {most}: {how}"
            elif most - count > max(STALE_COUNT, most * STALE_SHARE):
                yield f"{room}.{field} is {count}, below its budget of {most}: run python tests/budget.py --write"
    yield from (f"{room} has no budget: add it" for room in counts if room not in limits(budget))
    for name, least in budget["at_least"].items():
        if now["at_least"][name] < least:
            yield f"{name} is {now['at_least'][name]}, and was {least}: it may only rise"


def lowered(budget: Document, now: Document, moved: bool = False) -> Document:
    """The budget with what is better now. ``moved``: rooms may grow while no total does; what was raised is in them."""
    allowed = limits(budget)
    counts = now["rooms"]
    if moved and all(counts["total"][field] <= allowed["total"][field] for field in FIELDS):
        return lowered({**budget, "rooms": counts, "raised": []}, now)
    base = {}
    for room, fields in budget["rooms"].items():
        if room in counts:
            more = {field: min(counts[room][field] - allowed[room][field], 0) for field in FIELDS}
            base[room] = {field: fields[field] + more[field] for field in FIELDS}
    return {
        **budget,
        "rooms": base,
        "at_most": {name: min(count, now["at_most"][name]) for name, count in budget["at_most"].items()},
        "at_least": {name: max(least, now["at_least"][name]) for name, least in budget["at_least"].items()},
    }


def text_of(budget: Document) -> str:
    """The budget as TOML: the head of the file, then a line for each room, count and word."""
    lines = [*_HEAD, "[rooms]"]
    lines += [f'"{room}" = {_written(fields)}' for room, fields in budget["rooms"].items()]
    for table in ("at_most", "at_least", "words"):
        lines += ["", f"[{table}]", *(f'"{name}" = {count}' for name, count in budget[table].items())]
    for entry in budget.get("raised", ()):
        rooms = (f'rooms."{room}" = {_written(fields)}' for room, fields in entry["rooms"].items())
        lines += ["", "[[raised]]", f"feature = {_quoted(entry['feature'])}", *rooms]
    head = [f"{name} = [\n{_wrapped(budget[name])}]\n" for name in ("verbs", "verbs_with_object", "promised")]
    return "\n".join([*lines[: len(_HEAD)], *head, *lines[len(_HEAD) :]]) + "\n"


_HEAD = (
    "# What the package may weigh, and how it may be written: tests/budget.py counts, tests/test_budget.py compares.",
    "# Numbers of rooms, at_most and words may only fall, those of at_least only rise: python tests/budget.py --write",
    "# (words: by hand; tests/test_words.py counts them). To raise a number of a room, add an entry at the end:",
    "#     [[raised]]",
    '#     feature = "what users can do with it"',
    '#     rooms."viewer" = { lines = 120, imports = 2 }',
    "# Words in verbs_with_object are verbs only where an object follows: group_events, not group or group_of_event.",
    "",
)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _written(fields: dict[str, int]) -> str:
    return f"{{ {', '.join(f'{field} = {count}' for field, count in fields.items())} }}"


def _wrapped(words: Iterable[str]) -> str:
    lines, line = "", "   "
    for word in sorted(words):
        if len(line) + len(word) > 112:
            lines, line = f"{lines}{line}\n", "   "
        line += f' "{word}",'
    return f"{lines}{line}\n"


def read_budget(path: Path = BUDGET) -> Document:
    return tomllib.loads(path.read_text())


def main(words: list[str]) -> int:
    budget = read_budget()
    now = measured(budget)
    if words in (["--write"], ["--moved"]):
        budget = lowered(budget, now, moved=words == ["--moved"])
        BUDGET.write_text(text_of(budget))
    lines = list(complaints(budget, now))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
