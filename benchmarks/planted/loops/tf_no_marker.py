"""A for loop over a dataset whose map calls slow Python. Nothing marks steps."""

import itertools
import json
import sys
import time

import numpy as np
import tensorflow as tf


def open_image(number):
    time.sleep(0.008)
    return np.full((64, 320), number / 100, np.float32)


@tf.function
def train_step(w, images):
    x = tf.reshape(images, [-1, 320])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(tf.matmul(tf.matmul(x, w), w)) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def image(number):
    return tf.ensure_shape(tf.numpy_function(open_image, [number], tf.float32), [64, 320])


def main(logdir):
    w = tf.Variable(tf.eye(320))
    batches = tf.data.Dataset.range(24).map(image).batch(2)
    for x in batches.take(1):
        train_step(w, x)
    begins, waits, losses = [], [], []
    tf.profiler.experimental.start(logdir)
    begins.append(time.perf_counter_ns())
    for x in batches:
        waits.append(time.perf_counter_ns() - begins[-1])
        losses.append(train_step(w, x).numpy())
        begins.append(time.perf_counter_ns())
    tf.profiler.experimental.stop()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
