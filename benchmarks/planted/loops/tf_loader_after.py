"""`next` follows the marked step. The dataset maps each element with slow ops of TensorFlow on one thread."""

import itertools
import json
import sys
import time

import tensorflow as tf


def distort(number):
    image = tf.random.stateless_uniform([320, 320, 3], [0, number])
    image = tf.image.adjust_contrast(tf.image.random_flip_left_right(image), 0.8)
    return tf.image.resize(image, [64, 64])


@tf.function
def train_step(w, images):
    x = tf.reshape(images, [-1, 256])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.relu(tf.matmul(tf.matmul(x, w), w)) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss


def main(logdir):
    w = tf.Variable(tf.eye(256))
    iterator = iter(tf.data.Dataset.range(10_000, output_type=tf.int32).map(distort).batch(4))
    images = next(iterator)
    train_step(w, images)
    begins, waits = [], []
    tf.profiler.experimental.start(logdir)
    for step in range(10):
        begins.append(time.perf_counter_ns())
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            loss = train_step(w, images)
            loss.numpy()
        since = time.perf_counter_ns()
        images = next(iterator)
        waits.append(time.perf_counter_ns() - since)
    begins.append(time.perf_counter_ns())
    tf.profiler.experimental.stop()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
