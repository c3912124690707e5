"""Short names of kernels: without the C++ return type, namespaces and arguments around the name of the function.

Template libraries hide the operation deep in a name of hundreds of characters. Of such a name, the function and the
innermost operation remain.
"""

from __future__ import annotations

from fastprof.wording.patterns import pattern_of

_ANONYMOUS = "(anonymous namespace)::"
_NAMESPACE = pattern_of(r"\b[A-Za-z_]\w*::")
_OPERATION = pattern_of(r"\b(?!TensorAssignOp\b)\w*(?:Op|_op|[Ff]unctor)\b")
LONG = 40
"""Template arguments of longer names are left out."""


def short(name: str) -> str:
    """The name of the function, without return type, namespaces and arguments. Other names stay unchanged."""
    if "::" not in name and "<" not in name and not name.startswith("void "):
        return name
    bare = _NAMESPACE.sub("", _function(name.replace(_ANONYMOUS, "")))
    if len(bare) <= LONG or "<" not in bare:
        return bare or name
    function, _, arguments = bare.partition("<")
    operations = _OPERATION.findall(arguments)
    return f"{function}<{operations[-1]}>" if operations else bare


def _function(name: str) -> str:
    """The text between the last space outside angle brackets and the arguments."""
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
