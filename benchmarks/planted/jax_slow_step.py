"""One step of ten computes eight times as long: its batch needs more iterations. Steps are marked, Python is not
traced."""

import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def train_step(w, count):
    return jax.lax.fori_loop(0, count, lambda _, w: jnp.tanh(w @ w) * 0.5 + 0.5 * w, w)


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, steps = jnp.eye(384), []
    train_step(w, 2).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step in range(10):
        since = time.perf_counter_ns()
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train_step(w, 24 if step == 6 else 3)
            w.block_until_ready()
        steps.append(time.perf_counter_ns() - since)
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": int(max(steps) - statistics.median(steps)), "run_ns": run}))


main(sys.argv[1])
