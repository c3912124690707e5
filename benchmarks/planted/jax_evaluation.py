"""After every third step the program evaluates its model on held-out rows. Steps are marked, Python is traced."""

import json
import sys
import time

import jax
import jax.numpy as jnp


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


@jax.jit
def errors(w, x):
    return jnp.mean(jnp.abs(jnp.tanh(jnp.tanh(x @ w) @ w)))


def evaluate(w, held_out):
    total = 0.0
    for rows in held_out:
        total += float(errors(w, rows))
    return total / len(held_out)


def main(logdir):
    w, x, planted = jnp.eye(512), jnp.ones((384, 512)), 0
    held_out = [jnp.ones((1024, 512)) * k for k in range(3)]
    train_step(w, x).block_until_ready()
    evaluate(w, held_out)
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(9):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train_step(w, x)
            w.block_until_ready()
        if step % 3 == 2:
            since = time.perf_counter_ns()
            evaluate(w, held_out)
            planted += time.perf_counter_ns() - since
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
