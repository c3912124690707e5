"""Regular expressions of tfprof: RE2's, for the entire text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fastprof.derive.tfprof.forest import match_any
from fastprof.errors import UsageError


@pytest.mark.parametrize(
    ("regex", "text", "matches"),
    [
        ("Mat", "MatMul", False),
        ("Mat.*", "MatMul", True),
        ("a|ab", "ab", True),
        ("a|b", "ab", False),
        (".*", "a\nb", False),
        ("(?s).*", "a\nb", True),
        ("(?s:.*)", "a\n", True),
        ("a", "a\n", False),
        ("(?i)matmul", "MatMul", True),
        (r"\Qa.b", "a.b", True),
        (r"\Qa.b", "axb", False),
        (r"\\Qa", r"\Qa", True),
        (r"\Qa\E.\Q(", "ax(", True),
        ("ü.", "üé", True),
        ("", "", True),
        ("", "a", False),
        ("x(?:a|b)+", "xabab", True),
    ],
)
def test_the_entire_text_must_match(regex: str, text: str, matches: bool) -> None:
    assert match_any(pa.array([text]), [regex]).tolist() == [matches]


def test_any_of_several_is_enough_and_none_matches_nothing() -> None:
    texts = pa.array(["a", "b", "c"])
    assert match_any(texts, ["a", "c"]).tolist() == [True, False, True]
    assert match_any(texts, []).tolist() == [False, False, False]


@pytest.mark.parametrize("regex", ["a)(b", "(", "[", "*", r"(?=a)"])
def test_other_texts_are_errors(regex: str) -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        match_any(pa.array(["a"]), [regex])
