"""Dataclasses with slots that are quick to define.

The standard library compiles six functions for each dataclass, in half a millisecond. A process uses few of the
hundreds of dataclasses that it imports, so all of these share functions that go through their fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from inspect import Signature

    Fields: TypeAlias = Sequence[Field[Any]]


def _has_quick_dataclasses(*, slots: bool, frozen: bool = False, eq: bool = True) -> Callable[[type], type]:
    if not slots:
        raise TypeError("dataclasses without slots are those of the standard library")
    return lambda cls: _make_class(cls, frozen, eq)


def _make_class(cls: type, frozen: bool, eq: bool) -> type:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # the standard library would write a signature, in a tenth of a millisecond
    parents = (getattr(base, "__dataclass_params__", None) for base in cls.__bases__)
    inherits = any(parent is not None and parent.frozen for parent in parents)
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=inherits, slots=True)(cls)
    flags = vars(cls)["__dataclass_params__"]
    flags.init, flags.repr, flags.eq, flags.frozen = True, True, eq, frozen
    fields = dataclasses.fields(cls)
    methods: dict[str, Any] = {
        "__init__": _make_init(cls, [field for field in fields if field.init]),
        "__signature__": _OfFields(),
        "__repr__": _make_repr([field.name for field in fields if field.repr]),
        "__reduce__": _make_reduce([field.name for field in fields]),
    }
    if eq:
        values = _make_getter([field.name for field in fields if field.compare])
        methods |= {"__eq__": _make_eq(values), "__hash__": (lambda self: hash(values(self))) if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
    own = vars(cls)
    for name, method in methods.items():
        if own.get(name) is None:
            setattr(cls, name, method)
    return cls


def _make_init(cls: type, fields: Fields) -> Callable[..., None]:
    setters = [getattr(cls, field.name).__set__ for field in fields]
    after = getattr(cls, "__post_init__", None)
    arguments = _bind_arguments(cls, fields)
    in_order = -1 if any(field.kw_only for field in fields) else len(fields)

    def init(self: Any, *values: Any, **named: Any) -> None:
        given = values if len(values) == in_order and not named else arguments(values, named)
        for setter, value in zip(setters, given, strict=True):
            setter(self, value)
        if after is not None:
            after(self)

    return init


def _bind_arguments(cls: type, fields: Fields) -> Callable[[Sequence[Any], Mapping[str, Any]], Iterable[Any]]:
    """Make a value for each field of what is given and the defaults. TypeError: one is missing, unknown or given
    twice."""
    by_place = [field.name for field in fields if not field.kw_only]
    defaults = {field.name: field.default for field in fields}
    factories = [(field.name, field.default_factory) for field in fields if field.default_factory is not MISSING]

    def arguments(values: Sequence[Any], named: Mapping[str, Any]) -> Iterable[Any]:
        given = {**defaults, **dict(zip(by_place, values, strict=False)), **named}
        twice = any(name in named for name in by_place[: len(values)])
        if twice or len(given) > len(defaults) or len(values) > len(by_place):
            raise TypeError(f"{cls.__qualname__} takes each once: {', '.join(defaults)}")
        for name, factory in factories:
            if given[name] is MISSING:
                given[name] = factory()
        missing = [name for name, value in given.items() if value is MISSING]
        if missing:
            raise TypeError(f"{cls.__qualname__} needs {', '.join(missing)}")
        return given.values()

    return arguments


def _make_getter(names: Sequence[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _make_repr(names: Sequence[str]) -> Callable[[Any], str]:
    return lambda self: f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _make_eq(values: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: values(self) == values(other) if type(other) is type(self) else NotImplemented


def _make_reduce(names: Sequence[str]) -> Callable[[Any], Any]:
    return lambda self: (_restore, (type(self), [(name, getattr(self, name)) for name in names if hasattr(self, name)]))


def _restore(cls: type, values: Iterable[tuple[str, Any]]) -> Any:
    """Restore what was pickled or copied."""
    self: Any = object.__new__(cls)
    for name, value in values:
        object.__setattr__(self, name, value)
    return self


def _refuse_change(self: Any, name: str, *_: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to or delete field {name!r} of {type(self).__qualname__}")


class _OfFields:
    """The signature that ``inspect`` and ``help`` show."""

    def __get__(self, instance: Any, cls: type) -> Signature:
        from inspect import Parameter, Signature  # few look

        kinds = {False: Parameter.POSITIONAL_OR_KEYWORD, True: Parameter.KEYWORD_ONLY}
        fields = [field for field in dataclasses.fields(cls) if field.init]
        fields.sort(key=lambda field: bool(field.kw_only))
        defaults = [field.default if field.default_factory is MISSING else field.default_factory for field in fields]
        return Signature([
            Parameter(field.name, kinds[bool(field.kw_only)], annotation=field.type,
                      default=Parameter.empty if default is MISSING else default)
            for field, default in zip(fields, defaults, strict=True)
        ])  # fmt: skip


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _has_quick_dataclasses
