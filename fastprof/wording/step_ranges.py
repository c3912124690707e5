"""Ranges of steps as people write them: 3:5, :5, 3."""

from __future__ import annotations

import re

Steps = tuple[int | None, int | None]
"""Steps numbered from the first up to the second, which is left out; None: an open end."""


def step_range(text: str) -> Steps:
    """``A:B``, ``A:``, ``:B`` or ``A`` alone, B left out. ValueError, in words: it is none of these."""
    span = re.fullmatch(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*", text, re.ASCII)
    if span:
        low, high = int(span[1]), int(span[2])
        raise ValueError(
            f"{text!r} is no range of steps; write A:B, where B is left out: {low}:{high + 1} for {low} to {high}"
        )
    if re.fullmatch(r"[\s\d:]*\d{10}[\s\d:]*", text, re.ASCII):
        raise ValueError(f"{text!r} is no range of steps: their numbers have nine digits at most")
    match = re.fullmatch(r"\s*(\d{1,9})?\s*(:?)\s*(\d{1,9})?\s*", text, re.ASCII)
    if match is None or not (match[1] or match[3]):
        raise ValueError(f"{text!r} is no range of steps; write A:B, A:, :B or A; B is left out, so 3:5 is 3 and 4")
    first, last = (None if bound is None else int(bound) for bound in (match[1], match[3]))
    if not match[2]:
        if first is None or last is not None:
            raise ValueError(f"{text!r} is no range of steps; write A:B, A:, :B or A; B is left out, so 3:5 is 3 and 4")
        last = first + 1
    if first is not None and last is not None and last <= first:
        raise ValueError(f"{text!r} holds no step: the second number is left out, as in 3:5")
    return first, last
