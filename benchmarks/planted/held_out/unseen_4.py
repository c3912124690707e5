"""One batch of twelve is shorter than the others and compiles. No step is marked, Python is not traced."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def update(params, rows):
    return params - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(rows @ w @ w) ** 2))(params)


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    params, steps = jnp.eye(512), []
    update(params, np.ones((256, 512), np.float32)).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step in range(12):
        rows = np.ones((200 if step == 8 else 256, 512), np.float32)
        since = time.perf_counter_ns()
        params = update(params, rows)
        params.block_until_ready()
        steps.append(time.perf_counter_ns() - since)
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    since = time.perf_counter_ns()
    update(params, np.ones((200, 512), np.float32)).block_until_ready()
    print(json.dumps({"planted_ns": steps[8] - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
