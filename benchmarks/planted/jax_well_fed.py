"""A healthy program: all of a step is one compiled function, and its batch is on the device. Steps are marked,
Python is not traced."""

import json
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(jnp.tanh(x @ w) @ w @ w) ** 2))(w)


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, x = jnp.eye(512), jnp.ones((768, 512))
    train_step(w, x).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step in range(8):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train_step(w, x)
    w.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": 0, "run_ns": run}))


main(sys.argv[1])
