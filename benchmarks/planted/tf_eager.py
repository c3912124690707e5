"""The step is not a tf.function: small ops run one by one from Python. Steps are marked, Python is not traced. What the
same ops cost in a compiled function is measured afterwards."""

import json
import statistics
import sys
import time

import tensorflow as tf


def train_step(w, x):
    for _ in range(12):
        x = tf.tanh(tf.linalg.matmul(x, w)) * 0.5 + 0.1
    w.assign_sub(0.001 * tf.linalg.matmul(x, x, transpose_a=True))


def main(logdir):
    w, x = tf.Variable(tf.eye(16)), tf.ones((8, 16))
    train_step(w, x)
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(logdir, options)
    begun = time.perf_counter_ns()
    for step in range(6):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            train_step(w, x)
    run = time.perf_counter_ns() - begun
    tf.profiler.experimental.stop()
    whole = tf.function(train_step, jit_compile=True)
    for _ in range(4):
        whole(w, x)
    compiled = []
    for _ in range(20):
        since = time.perf_counter_ns()
        whole(w, x)
        compiled.append(time.perf_counter_ns() - since)
    print(json.dumps({"planted_ns": run - 6 * int(statistics.median(compiled)), "run_ns": run}))


main(sys.argv[1])
