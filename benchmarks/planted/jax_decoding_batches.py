"""Batches are decoded on the thread that trains, within an annotation of the user. No step is marked, Python is not
traced."""

import json
import sys
import time
import zlib

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


PACKED = zlib.compress(np.random.default_rng(0).normal(size=(256, 512)).astype(np.float32).tobytes(), 1)


def decode():
    for _ in range(5):
        x = np.frombuffer(zlib.decompress(PACKED), np.float32).reshape(256, 512)
    return x / np.abs(x).max()


def main(logdir):
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    w, planted = jnp.eye(512), 0
    train_step(w, decode()).block_until_ready()
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun = time.perf_counter_ns()
    for _ in range(12):
        since = time.perf_counter_ns()
        with jax.profiler.TraceAnnotation("load_batch"):
            x = decode()
        planted += time.perf_counter_ns() - since
        w = train_step(w, x)
        w.block_until_ready()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
