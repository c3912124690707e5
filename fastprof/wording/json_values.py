"""Single values from pyarrow as JSON."""

from __future__ import annotations

import json
from typing import Any

json_quote = json.encoder.encode_basestring_ascii
"""Writer of a JSON string in ASCII, which is valid in every encoding and has no control characters."""


def format_json(value: Any, *, pairs: bool = False) -> str:
    """Format a value from pyarrow as JSON. ``pairs``: the value is a map; repeated keys stay."""
    if isinstance(value, str):
        return json_quote(value)
    if pairs:
        return "{" + ", ".join(f"{json_quote(str(key))}: {format_json(item)}" for key, item in value) + "}"
    if isinstance(value, dict):
        return format_json(list(value.items()), pairs=True)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_json(item) for item in value) + "]"
    if isinstance(value, bytes):
        return json_quote(encode_base64(value))
    if isinstance(value, float) and value - value != 0:
        return json_quote({"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)])
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json_quote(str(value))


def encode_base64(value: bytes) -> str:
    import base64

    return base64.b64encode(value).decode("ascii")
