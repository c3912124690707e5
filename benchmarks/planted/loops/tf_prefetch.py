"""The dataset prefetches one batch, and is still slower than the step. The step is marked before `next`."""

import itertools
import json
import sys
import time

import numpy as np
import tensorflow as tf


def decode(number):
    time.sleep(0.016)
    return np.full((128, 320), number / 100, np.float32)


@tf.function
def train_step(w, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(tf.matmul(tf.matmul(x, w), w)) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def parse(number):
    (x,) = tf.py_function(decode, [number], [tf.float32])
    return tf.ensure_shape(x, [128, 320])


def main(logdir):
    w = tf.Variable(tf.eye(320))
    iterator = iter(tf.data.Dataset.range(1000).map(parse).prefetch(1))
    train_step(w, next(iterator))
    begins, waits = [], []
    tf.profiler.experimental.start(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            since = time.perf_counter_ns()
            x = next(iterator)
            waits.append(time.perf_counter_ns() - since)
            loss = train_step(w, x).numpy()
    begins.append(time.perf_counter_ns())
    tf.profiler.experimental.stop()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    assert np.isfinite(loss)
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
