"""A step is two hundred calls of small compiled functions, of a microsecond of work each. Steps are marked, Python is
not traced. What the work costs in one compiled function is measured afterwards."""

import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def add(a, b):
    return a + b


@jax.jit
def scale(a):
    return a * 0.5


def layers(state, delta):
    for _ in range(20):
        state = scale(add(state, delta))
    return state


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    state, delta = jnp.zeros(64), jnp.ones(64)
    layers(state, delta).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step in range(6):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            state = layers(state, delta)
            state.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    whole = jax.jit(layers)
    whole(state, delta).block_until_ready()
    compiled = []
    for _ in range(20):
        since = time.perf_counter_ns()
        state = whole(state, delta)
        state.block_until_ready()
        compiled.append(time.perf_counter_ns() - since)
    print(json.dumps({"planted_ns": run - 6 * int(statistics.median(compiled)), "run_ns": run}))


main(sys.argv[1])
