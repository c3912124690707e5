"""A thread prefetches batches into a queue, more slowly than the step takes them. Steps are marked after the queue."""

import itertools
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
    loss, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)
    return w - 0.01 * grad, loss


def download(number):
    time.sleep(0.016)
    return np.full((128, 320), number / 1000, np.float32)


class Prefetcher:
    def __init__(self, count):
        self.ready = queue.Queue(maxsize=1)
        self.thread = threading.Thread(target=self.fill, args=(count,), daemon=True)
        self.thread.start()

    def fill(self, count):
        for number in range(count):
            self.ready.put(download(number))

    def __next__(self):
        return self.ready.get()


def main(logdir):
    w, source = jnp.eye(320), Prefetcher(14)
    train_step(w, next(source))[1].block_until_ready()
    next(source)
    begins, waits = [], []
    jax.profiler.start_trace(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        x = next(source)
        waits.append(time.perf_counter_ns() - begins[-1])
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w, loss = train_step(w, x)
            loss.block_until_ready()
    begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
