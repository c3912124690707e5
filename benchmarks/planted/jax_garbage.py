"""Every step collects garbage among many objects. Steps are marked, Python is traced."""

import gc
import json
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


def main(logdir):
    w, x, planted = jnp.eye(384), jnp.ones((256, 384)), 0
    history = [{"step": number, "values": [number]} for number in range(60_000)]
    train_step(w, x).block_until_ready()
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(8):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train_step(w, x)
            w.block_until_ready()
            history.append({"step": step})
            since = time.perf_counter_ns()
            gc.collect()
            planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
