"""Model.fit with jit_compile=True; the last batch is smaller and its sequences have another length: XLA compiles
the step of Keras for it. The first shape is compiled before. What an epoch costs without it is measured afterwards."""

import json
import sys
import time

import numpy as np
import tensorflow as tf

SHAPES = (8, 12), (5, 16)


class Batches(tf.keras.utils.PyDataset):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        rows, length = SHAPES[number]
        return np.ones((rows, length, 4), np.float32), np.ones((rows, 1), np.float32)


def main(logdir):
    model = tf.keras.Sequential([tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=True)
    model.fit(Batches(1), epochs=1, verbose=0, shuffle=False)
    tf.profiler.experimental.start(logdir, tf.profiler.experimental.ProfilerOptions(python_tracer_level=0))
    begun = time.perf_counter_ns()
    model.fit(Batches(2), epochs=1, verbose=0, shuffle=False)
    run = time.perf_counter_ns() - begun
    tf.profiler.experimental.stop()
    since = time.perf_counter_ns()
    model.fit(Batches(2), epochs=1, verbose=0, shuffle=False)
    print(json.dumps({"planted_ns": run - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
