"""Kernel names as people read them: the function, without return type, namespaces and most template arguments."""

from __future__ import annotations

from fastprof.wording.patterns import compile_late

_ANONYMOUS = "(anonymous namespace)::"
_NAMESPACE = compile_late(r"\b[A-Za-z_]\w*::")
_OPERATION = compile_late(r"\b(?!TensorAssignOp\b)\w*(?:Op|_op|[Ff]unctor)\b")
LONG = 40
"""Template arguments of longer names are left out."""


def shorten_kernel_name(name: str) -> str:
    """Return the function name without return type, namespaces and arguments. Other names stay unchanged."""
    if "::" not in name and "<" not in name and not name.startswith("void "):
        return name
    bare = _NAMESPACE.sub("", _find_function(name.replace(_ANONYMOUS, "")))
    if len(bare) <= LONG or "<" not in bare:
        return bare or name
    function, _, arguments = bare.partition("<")
    operations = _OPERATION.findall(arguments)
    return f"{function}<{operations[-1]}>" if operations else bare


def _find_function(name: str) -> str:
    """Return the text between the last space outside angle brackets and the arguments."""
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
