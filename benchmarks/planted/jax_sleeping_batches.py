"""The generator that gives batches sleeps, as one does that reads from a slow disk. Steps are marked, Python is
traced."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


def batches():
    rows = np.ones((256, 384), np.float32)
    while True:
        time.sleep(0.012)
        yield rows


def main(logdir):
    w, source, planted = jnp.eye(384), batches(), 0
    train_step(w, next(source)).block_until_ready()
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(10):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            x = next(source)
            planted += time.perf_counter_ns() - since
            w = train_step(w, x)
            w.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
