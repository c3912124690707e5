"""Display names of causes."""

from __future__ import annotations

from fastprof.derive.causes.cause_names import CAUSE_LABELS, CAUSES, get_cause_label
from fastprof.render.report_text import label_value


def test_every_cause_has_a_display_name_of_its_own() -> None:
    assert CAUSE_LABELS.keys() == CAUSES.keys()
    assert len(set(CAUSE_LABELS.values())) == len(CAUSES)
    assert not any("_" in label or len(label) > 20 for label in CAUSE_LABELS.values())


def test_other_names_stay_as_they_are() -> None:
    assert get_cause_label("between_kernels") == "between kernels"
    assert get_cause_label("my_op") == "my_op"
    assert label_value("python, garbage_collection", CAUSE_LABELS) == "Python code, garbage collection"
    assert label_value("python, my_op", CAUSE_LABELS) == "python, my_op"
