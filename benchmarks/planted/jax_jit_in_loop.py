"""A function is jitted within the loop, so it is traced and compiled in every step. Steps are marked, Python is not
traced. What a step costs without that is measured with the last function."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, x, planted = jnp.eye(128), np.ones((64, 128), np.float32), 0
    (w @ x.T).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step in range(8):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            update = jax.jit(lambda w, x: w - 0.01 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w))
            w = update(w, x)
            w.block_until_ready()
            planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    since = time.perf_counter_ns()
    for _ in range(8):
        update(w, x).block_until_ready()
    print(json.dumps({"planted_ns": planted - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
