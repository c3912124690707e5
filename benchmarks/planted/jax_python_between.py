"""Each step ends with a loop in Python over the loss of every row. Steps are marked, Python is traced."""

import json
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def train_step(w, x):
    def loss(w):
        rows = jnp.mean(jnp.tanh(x @ w @ w) ** 2, axis=1)
        return rows.mean(), rows

    gradient, rows = jax.grad(loss, has_aux=True)(w)
    return w - 0.01 * gradient, rows


def summary(rows):
    total = 0.0
    for _ in range(250):
        for row in rows:
            total += row * row if row > 0.001 else row
    return total


def main(logdir):
    w, x, planted = jnp.eye(384), jnp.ones((256, 384)), 0
    w, rows = train_step(w, x)
    rows.tolist()
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(10):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w, rows = train_step(w, x)
            numbers = rows.tolist()
            since = time.perf_counter_ns()
            summary(numbers)
            planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
