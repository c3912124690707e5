"""What analyses keep of a host travels between processes: pickled and unpickled, it makes the same reports."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Sequence

import pytest
from equal_reports import POD, TF_DATA, XLA, check_equal

import fastprof
from fastprof.analyses import ANALYSES, runner
from fastprof.analyses.accumulation import HostPlan, HostStates, SessionHosts
from fastprof.derive.host import Choice
from fastprof.profile.profile import Profile
from fastprof.wording.amounts import Steps
from fastprof.xprof import report_xprof

CHOSEN = ("overview", "memory_profile", "tf_data", "communication")


class PickledHosts(SessionHosts):
    """What analyses keep of these hosts is pickled on the way, as from another process."""

    def kept(self, plan: HostPlan, choices: Sequence[Choice] | None, without: Collection[str]) -> Iterator[HostStates]:
        of_host = None if choices is None else pickle.loads(pickle.dumps(choices, 5))
        for one in super().kept(plan, of_host, without):
            yield pickle.loads(pickle.dumps(one, 5))


def reports_of_pickled(
    profile: Profile, steps: Steps | None = None, form: str = "", names: Sequence[str] = tuple(ANALYSES)
) -> dict[str, runner.AnalysisReport]:
    keepers = report_xprof.list_keepers(names) if form == "xprof" else {}
    plan = runner.make_plan(runner.add_prerequisites(names), names, {}, steps, keepers)
    return runner.build_reports(PickledHosts(profile.table_set), plan)


@pytest.mark.parametrize("path", [POD, XLA, TF_DATA])
def test_reports_of_what_was_pickled_equal_the_others(path: str) -> None:
    profile = fastprof.load(path, threads=1)
    check_equal(reports_of_pickled(profile), profile.answers(list(ANALYSES), {}, "json"))


def test_chosen_steps_travel() -> None:
    profile = fastprof.load(POD, threads=1)
    chosen = profile.select(steps=(1, 3)).answers(CHOSEN, {}, "json")
    check_equal(reports_of_pickled(profile, (1, 3), names=CHOSEN), chosen)


def test_what_pages_of_xprof_need_travels() -> None:
    profile = fastprof.load(POD, threads=1)
    names = ("pod_viewer", "op_stats")
    assert report_xprof.list_keepers(names)
    found = reports_of_pickled(profile, form="xprof", names=names)
    expected = profile.answers(names, {}, "xprof")
    for name in names:
        assert report_xprof.get_text(found[name]) == report_xprof.get_text(expected[name])
