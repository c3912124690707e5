"""Every batch has another length, so every step compiles. Steps are marked, Python is not traced. What a step costs
without compilation is measured with the shapes that are compiled by then."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, steps = jnp.eye(128), []
    batches = [np.ones((length, 128), np.float32) for length in range(100, 108)]
    train_step(w, np.ones((99, 128), np.float32)).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step, x in enumerate(batches):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            w = train_step(w, x)
            w.block_until_ready()
            steps.append(time.perf_counter_ns() - since)
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    again = []
    for x in batches:
        since = time.perf_counter_ns()
        w = train_step(w, x)
        w.block_until_ready()
        again.append(time.perf_counter_ns() - since)
    print(json.dumps({"planted_ns": sum(steps) - sum(again), "run_ns": run}))


main(sys.argv[1])
