"""The next batch is made after the marked step, at the end of the loop's body."""

import itertools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x, y):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) @ w - y) ** 2))(w)
    return w - 0.01 * grad, loss


class Examples:
    def __init__(self):
        self.rng = np.random.default_rng(0)

    def make_example(self):
        time.sleep(0.0005)
        return self.rng.random(320, np.float32)

    def next_batch(self):
        x = np.stack([self.make_example() for _ in range(16)])
        return np.tile(x, (8, 1)), np.zeros((128, 320), np.float32)


def main(logdir):
    examples = Examples()
    w = jnp.eye(320)
    x, y = examples.next_batch()
    train_step(w, x, y)[1].block_until_ready()
    begins, waits = [], []
    jax.profiler.start_trace(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w, loss = train_step(w, x, y)
            loss.block_until_ready()
        since = time.perf_counter_ns()
        x, y = examples.next_batch()
        waits.append(time.perf_counter_ns() - since)
    begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
