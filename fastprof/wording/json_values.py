"""Single values from pyarrow as JSON."""

from __future__ import annotations

import base64
import json
from typing import Any

json_quote = json.encoder.encode_basestring_ascii
"""Writes a JSON string in ASCII, which is valid in every encoding and has no control characters."""


def json_text(value: Any, *, pairs: bool = False) -> str:
    """JSON of a value from pyarrow. ``pairs``: the value is a map; repeated keys are kept."""
    if isinstance(value, str):
        return json_quote(value)
    if pairs:
        return "{" + ", ".join(f"{json_quote(str(key))}: {json_text(item)}" for key, item in value) + "}"
    if isinstance(value, dict):
        return json_text(list(value.items()), pairs=True)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json_text(item) for item in value) + "]"
    if isinstance(value, bytes):
        return json_quote(base64_text(value))
    if isinstance(value, float) and value - value != 0:
        return json_quote({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)])
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json_quote(str(value))


def base64_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
