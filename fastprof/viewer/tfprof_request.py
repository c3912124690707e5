"""What a request asks of tfprof's views: the view and its options, by the names that profiler-ui's address has.

Everything is in the request, so users do not disturb each other. Lists are texts with commas between them, or a list of
JSON, which can be empty and whose texts may have commas.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fastprof.derive.tfprof.options import ORDERS, PRESETS, SELECTABLE, VIEWS, Options, help_of, of_mapping
from fastprof.viewer.query import RequestError
from fastprof.viewer.server_state import Call
from fastprof.wording.spelling import meant

if TYPE_CHECKING:
    from fastprof.profile.tfprof_views import TfprofView

BASE: Final = Options(max_depth=10_000, order_by="micros", account_displayed_op_only=True)
"""The options of the page, as profiler-ui has them."""
STACKS: Final = "pprof"
"""The fifth view of profiler-ui: the stacks of the view code."""
_OWN: Final = (
    *("run", "version", "host", "view", "preset", "sort", "filter", "find", "hit", "open", "flip", "row", "first"),
    "rows",
)
"""Arguments that are not options."""
_FIELDS: Final = {field.name: field for field in dataclasses.fields(Options) if field.name != "output"}
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")


def view_of(call: Call) -> TfprofView:
    """The view of the request, whatever it selects, from those kept if it is there. UsageError, RequestError 400: the
    view is unknown, or an option is not valid."""
    options = dataclasses.replace(options_of(call), select=BASE.select)
    key = (call.run.identity, call.given("host"), view_name(call), options)
    return call.state.views.of(key, lambda: _made(call, options))


def made_view(call: Call) -> TfprofView:
    """The view of the request with what it selects."""
    return _made(call, options_of(call))


def _made(call: Call, options: Options) -> TfprofView:
    return call.run.profile.tfprof(view_name(call), host=call.given("host"), options=dataclasses.asdict(options))


def view_name(call: Call) -> str:
    """The name that tfprof has for the view of the request."""
    view = call.text("view", VIEWS[1])
    return "code" if view == STACKS else view


def options_of(call: Call) -> Options:
    """The options of the request: those of its preset or of the page, then those that it names."""
    preset = call.given("preset")
    if preset is not None and preset not in PRESETS:
        raise RequestError(400, f"unknown preset {preset!r}{meant(preset, PRESETS)} ({', '.join(PRESETS)})")
    base = BASE if preset is None else of_mapping(PRESETS[preset])
    given = {name: _value(name, text) for name, text in call.items() if name not in _OWN}
    options = base.replaced(**given)
    if not options.select:
        raise RequestError(400, "select names nothing to show: choose at least one attribute")
    return options


def _value(name: str, text: str) -> Any:
    """The value of a text; that of an unknown option is the text."""
    kind = str(_FIELDS[name].type) if name in _FIELDS else "str"
    if kind == "int":
        if re.fullmatch(r"[+-]?\d{1,20}", text.strip(), re.ASCII) is None:
            raise RequestError(400, f"{name} is a whole number, not {text[:60]!r}")
        return int(text)
    if kind == "bool":
        if text.lower() not in (*_YES, *_NO):
            raise RequestError(400, f"{name} is true or false, not {text[:60]!r}")
        return text.lower() in _YES
    return text if kind == "str" else _list(text)


def _list(text: str) -> list[str]:
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None  # an expression such as [ab]
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            return found
    return [one.strip() for one in text.split(",") if one.strip()]


def written(value: Any) -> str:
    """The text of a value, as addresses have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, tuple):
        return str(value)
    joined = ",".join(value)
    return joined if value and list(value) == _list(joined) else json.dumps(list(value))


def described() -> list[dict[str, Any]]:
    """The options, as the page needs them."""
    choices = {"order_by": ORDERS, "select": tuple(name for name in SELECTABLE if name != "tensor_value")}
    return [
        {
            "name": name,
            "kind": {"int": "number", "bool": "truth", "str": "text"}.get(str(field.type), "list"),
            "choices": list(choices.get(name, ())),
            "help": help_of(name),
        }
        for name, field in _FIELDS.items()
    ]


def bases() -> dict[str, dict[str, str]]:
    """The values of all options, as texts: of the page, whose name is empty, and of each preset."""
    presets: Iterable[tuple[str, Options]] = ((name, of_mapping(preset)) for name, preset in PRESETS.items())
    return {name: _texts(options) for name, options in (("", BASE), *presets)}


def _texts(options: Options) -> dict[str, str]:
    return {name: written(getattr(options, name)) for name in _FIELDS}
