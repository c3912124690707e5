"""Each compilation looks at a bounded number of earlier programs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastprof.derive.causes import recompilations
from fastprof.derive.causes.compilations import Compilation


def test_earlier_programs_are_not_listed_again_for_each_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    count, listed = 1_000, list[int]()

    def compare(call: Compilation, _program: object, earlier: list[object], _modules: object) -> Compilation:
        listed.append(len(earlier))
        return call

    monkeypatch.setattr(recompilations, "_compare", compare)
    calls = [Compilation("f", "JAX", row, 10 * row, 1, 10 * row + 1) for row in range(count)]
    ran = [recompilations._Program(row, f"jit_f({row})", 10 * row + 2) for row in range(count)]
    others = [recompilations._Program(count + row, "jit_f", None) for row in range(count)]
    modules: Any = SimpleNamespace(module=lambda _: None)
    assert len([*recompilations._compare_function(calls, ran + others, modules)]) == count
    assert len(listed) == count and max(listed) == 2 * recompilations._MOST_COMPARED
