"""The rate is a Python number in some steps and an array in others, of 32 and 16 bits: one program each. What a step
costs without compilation is measured afterwards."""

import json
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def update(w, x, rate):
    return w - rate * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, x, planted = jnp.eye(64), jnp.ones((32, 64)), 0
    half = x.astype(jnp.bfloat16)
    rates = [(x, 0.1), (x, jnp.float32(0.1)), (half, jnp.float32(0.1)), (x, 1), (x, 0.1)]
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for step, (batch, rate) in enumerate(rates):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            w = update(w, batch, rate)
            w.block_until_ready()
            planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    since = time.perf_counter_ns()
    for batch, rate in rates:
        update(w, batch, rate).block_until_ready()
    print(json.dumps({"planted_ns": planted - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
