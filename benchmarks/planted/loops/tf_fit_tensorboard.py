"""Keras `fit` with a dataset that a slow generator feeds; the TensorBoard callback profiles some batches. Nothing is
prefetched, so that `fit` waits as long as the generator takes."""

import itertools
import json
import sys
import time

import numpy as np
import tensorflow as tf

FIRST, LAST = 3, 11
BEGINS, ENDS, WAITS = [], [], []


def read_images():
    while True:
        since = time.perf_counter_ns()
        time.sleep(0.03)
        batch = np.ones((16, 24, 24, 3), np.float32), np.zeros(16, np.int64)
        WAITS.append(time.perf_counter_ns() - since)
        yield batch


class Begins(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        BEGINS.append(time.perf_counter_ns())


class Ends(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        ENDS.append(time.perf_counter_ns())


def main(logdir):
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [tf.keras.Input((24, 24, 3)), layers.Conv2D(8, 3, activation="relu"), layers.Flatten(), layers.Dense(10)]
    )
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    shapes = (tf.TensorSpec([16, 24, 24, 3]), tf.TensorSpec([16], tf.int64))
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    dataset = tf.data.Dataset.from_generator(read_images, output_signature=shapes).with_options(options)
    tensorboard = tf.keras.callbacks.TensorBoard(logdir, profile_batch=(FIRST, LAST))
    model.fit(dataset, steps_per_epoch=LAST + 1, verbose=0, callbacks=[Ends(), tensorboard, Begins()])
    begins = [*BEGINS[FIRST - 1 : LAST], ENDS[LAST - 1]]
    steps, waits = [end - begin for begin, end in itertools.pairwise(begins)], WAITS[FIRST - 1 : LAST]
    print(json.dumps({"planted_ns": sum(waits), "run_ns": sum(steps), "step_ns": steps, "input_ns": waits}))


main(sys.argv[1])
