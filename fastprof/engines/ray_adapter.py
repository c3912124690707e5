"""Ray as an executor: a remote function a host, spread over the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from fastprof.errors import UsageError


def ray_executor(num_cpus: float = 1, memory: int | None = None, max_retries: int = 3) -> Executor:
    """Return an executor for ``load(executor=…)``. ``num_cpus``, ``memory`` (bytes): what Ray sets aside for a host;
    ``max_retries``: how often Ray runs one again whose worker was lost. Starts Ray if ``ray.init`` was not called.
    UsageError: Ray is not installed."""
    try:
        import ray
    except ImportError:
        raise UsageError("ray_executor needs Ray: pip install ray") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    options: dict[str, Any] = {"num_cpus": num_cpus, "max_retries": max_retries, "scheduling_strategy": "SPREAD"}
    return RayExecutor(ray, options | ({} if memory is None else {"memory": memory}))


class RayExecutor(Executor):
    """``ray``: the package; ``options``: of each remote function."""

    def __init__(self, ray: Any, options: dict[str, Any]) -> None:
        self._ray = ray
        self._options = options
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if fn not in self._remote:
            self._remote[fn] = self._ray.remote(fn).options(**self._options)
        future: Future[Any] = self._remote[fn].remote(*args, **kwargs).future()
        return future
