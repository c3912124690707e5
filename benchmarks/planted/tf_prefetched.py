"""A healthy program: one tf.function a step, and tf.data is a batch ahead. Steps are marked, Python is not traced."""

import json
import sys
import time

import tensorflow as tf


@tf.function
def train_step(w, x):
    for _ in range(3):
        x = tf.tanh(tf.linalg.matmul(x, w))
    w.assign_sub(0.001 * tf.linalg.matmul(x, x, transpose_a=True))


def main(logdir):
    w = tf.Variable(tf.eye(1024))
    rows = tf.data.Dataset.range(100).map(lambda i: tf.fill([1024, 1024], tf.cast(i, tf.float32))).prefetch(2)
    source = iter(rows)
    train_step(w, next(source))
    time.sleep(0.05)
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(logdir, options)
    begun = time.perf_counter_ns()
    for step in range(8):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            train_step(w, next(source))
    run = time.perf_counter_ns() - begun
    tf.profiler.experimental.stop()
    print(json.dumps({"planted_ns": 0, "run_ns": run}))


main(sys.argv[1])
