"""A healthy program: many steps in one compiled loop, while a thread prepares the next batches. No step is marked,
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
def train(w, batches):
    def step(w, x):
        return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w), None

    return jax.lax.scan(step, w, batches)[0]


def produce(ready):
    rows = np.ones((4, 512, 768), np.float32)
    for _ in range(8):
        ready.put(jax.device_put(rows))


def main(logdir):
    w, ready = jnp.eye(768), queue.Queue(4)
    other = threading.Thread(target=produce, args=(ready,))
    other.start()
    train(w, ready.get()).block_until_ready()
    time.sleep(0.05)
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for _ in range(6):
        w = train(w, ready.get())
        w.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    ready.get()
    other.join()
    print(json.dumps({"planted_ns": 0, "run_ns": run}))


main(sys.argv[1])
