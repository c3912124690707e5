"""Regular expressions that are compiled late are those of the standard library."""

from __future__ import annotations

import re

import pytest

from fastprof.wording.patterns import compile_late


def test_they_match_as_those_of_the_standard_library() -> None:
    late, known = compile_late(r"(?P<name>[a-z]+)-(\d+)", re.IGNORECASE), re.compile(r"(?P<name>[a-z]+)-(\d+)", re.I)
    for text in ("Step-12 and step-13", "nothing", ""):
        assert late.findall(text) == known.findall(text) and late.split(text) == known.split(text)
        assert late.sub(r"\2", text) == known.sub(r"\2", text) and late.subn("", text) == known.subn("", text)
        for method in ("match", "fullmatch", "search"):
            assert str(getattr(late, method)(text)) == str(getattr(known, method)(text))
        assert list(map(str, late.finditer(text))) == list(map(str, known.finditer(text)))
    assert (late.pattern, late.groupindex) == (known.pattern, known.groupindex)
    assert compile_late(rb"\x00+").sub(b"", b"a\0\0b") == b"ab"
    with pytest.raises(AttributeError):
        late.matches  # type: ignore[attr-defined]  # noqa: B018
