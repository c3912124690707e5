"""Each batch is read from a slow disk before the step is marked."""

import itertools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(params, images, labels):
    def loss_fn(params):
        hidden = jax.nn.relu(images @ params["w1"])
        logits = hidden @ params["w2"]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * labels, axis=-1))

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


def fetch(rng):
    time.sleep(0.009)
    return rng.random((128, 384), np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 128)]


def main(logdir):
    rng = np.random.default_rng(0)
    params = {"w1": jnp.ones((384, 384)) * 0.01, "w2": jnp.ones((384, 10)) * 0.01}
    train_step(params, *fetch(rng))[1].block_until_ready()
    begins, waits = [], []
    jax.profiler.start_trace(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        images, labels = fetch(rng)
        waits.append(time.perf_counter_ns() - begins[-1])
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            params, loss = train_step(params, images, labels)
            loss.block_until_ready()
    begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
