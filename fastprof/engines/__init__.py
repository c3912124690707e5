"""Engines: how do other processes and machines read the hosts of a session?"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprof.engines.executors import processes, ray_executor
    from fastprof.engines.rows_of_files import host_rows

__all__ = ["engine", "engine_hosts", "executors", "host_rows", "host_task", "processes", "ray_executor"]

_HOMES = {"host_rows": "rows_of_files", "processes": "executors", "ray_executor": "executors"}


def __getattr__(name: str) -> Any:
    """``host_rows``, ``processes`` and ``ray_executor`` are public; what they need is imported when they are used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"fastprof.engines.{_HOMES[name]}"), name)
