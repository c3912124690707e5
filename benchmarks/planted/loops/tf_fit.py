"""Keras `fit` with a dataset whose map calls slow Python, profiled from start to stop. Nothing is prefetched, so that
`fit` waits as long as Python takes. What is planted includes the creation of the iterator."""

import itertools
import json
import sys
import time

import numpy as np
import tensorflow as tf

EPOCH, BEGINS, ENDS, WAITS = [], [], [], []


def open_document(number):
    since = time.perf_counter_ns()
    time.sleep(0.03)
    words = np.full((128, 512), number / 100, np.float32)
    WAITS.append(time.perf_counter_ns() - since)
    return words


def example(number):
    words = tf.numpy_function(open_document, [number], tf.float32)
    return tf.ensure_shape(words, [128, 512]), tf.zeros([128], tf.int64)


class Stopwatch(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        EPOCH.append(time.perf_counter_ns())

    def on_train_batch_begin(self, batch, logs=None):
        BEGINS.append(time.perf_counter_ns())

    def on_train_batch_end(self, batch, logs=None):
        ENDS.append(time.perf_counter_ns())


def main(logdir):
    model = tf.keras.Sequential([tf.keras.Input((512,)), tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    dataset = tf.data.Dataset.range(10).map(example).with_options(options)
    model.fit(dataset.take(2), verbose=0)
    WAITS.clear()
    tf.profiler.experimental.start(logdir)
    model.fit(dataset, verbose=0, callbacks=[Stopwatch()])
    tf.profiler.experimental.stop()
    steps = [end - begin for begin, end in itertools.pairwise([*BEGINS, ENDS[-1]])]
    planted = sum(WAITS) + BEGINS[0] - EPOCH[0]
    print(json.dumps({"planted_ns": planted, "run_ns": sum(steps), "step_ns": steps, "input_ns": WAITS}))


main(sys.argv[1])
