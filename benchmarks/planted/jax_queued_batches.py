"""A thread makes batches for a queue; it is slower than the steps. Steps are marked, Python is traced."""

import json
import queue
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


def produce(batches, count):
    rows = np.ones((256, 384), np.float32)
    for _ in range(count):
        time.sleep(0.04)
        batches.put(rows)


def main(logdir):
    w, planted, made = jnp.eye(384), 0, queue.Queue(2)
    threading.Thread(target=produce, args=(made, 11), daemon=True).start()
    train_step(w, made.get()).block_until_ready()
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(10):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            x = made.get()
            planted += time.perf_counter_ns() - since
            w = train_step(w, x)
            w.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
