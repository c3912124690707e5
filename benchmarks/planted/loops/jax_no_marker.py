"""A for loop over a generator that is slow to give batches. Nothing marks steps."""

import itertools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(params, batch):
    def loss_fn(params):
        return jnp.mean((jnp.tanh(batch["x"] @ params["w"]) @ params["w"] - batch["y"]) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return {"w": params["w"] - 0.01 * grads["w"]}, loss


def train_epoch(steps):
    for number in range(steps):
        time.sleep(0.008)
        x = np.full((128, 320), number / steps, np.float32)
        yield {"x": x, "y": x}


def main(logdir):
    params = {"w": jnp.eye(320)}
    for batch in train_epoch(1):
        train_step(params, batch)[1].block_until_ready()
    begins, waits, losses = [], [], []
    jax.profiler.start_trace(logdir)
    begins.append(time.perf_counter_ns())
    for batch in train_epoch(12):
        waits.append(time.perf_counter_ns() - begins[-1])
        params, loss = train_step(params, batch)
        losses.append(float(loss))
        begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
