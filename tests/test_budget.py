"""Holds the package against tests/budget.toml, and tries the counts of tests/budget.py on small modules."""

from __future__ import annotations

import tomllib
from textwrap import dedent

import budget
import pytest
from budget import Document, Module


def test_the_package_keeps_its_budget() -> None:
    document = budget.read_budget()
    now = budget.measured(document)
    assert now["rooms"]["total"]["modules"] > 100
    assert list(budget.complaints(document, now)) == []


def test_the_budget_is_written_as_it_is_read() -> None:
    text = budget.BUDGET.read_text()
    assert budget.text_of(tomllib.loads(text)) == text


def document(lines: int, raised: list[Document] | None = None) -> Document:
    weight = {"lines": lines, "modules": 1, "functions": 9, "imports": 5}
    return {
        "rooms": {"cli": dict(weight), "total": dict(weight)},
        "at_most": {"names_one": 50},
        "at_least": {"verb_percent": 40.0},
        "words": {"word": 3},
        "verbs": ["read"],
        "verbs_with_object": ["group"],
        "promised": ["load"],
        "raised": raised or [],
    }


RAISED: Document = {"feature": "a verb", "rooms": {"cli": {"lines": 30}}}


def test_what_is_above_the_budget_or_well_below_it_is_said() -> None:
    assert list(budget.complaints(document(1000), document(1000))) == []
    assert list(budget.complaints(document(1000), document(990))) == []
    above = list(budget.complaints(document(1000), document(1001)))
    assert [line.split(":")[0] for line in above] == [
        "cli.lines is 1001, above its budget of 1000",
        "total.lines is 1001, above its budget of 1000",
    ]
    (room, total) = budget.complaints(document(1000), document(900))
    assert "--write" in room and "--write" in total
    fewer = {**document(1000), "at_least": {"verb_percent": 39.9}}
    assert list(budget.complaints(document(1000), fewer)) == [
        "verb_percent is 39.9, and was 40.0: it may only rise",
    ]


def test_a_number_is_raised_by_an_entry_that_states_the_feature() -> None:
    assert list(budget.complaints(document(1000, [RAISED]), document(1030))) == []
    (room, _) = budget.complaints(document(1000, [RAISED]), document(1031))
    assert room.startswith("cli.lines is 1031, above its budget of 1030")
    invalid: list[Document] = [{"feature": " "}, {"rooms": {}}, {"rooms": {"cli": {"lines": 30, "pages": 1}}}]
    for wrong in invalid:
        (unstated, *_) = budget.complaints(document(1000, [{**RAISED, **wrong}]), document(1000))
        assert unstated.endswith("states no feature, or no field and amount")
    text = budget.text_of(document(1000, [RAISED]))
    assert tomllib.loads(text)["raised"] == [RAISED]


def test_writing_only_lowers() -> None:
    assert budget.lowered(document(1000), document(1200)) == document(1000)
    assert budget.lowered(document(1000), document(900)) == document(900)
    assert budget.lowered(document(1000, [RAISED]), document(1010)) == document(980, [RAISED])
    better = {**document(1000), "at_most": {"names_one": 7}, "at_least": {"verb_percent": 70.0}}
    written = budget.lowered(document(1000), better)
    assert (written["at_most"], written["at_least"]) == ({"names_one": 7}, {"verb_percent": 70.0})


def test_code_may_move_between_rooms() -> None:
    now = document(1000)
    now["rooms"] = {"cli": now["rooms"]["cli"] | {"lines": 400}, "viewer": now["rooms"]["cli"], **now["rooms"]}
    now["rooms"]["cli"] = now["rooms"]["cli"] | {"lines": 400}
    assert any("viewer has no budget" in line for line in budget.complaints(document(1000), now))
    moved = budget.lowered(document(1000), now, moved=True)
    assert moved["rooms"] == now["rooms"]
    assert budget.lowered(document(999), now, moved=True)["rooms"].keys() == {"cli", "total"}


def module(text: str) -> Module:
    return Module(dedent(text))


def test_functions_imports_and_lines_are_counted() -> None:
    weight = budget.weigh_rooms(
        {"fastprof.cli.a": module("import a\nfrom b import (\n  c,\n)\ndef f():\n  def g(): ...\n")}
    )
    assert weight["cli"] == weight["total"] == {"lines": 6, "modules": 1, "functions": 2, "imports": 4}


def test_a_module_with_one_importer_in_its_room_is_found_unless_it_is_late() -> None:
    other = "from fastprof.cli import only\n"
    known = {"fastprof.cli.only": module(""), "fastprof.cli.a": module(other)}
    assert list(budget.single_importer_modules(known)) == ["fastprof.cli.only"]
    late = {**known, "fastprof.cli.a": module(f"def f():\n  {other}")}
    assert list(budget.single_importer_modules(late)) == []
    assert list(budget.single_importer_modules({**known, "fastprof.cli.b": module(other)})) == []
    elsewhere = {"fastprof.cli.only": module(""), "fastprof.viewer.a": module(other)}
    assert list(budget.single_importer_modules(elsewhere)) == []


@pytest.mark.parametrize(
    ("uses", "count"), [("_f()", 1), ("_f(); _f()", 0), ("g(_f)", 0), ("g(_f); _f()", 0), ("self._f()", 1), ("", 0)]
)
def test_a_small_private_function_that_is_called_once_is_found(uses: str, count: int) -> None:
    small = {"fastprof.a": module(f"def _f():\n  return 1\n{uses}\n")}
    assert len(list(budget.small_functions_used_once(small))) == count
    long = {"fastprof.a": module("def _f():\n" + "  x()\n" * 6 + uses)}
    assert list(budget.small_functions_used_once(long)) == []


def test_idioms_docstrings_names_and_long_functions_are_counted() -> None:
    text = '''
        np.searchsorted(a, b); a.searchsorted(b); np.lexsort(a); np.add.at(a, b, c)
        np.unique(a, return_inverse=True); np.unique(a); text.at(b)
        def f(one, found):
            """Of a step."""
            one = [one for one in found]
        x = 1
        """The same, of hosts."""
    '''
    known = {"fastprof.a": module(text)}
    assert len(list(budget.idioms(known))) == 5
    assert list(budget.idioms({budget.HOME_OF_IDIOMS: module(text)})) == []
    assert [len(list(count(known))) for name, count in budget.AT_MOST.items() if name.startswith(("doc", "names"))] == [
        1, 1, 1, 3,
    ]  # fmt: skip
    assert list(budget.long_functions({"fastprof.a": module("def f():\n" + "  x()\n" * 80)})) == ["fastprof.a.f"]
    assert list(budget.long_functions({"fastprof.a": module("def f():\n" + "  x()\n" * 79)})) == []


def test_verbs_and_the_median_length_are_measured() -> None:
    names = ("read_host", "_read", "group_events", "group_of_event", "group", "found", "load", "__getattr__")
    known = {"fastprof.a": module("".join(f"def {name}(): ...\n" for name in names))}
    assert budget.verb_percent(known, ["read"], ["group"], ["load"]) == 50.0
    lengths = {"fastprof.a": module("def a():\n  x\n  x\n@property\ndef b(): ...\ndef __c__(): ...\ndef d():\n  x\n")}
    assert budget.median_function_lines(lengths) == 2.5
