"""Batches of two epochs, whose last one is smaller: the step compiles again for its shape. Parameters and batches are
dictionaries. Steps are marked, Python is not traced. What a step costs without compilation is measured afterwards."""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def train_step(params, batch):
    def loss(params):
        return jnp.mean((jnp.tanh(batch["x"] @ params["w"]) @ params["v"] - batch["y"]) ** 2)

    return jax.tree.map(lambda p, g: p - 0.01 * g, params, jax.grad(loss)(params))


def main(logdir):
    x, y = np.ones((207 + 200, 64), np.float32), np.ones((207 + 200, 4), np.float32)
    params = {"w": jnp.eye(64), "v": jnp.ones((64, 4))}
    batches = [{"x": x[begin:end], "y": y[begin:end]} for begin, end in ((0, 200), (200, 400), (400, 407))]
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    jax.profiler.start_trace(logdir, profiler_options=options)
    begun, steps = time.perf_counter_ns(), []
    for step, batch in enumerate(batches):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            since = time.perf_counter_ns()
            params = jax.block_until_ready(train_step(params, batch))
            steps.append(time.perf_counter_ns() - since)
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    since = time.perf_counter_ns()
    for batch in batches:
        params = jax.block_until_ready(train_step(params, batch))
    print(json.dumps({"planted_ns": sum(steps) - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
