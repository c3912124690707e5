"""Arguments of a request's query, read strictly: errors are sentences that name the argument."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.viewer.store import sort_unique

if TYPE_CHECKING:
    from starlette.requests import Request

LEAST, MOST = -(2**63), 2**63 - 1
FIRST_PS, LAST_PS = -(2**64), 2**64
"""Times of a session: it may be twice as long as the times of its hosts can be."""
_MOST_IDS: Final = 1 << 20


class RequestError(Exception):
    """A request that cannot be answered: a status, and why in a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        self.sentence = sentence
        super().__init__(sentence)


def name_internal_error(error: BaseException) -> str:
    """Name the type of an internal error for the page. The error's text may quote any file that a link leads to, so
    only the terminal of ``fastprof serve -v`` shows it."""
    return f"internal error: {type(error).__name__}"


class Query:
    """Query of ``request``. RequestError 400: an argument is missing or malformed. An empty value counts as missing."""

    def __init__(self, request: Request) -> None:
        self._given = request.query_params

    def text(self, name: str, default: str | None = None) -> str:
        value = self.given(name) or default
        if value is None:
            raise RequestError(400, f"the argument {name} is missing")
        return value

    def given(self, name: str) -> str | None:
        return self._given.get(name) or None

    def all(self, name: str) -> list[str]:
        """Return all values of an argument that may be repeated."""
        return [value for value in self._given.getlist(name) if value]

    def items(self) -> list[tuple[str, str]]:
        """Return the last value of each argument that has one."""
        return [(name, value) for name, value in self._given.items() if value]

    def whole(self, name: str, default: int | None = None, least: int = LEAST, most: int = MOST) -> int:
        """Return an integer from ``least`` to ``most``."""
        if default is not None and self.given(name) is None:
            return default
        value = self.text(name)
        number = int(value) if re.fullmatch(r"-?\d{1,20}", value, re.ASCII) else None
        if number is None or not least <= number <= most:
            raise RequestError(400, f"{name} is an integer {_format_bounds(least, most)}, not {_quote_value(value)}")
        return number

    def time(self, name: str, default: int | None = None) -> int:
        """Return a time of the session, in picoseconds."""
        return self.whole(name, default, FIRST_PS, LAST_PS)

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise RequestError(400, f"{name} is one of {', '.join(choices)}, not {_quote_value(value)}")
        return value

    def truth(self, name: str, default: bool = False) -> bool:
        return self.choice(name, ("0", "1", "false", "true"), "1" if default else "0") in ("1", "true")

    def numbers(self, name: str) -> npt.NDArray[np.int64] | None:
        """Return numbers and ranges, as ``1,2,5-9`` with both ends: ascending, each once. None if they are not
        given."""
        text = self.given(name)
        if text is None:
            return None
        spans: list[npt.NDArray[np.int64]] = []
        count = 0
        for part in text.split(","):
            match = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part, re.ASCII)
            if match is None:
                raise RequestError(400, f"{name} must be numbers and ranges such as 1,2,5-9, not {_quote_value(text)}")
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                raise RequestError(400, f"{name}: the range {_quote_value(part)} ends before it starts")
            count += last - first + 1
            if count > _MOST_IDS:
                raise RequestError(400, f"{name} has more than {_MOST_IDS:,} numbers")
            spans.append(np.arange(first, last + 1))
        return sort_unique(np.concatenate(spans))


def format_numbers(numbers: npt.NDArray[np.int64]) -> str:
    """Format ascending numbers as the argument of ``Query.numbers``: ``1-2,5-9``."""
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    spans = [(int(span[0]), int(span[-1])) for span in np.split(numbers, cuts) if len(span)]
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _format_bounds(least: int, most: int) -> str:
    return f"from {least} to {most}" if most < MOST else f"from {least} on" if least > LEAST else "of 64 bits"


def _quote_value(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
