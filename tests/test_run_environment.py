"""What a session ran on, of several hosts."""

from __future__ import annotations

from fastprof.derive.devices.run_environment import NO_DEVICES, HostEnvironment, merge_environments


def host(
    name: str, kind: str, device: str, count: int, errors: tuple[str, ...] = (), warnings: tuple[str, ...] = ()
) -> HostEnvironment:
    return HostEnvironment(name, name, kind, device, count, "unknown", errors, warnings, NO_DEVICES)


def test_devices_add_up_and_the_last_type_is_the_sessions() -> None:
    ops = merge_environments(
        [host("a", "TPU", "TPU v4", 4), host("b", "CPU_ONLY", "CPU", 0), host("c", "TPU", "TPU v5", 8)]
    )
    assert (ops.hardware, ops.device_type, ops.device_count) == ("TPU", "TPU v5", 12)
    assert (ops.host_count, ops.task_count) == (3, 3)


def test_a_session_without_devices_is_one_of_cpus() -> None:
    ops = merge_environments([host("a", "CPU_ONLY", "CPU", 0), host("b", "CPU_ONLY", "CPU", 0)])
    assert (ops.hardware, ops.device_type, ops.device_count) == ("CPU_ONLY", "CPU", 0)


def test_captures_of_one_host_count_as_one_host() -> None:
    ops = merge_environments([host("a", "GPU", "GPU", 1), host("a", "GPU", "GPU", 1)])
    assert (ops.host_count, ops.task_count) == (1, 2)


def test_errors_and_warnings_are_reported_once_a_host() -> None:
    one = host("a", "GPU", "GPU", 1, ("z", "a"), ("w", "v", "w"))
    ops = merge_environments([one, host("b", "GPU", "GPU", 1, ("z",), ("w",))])
    assert ops.errors == ("a", "z", "z")  # in order, as XProf has them
    assert ops.warnings == ("w", "v", "w")


def test_no_captures_are_nothing_to_report() -> None:
    assert merge_environments([]).task_count == 0
