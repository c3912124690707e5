"""The step is marked after `next` of a dataset whose map calls Python, which reads from a slow disk."""

import itertools
import json
import sys
import time

import numpy as np
import tensorflow as tf


def read_record(number):
    time.sleep(0.013)
    return np.full((128, 320), number / 100, np.float32)


@tf.function
def train_step(w, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(tf.matmul(tf.matmul(x, w), w)) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def load(number):
    x = tf.numpy_function(read_record, [number], tf.float32)
    return tf.ensure_shape(x, [128, 320])


def main(logdir):
    w = tf.Variable(tf.eye(320))
    iterator = iter(tf.data.Dataset.range(1000).map(load))
    train_step(w, next(iterator))
    begins, waits = [], []
    tf.profiler.experimental.start(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        x = next(iterator)
        waits.append(time.perf_counter_ns() - begins[-1])
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            loss = train_step(w, x)
            loss.numpy()
    begins.append(time.perf_counter_ns())
    tf.profiler.experimental.stop()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
