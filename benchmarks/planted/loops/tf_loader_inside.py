"""The marked step begins with `next` of a dataset that a slow generator feeds."""

import itertools
import json
import sys
import time

import numpy as np
import tensorflow as tf


def examples():
    rng = np.random.default_rng(0)
    while True:
        time.sleep(0.015)
        yield rng.random((128, 256), np.float32), rng.integers(0, 10, 128)


model = tf.keras.Sequential([tf.keras.Input((256,)), tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(10)])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(0.01)


@tf.function
def train_step(x, labels):
    with tf.GradientTape() as tape:
        loss = loss_fn(labels, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def main(logdir):
    shapes = (tf.TensorSpec([128, 256]), tf.TensorSpec([128], tf.int64))
    iterator = iter(tf.data.Dataset.from_generator(examples, output_signature=shapes))
    train_step(*next(iterator))
    begins, waits = [], []
    tf.profiler.experimental.start(logdir)
    for step in range(12):
        begins.append(time.perf_counter_ns())
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            since = time.perf_counter_ns()
            x, labels = next(iterator)
            waits.append(time.perf_counter_ns() - since)
            loss = train_step(x, labels)
            loss.numpy()
    begins.append(time.perf_counter_ns())
    tf.profiler.experimental.stop()
    steps = [end - begin for begin, end in itertools.pairwise(begins)]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
