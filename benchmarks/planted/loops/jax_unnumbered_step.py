"""An annotation without a number surrounds the step, and the loader comes before it."""

import itertools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, tokens):
    x = jax.nn.one_hot(tokens, w.shape[0])
    loss, grad = jax.value_and_grad(lambda w: -jnp.mean(jax.nn.log_softmax(x @ w @ w)))(w)
    return w - 0.01 * grad, loss


class Corpus:
    def __init__(self):
        self.position = 0

    def sample(self, size):
        time.sleep(0.01)
        self.position += size
        return np.arange(self.position, self.position + size, dtype=np.int32) % 320


def main(logdir):
    w, corpus = jnp.eye(320), Corpus()
    train_step(w, corpus.sample(128))[1].block_until_ready()
    begins, waits = [], []
    jax.profiler.start_trace(logdir)
    for _ in range(12):
        begins.append(time.perf_counter_ns())
        tokens = corpus.sample(128)
        waits.append(time.perf_counter_ns() - begins[-1])
        with jax.profiler.TraceAnnotation("step"):
            w, loss = train_step(w, tokens)
            loss.block_until_ready()
    begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
