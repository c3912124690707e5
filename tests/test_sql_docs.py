"""The queries of docs/sql.md have answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import fastprof

PAGE = Path(__file__).parents[1] / "docs" / "sql.md"


def questions() -> Iterator[tuple[str, str, str]]:
    """Yield the sentence, the sessions and the query of each question."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        usual = re.search(r"These queries are about `([^`]*)`", section)
        for sentence, query in re.findall(r"([^\n]*)\n\n```sql\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
            own = re.search(r"\(`(demo/[^`]*)`\)", sentence) or usual
            assert own is not None, sentence
            yield sentence, own[1], query


QUESTIONS = list(questions())


@cache
def load(sessions: str) -> fastprof.Profile:
    return fastprof.load(sessions.split() if " " in sessions else sessions)


def test_there_are_many_questions() -> None:
    assert len(QUESTIONS) >= 25
    assert len({query for _, _, query in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize(("sentence", "sessions", "query"), QUESTIONS, ids=[sentence for sentence, _, _ in QUESTIONS])
def test_a_question_has_an_answer(sentence: str, sessions: str, query: str) -> None:
    assert sentence.endswith("?")
    assert load(sessions).sql(query).num_rows > 0


def test_python_of_the_page_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    exec(compile(code, "sql.md", "exec"), names)  # our own page
    assert names["ops"].num_rows > 3  # type: ignore[attr-defined]
