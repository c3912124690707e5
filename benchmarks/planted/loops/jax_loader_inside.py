"""The marked step begins with reading a shard of the data set from a slow disk."""

import itertools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


def predict(params, inputs):
    for w, b in params:
        inputs = jnp.tanh(inputs @ w + b)
    return inputs


@jax.jit
def update(params, inputs, targets):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((predict(p, inputs) - targets) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


def read_shard(number):
    time.sleep(0.008)
    rows = np.full((128, 256), number / 100, np.float32)
    return rows, rows * 0.5


def main(logdir):
    params = [(jnp.eye(256), jnp.zeros(256)) for _ in range(2)]
    update(params, *read_shard(0))[1].block_until_ready()
    begins, waits = [], []
    jax.profiler.start_trace(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        with jax.profiler.StepTraceAnnotation("train_step", step_num=step):
            since = time.perf_counter_ns()
            inputs, targets = read_shard(step)
            waits.append(time.perf_counter_ns() - since)
            params, loss = update(params, inputs, targets)
            jax.block_until_ready(loss)
    begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
