"""What a request fails with, apart from HTTP: a saved report has no server."""

from __future__ import annotations


class RequestError(Exception):
    """A request that cannot be answered: a status, and why in a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        self.sentence = sentence
        super().__init__(sentence)
