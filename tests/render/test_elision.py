"""Long names of a column lose what they have in common, and keep what distinguishes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fastprof.render import as_text
from fastprof.render.table_forms import Look
from fastprof.wording.screen import Elision, measure_width

PATH = "jit(train_step)/jit(main)/transpose(jvp(Model))"
SCOPES = [f"{PATH}/layer_{number}/{op}" for number in (1, 12) for op in ("attention/dot", "mlp/dot")]


@pytest.mark.parametrize(
    ("texts", "limit", "shown"),
    [
        (
            SCOPES,
            26,
            ["…/layer_1/attention/dot", "…/layer_1/mlp/dot", "…/layer_12/attention/dot", "…/layer_12/mlp/dot"],
        ),
        (["short", *SCOPES[:2]], 26, ["short", "…/layer_1/attention/dot", "…/layer_1/mlp/dot"]),
        (["a" * 12 + "b" * 12], 9, ["aaaa…bbbb"]),  # a single long name is cut in the middle
        (["void_gemm_kernel_x", "void_gemm_kernel_y"], 9, ["…kernel_x", "…kernel_y"]),
        (  # alike at both ends: what is left out of the middle is where they differ
            [f"{'a' * 30}{number}{'b' * 30}" for number in range(3)],
            21,
            [f"…aaaaaaaaaa{number}bbbbbbbb…" for number in range(3)],
        ),
        (  # numbers alone do not say what they are
            ["all-reduce-start.110", "all-reduce-start.116"],
            16,
            ["all-redu…art.110", "all-redu…art.116"],
        ),
        (["├─ name/of/a/first/op", "├─ name/of/a/second/op"], 12, ["├─ nam…st/op", "├─ nam…nd/op"]),
        (["x" * 20, "x" * 20], 8, ["xxxx…xxx"] * 2),
        (["中文" * 10 + "/a", "中文" * 10 + "/b"], 6, ["…/a", "…/b"]),
    ],
)
def test_what_distinguishes_names_stays(texts: list[str], limit: int, shown: list[str]) -> None:
    elision = Elision(texts, limit)
    assert [elision(text) for text in texts] == shown
    assert all(measure_width(elision(text)) <= limit for text in texts)


def test_other_names_than_the_first_ones_are_cut_too() -> None:
    """Those of later blocks of a stream."""
    elision = Elision(SCOPES, 26)
    assert elision(f"{PATH}/layer_7/norm") == "…/layer_7/norm"
    assert elision("another/" + "x" * 40) == "another/xxxxx…xxxxxxxxxxxx"


def test_no_two_names_of_a_table_look_alike() -> None:
    names = [f"{PATH}/while/body/{'fusion' * 9}.{number}.clone.{'tail' * 9}" for number in range(40)]
    table = pa.table({"name": names, "count": list(range(40))})
    for columns in (40, 60, 100):
        rows = [line.split()[0] for line in as_text.lines(table, Look(columns), left_out=[])][1:]
        assert len(set(rows)) == 40, columns


def test_the_cost_of_cutting_grows_with_the_names() -> None:
    """Not with their square: each is compared with two others."""
    texts = [f"{'p' * 50}/{number:05}{'q' * 50}/{'r' * 50}" for number in range(20_000)]
    calls = []

    class Counted(str):
        __slots__ = ()

        def startswith(self, *given: object) -> bool:  # type: ignore[override]
            calls.append(1)
            return str(self).startswith(*given)  # type: ignore[arg-type]

    elision = Elision([Counted(text) for text in texts], 30)
    assert len({elision(text) for text in texts}) == 20_000
    assert len(calls) <= 3 * len(texts)
