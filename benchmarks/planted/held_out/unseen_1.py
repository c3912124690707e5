"""A thread loads batches into a queue, and the queue is empty when the training thread asks. Steps are marked,
Python is traced."""

import json
import queue
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def update(params, rows):
    return params - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(rows @ w @ w) ** 2))(params)


def worker(ready):
    rows = np.ones((256, 384), np.float32)
    for _ in range(12):
        time.sleep(0.014)
        ready.put(rows)


def main(logdir):
    params, ready, planted = jnp.eye(384), queue.Queue(2), 0
    other = threading.Thread(target=worker, args=(ready,))
    other.start()
    update(params, ready.get()).block_until_ready()
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(10):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            rows = ready.get()
            planted += time.perf_counter_ns() - since
            params = update(params, rows)
            params.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    ready.get()
    other.join()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
