"""tf.data maps each element on one thread, slower than the step that waits for it. Steps are marked, Python is not
traced."""

import json
import sys
import time

import tensorflow as tf


@tf.function
def augment(number):
    rows = tf.random.stateless_normal([160, 160], [1, number])
    for _ in range(6):
        rows = tf.linalg.matmul(rows, rows) * 0.001
    return rows[:8, :64]


@tf.function
def train_step(w, x):
    for _ in range(2):
        x = tf.tanh(tf.linalg.matmul(x, w))
    w.assign_sub(0.001 * tf.linalg.matmul(x, x, transpose_a=True))


def main(logdir):
    w, planted = tf.Variable(tf.eye(64)), 0
    rows = iter(tf.data.Dataset.range(10_000).map(lambda i: augment(tf.cast(i, tf.int32))).unbatch().batch(64))
    train_step(w, next(rows))
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(logdir, options)
    begun = time.perf_counter_ns()
    for step in range(8):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            since = time.perf_counter_ns()
            x = next(rows)
            planted += time.perf_counter_ns() - since
            train_step(w, x)
    run = time.perf_counter_ns() - begun
    tf.profiler.experimental.stop()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
