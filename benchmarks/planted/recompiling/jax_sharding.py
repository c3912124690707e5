"""Every second batch is not split over the four devices: the step compiles again for its sharding. The program marks no
steps. What a step costs without compilation is measured afterwards."""

import json
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@jax.jit
def train_step(w, x):
    return w - 0.001 * (x.T @ (x @ w))


def main(logdir):
    mesh = Mesh(np.array(jax.devices()), ("devices",))
    w = jax.device_put(jnp.eye(16), NamedSharding(mesh, PartitionSpec()))
    parts = PartitionSpec("devices"), PartitionSpec(), PartitionSpec("devices"), PartitionSpec()
    batches = [jax.device_put(np.ones((32, 16), np.float32), NamedSharding(mesh, part)) for part in parts]
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun, planted = time.perf_counter_ns(), 0
    for x in batches:
        since = time.perf_counter_ns()
        w = train_step(w, x).block_until_ready()
        planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    since = time.perf_counter_ns()
    for x in batches:
        w = train_step(w, x).block_until_ready()
    print(json.dumps({"planted_ns": planted - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
