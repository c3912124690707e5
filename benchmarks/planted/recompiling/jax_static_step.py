"""The number of the step is a static argument, so every step is compiled. What a step costs without that is measured
with the numbers of before."""

import functools
import json
import sys
import time

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnums=(2,))
def update(w, x, step):
    rate = 0.1 / (1 + step)
    return w - rate * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, x, planted = jnp.eye(64), jnp.ones((32, 64)), 0
    update(w, x, 99).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step in range(4):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            w = update(w, x, step)
            w.block_until_ready()
            planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    since = time.perf_counter_ns()
    for step in range(4):
        update(w, x, step).block_until_ready()
    print(json.dumps({"planted_ns": planted - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
