"""Names of kernels for people: what C++ writes around the name of a function is left out.

Libraries of templates put the operation deep into a name that is hundreds of characters long: of such a name the
function and the innermost operation are left.
"""

from __future__ import annotations

import re

_ANONYMOUS = "(anonymous namespace)::"
_NAMESPACE = re.compile(r"\b[A-Za-z_]\w*::")
_OPERATION = re.compile(r"\b(?!TensorAssignOp\b)\w*(?:Op|_op|[Ff]unctor)\b")
LONG = 40
"""Characters beyond which template arguments are left out."""


def short(name: str) -> str:
    """The function's name, without return type, namespaces and arguments; what is not C++ stays as it is."""
    if "::" not in name and "<" not in name and not name.startswith("void "):
        return name
    bare = _NAMESPACE.sub("", _function(name.replace(_ANONYMOUS, "")))
    if len(bare) <= LONG or "<" not in bare:
        return bare or name
    function, _, arguments = bare.partition("<")
    operations = _OPERATION.findall(arguments)
    return f"{function}<{operations[-1]}>" if operations else bare


def _function(name: str) -> str:
    """From the last space before its arguments to them, outside of angle brackets."""
    depth = begin = 0
    for at, character in enumerate(name):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif depth == 0 and character == " ":
            begin = at + 1
        elif depth == 0 and character == "(":
            return name[begin:at]
    return name[begin:]
