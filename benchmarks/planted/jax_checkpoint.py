"""The weights are saved in every step. Steps are marked, Python is traced."""

import json
import os
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


def save_checkpoint(folder, w, step):
    np.savez(os.path.join(folder, f"step-{step}.npz"), weights=np.asarray(w))


def main(logdir):
    w, x, planted = jnp.eye(1024), jnp.ones((64, 1024)), 0
    train_step(w, x).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(folder, w, 0)
        jax.profiler.start_trace(logdir)
        begun = time.perf_counter_ns()
        for step in range(6):
            with jax.profiler.StepTraceAnnotation("train", step_num=step):
                w = train_step(w, x)
                w.block_until_ready()
                since = time.perf_counter_ns()
                save_checkpoint(folder, w, step)
                planted += time.perf_counter_ns() - since
        run = time.perf_counter_ns() - begun
        jax.profiler.stop_trace()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
