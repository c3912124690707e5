"""Images are cropped, flipped and normalized by numpy on the thread that trains, before the step is marked."""

import itertools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 255, (24, 48, 48, 3), np.uint8)


@jax.jit
def train_step(w, images):
    x = images.reshape(images.shape[0], -1)
    loss, grad = jax.value_and_grad(lambda w: jnp.mean(jax.nn.relu(x @ w) ** 2))(w)
    return w - 0.01 * grad, loss


def augment(images):
    top, left = RNG.integers(0, 8, 2)
    images = images[:, top : top + 40, left : left + 40].astype(np.float32) / 255
    images = np.where(RNG.random((len(images), 1, 1, 1)) < 0.5, images[:, :, ::-1], images)
    images += RNG.normal(scale=0.02, size=images.shape)
    return (images - images.mean(axis=(1, 2), keepdims=True)) / (images.std(axis=(1, 2), keepdims=True) + 1e-6)


def main(logdir):
    w = jnp.ones((4800, 128)) * 0.01
    train_step(w, augment(IMAGES))[1].block_until_ready()
    begins, waits = [], []
    jax.profiler.start_trace(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        images = augment(IMAGES)
        waits.append(time.perf_counter_ns() - begins[-1])
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w, loss = train_step(w, images)
            loss.block_until_ready()
    begins.append(time.perf_counter_ns())
    jax.profiler.stop_trace()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
