"""Log directories in stores: which requests are made, and which runs and captures there are."""

from __future__ import annotations

import pytest
from object_server import ObjectServer
from stored_captures import CAPTURE, KEY, LOGDIR, RUN

import fastprof
from fastprof.errors import NotFoundError, UnreadableError, UsageError
from fastprof.inputs.resolve import resolve
from fastprof.inputs.stores import store_path


def names(server: ObjectServer) -> list[str]:
    """Return the prefixes that were listed."""
    return [request.query.get("prefix", "") for request in server.requests if not request.key]


def test_three_thousand_runs_are_listed_by_five_requests(server: ObjectServer) -> None:
    server.objects = {
        f"logs/plugins/profile/2026_01_{run // 100 + 1:02}_00_00_{run % 60:02}_{run // 60}/host{host}.xplane.pb": b""
        for run in range(3000)
        for host in range(2)
    }
    runs = fastprof.runs("s3://bucket/logs")
    assert len(runs) == 3000
    assert len(server.requests) == 5
    assert runs[7].hosts == ["host0", "host1"]
    assert len(server.requests) == 6


def test_the_newest_run_is_read_and_no_other_is_listed(server: ObjectServer) -> None:
    for day in (19, 21, 20):
        server.objects[f"logs/plugins/profile/2026_11_{day}_23_00_00/vm.xplane.pb"] = CAPTURE
    profile = fastprof.load("s3://bucket/logs")
    assert profile.run == "2026_11_21_23_00_00"
    assert [name.count("/") for name in names(server)] == [1, 2, 3, 4]
    assert profile.remarks()["code"].to_pylist() == ["newest_run"]
    assert fastprof.load("s3://bucket/logs", run="2026_11_19_23_00_00").run == "2026_11_19_23_00_00"


def test_an_empty_newest_run_is_passed_over(server: ObjectServer) -> None:
    server.objects["logs/plugins/profile/2027_01_01_00_00_00/notes.txt"] = b"none"
    assert fastprof.load("s3://bucket/logs").run == "2026_11_21_09_58_38"


@pytest.mark.parametrize("client", ["obstore", "pyarrow"])
@pytest.mark.parametrize(
    "url", ["s3://bucket/logs", "s3://bucket/logs/", "s3a://bucket/logs", f"s3://bucket/logs/{RUN}", "s3://bucket"]
)
def test_a_log_directory_is_found_from_any_level(
    server: ObjectServer, url: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_path, "has_obstore", lambda: client == "obstore")
    server.objects["other/readme.txt"] = b"x"
    profile = fastprof.load(url)
    assert profile.events.equals(fastprof.load(LOGDIR).events)
    assert profile.sources == [url.split("/")[0] + f"//bucket/{KEY}"]


def test_globs_match_objects(server: ObjectServer) -> None:
    server.objects |= {"a/1.xplane.pb": CAPTURE, "a/2.xplane.pb": CAPTURE, "a/notes.txt": b"", "b/3.xplane.pb": CAPTURE}
    for pattern, hosts in (
        ("a/*.xplane.pb", ["1", "2"]),
        ("a/[2-9].xplane.pb", ["2"]),
        ("?/*.pb", ["1", "2", "3"]),
        ("**/3.xplane.pb", ["3"]),
        ("logs/plugins/profile/*", ["vm"]),
    ):
        session = resolve(f"s3://bucket/{pattern}")
        assert [file.host for file in session.files] == hosts
    server.forget()
    resolve("s3://bucket/**/3.xplane.pb")
    assert len(names(server)) == len(set(names(server)))
    with pytest.raises(NotFoundError, match="no path matches"):
        resolve("s3://bucket/c/*.xplane.pb")
    server.fault = lambda _: "403"
    with pytest.raises(UnreadableError, match="the store refuses access"):
        resolve("s3://bucket/c/*.xplane.pb")


def test_a_folder_that_is_an_object_too_is_a_folder(server: ObjectServer) -> None:
    server.objects |= {"logs": b"marker", "logs/": b"", f"logs/{RUN}/": b""}
    assert fastprof.load("s3://bucket/logs").run == "2026_11_21_09_58_38"


@pytest.mark.parametrize("name", ["my runs", "a%20b", "ü", "a=b&c", "a+b", "n#1", "x" * 200])
def test_keys_may_have_any_characters(server: ObjectServer, name: str) -> None:
    server.objects = {f"{name}/plugins/profile/{name}/{name}.xplane.pb": CAPTURE}
    profile = fastprof.load(f"s3://bucket/{name}")
    assert (profile.run, profile.host_names) == (name, [name])
    assert profile.events.num_rows == 752


def test_keys_with_an_empty_part_are_explained(server: ObjectServer) -> None:
    server.objects["logs//plugins/x.xplane.pb"] = CAPTURE
    with pytest.raises(UnreadableError, match="keys here have an empty part"):
        fastprof.load("s3://bucket/logs")
    assert fastprof.load("s3://bucket/logs/plugins").run == "2026_11_21_09_58_38"


def test_hosts_of_a_run_are_fetched_side_by_side(server: ObjectServer) -> None:
    for number in range(40):
        server.objects[f"many/host{number:02}.xplane.pb"] = CAPTURE
    seen: list[tuple[str, int, int]] = []
    profile = fastprof.load("s3://bucket/many", progress=lambda *stage: seen.append(stage))
    assert seen[1] == ("fetching bytes", len(CAPTURE), 40 * len(CAPTURE))
    assert profile.host_names == [f"host{number:02}" for number in range(40)]
    assert server.count("GET") == 41
    assert server.count("HEAD") == 0


def test_lists_may_have_other_tags_than_objects(server: ObjectServer) -> None:
    server.list_tag = lambda content: f'"{len(content)}"'
    assert fastprof.load("s3://bucket/logs").events.num_rows == 752


def test_google_cloud_storage_answers_in_the_same_way(server: ObjectServer) -> None:
    options = {"base_url": server.address, "skip_signature": True, "client_options": {"allow_http": True}}
    for url in ("gs://bucket/logs", "gcs://bucket/logs"):
        profile = fastprof.load(url, storage_options=options)
        assert profile.events.num_rows == 752
        assert profile.sources == [f"{url.partition('bucket')[0]}bucket/{KEY}"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("dbfs:/mnt/logs", "/dbfs/mnt/logs"),
        ("ftp://host/logs", "copy the file"),
        ("file:///tmp/x", "without file://"),
        ("gs:///logs", "no bucket"),
        ("https:///logs", "no host"),
    ],
)
def test_urls_that_cannot_be_read_say_what_helps(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        fastprof.load(url)


def test_nothing_there_is_not_found(server: ObjectServer) -> None:
    with pytest.raises(NotFoundError, match="no such object"):
        fastprof.load("s3://bucket/nothing")
    server.objects["texts/a.txt"] = b"x"
    with pytest.raises(NotFoundError, match="no captures"):
        fastprof.load("s3://bucket/texts")
