"""Keras trains with a callback that works in Python after each batch. Keras marks the steps, Python is not traced; the
callback marks its own work."""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

SPENT = []


class Report(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, **_):
        since = time.perf_counter_ns()
        with tf.profiler.experimental.Trace("epoch_report"):
            text = ""
            for number in range(240_000):
                text = f"{batch}:{number}" if len(text) > 3 else text + "."
        SPENT.append(time.perf_counter_ns() - since)


def main(logdir):
    model = keras.Sequential([keras.layers.Dense(512, activation="relu"), keras.layers.Dense(64)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = np.ones((512, 256), np.float32), np.ones((512, 64), np.float32)
    model.fit(x, y, batch_size=64, epochs=2, verbose=0)
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    report = Report()
    tf.profiler.experimental.start(logdir, options)
    begun = time.perf_counter_ns()
    model.fit(x, y, batch_size=64, epochs=1, verbose=0, callbacks=[report])
    run = time.perf_counter_ns() - begun
    tf.profiler.experimental.stop()
    print(json.dumps({"planted_ns": sum(SPENT), "run_ns": run}))


main(sys.argv[1])
