"""A profile by job, if its traces are not of one."""

from __future__ import annotations

from fastprof.decode.jobs import named_jobs
from fastprof.profile.profile import Profile
from fastprof.profile.several_runs import ProfileOfRuns


def split_by_job(profile: Profile) -> Profile:
    """The profile itself, also if it was loaded ``as_hosts`` of one run; or one of several runs, if the selected hosts
    are of several jobs."""
    if profile._how.get("as_hosts"):
        return profile
    tables = profile._of_all_steps
    session, wanted = tables.session, tables.selected_hosts()
    hosts = {
        name: [session.hosts[number] for number in numbers if session.hosts[number] in wanted]
        for name, numbers in named_jobs(session.jobs()).items()
    }
    selected = {name: profile.select(hosts=of_job) for name, of_job in hosts.items() if of_job}
    if len(selected) < 2:
        return profile
    return ProfileOfRuns.of_profiles(selected, profile._source, profile._how)
