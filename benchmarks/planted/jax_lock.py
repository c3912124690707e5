"""The training thread waits for a lock that another thread holds most of the time. Steps are marked, Python is
traced."""

import json
import sys
import threading
import time

import jax
import jax.numpy as jnp

LOCK, DONE = threading.Lock(), threading.Event()


@jax.jit
def train_step(w, x):
    return w - 0.01 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w @ w) ** 2))(w)


def publish():
    while not DONE.is_set():
        with LOCK:
            time.sleep(0.015)
        time.sleep(0.002)


def main(logdir):
    w, x, planted, shared = jnp.eye(384), jnp.ones((256, 384)), 0, {}
    train_step(w, x).block_until_ready()
    other = threading.Thread(target=publish)
    other.start()
    jax.profiler.start_trace(logdir)
    begun = time.perf_counter_ns()
    for step in range(10):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train_step(w, x)
            w.block_until_ready()
            since = time.perf_counter_ns()
            LOCK.acquire()
            planted += time.perf_counter_ns() - since
            shared["w"] = w
            LOCK.release()
    run = time.perf_counter_ns() - begun
    jax.profiler.stop_trace()
    DONE.set()
    other.join()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
