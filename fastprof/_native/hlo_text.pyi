"""Types of the compiled module."""

from collections.abc import Iterable
from typing import Any, TypeAlias

Buffer: TypeAlias = Any

def read_message_fields(data: Buffer, spans: Buffer, left_out: Iterable[int]) -> tuple[bytes, bytes, bytes, bytes]: ...
